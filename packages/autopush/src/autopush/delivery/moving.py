"""WebSockets that go on in another process, with no notice to their user agents.

A hello says which user agent it is: if another worker owns it, that one gets the socket with the
hello. An upgrade moves all WebSockets to the next version, with the states of their sessions.

    this process                                      the other
    stops reading, delivers nothing  ── Moved ──▶  goes on with it
    closes its descriptor            ◀── 200 ────
    goes on with it                  ◀── REFUSED, or no answer in time: it is not taken over later
    closes it, saves what is unacked ◀── REPLACED: the user agent has a newer connection there

Rule: a message that comes meanwhile is stored, and the other process reads storage then.
"""

import asyncio
import socket
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, Final, TypeVar, cast

import msgspec

from autopush.delivery.connected import ConnectedUser
from autopush.delivery.node import CLOSES, ConnectionNode
from autopush.delivery.user_agent import MovedUser, UserAgentConnection
from autopush.limits import HelloQueue
from autopush.net.http_messages import Request, Response
from autopush.net.siblings import (
    FRAMES,
    REFUSED,
    SUCCESSOR,
    CallTooLarge,
    SiblingError,
    SiblingRestarted,
    Siblings,
)
from autopush.protocol.effects import GOING_AWAY, NORMAL_CLOSURE, REPLACED, STOPPING
from autopush.telemetry import logs
from autopush.telemetry.logs import RepeatLimiter
from autopush.webpush.errors import Errno

FORMAT: Final = 1
"""Of `Moved`; another one is refused. It changes when a field gets another meaning."""
TAKEN: Final = 200
NEWER_CONNECTION: Final = 409
HELLOS_AT_ONCE: Final = 16
"""Connections on their way to one other worker with their hellos, while further ones wait here.
Pushes for its user agents come in the same order, so they wait for as many to be taken over.
"""
AT_ONCE: Final = 16
"""Connections that are sent to the next version in one turn of the loop."""
HAND_OVER_TIMEOUT: Final = 10.0
"""Seconds after the first attempts in which connections that are busy are tried again."""
RETRY_AFTER: Final = 0.1
ADMISSION: Final = "admission"
"""The port at which the next version is asked."""
STRANGER: Final = frozenset({401, 403})
"""Answers to one who has no account, or none that exists."""
ADMISSION_TIMEOUT: Final = 5.0
"""Seconds."""
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

    async def retire(self, node: ConnectionNode, seconds: float) -> None:
        """Move all connections to the next version; close in so many seconds what cannot move. No
        hello is answered here any more.
        """

        async def end(user: ConnectedUser) -> None:
            if await self._move_on(cast(UserAgentConnection, user)) is not Move.DONE:
                user.disconnect(GOING_AWAY, STOPPING)

        node.is_retiring = True
        sockets = cast(Mapping[UserAgentConnection, None], node.registry.sockets)
        # A stranger that is handed over before the answer is closed by the next version.
        await asyncio.gather(self._close_strangers(node), self._hand_over(sockets))
        for user in list(node.registry.sockets):
            if user.uaid is None:  # it has to say its hello to the next version
                user.disconnect(GOING_AWAY, STOPPING)
        await node.drain(seconds, end)

    async def _close_strangers(self, node: ConnectionNode) -> None:
        """Close what the next version does not admit, also what cannot be handed over to it."""
        by_account = defaultdict[str, list[UserAgentConnection]](list)
        for each in cast(Mapping[UserAgentConnection, None], node.registry.sockets):
            by_account[each.client.account].append(each)
        for account, connections in by_account.items():
            status = await self._ask_admission(account)
            if status is None:
                return
            for number, connection in enumerate(connections if status in STRANGER else (), 1):
                connection.disconnect(*CLOSES[status])
                if number % AT_ONCE == 0:
                    await asyncio.sleep(0)

    async def _ask_admission(self, account: str) -> int | None:
        """What the next version says to an account; None if it says nothing."""
        question = Request("GET", account, "", {}, "")
        with suppress(TimeoutError):  # an older version does not answer
            async with asyncio.timeout(ADMISSION_TIMEOUT):
                while not self._siblings.is_foreign(SUCCESSOR):
                    try:
                        return (await self._siblings.call(SUCCESSOR, ADMISSION, question)).status
                    except SiblingError:  # it was not heard yet, or stands still
                        await asyncio.sleep(RETRY_AFTER)
        return None

    async def _hand_over(self, connections: Mapping[UserAgentConnection, None]) -> None:
        """`connections`: of the node, among which others may still arrive."""
        loop = asyncio.get_running_loop()
        end, immovable = None, set[UserAgentConnection]()
        while waiting := [each for each in connections if each not in immovable]:
            if self._siblings.is_foreign(SUCCESSOR):
                _log.warning(
                    "The next version takes over no connections, since it knows another format",
                    frames=FRAMES,
                    connections=len(waiting),
                )
                return
            for first in range(0, len(waiting), AT_ONCE):
                batch = waiting[first : first + AT_ONCE]
                moves = await asyncio.gather(*map(self._move_on, batch))
                immovable.update(
                    each for each, move in zip(batch, moves, strict=True) if move is Move.NEVER
                )
            now = loop.time()
            if end is None:
                end = now + HAND_OVER_TIMEOUT
            if now + RETRY_AFTER > end:
                return
            await asyncio.sleep(RETRY_AFTER)

    def _move_on(self, connection: UserAgentConnection) -> "asyncio.Future[Move]":
        """To the next version. Cancelling the caller does not cancel the move."""
        return asyncio.shield(self._track(asyncio.ensure_future(self._move(SUCCESSOR, connection))))

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
            answer = await self._siblings.hand_over(to, leaving.descriptor, state)
        except CallTooLarge:
            return self._stay(connection, Move.LATER)
        except SiblingRestarted:  # it may have gone on with it
            connection.disconnect(GOING_AWAY, STOPPING)
            return Move.DONE
        except SiblingError:
            return self._stay(connection, Move.LATER)
        if answer.status == TAKEN:
            await connection.leave()
            return Move.DONE
        if answer.status == NEWER_CONNECTION:
            connection.disconnect(NORMAL_CLOSURE, REPLACED)
            return Move.DONE
        return self._stay(connection, Move.NEVER)

    def _stay(self, connection: UserAgentConnection, outcome: Move) -> Move:
        connection.stay()
        return outcome

    def _track(self, future: _Future) -> _Future:
        self._leaving.add(future)
        future.add_done_callback(self._leaving.discard)
        return future

    # ── arriving ─────────────────────────────────────────────────────────────────────────────────

    def adopt(self, node: ConnectionNode, sock: socket.socket, state: bytes) -> int:
        """Go on with a connection; returns the status to answer."""
        connection = None
        try:
            moved = msgspec.msgpack.decode(state, type=Moved)
            status = _refusal(node, moved)
            if status == TAKEN:
                connection = _arriving(node, moved)
        except (ValueError, LookupError) as error:
            if (count := self._lines.admit("state")) is not None:
                reason = type(error).__name__
                _log.warning("Connections of another version are refused", reason=reason, **count)
            status = REFUSED
        if connection is None:
            sock.close()
            return status
        arriving = asyncio.ensure_future(_arrive(connection, sock, moved))
        self._arriving.add(arriving)
        arriving.add_done_callback(self._arriving.discard)
        return TAKEN


def answer_admission(node: ConnectionNode, request: Request) -> Response:
    """Whether this version admits user agents of an account. `request`: its path is the account."""
    refusal = node.refuse_hello(request.path, "")
    return Response(refusal.status if refusal is not None else 200)


def _refusal(node: ConnectionNode, moved: Moved) -> int:
    """`TAKEN` if there is none."""
    user = moved.user
    is_known = moved.format == FORMAT and (user is None or user.node_id == node.nodes.own_id)
    if not is_known or node.is_stopping or (user is None and not node.is_accepting):
        return REFUSED
    refusal = node.refuse_hello(moved.account, moved.address_key)
    if refusal is not None and (moved.hello or refusal.errno == Errno.RETRY):
        return REFUSED  # who has admitted it may know accounts that were not read here yet
    if user is not None and node.registry.find(user.session.uaid) is not None:
        return NEWER_CONNECTION
    return TAKEN


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
