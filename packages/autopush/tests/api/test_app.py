"""Which request goes where, and what every answer of the endpoint carries."""

import asyncio
import json
from urllib.parse import quote

import pytest

from autopush.api.app import EXPOSED
from keytables import KeyTuple, Unavailable
from support.cases import cases
from support.connection_harness import UAID, WEBSOCKET, Harness
from support.endpoint_harness import Endpoint, headers_of, refusal

TOKEN_PATHS = ["/wpush/v1/token", "/wpush/v2/token", "/wpush/token"]
PATHS = ["/", *TOKEN_PATHS, "/m/id", "/status", "/health", "/v1/err", "/no/such/page", "/wpush/"]
CORS = "access-control-"


def cors_of(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith(CORS)}


# ── routes ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", ["v1", None])
async def test_a_push_reaches_its_endpoint_with_or_without_version(
    harness: Harness, endpoint: Endpoint, version: str | None
) -> None:
    await harness.known_user()
    path = endpoint.path()
    if version is None:
        path = path.replace("/v1/", "/")
    response = await endpoint.ask("POST", path, {"ttl": "60"})
    assert response.status == 201
    assert len(harness.rows()) == 1


@pytest.mark.parametrize("path", TOKEN_PATHS)
async def test_an_invalid_token_is_404_102(endpoint: Endpoint, path: str) -> None:
    assert refusal(await endpoint.ask("POST", path)) == (404, 102)


@cases("method", ["GET", "PUT", "DELETE", "PATCH"])
@cases("path", TOKEN_PATHS)
async def test_endpoints_take_post_only(endpoint: Endpoint, method: str, path: str) -> None:
    response = await endpoint.ask(method, path)
    assert refusal(response) == (405, 102)
    assert headers_of(response)["allow"] == "POST, OPTIONS, HEAD"


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH"])
async def test_messages_take_get_and_delete_only(endpoint: Endpoint, method: str) -> None:
    response = await endpoint.ask(method, "/m/id")
    assert refusal(response) == (405, 102)
    assert headers_of(response)["allow"] == "GET, DELETE, OPTIONS, HEAD"


@cases(
    ("method", "path"),
    [
        ("GET", "/no/such/page"),
        ("POST", "/no/such/page"),
        ("POST", "/"),
        ("POST", "/wpush"),
        ("POST", "/wpush/"),
        ("POST", "/wpush/v1/"),
        ("POST", "/wpush/v1/token/more"),
        ("POST", "/wpush/v1/token/"),
        ("DELETE", "/m"),
        ("DELETE", "/m/"),
        ("DELETE", "/m/id/more"),
        ("GET", "/wpush"),
        ("GET", "/m/"),
        ("POST", "/wpushed/v1/token"),
        ("PUT", f"/push/{UAID}"),
        ("PUT", f"/notif/{UAID}"),
        ("DELETE", f"/notif/{UAID}/5"),
        ("GET", "//"),
        ("GET", ""),
    ],
)
async def test_an_unknown_path_is_404_102(endpoint: Endpoint, method: str, path: str) -> None:
    response = await endpoint.ask(method, path)
    assert refusal(response) == (404, 102)


@pytest.mark.parametrize("path", ["/health", "/__heartbeat__", "/__version__", "/__lbheartbeat__"])
async def test_the_status_pages_are_served(endpoint: Endpoint, path: str) -> None:
    assert (await endpoint.ask("GET", path)).status == 200


@pytest.mark.parametrize("path", ["/v1/err", "/v1/err/error", "/v1/err/crit", "/__error__"])
async def test_the_log_check_is_served(endpoint: Endpoint, path: str) -> None:
    assert (await endpoint.ask("GET", path)).status == 418


async def test_the_start_page_is_at_the_root(endpoint: Endpoint) -> None:
    response = await endpoint.ask("GET", "/")
    assert response.status == 200
    assert headers_of(response)["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("path", ["/", "/status", "/wpush/v1/token", "/no/such/page"])
async def test_a_websocket_at_a_path_that_has_none_is_404_with_the_url_that_has_one(
    endpoint: Endpoint, path: str
) -> None:
    upgrade = {"connection": "keep-alive, Upgrade", "upgrade": "WebSocket"}
    response = await endpoint.ask("GET", path, upgrade)
    assert refusal(response) == (404, 102)
    assert WEBSOCKET in json.loads(response.body)["message"]


async def test_an_upgrade_to_http2_is_ignored(endpoint: Endpoint) -> None:
    response = await endpoint.ask("GET", "/", {"connection": "Upgrade", "upgrade": "h2c"})
    assert response.status == 200


@pytest.mark.parametrize("spell", [str, quote, lambda text: text.replace("=", "%3d")])
@pytest.mark.parametrize("padded", [True, False])
async def test_a_message_id_may_be_percent_encoded_and_lack_its_padding(
    harness: Harness, endpoint: Endpoint, spell: object, padded: bool
) -> None:
    assert callable(spell)
    for _ in range(6):  # ids of all lengths, with padding and without
        message = harness.message()
        await harness.store.current.store(message)
        text = message.version if padded else message.version.rstrip("=")
        assert (await endpoint.ask("DELETE", f"/m/{spell(text)}")).status == 204
        assert harness.rows() == []


async def test_a_token_may_be_percent_encoded(harness: Harness, endpoint: Endpoint) -> None:
    await harness.known_user()
    path = endpoint.path().replace("g", "%67", 1)
    assert (await endpoint.ask("POST", path, {"ttl": "60"})).status == 201


@pytest.mark.parametrize("path", ["/m/%ff%fe", "/m/%00", "/m/%", "/m/é", "/m/%C3%A9"])
async def test_bad_percent_encoding_is_refused(endpoint: Endpoint, path: str) -> None:
    assert refusal(await endpoint.ask("DELETE", path)) == (400, 102)


# ── what every answer carries ───────────────────────────────────────────────────────────────────


@cases("method", ["OPTIONS", "HEAD"])
@cases("path", PATHS)
async def test_options_and_head_are_200_everywhere(
    endpoint: Endpoint, method: str, path: str
) -> None:
    response = await endpoint.ask(method, path)
    assert response.status == 200
    assert headers_of(response)["access-control-allow-origin"] == "*"
    if method == "OPTIONS":  # a HEAD loses its body on the way out
        assert response.body == b""


@pytest.mark.parametrize(("method", "status"), [("GET", 503), ("HEAD", 503), ("OPTIONS", 200)])
@pytest.mark.parametrize("path", ["/health", "/__heartbeat__"])
async def test_head_of_a_status_page_has_the_status_of_get(
    harness: Harness, endpoint: Endpoint, path: str, method: str, status: int
) -> None:
    harness.engine.fail("get router", Unavailable("gone"))
    assert (await endpoint.ask(method, path)).status == status


@pytest.mark.parametrize("method", ["OPTIONS", "POST", "GET"])
@pytest.mark.parametrize("path", TOKEN_PATHS)
async def test_web_pages_of_any_origin_may_push(endpoint: Endpoint, method: str, path: str) -> None:
    headers = headers_of(await endpoint.ask(method, path))
    allowed = headers[f"{CORS}allow-headers"].split(",")
    assert {
        "authorization",
        "content-encoding",
        "content-type",
        "crypto-key",
        "encryption",
        "encryption-key",
        "link",
        "prefer",
        "push-receipt",
        "topic",
        "ttl",
        "urgency",
    } == set(allowed)
    assert headers[f"{CORS}allow-origin"] == "*"
    assert headers[f"{CORS}allow-methods"] == "POST"
    assert headers[f"{CORS}expose-headers"] == EXPOSED
    assert headers[f"{CORS}max-age"] == "3600"


@pytest.mark.parametrize("method", ["OPTIONS", "DELETE", "GET"])
async def test_web_pages_of_any_origin_may_delete_messages(endpoint: Endpoint, method: str) -> None:
    assert cors_of(headers_of(await endpoint.ask(method, "/m/id"))) == {
        f"{CORS}allow-origin": "*",
        f"{CORS}allow-methods": "GET,DELETE",
        f"{CORS}allow-headers": "",
        f"{CORS}expose-headers": EXPOSED,
        f"{CORS}max-age": "3600",
    }


@pytest.mark.parametrize("path", ["/", "/status", "/no/such/page", "/v1/err", "/messages"])
async def test_other_pages_may_be_read_by_any_origin(endpoint: Endpoint, path: str) -> None:
    headers = headers_of(await endpoint.ask("GET", path))
    assert cors_of(headers) == {f"{CORS}allow-origin": "*", f"{CORS}expose-headers": EXPOSED}


@cases("name", ["Location", "TTL", "Link", "Retry-After", "WWW-Authenticate", "ETag", "Allow"])
def test_web_pages_may_read_every_header_that_a_client_needs(name: str) -> None:
    assert name.lower() in EXPOSED.split(",")


@cases("method", ["GET", "OPTIONS", "POST", "DELETE"])
@cases("path", PATHS)
async def test_without_cors_no_response_has_its_headers(
    harness: Harness, method: str, path: str
) -> None:
    endpoint = Endpoint(harness, no_cors=True)
    assert cors_of(headers_of(await endpoint.ask(method, path))) == {}


@cases("method", ["GET", "OPTIONS", "POST", "DELETE"])
@cases("path", PATHS)
async def test_with_hsts_every_response_has_its_header(
    harness: Harness, method: str, path: str
) -> None:
    name = "strict-transport-security"
    endpoint = Endpoint(harness, sts_max_age=31_536_000)
    headers = headers_of(await endpoint.ask(method, path))
    assert headers[name] == "max-age=31536000;includeSubDomains"
    assert name not in headers_of(await Endpoint(harness).ask(method, path))


# ── too much at once ────────────────────────────────────────────────────────────────────────────


async def test_requests_beyond_the_limit_are_503_201_until_others_end(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.known_user()
    table, released = harness.engine.tables["router"], asyncio.Event()
    get = table.get

    async def slowly(key: KeyTuple) -> object:
        await released.wait()
        return await get(key)

    monkeypatch.setattr(table, "get", slowly)
    endpoint = Endpoint(harness, max_requests=2)
    slow = [asyncio.ensure_future(endpoint.push()) for _ in range(2)]
    await asyncio.sleep(0)
    assert refusal(await endpoint.push()) == (503, 201)
    assert cors_of(headers_of(await endpoint.push()))
    released.set()
    assert [response.status for response in await asyncio.gather(*slow)] == [201, 201]
    assert (await endpoint.push()).status == 201


async def test_refused_and_failed_requests_are_no_longer_in_progress(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.known_user()
    endpoint = Endpoint(harness, max_requests=1)
    for _ in range(3):
        assert (await endpoint.ask("POST", "/wpush/v1/token")).status == 404
        harness.engine.fail("get router", RuntimeError("a bug"))
        assert (await endpoint.push()).status == 500
    assert (await endpoint.push()).status == 201
