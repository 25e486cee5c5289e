"""A push from request to answer: what is refused, in which order, and what a 201 guarantees."""

import asyncio
import gc
import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from autopush.api.app import EXPOSED
from autopush.delivery.calls import Outcome
from autopush.net.http_messages import Response
from autopush.settings.value_types import Rate
from autopush.telemetry.metric_table import METRICS
from autopush.webpush.errors import PushError
from autopush.webpush.syntax import encode_base64url
from autopush.webpush.tokens import decode_key, parse_message_id
from keytables import ItemTooLarge, OutOfReach, StorageFull, Throttled, Unavailable, Unconfirmed
from support.connection_harness import CHANNEL, ENDPOINT, OTHER_NODE, UAID, Harness
from support.endpoint_harness import AES128GCM, MAX_DATA, MAX_TTL, Endpoint, headers_of, refusal
from support.log_lines import LogFile
from support.senders import Sender

SENDER, STRANGER = Sender(), Sender()
BODY = b"\xc3\x28\xa0\xa1\xe2\x28\xa1"
TTL = {"ttl": "60"}


def vapid(harness: Harness, sender: Sender = SENDER, **claims: object) -> str:
    """Authorization valid for an hour, by default."""
    return sender.vapid({"aud": ENDPOINT, "exp": harness.clock() + 3600} | claims)


async def signed(
    harness: Harness, endpoint: Endpoint, authorization: str, headers: Mapping[str, str] = TTL
) -> Response:
    """A push to an endpoint that is restricted to SENDER."""
    return await endpoint.push({**headers, "authorization": authorization}, key=SENDER.point)


# ── refusals ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["nonsense", "an unknown user"])
async def test_a_refused_push_is_released_before_the_garbage_collector_runs(
    endpoint: Endpoint, path: str
) -> None:
    path = "/wpush/v1/nonsense" if path == "nonsense" else endpoint.path()
    await endpoint.ask("POST", path, TTL, BODY)  # what is loaded at the first
    gc.collect()
    gc.disable()
    try:
        known = {id(each) for each in gc.get_objects()}
        for _ in range(3):
            refusal(await endpoint.ask("POST", path, TTL, BODY))
        refusals = [each for each in gc.get_objects() if isinstance(each, PushError)]
        left = [type(each) for each in refusals if id(each) not in known]
    finally:
        gc.enable()
    assert left == []


async def test_of_several_errors_the_first_in_the_documented_order_is_reported(
    harness: Harness, endpoint: Endpoint
) -> None:
    v2 = endpoint.path(key=SENDER.point)
    headers = {"authorization": "Basic dXNlcg==", "crypto-key": "nonsense", "topic": "not a topic"}
    path, body = "/wpush/v1/nonsense", b"x" * (MAX_DATA + 1)

    async def answered() -> tuple[int, int]:
        return refusal(await endpoint.ask("POST", path, headers, body))

    assert await answered() == (404, 102)
    path = v2.replace("/v2/", "/v1/")
    assert await answered() == (400, 110)
    headers["crypto-key"] = "dh=abc"
    assert await answered() == (401, 109)
    headers["authorization"] = vapid(harness, STRANGER, exp=harness.clock() - 1)
    assert await answered() == (404, 102)
    path = v2
    assert await answered() == (401, 109)
    headers["authorization"] = vapid(harness, exp=harness.clock() - 1)
    assert harness.engine.calls == []
    assert await answered() == (410, 103)
    await harness.known_user()
    harness.change_record(router_type="simplepush")
    assert await answered() == (400, 108)
    assert harness.users() == [UAID]
    harness.change_record(router_type="webpush")
    harness.change_record(current_month="message_2011_01")
    assert await answered() == (410, 106)
    assert harness.users() == []
    await harness.known_user()
    await harness.store.current.remove_channel(UAID, CHANNEL)
    assert await answered() == (410, 106)
    assert harness.users() == [UAID]
    await harness.store.current.add_channel(UAID, CHANNEL)
    assert await answered() == (400, 113)
    headers["topic"] = "news"
    assert await answered() == (400, 111)
    headers["ttl"] = "-1"
    assert await answered() == (400, 112)
    headers["ttl"] = "60"
    assert await answered() == (413, 104)
    body = body[1:]
    assert await answered() == (400, 110)
    headers["content-encoding"] = "aes128gcm"
    assert await answered() == (400, 110)
    del headers["crypto-key"]
    assert await answered() == (401, 109)
    assert harness.rows() == []
    headers["authorization"] = vapid(harness)
    assert (await endpoint.ask("POST", path, headers, body)).status == 201


async def test_a_known_sender_does_not_hide_what_else_is_wrong(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    headers = TTL | {"authorization": vapid(endpoint.harness)}
    path = endpoint.path(key=SENDER.point)
    assert (await endpoint.ask("POST", path, headers)).status == 201
    assert refusal(await endpoint.ask("POST", "/wpush/v2/gAAAAA", headers)) == (404, 102)
    garbage = headers | {"crypto-key": "garbage"}
    assert refusal(await endpoint.ask("POST", path, garbage)) == (400, 110)
    of_v1, as_v1 = endpoint.path().replace("/v1/", "/v2/"), path.replace("/v2/", "/v1/")
    assert refusal(await endpoint.ask("POST", of_v1, headers)) == (404, 102)
    assert refusal(await endpoint.ask("POST", as_v1, headers)) == (404, 102)


async def test_all_urls_of_a_channel_work_while_it_is_registered(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    first, second = {"ttl": "60"}, {"ttl": "60", "authorization": vapid(endpoint.harness)}
    paths = ((endpoint.path(), first), (endpoint.path(key=SENDER.point), second))

    async def statuses() -> list[int]:
        return [(await endpoint.ask("POST", path, headers)).status for path, headers in paths]

    assert await statuses() == [201, 201]
    await endpoint.harness.store.current.remove_channel(UAID, CHANNEL)
    assert await statuses() == [410, 410]
    await endpoint.harness.store.current.add_channel(UAID, CHANNEL)
    assert await statuses() == [201, 201]


@pytest.mark.parametrize("form", [SENDER.point, SENDER.point[1:], SENDER.der])
@pytest.mark.parametrize("registered", [SENDER.point, SENDER.point[1:], SENDER.der])
async def test_a_restricted_endpoint_knows_its_sender_by_the_key_in_any_form(
    harness: Harness, endpoint: Endpoint, form: bytes, registered: bytes
) -> None:
    await harness.known_user()
    key = decode_key(encode_base64url(registered))
    token = vapid(harness).partition(",")[0]
    headers = TTL | {"authorization": f"{token},k={encode_base64url(form)}"}
    assert (await endpoint.push(headers, key=key)).status == 201
    # Of earlier versions, for the form that was registered.
    earlier = await endpoint.push(headers, key=registered)
    assert (earlier.status == 201) is (form == registered or registered == SENDER.point)


async def test_an_open_endpoint_does_not_take_a_bad_token_either(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    headers = TTL | {"authorization": vapid(endpoint.harness, exp=endpoint.harness.clock() - 1)}
    assert refusal(await endpoint.push(headers)) == (401, 109)


async def test_a_refusal_carries_the_headers_of_the_route(endpoint: Endpoint) -> None:
    headers = headers_of(await endpoint.push(TTL))
    assert headers["access-control-expose-headers"] == EXPOSED
    assert headers["cache-control"] == "max-age=86400"


# ── 201 ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_201_names_the_message_three_times(harness: Harness, endpoint: Endpoint) -> None:
    await harness.known_user()
    response = await endpoint.push(AES128GCM, BODY)
    assert response.status == 201
    headers = headers_of(response)
    assert headers["content-type"] == "application/json"
    assert headers["ttl"] == "60"
    document = json.loads(response.body)
    assert document.keys() == {"message-id"}
    assert headers["location"] == f"{ENDPOINT}/m/{document['message-id']}"
    (row,) = harness.rows()
    assert row["updateid"] == document["message-id"]
    message = parse_message_id(harness.ring, document["message-id"])
    assert (message.uaid, message.channel_id) == (UAID, CHANNEL)
    assert row["chidmessageid"] == message.sort_key


@pytest.mark.parametrize(
    ("sent", "applied"),
    [
        ("0", 0),
        ("60", 60),
        (str(MAX_TTL), MAX_TTL),
        (str(MAX_TTL + 1), MAX_TTL),
        ("9" * 30, MAX_TTL),
    ],
)
async def test_the_response_names_the_ttl_that_is_applied(
    harness: Harness, endpoint: Endpoint, sent: str, applied: int
) -> None:
    await harness.known_user()
    response = await endpoint.push({"ttl": sent})
    assert (response.status, headers_of(response)["ttl"]) == (201, str(applied))
    assert [row["ttl"] for row in harness.rows()] == ([applied] if applied else [])


async def test_with_store_first_the_201_waits_for_the_commit(
    harness: Harness, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await harness.subscribed()
    committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(harness.engine.tables["message"], "put", lambda item: committed)
    push = asyncio.ensure_future(endpoint.push(uaid=agent.uaid))
    await harness.run_until_idle()
    assert len(agent.versions()) == 1
    assert not push.done()
    committed.set_result(None)
    assert (await push).status == 201


# ── the store fails ─────────────────────────────────────────────────────────────────────────────

FAILURES = pytest.mark.parametrize(
    ("error", "answer"),
    [
        (Throttled("too many"), (503, 201)),
        (Unavailable("gone"), (503, 202)),
        (StorageFull("no space left"), (503, 205)),
        (OutOfReach("no answer"), (503, 201)),
        (Unconfirmed("no answer"), (503, 201)),
    ],
    ids=["throttled", "unavailable", "full", "out-of-reach", "unconfirmed"],
)


@FAILURES
@pytest.mark.parametrize("call", ["get router", "get message", "put message"])
async def test_a_store_that_fails_is_503_and_the_push_may_be_repeated(
    harness: Harness, endpoint: Endpoint, call: str, error: Exception, answer: tuple[int, int]
) -> None:
    await harness.known_user()
    harness.engine.fail(call, error)
    assert refusal(await endpoint.push()) == answer
    assert harness.rows() == []
    assert (await endpoint.push()).status == 201


async def test_with_a_nearly_full_disk_new_messages_are_503_205_and_reach_nobody(
    harness: Harness, endpoint: Endpoint
) -> None:
    agent = await harness.subscribed()
    await harness.known_user()
    harness.engine.nearly_full = True
    for uaid in (agent.uaid, UAID):
        response = await endpoint.push(uaid=uaid)
        assert refusal(response) == (503, 205)
        assert headers_of(response)["retry-after"] == "120"
    assert (harness.rows(), agent.received()) == ([], [])
    assert (await endpoint.push({"ttl": "0"}, uaid=agent.uaid)).status == 201
    harness.engine.nearly_full = False
    assert (await endpoint.push(uaid=agent.uaid)).status == 201


@FAILURES
async def test_an_invalid_record_that_cannot_be_dropped_is_503(
    harness: Harness, endpoint: Endpoint, error: Exception, answer: tuple[int, int]
) -> None:
    await harness.known_user()
    harness.change_record(current_month=None)
    harness.engine.fail("delete router", error)
    assert refusal(await endpoint.push()) == answer


@pytest.mark.parametrize("call", ["update router", "get router"])
async def test_once_it_is_stored_a_failing_call_is_still_201(endpoint: Endpoint, call: str) -> None:
    await endpoint.harness.known_user()
    before = [None] if call == "get router" else []
    endpoint.harness.engine.fail(call, *before, Unavailable("gone"))
    assert (await endpoint.push()).status == 201
    assert len(endpoint.harness.rows()) == 1


async def test_a_message_too_large_for_the_store_is_413_104(
    harness: Harness, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.known_user()

    def refuse(item: object) -> None:
        raise ItemTooLarge(500_000, 409_600)

    monkeypatch.setattr(harness.engine.tables["message"], "put", refuse)
    assert refusal(await endpoint.push()) == (413, 104)


# ── by way of the node that took the last message ───────────────────────────────────────────────


async def by_way_of_a_node(harness: Harness, **options: Any) -> Endpoint:
    """The endpoint, after a message of SENDER that another node has taken."""
    endpoint = Endpoint(harness, store_first=False, **options)
    await harness.known_user()
    harness.nodes.push_answer = Outcome.DONE
    assert (await signed(harness, endpoint, vapid(harness))).status == 201
    assert harness.nodes.calls == [("push", OTHER_NODE, UAID)]
    harness.nodes.calls.clear()
    harness.engine.calls.clear()
    return endpoint


async def test_a_second_message_is_checked_as_the_first_one_and_calls_no_store(
    harness: Harness,
) -> None:
    endpoint = await by_way_of_a_node(harness)
    valid = vapid(harness)
    expired = vapid(harness, exp=harness.clock() - 1)
    forged = f"{valid.partition(',k=')[0][:-4]}AAAA,k={SENDER.key_text}"
    assert refusal(await endpoint.push(TTL, key=SENDER.point)) == (401, 109)
    assert refusal(await signed(harness, endpoint, vapid(harness, STRANGER))) == (401, 109)
    assert refusal(await signed(harness, endpoint, expired)) == (401, 109)
    assert refusal(await signed(harness, endpoint, forged)) == (401, 109)
    assert refusal(await signed(harness, endpoint, valid, {})) == (400, 111)
    assert harness.nodes.calls == []
    assert (await signed(harness, endpoint, valid)).status == 201
    assert harness.nodes.calls == [("push if subscribed", OTHER_NODE, UAID)]
    assert harness.engine.calls == []


async def test_a_second_message_is_subject_to_the_limits_of_senders_and_rates(
    harness: Harness,
) -> None:
    endpoint = await by_way_of_a_node(
        harness, endpoint_rate=Rate(3, "h"), allowed_senders=[SENDER.key_text]
    )
    stranger = {**TTL, "authorization": vapid(harness, STRANGER)}
    assert refusal(await endpoint.push(stranger)) == (403, 121)
    assert harness.nodes.calls == []
    statuses = [(await signed(harness, endpoint, vapid(harness))).status for _ in range(3)]
    assert statuses == [201, 201, 429]
    assert harness.nodes.calls == [("push if subscribed", OTHER_NODE, UAID)] * 2


async def test_a_second_message_is_counted_and_logged_as_the_first_one(
    harness: Harness, tmp_path: Path
) -> None:
    log = LogFile(tmp_path, level="debug")
    endpoint = Endpoint(harness, store_first=False)
    await harness.known_user()
    harness.nodes.push_answer = Outcome.DONE
    metrics = harness.metrics.shared

    def counted() -> list[list[float]]:
        """How often each thing was recorded; of a time not how long it was."""
        return [
            [sum(metrics.total(metric)[: len(metric.buckets) + 1])]
            if metric.unit == "seconds"
            else list(metrics.total(metric))
            for metric in METRICS
        ]

    counts = [counted()]
    for _ in range(2):
        assert (await signed(harness, endpoint, vapid(harness))).status == 201
        counts.append(counted())
    assert [call[0] for call in harness.nodes.calls] == ["push", "push if subscribed"]
    first, second = [
        [
            [now - then for now, then in zip(*both, strict=True)]
            for both in zip(after, before, strict=True)
        ]
        for before, after in pairwise(counts)
    ]
    assert first == second
    assert sum(map(sum, first)) > 3
    lines = [
        {
            name: value
            for name, value in fields.items()
            if name != "request_id" and not name.endswith("_time")
        }
        for fields in log.all_fields
    ]
    assert lines[0] == lines[1]
    assert lines[0]["message"] == "Successful delivery"
    assert len(lines) == 2
