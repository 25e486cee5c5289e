"""Receipts: the outcome of a message, asked by its sender."""

import asyncio
import json
from typing import Any

import pytest

from autopush.api.receipts import RELATION, _link
from autopush.bridges import RouterError
from autopush.net.http_messages import Request, Response, Upgrade
from autopush.settings.value_types import Rate
from autopush.store.receipts import GRACE, MAX_MESSAGES, RETENTION, Receipts
from autopush.telemetry.metric_table import MESSAGE_STATE, STATES
from autopush.webpush.errors import Errno
from autopush.webpush.tokens import ReceiptSubscription, parse_message_id
from keytables import Unavailable
from support.cases import cases
from support.connection_harness import CHANNEL, ENDPOINT, NODE, OTHER, UAID, Harness, UserAgent
from support.endpoint_harness import AES128GCM, Endpoint, headers_of, refusal
from support.fake_transport import FakeTransport
from support.recorded import recorded
from support.scripted_router import ScriptedRouter
from support.senders import Sender

ASYNC = AES128GCM | {"prefer": "respond-async"}
SENDER, STRANGER = Sender(), Sender()


@pytest.fixture
async def endpoint(harness: Harness) -> Endpoint:
    harness.store.receipts = await Receipts.open(harness.engine, "receipt", harness.clock)
    return Endpoint(harness)


async def subscriber(harness: Harness) -> UserAgent:
    """A connected user agent with one channel."""
    await harness.known_user(node_id=NODE)
    return await harness.identified(UAID)


async def delivered(harness: Harness, endpoint: Endpoint) -> tuple[UserAgent, Response, Any]:
    """A user agent that got a message: with the answer to its sender, and as it was received."""
    agent = await subscriber(harness)
    answer = await endpoint.push(ASYNC, b"x")
    (notification,) = agent.received()
    return agent, answer, notification


async def stored(harness: Harness, endpoint: Endpoint) -> Response:
    """The answer to a push for a user agent that is not connected."""
    await harness.known_user()
    return await endpoint.push(ASYNC, b"x")


def subscription_of(response: Response) -> str:
    """The path of the receipt subscription that a 202 names."""
    assert response.status == 202
    headers = headers_of(response)
    assert headers["preference-applied"] == "respond-async"
    url, _, parameters = headers["link"].partition(">")
    assert parameters == '; rel="urn:ietf:params:push:receipt"'
    return url.removeprefix(f"<{ENDPOINT}")


def message_of(response: Response) -> str:
    return headers_of(response)["location"].removeprefix(ENDPOINT)


async def receipts(endpoint: Endpoint, path: str, **headers: str) -> list[dict[str, Any]]:
    answer = await endpoint.ask("GET", path, headers)
    assert answer.status == 200
    found: list[dict[str, Any]] = json.loads(answer.body)["receipts"]
    return found


async def statuses(endpoint: Endpoint, path: str) -> list[int]:
    return [each["status"] for each in await receipts(endpoint, path)]


async def state_of(endpoint: Endpoint, path: str) -> dict[str, Any]:
    answer = await endpoint.ask("GET", path)
    assert answer.status == 200
    document: dict[str, Any] = json.loads(answer.body)
    return document


def ack(agent: UserAgent, notification: Any, **members: object) -> None:
    update = {key: notification[key] for key in ("channelID", "version")} | members
    agent.send_json(messageType="ack", updates=[update])


# ── asking for a receipt ────────────────────────────────────────────────────────────────────────


async def test_a_push_that_does_not_ask_gets_no_receipt(endpoint: Endpoint) -> None:
    await subscriber(endpoint.harness)
    for headers in (AES128GCM, AES128GCM | {"prefer": "wait=5"}):
        answer = await endpoint.push(headers)
        assert answer.status == 201
        assert "link" not in headers_of(answer)


async def test_where_receipts_are_off_the_preference_is_ignored(harness: Harness) -> None:
    endpoint = Endpoint(harness)
    await subscriber(harness)
    assert (await endpoint.push(ASYNC)).status == 201
    assert refusal(await endpoint.ask("GET", "/r/token")) == (404, 102)


@pytest.mark.parametrize("store_first", [True, False])
async def test_a_message_passes_all_states_to_its_ack(
    harness: Harness, endpoint: Endpoint, store_first: bool
) -> None:
    endpoint = Endpoint(harness, store_first=store_first)
    agent = await subscriber(harness)
    answer = await endpoint.push(ASYNC, b"x")
    subscription, message = subscription_of(answer), message_of(answer)
    await harness.run_until_idle()
    assert await statuses(endpoint, subscription) == [202]
    (notification,) = agent.received()
    ack(agent, notification, code=100)
    await harness.run_until_idle()
    (receipt,) = await receipts(endpoint, subscription)
    assert (receipt["status"], receipt["state"], receipt["code"]) == (204, "delivered", 100)
    assert receipt["message"] == f"{ENDPOINT}{message}"
    assert receipt["times"].keys() == {"received", "stored", "transmitted", "delivered"}
    assert await state_of(endpoint, message) == receipt
    assert harness.stored_versions() == []


async def test_a_message_that_waited_was_retrieved(harness: Harness, endpoint: Endpoint) -> None:
    answer = await stored(harness, endpoint)
    agent = await harness.hello(UAID)
    _, notification = agent.received()
    agent.ack(notification)
    await harness.run_until_idle()
    (receipt,) = await receipts(endpoint, subscription_of(answer))
    assert receipt["status"] == 204
    assert receipt["times"].keys() >= {"stored", "retrieved", "transmitted", "delivered"}


@pytest.mark.parametrize(("kind", "code"), [("ack", 101), ("ack", 102), ("nack", 302)])
async def test_an_ack_may_say_that_the_message_could_not_be_used_and_a_nack_leaves_it_pending(
    harness: Harness, endpoint: Endpoint, kind: str, code: int
) -> None:
    agent, answer, notification = await delivered(harness, endpoint)
    if kind == "ack":
        ack(agent, notification, code=code)
    else:
        agent.send_json(messageType="nack", version=notification["version"], code=code)
    await harness.run_until_idle()
    (receipt,) = await receipts(endpoint, subscription_of(answer))
    status = 204 if kind == "ack" else 202
    assert (receipt["status"], receipt["state"], receipt["code"]) == (status, "errored", code)


async def test_with_a_ttl_of_0_an_unacked_message_is_not_stored_at_the_end(
    harness: Harness, endpoint: Endpoint
) -> None:
    agent = await subscriber(harness)
    answer = await endpoint.push(ASYNC | {"ttl": "0"}, b"x")
    agent.disconnect()
    await harness.pass_time(GRACE)
    assert harness.stored_versions() == []
    assert await statuses(endpoint, subscription_of(answer)) == [410]


async def test_what_nobody_can_get_is_410_at_once(harness: Harness, endpoint: Endpoint) -> None:
    await harness.known_user()
    answer = await endpoint.push(ASYNC | {"ttl": "0"}, b"x")
    (receipt,) = await receipts(endpoint, subscription_of(answer))
    assert (receipt["status"], receipt["state"]) == (410, "expired")


async def test_a_message_is_410_when_it_has_expired(harness: Harness, endpoint: Endpoint) -> None:
    answer = await stored(harness, endpoint)
    await harness.pass_time(60 + GRACE - 1)
    assert await statuses(endpoint, subscription_of(answer)) == [202]
    await harness.pass_time(1)
    assert await statuses(endpoint, subscription_of(answer)) == [410]
    await harness.pass_time(RETENTION)
    assert refusal(await endpoint.ask("GET", subscription_of(answer))) == (404, 102)


async def test_a_replaced_message_is_410(harness: Harness, endpoint: Endpoint) -> None:
    await harness.known_user()
    first = await endpoint.push(ASYNC | {"topic": "news"}, b"1")
    second = await endpoint.push(ASYNC | {"topic": "news"}, b"2")
    assert await statuses(endpoint, subscription_of(first)) == [410]
    assert await statuses(endpoint, subscription_of(second)) == [202]


@pytest.mark.parametrize("gone", ["user", "channel", "message"])
async def test_a_message_is_410_when_it_or_its_user_or_channel_is_gone(
    harness: Harness, endpoint: Endpoint, gone: str
) -> None:
    answer = await stored(harness, endpoint)
    if gone == "user":
        assert await harness.store.drop_user(await harness.record())
    elif gone == "channel":
        assert await harness.store.current.remove_channel(UAID, CHANNEL)
    else:
        assert (await endpoint.ask("DELETE", message_of(answer))).status == 204
    assert await statuses(endpoint, subscription_of(answer)) == [410]
    assert (await state_of(endpoint, message_of(answer)))["status"] == 410


async def test_the_ack_is_known_before_its_message_is_deleted(endpoint: Endpoint) -> None:
    agent, answer, notification = await delivered(endpoint.harness, endpoint)
    await endpoint.harness.run_until_idle()
    endpoint.harness.engine.fail("update receipt", Unavailable("away"))
    agent.ack(notification)
    await endpoint.harness.run_until_idle()
    assert endpoint.harness.stored_versions() != []
    assert await statuses(endpoint, subscription_of(answer)) == [202]
    await endpoint.harness.pass_time(60)
    assert endpoint.harness.stored_versions() == []
    assert await statuses(endpoint, subscription_of(answer)) == [204]


async def test_a_receipt_that_cannot_be_stored_does_not_refuse_the_message(
    harness: Harness, endpoint: Endpoint
) -> None:
    await harness.known_user()
    harness.engine.fail("update receipt", Unavailable("away"))
    assert (await endpoint.push(ASYNC, b"x")).status == 201
    assert len(harness.stored_versions()) == 1


# ── through a bridge ────────────────────────────────────────────────────────────────────────────


async def bridged(harness: Harness) -> tuple[Endpoint, ScriptedRouter]:
    """An endpoint with receipts, and the bridge of its user."""
    harness.store.receipts = await Receipts.open(harness.engine, "receipt", harness.clock)
    bridge = ScriptedRouter()
    await harness.bridged_user("fcm", {"token": "x"})
    return Endpoint(harness, routers={"fcm": bridge}), bridge


async def test_what_the_provider_of_a_bridge_took_is_accepted_and_nobody_waits_for_more(
    harness: Harness,
) -> None:
    endpoint, _ = await bridged(harness)
    answer = await endpoint.push(ASYNC, b"x")
    async with asyncio.timeout(30):
        (receipt,) = await receipts(endpoint, subscription_of(answer), prefer="wait=60")
    assert (receipt["status"], receipt["state"]) == (201, "accepted")
    assert receipt["times"].keys() == {"received", "accepted"}
    assert await state_of(endpoint, message_of(answer)) == receipt
    await harness.pass_time(60 + GRACE)
    assert await statuses(endpoint, subscription_of(answer)) == [201]


async def test_what_a_bridge_refused_has_no_receipt(harness: Harness) -> None:
    endpoint, bridge = await bridged(harness)
    bridge.outcome = RouterError(Errno.BRIDGE_UNREACHABLE, "away", is_outage=True)
    answer = await endpoint.push(ASYNC, b"x")
    assert refusal(answer) == (502, 902)
    assert "link" not in headers_of(answer)
    assert recorded(harness.metrics, MESSAGE_STATE, state="errored") == 1
    assert recorded(harness.metrics, MESSAGE_STATE, state="accepted") == 0


# ── every message ───────────────────────────────────────────────────────────────────────────────


async def test_each_state_of_each_message_is_counted_without_a_receipt(harness: Harness) -> None:
    endpoint = Endpoint(harness, store_first=False, routers={"fcm": ScriptedRouter()})
    agent = await subscriber(harness)
    for number in range(4):
        await endpoint.push(AES128GCM, b"%d" % number)
    first, second, third, fourth = agent.received()
    ack(agent, first, code=100)
    ack(agent, second)
    ack(agent, third, code=101)
    assert isinstance(fourth, dict)
    agent.send_json(messageType="nack", version=fourth["version"], code=301)
    agent.disconnect()  # the last one is stored
    await harness.run_until_idle()
    await endpoint.push(AES128GCM | {"topic": "news"}, b"5")
    await endpoint.push(AES128GCM | {"ttl": "0"}, b"6")
    await endpoint.push(AES128GCM, uaid="0" * 31 + "1")
    agent = await harness.hello(UAID)
    _, *again = agent.received()
    for each in again:
        ack(agent, each, code=100)
    await harness.bridged_user("fcm", {"token": "x"}, "f" * 32)
    await endpoint.push(AES128GCM, b"7", uaid="f" * 32)
    states = {state: recorded(harness.metrics, MESSAGE_STATE, state=state) for state in STATES}
    assert states == {
        "received": 8,
        "stored": 2,
        "retrieved": 2,
        "transmitted": 6,
        "accepted": 1,
        "delivered": 5,
        "errored": 2,
        "expired": 1,
    }


# ── subscriptions ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", ["link", "push-receipt"])
async def test_a_sender_may_use_one_subscription_for_several_messages(
    harness: Harness, endpoint: Endpoint, form: str
) -> None:
    await harness.known_user()
    first = await endpoint.push(ASYNC, b"1")
    url = headers_of(first)["link"]
    if form == "push-receipt":
        url = url.partition(">")[0].removeprefix("<")
    second = await endpoint.push(ASYNC | {form: url}, b"2")
    found = await receipts(endpoint, subscription_of(second))
    assert {each["message"] for each in found} == {
        f"{ENDPOINT}{message_of(each)}" for each in (first, second)
    }


async def test_another_senders_subscription_is_not_used(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()

    async def push(sender: Sender, **headers: str) -> Response:
        claims = {"aud": ENDPOINT, "exp": endpoint.harness.clock() + 3600}
        return await endpoint.push(ASYNC | {"authorization": sender.vapid(claims)} | headers, b"x")

    first = await push(SENDER)
    other = await push(STRANGER, link=headers_of(first)["link"])
    assert len(await receipts(endpoint, subscription_of(first))) == 1
    own = await push(SENDER, link=headers_of(first)["link"])
    assert len(await receipts(endpoint, subscription_of(own))) == 2
    assert len(await receipts(endpoint, subscription_of(other))) == 1


async def test_who_sends_to_another_endpoint_does_not_add_to_an_anonymous_subscription(
    harness: Harness, endpoint: Endpoint
) -> None:
    await harness.known_user()
    first = await endpoint.push(ASYNC, b"x")
    link = {"link": headers_of(first)["link"]}
    assert await harness.store.current.add_channel(UAID, OTHER) is not False
    other = await endpoint.push(ASYNC | link, b"x", channel=OTHER)
    signed = SENDER.vapid({"aud": ENDPOINT, "exp": harness.clock() + 3600})
    third = await endpoint.push(ASYNC | link | {"authorization": signed}, b"x")
    assert len({subscription_of(each) for each in (first, other, third)}) == 3
    assert len(await receipts(endpoint, subscription_of(first))) == 1


@cases(
    ("link", "target"),
    [
        ('<https://a/r/1>; rel="{}"', "https://a/r/1"),
        ("<https://a/r/1>;rel={}", "https://a/r/1"),
        ('<https://b/r/2>; rel="next", <https://a/r/1> ; title=x; rel="{}"', "https://a/r/1"),
        ('<https://a/r/1>; REL="prev {}"', "https://a/r/1"),
        ('<https://a/r/1>; rel="next"', ""),
        ('<https://a/r/1; rel="{}"', ""),
        ('https://a/r/1; rel="{}"', ""),
        ("<https://a/r/1>; rel={}x", ""),
        ("<>;" * 5400, ""),
        ("", ""),
    ],
)
def test_the_subscription_is_the_target_of_the_link_with_its_relation(
    link: str, target: str
) -> None:
    assert _link(link.replace("{}", RELATION)) == target


async def test_a_full_subscription_is_followed_by_a_new_one(endpoint: Endpoint) -> None:
    answer = await stored(endpoint.harness, endpoint)
    for _ in range(MAX_MESSAGES):
        answer = await endpoint.push(ASYNC | {"link": headers_of(answer)["link"]}, b"x")
    assert len(await receipts(endpoint, subscription_of(answer))) == 1


async def test_a_sender_gets_so_many_receipts_and_then_none(harness: Harness) -> None:
    harness.store.receipts = await Receipts.open(harness.engine, "receipt", harness.clock)
    endpoint = Endpoint(harness, receipt_rate=Rate(2, "min"))
    await harness.known_user()
    assert [(await endpoint.push(ASYNC, b"x")).status for _ in range(3)] == [202, 202, 201]


@pytest.mark.parametrize("token", ["", "x", "foreign", "unknown", "message"])
async def test_no_subscription_of_this_service_is_404(endpoint: Endpoint, token: str) -> None:
    await endpoint.harness.known_user()
    if token == "unknown":
        token = ReceiptSubscription.new(b"sender").token(endpoint.harness.ring)
    elif token == "message":
        token = message_of(await endpoint.push(ASYNC)).removeprefix("/m/")
    elif token == "foreign":
        token = subscription_of(await endpoint.push(ASYNC)).removeprefix("/r/")[:-4] + "AAAA"
    assert refusal(await endpoint.ask("GET", f"/r/{token}")) == (404, 102)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_a_subscription_can_only_be_read(endpoint: Endpoint, method: str) -> None:
    assert refusal(await endpoint.ask(method, "/r/token")) == (405, 102)


# ── waiting ─────────────────────────────────────────────────────────────────────────────────────


async def until_waiting(harness: Harness, count: int = 1) -> None:
    assert harness.store.receipts is not None
    while harness.store.receipts.waiting < count:  # noqa: ASYNC110 - the code has no such event
        await asyncio.sleep(0)


async def test_a_waiting_request_is_answered_by_the_ack(endpoint: Endpoint) -> None:
    agent, answer, notification = await delivered(endpoint.harness, endpoint)
    await endpoint.harness.run_until_idle()
    path = subscription_of(answer)
    waiting = asyncio.ensure_future(endpoint.ask("GET", path, {"prefer": "wait=60"}))
    await until_waiting(endpoint.harness)
    assert endpoint.app.in_progress == 0
    agent.ack(notification)
    await endpoint.harness.run_until_idle()
    answer = await waiting
    assert [each["status"] for each in json.loads(answer.body)["receipts"]] == [204]
    known = {"prefer": "wait=0", "if-none-match": headers_of(answer)["etag"]}
    assert (await endpoint.ask("GET", path, known)).status == 304


async def test_a_waiting_request_sees_what_another_process_writes(endpoint: Endpoint) -> None:
    answer = await stored(endpoint.harness, endpoint)
    path, message = subscription_of(answer), message_of(answer).removeprefix("/m/")
    waiting = asyncio.ensure_future(endpoint.ask("GET", path, {"prefer": "wait=60"}))
    await until_waiting(endpoint.harness)
    other = await Receipts.open(endpoint.harness.engine, "receipt", endpoint.harness.clock)
    await other.record_states(
        parse_message_id(endpoint.harness.ring, message), "delivered", code=None
    )
    answer = await waiting
    assert [each["status"] for each in json.loads(answer.body)["receipts"]] == [204]


async def test_a_wait_that_ends_answers_what_is_pending(endpoint: Endpoint) -> None:
    answer = await stored(endpoint.harness, endpoint)
    assert endpoint.harness.store.receipts is not None
    waiting = asyncio.ensure_future(
        endpoint.ask("GET", subscription_of(answer), {"prefer": "wait=60"})
    )
    await until_waiting(endpoint.harness)
    await endpoint.receipts.end_waits()
    assert [each["status"] for each in json.loads((await waiting).body)["receipts"]] == [202]


async def test_more_requests_than_may_wait_are_429(harness: Harness, endpoint: Endpoint) -> None:
    endpoint.receipts.max_waiting = 2
    path = subscription_of(await stored(harness, endpoint))
    wait = {"prefer": "wait=60"}
    waiting = [asyncio.ensure_future(endpoint.ask("GET", path, wait)) for _ in range(2)]
    await until_waiting(harness, 2)
    assert refusal(await endpoint.ask("GET", path, wait)) == (429, 203)
    assert await statuses(endpoint, path) == [202]
    await endpoint.receipts.end_waits()
    await asyncio.gather(*waiting)


async def test_requests_that_wait_are_counted_by_address(
    harness: Harness, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autopush.api.receipts.MAX_WAITING_OF_ADDRESS", 2)
    path = subscription_of(await stored(harness, endpoint))

    def ask(address: str) -> asyncio.Future[Any]:
        request = Request("GET", path, "", {"prefer": "wait=60"}, address)
        return asyncio.ensure_future(endpoint.handle(request))

    waiting = [ask("2001:db8::1"), ask("2001:db8::2")]
    await until_waiting(harness, 2)
    assert refusal(await ask("2001:db8::3")) == (429, 203)
    waiting.append(ask("2001:db8:0:1::1"))
    await until_waiting(harness, 3)
    waiting.pop(0).cancel()
    await harness.run_until_idle()
    waiting.append(ask("2001:db8::3"))
    await until_waiting(harness, 3)
    await endpoint.receipts.end_waits()
    await asyncio.gather(*waiting)


async def test_one_address_reads_receipts_so_often(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autopush.api.receipts.READ_RATE", Rate(2, "min"))
    harness.store.receipts = await Receipts.open(harness.engine, "receipt", harness.clock)
    endpoint = Endpoint(harness)
    path = subscription_of(await stored(harness, endpoint))
    answers = [await endpoint.ask("GET", path) for _ in range(3)]
    assert [each.status for each in answers] == [200, 200, 429]


async def test_all_that_wait_for_a_subscription_share_its_reads_and_let_others_run(
    harness: Harness, endpoint: Endpoint
) -> None:
    endpoint.receipts.max_waiting = 1000
    agent = await subscriber(harness)
    answer = await endpoint.push(ASYNC, b"x")
    for _ in range(19):
        answer = await endpoint.push(ASYNC | {"link": headers_of(answer)["link"]}, b"x")
    await harness.run_until_idle()
    path, streams = subscription_of(answer), []
    requests = [
        Request("GET", path, "", {"prefer": "wait=60"} | more, f"192.0.2.{number % 4}")
        for number in range(400)
        for more in ({"accept": "text/event-stream"} if number % 2 else {},)
    ]
    harness.engine.calls.clear()
    asked = [asyncio.ensure_future(endpoint.handle(each)) for each in requests]
    most = seen = 0

    async def watch() -> None:
        """Count the calls of each turn of the loop."""
        nonlocal most, seen
        while True:
            most, seen = max(most, len(harness.engine.calls) - seen), len(harness.engine.calls)
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(watch())
    for each in await asyncio.gather(*asked[1::2]):
        assert isinstance(each, Upgrade)
        streams.append(FakeTransport(harness.loop, each.protocol_factory("")))
    await until_waiting(harness, 400)
    agent.ack(*agent.received())
    answers = await asyncio.gather(*asked[::2])
    while not all(b"data: " in each.written for each in streams):
        await harness.run_until_idle()
    for found in answers:
        assert isinstance(found, Response)
        # With the first outcome; which of the messages has it is a matter of their ids.
        assert 204 in [each["status"] for each in json.loads(found.body)["receipts"]]
    watching.cancel()
    # One read is shared by all; one checks 20 messages.
    assert len([each for each in harness.engine.calls if "query receipt" in str(each)]) < 50
    assert most < 50
    await endpoint.receipts.end_waits()
    await harness.run_until_idle()


async def test_a_stream_has_each_outcome_once_and_ends_with_the_service(endpoint: Endpoint) -> None:
    agent = await subscriber(endpoint.harness)
    path = subscription_of(await endpoint.push(ASYNC, b"x"))
    request = Request("GET", path, "", {"accept": "text/event-stream"}, "::1")
    stream = await endpoint.handle(request)
    assert isinstance(stream, Upgrade)
    assert ("Content-Type", "text/event-stream") in stream.headers
    assert ("Access-Control-Allow-Origin", "*") in stream.headers
    transport = FakeTransport(endpoint.harness.loop, stream.protocol_factory(""))
    await until_waiting(endpoint.harness)
    assert transport.written == b""
    agent.ack(*agent.received())
    while b"data: " not in transport.written:
        await endpoint.harness.run_until_idle()
    await asyncio.sleep(0.05)  # several polls
    assert transport.written.count(b"data: ") == 1
    assert json.loads(transport.written.removeprefix(b"data: "))["status"] == 204
    await endpoint.receipts.end_waits()
    assert transport.closing  # whatever its poll is waiting for
    await endpoint.harness.run_until_idle()
    assert not endpoint.receipts._streams


async def test_a_client_that_does_not_read_its_stream_is_disconnected(endpoint: Endpoint) -> None:
    path = subscription_of(await stored(endpoint.harness, endpoint))
    stream = await endpoint.handle(Request("GET", path, "", {"accept": "text/event-stream"}, "::1"))
    assert isinstance(stream, Upgrade)
    protocol = stream.protocol_factory("")
    transport = FakeTransport(endpoint.harness.loop, protocol)
    await until_waiting(endpoint.harness)
    protocol.pause_writing()
    assert transport.lost or transport.closing
    while endpoint.harness.store.receipts is not None and endpoint.harness.store.receipts.waiting:
        await endpoint.harness.run_until_idle()


# ── the state of a message without a receipt ────────────────────────────────────────────────────


async def test_of_a_message_without_a_receipt_is_known_whether_it_is_stored(
    harness: Harness, endpoint: Endpoint
) -> None:
    await harness.known_user()
    message = message_of(await endpoint.push(AES128GCM, b"x"))
    received = int(harness.clock() * 1000)
    assert await state_of(endpoint, message) == {"state": "stored", "times": {"received": received}}
    await endpoint.ask("DELETE", message)
    assert await state_of(endpoint, message) == {"state": "unknown"}
    assert refusal(await endpoint.ask("GET", "/m/nonsense")) == (400, 102)
