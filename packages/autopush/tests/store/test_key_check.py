"""A store knows the crypto keys that its users' endpoints were made with, on every engine."""

import asyncio

import pytest

from autopush.jobs import RateLimiter
from autopush.keys import key_fingerprints
from autopush.store import PushStore, TablePlan
from autopush.store.maintenance import UserRemover, find_old_users, months_ago
from autopush.store.preflight import FINGERPRINTS, accept_keys, are_keys_known, are_keys_lost
from autopush.store.tables import KEYS_ROW, router_table
from autopush.store.users import connect_keys
from autopush.webpush.tokens import new_key
from keytables import AccessRefused, Engine, Page, TableHandle
from support.clocks import ManualClock

PLAN = TablePlan()
FIRST, SECOND, OTHER = "first", "second", "other"
UAID = "0123456789abcdef0123456789abcdef"


async def add_user(engine: Engine, clock: ManualClock) -> None:
    store = await PushStore.open(engine, PLAN, key_hash="", clock=clock)
    await store.users.create(UAID, "http://node:1/i/x", 1, "message")


async def test_a_new_store_takes_the_keys_it_is_started_with(engine: Engine) -> None:
    assert await are_keys_known(engine, PLAN, [FIRST])
    assert await are_keys_known(engine, PLAN, [FIRST])


async def test_a_store_with_users_refuses_keys_of_which_it_knows_none(
    engine: Engine, clock: ManualClock
) -> None:
    await are_keys_known(engine, PLAN, [FIRST])
    await add_user(engine, clock)
    for _ in range(2):
        assert not await are_keys_known(engine, PLAN, [OTHER])
    assert await are_keys_known(engine, PLAN, [FIRST])


async def test_whether_a_key_is_lost_is_found_without_a_change(
    engine: Engine, clock: ManualClock
) -> None:
    await are_keys_known(engine, PLAN, [FIRST])
    assert not await are_keys_lost(engine, PLAN, [OTHER])  # no users
    await add_user(engine, clock)
    for _ in range(2):
        assert await are_keys_lost(engine, PLAN, [OTHER])
        assert await are_keys_lost(engine, PLAN, [])
        assert not await are_keys_lost(engine, PLAN, [FIRST, OTHER])
    assert not await are_keys_known(engine, PLAN, [OTHER])


async def test_a_store_without_users_takes_another_key(engine: Engine) -> None:
    await are_keys_known(engine, PLAN, [FIRST])
    assert await are_keys_known(engine, PLAN, [OTHER])


async def test_a_key_beside_a_known_one_is_known_from_then_on(
    engine: Engine, clock: ManualClock
) -> None:
    """A rotation, in any order."""
    await are_keys_known(engine, PLAN, [FIRST])
    await add_user(engine, clock)
    assert await are_keys_known(engine, PLAN, [FIRST, SECOND])
    assert await are_keys_known(engine, PLAN, [SECOND])
    assert not await are_keys_known(engine, PLAN, [OTHER])


async def test_a_store_of_an_earlier_version_takes_the_keys_it_is_started_with(
    engine: Engine, clock: ManualClock
) -> None:
    await add_user(engine, clock)
    assert await are_keys_known(engine, PLAN, [FIRST])
    assert not await are_keys_known(engine, PLAN, [OTHER])


async def test_of_nodes_that_start_with_different_keys_on_a_store_with_users_one_is_refused(
    engine: Engine, clock: ManualClock
) -> None:
    await add_user(engine, clock)
    both = await asyncio.gather(
        are_keys_known(engine, PLAN, [FIRST]), are_keys_known(engine, PLAN, [OTHER])
    )
    assert sorted(both) == [False, True]


async def test_keys_can_be_accepted_when_the_old_ones_are_lost(
    engine: Engine, clock: ManualClock
) -> None:
    await are_keys_known(engine, PLAN, [FIRST])
    await add_user(engine, clock)
    assert await accept_keys(engine, PLAN, [OTHER], dry_run=True) == 1
    assert not await are_keys_known(engine, PLAN, [OTHER])
    assert await accept_keys(engine, PLAN, [OTHER]) == 1
    assert await accept_keys(engine, PLAN, [OTHER]) == 0
    assert await are_keys_known(engine, PLAN, [OTHER])


async def test_without_the_right_to_scan_a_store_counts_as_one_with_users(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await are_keys_known(engine, PLAN, [FIRST])
    table = await engine.open_table(router_table(PLAN.router))

    async def refuse(self: TableHandle, **_: object) -> Page:
        raise AccessRefused("Scan", "router")

    monkeypatch.setattr(type(table), "scan", refuse)
    assert not await are_keys_known(engine, PLAN, [OTHER])


async def test_what_the_store_keeps_is_no_key_and_no_user(
    engine: Engine, clock: ManualClock
) -> None:
    key = new_key()
    await are_keys_known(engine, PLAN, key_fingerprints([key]))
    table = await engine.open_table(router_table(PLAN.router))
    row = await table.get((KEYS_ROW,))
    assert row is not None
    assert row.keys() == {"uaid", FINGERPRINTS}
    assert key.rstrip("=") not in repr(row)
    remover = await UserRemover.open(engine, PLAN, key_hash="")
    assert remover is not None
    keys = [key for month in months_ago(clock.now, 0, 24) for key in connect_keys(month)]
    assert await find_old_users(remover, keys, limiter=RateLimiter(10_000)) == {}


def test_a_fingerprint_is_that_of_one_key() -> None:
    keys = [new_key() for _ in range(20)]
    assert len({*key_fingerprints(keys)}) == 20
    assert key_fingerprints(keys) == key_fingerprints(keys)
    assert key_fingerprints([keys[0].rstrip("=")]) == key_fingerprints(keys[:1])
