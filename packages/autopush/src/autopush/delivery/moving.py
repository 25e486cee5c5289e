"""WebSockets that go on in another process, with no notice to their user agents.

A hello says which user agent it is: if another worker owns it, that one gets the socket with the
hello. An upgrade moves all WebSockets to the next version, with the states of their sessions
(`hand_over`).

    this process                                      the other
    stops reading, delivers nothing  ── Moved ──▶  goes on with it
    closes its descriptor            ◀── TAKEN ──
    goes on with it                  ◀── REFUSED, or no answer in time: it is not taken over later
    closes it, saves what is unacked ◀── REPLACED: the user agent has a newer connection there

Rule: a message that comes meanwhile is stored, and the other process reads storage then.
"""

import asyncio
import socket
from collections import defaultdict
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, TypeVar, cast

import msgspec

from autopush.delivery.node import ConnectionNode
from autopush.delivery.user_agent import MovedUser, UserAgentConnection
from autopush.limits import HelloQueue
from autopush.net.siblings import Adoption, SiblingError, SiblingRestarted, Siblings
from autopush.protocol.effects import GOING_AWAY, NORMAL_CLOSURE, REPLACED, STOPPING
from autopush.telemetry import logs
from autopush.telemetry.logs import RepeatLimiter
from autopush.webpush.errors import Errno

FORMAT: Final = 1
"""Of `Moved`; another one is refused. It changes when a field gets another meaning."""
HELLOS_AT_ONCE: Final = 16
"""Hellos being moved to one worker, while further ones wait here. Pushes for its user agents come
in the same order, so they wait for as many to be taken over.
"""
REFUSALS_INTERVAL: Final = 60.0
"""Seconds between log lines about refused connections."""

_Future = TypeVar("_Future", bound="asyncio.Future[Any]")

_log = logs.get(__name__)


class Moved(msgspec.Struct, array_like=True, frozen=True):
    """`user_agent`, `host`: headers of the upgrade. `account`: as of `Client`. `address_key`: of
    `ConnectionLimits`. `hello`: if it is to be handled there. `unread`: the input after that.
    `user`: None before the hello.
    """

    format: int
    user_agent: str
    host: str
    account: str
    address_key: str
    hello: bytes
    unread: bytes
    user: MovedUser | None = None


class Move(Enum):
    DONE = "the connection is not here any more"
    LATER = "it is here, and busy, or the other process is"
    NEVER = "it is here, and cannot be moved"


class Movers:
    """Sends connections to siblings, and takes over those that they send."""

    def __init__(self, siblings: Siblings) -> None:
        self._siblings = siblings
        self._hellos = defaultdict[int, HelloQueue](lambda: HelloQueue(most=HELLOS_AT_ONCE))
        """By the worker to which they move."""
        self._is_finishing = False
        self._leaving: set[asyncio.Future[Any]] = set()
        self._arriving: set[asyncio.Task[None]] = set()
        self._lines = RepeatLimiter(1, REFUSALS_INTERVAL)

    # ── leaving ──────────────────────────────────────────────────────────────────────────────────

    def move_with_hello(
        self, owner: int, connection: UserAgentConnection, hello: bytes, stay: Callable[[], None]
    ) -> None:
        """Move it to the worker that owns its user agent, when its turn has come; calls `stay` if
        it has to stay.
        """

        async def move() -> None:
            if await self._move(owner, connection, hello) is not Move.DONE:
                stay()

        def start() -> asyncio.Task[None] | None:
            if self._is_finishing or not connection.is_connected:
                return None  # it is closed, or is about to be
            return self._track(asyncio.create_task(move()))

        if not self._hellos[owner].add(connection.address_key, start):
            stay()

    def move(self, to: int, connection: UserAgentConnection) -> "asyncio.Future[Move]":
        """Move it to that sibling. Cancelling the caller does not cancel the move."""
        return asyncio.shield(self._track(asyncio.ensure_future(self._move(to, connection))))

    async def finish(self) -> None:
        """Begin no further ones, and wait for the moves under way; each takes as long as a call at
        most.
        """
        self._is_finishing = True
        if self._leaving:
            await asyncio.wait(self._leaving)

    async def _move(self, to: int, connection: UserAgentConnection, hello: bytes = b"") -> Move:
        if not connection.is_connected:
            return Move.DONE
        if not connection.can_move:
            return Move.NEVER
        leaving = await connection.begin_leaving(with_hello=bool(hello))
        if leaving is None:
            return Move.LATER
        client, user = connection.client, leaving.user
        moved = Moved(
            FORMAT,
            client.user_agent,
            client.host,
            client.account,
            connection.address_key,
            hello,
            leaving.unread,
            user,
        )
        try:
            state = msgspec.msgpack.encode(moved)
            adoption = await self._siblings[to].hand_over(leaving.descriptor, state)
        except SiblingRestarted:  # it may have gone on with it
            connection.disconnect(GOING_AWAY, STOPPING)
            return Move.DONE
        except SiblingError:
            connection.stay()
            return Move.LATER
        if adoption is Adoption.REFUSED:
            connection.stay()
            return Move.NEVER
        if adoption is Adoption.TAKEN:
            await connection.leave()
        else:
            connection.disconnect(NORMAL_CLOSURE, REPLACED)
        return Move.DONE

    def _track(self, future: _Future) -> _Future:
        self._leaving.add(future)
        future.add_done_callback(self._leaving.discard)
        return future

    # ── arriving ─────────────────────────────────────────────────────────────────────────────────

    def adopt(self, node: ConnectionNode, sock: socket.socket, state: bytes) -> Adoption:
        """Go on with a connection that a sibling sends."""
        connection = None
        try:
            moved = msgspec.msgpack.decode(state, type=Moved)
            adoption = _adoption(node, moved)
            if adoption is Adoption.TAKEN:
                connection = _arriving(node, moved)
        except (ValueError, LookupError) as error:
            if (count := self._lines.admit("state")) is not None:
                reason = type(error).__name__
                _log.warning("Connections of another version are refused", reason=reason, **count)
            adoption = Adoption.REFUSED
        if connection is None:
            sock.close()
            return adoption
        arriving = asyncio.ensure_future(_arrive(connection, sock, moved))
        self._arriving.add(arriving)
        arriving.add_done_callback(self._arriving.discard)
        return Adoption.TAKEN


def _adoption(node: ConnectionNode, moved: Moved) -> Adoption:
    user = moved.user
    is_known = moved.format == FORMAT and (user is None or user.node_id == node.nodes.own_id)
    if not is_known or node.is_stopping or (user is None and not node.is_accepting):
        return Adoption.REFUSED
    refusal = node.refuse_hello(moved.account, moved.address_key)
    if refusal is not None and (moved.hello or refusal.errno == Errno.RETRY):
        return Adoption.REFUSED  # who has admitted it may know accounts that were not read here yet
    if user is not None and node.registry.find(user.session.uaid) is not None:
        return Adoption.REPLACED
    return Adoption.TAKEN


def _arriving(node: ConnectionNode, moved: Moved) -> UserAgentConnection:
    """:raises LookupError: it has a state that is not known here"""
    client = node.clients.find(moved.user_agent, moved.host, moved.account)
    connection = UserAgentConnection(node, client, moved.address_key)
    if moved.user is not None:
        connection.restore(moved.user)
    node.connection_limits.take_over(moved.address_key)  # the connection releases it
    return connection


async def _arrive(connection: UserAgentConnection, sock: socket.socket, moved: Moved) -> None:
    arrival = _Arrival(connection, moved)
    try:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: arrival, sock)
    except OSError:
        sock.close()
        connection.lost_on_arrival()


class _Arrival(asyncio.Protocol):
    """Gives a connection its hello, and the rest that was read, before anything else is."""

    def __init__(self, connection: UserAgentConnection, moved: Moved) -> None:
        self._connection, self._moved = connection, moved

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection, moved = self._connection, self._moved
        if not connection.is_connected:  # its user agent has connected again meanwhile
            cast(asyncio.Transport, transport).abort()
            connection.lost_on_arrival()
            return
        cast(asyncio.Transport, transport).set_protocol(connection)
        connection.connection_made(transport)
        if moved.hello:
            connection.text_received(moved.hello)
        if moved.unread:
            connection.data_received(moved.unread)
