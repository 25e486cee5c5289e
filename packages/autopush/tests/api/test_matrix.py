"""The push gateway for Matrix homeservers: pushkeys are endpoints, and those gone are rejected."""

import asyncio
import json
from typing import Any

import pytest

from autopush.api.matrix import read_notification
from autopush.net.http_messages import Request, Response
from autopush.settings import Settings
from autopush.settings.value_types import Rate
from autopush.telemetry.metric_table import MATRIX_NOTIFICATION
from autopush.webpush.syntax import decode_base64url
from keytables import Unavailable
from support.cases import cases
from support.connection_harness import CHANNEL, ENDPOINT, OTHER, Harness
from support.endpoint_harness import MAX_DATA, Endpoint, headers_of, refusal
from support.recorded import recorded
from support.senders import Sender

PATH = "/_matrix/push/v1/notify"
NOBODY = "0" * 31 + "1"
EVENT = {
    "event_id": "$3957tyerfgewrf384",
    "room_id": "!slw48wfj34rtnrf:example.org",
    "prio": "high",
    "counts": {"unread": 2},
}
"""What Synapse sends for a pusher of the format `event_id_only`."""
FULL = EVENT | {
    "id": "$3957tyerfgewrf384",
    "type": "m.room.message",
    "sender": "@exampleuser:example.org",
    "sender_display_name": "Major Tom",
    "room_name": "Mission Control",
    "content": {"msgtype": "m.text", "body": "I'm floating in a most peculiar way."},
}
BADGE = {"id": "", "type": None, "sender": "", "counts": {"unread": 0}}
"""What Synapse sends when only the number of unread messages has changed."""


def device(pushkey: object) -> dict[str, object]:
    return {
        "app_id": "org.example.app",
        "pushkey": pushkey,
        "pushkey_ts": 12345678,
        "data": {"format": "event_id_only"},
    }


def body(notification: dict[str, Any], *pushkeys: object) -> bytes:
    devices = [device(each) for each in pushkeys]
    return json.dumps({"notification": notification | {"devices": devices}}).encode()


async def notify(
    endpoint: Endpoint, *pushkeys: object, notification: dict[str, Any] = EVENT
) -> Response:
    headers = {"content-type": "application/json"}
    return await endpoint.ask("POST", PATH, headers, body(notification, *pushkeys))


def rejected(response: Response) -> list[str]:
    assert response.status == 200, response.body
    document = json.loads(response.body)
    assert document.keys() == {"rejected"}
    return list(document["rejected"])


def url(endpoint: Endpoint, **of: Any) -> str:
    return ENDPOINT + endpoint.path(**of)


def counted(harness: Harness, result: str) -> float:
    return recorded(harness.metrics, MATRIX_NOTIFICATION, result=result)


# ── a device that is there ───────────────────────────────────────────────────────────────────────


async def test_an_application_finds_the_gateway_by_unifiedpushs_convention(
    endpoint: Endpoint,
) -> None:
    response = await endpoint.ask("GET", PATH)
    assert response.status == 200
    assert headers_of(response)["content-type"] == "application/json"
    assert json.loads(response.body) == {"unifiedpush": {"gateway": "matrix"}}


@pytest.mark.parametrize("notification", [EVENT, FULL, BADGE], ids=["ids", "full", "badge"])
async def test_a_connected_device_gets_the_notification_without_the_devices(
    harness: Harness, endpoint: Endpoint, notification: dict[str, Any]
) -> None:
    agent = await harness.subscribed()
    pushkey = url(endpoint, uaid=agent.uaid)
    assert rejected(await notify(endpoint, pushkey, notification=notification)) == []
    await harness.run_until_idle()
    received = agent.reply()
    assert (received["messageType"], received["channelID"]) == ("notification", CHANNEL)
    assert received["headers"] == {"encoding": "aes128gcm"}
    assert json.loads(decode_base64url(received["data"])) == {"notification": notification}
    assert counted(harness, "accepted") == 1


@pytest.mark.parametrize("depth", [252, 253, 254, 255, 500])
async def test_a_notification_that_is_nested_too_deeply_is_reduced_to_its_ids(
    harness: Harness, endpoint: Endpoint, depth: int
) -> None:
    await harness.known_user()
    nested = EVENT | {"content": json.loads("[" * depth + "]" * depth)}
    assert rejected(await notify(endpoint, url(endpoint), notification=nested)) == []
    (row,) = harness.rows()
    content = json.loads(decode_base64url(str(row["data"])))["notification"]
    assert content in (nested, EVENT)
    assert (content == EVENT) is (depth > 252)


async def test_a_device_that_is_named_more_than_once_is_told_once(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    one = url(endpoint)
    other = one.replace("https://", "http://") + "?again"
    gone = url(endpoint, uaid=NOBODY)
    response = await notify(endpoint, one, gone, one, other, gone, f"{gone}?x", "x", "x")
    assert rejected(response) == [gone, f"{gone}?x", "x"]
    assert len(endpoint.harness.rows()) == 1
    assert counted(endpoint.harness, "accepted") == 1


async def test_a_notification_waits_a_day_for_its_device(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    assert rejected(await notify(endpoint, url(endpoint))) == []
    (row,) = endpoint.harness.rows()
    assert row["ttl"] == 86_400


async def test_of_changed_counts_only_the_last_waits_and_events_all_do(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    for unread in (3, 2, 1):
        counts = BADGE | {"counts": {"unread": unread}}
        assert rejected(await notify(endpoint, url(endpoint), notification=counts)) == []
    for _ in range(2):
        assert rejected(await notify(endpoint, url(endpoint))) == []
    waiting = [json.loads(decode_base64url(str(row["data"]))) for row in endpoint.harness.rows()]
    assert [each["notification"]["counts"]["unread"] for each in waiting] == [1, 2, 2]


@cases(
    ("notification", "is_event"),
    [
        ({"event_id": "$1:example.org", "room_id": "!1:example.org"}, True),
        ({"event_id": "$Woq2vwLy8mNukf7e8oz61GxT5gpMmr_asNojhb56-wU"}, True),
        ({"id": "$1", "event_id": "$1", "type": "m.room.message", "sender": "@a:b"}, True),
        ({"id": "$1", "room_id": "!1:b", "type": "m.room.message", "sender": "@a:b"}, True),
        ({"room_id": "!1:b", "type": "m.room.member", "sender": "@a:b"}, True),
        ({"counts": {"unread": 1}}, False),
        ({"event_id": None, "counts": {"unread": 1}}, False),
        ({"event_id": "", "room_id": "", "type": "", "sender": "", "counts": {}}, False),
        ({"id": "", "type": None, "sender": "", "counts": {"unread": 0}}, False),
        ({"event_id": False, "counts": {"missed_calls": 1}, "prio": "high"}, False),
        ({"event_id": {"$": 1}}, False),
        ({"room_id": "!1:b", "counts": {"unread": 1}}, False),
        ({}, False),
    ],
)
def test_events_are_told_from_changed_counts_by_what_identifies_an_event(
    notification: dict[str, Any], is_event: bool
) -> None:
    found = read_notification(body(notification, "x"), MAX_DATA)
    assert (found.topic is None) is is_event
    assert found.urgency == ("high" if is_event else "low")


@pytest.mark.parametrize(
    ("notification", "urgency"),
    [
        (EVENT, "high"),
        (EVENT | {"prio": "low"}, "low"),
        ({"event_id": "$1"}, "high"),
        (BADGE, "low"),
    ],
)
async def test_the_priority_becomes_the_urgency_of_the_push(
    harness: Harness, endpoint: Endpoint, notification: dict[str, Any], urgency: str
) -> None:
    pushed: list[str] = []
    gateway = endpoint.app.matrix
    assert gateway is not None

    async def push(request: Request) -> Response:
        pushed.append(request.headers["urgency"])
        return Response(201)

    content = body(notification, url(endpoint))
    request = Request("POST", PATH, "", {}, "::1", body=content)
    assert rejected(await gateway(request, push)) == []
    assert pushed == [urgency]


async def test_a_service_that_has_another_name_now_keeps_its_pushers(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    earlier = f"https://old.example{endpoint.path()}"
    assert rejected(await notify(endpoint, earlier)) == []
    assert len(endpoint.harness.rows()) == 1


# ── a device that is not ─────────────────────────────────────────────────────────────────────────


async def test_a_user_agent_or_subscription_that_is_gone_is_rejected(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    pushkeys = [url(endpoint, uaid=NOBODY), url(endpoint, channel=OTHER)]  # 410/103, 410/106
    assert rejected(await notify(endpoint, *pushkeys)) == pushkeys
    assert counted(endpoint.harness, "rejected") == 2
    assert endpoint.harness.rows() == []


@pytest.mark.parametrize(
    "pushkey",
    [
        "",
        "x",
        "https://push.example/wpush/v1/nonsense",
        "https://other.example/upABCDEF?up=1",
        "http://127.0.0.1:8081/metrics",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
        "/wpush/v1/../../status",
        "/wpush/" + "x" * 3000,
        "https://push.example/wpush/v1/%00\u20ac",
    ],
)
async def test_what_is_no_endpoint_of_this_service_is_rejected_and_nothing_is_requested(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, pushkey: str
) -> None:
    async def connect(*args: object, **options: object) -> None:
        raise AssertionError(f"connects to {args}")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", connect, raising=False)
    assert rejected(await notify(endpoint, pushkey)) == [pushkey]


async def test_an_endpoint_for_one_application_server_alone_is_rejected(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    pushkey = url(endpoint, key=Sender().point)
    assert rejected(await notify(endpoint, pushkey)) == [pushkey]
    assert endpoint.harness.rows() == []


# ── what is repeated, and what is not ────────────────────────────────────────────────────────────


async def test_when_the_store_fails_the_homeserver_is_to_send_it_again(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    gone = url(endpoint, uaid=NOBODY)
    endpoint.harness.engine.fail("put message", Unavailable("away"))
    response = await notify(endpoint, url(endpoint), gone)
    assert response.status == 503
    assert refusal(response) == (503, 201)
    assert counted(endpoint.harness, "retry") == 1
    # Asked again, it takes the one and rejects the other.
    assert rejected(await notify(endpoint, url(endpoint), gone)) == [gone]
    assert len(endpoint.harness.rows()) == 1


async def test_more_than_the_rate_of_the_endpoint_are_429_with_the_time_to_wait(
    harness: Harness,
) -> None:
    endpoint = Endpoint(harness, endpoint_rate=Rate(1, "h"))
    await harness.known_user()
    assert rejected(await notify(endpoint, url(endpoint))) == []
    response = await notify(endpoint, url(endpoint))
    assert refusal(response) == (429, 203)
    assert 3500 < int(headers_of(response)["retry-after"]) <= 3600


async def test_a_notification_that_is_too_large_keeps_what_the_client_needs_to_get_the_event(
    harness: Harness, endpoint: Endpoint
) -> None:
    await harness.known_user()
    large = FULL | {"content": {"body": "x" * MAX_DATA}}
    assert rejected(await notify(endpoint, url(endpoint), notification=large)) == []
    (row,) = harness.rows()
    assert json.loads(decode_base64url(str(row["data"]))) == {"notification": EVENT}


async def test_a_notification_of_the_largest_size_arrives_whole(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    room = MAX_DATA - len(b'{"notification":{"event_id":"$1","room_name":""}}')
    largest = {"event_id": "$1", "room_name": "x" * room}
    assert rejected(await notify(endpoint, url(endpoint), notification=largest)) == []
    (row,) = endpoint.harness.rows()
    assert json.loads(decode_base64url(str(row["data"]))) == {"notification": largest}


# ── malformed ────────────────────────────────────────────────────────────────────────────────────


@cases(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"notification": []}',
        b'{"notification": {}}',
        b'{"notification": {"devices": {}}}',
        b'{"notification": {"devices": []}}',
        b'{"notification": {"devices": ["key"]}}',
        b'{"notification": {"devices": [{}]}}',
        b'{"notification": {"devices": [{"pushkey": 1}]}}',
        body(EVENT, *["x"] * 101),
        body({"event_id": "$" + "x" * 5000}, "x"),
        body({"room_id": 5, "x": "x" * 5000}, "x"),
    ],
)
async def test_what_is_no_notification_is_400_122(endpoint: Endpoint, content: bytes) -> None:
    response = await endpoint.ask("POST", PATH, {}, content)
    assert refusal(response) == (400, 122)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
async def test_the_gateway_takes_get_and_post_only(endpoint: Endpoint, method: str) -> None:
    response = await endpoint.ask(method, PATH)
    assert refusal(response) == (405, 102)
    assert headers_of(response)["allow"] == "GET, POST, OPTIONS, HEAD"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_service_without_the_gateway_has_no_such_page(
    harness: Harness, method: str
) -> None:
    endpoint = Endpoint(harness, no_matrix_gateway=True)
    assert refusal(await endpoint.ask(method, PATH, {}, body(EVENT, "x"))) == (404, 102)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, True),
        ({"no_matrix_gateway": True}, False),
        ({"vapid_required": True}, False),
        ({"allowed_senders": ("mailto:push@example.org",)}, False),
    ],
)
def test_there_is_a_gateway_unless_it_is_off_or_senders_need_a_vapid_key(
    options: dict[str, Any], expected: bool
) -> None:
    assert Settings(**options).has_matrix_gateway is expected
