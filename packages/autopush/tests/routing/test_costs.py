"""What a push and a hello ask of the store: the calls that the documentation counts ("On DynamoDB",
"Cost"). Whoever changes one of these lists changes that page.
"""

import asyncio

import pytest

from autopush.routing.webpush import Outcome
from autopush.store.messages import row_of
from support.clocks import ManualClock
from support.connection_house import OTHER, UAID, UserAgent
from support.memory_engine import MemoryEngine
from support.month_cluster import NOVEMBER, OCTOBER, ONE, TWO, Cluster, Node

FIND = ["get router", f"get {NOVEMBER}"]
"""Whose endpoint is it, and is the channel subscribed?"""
HELLO = ["get router", "update router", f"query {NOVEMBER}"]


class House:
    """A connection node, an endpoint node, and what they ask of one store."""

    def __init__(self, cluster: Cluster, engine: MemoryEngine, node: Node, endpoint: Node) -> None:
        self.cluster = cluster
        self.engine = engine
        self.node = node
        self.endpoint = endpoint

    @classmethod
    async def open(cls, *, store_first: bool = False, table: str = NOVEMBER) -> "House":
        clock = ManualClock()
        engine = MemoryEngine(clock)
        cluster = Cluster(engine, clock)
        node = await cluster.add(ONE, store_first=store_first)
        endpoint = await cluster.add(TWO, store_first=store_first)
        await cluster.known_user(table)
        return cls(cluster, engine, node, endpoint)

    async def connected(self, node: Node | None = None, uaid: str | None = UAID) -> UserAgent:
        agent = self.cluster.connect(node or self.node, uaid)
        assert await self.cluster.acked(agent) == []
        return agent

    async def pushed(self, node: Node | None = None) -> Outcome:
        push = asyncio.ensure_future((node or self.endpoint).push(self.cluster.message()))
        await self.cluster.quiet()
        return await push

    def calls(self) -> list[str]:
        """What was asked since the last time."""
        calls = list(self.engine.calls)
        self.engine.calls.clear()
        return calls


# ── a push ──────────────────────────────────────────────────────────────────────────────────────


async def test_to_a_connected_user_agent_with_bypass() -> None:
    house = await House.open()
    agent = await house.connected()
    house.calls()
    assert await house.pushed() is Outcome.DELIVERED
    assert len(await house.cluster.acked(agent)) == 1
    assert house.calls() == FIND


async def test_to_a_connected_user_agent_with_store_first() -> None:
    house = await House.open(store_first=True)
    agent = await house.connected()
    house.calls()
    assert await house.pushed() is Outcome.DELIVERED
    assert len(await house.cluster.acked(agent)) == 1
    looked_at = f"get {NOVEMBER}"
    assert house.calls() == [*FIND, f"put {NOVEMBER}", looked_at, f"delete {NOVEMBER}"]


@pytest.mark.parametrize("store_first", [False, True])
async def test_to_one_that_is_away_and_fetches_it_later(store_first: bool) -> None:
    house = await House.open(store_first=store_first)
    house.calls()
    assert await house.pushed() is Outcome.STORED
    assert house.calls() == [*FIND, f"put {NOVEMBER}", "get router"]
    agent = house.cluster.connect(house.node)
    assert len(await house.cluster.acked(agent)) == 1
    assert house.calls() == [*HELLO, f"delete {NOVEMBER}"]


async def test_many_messages_that_are_acked_together_are_deleted_in_one_call() -> None:
    house = await House.open()
    for _ in range(10):
        await house.pushed()
    house.calls()
    agent = house.cluster.connect(house.node)
    assert len(await house.cluster.acked(agent)) == 10
    assert house.calls() == [*HELLO, f"batch_write {NOVEMBER}"]


@pytest.mark.parametrize(
    ("store_first", "calls"), [(False, []), (True, [f"put {NOVEMBER}", f"delete {NOVEMBER}"])]
)
async def test_to_one_connected_to_this_very_worker(store_first: bool, calls: list[str]) -> None:
    house = await House.open(store_first=store_first)
    agent = await house.connected()
    house.calls()
    assert await house.pushed(house.node) is Outcome.DELIVERED
    assert len(await house.cluster.acked(agent)) == 1
    assert house.calls() == calls


async def test_the_first_one_after_its_node_is_gone_clears_the_node() -> None:
    house = await House.open()
    await house.connected()
    house.node.die()
    house.calls()
    await house.pushed()
    clear = "update router"
    assert house.calls() == [*FIND, clear, f"put {NOVEMBER}", "get router"]
    await house.pushed()
    assert house.calls() == [*FIND, f"put {NOVEMBER}", "get router"]


async def test_taking_one_back_asks_every_table_in_use() -> None:
    house = await House.open()
    house.calls()
    await house.endpoint.store.remove(UAID, row_of(house.cluster.message()))
    assert house.calls() == ["get router", f"delete {OCTOBER}", f"delete {NOVEMBER}"]


# ── a connect ───────────────────────────────────────────────────────────────────────────────────


async def test_of_a_known_user() -> None:
    house = await House.open()
    house.calls()
    agent = await house.connected()
    assert house.calls() == HELLO
    agent.leave()
    await house.connected(house.endpoint)
    assert house.calls() == HELLO, "the node it was on is asked, which asks the store nothing"


async def test_of_a_new_user_and_its_first_channels() -> None:
    house = await House.open()
    house.calls()
    agent = await house.connected(uaid=None)
    assert house.calls() == []
    agent.register()
    await house.cluster.quiet()
    assert house.calls() == [f"update {NOVEMBER}", "update router"]
    agent.register(OTHER)
    await house.cluster.quiet()
    assert house.calls() == [f"update {NOVEMBER}"]


async def test_that_moves_a_user_to_the_month_and_the_one_after_it() -> None:
    house = await House.open(table=OCTOBER)
    house.calls()
    agent = await house.connected()
    hello = ["get router", "update router", f"query {OCTOBER}"]
    move = [f"get {OCTOBER}", f"put {NOVEMBER}", "update router", f"query {OCTOBER}"]
    assert house.calls() == [*hello, *move, f"query {NOVEMBER}"]
    agent.leave()
    await house.connected()
    last_look = [f"query {OCTOBER}", "update router"]
    assert house.calls() == [*HELLO[:2], *last_look, HELLO[2]]


async def test_a_ping_costs_nothing() -> None:
    house = await House.open()
    agent = await house.connected()
    house.calls()
    agent.say({})
    await house.cluster.quiet()
    assert house.calls() == []
