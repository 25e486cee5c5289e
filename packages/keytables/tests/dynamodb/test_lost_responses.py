"""Every call is executed twice, as if the first response was lost: a write leaves what it leaves
after one execution, and succeeds.
"""

from collections.abc import AsyncIterator

import pytest

from keytables import (
    Attr,
    ConditionFailed,
    Item,
    Key,
    Param,
    Returning,
    Table,
    TableHandle,
    Update,
)
from keytables.dynamodb.client import ApiResponse, Client
from keytables.dynamodb.engine import DynamoEngine
from keytables.dynamodb.retries import CALL_TIMEOUT, ServiceError
from support.clocks import ManualClock
from support.dynamo_servers import dynalite, ministack

TABLE = Table("things", Key("user"), expiry="end")
KEY = ("u",)
NOW = 4_000_000_000.0
ABSENT = Attr("user").absent()
NEWER = Attr("n").absent() | (Attr("n") < Param("n"))


class RepeatingClient:
    """A client that makes each call twice, and says so."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(
        self,
        operation: str,
        body: bytes,
        *,
        table: str | None = None,
        time_limit: float = CALL_TIMEOUT,
    ) -> ApiResponse:
        failure: ServiceError | None = None
        for _ in range(2):
            try:
                reply = await self.client.call(operation, body, table=table, time_limit=time_limit)
                failure = None
            except ServiceError as error:
                failure = error
        if failure is not None:
            raise ServiceError(failure.code, failure.message, failure.body, maybe_applied=True)
        return ApiResponse(reply.body, True)

    async def close(self) -> None:
        await self.client.close()


@pytest.fixture(params=[ministack, dynalite], ids=["ministack", "dynalite"])
async def table(request: pytest.FixtureRequest) -> AsyncIterator[TableHandle]:
    client = await Client.open(region="us-east-1", endpoint=request.param())
    engine = DynamoEngine(client, prefix="twice.", clock=ManualClock(NOW))
    await engine.ensure_table(TABLE)
    repeating = DynamoEngine(RepeatingClient(client), prefix="twice.", clock=ManualClock(NOW))
    yield await repeating.ensure_table(TABLE)
    await engine.drop_table("things")
    await engine.close()


async def test_a_put_under_a_condition(table: TableHandle) -> None:
    item: Item = {"user": "u", "n": 1.0, "s": {"b", "a"}, "m": {"x": [1, b"y", None]}}
    await table.put(item, condition=ABSENT)
    assert await table.get(KEY) == item
    with pytest.raises(ConditionFailed):
        await table.put({"user": "u", "n": 2}, condition=ABSENT)
    assert await table.get(KEY) == item


async def test_an_update_under_a_condition(table: TableHandle) -> None:
    update = Update(set=("n",), remove=("old",), add_to=("s",))
    await table.put({"user": "u", "old": 1})
    new = await table.update(
        KEY, update, {"n": 5, "s": {"a"}}, condition=NEWER, returning=Returning.NEW
    )
    assert new == {"user": "u", "n": 5, "s": frozenset("a")} == await table.get(KEY)
    with pytest.raises(ConditionFailed):
        await table.update(KEY, update, {"n": 4, "s": {"b"}}, condition=NEWER)
    assert await table.get(KEY) == new


async def test_an_update_that_replaces_an_expired_item(table: TableHandle) -> None:
    await table.put({"user": "u", "old": 1, "end": NOW - 1})
    new = await table.update(KEY, Update(set={"n": 5}), returning=Returning.NEW)
    assert new == {"user": "u", "n": 5} == await table.get(KEY)


async def test_writes_that_let_the_item_expire(table: TableHandle) -> None:
    await table.put({"user": "u", "n": 1})
    await table.update(KEY, Update(set={"end": NOW - 1}), condition=Attr("n") == 1)
    assert await table.get(KEY) is None
    await table.put({"user": "u", "n": 2})
    await table.put({"user": "u", "n": 3, "end": NOW - 1}, condition=Attr("n") == 2)
    assert await table.get(KEY) is None


async def test_an_update_that_only_removes(table: TableHandle) -> None:
    await table.put({"user": "u", "s": {"a", "b"}, "old": 1})
    update = Update(remove=("old",), take_from={"s": {"a"}})
    await table.update(KEY, update, condition=Attr("old") == 1)
    assert await table.get(KEY) == {"user": "u", "s": frozenset("b")}


async def test_a_delete_under_a_condition(table: TableHandle) -> None:
    await table.put({"user": "u", "n": 1})
    with pytest.raises(ConditionFailed):
        await table.delete(KEY, condition=Attr("n") == 2)
    await table.delete(KEY, condition=Attr("n") == 1, returning=Returning.OLD)
    assert await table.get(KEY) is None


async def test_a_batch(table: TableHandle) -> None:
    await table.put({"user": "deleted"})
    await table.batch_write(puts=[{"user": "u", "n": 1}], deletes=[("deleted",)])
    assert await table.batch_get([KEY, ("deleted",)]) == [{"user": "u", "n": 1}]
