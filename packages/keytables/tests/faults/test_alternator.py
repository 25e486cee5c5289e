"""A cluster of ScyllaDB's Alternator: all nodes are used, one may die, and no time to live is asked
for.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from keytables import TableHandle, Unavailable
from keytables.dynamodb import DynamoEngine
from support.clocks import ManualClock
from support.fault_proxy import FaultProxy
from support.table_engines import MESSAGES

ADDRESSES = ("127.0.0.1", "127.0.0.2")


@dataclass
class Cluster:
    """Two ways to one database, which name each other as the nodes there are."""

    nodes: list[FaultProxy]
    table: TableHandle
    clock: ManualClock

    def asked(self) -> list[int]:
        """How many calls each node got; the counts begin anew."""
        counts = [sum(node.operations.values()) for node in self.nodes]
        for node in self.nodes:
            node.forget()
        return counts


@pytest.fixture
async def cluster(
    proxy: FaultProxy,
    database_port: int,
    open_engine: Callable[..., Awaitable[DynamoEngine]],
    clock: ManualClock,
) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as started:
        # The nodes of a cluster have addresses of their own and one port.
        other = FaultProxy(database_port, host=ADDRESSES[1], port=proxy.port)
        nodes = [proxy, await started.enter_async_context(other)]
        for node in nodes:
            node.nodes = ADDRESSES
        engine = await open_engine(alternator=True)
        yield Cluster(nodes, await engine.ensure_table(MESSAGES), clock)


async def put_many(table: TableHandle, count: int) -> None:
    """Some at a time, as a node does that serves many users."""
    for start in range(0, count, 10):
        numbers = range(start, min(count, start + 10))
        await asyncio.gather(*(table.put({"user": f"u{n}", "place": "1"}) for n in numbers))


async def test_calls_are_spread_over_the_nodes(cluster: Cluster) -> None:
    cluster.asked()
    await put_many(cluster.table, 100)
    counts = cluster.asked()
    assert sum(counts) == 100
    assert min(counts) > 20


@pytest.mark.parametrize("dead", [0, 1], ids=["the one that was named", "another one"])
async def test_a_node_that_dies_is_survived_and_left_out(cluster: Cluster, dead: int) -> None:
    await put_many(cluster.table, 20)
    cluster.asked()
    await cluster.nodes[dead].down()
    await put_many(cluster.table, 100)
    assert cluster.asked()[1 - dead] == 100
    assert len((await cluster.table.scan()).items) == 100


async def test_a_cluster_of_which_nothing_is_left_is_unavailable(cluster: Cluster) -> None:
    for node in cluster.nodes:
        await node.down()
    with pytest.raises(Unavailable):
        await cluster.table.get(("u", "1"))
    await cluster.nodes[1].up()
    assert await cluster.table.get(("u", "1")) is None


async def test_items_expire_without_the_database_s_time_to_live(cluster: Cluster) -> None:
    table, clock = cluster.table, cluster.clock
    await table.put({"user": "u", "place": "1", "expiry": clock.now + 10})
    assert await table.get(("u", "1")) is not None
    clock.advance(10)
    assert await table.get(("u", "1")) is None
    assert (await table.query("u")).items == []
    asked = {operation for node in cluster.nodes for operation in node.operations}
    assert "CreateTable" in asked
    assert asked.isdisjoint({"UpdateTimeToLive", "DescribeTimeToLive"})
