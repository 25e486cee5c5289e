"""PUT /spush: the form, the checks in their order, the answers and their headers."""

import pytest

from autopush.api.app import EXPOSED
from autopush.api.push import read_update
from autopush.net.http_messages import Request, Response
from autopush.webpush.errors import PushError
from autopush.webpush.notification import MAX_VERSION
from keytables import Throttled, Unavailable
from support.cases import cases
from support.connection_harness import CHANNEL, ENDPOINT, OTHER_NODE, UAID, Harness
from support.endpoint_harness import MAX_DATA, Endpoint, headers_of, refusal

NOW = 1_800_000_000.75
CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "PUT",
    "access-control-allow-headers": "",
    "access-control-expose-headers": EXPOSED,
    "access-control-max-age": "3600",
}


@pytest.fixture
def endpoint(harness: Harness) -> Endpoint:
    return Endpoint(harness)


def path(endpoint: Endpoint) -> str:
    return endpoint.tokens.simplepush_url(UAID, CHANNEL).removeprefix(ENDPOINT)


async def put(endpoint: Endpoint, body: bytes = b"version=3", where: str | None = None) -> Response:
    return await endpoint.ask("PUT", where or path(endpoint), body=body)


async def known_user(harness: Harness) -> None:
    """Add a user that is not connected."""
    await harness.store.users.create_simplepush(UAID, OTHER_NODE, 5, None)


async def test_of_several_errors_the_first_in_the_documented_order_is_reported(
    harness: Harness, endpoint: Endpoint
) -> None:
    body = b"version=x&data=" + b"x" * (MAX_DATA + 1)
    assert refusal(await put(endpoint, body, "/spush/v1/nonsense")) == (400, 102)
    assert harness.engine.calls == []
    assert refusal(await put(endpoint, body)) == (410, 103)
    await harness.known_user()
    assert refusal(await put(endpoint, body)) == (400, 108)
    await harness.store.users.drop(UAID)
    await known_user(harness)
    assert refusal(await put(endpoint, body)) == (400, 108)
    body = body.replace(b"=x&", b"=3&")
    assert refusal(await put(endpoint, body)) == (413, 104)
    assert harness.stored_updates() == {}
    assert (await put(endpoint, body[:-1])).status == 202
    assert harness.stored_updates() == {CHANNEL: 3}


async def test_a_token_with_a_key_is_none_of_simplepush(endpoint: Endpoint) -> None:
    await known_user(endpoint.harness)
    where = endpoint.path(key=b"key").replace("/wpush/", "/spush/")
    assert refusal(await put(endpoint, where=where)) == (400, 102)


@pytest.mark.parametrize("version", ["v1/", "v2/", ""])
async def test_the_version_in_the_path_says_nothing(endpoint: Endpoint, version: str) -> None:
    await known_user(endpoint.harness)
    where = path(endpoint).replace("v1/", version)
    assert (await put(endpoint, where=where)).status == 202


async def test_the_answers_have_the_originals_text_and_the_headers_of_the_route(
    harness: Harness, endpoint: Endpoint
) -> None:
    agent = await harness.identified(None, use_webpush=False)
    agent.register()
    await harness.run_until_idle()
    where = agent.reply()["pushEndpoint"].removeprefix(ENDPOINT)
    delivered = await put(endpoint, where=where)
    assert (delivered.status, delivered.body) == (200, b"Delivered")
    await known_user(harness)
    stored = await put(endpoint)
    assert (stored.status, stored.body) == (202, b"Notification Stored")
    refused = await put(endpoint, where="/spush/v1/nonsense")
    for response in (delivered, stored, refused, await endpoint.ask("OPTIONS", where)):
        headers = headers_of(response)
        assert {name: headers[name] for name in CORS} == CORS
    assert "location" not in headers_of(stored)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PATCH"])
async def test_other_methods_are_405(endpoint: Endpoint, method: str) -> None:
    response = await endpoint.ask(method, path(endpoint))
    assert refusal(response) == (405, 102)
    assert headers_of(response)["allow"] == "PUT, OPTIONS, HEAD"


@pytest.mark.parametrize("where", ["/spush", "/spush/", "/spush/v1/", "/spush/v1/a/b"])
async def test_a_path_without_a_token_is_404(endpoint: Endpoint, where: str) -> None:
    assert refusal(await put(endpoint, where=where)) == (404, 102)


@pytest.mark.parametrize(
    ("error", "outcome"), [(Throttled("full"), (503, 201)), (Unavailable("gone"), (503, 202))]
)
@pytest.mark.parametrize("call", ["get router", "put storage"])
async def test_a_store_that_fails_is_503(
    harness: Harness, endpoint: Endpoint, call: str, error: Exception, outcome: tuple[int, int]
) -> None:
    await known_user(harness)
    harness.engine.fail(call, error)
    assert refusal(await put(endpoint)) == outcome


async def test_without_a_body_the_query_counts(harness: Harness, endpoint: Endpoint) -> None:
    await known_user(harness)
    await endpoint.handle(Request("PUT", path(endpoint), "version=7", {}, "::1", body=b""))
    assert harness.stored_updates() == {CHANNEL: 7}
    await endpoint.handle(Request("PUT", path(endpoint), "version=9", {}, "::1", body=b"version=8"))
    assert harness.stored_updates() == {CHANNEL: 8}


@cases(
    ("form", "update"),
    [
        (b"version=12&data=text", (12, "text")),
        (b"data=a%20b+c%26&version=12", (12, "a b c&")),
        (b"version=1", (1, None)),
        (b"version=012", (1_800_000_000, None)),
        (b"version=0", (1_800_000_000, None)),
        (b"version=-1", (1_800_000_000, None)),
        (b"version=", (1_800_000_000, None)),
        (b"version=%20", (1_800_000_000, None)),
        (b"data=", (1_800_000_000, None)),
        (b"", (1_800_000_000, None)),
        (b"version=1&version=2", (2, None)),
        (f"version={MAX_VERSION}".encode(), (MAX_VERSION, None)),
        ("version=3&data=é".encode(), (3, "é")),
    ],
)
def test_a_form_is_read_as_the_original_reads_it(
    form: bytes, update: tuple[int, str | None]
) -> None:
    assert read_update(form, NOW) == update


@cases(
    "form",
    [
        b"version=1x",
        b"version=1.5",
        b"version=1_0",
        b"version=x",
        b"version=%D9%A1",
        f"version={MAX_VERSION + 1}".encode(),
        b"version=" + b"9" * 60_000,
        b"data=%ff",
        b"\xff",
        b"a=1&" * 33,
    ],
)
def test_any_other_form_is_400_108_and_not_repeated(form: bytes) -> None:
    with pytest.raises(PushError) as caught:
        read_update(form, NOW)
    assert (caught.value.status, caught.value.errno) == (400, 108)
    assert len(str(caught.value)) < 100
