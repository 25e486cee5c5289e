"""Old user agents are dropped from a database that throttles and loses responses, while some
reconnect: those keep all they had, and of the others nothing is left.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from autopush.jobs import RateLimiter
from autopush.store import PushStore, TablePlan
from autopush.store.maintenance import UserRemover, drop_old_users
from autopush.store.tables import Month, message_table, router_table
from autopush.store.users import connect_keys
from keytables import Engine, KeytablesError
from support.clocks import ManualClock
from support.fault_proxy import Fault, FaultProxy, no_faults, randomly
from support.soak import slow_after, times

OpenEngine = Callable[[], Awaitable[Engine]]

PLAN = TablePlan()
CHANNEL = "11111111-2222-3333-4444-555555555555"
NODE = "http://node:8081"
USERS = 80
HARSH = {
    Fault.THROTTLED: 0.06,
    Fault.RESET: 0.04,
    Fault.CLOSED: 0.08,
    Fault.FALSE_ERROR: 0.04,
    Fault.PARTIAL_BATCH: 0.2,
}


def uaid(number: int) -> str:
    return f"{number:032x}"


async def fill(store: PushStore, engine: Engine, clock: ManualClock) -> list[int]:
    """User agents last seen three months ago; returns the keys of that month."""
    month = Month.at(clock()).previous.previous.previous
    keys = [*connect_keys(month)][:11]
    router = await engine.ensure_table(router_table("router"))
    for number in range(USERS):
        await store.users.create(uaid(number), NODE, 1, "message")
        await store.current.add_channel(uaid(number), CHANNEL)
        item = await router.get((uaid(number),))
        assert item is not None
        await router.put({**item, "last_connect": keys[number % len(keys)]})
    return keys


async def drop_all(engine: Engine, keys: list[int]) -> int:
    """Run it until a run comes to its end; returns how many runs there were."""
    runs, limiter = 0, RateLimiter(1e9, sleep=lambda _: asyncio.sleep(0))
    while True:
        runs += 1
        try:
            removal = await UserRemover.open(engine, PLAN, key_hash="")
            assert removal is not None
            async for _ in drop_old_users(
                removal, keys, now=time.time(), limiter=limiter, batch_size=10
            ):
                pass
        except KeytablesError:
            continue
        return runs


@pytest.mark.parametrize("seed", slow_after(1, range(times(2, 30))))
async def test_those_that_reconnect_keep_all_and_of_the_others_nothing_is_left(
    open_engine: OpenEngine, proxy: FaultProxy, clock: ManualClock, seed: int
) -> None:
    engine = await open_engine()
    store = await PushStore.open(engine, PLAN, key_hash="", clock=clock)
    keys = await fill(store, engine, clock)
    back: set[str] = set()

    async def reconnect(number: int) -> None:
        """As a user agent does: again if it is refused."""
        for connected_at in itertools.count(2):
            with suppress(KeytablesError):
                record = await store.users.get(uaid(number))
                if record is None:
                    return
                if await store.users.connect(record, NODE, connected_at) is not None:
                    back.add(record.uaid)
                    return

    async def reconnect_some() -> None:
        for number in range(0, USERS, 5):
            await reconnect(number)

    sweeper = await open_engine()
    proxy.plan = randomly(HARSH, seed=seed)
    work = asyncio.gather(reconnect_some(), drop_all(sweeper, keys), drop_all(sweeper, keys))
    try:
        await work
    finally:
        proxy.plan = no_faults
    records = (await (await engine.ensure_table(router_table("router"))).scan()).items
    rows = (await (await engine.ensure_table(message_table("message"))).scan()).items
    assert {str(record["uaid"]) for record in records} == back
    assert {str(row["uaid"]): row["chids"] for row in rows} == {
        user: frozenset((CHANNEL,)) for user in back
    }
    assert proxy.faults[Fault.CLOSED]
    print(f"{len(back)} reconnected, faults: {dict(proxy.faults)}")
