"""Subscribing: what is taken, from whom, and what is handed out."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from channelstats.sending.web_push import vapid_key
from channelstats.settings import Settings, load
from channelstats.tables.sending import Subscription
from channelstats.web import http, subscribing
from channelstats.web.app import LARGEST, Dashboard, error_middleware
from channelstats.web.auth import Authenticator
from channelstats.web.service import DashboardService
from support.channelstats.house import EXAMPLE, NOW, House
from support.channelstats.push_service import Browser
from support.clocks import ManualClock

PLACE = "/notifications/subscriptions"
BROWSER = Browser("https://push.example.com/wpush/v2/1")
Client = TestClient[web.Request, web.Application]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load({"data": str(tmp_path / "data"), "push_hosts": "10.0.0.7"}, {})


def dashboard_of(house: House, settings: Settings, token: str | None) -> web.Application:
    app = web.Application(middlewares=[error_middleware], client_max_size=LARGEST)
    clock = ManualClock(NOW)
    service = DashboardService(house.tables, settings, clock=clock)
    app.add_routes(Dashboard(service, Authenticator(token, clock)).routes())
    return app


@pytest.fixture
async def client(empty: House, settings: Settings) -> AsyncIterator[Client]:
    async with TestClient(TestServer(dashboard_of(empty, settings, None))) as opened:
        yield opened


def own(client: Client, **others: str) -> dict[str, str]:
    """The headers of a page of the dashboard."""
    origin = f"http://{client.host}:{client.port}"
    return {"Origin": origin, "Content-Type": "application/json", **others}


async def sent(
    client: Client, method: str, document: Any, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    async with client.request(
        method, PLACE, data=body, headers=own(client) if headers is None else headers
    ) as answer:
        text = await answer.read()
        return answer.status, json.loads(text) if text else None


async def stored(of: House) -> list[Subscription]:
    return await of.tables.subscriptions.all()


async def test_the_key_is_the_one_of_the_data_folder(client: Client, settings: Settings) -> None:
    found = []
    for _ in range(2):
        async with client.get("/notifications/key") as answer:
            assert answer.headers["Cache-Control"] == "no-store"
            found.append(await answer.json())
    assert found == [{"key": vapid_key(settings.folder).public}] * 2


async def test_a_browser_subscribes_and_unsubscribes(
    client: Client, empty: House, settings: Settings
) -> None:
    assert await sent(client, "POST", BROWSER.json) == (201, {"subscribed": True})
    assert await sent(client, "POST", BROWSER.json) == (200, {"subscribed": True})
    assert await stored(empty) == [
        BROWSER.subscription(created_at=int(NOW), vapid=vapid_key(settings.folder).public)
    ]
    for _ in range(2):
        assert await sent(client, "DELETE", {"endpoint": BROWSER.endpoint}) == (204, None)
        assert await stored(empty) == []


async def test_who_subscribes_knows_of_the_week_that_is_there(client: Client, empty: House) -> None:
    await empty.take_in(EXAMPLE)
    await sent(client, "POST", BROWSER.json)
    [found] = await stored(empty)
    assert found.announced == "2024-03-10"


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:1", "Host": "127.0.0.1:2"},
    ],
)
async def test_a_page_of_somebody_else_changes_nothing(
    client: Client, empty: House, method: str, headers: dict[str, str]
) -> None:
    await empty.tables.subscriptions.add(BROWSER.subscription())
    document = Browser("https://push.example.com/2").json if method == "POST" else BROWSER.json
    status, told = await sent(client, method, document, own(client, **headers))
    assert (status, told) == (403, {"error": "expected a page of this dashboard"})
    assert await stored(empty) == [BROWSER.subscription()]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
async def test_what_a_foreign_form_could_send_is_refused(client: Client, kind: str) -> None:
    status, _ = await sent(client, "POST", BROWSER.json, own(client, **{"Content-Type": kind}))
    assert status == 415


async def test_what_is_no_subscription_is_refused(client: Client, empty: House) -> None:
    for method in ("POST", "DELETE"):
        for body in (b"", b"{", b"[]", b'{"endpoint": 7}', b"\xff"):
            status, told = await sent(client, method, body)
            assert (status, bool(told["error"])) == (400, True)
    assert await stored(empty) == []


async def test_a_large_request_is_not_read_whether_or_not_it_says_its_size(
    client: Client,
) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b" " * (LARGEST // 2)

    assert (await sent(client, "POST", b" " * (LARGEST + 1)))[0] == 413
    async with client.post(PLACE, data=body(), headers=own(client)) as answer:
        assert answer.status == 413


async def test_a_request_that_does_not_come_is_given_up(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_BODY_PATIENCE", 0.01)
    reader, writer = await asyncio.open_connection(client.host, client.port)
    head = f"POST {PLACE} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: 10\r\n\r\n{{".encode())
    assert b" 408 " in await asyncio.wait_for(reader.readline(), 30)
    writer.close()
    await writer.wait_closed()


async def test_loopback_is_for_pages_that_were_opened_there(client: Client) -> None:
    here = Browser("http://127.0.0.1:8082/wpush/v2/1").json
    assert (await sent(client, "POST", here))[0] == 201


async def test_where_visitors_log_in_none_of_them_counts_as_here(
    empty: House, settings: Settings
) -> None:
    """A proxy on this machine may pass on everybody as `localhost`."""
    async with TestClient(TestServer(dashboard_of(empty, settings, "a token of them"))) as client:
        here = Browser("http://127.0.0.1:8082/wpush/v2/1").json
        status, told = await sent(client, "POST", here)
    assert status == 400
    assert "loopback" in told["error"]


async def test_a_private_address_is_refused_unless_the_operator_named_it(client: Client) -> None:
    for host, expected in (("10.0.0.8", 400), ("10.0.0.7", 201)):
        assert (await sent(client, "POST", Browser(f"https://{host}/1").json))[0] == expected


async def test_there_are_only_so_many(
    client: Client, empty: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscribing, "MAX_SUBSCRIPTIONS", 1)
    assert (await sent(client, "POST", BROWSER.json))[0] == 201
    status, told = await sent(client, "POST", Browser("https://push.example.com/2").json)
    assert (status, told) == (503, {"error": "there are 1 subscriptions already"})
    assert (await sent(client, "POST", BROWSER.json))[0] == 200


async def test_a_broken_key_is_an_error_of_the_server(client: Client, settings: Settings) -> None:
    settings.folder.mkdir()
    (settings.folder / "vapid.pem").write_text("broken")
    os.chmod(settings.folder / "vapid.pem", 0o600)
    async with client.get("/notifications/key") as answer:
        assert answer.status == 500
