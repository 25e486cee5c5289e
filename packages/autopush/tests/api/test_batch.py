"""Many pushes in one request: each line is a push of its own, and has its own result."""

import asyncio
import json
from typing import Any

import pytest

from autopush.api.batch import MAX_BATCHES, MAX_MESSAGES, MAX_UNDER_WAY, STARTED_TOGETHER
from autopush.api.push import PushHandler
from autopush.limits import LimitRefusals, PushLimits
from autopush.net.http_messages import Request, Response
from autopush.settings.value_types import Rate
from autopush.telemetry.metric_table import LIMIT_REFUSED, NOTIFICATION_AUTH
from autopush.webpush.syntax import encode_base64url
from support.connection_harness import CHANNEL, ENDPOINT, UAID, Harness
from support.endpoint_harness import Endpoint, headers_of, refusal
from support.recorded import recorded
from support.senders import Sender

PATH = "/push/batch"
NOBODY = "0" * 31 + "1"
SENDER, STRANGER = Sender(), Sender()
GOOD = {"TTL": 60, "Content-Encoding": "aes128gcm"}


def vapid(harness: Harness, sender: Sender = SENDER, **claims: object) -> str:
    return sender.vapid({"aud": ENDPOINT, "exp": harness.clock() + 3600} | claims)


def message(url: str, headers: dict[str, object] = GOOD, body: bytes = b"x") -> dict[str, object]:
    return {"endpoint": url, "headers": headers, "body": encode_base64url(body)}


def ndjson(*messages: object) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in messages)


def url(endpoint: Endpoint, **of: Any) -> str:
    return ENDPOINT + endpoint.path(**of)


def results(response: Response) -> list[dict[str, Any]]:
    assert response.status == 200, response.body
    assert headers_of(response)["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in response.body.splitlines()]


@pytest.fixture
def endpoint(harness: Harness) -> Endpoint:
    return Endpoint(harness, batch_senders=[SENDER.key_text])


async def ask(endpoint: Endpoint, body: bytes, authorization: str | None = None) -> Response:
    authorization = authorization or vapid(endpoint.harness)
    return await endpoint.ask("POST", PATH, {"authorization": authorization}, body)


async def test_each_message_reaches_its_user_agent_with_its_own_headers(
    harness: Harness, endpoint: Endpoint
) -> None:
    agent = await harness.subscribed()
    to = url(endpoint, uaid=agent.uaid)
    first = message(to, GOOD | {"Urgency": "high"}, b"one")
    second = message(to, GOOD | {"Topic": "news", "TTL": "7"}, b"two")
    answers = results(await ask(endpoint, ndjson(first, second)))
    assert [(each["status"], each["ttl"]) for each in answers] == [(201, "60"), (201, "7")]
    await harness.run_until_idle()
    got = [each for each in agent.received() if isinstance(each, dict)]
    assert {each["data"] for each in got} == {encode_base64url(b"one"), encode_base64url(b"two")}
    assert {each["location"] for each in answers} == {
        f"{ENDPOINT}/m/{each['version']}" for each in got
    }


async def test_an_endpoint_may_be_spelled_as_in_the_line_of_a_request(
    harness: Harness, endpoint: Endpoint
) -> None:
    await harness.known_user()
    v1 = url(endpoint)
    spelled = [
        v1.replace("/v1/", "/v1/%67", 1) if v1.partition("/v1/")[2].startswith("g") else v1,
        v1.replace("/v1/", "/"),
        v1.replace(ENDPOINT, "https://former.example"),
        v1 + "?x=1",
        v1 + "/x",
        v1.replace("/v1/", "/v3/"),
    ]
    spelled[0] = spelled[0].replace("%67g", "%67")
    answers = results(await ask(endpoint, ndjson(*map(message, spelled))))
    assert [each["status"] for each in answers] == [201, 201, 201, 201, 404, 404]


async def test_a_message_that_is_refused_is_its_own_result_and_the_others_are_sent(
    harness: Harness, endpoint: Endpoint
) -> None:
    await harness.known_user()
    to = url(endpoint)
    body = ndjson(
        message(to),
        message(to, {"Content-Encoding": "aes128gcm"}),
        message(url(endpoint, uaid=NOBODY)),
        message("https://elsewhere.example/x"),
        message(to, body=b"x" * 5000),
        message(to, body=b"x" * 20_000),
        {"endpoint": to, "headers": GOOD, "body": "+"},
        {"headers": GOOD},
        message(to, GOOD | {"Topic": "a\nb"}),
        message(to),
    )
    body += b"{\n\n" + b'{"endpoint":"\xff"}\n' + ndjson({"endpoint": to, "headers": {"TTL": "0"}})
    answers = results(await ask(endpoint, body))
    assert [(each["status"], each.get("errno")) for each in answers] == [
        (201, None),
        (400, 111),
        (410, 103),
        (404, 102),
        (413, 104),
        (413, 104),
        (400, 122),
        (400, 122),
        (400, 122),
        (201, None),
        (400, 122),
        (400, 122),
        (201, None),
    ]
    assert all(each["message"] for each in answers if each["status"] >= 400)
    assert "`endpoint`" in answers[7]["message"]
    assert len(harness.rows()) == 2


async def test_the_batchs_signature_counts_for_lines_without_one(
    harness: Harness, endpoint: Endpoint
) -> None:
    await harness.known_user()
    stranger = {"authorization": vapid(harness, STRANGER)}
    lines = [
        message(url(endpoint, key=SENDER.point)),
        message(url(endpoint, key=STRANGER.point)),
        message(url(endpoint, key=STRANGER.point), GOOD | stranger),
        message(url(endpoint)),
    ]
    answers = results(await ask(endpoint, ndjson(*lines)))
    assert [(each["status"], each.get("errno")) for each in answers] == [
        (201, None),
        (401, 109),
        (201, None),
        (201, None),
    ]
    assert recorded(harness.metrics, NOTIFICATION_AUTH, scheme="vapid") == 3


async def test_limits_of_pushes_hold_for_each_message(harness: Harness) -> None:
    limits = PushLimits(LimitRefusals(harness.metrics), endpoint_rate=Rate(2, "h"))
    endpoint = Endpoint(harness, batch_senders=[SENDER.key_text], limits=limits)
    await harness.known_user()
    answers = results(await ask(endpoint, ndjson(*[message(url(endpoint))] * 3)))
    assert [each["status"] for each in answers] == [201, 201, 429]
    assert int(answers[2]["retry-after"]) > 0


async def test_a_client_cannot_pretend_an_address_in_a_line(
    harness: Harness, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed: list[Request] = []

    async def push(_: PushHandler, request: Request, version: str, token: str) -> Response:
        assert request.path == f"/wpush/{version}/{token}"
        pushed.append(request)
        return Response(201)

    monkeypatch.setattr(PushHandler, "__call__", push)
    headers = {"authorization": vapid(harness), "user-agent": "sender"}
    line = message(url(endpoint), GOOD | {"X-Forwarded-For": "192.0.2.1", "User-Agent": "other"})
    await endpoint.ask("POST", PATH, headers, ndjson(line))
    assert pushed[0].headers == {
        "authorization": headers["authorization"],
        "ttl": "60",
        "content-encoding": "aes128gcm",
        "user-agent": "sender",
    }


async def test_only_listed_keys_may_send_batches(harness: Harness, endpoint: Endpoint) -> None:
    await harness.known_user()
    body = ndjson(message(url(endpoint)))
    assert refusal(await endpoint.ask("POST", PATH, {}, body)) == (401, 120)
    assert refusal(await ask(endpoint, body, vapid(harness, STRANGER))) == (403, 121)
    assert recorded(harness.metrics, LIMIT_REFUSED, limit="batch_senders") == 2
    forged = f"{vapid(harness, STRANGER).partition(',k=')[0]},k={SENDER.key_text}"
    for bad in (
        forged,
        vapid(harness, exp=harness.clock() - 1),
        vapid(harness, aud="https://other.example"),
    ):
        assert refusal(await ask(endpoint, body, bad)) == (401, 109)
    assert harness.rows() == []


async def test_nobody_may_send_batches_by_default(harness: Harness) -> None:
    endpoint = Endpoint(harness)
    assert refusal(await ask(endpoint, ndjson(message(url(endpoint))))) == (404, 102)


async def test_a_batch_is_posted_and_has_between_one_and_1000_messages(
    harness: Harness, endpoint: Endpoint
) -> None:
    await harness.known_user()
    assert (await endpoint.ask("GET", PATH)).status == 405
    assert refusal(await ask(endpoint, b"\n\n")) == (400, 122)
    line = ndjson(message(url(endpoint), GOOD | {"TTL": "0"}))
    assert refusal(await ask(endpoint, line * (MAX_MESSAGES + 1))) == (413, 104)
    assert refusal(await ask(endpoint, line * MAX_MESSAGES + line.rstrip())) == (413, 104)
    assert harness.rows() == []
    answers = results(await ask(endpoint, line * MAX_MESSAGES))
    assert [each["status"] for each in answers] == [201] * MAX_MESSAGES


async def test_few_messages_and_batches_are_under_way_at_once(
    harness: Harness, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = 0
    full, proceed = asyncio.Event(), asyncio.Event()

    async def push(*_: object) -> Response:
        nonlocal waiting
        waiting += 1
        if waiting == MAX_BATCHES * MAX_UNDER_WAY:
            full.set()
        await proceed.wait()
        return Response(201)

    monkeypatch.setattr(PushHandler, "__call__", push)
    body = ndjson(*[message(url(endpoint, uaid=UAID, channel=CHANNEL))] * 100)
    under_way = [asyncio.ensure_future(ask(endpoint, body)) for _ in range(MAX_BATCHES)]
    async with asyncio.timeout(30):
        await full.wait()
        assert refusal(await ask(endpoint, body)) == (503, 201)
        assert waiting == MAX_BATCHES * MAX_UNDER_WAY
        proceed.set()
        for each in under_way:
            assert len(results(await each)) == 100


async def test_a_message_that_has_to_wait_holds_up_no_other_of_its_batch(
    harness: Harness, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[int] = []
    proceed, has_others = asyncio.Event(), asyncio.Event()

    async def push(_: PushHandler, request: Request, *_ids: str) -> Response:
        number = int(request.body)
        if number % 10 == 0:
            await proceed.wait()
        answered.append(number)
        if len(answered) == 180:
            has_others.set()
        return Response(201 + number % 2)

    monkeypatch.setattr(PushHandler, "__call__", push)
    to = url(endpoint, uaid=UAID, channel=CHANNEL)
    body = ndjson(*[message(to, body=b"%d" % number) for number in range(200)])
    batch = asyncio.ensure_future(ask(endpoint, body))
    async with asyncio.timeout(30):
        await has_others.wait()
    assert all(number % 10 for number in answered)
    proceed.set()
    assert [each["status"] for each in results(await batch)] == [201, 202] * 100


async def test_messages_that_need_not_wait_share_one_task(
    harness: Harness, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = set[object]()

    async def push(*_: object) -> Response:
        tasks.add(asyncio.current_task())
        return Response(201)

    monkeypatch.setattr(PushHandler, "__call__", push)
    body = ndjson(*[message(url(endpoint, uaid=UAID, channel=CHANNEL))] * 500)
    assert len(results(await ask(endpoint, body))) == 500
    assert len(tasks) == 1


async def test_a_message_that_fails_unexpectedly_is_a_500_and_the_others_are_sent(
    harness: Harness, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def push(_: PushHandler, request: Request, *_ids: str) -> Response:
        if request.body == b"1":
            raise ZeroDivisionError
        return Response(201)

    monkeypatch.setattr(PushHandler, "__call__", push)
    to = url(endpoint, uaid=UAID, channel=CHANNEL)
    body = ndjson(*[message(to, body=b"%d" % number) for number in range(3)])
    assert [each["status"] for each in results(await ask(endpoint, body))] == [201, 500, 201]


async def test_a_batch_that_is_cancelled_leaves_no_task(
    harness: Harness, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = asyncio.Event()
    before = asyncio.all_tasks()

    async def push(*_: object) -> Response:
        waiting.set()
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(PushHandler, "__call__", push)
    body = ndjson(*[message(url(endpoint, uaid=UAID, channel=CHANNEL))] * 300)
    batch = asyncio.ensure_future(ask(endpoint, body))
    async with asyncio.timeout(30):
        await waiting.wait()
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
    for _ in range(10):  # nothing is begun any more
        assert asyncio.all_tasks() == before
        await asyncio.sleep(0)


async def test_others_have_their_turn_while_a_batch_is_sent(
    harness: Harness, endpoint: Endpoint
) -> None:
    turns = 0
    answered = asyncio.Event()

    async def count_turns() -> None:
        nonlocal turns
        while not answered.is_set():
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_turns())
    await harness.known_user()
    await ask(endpoint, ndjson(message(url(endpoint), GOOD | {"TTL": "0"})) * 640)
    answered.set()
    await counting
    assert turns >= 640 // STARTED_TOGETHER
