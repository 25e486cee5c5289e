"""The WebSocket port as a plain HTTP client sees it, and how it lets user agents in."""

import json

import pytest

from autopush.connection.front import Front
from autopush.connection.user_agent import UserAgentConnection
from autopush.dockerflow import Dockerflow
from autopush.net.http_messages import Request, Response, Upgrade
from keytables import Unavailable
from support.connection_house import UAID, House

URL, PAGE = "wss://push.example/", "https://updates.example/"
UPGRADE = {
    "upgrade": "websocket",
    "connection": "keep-alive, Upgrade",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}


async def ask(
    house: House,
    method: str = "GET",
    path: str = "/",
    headers: dict[str, str] | None = None,
    *,
    http10: bool = False,
) -> Response | Upgrade:
    dockerflow = Dockerflow(house.store, lambda: len(house.registry.sockets))
    front = Front(house.node, dockerflow, URL, PAGE)
    return await front(Request(method, path, "", headers or {}, "127.0.0.1", http10=http10))


async def refused(
    house: House, headers: dict[str, str], method: str = "GET", *, http10: bool = False
) -> Response:
    response = await ask(house, method, "/", headers, http10=http10)
    assert isinstance(response, Response)
    return response


@pytest.mark.parametrize("path", ["/", "/anything", "/wpush/v1/token"])
async def test_a_plain_get_is_answered_in_words(house: House, path: str) -> None:
    response = await ask(house, "GET", path)
    assert isinstance(response, Response)
    assert response.status == 200
    assert response.content_type == "text/plain; charset=utf-8"
    text = response.body.decode()
    assert URL in text
    assert PAGE in text


async def test_a_head_is_answered_like_a_get(house: House) -> None:
    response = await ask(house, "HEAD")
    assert isinstance(response, Response)
    assert response.status == 200


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
async def test_other_methods_are_405(house: House, method: str) -> None:
    response = await ask(house, method)
    assert isinstance(response, Response)
    assert response.status == 405
    assert dict(response.headers)["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
@pytest.mark.parametrize("path", [f"/push/{UAID}", f"/notif/{UAID}", f"/notif/{UAID}/5"])
async def test_what_the_internal_port_serves_is_404_here(
    house: House, method: str, path: str
) -> None:
    response = await ask(house, method, path)
    assert isinstance(response, Response)
    assert response.status == 404


@pytest.mark.parametrize("path", ["/status", "/health", "/__version__", "/__heartbeat__"])
async def test_the_status_pages_are_here_too(house: House, path: str) -> None:
    house.connect()
    response = await ask(house, "GET", path)
    assert isinstance(response, Response)
    assert response.status == 200
    document = json.loads(response.body)
    assert "version" in document
    assert document.get("clients") in (None, 1)


async def test_health_is_503_when_the_store_fails(house: House) -> None:
    house.engine.fail("get router", Unavailable("gone"))
    response = await ask(house, "GET", "/health")
    assert isinstance(response, Response)
    assert response.status == 503


@pytest.mark.parametrize("path", ["/", "/any/path"])
async def test_a_proper_upgrade_becomes_a_connection(house: House, path: str) -> None:
    response = await ask(house, "GET", path, UPGRADE)
    assert isinstance(response, Upgrade)
    headers = dict(response.headers)
    assert headers["Sec-WebSocket-Accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert "Sec-WebSocket-Protocol" not in headers
    first, second = response.protocol_factory(), response.protocol_factory()
    assert isinstance(first, UserAgentConnection)
    assert first is not second


async def test_the_protocol_of_firefox_is_agreed_to(house: House) -> None:
    offered = UPGRADE | {"sec-websocket-protocol": "other, push-notification"}
    response = await ask(house, headers=offered)
    assert isinstance(response, Upgrade)
    assert dict(response.headers)["Sec-WebSocket-Protocol"] == "push-notification"


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"upgrade": "h2c"}, 426),
        ({"connection": "close"}, 426),
        ({"sec-websocket-version": "8"}, 426),
        ({"sec-websocket-version": ""}, 426),
        ({"sec-websocket-key": "short"}, 400),
        ({"sec-websocket-key": "\xe9" * 24}, 400),
    ],
)
async def test_a_bad_upgrade_is_refused_in_words_and_never_5xx(
    house: House, changes: dict[str, str], status: int
) -> None:
    response = await refused(house, UPGRADE | changes)
    assert response.status == status
    assert response.body.endswith(b".\n")
    if status == 426:
        assert dict(response.headers)["Upgrade"] == "websocket"


@pytest.mark.parametrize("missing", ["connection", "sec-websocket-version", "sec-websocket-key"])
async def test_an_upgrade_that_lacks_a_header_is_a_4xx(house: House, missing: str) -> None:
    headers = {name: value for name, value in UPGRADE.items() if name != missing}
    assert (await refused(house, headers)).status in (400, 426)


async def test_an_upgrade_by_another_method_or_over_http_1_0_is_400(house: House) -> None:
    assert (await refused(house, UPGRADE, "POST")).status == 400
    assert (await refused(house, UPGRADE, http10=True)).status == 400


async def test_too_many_connections_are_503_with_a_time_to_wait() -> None:
    house = await House.open(max_connections=1)
    agent = house.connect()
    response = await refused(house, UPGRADE)
    assert response.status == 503
    assert int(dict(response.headers)["Retry-After"]) > 0
    agent.leave()
    await house.settle()
    assert isinstance(await ask(house, headers=UPGRADE), Upgrade)


async def test_at_the_limit_the_status_pages_still_answer() -> None:
    house = await House.open(max_connections=1)
    house.connect()
    response = await ask(house, "GET", "/health")
    assert isinstance(response, Response)
    assert response.status == 200


async def test_a_node_that_is_shutting_down_lets_nobody_in(house: House) -> None:
    await house.node.shutdown(1)
    assert (await refused(house, UPGRADE)).status == 503
