"""Puts that may take effect after their result."""

import pytest

from keytables import Attr, Condition, ConditionFailed, Item, Key, Table, Throttled, Unavailable
from keytables.dynamodb.retries import RetryPolicy
from keytables.dynamodb.table import (
    SETTLE_TIME,
    SETTLE_TIME_OF_ALTERNATOR,
    DynamoTable,
    UnsettledPuts,
)
from keytables.dynamodb.table_client import StoreClient, TableClient
from keytables.dynamodb.writes import InFlightLimit, WriteSequencer
from keytables.failures import FailureReports
from support.clocks import ManualClock
from support.fake_api_client import FakeApiClient, condition_failed, lost_response
from support.fault_fixtures import OpenEngine, clock, database_port, open_engine, proxy
from support.fault_proxy import Fault, FaultProxy, always, script

__all__ = ["clock", "database_port", "open_engine", "proxy"]

TABLE = Table("things", Key("user"))
ABSENT = Attr("user").absent()
ITEM: Item = {"user": "u", "n": 1}
KEY = ("u",)


def open_table(client: FakeApiClient) -> DynamoTable:
    table_client = TableClient(
        StoreClient(client, FailureReports()), TABLE, ManualClock(1000.0), RetryPolicy()
    )
    return DynamoTable(table_client, WriteSequencer(InFlightLimit()), UnsettledPuts())


# ── which puts ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("condition", [None, ABSENT], ids=["plain", "conditional"])
async def test_a_put_that_is_carried_out_at_once_is_settled(condition: Condition | None) -> None:
    table = open_table(FakeApiClient({}))
    await table.put(ITEM, condition=condition)
    assert await table.unsettled([KEY]) == frozenset()


@pytest.mark.parametrize("condition", [None, ABSENT], ids=["plain", "conditional"])
async def test_a_put_that_was_repeated_is_not(condition: Condition | None) -> None:
    table = open_table(FakeApiClient(lost_response({})))
    await table.put(ITEM, condition=condition)
    assert await table.unsettled([KEY, ("other",)]) == {KEY}


@pytest.mark.parametrize("condition", [None, ABSENT], ids=["plain", "conditional"])
async def test_a_put_that_was_given_up_is_not(condition: Condition | None) -> None:
    table = open_table(FakeApiClient(Unavailable("no answer")))
    with pytest.raises(Unavailable):
        await table.put(ITEM, condition=condition)
    assert await table.unsettled([KEY]) == {KEY}


async def test_a_put_that_was_never_applied_is_settled() -> None:
    table = open_table(FakeApiClient(Throttled("full"), condition_failed({"user": {"S": "u"}})))
    with pytest.raises(Throttled):
        await table.put(ITEM)
    with pytest.raises(ConditionFailed):
        await table.put(ITEM, condition=ABSENT)
    assert await table.unsettled([KEY]) == frozenset()


async def test_asking_waits_for_the_put_under_way() -> None:
    table = open_table(FakeApiClient(lost_response({})))
    put = table.put(ITEM)
    assert await table.unsettled([KEY]) == {KEY}
    await put


@pytest.mark.parametrize("fault", [Fault.CLOSED, Fault.TRUNCATED, Fault.FALSE_ERROR])
async def test_over_the_wire_a_lost_response_makes_a_put_unsettled(
    proxy: FaultProxy, open_engine: OpenEngine, fault: Fault
) -> None:
    engine = await open_engine()
    table = await engine.ensure_table(TABLE)
    await table.put(ITEM)
    proxy.plan = script(fault, only="PutItem")
    await table.put({**ITEM, "user": "repeated"})
    proxy.plan = always(fault, only="PutItem")
    with pytest.raises(Unavailable):
        await table.put({**ITEM, "user": "given up"})
    keys = [KEY, ("repeated",), ("given up",)]
    assert await table.unsettled(keys) == {("repeated",), ("given up",)}


async def test_every_handle_of_a_table_knows_and_alternator_takes_longer(
    proxy: FaultProxy, open_engine: OpenEngine
) -> None:
    engine = await open_engine()
    table = await engine.ensure_table(TABLE)
    assert table.settle_time == SETTLE_TIME == 330
    proxy.plan = script(Fault.CLOSED, only="PutItem")
    await table.put(ITEM)
    again = await engine.ensure_table(Table("things", Key("user"), expiry="end"))
    assert again is not table
    assert await again.unsettled([KEY]) == {KEY}
    of_scylla = await (await open_engine(alternator=True)).ensure_table(TABLE)
    assert of_scylla.settle_time == SETTLE_TIME_OF_ALTERNATOR == 930


# ── for how long ────────────────────────────────────────────────────────────────────────────────


def test_a_put_settles_when_its_time_is_over() -> None:
    clock = ManualClock(0)
    late = UnsettledPuts(10, now=clock)
    late.add(("a",))
    clock.advance(6)
    late.add(("b",))
    late.add(("c",))
    clock.advance(5)
    assert late.among([("a",), ("b",)]) == {("b",)}
    late.add(("b",))
    clock.advance(5)
    assert late.among([("b",), ("c",)]) == {("b",)}
    clock.advance(5)
    assert late.among([("b",)]) == frozenset()


def test_beyond_a_number_of_them_no_put_counts_as_settled() -> None:
    clock = ManualClock(0)
    late = UnsettledPuts(10, max_keys=2, now=clock)
    for name in "abc":
        late.add((name,))
    assert late.among([("a",), ("never put",)]) == {("a",), ("never put",)}
    clock.advance(10)
    assert late.among([("a",), ("c",)]) == frozenset()
