"""The stub bridge: what it takes, what its tokens cause, what it keeps."""

import asyncio
import json
from pathlib import Path

import pytest

from autopush.bridges import RouterError
from autopush.bridges.discovery import load_routers
from autopush.bridges.stub import MAX_DELIVERED, StubRouter
from autopush.settings import Settings
from autopush.store import UserRecord
from autopush.telemetry import logs
from autopush.webpush.notification import Notification

UAID = "0123456789abcdef0123456789abcdef"
CHANNEL = "11111111-2222-3333-4444-555555555555"


def user(token: str) -> UserRecord:
    return UserRecord(UAID, "stub", 1, router_data={"token": token, "app_id": "app"})


def message() -> Notification:
    return Notification(
        uaid=UAID,
        channel_id=CHANNEL,
        version="version",
        ttl=60,
        timestamp=1,
        data="c2VjcmV0",
        headers={"encoding": "aes128gcm"},
        sort_time=1,
    )


def test_it_is_in_service_only_when_its_option_is_on() -> None:
    assert load_routers(Settings(), float) == {}
    assert list(load_routers(Settings(stub_router=True), float)) == ["stub"]


async def test_a_message_to_any_other_token_is_delivered_and_kept() -> None:
    router = StubRouter()
    for token in ("success-1", "gone", "goner-token", "token"):
        assert (await router.route_notification(message(), user(token))).status_code == 201
    assert router.delivered[0].token == "success-1"
    assert len(router.delivered) == 4
    assert router.delivered[0].data == {"chid": CHANNEL, "body": "c2VjcmV0", "con": "aes128gcm"}
    assert router.delivered[0].ttl == 60


async def test_it_keeps_a_limited_number_of_messages() -> None:
    router = StubRouter()
    for _ in range(MAX_DELIVERED + 1):
        await router.route_notification(message(), user("success-1"))
    assert len(router.delivered) == MAX_DELIVERED


@pytest.mark.parametrize(
    ("token", "status", "errno"),
    [("gone-1", 410, 106), ("busy-1", 503, 201), ("outage-1", 502, 902), ("critical-1", 410, 105)],
)
async def test_the_beginning_of_a_token_says_how_a_message_is_refused(
    token: str, status: int, errno: int
) -> None:
    router = StubRouter()
    with pytest.raises(RouterError) as caught:
        await router.route_notification(message(), user(token))
    assert (caught.value.status, caught.value.errno) == (status, errno)
    assert caught.value.is_outage == (status == 502)
    assert caught.value.router_data == ({} if errno == 106 else None)
    assert not router.delivered


async def test_a_slow_token_never_gets_an_answer() -> None:
    call = asyncio.ensure_future(StubRouter().route_notification(message(), user("slow-1")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not call.done()
    call.cancel()


async def test_a_moved_token_is_replaced() -> None:
    response = await StubRouter().route_notification(message(), user("moved-1"))
    assert response.router_data == {"token": "new-1", "app_id": "app"}


async def test_what_it_logs_holds_neither_token_nor_payload(tmp_path: Path) -> None:
    logs.configure(output=str(tmp_path / "log"), level="debug")
    await StubRouter().route_notification(message(), user("success-token"))
    logs.shutdown()
    (line,) = (tmp_path / "log").read_text().splitlines()
    fields = json.loads(line)["Fields"]
    assert fields["characters"] == len("c2VjcmV0")
    for secret in ("success-token", "c2VjcmV0", UAID, CHANNEL):
        assert secret not in line


@pytest.mark.parametrize(("token", "status"), [(None, 401), ("", 400), ("short", 400)])
def test_it_checks_tokens_as_other_bridges_do(token: str | None, status: int) -> None:
    with pytest.raises(RouterError) as caught:
        StubRouter().register(UAID, {} if token is None else {"token": token}, "app")
    assert caught.value.status == status
