"""Nodes, endpoints and a user agent in any order of their calls to the store: nothing is lost.

Every call waits until it is chosen, so a change of tables, a reconnect, pushes and the death of a
node may interleave in every way.
"""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from autopush.delivery.calls import Outcome
from autopush.webpush.notification import Notification
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, UserAgent
from support.memory_engine import MemoryEngine
from support.month_cluster import NOVEMBER, OCTOBER, ONE, THREE, TWO, Cluster, Node
from support.soak import examples

MOST_PUSHES, MOST_CONNECTS = 4, 4

Push = tuple[Node, Notification, "asyncio.Task[Outcome]"]


class Interleaving:
    """What has happened so far."""

    def __init__(self, cluster: Cluster, nodes: list[Node], *, deaths: bool) -> None:
        self.cluster = cluster
        self.nodes = nodes
        self.deaths = deaths
        self.pushes: list[Push] = []
        self.agents: list[UserAgent] = []
        self.connected_to = nodes[0]
        self.received: list[str] = []
        self.unacked: list[dict[str, object]] = []

    @property
    def alive(self) -> list[Node]:
        return [node for node in self.nodes if not node.dead]

    async def choose(self, number: int) -> None:
        """Do one of the things that can happen now; mostly one node makes its next calls."""
        kind, number = number % 16, number // 16
        held = [node for node in self.alive if node.gate.is_held]
        if held and kind < 10:
            node, calls = held[number % len(held)], 1 + number // 3 % 8
            for _ in range(calls):
                node.gate.step()
                await self.run_until_idle()
        elif kind < 12 and self.unacked:
            self.ack()
        elif kind < 14 and len(self.pushes) < MOST_PUSHES:
            self.push(self.alive[number % len(self.alive)], number)
        elif kind < 15 and len(self.agents) < MOST_CONNECTS:
            self.connect(self.alive[number % len(self.alive)])
        elif kind == 15 and self.deaths and number % 4 == 0 and len(self.alive) == len(self.nodes):
            self.kill()
        await self.run_until_idle()

    def push(self, node: Node, number: int) -> None:
        message = self.cluster.message(
            topic=f"topic-{len(self.pushes)}" if number % 4 == 0 else None
        )
        self.pushes.append((node, message, asyncio.ensure_future(node.push(message))))

    def connect(self, node: Node) -> None:
        self.unacked.clear()
        self.connected_to = node
        self.agents.append(self.cluster.connect(node))

    def ack(self) -> None:
        self.agents[-1].ack(*self.unacked)
        self.unacked.clear()

    def kill(self) -> None:
        """Kill the node that has the user agent."""
        if not self.agents:
            return
        self.connected_to.die()
        self.unacked.clear()

    async def run_until_idle(self) -> None:
        await self.cluster.run_until_idle()
        for agent in self.agents:
            for frame in agent.received():
                if isinstance(frame, dict) and frame.get("messageType") == "notification":
                    self.received.append(frame["version"])
                    if agent is self.agents[-1]:
                        self.unacked.append(frame)


async def interleave(numbers: list[int], store_first: bool) -> None:
    clock = ManualClock()
    cluster = Cluster(MemoryEngine(clock), clock)
    nodes = [await cluster.add(name, store_first=store_first) for name in (ONE, TWO, THREE)]
    await cluster.known_user()
    for node in nodes:
        node.gate.before = lambda _, __, gate=node.gate: gate.hold()  # type: ignore[misc]
    run = Interleaving(cluster, nodes, deaths=store_first)
    try:
        await check(run, numbers)
    finally:  # what the dead ones had under way must end before the loop does
        for node in nodes:
            node.gate.release()
    await cluster.run_until_idle()


async def check(run: Interleaving, numbers: list[int]) -> None:
    cluster = run.cluster
    run.connect(run.alive[0])
    for number in numbers:
        await run.choose(number)
    for node in run.alive:
        node.gate.release()
    await run.run_until_idle()
    run.connect(run.alive[0])
    await run.run_until_idle()
    while run.unacked:
        run.ack()
        await run.run_until_idle()
    for node, message, push in run.pushes:
        if push.done():
            assert push.result() in (Outcome.DONE, Outcome.STORED)
            assert message.version in run.received, "lost"
        else:
            assert node.dead, "never answered"
    assert await cluster.stored(NOVEMBER) == []
    assert await cluster.channels(NOVEMBER) == {CHANNEL}
    record = await cluster.record()
    assert record.current_month == NOVEMBER
    # Only messages pushed through a node that died before it answered may be left there.
    unanswered = {message.version for _, message, push in run.pushes if not push.done()}
    assert set(await cluster.stored(OCTOBER)) <= unanswered


NUMBERS = st.lists(st.integers(0, 16 * 24 - 1), min_size=10, max_size=60)
SOAK = settings(max_examples=examples(60, 4000), deadline=None)


@SOAK
@given(NUMBERS)
def test_nothing_is_lost_in_any_interleaving(numbers: list[int]) -> None:
    asyncio.run(interleave(numbers, store_first=True))


@SOAK
@given(NUMBERS)
def test_with_bypass_nothing_is_lost_as_long_as_no_node_dies(numbers: list[int]) -> None:
    asyncio.run(interleave(numbers, store_first=False))
