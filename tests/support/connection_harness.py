"""A connection node on an in-memory store, and user agents on fake transports and a fake clock.

Nothing happens by itself: `run_until_idle` lets the store answer and the sockets flow, `pass_time`
moves both clocks.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Self, cast

from autopush.api.status_pages import Dockerflow
from autopush.delivery.calls import Outcome
from autopush.delivery.connected import Registry
from autopush.delivery.node import ConnectionNode
from autopush.delivery.peers import Nodes
from autopush.delivery.user_agent import UserAgentConnection
from autopush.keys import ServiceKeys
from autopush.net.timers import TimerWheel
from autopush.service.compose import IO, Parts, compose
from autopush.settings import Settings
from autopush.store import PushStore, TablePlan, UserRecord
from autopush.store.accounts import Account
from autopush.telemetry.metric_table import WORKER_HEARTBEAT, WORKER_READY
from autopush.webpush.identifiers import IdFactory
from autopush.webpush.notification import Notification
from autopush.webpush.tokens import KeyRing, new_key, new_message_id
from autopush.webpush.urgency import HIGHEST
from keytables import Item, Value
from support import wire
from support.clocks import ManualClock
from support.event_loops import turns
from support.fake_loop import FakeLoop
from support.fake_transport import FakeTransport
from support.memory_engine import MemoryEngine
from support.recorded import new_metrics

UAID = "0123456789abcdef0123456789abcdef"
CHANNEL = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
NODE, OTHER_NODE = "http://one:8081/i/first", "http://two:8081/i/second"
ENDPOINT = "https://push.example"
ERRORS = f"{ENDPOINT}/errors"
WEBSOCKET = "wss://push.example/"

PEER = "192.0.2.1"
LOOPBACK = "127.0.0.1"

TURNS = 24
"""Enough turns of the loop for every chain of answers in these tests."""

Received = dict[str, Any] | tuple[object, ...]


class RecordingNodes(Nodes):
    """Records every call; the own node carries it out, others give the outcomes set here."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.calls: list[tuple[object, ...]] = []
        self.pushed: list[Notification] = []
        self.push_answer = Outcome.ABSENT
        self.conditional_answer = Outcome.DONE
        """Of a push by way of the cache."""
        self.check_answer = Outcome.DONE

    @property
    def checks(self) -> list[tuple[object, ...]]:
        """The checks of storage among the calls."""
        return [call for call in self.calls if call[0] == "check"]

    async def push(self, node_id: str, notification: Notification) -> Outcome:
        self.calls.append(("push", node_id, notification.uaid))
        self.pushed.append(notification)
        if node_id == self.own_id:
            return await super().push(node_id, notification)
        return self.push_answer

    async def push_if_subscribed(self, node_id: str, notification: Notification) -> Outcome:
        self.calls.append(("push if subscribed", node_id, notification.uaid))
        self.pushed.append(notification)
        return self.conditional_answer

    async def check_storage(self, node_id: str, uaid: str, urgency: str = HIGHEST) -> Outcome:
        self.calls.append(("check", node_id, uaid))
        if node_id == self.own_id:
            return await super().check_storage(node_id, uaid, urgency)
        return self.check_answer

    async def end_duplicate(
        self, node_id: str, uaid: str, connected_at: int, *, or_older: bool = False
    ) -> None:
        self.calls.append(("end", node_id, uaid, connected_at))


class UserAgent:
    """The client's end of a connection."""

    def __init__(
        self,
        node: ConnectionNode,
        loop: FakeLoop,
        user_agent: str = "",
        host: str = "",
        address: str = PEER,
        account: str = "",
    ) -> None:
        client = node.clients.find(user_agent, host, account)
        key = node.connection_limits.count(address)
        self.connection = UserAgentConnection(node, client, key)
        self.transport = FakeTransport(loop, self.connection)
        self._unread = bytearray()

    @property
    def uaid(self) -> str:
        assert self.connection.uaid is not None
        return self.connection.uaid

    def send_json(self, *messages: object, **members: object) -> None:
        """Send messages in one piece: objects, or the members of one."""
        for message in (*messages, *([members] if members else [])):
            self._unread += wire.text(json.dumps(message).encode())
        self.flow()

    def hello(self, uaid: str | None = None, **members: object) -> None:
        """Say hello, as a user agent of Web Push unless `members` say otherwise."""
        message: dict[str, object] = {"messageType": "hello", "use_webpush": True, "uaid": uaid}
        self.send_json(
            **{name: value for name, value in (message | members).items() if value is not None}
        )

    def register(self, channel: str = CHANNEL) -> None:
        self.send_json(messageType="register", channelID=channel)

    def ack(self, *notifications: Received) -> None:
        updates = []
        for notification in notifications:
            assert isinstance(notification, dict)
            updates.append({key: notification[key] for key in ("channelID", "version")})
        self.send_json(messageType="ack", updates=updates)

    def send(self, data: bytes) -> None:
        """Send these bytes as they are."""
        self._unread += data
        self.flow()

    def flow(self) -> None:
        """Give the node what is in the socket's buffer, if it reads."""
        if self._unread and self.transport.reading and not self.transport.closing:
            data = bytes(self._unread)
            self._unread.clear()
            self.connection.data_received(data)

    def is_read(self) -> bool:
        """Whether the node reads what is sent."""
        return self.transport.reading

    def disconnect(self) -> None:
        """Lose the connection."""
        self.transport.reset()

    def received(self) -> list[Received]:
        """What was received since the last call: messages, ("close", code, reason), ("ping",)."""
        data = bytes(self.transport.written)
        self.transport.written.clear()
        received: list[Received] = []
        while data:
            opcode, length, start = data[0] & 15, data[1], 2
            if length == 126:
                length, start = int.from_bytes(data[2:4]), 4
            payload, data = data[start : start + length], data[start + length :]
            if opcode == wire.TEXT:
                received.append(json.loads(payload))
            elif opcode == wire.CLOSE:
                received.append(("close", int.from_bytes(payload[:2]), payload[2:].decode()))
            else:
                received.append(({wire.PING: "ping", wire.PONG: "pong"}[opcode],))
        return received

    def reply(self) -> dict[str, Any]:
        """The only message received since the last call."""
        (reply,) = self.received()
        assert isinstance(reply, dict), reply
        return reply

    def close_code(self) -> object:
        """The code of the close frame that ends what was received since the last call."""
        last = self.received()[-1]
        assert isinstance(last, tuple), last
        assert last[0] == "close"
        return last[1]

    def versions(self) -> list[str]:
        """The versions of the notifications received; all other messages are discarded."""
        return [
            message["version"]
            for message in self.received()
            if isinstance(message, dict) and message.get("messageType") == "notification"
        ]


UNLIMITED = Settings(
    command="connection",
    store="postgresql://shared",  # what is opened is another store, but there may be other nodes
    endpoint_url=ENDPOINT,
    websocket_url=WEBSOCKET,
    sts_max_age=0,
    hello_timeout=0,
    new_user_agents_rate=None,
    message_rate=None,
    registration_rate=None,
    endpoint_rate=None,
    gone_rate=None,
    receipt_rate=None,
    log_check_rate=None,
    max_stored_messages=0,
    max_stored_bytes=0,
    max_connections_per_address=0,
    ami_id="ami-1",
    trusted_proxies=("127.0.0.1/32",),
)
"""Those of the tests: user agents and senders may ask as much as they like."""


class Harness:
    """One connection node, composed as in production, and what it needs."""

    engine: MemoryEngine
    store: PushStore
    io: IO
    parts: Parts
    nodes: RecordingNodes
    node: ConnectionNode

    def __init__(self) -> None:
        self.metrics = new_metrics()
        self.clock = ManualClock()
        self.loop = FakeLoop()
        self.wheel = TimerWheel(self.loop.loop)
        self.ids = IdFactory(self.clock)
        self.agents: list[UserAgent] = []
        self.chance = 0.5
        """How long random pauses are: from 0, the shortest, to 1."""
        self.others = False
        """Whether another service uses the store."""

    @classmethod
    async def open(
        cls,
        *,
        key_hash: str = "",
        broadcasts: Mapping[str, str] | None = None,
        read_accounts: Callable[[], Awaitable[Mapping[str, Account]]] | None = None,
        **options: Any,
    ) -> Self:
        """`options`: of the settings, in place of those of `UNLIMITED`."""
        harness = cls()
        harness.engine = MemoryEngine(harness.clock)
        harness.store = await PushStore.open(
            harness.engine,
            TablePlan(),
            key_hash=key_hash,
            clock=harness.clock,
            metrics=harness.metrics,
        )
        url, _, instance = NODE.rpartition("/i/")
        harness.io = IO(
            store=harness.store,
            metrics=harness.metrics,
            keys=ServiceKeys((new_key(),), ("auth-key",)),
            wheel=harness.wheel,
            clock=harness.clock,
            monotonic=harness.clock,
            uniform=lambda least, most: least + (most - least) * harness.chance,
            instance=instance,
            node_url=url,
            broadcasts=broadcasts or {},
            read_accounts=read_accounts,
            is_alone=lambda: not harness.others,
            make_nodes=RecordingNodes,
        )
        harness.parts = compose(replace(UNLIMITED, **options), harness.io)
        assert harness.parts.websockets is not None
        harness.node = harness.parts.websockets.node
        harness.nodes = cast(RecordingNodes, harness.parts.nodes)
        if harness.parts.accounts is not None:
            await harness.parts.accounts.load()
        return harness

    @property
    def registry(self) -> Registry:
        return self.parts.registry

    @property
    def ring(self) -> KeyRing:
        return self.parts.ring

    def status_pages(self, **options: Any) -> Dockerflow:
        """The status pages of a service of one worker, which serves."""
        self.metrics.gauge(WORKER_READY).set(1)
        self.metrics.gauge(WORKER_HEARTBEAT).set(self.clock())
        return Dockerflow(self.store, self.metrics.shared, clock=self.clock, **options)

    # ── user agents ─────────────────────────────────────────────────────────────────────────────

    def connect(
        self, user_agent: str = "", host: str = "", address: str = PEER, account: str = ""
    ) -> UserAgent:
        agent = UserAgent(self.node, self.loop, user_agent, host, address, account)
        self.agents.append(agent)
        return agent

    async def hello(self, uaid: str | None = UAID, **members: object) -> UserAgent:
        """A user agent whose hello was carried out; what it was sent is not read yet."""
        agent = self.connect()
        agent.hello(uaid, **members)
        await self.run_until_idle()
        return agent

    async def identified(self, uaid: str | None = None, **members: object) -> UserAgent:
        """A user agent that has received its hello reply, and has no stored messages."""
        agent = await self.hello(uaid, **members)
        reply = agent.reply()
        assert (reply["messageType"], reply["status"]) == ("hello", 200)
        return agent

    async def subscribed(self, **members: object) -> UserAgent:
        """A new user agent with one channel."""
        agent = await self.identified(None, **members)
        agent.register()
        await self.run_until_idle()
        assert agent.reply()["status"] == 200
        return agent

    # ── time ────────────────────────────────────────────────────────────────────────────────────

    async def run_until_idle(self) -> None:
        """Let the store answer, the sockets flow and what is due happen."""

        def flow() -> None:
            for agent in self.agents:
                agent.flow()

        await turns(TURNS, flow, self.loop.advance)

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.loop.advance(seconds)
        await self.run_until_idle()

    # ── what is stored ──────────────────────────────────────────────────────────────────────────

    async def known_user(self, *, node_id: str = OTHER_NODE, connected_at: int = 5) -> None:
        """Add a user with one channel that was connected to that node."""
        await self.store.users.create(UAID, node_id, connected_at, "message")
        await self.store.current.add_channel(UAID, CHANNEL)
        self.engine.calls.clear()

    async def bridged_user(
        self, router_type: str, router_data: Mapping[str, Value], uaid: str = UAID
    ) -> None:
        """Register a user behind a bridge, with one channel."""
        current = self.store.current
        assert await self.store.users.register(uaid, router_type, router_data, current.name)
        await current.add_channel(uaid, CHANNEL)

    def change_record(self, **attributes: str | int | None) -> None:
        """Change the router record in the table itself; None removes an attribute."""
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

    def stored_updates(self) -> dict[str, int]:
        """The stored versions of SimplePush, by channel."""
        table = self.engine.tables["storage"].items.values()
        return {
            str(row["chid"]): row["version"] for row in table if isinstance(row["version"], int)
        }

    async def store_message(
        self, uaid: str = UAID, *, ttl: int = 60, topic: str | None = None
    ) -> Notification:
        """A message that is stored without a notice to the node."""
        message = self.message(uaid, ttl=ttl, topic=topic)
        await self.store.current.store(message)
        message.stored = self.store.current.name
        return message

    async def read_from_storage(
        self, agent: UserAgent, *, topic: str | None = None
    ) -> tuple[Notification, dict[str, Any]]:
        """A message that is stored and then received by the user agent."""
        message = await self.store_message(agent.uaid, topic=topic)
        agent.connection.check_storage()
        await self.run_until_idle()
        return message, agent.reply()

    def message(
        self, uaid: str = UAID, *, ttl: int = 60, topic: str | None = None, channel: str = CHANNEL
    ) -> Notification:
        """A message as the endpoint makes it, with a new id."""
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
