"""The connection node: answers its sessions from the store and finishes what they leave behind.

Rule: a user agent stands in the registry before the router record names this node, and storage is
read after that, so that whoever looks for it meanwhile finds its place taken and nothing is missed.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from autopush.clock import Clock
from autopush.connection.jobs import Jobs
from autopush.connection.registry import Registry
from autopush.connection.user_agent import UserAgentConnection
from autopush.net.timers import TimerWheel
from autopush.protocol.actions import (
    Answer,
    Farewell,
    Greet,
    Greeting,
    Question,
    ReadStored,
    Row,
    Subscribe,
    Unsubscribe,
)
from autopush.protocol.session import Rules
from autopush.routing.nodes import Nodes
from autopush.store import PushStore, UserRecord
from autopush.store.messages import Messages
from autopush.store.users import RECORD_VERSION, WEBPUSH
from autopush.telemetry import logs
from autopush.webpush.endpoint_token import EndpointTokens
from autopush.webpush.identifiers import new_uaid
from autopush.webpush.notification import Notification
from tablestore import Throttled

SAVES_AT_ONCE: Final = 64
GREET_TRIES: Final = 3
CLOSINGS_AT_ONCE: Final = 200
CLOSING_PAUSE: Final = 0.02
GOING_AWAY: Final = 1001
NORMAL_CLOSURE: Final = 1000

_log = logs.get(__name__)


class ConnectionNode:
    """All user agents of one worker. `nodes.own_id` is what their router records name."""

    def __init__(
        self,
        *,
        store: PushStore,
        nodes: Nodes,
        registry: Registry,
        tokens: EndpointTokens,
        rules: Rules,
        wheel: TimerWheel,
        clock: Clock,
        hello_timeout: float,
        auto_ping_timeout: float,
        close_timeout: float,
        max_connections: int,
    ) -> None:
        self.store = store
        self.registry = registry
        self.rules = rules
        self.wheel = wheel
        self.clock = clock
        self.hello_timeout = hello_timeout
        self.auto_ping_timeout = auto_ping_timeout
        self.close_timeout = close_timeout
        self._max_connections = max_connections
        self._nodes = nodes
        self._tokens = tokens
        self._jobs = Jobs(wheel)
        self._saves = asyncio.Semaphore(SAVES_AT_ONCE)
        self._closing = False

    @property
    def accepting(self) -> bool:
        """Whether another socket is welcome."""
        limit = self._max_connections
        return not self._closing and (not limit or len(self.registry.sockets) < limit)

    # ── questions of sessions ────────────────────────────────────────────────────────────────────

    async def answer(self, connection: UserAgentConnection, question: Question) -> Answer:
        """What the session wants to know. Raises `TablestoreError` when the store cannot say."""
        match question:
            case ReadStored():
                uaid = connection.session.uaid or ""
                return await connection.messages.read(uaid, question.after)
            case Greet():
                return await self._greet(connection, question.uaid)
            case Subscribe():
                return await self._subscribe(connection, question)
            case Unsubscribe():
                uaid = connection.session.uaid or ""
                await connection.messages.remove_channel(uaid, question.channel_id)
                return None

    async def _greet(self, connection: UserAgentConnection, uaid: str | None) -> Greeting:
        record = await self._known(uaid) if uaid else None
        if record is None:
            connection.deferred = True
            uaid = new_uaid()
            self._take_place(connection, uaid)
            return Greeting(uaid, connection.connected_at, new=True)
        connection.messages = self.store.messages(record) or self.store.current
        self._take_place(connection, record.uaid)
        for _ in range(GREET_TRIES):
            if (
                not connection.here
            ):  # it left meanwhile: its successor's record is not ours to write
                break
            connected_at = max(connection.connected_at, record.connected_at + 1)
            replaced = await self.store.users.connect(record, self._nodes.own_id, connected_at)
            if replaced is not None:
                await self._end_duplicate(replaced)
                reset = record.record_version < RECORD_VERSION
                return Greeting(record.uaid, connected_at, new=False, reset=reset)
            record = await self.store.users.get(record.uaid) or record
        raise Throttled("the user connects in too many places at once")

    async def _known(self, uaid: str) -> UserRecord | None:
        record = await self.store.users.get(uaid)
        if record is None:
            return None
        if record.router_type != WEBPUSH or self.store.messages(record) is None:
            await self.store.drop_user(record)
            return None
        return record

    def _take_place(self, connection: UserAgentConnection, uaid: str) -> None:
        connection.session.uaid = uaid
        if not connection.here:
            return
        previous = self.registry.claim(uaid, connection)
        if previous is not None:
            previous.leave(NORMAL_CLOSURE)

    async def _end_duplicate(self, record: UserRecord) -> None:
        """Let the node on record finish with the user agent before storage is read here."""
        if record.node_id is not None and record.node_id != self._nodes.own_id:
            await self._nodes.end_duplicate(record.node_id, record.uaid, record.connected_at)

    async def _subscribe(self, connection: UserAgentConnection, question: Subscribe) -> str:
        uaid = connection.session.uaid or ""
        endpoint = self._tokens.url(uaid, question.channel_id, question.key)
        added = connection.messages.add_channel(uaid, question.channel_id)
        if connection.deferred:
            created = self.store.users.create(
                uaid, self._nodes.own_id, connection.connected_at, connection.messages.name
            )
            await asyncio.gather(added, created)
            connection.deferred = False
        else:
            await added
        return endpoint

    # ── jobs nobody waits for ────────────────────────────────────────────────────────────────────

    def forget(self, messages: Messages, uaid: str, rows: Sequence[Row]) -> None:
        """Delete acked rows."""
        self._jobs.start(partial(messages.forget, uaid, rows))

    def drop_user(self, messages: Messages, uaid: str) -> None:
        """Forget the user; its next hello gets a new UAID."""
        self._jobs.start(partial(self.store.users.drop, uaid))
        self._jobs.start(partial(messages.drop_channels, uaid))

    def hand_on(self, messages: Messages, uaid: str, connected_at: int, farewell: Farewell) -> None:
        """Save what was accepted and not acked, then tell the node that has the user by now."""
        unsaved = list(farewell.unsaved)
        self._jobs.start(partial(self._hand_on, messages, uaid, connected_at, unsaved))

    async def _hand_on(
        self, messages: Messages, uaid: str, connected_at: int, unsaved: list[Notification]
    ) -> None:
        async with self._saves:
            saves = (messages.save(lost) for lost in unsaved)
            outcomes = await asyncio.gather(*saves, return_exceptions=True)
        # Another try saves only what failed: the rest may have been delivered and acked by then.
        unsaved[:] = [lost for lost, error in zip(unsaved, outcomes, strict=True) if error]
        for error in filter(None, outcomes):
            raise error
        record = await self.store.users.get(uaid)
        if record is None or record.node_id is None or record.connected_at == connected_at:
            return
        await self._nodes.check(record.node_id, uaid)

    def on_crash(self, error: BaseException, where: str) -> None:
        """Report an error that should not happen; whoever caused it was answered already."""
        _log.error("Unexpected error", where=where, exc_info=error)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    async def shutdown(self, seconds: float) -> None:
        """Close every socket with 1001, a few at a time, and wait until what they leave is safe."""
        self._closing = True
        deadline = asyncio.get_running_loop().time() + seconds
        for number, connection in enumerate(list(self.registry.sockets), 1):
            connection.leave(GOING_AWAY, "going away")
            if number % CLOSINGS_AT_ONCE == 0:
                await asyncio.sleep(CLOSING_PAUSE)
        await self._jobs.finished(deadline - asyncio.get_running_loop().time())
        for connection in list(self.registry.sockets):
            connection.abort()
