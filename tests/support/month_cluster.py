"""Nodes that share an engine and call each other, and what the monthly tables hold.

Every node is a connection node and an endpoint with its own store, on an engine that can be held
(`gate`). Nothing happens by itself: `run_until_idle` lets everything happen that is not held.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from autopush.delivery.answering import Answer
from autopush.delivery.bridged import BridgedUser
from autopush.delivery.calls import CheckStorage, EndDuplicate, NodeCall, Outcome
from autopush.delivery.node_http import to_http
from autopush.delivery.peers import Nodes
from autopush.keys import ServiceKeys
from autopush.net.timers import TimerWheel
from autopush.service.compose import IO, compose
from autopush.settings import Settings
from autopush.store import PushStore, TablePlan, UserRecord
from autopush.store.tables import message_table, router_table
from autopush.webpush.identifiers import IdFactory
from autopush.webpush.notification import Notification
from autopush.webpush.tokens import KeyRing, new_key, new_message_id
from autopush.webpush.urgency import HIGHEST, NORMAL
from keytables import Engine, Item, Param, Table, TableHandle, Update, Value
from support import engines
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, UAID, UNLIMITED, UserAgent
from support.event_loops import IDLE, has_callbacks
from support.fake_loop import FakeLoop
from support.gated_engine import GatedEngine
from support.recorded import new_metrics

ONE, TWO, THREE = (f"http://{name}:8081/i/first" for name in ("one", "two", "three"))
OCTOBER, NOVEMBER, DECEMBER = "message_2026_10", "message_2026_11", "message_2026_12"
TURNS = 25
DEADLINE = 60.0

EVERY_ENGINE = pytest.mark.parametrize("cluster", engines.EVERY, indirect=True)
"""Runs a test that takes a `cluster` on each of the engines."""


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> float:
    return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()


class LinkedNodes(Nodes):
    """Calls the other nodes of a cluster. One that has to wait for its held engine is silent."""

    cluster: "Cluster"

    async def _call(self, node_id: str, call: NodeCall, *, lane: int = 0) -> Outcome:
        if node_id == self.own_id:
            return await super()._call(node_id, call)
        return await self.cluster.call(node_id, call)

    async def check_storage(self, node_id: str, uaid: str, urgency: str = HIGHEST) -> Outcome:
        outcome = await self._call(node_id, CheckStorage(uaid, urgency))
        if outcome is Outcome.SILENT:
            self.cluster.pending_checks.append((node_id, uaid))
        return outcome

    async def end_duplicate(
        self, node_id: str, uaid: str, connected_at: int, *, or_older: bool = False
    ) -> None:
        await self._call(node_id, EndDuplicate(uaid, connected_at, or_older))


class Node:
    """One process of the cluster, composed as in production."""

    def __init__(
        self, cluster: "Cluster", name: str, gate: GatedEngine, store: PushStore, settings: Settings
    ) -> None:
        self.name = name
        self.gate = gate
        self.store = store
        self.metrics = new_metrics()
        url, _, instance = name.rpartition("/i/")
        io = IO(
            store=store,
            metrics=self.metrics,
            keys=cluster.keys,
            wheel=cluster.wheel,
            clock=cluster.clock,
            monotonic=cluster.clock,
            uniform=lambda least, most: (least + most) / 2,
            instance=instance,
            node_url=url,
            make_nodes=LinkedNodes,
        )
        self.parts = parts = compose(settings, io)
        self.registry, self.answering = parts.registry, parts.answering
        self.nodes = cast(LinkedNodes, parts.nodes)
        self.nodes.cluster = cluster
        assert parts.websockets is not None
        assert parts.endpoint is not None
        self.node = parts.websockets.node
        self.bridges, self.router = parts.endpoint.bridges, parts.endpoint.router
        self.router.ack_timeout = 0.01
        self.dead = False
        self.cut_off = False
        """No other node reaches it."""

    async def push(self, notification: Notification) -> Outcome:
        """What the endpoint does with a message."""
        recipient = await self.router.find(notification.uaid, notification.channel_id)
        assert not isinstance(recipient, BridgedUser)
        return await self.router.route(recipient, notification)

    def die(self) -> None:
        """kill -9: what it was doing is never done, and its sockets are lost."""
        self.dead = True


class Cluster:
    """See the module. The time is the middle of November 2026 until `turn_month` sets another."""

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        clock.now = at(2026, 11, 15)
        self.engine = engine
        self.clock = clock
        self.loop = FakeLoop()
        self.wheel = TimerWheel(self.loop.loop)
        self.keys = ServiceKeys((new_key(),), (new_key(),))
        self.ring = KeyRing(self.keys.crypto)
        self.ids = IdFactory(clock)
        self.nodes: dict[str, Node] = {}
        self.agents: list[UserAgent] = []
        self.calls: list[tuple[str, str]] = []
        """From node to node: which one was called, and how."""
        self.pending_checks: list[tuple[str, str]] = []
        self._open_calls = 0

    async def add(
        self,
        name: str,
        *,
        plan: TablePlan | None = None,
        clock: ManualClock | None = None,
        store_first: bool = True,
        **options: Any,
    ) -> Node:
        """Start a node. `options`: of the settings, in place of those of `UNLIMITED`."""
        gate = GatedEngine(self.engine)
        plan = plan or TablePlan(rotating=True)
        store = await PushStore.open(gate, plan, key_hash="", clock=clock or self.clock)
        delivery = "store-first" if store_first else "bypass"
        settings = replace(UNLIMITED, command="serve", direct_delivery=delivery, **options)
        node = self.nodes[name] = Node(self, name, gate, store, settings)
        return node

    async def call(self, node_id: str, call: NodeCall) -> Outcome:
        """The outcome of a call from node to node."""
        method, path, _ = to_http(call)
        self.calls.append((node_id, f"{method} {path}"))
        node = self.nodes.get(node_id)
        if node is None or node.dead:
            return Outcome.GONE
        if node.cut_off:
            return Outcome.SILENT
        outcome = asyncio.ensure_future(_outcome(node.answering(call)))
        self._open_calls += 1
        try:
            for _ in range(TURNS):  # it does what it can without its engine
                await asyncio.sleep(0)
                if outcome.done():
                    break
            while not outcome.done():
                if node.gate.is_held and node.gate.waiting:
                    return Outcome.SILENT  # its answer would come too late
                await asyncio.sleep(0)
        finally:
            self._open_calls -= 1
        return await outcome

    # ── user agents ─────────────────────────────────────────────────────────────────────────────

    def connect(self, node: Node, uaid: str | None = UAID, **members: object) -> UserAgent:
        """A user agent that sends a hello."""
        agent = UserAgent(node.node, self.loop)
        self.agents.append(agent)
        agent.hello(uaid, **members)
        return agent

    async def hello(self, node: Node, uaid: str | None = UAID, **members: object) -> UserAgent:
        """A user agent whose hello was carried out as far as nothing is held."""
        agent = self.connect(node, uaid, **members)
        await self.run_until_idle()
        return agent

    async def start_push(self, node: Node, message: Notification) -> "asyncio.Task[Outcome]":
        """Send a message through that node's endpoint, as far as nothing is held."""
        push = asyncio.ensure_future(node.push(message))
        await self.run_until_idle()
        return push

    async def receive_all(self, agent: UserAgent) -> list[str]:
        """Receive and ack notifications until no more come; returns their versions."""
        received: list[str] = []
        while True:
            await self.run_until_idle()
            frames = [frame for frame in agent.received() if isinstance(frame, dict)]
            new = [frame for frame in frames if frame.get("messageType") == "notification"]
            if not new:
                return received
            received += [message["version"] for message in new]
            agent.ack(*new)

    def message(
        self,
        uaid: str = UAID,
        *,
        topic: str | None = None,
        urgency: str = NORMAL,
        ttl: int = 90 * 86_400,
    ) -> Notification:
        sort_time = None if topic else self.ids.next()
        return Notification(
            uaid=uaid,
            channel_id=CHANNEL,
            version=new_message_id(self.ring, uaid, CHANNEL, topic, sort_time),
            ttl=ttl,
            timestamp=int(self.clock()),
            topic=topic,
            urgency=urgency,
            sort_time=sort_time,
        )

    # ── time ────────────────────────────────────────────────────────────────────────────────────

    async def run_until_idle(self) -> None:
        """Let everything happen that is neither held nor scheduled for later."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE
        idle_turns = busy_turns = 0
        while idle_turns < IDLE:
            assert loop.time() < deadline, "never idle"
            for agent in self.agents:
                agent.flow()
            busy = self._open_calls or any(
                n.gate.waiting and not n.gate.is_held for n in self.nodes.values()
            )
            await asyncio.sleep(0.0005 if busy_turns > TURNS else 0)
            self.loop.advance()
            idle_turns = 0 if busy or has_callbacks() else idle_turns + 1
            busy_turns = busy_turns + 1 if busy else 0
            if idle_turns == IDLE and await self._repeat_checks():
                idle_turns = 0

    async def _repeat_checks(self) -> bool:
        """Repeat the checks that silent nodes missed; whether one was answered."""
        pending, self.pending_checks = self.pending_checks, []
        for node_id, uaid in pending:
            if await self.call(node_id, CheckStorage(uaid)) is Outcome.SILENT:
                self.pending_checks.append((node_id, uaid))
        return len(self.pending_checks) < len(pending)

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.loop.advance(seconds)
        await self.run_until_idle()

    async def turn_month(self, now: float) -> None:
        """Set the time, and let every node notice the month."""
        self.clock.now = now
        for node in self.nodes.values():
            await _done(node.store.rotate(), self)

    # ── what is stored ──────────────────────────────────────────────────────────────────────────

    async def known_user(self, table: str = OCTOBER) -> None:
        """Add a user that is not connected, with one channel in that table."""
        handle = await self._open(message_table(table))
        row: Item = {"uaid": UAID, "chidmessageid": " ", "chids": frozenset({CHANNEL})}
        await handle.put(row)
        router = await self._open(router_table("router"))
        await router.put(
            {
                "uaid": UAID,
                "router_type": "webpush",
                "connected_at": 5,
                "last_connect": 202610150003,
                "record_version": 1,
                "current_month": table,
            }
        )

    async def change_record(self, uaid: str = UAID, **attributes: Value) -> None:
        """Change the router record in the table itself."""
        router = await self._open(router_table("router"))
        update = Update(set={name: Param(name) for name in attributes})
        await router.update((uaid,), update, attributes)

    async def record(self, uaid: str = UAID) -> UserRecord:
        node = next(iter(self.nodes.values()))
        store = await PushStore.open(self.engine, node.store.plan, key_hash="", clock=self.clock)
        record = await store.users.get(uaid)
        assert record is not None
        return record

    async def channels(self, table: str) -> frozenset[str]:
        item = await (await self._open(message_table(table))).get((UAID, " "))
        return cast(frozenset[str], item.get("chids", frozenset())) if item else frozenset()

    async def stored(self, table: str) -> list[str]:
        """The ids of the messages in a table."""
        items = (await (await self._open(message_table(table))).scan()).items
        return [str(item["updateid"]) for item in items if item["chidmessageid"] != " "]

    async def _open(self, table: Table) -> TableHandle:
        return await self.engine.ensure_table(table)


async def _outcome(answer: Answer) -> Outcome:
    return answer if isinstance(answer, Outcome) else await answer


async def _done(work: Awaitable[None], cluster: Cluster) -> None:
    task = asyncio.ensure_future(work)
    while not task.done():
        await cluster.run_until_idle()
    await task
