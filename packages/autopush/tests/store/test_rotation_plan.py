"""The rotation of message tables: which are created, scaled down and dropped, and which never."""

from datetime import UTC, datetime

import pytest

from autopush.store.rotation import (
    CreateTable,
    DropTable,
    MessageTables,
    RotationStep,
    SetCapacity,
    apply_step,
    find_tables,
    plan_rotation,
)
from autopush.store.tables import TablePlan, message_table
from keytables import Capacity, Engine, Key, Table
from keytables.dynamodb import DynamoEngine
from support import engines
from support.clocks import ManualClock
from support.memory_engine import MemoryEngine

BUSY = Capacity(100, 200)
IDLE = Capacity(5, 5)
ROTATING = TablePlan(rotating=True)


engine = engines.engine_fixture(engines.EVERY)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def billed_by_use(*months: str) -> dict[str, Capacity | None]:
    return {f"message_{month}": None for month in months}


def todo(
    found: MessageTables, when: str, plan: TablePlan = ROTATING, keep: int = 2
) -> list[RotationStep]:
    return plan_rotation(found, plan, at(when), keep=keep, idle=IDLE)


def test_the_next_month_gets_a_table_like_that_of_this_month() -> None:
    assert todo({"message_2026_11": BUSY}, "2026-11-21") == [CreateTable("message_2026_12", BUSY)]
    assert todo(billed_by_use("2026_11"), "2026-11-21") == [CreateTable("message_2026_12", None)]


def test_after_december_comes_january() -> None:
    found = billed_by_use("2026_10", "2026_11", "2026_12")
    assert todo(found, "2026-12-31T23:59") == [
        CreateTable("message_2027_01", None),
        DropTable("message_2026_10"),
    ]


def test_a_table_just_too_old_is_kept_until_its_last_users_have_moved() -> None:
    found = billed_by_use("2026_09", "2026_10", "2026_11", "2026_12", "2027_01")
    assert todo(found, "2026-12-03T23:59") == [DropTable("message_2026_09")]
    assert todo(found, "2026-12-04") == [DropTable("message_2026_10"), DropTable("message_2026_09")]


def test_the_next_table_follows_when_this_one_was_changed() -> None:
    found = {"message_2026_11": BUSY, "message_2026_12": IDLE}
    assert todo(found, "2026-11-21") == [SetCapacity("message_2026_12", BUSY)]


def test_a_table_billed_by_use_is_not_provisioned() -> None:
    assert todo({"message_2026_11": BUSY, "message_2026_12": None}, "2026-11-21") == []
    assert todo({"message_2026_11": None, "message_2026_12": BUSY}, "2026-11-21") == []


def test_the_previous_month_is_lowered_after_the_first_days() -> None:
    found = {"message_2026_10": BUSY, "message_2026_11": BUSY, "message_2026_12": BUSY}
    assert todo(found, "2026-11-03T23:59") == []
    assert todo(found, "2026-11-04T00:00") == [SetCapacity("message_2026_10", IDLE)]


def test_months_that_are_kept_longer_are_lowered_at_once() -> None:
    found = {f"message_2026_{month}": BUSY for month in ("08", "09", "10", "11", "12")}
    lowered = SetCapacity("message_2026_09", IDLE)
    assert todo(found, "2026-11-01", keep=3) == [lowered, SetCapacity("message_2026_08", IDLE)]
    found["message_2026_08"] = IDLE
    assert todo(found, "2026-11-04", keep=3)[-1] == DropTable("message_2026_08")


def test_lowering_never_raises() -> None:
    found = {"message_2026_10": Capacity(1, 50), "message_2026_11": BUSY, "message_2026_12": BUSY}
    assert todo(found, "2026-11-21") == [SetCapacity("message_2026_10", Capacity(1, 5))]
    found["message_2026_10"] = Capacity(1, 5)
    assert todo(found, "2026-11-21") == []


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_this_month_the_previous_one_and_later_ones_are_never_dropped(keep: int) -> None:
    found = billed_by_use("2026_10", "2026_11", "2026_12", "2027_01", "2031_05")
    assert todo(found, "2026-11-21", keep=keep) == []


def test_tables_that_do_not_rotate_are_not_changed() -> None:
    found = billed_by_use("2020_01", "2026_10", "2026_11")
    assert todo(found, "2026-11-21", TablePlan(rotating=False)) == []


def test_where_no_node_has_seen_this_month_nothing_is_lowered_or_dropped() -> None:
    found = {"message_2026_08": BUSY, "message_2026_09": BUSY, "message_2026_11": BUSY}
    assert todo(found, "2037-02-10") == [CreateTable("message_2037_03", None)]


async def test_only_tables_of_months_with_the_prefix_are_found(clock: ManualClock) -> None:
    engine = MemoryEngine(clock)
    mine = ["message_2026_10", "message_2026_11"]
    others = ["message", "message_test_2026_01", "message_2026_13", "mymessage_2026_01", "router"]
    for name in mine + others:
        await engine.ensure_table(Table(name, Key("uaid")), capacity=BUSY)
    assert await find_tables(engine, ROTATING) == dict.fromkeys(mine, BUSY)


async def test_repeating_steps_changes_nothing(engine: Engine) -> None:
    for month in ("2026_09", "2026_10", "2026_11"):
        await engine.ensure_table(message_table(f"message_{month}"), capacity=BUSY)
    planned = todo(await find_tables(engine, ROTATING), "2026-11-21")
    assert CreateTable in map(type, planned)
    assert DropTable in map(type, planned)
    for _ in range(2):
        for step in planned:
            await apply_step(engine, step)
    found = await find_tables(engine, ROTATING)
    assert sorted(found) == ["message_2026_10", "message_2026_11", "message_2026_12"]
    assert todo(found, "2026-11-21") == []
    if isinstance(engine, MemoryEngine | DynamoEngine):  # the others have no capacities
        assert found == {"message_2026_10": IDLE, "message_2026_11": BUSY, "message_2026_12": BUSY}


async def test_a_run_interrupted_after_any_step_is_completed_by_the_next(
    clock: ManualClock,
) -> None:
    results = []
    for done in range(4):
        engine = MemoryEngine(clock)
        for month in ("2026_08", "2026_09", "2026_10", "2026_11"):
            await engine.ensure_table(message_table(f"message_{month}"), capacity=BUSY)
        planned = todo(await find_tables(engine, ROTATING), "2026-11-21")
        assert len(planned) == 4
        for step in planned[:done]:
            await apply_step(engine, step)
        for step in todo(await find_tables(engine, ROTATING), "2026-11-21"):
            await apply_step(engine, step)
        results.append(await find_tables(engine, ROTATING))
    assert all(result == results[0] for result in results)
