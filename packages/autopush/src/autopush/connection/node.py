"""The connection node: answers its sessions from the store and finishes what they leave behind.

Rule: a user agent stands in the registry before the router record names this node, and storage is
read after that, so that whoever looks for it meanwhile finds its place taken and nothing is missed.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from autopush.clock import Clock
from autopush.connection.acked import Acked, without
from autopush.connection.greeter import Greeter
from autopush.connection.jobs import Jobs
from autopush.connection.legacy import Legacy
from autopush.connection.registry import Registry
from autopush.connection.user_agent import UserAgentConnection
from autopush.net.timers import TimerWheel
from autopush.protocol.actions import (
    Answer,
    Farewell,
    Greet,
    MoveMonth,
    Question,
    ReadStored,
    Row,
    Subscribe,
    Unsubscribe,
)
from autopush.protocol.rules import Rules
from autopush.routing.nodes import Nodes
from autopush.store import PushStore, UserRecord
from autopush.store.messages import Messages
from autopush.store.rotation import move_late_messages, move_user
from autopush.store.users import WEBPUSH
from autopush.telemetry import logs
from autopush.webpush.endpoint_token import EndpointTokens
from keytables import TableNotFound, Throttled, Unavailable

SAVES_AT_ONCE: Final = 64
NOTED_WITHIN: Final = 3600.0
LOOKED_AT_ONCE: Final = 250
CLOSINGS_AT_ONCE: Final = 200
CLOSING_PAUSE: Final = 0.02
GOING_AWAY: Final = 1001

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
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.store = store
        self.registry = registry
        self.rules = rules
        self.wheel = wheel
        self.clock = clock
        self.hello_timeout = hello_timeout
        self.auto_ping_timeout = auto_ping_timeout
        self.close_timeout = close_timeout
        self.uniform = uniform
        self._max_connections = max_connections
        self._nodes = nodes
        self._tokens = tokens
        self.acked = Acked()
        self._greeter = Greeter(store, nodes, registry, self.acked)
        self._jobs = Jobs(wheel)
        self._saves = asyncio.Semaphore(SAVES_AT_ONCE)
        self._closing = False
        store.on_month_change(self._month_nears)

    @property
    def accepting(self) -> bool:
        """Whether another socket is welcome."""
        limit = self._max_connections
        return not self._closing and (not limit or len(self.registry.sockets) < limit)

    # ── questions of sessions ────────────────────────────────────────────────────────────────────

    async def answer(self, connection: UserAgentConnection, question: Question) -> Answer:
        """What the session wants to know.

        :raises TableNotFound: the user's message table is not there any more
        :raises KeytablesError: the store cannot say
        """
        try:
            return await self._answer(connection, question)
        except TableNotFound as error:
            if error.table == connection.messages.name and await self.store.is_gone(error.table):
                raise
            raise Unavailable(str(error)) from error

    async def _answer(self, connection: UserAgentConnection, question: Question) -> Answer:
        match question:
            case ReadStored():
                uaid = connection.session.uaid or ""
                acked = self.acked.of(uaid)
                return without(await connection.messages.read(uaid, question.after), acked)
            case Greet():
                return await self._greeter.greet(connection, question.uaid)
            case Subscribe():
                return await self._subscribe(connection, question)
            case Unsubscribe():
                uaid = connection.session.uaid or ""
                await connection.messages.remove_channel(uaid, question.channel_id)
                return None
            case MoveMonth():
                return await self._move(connection)

    async def _move(self, connection: UserAgentConnection) -> bool:
        uaid, old = connection.session.uaid or "", connection.messages
        if not self.store.is_behind(old):
            return True
        new = await move_user(
            self.store,
            uaid,
            old,
            node_id=self._nodes.own_id,
            connected_at=connection.connected_at,
        )
        if new is None:
            return False
        connection.messages = new
        try:
            await move_late_messages(uaid, old, new, self.acked.of(uaid))
        except Throttled as error:
            # There is no way back to the old table, and the new one is not read before this is
            # done: the next connection does it first of all.
            raise Unavailable(str(error)) from error
        return True

    async def _subscribe(self, connection: UserAgentConnection, question: Subscribe) -> str:
        uaid = connection.session.uaid or ""
        endpoint = self._tokens.url(uaid, question.channel_id, question.key)
        if connection.deferred:  # it may have been silent for months
            connection.messages = self.store.current
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
        self.acked.add(uaid, rows)
        deleting = partial(messages.delete_all, uaid, rows)
        self._jobs.start(deleting, over=partial(self.acked.over, uaid, rows))

    def drop_user(self, messages: Messages, uaid: str, connected_at: int) -> None:
        """Forget the user, unless it has gone to another connection; its next hello gets a new
        UAID.
        """
        record = UserRecord(uaid, WEBPUSH, connected_at, current_month=messages.name)
        self._jobs.start(partial(self.store.drop_user, record))

    def hand_on(self, messages: Messages, uaid: str, connected_at: int, farewell: Farewell) -> None:
        """Save what was accepted and not acked, then tell the node that has the user by now."""
        legacy = Legacy(self.store, self._nodes, messages, uaid, connected_at, farewell)
        self._jobs.start(partial(legacy.hand_on, self._saves))

    def on_crash(self, error: BaseException, where: str) -> None:
        """Report an error that should not happen; whoever caused it was answered already."""
        _log.error("Unexpected error", where=where, exc_info=error)

    # ── the month ────────────────────────────────────────────────────────────────────────────────

    async def _month_nears(self) -> None:
        """User agents are noted, and moved, when they connect. One that has not done so for a whole
        month is now, before it or its message table may be dropped.
        """
        for number, connection in enumerate(list(self.registry.sockets), 1):
            greeted = connection.session.uaid is not None and not connection.deferred
            if greeted and self.store.is_expiring(connection.messages):
                connection.move_later()
            elif greeted and self.store.is_stale(connection.connected_at):
                self.wheel.after(self.uniform(0, NOTED_WITHIN), self._still_here, connection)
            if number % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _still_here(self, connection: UserAgentConnection) -> None:
        uaid = connection.session.uaid
        if connection.here and uaid is not None:
            note = partial(
                self.store.users.refresh_last_connect,
                uaid,
                self._nodes.own_id,
                connection.connected_at,
            )
            self._jobs.start(note)

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
