"""Requests to providers: what is sent, and what becomes of the reply."""

from collections.abc import AsyncIterator, Iterator

import pytest

from autopush.bridges.provider import Provider
from autopush.delivery.bridge_contract import RouterError
from autopush.net.http2_client import Http2Client
from autopush.net.http_client import ClientLimits, client_tls
from support.apns_server import ApnsServer
from support.certificates import self_signed


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApnsServer]:
    folder = tmp_path_factory.mktemp("server")
    with ApnsServer(folder, self_signed(folder / "server.pem"), checks=False) as server:
        yield server


@pytest.fixture
def server(process: ApnsServer, monkeypatch: pytest.MonkeyPatch) -> ApnsServer:
    """The process, as it is at its start."""
    monkeypatch.setenv("SSL_CERT_FILE", str(process.certificate))
    process.reset()
    return process


@pytest.fixture
async def provider(server: ApnsServer) -> AsyncIterator[Provider]:
    client = Http2Client(client_tls(http2=True), ClientLimits(max_retry=1))
    provider = Provider("X", client=client)
    yield provider
    await provider.close()


async def test_the_path_follows_that_of_the_url(server: ApnsServer, provider: Provider) -> None:
    headers = {"authorization": "Bearer x"}
    reply = await provider.post(
        f"{server.url}/base/a?b", headers=headers, json=b'{"x":1}', application="app"
    )
    assert (reply.status, reply.document) == (200, {})
    (request,) = server.requests()
    assert (request["path"], request["payload"]) == ("/base/a?b", {"x": 1})
    sent = {"content-type": "application/json", "content-length": "7", **headers}
    assert request["headers"] == sent


@pytest.mark.parametrize(
    ("text", "document"), [('{"a": 1}', {"a": 1}), ("[1]", {}), ("<html>", {}), ("", {})]
)
async def test_the_document_of_a_reply_is_its_json_object_or_empty(
    server: ApnsServer, provider: Provider, text: str, document: dict[str, object]
) -> None:
    server.script("a", {"status": 418, "text": text, "headers": {"retry-after": "7"}})
    reply = await provider.post(f"{server.url}/a", headers={}, json=b"{}", application="app")
    assert (reply.status, reply.document) == (418, document)
    assert reply.headers["retry-after"] == "7"


async def test_no_reply_is_an_error_that_names_the_provider_in_the_log_only(
    server: ApnsServer, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    server.script("device-secret", {"do": "abort"})
    with pytest.raises(RouterError) as caught:
        await provider.post(f"{server.url}/device-secret", headers={}, json={}, application="app")
    assert (caught.value.status, caught.value.errno, caught.value.is_outage) == (502, 902, True)
    (logged,) = caplog.records
    fields = vars(logged)["fields"]
    assert (fields["provider"], fields["application"]) == ("X", "app")
    assert "device-secret" not in f"{logged.getMessage()}{fields}{caught.value!r}"
    assert len(server.requests()) == 1
