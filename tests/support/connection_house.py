"""A connection node on a store of dicts, and user agents on fake transports and a fake clock.

Nothing moves by itself: `settle` lets the store answer and the sockets flow, `pass_time` moves both
clocks.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

from autopush.connection.node import ConnectionNode
from autopush.connection.registry import Registry
from autopush.connection.user_agent import UserAgentConnection
from autopush.net.timers import TimerWheel
from autopush.protocol.actions import Row
from autopush.protocol.rules import Rules
from autopush.routing.nodes import NodeAnswer, Nodes
from autopush.store import PushStore, TablePlan, UserRecord
from autopush.webpush.endpoint_token import EndpointTokens
from autopush.webpush.identifiers import IdFactory, new_message_id
from autopush.webpush.keyring import KeyRing, new_key
from autopush.webpush.notification import Notification
from keytables import Item
from support import wire
from support.clocks import ManualClock
from support.fake_loop import FakeLoop
from support.fake_transport import FakeTransport
from support.memory_engine import MemoryEngine

UAID = "0123456789abcdef0123456789abcdef"
CHANNEL = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
NODE, OTHER_NODE = "http://one:8081", "http://two:8081"
ENDPOINT = "https://push.example"

TURNS = 12
"""Enough turns of the loop for every chain of answers in these tests."""

Heard = dict[str, Any] | tuple[object, ...]


class TouchyEngine(MemoryEngine):
    """Fails, or is interrupted, at the calls it is told: for example "put message"."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.errors: defaultdict[str, list[Exception | None]] = defaultdict(list)
        self.interruptions: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)
        self.lists = 0
        """How often the tables were listed."""

    def fail(self, what: str, *errors: Exception | None) -> None:
        """Fail the next calls of that kind in turn; None lets one pass."""
        self.errors[what] += errors

    def before(self, what: str, *happens: Callable[[], None]) -> None:
        """Let something happen just before each of the next calls of that kind."""
        self.interruptions[what] += happens

    async def table_names(self) -> list[str]:
        self.lists += 1
        self._stumble("table_names")
        return await super().table_names()

    def called(self, what: str) -> None:
        super().called(what)
        self._stumble(what)

    def _stumble(self, what: str) -> None:
        if self.interruptions[what]:
            self.interruptions[what].pop(0)()
        error = self.errors[what].pop(0) if self.errors[what] else None
        if error is not None:
            raise type(error)(*error.args)  # a fresh one: it will hold on to frames


class NodesNearby(Nodes):
    """Writes down what is asked; the own node answers, others have no user agents."""

    def __init__(self, local: Registry) -> None:
        self.own_id = NODE
        self._local = local
        self.calls: list[tuple[object, ...]] = []

    async def push(self, node_id: str, notification: Notification, row: Row | None) -> NodeAnswer:
        self.calls.append(("push", node_id, notification.uaid))
        if node_id == self.own_id:
            return await super().push(node_id, notification, row)
        return NodeAnswer.ABSENT

    async def check(self, node_id: str, uaid: str) -> NodeAnswer:
        self.calls.append(("check", node_id, uaid))
        if node_id == self.own_id:
            return await super().check(node_id, uaid)
        return NodeAnswer.DONE

    async def end_duplicate(self, node_id: str, uaid: str, connected_at: int) -> None:
        self.calls.append(("end", node_id, uaid, connected_at))


class UserAgent:
    """The client's end of a connection."""

    def __init__(self, house: "House") -> None:
        self.connection = UserAgentConnection(house.node)
        self.transport = FakeTransport(house.loop, self.connection)
        self._unread = bytearray()

    @property
    def uaid(self) -> str:
        assert self.connection.session.uaid is not None
        return self.connection.session.uaid

    def say(self, *messages: object, **members: object) -> None:
        """Send messages in one piece: objects, or the members of one."""
        for message in (*messages, *([members] if members else [])):
            self._unread += wire.text(json.dumps(message).encode())
        self.flow()

    def hello(self, uaid: str | None = None) -> None:
        self.say(messageType="hello", use_webpush=True, **({"uaid": uaid} if uaid else {}))

    def register(self, channel: str = CHANNEL) -> None:
        self.say(messageType="register", channelID=channel)

    def ack(self, *notifications: Heard) -> None:
        updates = []
        for notification in notifications:
            assert isinstance(notification, dict)
            updates.append({key: notification[key] for key in ("channelID", "version")})
        self.say(messageType="ack", updates=updates)

    def send(self, data: bytes) -> None:
        """Send these very bytes."""
        self._unread += data
        self.flow()

    def flow(self) -> None:
        """Give the node what lies in the socket, as far as it reads."""
        if self._unread and self.transport.reading and not self.transport.closing:
            data = bytes(self._unread)
            self._unread.clear()
            self.connection.data_received(data)

    def is_read(self) -> bool:
        """Whether the node reads what is sent."""
        return self.transport.reading

    def leave(self) -> None:
        """Lose the connection."""
        self.transport.reset()

    def heard(self) -> list[Heard]:
        """What came since the last call: messages, ("close", code, reason), ("ping",)."""
        data = bytes(self.transport.written)
        self.transport.written.clear()
        heard: list[Heard] = []
        while data:
            opcode, length, start = data[0] & 15, data[1], 2
            if length == 126:
                length, start = int.from_bytes(data[2:4]), 4
            payload, data = data[start : start + length], data[start + length :]
            if opcode == wire.TEXT:
                heard.append(json.loads(payload))
            elif opcode == wire.CLOSE:
                heard.append(("close", int.from_bytes(payload[:2]), payload[2:].decode()))
            else:
                heard.append(({wire.PING: "ping", wire.PONG: "pong"}[opcode],))
        return heard

    def versions(self) -> list[str]:
        """The notifications heard, by version; whatever else came is lost."""
        return [
            message["version"]
            for message in self.heard()
            if isinstance(message, dict) and message.get("messageType") == "notification"
        ]


class House:
    """One connection node and all around it."""

    engine: TouchyEngine
    store: PushStore
    node: ConnectionNode

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.loop = FakeLoop()
        self.wheel = TimerWheel(self.loop.loop)
        self.registry = Registry()
        self.nodes = NodesNearby(self.registry)
        self.ring = KeyRing([new_key()])
        self.ids = IdFactory(self.clock)
        self.agents: list[UserAgent] = []
        self.chance = 0.5
        """How long random pauses are: from 0, the shortest, to 1."""

    @classmethod
    async def open(
        cls,
        rules: Rules | None = None,
        *,
        hello_timeout: float = 0,
        auto_ping_timeout: float = 4,
        max_connections: int = 0,
    ) -> Self:
        house = cls()
        house.engine = TouchyEngine(house.clock)
        house.store = await PushStore.open(
            house.engine,
            TablePlan(),
            key_hash="",
            clock=house.clock,
        )
        house.node = ConnectionNode(
            store=house.store,
            nodes=house.nodes,
            registry=house.registry,
            tokens=EndpointTokens(house.ring, ENDPOINT),
            rules=rules or Rules(),
            wheel=house.wheel,
            clock=house.clock,
            hello_timeout=hello_timeout,
            auto_ping_timeout=auto_ping_timeout,
            close_timeout=10,
            max_connections=max_connections,
            uniform=lambda least, most: least + (most - least) * house.chance,
        )
        return house

    # ── user agents ─────────────────────────────────────────────────────────────────────────────

    def connect(self) -> UserAgent:
        agent = UserAgent(self)
        self.agents.append(agent)
        return agent

    async def greeted(self, uaid: str | None = None) -> UserAgent:
        """A user agent that has had its hello reply and what was stored for it."""
        agent = self.connect()
        agent.hello(uaid)
        await self.settle()
        (reply, *rest) = agent.heard()
        assert isinstance(reply, dict), reply
        assert (reply["messageType"], reply["status"]) == ("hello", 200)
        assert rest == []
        return agent

    async def subscribed(self) -> UserAgent:
        """A new user agent with one channel."""
        agent = await self.greeted()
        agent.register()
        await self.settle()
        (reply,) = agent.heard()
        assert isinstance(reply, dict)
        assert reply["status"] == 200
        return agent

    # ── time ────────────────────────────────────────────────────────────────────────────────────

    async def settle(self) -> None:
        """Let the store answer, the sockets flow and what is due happen."""
        for _ in range(TURNS):
            for agent in self.agents:
                agent.flow()
            await asyncio.sleep(0)
            self.loop.advance()

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.loop.advance(seconds)
        await self.settle()

    # ── what is stored ──────────────────────────────────────────────────────────────────────────

    async def known_user(self, *, node_id: str = OTHER_NODE, connected_at: int = 5) -> None:
        """A user of before, with one channel."""
        await self.store.users.create(UAID, node_id, connected_at, "message")
        await self.store.current.add_channel(UAID, CHANNEL)
        self.engine.calls.clear()

    def edit_record(self, **attributes: str | int | None) -> None:
        """Change the router record behind everybody's back; None removes an attribute."""
        item = self.engine.tables["router"].items[(UAID,)]
        for name, value in attributes.items():
            item.pop(name, None)
            if value is not None:
                item[name] = value

    async def record(self, uaid: str = UAID) -> UserRecord:
        record = await self.store.users.get(uaid)
        assert record is not None
        return record

    def users(self) -> list[str]:
        """The UAIDs in the router table."""
        return [str(key[0]) for key in self.engine.tables["router"].items]

    def rows(self) -> list[Item]:
        """The stored messages."""
        table = self.engine.tables["message"].items
        return [item for key, item in sorted(table.items()) if key[1] != " "]

    def stored_versions(self) -> list[object]:
        return [row["updateid"] for row in self.rows()]

    def message(
        self, uaid: str = UAID, *, ttl: int = 60, topic: str | None = None, channel: str = CHANNEL
    ) -> Notification:
        """A message as the endpoint makes it, with an id of its own."""
        sort_time = None if topic else self.ids.next()
        return Notification(
            uaid=uaid,
            channel_id=channel,
            version=new_message_id(self.ring, uaid, channel, topic, sort_time),
            ttl=ttl,
            timestamp=int(self.clock()),
            topic=topic,
            sort_time=sort_time,
        )
