"""The maintenance by a worker, on a clock that tests set and with pauses that take no time."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autopush.service import maintenance
from autopush.service.maintenance import (
    DISTRUST,
    FIRST_CHECK,
    LEASE,
    LEASE_KEY,
    MAX_CLOCK_STEP,
    NEXT_CHECK,
    PERIOD,
    RATE,
    Maintenance,
)
from autopush.store import PushStore, TablePlan
from autopush.store.tables import Month, message_table, router_table
from autopush.store.users import connect_keys, connect_keys_of_day
from autopush.telemetry.metric_table import UA_EXPIRATION
from autopush.webpush.identifiers import CHANNELS_ROW
from keytables import Engine, Unavailable
from keytables.clock_guard import read_clocks
from keytables.lease import Lease
from support import engines
from support.clocks import ManualClock
from support.memory_engine import MemoryEngine
from support.recorded import new_metrics, recorded

DONE = "Maintenance is done"


class Service:
    """Workers over one store, each with its maintenance; time passes only in their pauses."""

    def __init__(self, *, rotating: bool = False) -> None:
        self.clock = ManualClock()
        self.steady = ManualClock(5_000.0)
        self.first_reading = read_clocks(self.clock, self.steady)
        self.memory = MemoryEngine(self.clock)
        self.engine: Engine = self.memory
        self.plan = TablePlan(rotating=rotating)
        self.metrics = new_metrics()
        self.pauses: list[float] = []

    async def worker(self) -> Maintenance:
        store = await PushStore.open(self.engine, self.plan, key_hash="", clock=self.clock)
        return Maintenance(
            store,
            self.metrics,
            self.clock,
            first_reading=self.first_reading,
            key_hash="",
            steady=self.steady,
            sleep=self.sleep,
            uniform=lambda least, most: (least + most) / 2,
        )

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.pass_time(seconds)
        await asyncio.sleep(0)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.steady.advance(seconds)

    async def add_users(
        self, count: int, months: int, table: str = "message", day: int | None = None
    ) -> None:
        """User agents seen last so many months ago, each with a channel; with `day` their records
        say on which day of the month.
        """
        month = Month.at(self.clock())
        for _ in range(months):
            month = month.previous
        keys = [*(connect_keys(month) if day is None else connect_keys_of_day(month, day))]
        router = await self.engine.ensure_table(router_table("router"))
        messages = await self.engine.ensure_table(message_table(table))
        for number in range(count):
            uaid = f"{months:016x}{number:016x}"
            await messages.put(
                {"uaid": uaid, "chidmessageid": CHANNELS_ROW, "chids": frozenset({"a"})}
            )
            await router.put(
                {
                    "uaid": uaid,
                    "router_type": "webpush",
                    "connected_at": 1,
                    "last_connect": keys[number % len(keys)],
                    "current_month": table,
                }
            )

    async def users(self) -> int:
        router = await self.engine.ensure_table(router_table("router"))
        return len((await router.scan()).items)


def done_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if DONE in line]


async def test_user_agents_that_never_came_back_are_dropped_once_a_day_by_one_worker(
    end_logs: Callable[[], str],
) -> None:
    service = Service()
    await service.add_users(30, 3)
    await service.add_users(20, 12)
    await service.add_users(10, 1)
    workers = [await service.worker() for _ in range(3)]
    await asyncio.gather(*(worker.run_if_due() for worker in workers))
    assert await service.users() == 10
    assert recorded(service.metrics, UA_EXPIRATION, reason="not_seen") == 50
    await service.add_users(5, 4)
    await workers[1].run_if_due()
    assert await service.users() == 15, "not due"
    service.pass_time(PERIOD)
    await workers[1].run_if_due()
    assert await service.users() == 10
    first, second = done_lines(end_logs())
    assert '"users_dropped":50,"tables_made":[],"tables_dropped":[]' in first
    assert '"users_dropped":5,' in second


@pytest.mark.parametrize("name", ["sqlite", "postgresql", "ministack"])
async def test_on_a_database_one_worker_drops_them_too(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "OLDEST_MONTHS", 3)
    service = Service()
    async with engines.engine(name, tmp_path, service.clock) as engine:
        service.engine = engine
        await service.add_users(30, 3)
        await service.add_users(10, 1)
        workers = [await service.worker() for _ in range(2)]
        await asyncio.gather(*(worker.run_if_due() for worker in workers))
        assert await service.users() == 10
        assert recorded(service.metrics, UA_EXPIRATION, reason="not_seen") == 30


async def test_a_run_noted_by_a_clock_that_was_ahead_holds_nothing_up() -> None:
    service = Service()
    worker = await service.worker()
    service.pass_time(1e6)
    await worker.run_if_due()
    service.pass_time(-1e6)
    await service.add_users(5, 3)
    await (await service.worker()).run_if_due()
    assert await service.users() == 0


async def test_records_whose_last_connect_names_a_day_are_dropped_on_that_day_of_a_month() -> None:
    service = Service()
    today = datetime.fromtimestamp(service.clock(), UTC).day
    await service.add_users(3, 3, day=today)
    await service.add_users(2, 4, day=today + 1)
    worker = await service.worker()
    await worker.run_if_due()
    assert await service.users() == 2
    service.pass_time(PERIOD)
    await worker.run_if_due()
    assert await service.users() == 0


async def test_it_is_paced() -> None:
    service = Service()
    await service.add_users(400, 3)
    worker = await service.worker()
    began = service.steady()
    await worker.run_if_due()
    assert await service.users() == 0
    assert service.steady() - began > 400 / RATE


async def test_old_month_tables_are_dropped_and_the_next_one_is_made(
    end_logs: Callable[[], str],
) -> None:
    service = Service(rotating=True)
    worker = await service.worker()
    this = Month.at(service.clock())
    old = this.previous.previous.previous.table("message")
    await service.engine.ensure_table(message_table(old))
    await worker.run_if_due()
    tables = await service.engine.table_names()
    assert old not in tables
    assert this.next.table("message") in tables
    [line] = done_lines(end_logs())
    assert f'"tables_dropped":["{old}"]' in line


async def test_what_fails_is_logged_and_done_by_the_next_look(end_logs: Callable[[], str]) -> None:
    service = Service()
    await service.add_users(12, 3)
    worker, other = await service.worker(), await service.worker()
    sleep = worker.sleep

    async def fail_in_the_middle(seconds: float) -> None:
        await sleep(seconds)
        if await service.users() < 12:
            service.memory.failures.append(Unavailable("the disk is gone"))

    worker.sleep = fail_in_the_middle
    await worker.run_if_due()
    assert 0 < await service.users() < 12
    await other.run_if_due()
    assert await service.users() == 0
    text = end_logs()
    assert "Maintenance failed and is tried again later" in text
    assert "the disk is gone" in text
    assert len(done_lines(text)) == 1


async def test_a_worker_that_stops_in_the_middle_leaves_the_rest_to_another() -> None:
    service = Service()
    await service.add_users(100, 3)
    worker, other = await service.worker(), await service.worker()
    in_progress = asyncio.Event()

    async def sleep(seconds: float) -> None:
        service.pass_time(seconds)
        if await service.users() < 100:
            in_progress.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)

    worker.sleep = sleep
    running = asyncio.ensure_future(worker.run())
    async with asyncio.timeout(30):
        await in_progress.wait()
        running.cancel()
        await asyncio.wait([running])
    assert 0 < await service.users() < 100
    await other.run_if_due()
    assert await service.users() == 0


async def test_a_worker_that_stood_still_for_longer_than_its_lease_stops(
    end_logs: Callable[[], str],
) -> None:
    service = Service()
    await service.add_users(100, 3)
    worker, other = await service.worker(), await service.worker()

    async def sleep(seconds: float) -> None:
        if await service.users() == 100:
            service.pass_time(seconds)
            return
        worker.sleep = service.sleep  # only once
        service.pass_time(LEASE + 1)
        table = other.store.versions_table
        assert await Lease(table, LEASE_KEY, service.clock, seconds=LEASE).acquire()

    worker.sleep = sleep
    await worker.run_if_due()
    assert await service.users() > 0
    text = end_logs()
    assert "Maintenance goes on in another process" in text
    assert done_lines(text) == []


async def test_a_clock_that_was_set_drops_nobody_for_a_day(end_logs: Callable[[], str]) -> None:
    service = Service()
    await service.add_users(10, 1)
    worker = await service.worker()
    service.clock.advance(45 * PERIOD)
    await worker.run_if_due()
    service.pass_time(DISTRUST - 1)
    await worker.run_if_due()
    assert await service.users() == 10
    assert end_logs().count("The clock was set; maintenance waits for a day") == 1
    service.pass_time(1)
    await worker.run_if_due()
    assert await service.users() == 0, "it was right"


async def test_a_worker_that_is_restarted_does_not_believe_a_clock_that_was_set() -> None:
    service = Service()
    await service.add_users(2, 1)
    service.clock.advance(45 * PERIOD)
    worker = await service.worker()
    await worker.run_if_due()
    assert await service.users() == 2
    service.pass_time(DISTRUST)
    await worker.run_if_due()
    assert await service.users() == 0


async def test_a_clock_that_is_adjusted_a_little_is_believed() -> None:
    service = Service()
    await service.add_users(10, 3)
    worker = await service.worker()
    service.clock.advance(MAX_CLOCK_STEP - 1)
    await worker.run_if_due()
    assert await service.users() == 0


async def test_a_defect_is_logged_and_does_not_end_the_looks(
    monkeypatch: pytest.MonkeyPatch, end_logs: Callable[[], str]
) -> None:
    service = Service()
    worker = await service.worker()
    looks = asyncio.Event()
    failures: list[None] = []

    async def find_old_users(*_: object, **__: object) -> dict[int, int]:
        failures.append(None)
        if len(failures) == 3:
            looks.set()
        raise RuntimeError("a defect")

    monkeypatch.setattr(maintenance, "find_old_users", find_old_users)
    running = asyncio.ensure_future(worker.run())
    async with asyncio.timeout(30):
        await looks.wait()
    running.cancel()
    assert service.pauses[:3] == [sum(FIRST_CHECK) / 2, sum(NEXT_CHECK) / 2, sum(NEXT_CHECK) / 2]
    assert end_logs().count("a defect") >= 3
