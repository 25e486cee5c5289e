"""A ScyllaDB cluster (Alternator): all nodes are used, one may fail, and no time to live is set."""

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


@dataclass
class Cluster:
    """Two proxies of one database, which is the same for both as in a cluster."""

    nodes: list[FaultProxy]
    table: TableHandle
    clock: ManualClock

    def calls(self) -> list[int]:
        """How many calls each node got since the last time."""
        counts = [sum(node.operations.values()) for node in self.nodes]
        for node in self.nodes:
            node.reset_counts()
        return counts


@pytest.fixture
async def cluster(
    proxy: FaultProxy,
    database_port: int,
    open_engine: Callable[..., Awaitable[DynamoEngine]],
    clock: ManualClock,
) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as started:
        other = FaultProxy(database_port, host="127.0.0.2")
        nodes = [proxy, await started.enter_async_context(other)]
        endpoint = ",".join(node.url for node in nodes)
        engine = await open_engine(endpoint=endpoint, alternator=True)
        yield Cluster(nodes, await engine.ensure_table(MESSAGES), clock)


async def put_many(table: TableHandle, count: int) -> None:
    """Ten at a time."""
    for start in range(0, count, 10):
        numbers = range(start, min(count, start + 10))
        await asyncio.gather(*(table.put({"user": f"u{n}", "place": "1"}) for n in numbers))


async def test_calls_are_spread_over_the_nodes(cluster: Cluster) -> None:
    cluster.calls()
    await put_many(cluster.table, 100)
    counts = cluster.calls()
    assert sum(counts) == 100
    assert min(counts) > 20


@pytest.mark.parametrize("failing", [0, 1], ids=["the first", "another"])
async def test_a_node_that_fails_is_skipped_and_no_call_fails(
    cluster: Cluster, failing: int
) -> None:
    await put_many(cluster.table, 20)
    cluster.calls()
    await cluster.nodes[failing].stop()
    await put_many(cluster.table, 100)
    assert cluster.calls()[1 - failing] == 100
    assert len((await cluster.table.scan()).items) == 100


async def test_a_cluster_whose_nodes_all_fail_is_unavailable(cluster: Cluster) -> None:
    for node in cluster.nodes:
        await node.stop()
    with pytest.raises(Unavailable):
        await cluster.table.get(("u", "1"))
    await cluster.nodes[1].start()
    assert await cluster.table.get(("u", "1")) is None


async def test_items_expire_without_a_time_to_live_of_the_database(cluster: Cluster) -> None:
    table, clock = cluster.table, cluster.clock
    await table.put({"user": "u", "place": "1", "expiry": clock.now + 10})
    assert await table.get(("u", "1")) is not None
    clock.advance(10)
    assert await table.get(("u", "1")) is None
    assert (await table.query("u")).items == []
    operations = {operation for node in cluster.nodes for operation in node.operations}
    assert "CreateTable" in operations
    assert operations.isdisjoint({"UpdateTimeToLive", "DescribeTimeToLive"})
