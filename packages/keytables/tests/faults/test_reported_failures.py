"""Which failures of the database an engine reports."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from keytables import (
    AccessRefused,
    Attr,
    ConditionFailed,
    Key,
    KeytablesError,
    Table,
    TableHandle,
    TableNotFound,
    Throttled,
    Unavailable,
)
from keytables.dynamodb.client import Client
from keytables.dynamodb.engine import DynamoEngine
from keytables.dynamodb.retries import RetryPolicy
from keytables.dynamodb.table import DynamoTable
from support.clocks import ManualClock
from support.fake_api_client import FakeApiClient, service_error
from support.fault_proxy import Fault, FaultProxy, always, script

TABLE = Table("reported", Key("user"))
ABSENT = Attr("user").absent()


class Reports:
    def __init__(self) -> None:
        self.errors: list[KeytablesError] = []

    def __call__(self, error: KeytablesError) -> None:
        self.errors.append(error)

    @property
    def kinds(self) -> list[type[KeytablesError]]:
        return [type(error) for error in self.errors]


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
async def engine(
    proxy: FaultProxy, clock: ManualClock, reports: Reports
) -> AsyncIterator[DynamoEngine]:
    client = await Client.open(
        region="us-east-1", endpoint=proxy.url, clock=clock, credentials=lambda: None
    )
    opened = DynamoEngine(client, prefix="reports-", clock=clock, on_failure=reports)
    yield opened
    proxy.plan = script()
    await opened.drop_table(TABLE.name)
    await opened.close()


@pytest.fixture
async def table(engine: DynamoEngine, reports: Reports) -> TableHandle:
    found = await engine.ensure_table(TABLE)
    assert reports.errors == []
    return found


async def test_a_failure_that_another_attempt_repairs_is_not_reported(
    proxy: FaultProxy, table: TableHandle, reports: Reports
) -> None:
    proxy.plan = script(Fault.ERROR, Fault.THROTTLED, Fault.CLOSED)
    await table.put({"user": "u"})
    assert reports.errors == []


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault.ERROR, Unavailable),
        (Fault.UNAVAILABLE, Unavailable),
        (Fault.RESET, Unavailable),
        (Fault.THROTTLED, Throttled),
    ],
)
async def test_one_that_lasts_is_reported_once_with_its_error(
    proxy: FaultProxy,
    table: TableHandle,
    reports: Reports,
    fault: Fault,
    kind: type[KeytablesError],
) -> None:
    proxy.plan = always(fault)
    with pytest.raises(kind) as raised:
        await table.get(("u",))
    assert reports.errors == [raised.value]


async def test_a_write_whose_caller_is_gone_is_reported_too(
    proxy: FaultProxy, table: TableHandle, reports: Reports
) -> None:
    proxy.plan = always(Fault.THROTTLED)
    asyncio.ensure_future(table.put({"user": "u"})).cancel()
    written = table.put({"user": "u"})
    with pytest.raises(Throttled):
        await written
    assert reports.kinds == [Throttled, Throttled]


async def test_what_the_database_does_not_process_is_reported(
    clock: ManualClock, reports: Reports
) -> None:
    request = {"DeleteRequest": {"Key": {"user": {"S": "u"}}}}
    client = FakeApiClient(*[{"UnprocessedItems": {"reported": [request]}}] * 3)
    policy = RetryPolicy(batch_timeout=0.0)
    engine = DynamoEngine(client, clock=clock, retries=policy, on_failure=reports)
    handle = engine._handle(TABLE)
    assert isinstance(handle, DynamoTable)
    with pytest.raises(Throttled):
        await handle.batch_write(deletes=[("u",)])
    assert reports.kinds == [Throttled]


async def test_conditions_and_mistakes_are_not_reported(
    table: TableHandle, engine: DynamoEngine, reports: Reports
) -> None:
    await table.put({"user": "u"})
    with pytest.raises(ConditionFailed):
        await table.put({"user": "u"}, condition=ABSENT)
    await engine.drop_table(TABLE.name)
    with pytest.raises(TableNotFound):
        await table.get(("u",))
    assert reports.errors == []


async def test_a_verdict_that_nobody_foresaw_and_a_missing_right_are_reported(
    clock: ManualClock, reports: Reports
) -> None:
    client = FakeApiClient(service_error("SomethingNewException"), AccessRefused("GetItem", "t"))
    handle = DynamoEngine(client, clock=clock, on_failure=reports)._handle(TABLE)
    for kind in (Unavailable, AccessRefused):
        with pytest.raises(kind):
            await handle.get(("u",))
    assert reports.kinds == [Unavailable, AccessRefused]


async def test_a_limit_of_this_process_and_a_closed_store_are_not_reported(
    proxy: FaultProxy, clock: ManualClock, reports: Reports
) -> None:
    client = await Client.open(
        region="us-east-1",
        endpoint=proxy.url,
        clock=clock,
        credentials=lambda: None,
        connections=1,
        max_waiting=1,
    )
    engine = DynamoEngine(client, prefix="reports-", clock=clock, on_failure=reports)
    table = await engine.ensure_table(TABLE)
    results = await asyncio.gather(
        *(table.get((str(number),)) for number in range(10)), return_exceptions=True
    )
    assert any(isinstance(result, Throttled) for result in results)
    await engine.drop_table(TABLE.name)
    await engine.close()
    with pytest.raises(Unavailable):
        await table.get(("u",))
    assert reports.errors == []
