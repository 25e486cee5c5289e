"""How much may be stored for one user agent: what is refused, what never, and what it costs."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autopush.delivery.bridged import BridgedUser, Bridges
from autopush.delivery.calls import Outcome
from autopush.delivery.router import UserAgentRouter
from autopush.limits import LONGEST_PAUSE, LimitRefusals, StoredLimits
from autopush.store.messages import MEASURED_PAGE, PAGE, Stored, row_of
from autopush.telemetry.metric_table import LIMIT_REFUSED
from autopush.webpush.errors import PushError
from autopush.webpush.notification import Notification, VersionUpdate
from keytables import Unavailable
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, UAID, Harness
from support.recorded import recorded

FOREVER = 10_000


class Worker:
    """The router of one worker, for a user that is not connected unless a test says so."""

    def __init__(
        self, harness: Harness, *, messages: int = 0, size: int = 0, store_first: bool = True
    ) -> None:
        self.harness = harness
        self.monotonic = ManualClock()
        self.router = UserAgentRouter(
            harness.store,
            harness.registry,
            harness.nodes,
            harness.parts.placement,
            Bridges({}, harness.store, harness.metrics),
            harness.metrics,
            store_first=store_first,
            limits=StoredLimits(
                LimitRefusals(harness.metrics),
                max_messages=messages,
                max_bytes=size,
                monotonic=self.monotonic,
            ),
        )

    async def send(self, message: Notification | None = None) -> Outcome:
        recipient = await self.router.find(UAID, CHANNEL)
        assert not isinstance(recipient, BridgedUser)
        return await self.router.route(recipient, message or self.harness.message(ttl=FOREVER))

    async def refusal(self, message: Notification | None = None) -> PushError:
        with pytest.raises(PushError) as caught:
            await self.send(message)
        assert (caught.value.status, caught.value.errno) == (429, 204)
        return caught.value

    async def accepted(self, most: int) -> int:
        """How many of so many pushes were accepted."""
        number = 0
        for _ in range(most):
            with suppress(PushError):
                await self.send()
                number += 1
        return number


def queries(harness: Harness) -> int:
    return harness.engine.calls.count("query message")


async def offline(harness: Harness) -> None:
    await harness.known_user()
    await harness.store.users.clear_node(await harness.record())


def with_data(harness: Harness, length: int, topic: str | None = None) -> Notification:
    message = harness.message(ttl=FOREVER, topic=topic)
    message.data, message.headers = "x" * length, {"encoding": "aes128gcm"}
    return message


# ── what is refused ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("store_first", [True, False], ids=["store-first", "bypass"])
async def test_no_more_messages_are_stored_than_the_limit(
    harness: Harness, store_first: bool
) -> None:
    await offline(harness)
    worker = Worker(harness, messages=20, store_first=store_first)
    assert await worker.accepted(30) == 20
    assert len(harness.stored_versions()) == 20
    error = await worker.refusal()
    assert "20 (max_stored_messages)" in error.message
    assert ("Retry-After", "1") in error.headers
    assert recorded(harness.metrics, LIMIT_REFUSED, limit="stored_messages") == 11


async def test_no_more_bytes_of_data_and_headers_are_stored_than_the_limit(
    harness: Harness,
) -> None:
    await offline(harness)
    worker = Worker(harness, size=1000)
    for _ in range(8):
        await worker.send(with_data(harness, 100))
    error = await worker.refusal(with_data(harness, 100))
    assert "1000 bytes (max_stored_bytes)" in error.message
    assert recorded(harness.metrics, LIMIT_REFUSED, limit="stored_bytes") == 1
    await worker.send(harness.message(ttl=FOREVER))  # without data there is room
    large = with_data(harness, 0)
    large.headers = {"encoding": "aesgcm", "crypto_key": "x" * 200}
    await worker.refusal(large)


async def test_one_message_may_be_larger_than_a_quarter_of_the_limit(harness: Harness) -> None:
    await offline(harness)
    worker = Worker(harness, size=1000)
    await worker.send(with_data(harness, 900))
    await worker.refusal(with_data(harness, 900))


async def test_a_message_with_ttl_0_is_never_stored_and_not_counted(harness: Harness) -> None:
    await offline(harness)
    worker = Worker(harness, messages=4)
    await worker.accepted(4)
    assert await worker.send(harness.message(ttl=0)) is Outcome.DISCARDED


async def test_channels_with_a_version_are_counted_as_messages(harness: Harness) -> None:
    await harness.store.users.create_simplepush(UAID, "", 5, None)
    worker = Worker(harness, messages=4)

    async def send(channel: int, number: int) -> None:
        user = await worker.router.find_simplepush(UAID)
        update = VersionUpdate.of(UAID, f"00000000-0000-0000-0000-{channel:012}", number)
        await worker.router.route(user, update)

    for channel in range(4):
        await send(channel, 1)
    with pytest.raises(PushError) as caught:
        await send(4, 1)
    assert caught.value.errno == 204
    await send(3, 2)  # it replaces the version before
    assert sorted(harness.stored_updates().values()) == [1, 1, 1, 2]


# ── what is never refused ───────────────────────────────────────────────────────────────────────


async def test_a_message_that_replaces_one_of_its_topic_is_not_refused(harness: Harness) -> None:
    await offline(harness)
    worker = Worker(harness, messages=4)
    await worker.send(harness.message(ttl=FOREVER, topic="news"))
    assert await worker.accepted(5) == 3
    newer = harness.message(ttl=FOREVER, topic="news")
    assert await worker.send(newer) is Outcome.STORED
    assert newer.version in harness.stored_versions()
    await worker.refusal(harness.message(ttl=FOREVER, topic="another"))


async def test_small_messages_of_topics_cannot_be_replaced_by_ever_larger_ones(
    harness: Harness,
) -> None:
    await offline(harness)
    worker = Worker(harness, size=1000)
    for number in range(9):
        await worker.send(with_data(harness, 82, topic=str(number)))
    await worker.refusal(with_data(harness, 900, topic="1"))
    await worker.send(with_data(harness, 82, topic="1"))


async def test_what_was_accepted_is_saved_whatever_is_stored(harness: Harness) -> None:
    await harness.known_user()
    agent = await harness.identified(UAID)
    worker = Worker(harness, messages=8, store_first=False)
    assert await worker.accepted(8) == 8
    for _ in range(20):
        await harness.store.current.store(harness.message(ttl=FOREVER))
    agent.disconnect()
    await harness.run_until_idle()
    assert len(harness.stored_versions()) == 28


# ── room again ──────────────────────────────────────────────────────────────────────────────────


async def full(harness: Harness) -> Worker:
    await offline(harness)
    worker = Worker(harness, messages=8)
    await worker.accepted(8)
    await worker.refusal()
    return worker


async def test_after_the_seconds_of_retry_after_deleted_messages_have_given_room(
    harness: Harness,
) -> None:
    worker = await full(harness)
    first = harness.stored_versions()[0]
    await harness.store.remove(UAID, row_of(next(iter(await stored(harness)))))
    assert first not in harness.stored_versions()
    error = await worker.refusal()
    worker.monotonic.now += int(dict(error.headers)["Retry-After"])
    assert await worker.accepted(3) == 1


async def stored(harness: Harness) -> list[Notification]:
    page = await harness.store.current.read(UAID, None)
    return [message.notification for message in page.messages]


async def test_expired_messages_give_room(harness: Harness) -> None:
    worker = await full(harness)
    harness.clock.advance(FOREVER)
    worker.monotonic.now += LONGEST_PAUSE
    assert await worker.accepted(20) == 8


async def test_a_user_agent_that_takes_its_messages_is_never_refused(harness: Harness) -> None:
    await harness.known_user()
    agent = await harness.identified(UAID)
    worker = Worker(harness, messages=8)
    for _ in range(50):
        assert await worker.send() is Outcome.DONE
        agent.ack(*agent.received())
        await harness.run_until_idle()
    assert harness.stored_versions() == []


async def test_it_is_charged_until_it_has_acked_what_was_stored(harness: Harness) -> None:
    await harness.known_user()
    for _ in range(PAGE + 1):
        await harness.store.current.store(harness.message(ttl=FOREVER))
    agent = await harness.hello(UAID)
    assert not agent.connection.has_acked_all
    agent.ack(*agent.received()[1:])
    assert not agent.connection.has_acked_all  # the next page is read
    await harness.run_until_idle()
    agent.ack(*agent.received())
    assert agent.connection.has_acked_all


# ── several workers ─────────────────────────────────────────────────────────────────────────────


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.integers(0, 2), min_size=150, max_size=250), st.sets(st.integers(0, 250)))
def test_all_workers_together_exceed_the_limit_by_a_quarter_for_each(
    order: list[int], restarts: set[int]
) -> None:
    async def run() -> None:
        harness = await Harness.open()
        await offline(harness)
        workers = [Worker(harness, messages=40) for _ in range(3)]
        for number, worker in enumerate(order):
            if number in restarts and len(workers) < 6:
                workers.append(Worker(harness, messages=40))
                workers[worker] = workers[-1]
            await workers[worker].accepted(1)
        assert len(harness.stored_versions()) <= 40 + 10 * len(workers)

    asyncio.run(run())


# ── what it costs ───────────────────────────────────────────────────────────────────────────────


async def test_a_push_asks_the_store_for_nothing_more_while_a_share_lasts(harness: Harness) -> None:
    await offline(harness)
    worker = Worker(harness, messages=1000)
    harness.engine.calls.clear()
    assert await worker.accepted(250) == 250
    assert queries(harness) == 0
    await worker.send()
    assert queries(harness) == -(-250 // MEASURED_PAGE)


async def test_refused_pushes_do_not_have_the_rows_counted_each_time(harness: Harness) -> None:
    worker = await full(harness)
    harness.engine.calls.clear()
    for _ in range(100):
        await worker.refusal()
    assert queries(harness) == 0


async def test_many_pushes_at_once_have_the_rows_counted_once(harness: Harness) -> None:
    await offline(harness)
    worker = Worker(harness, messages=40)
    assert await worker.accepted(10) == 10
    harness.engine.calls.clear()
    await asyncio.gather(*(worker.send() for _ in range(10)))
    assert queries(harness) == 1


async def test_a_count_that_fails_refuses_nothing_that_the_store_would_take(
    harness: Harness,
) -> None:
    await offline(harness)
    worker = Worker(harness, messages=40)
    await worker.accepted(10)
    harness.engine.fail("query message", *[Unavailable("gone")] * 3)
    assert await worker.accepted(50) == 30


async def test_a_count_that_fails_is_no_room_where_the_limit_was_reached(harness: Harness) -> None:
    worker = await full(harness)
    for _ in range(5):
        worker.monotonic.now += LONGEST_PAUSE
        harness.engine.fail("query message", Unavailable("gone"))
        await worker.refusal()


async def test_counting_ends_where_the_limit_is_reached(harness: Harness) -> None:
    await harness.known_user()
    for _ in range(120):
        await harness.store.current.store(with_data(harness, 85))
    current = harness.store.current
    assert await current.measure(UAID, Stored(1000, 1_000_000)) == Stored(120, 120 * 102)
    harness.engine.calls.clear()
    assert (await current.measure(UAID, Stored(2 * MEASURED_PAGE, 1_000_000))).messages == 40
    assert (await current.measure(UAID, Stored(1000, 4000))).messages == 40
    assert queries(harness) == 4
