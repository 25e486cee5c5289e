"""The store calls of a push and a hello, as the documentation counts them ("On DynamoDB", "Cost").

A change of one of these lists is a change of that page.
"""

import pytest

from autopush.delivery.calls import Outcome
from autopush.store.messages import row_of
from support.clocks import ManualClock
from support.connection_harness import OTHER, UAID, UserAgent
from support.memory_engine import MemoryEngine
from support.month_cluster import NOVEMBER, OCTOBER, ONE, TWO, Cluster, Node

FIND = ["get router", f"get {NOVEMBER}"]
"""Whose endpoint it is, and whether the channel is subscribed."""
HELLO = ["get router", "update router", f"query {NOVEMBER}"]


class CountingCluster:
    """A connection node, an endpoint node, and their calls to one store."""

    def __init__(self, cluster: Cluster, engine: MemoryEngine, node: Node, endpoint: Node) -> None:
        self.cluster = cluster
        self.engine = engine
        self.node = node
        self.endpoint = endpoint

    @classmethod
    async def open(cls, *, store_first: bool = False, table: str = NOVEMBER) -> "CountingCluster":
        clock = ManualClock()
        engine = MemoryEngine(clock)
        cluster = Cluster(engine, clock)
        node = await cluster.add(ONE, store_first=store_first)
        endpoint = await cluster.add(TWO, store_first=store_first)
        await cluster.known_user(table)
        return cls(cluster, engine, node, endpoint)

    async def connected(self, node: Node | None = None, uaid: str | None = UAID) -> UserAgent:
        agent = self.cluster.connect(node or self.node, uaid)
        assert await self.cluster.receive_all(agent) == []
        return agent

    async def pushed(self, node: Node | None = None) -> Outcome:
        push = await self.cluster.start_push(node or self.endpoint, self.cluster.message())
        return await push

    def calls(self) -> list[str]:
        """The calls since the last time."""
        calls = list(self.engine.calls)
        self.engine.calls.clear()
        return calls


# ── a push ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_push_to_a_connected_user_agent_with_bypass() -> None:
    setup = await CountingCluster.open()
    agent = await setup.connected()
    setup.calls()
    assert await setup.pushed() is Outcome.DONE
    assert len(await setup.cluster.receive_all(agent)) == 1
    assert setup.calls() == FIND
    assert await setup.pushed() is Outcome.DONE
    assert setup.calls() == [], "within a minute"
    assert len(await setup.cluster.receive_all(agent)) == 1


async def test_a_push_to_a_connected_user_agent_with_store_first() -> None:
    setup = await CountingCluster.open(store_first=True)
    agent = await setup.connected()
    setup.calls()
    assert await setup.pushed() is Outcome.DONE
    assert len(await setup.cluster.receive_all(agent)) == 1
    calls = [f"put {NOVEMBER}", f"get {NOVEMBER}", f"delete {NOVEMBER}"]
    assert setup.calls() == [*FIND, *calls]


@pytest.mark.parametrize("store_first", [False, True])
async def test_a_push_to_a_user_that_connects_later(store_first: bool) -> None:
    setup = await CountingCluster.open(store_first=store_first)
    setup.calls()
    assert await setup.pushed() is Outcome.STORED
    assert setup.calls() == [*FIND, f"put {NOVEMBER}", "get router"]
    agent = setup.cluster.connect(setup.node)
    assert len(await setup.cluster.receive_all(agent)) == 1
    assert setup.calls() == [*HELLO, f"delete {NOVEMBER}"]


async def test_many_messages_that_are_acked_together_are_deleted_in_one_call() -> None:
    setup = await CountingCluster.open()
    for _ in range(10):
        await setup.pushed()
    setup.calls()
    agent = setup.cluster.connect(setup.node)
    assert len(await setup.cluster.receive_all(agent)) == 10
    assert setup.calls() == [*HELLO, f"batch_write {NOVEMBER}"]


@pytest.mark.parametrize(
    ("store_first", "calls"), [(False, []), (True, [f"put {NOVEMBER}", f"delete {NOVEMBER}"])]
)
async def test_a_push_to_a_user_agent_of_the_same_worker(
    store_first: bool, calls: list[str]
) -> None:
    setup = await CountingCluster.open(store_first=store_first)
    agent = await setup.connected()
    setup.calls()
    assert await setup.pushed(setup.node) is Outcome.DONE
    assert len(await setup.cluster.receive_all(agent)) == 1
    assert setup.calls() == calls


async def test_the_first_push_after_its_node_is_gone_clears_the_node() -> None:
    setup = await CountingCluster.open()
    await setup.connected()
    setup.node.die()
    setup.calls()
    await setup.pushed()
    clear = "update router"
    assert setup.calls() == [*FIND, clear, f"put {NOVEMBER}", "get router"]
    await setup.pushed()
    assert setup.calls() == [*FIND, f"put {NOVEMBER}", "get router"]


async def test_deleting_a_message_calls_every_table_in_use() -> None:
    setup = await CountingCluster.open()
    setup.calls()
    await setup.endpoint.store.remove(UAID, row_of(setup.cluster.message()))
    assert setup.calls() == ["get router", f"delete {OCTOBER}", f"delete {NOVEMBER}"]


# ── a connect ───────────────────────────────────────────────────────────────────────────────────


async def test_a_hello_of_a_known_user() -> None:
    setup = await CountingCluster.open()
    setup.calls()
    agent = await setup.connected()
    assert setup.calls() == HELLO
    agent.disconnect()
    await setup.connected(setup.endpoint)
    assert setup.calls() == HELLO, "the node it was on is called, which does not call the store"


async def test_a_hello_of_a_new_user_and_its_first_channels() -> None:
    setup = await CountingCluster.open()
    setup.calls()
    agent = await setup.connected(uaid=None)
    assert setup.calls() == []
    agent.register()
    await setup.cluster.run_until_idle()
    assert setup.calls() == [f"update {NOVEMBER}", "update router"]
    agent.register(OTHER)
    await setup.cluster.run_until_idle()
    assert setup.calls() == [f"update {NOVEMBER}"]


async def test_a_hello_with_a_change_of_tables_and_the_one_after_it() -> None:
    setup = await CountingCluster.open(table=OCTOBER)
    setup.calls()
    agent = await setup.connected()
    hello = ["get router", "update router", f"query {OCTOBER}"]
    change = [f"get {OCTOBER}", f"put {NOVEMBER}", "update router", f"query {OCTOBER}"]
    assert setup.calls() == [*hello, *change, f"query {NOVEMBER}"]
    agent.disconnect()
    await setup.connected()
    last_read = [f"query {OCTOBER}", "update router"]
    assert setup.calls() == [*HELLO[:2], *last_read, HELLO[2]]


async def test_a_ping_costs_nothing() -> None:
    setup = await CountingCluster.open()
    agent = await setup.connected()
    setup.calls()
    agent.send_json({})
    await setup.cluster.run_until_idle()
    assert setup.calls() == []
