"""A port for WebSockets alone: upgrades of user agents, and what other HTTP clients get."""

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from autopush.api.node_ports import UpgradeHandler
from autopush.api.request_log import RequestLog
from autopush.api.responses import ErrorResponses
from autopush.api.status_pages import LogCheck
from autopush.delivery.user_agent import UserAgentConnection
from autopush.limits import LimitRefusals, TokenBuckets
from autopush.net.client_limits import ConnectionRefused
from autopush.net.http_messages import Request, Response, Upgrade
from autopush.settings.value_types import Rate
from autopush.webpush.tokens import EndpointTokens
from support import wire
from support.cases import cases
from support.connection_harness import ERRORS, Harness
from support.fake_transport import FakeTransport
from support.log_lines import LogFile

URL, PAGE = "wss://push.example/ws/", "https://updates.example/"
UPGRADE = {
    "upgrade": "websocket",
    "connection": "keep-alive, Upgrade",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def handler_of(harness: Harness, rate: Rate | None = None) -> UpgradeHandler:
    dockerflow = harness.status_pages()
    errors = ErrorResponses(ERRORS)
    requests = RequestLog(
        EndpointTokens(harness.ring, PAGE), errors, harness.store.uaid_hash, harness.metrics
    )
    refusals = LimitRefusals(harness.metrics)
    log_check = LogCheck(errors, requests, TokenBuckets(None), refusals)
    rates = TokenBuckets(rate)
    return UpgradeHandler(harness.node, dockerflow, log_check, errors, refusals, rates, URL, PAGE)


async def call(
    harness: Harness,
    method: str = "GET",
    path: str = "/",
    headers: dict[str, str] | None = None,
    *,
    http10: bool = False,
    body: bytes = b"",
) -> Response | Upgrade:
    request = Request(method, path, "", headers or {}, "127.0.0.1", body=body, http10=http10)
    answer = handler_of(harness)(request)
    return answer if isinstance(answer, Response | Upgrade) else await answer


async def not_upgraded(
    harness: Harness,
    method: str = "GET",
    path: str = "/",
    headers: dict[str, str] | None = None,
    *,
    http10: bool = False,
) -> Response:
    response = await call(harness, method, path, headers, http10=http10)
    assert isinstance(response, Response)
    return response


@cases("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
@cases(
    "path",
    [
        "/_matrix/push/v1/notify",
        "/.well-known/matrix/client",
        "/anything",
        "/wpush/v1/token",
        "/v1/stub/app/registration",
        "/m/id",
        "//",
    ],
)
async def test_a_path_that_is_no_page_of_this_port_is_404_as_json(
    harness: Harness, method: str, path: str
) -> None:
    response = await not_upgraded(harness, method, path)
    assert response.status == 404
    assert response.content_type == "application/json"
    document = json.loads(response.body)
    assert (document["code"], document["errno"]) == (404, 102)
    assert PAGE in document["message"]


@pytest.mark.parametrize("path", ["/", urlsplit(URL).path])
async def test_a_plain_get_is_answered_with_an_explanation(harness: Harness, path: str) -> None:
    response = await not_upgraded(harness, "GET", path)
    assert response.status == 200
    assert response.content_type == "text/plain; charset=utf-8"
    text = response.body.decode()
    assert URL in text
    assert PAGE in text


@pytest.mark.parametrize("path", ["/v1/err", "/v1/err/crit", "/__error__"])
async def test_the_log_check_is_served(harness: Harness, path: str) -> None:
    assert (await not_upgraded(harness, "GET", path)).status == 418
    assert (await not_upgraded(harness, "HEAD", path)).status == 200


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
async def test_other_methods_are_405(harness: Harness, method: str) -> None:
    response = await not_upgraded(harness, method)
    assert response.status == 405
    assert dict(response.headers)["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/status", "/health", "/__version__", "/__heartbeat__"])
async def test_the_status_pages_are_on_this_port_too(harness: Harness, path: str) -> None:
    harness.connect()
    response = await not_upgraded(harness, "GET", path)
    assert response.status == 200
    document = json.loads(response.body)
    assert "version" in document
    assert document.get("clients") in (None, 1)


async def test_an_upgrade_to_the_path_of_a_status_page_becomes_a_connection(
    harness: Harness,
) -> None:
    assert isinstance(await call(harness, "GET", "/health", UPGRADE), Upgrade)


@pytest.mark.parametrize("path", ["/", "/any/path"])
async def test_a_valid_upgrade_becomes_a_connection(harness: Harness, path: str) -> None:
    response = await call(harness, "GET", path, UPGRADE)
    assert isinstance(response, Upgrade)
    headers = dict(response.headers)
    assert headers["Sec-WebSocket-Accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert "Sec-WebSocket-Protocol" not in headers
    first, second = response.protocol_factory(""), response.protocol_factory("")
    assert isinstance(first, UserAgentConnection)
    assert first is not second


@cases(
    ("path", "is_taken"),
    [
        ("/", True),
        ("/ws", True),
        ("/ws/", True),
        ("/ws/TOKEN", True),
        ("/push/", True),
        ("/push/TOKEN", True),
        ("/push", False),
        ("/wsx", False),
        ("/wpush/v1/token", False),
        ("/" + "T" * 32, True),
        ("/anything", False),
    ],
)
async def test_where_http_requests_come_too_only_some_paths_have_a_websocket(
    harness: Harness, path: str, is_taken: bool
) -> None:
    handler = replace(handler_of(harness), websocket_url="wss://push.example/push/")
    assert handler.takes(Request("GET", path, "", UPGRADE, "127.0.0.1")) is is_taken
    other = UPGRADE | {"upgrade": "h2c"}
    assert not handler.takes(Request("GET", path, "", other, "127.0.0.1"))


async def test_new_connections_beyond_the_rate_of_their_address_are_429(harness: Harness) -> None:
    handler = handler_of(harness, Rate(2, "h"))
    answer = handler(Request("GET", "/", "", UPGRADE, "192.0.2.7"))
    assert isinstance(answer, Upgrade)
    for _ in range(2):
        answer.protocol_factory("192.0.2.7")
        answer.protocol_factory("")  # of a trusted proxy
    with pytest.raises(ConnectionRefused) as caught:
        answer.protocol_factory("192.0.2.7")
    assert caught.value.status == 429
    answer.protocol_factory("192.0.2.8")


async def test_the_subprotocol_of_firefox_is_accepted(harness: Harness) -> None:
    offered = UPGRADE | {"sec-websocket-protocol": "other, push-notification"}
    response = await call(harness, headers=offered)
    assert isinstance(response, Upgrade)
    assert dict(response.headers)["Sec-WebSocket-Protocol"] == "push-notification"


async def test_too_many_connections_are_503_with_retry_after() -> None:
    harness = await Harness.open(max_connections=1)
    agent = harness.connect()
    response = await not_upgraded(harness, headers=UPGRADE)
    assert response.status == 503
    assert int(dict(response.headers)["Retry-After"]) > 0
    agent.disconnect()
    await harness.run_until_idle()
    assert isinstance(await call(harness, headers=UPGRADE), Upgrade)


async def test_at_the_limit_the_status_pages_are_still_served() -> None:
    harness = await Harness.open(max_connections=1)
    harness.connect()
    response = await not_upgraded(harness, "GET", "/health")
    assert response.status == 200


async def test_a_node_that_shuts_down_refuses_upgrades(harness: Harness) -> None:
    await harness.node.shutdown(1)
    assert (await not_upgraded(harness, headers=UPGRADE)).status == 503


async def test_the_log_knows_the_headers_of_the_upgrade(harness: Harness, tmp_path: Path) -> None:
    log = LogFile(tmp_path)
    agent = "Mozilla/5.0 (Windows NT 10.0; rv:128.0) Gecko/20100101 Firefox/128.0"
    response = await call(harness, headers=UPGRADE | {"user-agent": agent, "host": "push.example"})
    assert isinstance(response, Upgrade)
    connection = response.protocol_factory("")
    assert isinstance(connection, UserAgentConnection)
    transport = FakeTransport(harness.loop, connection)
    connection.data_received(wire.text(b'{"messageType":"hello","use_webpush":true}'))
    await harness.run_until_idle()
    transport.reset()
    await harness.run_until_idle()
    (line,) = log.fields("Session")
    assert (line["host"], line["ua_os_family"], line["ua_browser_ver"]) == (
        "push.example",
        "Windows",
        "128.0",
    )


@pytest.mark.parametrize(
    ("headers", "body"),
    [({"content-length": "1"}, b"x"), ({"transfer-encoding": "chunked"}, b"")],
    ids=["body", "chunks"],
)
async def test_an_upgrade_with_a_body_is_400(
    harness: Harness, headers: dict[str, str], body: bytes
) -> None:
    response = await call(harness, headers=UPGRADE | headers, body=body)
    assert isinstance(response, Response)
    assert (response.status, response.body) == (400, b"A WebSocket is opened without a body.\n")


@pytest.mark.parametrize(
    ("origin", "key"),
    [
        (None, ""),
        (PAGE, ""),
        ("wss://push.example/token", ""),
        ("https://push.example:443", ""),
        ("https://evil.example", "127.0.0.1"),
        ("null", "127.0.0.1"),
    ],
)
async def test_a_page_of_another_origin_counts_by_its_address_though_proxies_do_not(
    harness: Harness, origin: str | None, key: str
) -> None:
    answer = await call(harness, headers=UPGRADE | ({} if origin is None else {"origin": origin}))
    assert isinstance(answer, Upgrade)
    counted = harness.node.connection_limits.count("127.0.0.1")
    assert counted == "", "as a trusted proxy"
    connection = answer.protocol_factory(counted)
    assert isinstance(connection, UserAgentConnection)
    assert connection.address_key == key
