"""What routing records: calls to nodes, users that are gone, bridges that refuse, time to store."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from autopush.delivery.bridge_contract import RouterError, RouterResponse
from autopush.delivery.bridged import Bridges
from autopush.delivery.calls import Outcome
from autopush.delivery.peers import Nodes
from autopush.delivery.router import UserAgentRouter, UserOnRecord
from autopush.net.timers import TimerWheel
from autopush.telemetry.metric_table import (
    BRIDGE_ERROR,
    BRIDGE_SENT,
    CLIENT_DELETED,
    DROP_USER,
    HOST_GONE,
    NODE_CONNECT_ERROR,
    NODE_TIMEOUT,
    SAVE_TIME,
)
from autopush.telemetry.metrics import Metric
from autopush.webpush.errors import Errno, PushError
from support.connection_harness import CHANNEL, OTHER_NODE, UAID, Harness
from support.node_server import KEYS, node_at, node_serving
from support.recorded import recorded
from support.scripted_router import ScriptedRouter
from support.sockets import silent_port, unused_port


def count(harness: Harness, metric: Metric, **labels: str) -> float:
    return recorded(harness.metrics, metric, **labels)


def router(harness: Harness, bridges: Bridges | None = None) -> UserAgentRouter:
    return UserAgentRouter(
        harness.store,
        harness.registry,
        harness.nodes,
        harness.parts.placement,
        bridges or Bridges({}, harness.store, harness.metrics),
        harness.metrics,
        store_first=False,
    )


# ── Calls to nodes ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def wheel() -> AsyncIterator[TimerWheel]:
    opened = TimerWheel(asyncio.get_running_loop(), 0.01)
    yield opened
    opened.close()


@pytest.fixture
async def nodes(harness: Harness, wheel: TimerWheel) -> AsyncIterator[Nodes]:
    opened = Nodes(
        "", harness.parts.answering, wheel, harness.metrics, keys=KEYS, connect_timeout=5
    )
    yield opened
    opened.close()


def node_errors(harness: Harness) -> list[float]:
    return [count(harness, metric) for metric in (NODE_CONNECT_ERROR, NODE_TIMEOUT)]


async def test_a_node_that_is_not_there_is_a_connect_error(harness: Harness, nodes: Nodes) -> None:
    for node_id in (node_at(unused_port()), "no address"):
        await nodes.check_storage(node_id, UAID)
    assert node_errors(harness) == [2, 0]


async def test_a_node_that_does_not_answer_is_a_timeout(
    harness: Harness, wheel: TimerWheel
) -> None:
    nodes = Nodes(
        "",
        harness.parts.answering,
        wheel,
        harness.metrics,
        keys=KEYS,
        connect_timeout=5,
        request_timeout=0.02,
    )
    with silent_port() as port:
        assert await nodes.push(node_at(port), harness.message()) is Outcome.SILENT
    nodes.close()
    assert node_errors(harness) == [0, 1]


async def test_a_node_that_answers_is_no_error(harness: Harness, nodes: Nodes) -> None:
    async with node_serving() as server:
        await nodes.check_storage(node_at(server.port), UAID)
    assert node_errors(harness) == [0, 0]


@pytest.mark.parametrize(
    ("answer", "is_counted"),
    [
        (Outcome.GONE, True),
        (Outcome.SILENT, True),
        (Outcome.ABSENT, False),
        (Outcome.BUSY, False),
        (Outcome.DONE, False),
    ],
)
async def test_a_node_on_record_without_an_answer_is_a_host_that_is_gone(
    harness: Harness, answer: Outcome, is_counted: bool
) -> None:
    await harness.known_user()
    harness.change_record(node_id=OTHER_NODE)
    harness.nodes.push_answer = answer
    route = router(harness)
    recipient = await route.find(UAID, CHANNEL)
    assert isinstance(recipient, UserOnRecord)
    await route.route(recipient, harness.message())
    assert count(harness, HOST_GONE) == is_counted


# ── Users ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_user_that_is_deleted_while_its_message_is_stored_is_counted(
    harness: Harness,
) -> None:
    await harness.known_user()
    route = router(harness)
    recipient = await route.find(UAID, CHANNEL)
    assert isinstance(recipient, UserOnRecord)
    await harness.store.drop_user(recipient.record)
    with pytest.raises(PushError):
        await route.route(recipient, harness.message())
    assert count(harness, CLIENT_DELETED) == 1


@pytest.mark.parametrize(("month", "errno"), [(None, "102"), ("message_2011_01", "103")])
async def test_a_user_without_a_table_is_counted_by_the_reason(
    harness: Harness, month: str | None, errno: str
) -> None:
    await harness.known_user()
    harness.change_record(current_month=month)
    for expected in (1, 1):  # the second time it is gone
        with pytest.raises(PushError):
            await router(harness).find(UAID, CHANNEL)
        assert count(harness, DROP_USER, errno=errno) == count(harness, DROP_USER) == expected


async def test_the_time_to_store_a_message_is_measured_and_that_of_others_not(
    harness: Harness,
) -> None:
    await harness.known_user()
    route = router(harness)
    for ttl in (60, 0):
        recipient = await route.find(UAID, CHANNEL)
        assert isinstance(recipient, UserOnRecord)
        await route.route(recipient, harness.message(ttl=ttl))
    *buckets, seconds = harness.metrics.shared.total(SAVE_TIME)
    assert sum(buckets) == 1
    assert 0 < seconds < 60


# ── Bridges ──────────────────────────────────────────────────────────────────────────────────────


async def sent_through(
    harness: Harness, outcome: RouterResponse | Exception, router_type: str = "apns"
) -> None:
    month = harness.store.current.name
    assert await harness.store.users.register(UAID, router_type, {"token": "x"}, month)
    bridges = Bridges({router_type: ScriptedRouter(outcome)}, harness.store, harness.metrics)
    user = bridges.find(await harness.record())
    await bridges.route(user, harness.message())


async def test_a_message_that_a_bridge_took_is_counted(harness: Harness) -> None:
    await sent_through(harness, RouterResponse())
    assert count(harness, BRIDGE_SENT, platform="apns") == count(harness, BRIDGE_SENT) == 1
    assert count(harness, BRIDGE_ERROR) == count(harness, DROP_USER) == 0


@pytest.mark.parametrize(
    ("outcome", "reason", "dropped"),
    [
        (RouterError.unregistered(), "unregistered", 1),
        (RouterError(Errno.UNKNOWN, "never again", router_data={}), "unregistered", 1),
        (RouterError.retry_after(5, "busy"), "busy", 0),
        (RouterError(Errno.BRIDGE_TIMEOUT, "late", is_outage=True), "timeout", 0),
        (RouterError(Errno.BRIDGE_UNREACHABLE, "away", is_outage=True), "unreachable", 0),
        (RouterError(Errno.BRIDGE_REFUSED, "who are you"), "credentials", 0),
        (RouterError(Errno.BRIDGE_MISCONFIGURED, "no key"), "misconfigured", 0),
        (RouterError(Errno.PAYLOAD_TOO_LARGE, "too large"), "too_large", 0),
        (RouterError(Errno.FCM_DEVICE_RATE, "too often"), "other", 0),
        (RouterError(Errno.UNKNOWN, "?", critical_failure="never"), "critical", 0),
        (RouterResponse(status_code=500, errno=999), "failed", 0),
        (TimeoutError(), "timeout", 0),
        (OSError(), "unreachable", 0),
        (ZeroDivisionError(), "failed", 0),
    ],
    ids=str,
)
async def test_a_message_that_a_bridge_did_not_take_is_counted_by_its_reason(
    harness: Harness, outcome: RouterResponse | Exception, reason: str, dropped: int
) -> None:
    with pytest.raises(PushError):
        await sent_through(harness, outcome)
    assert count(harness, BRIDGE_ERROR, platform="apns", reason=reason) == 1
    assert count(harness, BRIDGE_ERROR) == 1
    assert count(harness, BRIDGE_SENT) == 0
    assert count(harness, DROP_USER, errno="100") == count(harness, DROP_USER) == dropped


async def test_a_bridge_of_another_distribution_is_other(harness: Harness) -> None:
    await sent_through(harness, RouterResponse(), "carrier-pigeon")
    assert count(harness, BRIDGE_SENT, platform="other") == 1
