"""One user agent's socket: passes frames to its session and executes the session's effects.

Rule: everything runs in callbacks; a task exists only while the store is awaited. While the session
waits for the store (hello, register, table change), the socket is not read, so that messages take
effect in the order they were sent.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from msgspec import Struct

from autopush.delivery.node import CLOSES, ConnectionNode
from autopush.delivery.session_log import LOST, NO_CLOSE_FRAME, NO_PONG, Client, reason_of_client
from autopush.net.client_limits import BufferedBytes
from autopush.net.siblings import SUCCESSOR
from autopush.net.timers import Timer
from autopush.net.websocket import WebSocketProtocol
from autopush.protocol.drain import Unacked
from autopush.protocol.effects import (
    GOING_AWAY,
    PROTOCOL_VIOLATION,
    STOPPING,
    TOO_MANY_MESSAGES,
    ChangeTable,
    CheckRecord,
    Close,
    DeleteMessages,
    DropUser,
    Effect,
    Identify,
    ReadStored,
    ReportNack,
    ReportRetrieved,
    Send,
    SetTimer,
    StoreFailure,
    StoreRequest,
    StoreResult,
    Subscribe,
    TimerReason,
    Unsubscribe,
    UserChange,
)
from autopush.protocol.session import Session
from autopush.protocol.session_state import SessionState
from autopush.protocol.states import BLOCKED_STATES, State
from autopush.store.versions import UserMessages
from autopush.telemetry import logs
from autopush.webpush.notification import Notification
from autopush.webpush.stored import Row
from autopush.webpush.urgency import HIGHEST
from keytables import KeytablesError, TableNotFound, Throttled, Unavailable

MAX_CLOCK_SKEW: Final = 10.0
"""Seconds that another node's clock may be ahead of this one's."""

_log: Final = logs.get(__name__)


class MovedUser(Struct, array_like=True, frozen=True):
    """The user agent of a connection that goes on in another process. `node_id`: in its router
    record. `table`: name of its message table. `is_recorded`, `secret_hash`,
    `is_on_record`: see `ConnectedUser`.
    """

    node_id: str
    table: str
    is_recorded: bool
    session: SessionState
    secret_hash: str = ""
    is_on_record: bool = True


class Leaving(NamedTuple):
    """`unread`: input that was not handled. `user`: None before the reply to its hello."""

    descriptor: int
    unread: bytes
    user: MovedUser | None


class UserAgentConnection(WebSocketProtocol):
    """Implements `ConnectedUser`."""

    __slots__ = (
        "_is_detached",
        "_node",
        "_session_timers",
        "_timer",
        "account",
        "address_key",
        "client",
        "is_on_record",
        "is_recorded",
        "messages",
        "secret_hash",
        "session",
    )

    def __init__(self, node: ConnectionNode, client: Client, address_key: str) -> None:
        """`address_key`: as the `connection_limits` of the node admitted it."""
        super().__init__(node.wheel)
        self.address_key = address_key
        self.account = ""
        self.client = client
        self._node = node
        self._is_detached = False
        self._timer: Timer | None = None
        self._session_timers: tuple[tuple[TimerReason, Timer], ...] = ()
        connected_at = int(node.clock() * 1000)
        self.session = Session(
            node.session_settings, connected_at, node.session_metrics, client.kind, node.broadcasts
        )
        self.messages: UserMessages = node.store.current
        self.is_recorded = self.is_on_record = True
        self.secret_hash = ""

    @property
    def close_timeout(self) -> float:
        return self._node.session_settings.close_timeout

    @property
    def buffered(self) -> BufferedBytes:
        return self._node.buffered

    # --- socket events ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._node.registry.sockets[self] = None
        self._node.connections.value += 1
        if not self._open_account():
            return
        if self.uaid is not None:
            self._on_arrived()
        elif seconds := self._node.session_settings.hello_timeout:
            self._timer = self._node.wheel.after(seconds, self._on_hello_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._node.connection_limits.release(self.address_key)

    def text_received(self, payload: bytes) -> None:
        session = self.session
        effects = session.receive(payload, self._node.clock())
        if effects:  # an ack usually has none
            if isinstance(effects[0], Identify):
                self._identify(effects, effects[0].uaid, payload)
            else:
                self._carry_out(effects)
        if session.counted_messages >= self._node.limits.message_batch:
            self._count_messages()

    def frame_received(self) -> None:
        session = self.session
        session.counted_messages += 1
        if session.counted_messages >= self._node.limits.message_batch:
            self._count_messages()

    def binary_received(self) -> None:
        self._carry_out(self.session.receive_binary())

    def pong_received(self, payload: bytes) -> None:  # noqa: ARG002 - the base class's hook
        if self.uaid is not None:
            self._set_timer(self._node.session_settings.auto_ping_interval, self._ping)

    def output_paused(self) -> None:
        self.session.output_paused = True

    def output_resumed(self) -> None:
        self._carry_out(self.session.output_resumed())

    def connection_closed(self, code: int | None, reason: str) -> None:  # noqa: ARG002
        self._leave_node()
        code = NO_CLOSE_FRAME if code is None else code
        self._detach(reason_of_client(code), code)

    # --- moving to another process ----------------------------------------------------------------

    def _identify(self, effects: Sequence[Effect], uaid: str | None, hello: bytes) -> None:
        if (refusal := self._node.refuse_hello(self.account, self.address_key)) is not None:
            self.disconnect(*CLOSES[refusal.status])
            return
        stay: Callable[[], None] = partial(self._carry_out, effects)
        owner = None if uaid is None else self._node.placement.other_owner(uaid)
        if self._node.is_handing_over:  # the next version may not admit it
            owner, stay = SUCCESSOR, partial(self.disconnect, GOING_AWAY, STOPPING)
        if owner is None:
            stay()
        else:
            self.pause_reading()  # what follows the hello is handed over with it
            self._node.move_with_hello(owner, self, hello, stay)

    async def begin_leaving(self, *, with_hello: bool) -> Leaving | None:
        """Stop reading and delivering, for another process to go on; None if that has to wait.

        Then `leave`, or `stay` to go on here.
        """
        is_identified = not with_hello and self.session.state is not State.CONNECTED
        if is_identified and not (self._is_settled() and self.session.is_at_rest):
            return None
        self.session.output_paused = True  # a message is stored meanwhile
        if with_hello:
            self._close_account()  # the other worker counts it, or `stay`
        socket = await self.begin_move()
        user = self._export() if is_identified else None
        if socket is None or (is_identified and user is None):
            self.stay()
            return None
        return Leaving(*socket, user)

    def _is_settled(self) -> bool:
        """Whether it is the connection of its user here, and all its acks are stored."""
        registry, uaid = self._node.registry, self.uaid
        return (
            uaid is not None
            and registry.find(uaid) is self
            and not registry.acked.has_undeleted(uaid)
        )

    def _export(self) -> MovedUser | None:
        session = self.session.export() if self._is_settled() else None
        if session is None:
            return None
        return MovedUser(
            self._node.nodes.own_id,
            self.messages.name,
            self.is_recorded,
            session,
            self.secret_hash,
            self.is_on_record,
        )

    def stay(self) -> None:
        if self.is_connected and (self.account or self._open_account()):
            self.resume_reading()
            if self.writable:
                self._carry_out(self.session.output_resumed())

    async def leave(self) -> None:
        """The other process has the connection."""
        uaid = self.uaid
        self._is_detached = True
        self._cancel_timers()
        self._node.registry.release(self)
        has_missed = self.session.leave()
        if self.leave_socket():
            self._leave_node()
            self._node.connection_limits.release(self.address_key)
        if has_missed and uaid is not None:
            await self._node.nodes.check_storage(self._node.nodes.own_id, uaid)

    def restore(self, user: MovedUser) -> None:
        """Go on where another process has left, with the socket that comes next.

        :raises LookupError: the user has a table or a state that is not known here
        """
        node, uaid = self._node, user.session.uaid
        self.messages = node.store.known_table(user.table)
        self.session.restore(user.session, node.broadcasts)
        self.is_recorded, self.is_on_record = user.is_recorded, user.is_on_record
        self.secret_hash = user.secret_hash
        self.await_socket()
        node.registry.claim(uaid, self)
        node.registry.acked.forget()
        for sent in self.session.unacked.values():
            if sent.row is not None:  # the other process may have had to repeat the put
                self.messages.note_unsettled(uaid, sent.row)

    def _on_arrived(self) -> None:
        node = self._node
        # Those that arrive together need not all be sent a ping together.
        self._set_timer(node.uniform(0, node.session_settings.auto_ping_interval), self._ping)
        self._carry_out(self.session.restored(node.clock()))
        if node.store.is_expiring(self.messages):
            self.schedule_table_change()

    def lost_on_arrival(self) -> None:
        """It has no socket, or needs none any more."""
        self._detach(LOST, NO_CLOSE_FRAME)
        self._node.connection_limits.release(self.address_key)

    def _leave_node(self) -> None:
        self._node.registry.sockets.pop(self, None)
        self._node.connections.value -= 1
        self._close_account()

    def _open_account(self) -> bool:
        """Count this connection for its account; False, and it is closed, if it is not admitted."""
        refusal = self._node.open_account(self.client.account, self.address_key)
        if refusal is not None:
            self.disconnect(*CLOSES[refusal.status])
            return False
        self.account = self.client.account
        return True

    def _close_account(self) -> None:
        if self.account and self._node.accounts is not None:
            self._node.accounts.close(self.account)
        self.account = ""

    # --- ConnectedUser ----------------------------------------------------------------------------

    @property
    def uaid(self) -> str | None:
        return self.session.uaid

    @uaid.setter
    def uaid(self, uaid: str | None) -> None:
        self.session.uaid = uaid

    @property
    def connected_at(self) -> int:
        return self.session.connected_at

    @property
    def min_urgency(self) -> str:
        return self.session.min_urgency

    @property
    def is_connected(self) -> bool:
        return self.session.state is not State.CLOSED

    @property
    def is_active(self) -> bool:
        return self.session.state is State.ACTIVE

    @property
    def channels(self) -> frozenset[str]:
        return frozenset(self.session.channels or ())

    def is_subscribed(self, channel_id: str) -> bool:
        channels = self.session.channels
        return channels is not None and channel_id in channels

    @property
    def has_acked_all(self) -> bool:
        return not self.session.unacked and self.session.drain is None

    def deliver(self, notification: Notification, row: Row | None) -> bool:
        session = self.session
        if notification.version in session.unacked:
            return True  # sent already
        if session.simplepush is not None and session.is_outdated(notification):
            return True
        if not session.accept(notification, row):
            return False
        self.send_text(notification.to_client())
        if notification.has_receipt:
            self._node.background.report([notification.version], "transmitted")
        return True

    def in_flight(self, version: str) -> Unacked | None:
        return self.session.unacked.get(version)

    async def deliver_from_peer(self, notification: Notification, row: Row | None) -> bool:
        if row is not None:
            if notification.stored != self.messages.name:
                # The user has changed tables, or is about to: the node that stored it moves it.
                self.check_storage()
                return False
            if notification.unsettled:
                self.messages.note_unsettled(notification.uaid, row)
            if await self._is_acked(notification, row):
                return True
        return self.deliver(notification, row)

    async def _is_acked(self, notification: Notification, row: Row) -> bool:
        """Reads the store for topics, and messages from before this connection or the kept acks."""
        uaid, acked = notification.uaid, self._node.registry.acked
        if acked.was_acked(uaid, row):
            return True
        accepted_at = notification.timestamp - MAX_CLOCK_SKEW
        is_of_connection = row.update_id is None and accepted_at > self.connected_at / 1000
        if is_of_connection and acked.knows_all_since(accepted_at):
            return False
        is_stored = await self.messages.has(uaid, row)
        # It may have been acked and deleted since the store read it.
        return not is_stored or acked.was_acked(uaid, row)

    def check_storage(self, urgency: str = HIGHEST) -> bool:
        effects = self.session.check_storage(urgency)
        self._carry_out(effects)
        is_read = any(isinstance(effect, ReadStored) for effect in effects)
        if is_read:
            self._node.notification_checks.add()
        return is_read

    def schedule_table_change(self) -> None:
        self._carry_out(self.session.schedule_table_change())

    def disconnect(self, code: int, reason: str = "") -> None:
        self._carry_out(self.session.close(code, reason))

    # --- the session's effects --------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        """Store requests run in a task."""
        for request in self._carry_out_now(effects):
            if isinstance(request, UserChange) and self._is_refused(request):
                continue
            self._block_input_while_waiting()
            if not isinstance(request, Identify):
                asyncio.get_running_loop().create_task(self._execute(request))
            elif not self._node.limits.hellos.add(self.address_key, partial(self._start, request)):
                self._node.limits.count_late_hello(self.address_key)
                self._carry_out(self.session.on_failure(request, StoreFailure.OVERLOADED))

    def _start(self, hello: Identify) -> asyncio.Task[None] | None:
        if not self.is_connected:
            return None
        return asyncio.get_running_loop().create_task(self._execute(hello))

    def _carry_out_now(self, effects: Sequence[Effect]) -> list[StoreRequest]:
        """Returns the store requests, which are still to be executed."""
        requests: list[StoreRequest] = []
        texts: list[bytes] = []
        for effect in effects:
            if isinstance(effect, Send):
                texts.append(effect.payload)
                continue
            if texts:
                self.send_texts(texts)
                texts = []
            if isinstance(effect, StoreRequest):
                requests.append(effect)
            elif isinstance(effect, DeleteMessages):
                self._node.background.delete_acked(
                    self.messages, self._known_uaid, effect.rows, effect.acked
                )
            elif isinstance(effect, Close):
                self._detach(effect.reason, effect.code)
                self.close(effect.code, effect.reason)
            elif isinstance(effect, SetTimer):
                self._set_session_timer(effect)
            elif isinstance(effect, ReportNack):
                self._node.log.nacked(self._known_uaid, effect)
                if effect.channel_id is not None:
                    self._node.background.report([effect.version], "errored", code=effect.code)
            elif isinstance(effect, ReportRetrieved):
                self._node.background.report(effect.versions, "retrieved", "transmitted")
            elif isinstance(effect, CheckRecord):
                self._node.presence.check_soon(self)
            elif isinstance(effect, DropUser):
                self._node.log.dropped(self._known_uaid, effect.reason)
                self._node.drop_user(self)
        if texts:
            self.send_texts(texts)
        return requests

    async def _execute(self, first: StoreRequest) -> None:
        """Execute a request, and those that follow from its result."""
        requests = deque([first])
        while requests:
            request = requests.popleft()
            try:
                result = await self._node.requests.execute(self, request)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - each has its answer
                effects = self._on_failure(request, error)
            else:
                effects = self._on_result(request, result)
            requests += self._carry_out_now(effects)
            self._block_input_while_waiting()

    def _block_input_while_waiting(self) -> None:
        if self.session.state in BLOCKED_STATES:
            self.pause_reading()
        else:
            self.resume_reading()

    def _on_result(self, request: StoreRequest, result: StoreResult) -> Sequence[Effect]:
        effects = self.session.on_result(request, result, self._node.clock())
        if isinstance(request, Identify):
            self._set_timer(self._node.session_settings.auto_ping_interval, self._ping)
        elif effects and isinstance(request, Subscribe):
            self._node.log.registered(self._known_uaid, request.channel_id)
        elif effects and isinstance(request, Unsubscribe):
            self._node.log.unregistered(self._known_uaid, request)
        return effects  # none if the session has ended meanwhile

    def _on_failure(self, request: StoreRequest, error: BaseException) -> Sequence[Effect]:
        failure = StoreFailure.BROKEN
        # A table that may have been changed in the store is not known here: the next hello tells.
        may_be_changed = isinstance(error, Unavailable) and isinstance(request, ChangeTable)
        if isinstance(error, Throttled | Unavailable) and not may_be_changed:
            failure = StoreFailure.OVERLOADED
        elif isinstance(error, TableNotFound):
            failure = StoreFailure.TABLE_GONE
        elif not isinstance(error, KeytablesError | asyncio.CancelledError):  # cancelled: shutdown
            _log.error("Unexpected error", where=type(request).__name__, exc_info=error)
        return self.session.on_failure(request, failure)

    @property
    def _known_uaid(self) -> str:
        if self.session.uaid is None:
            raise RuntimeError("a session without UAID has nothing in storage")
        return self.session.uaid

    def _detach(self, reason: str, code: int) -> None:
        """Called as soon as the end is certain; only the first call counts."""
        if self._is_detached:
            return
        self._is_detached = True
        self._cancel_timers()
        self._node.registry.release(self)
        session = self.session
        undelivered = session.on_closed()
        if undelivered.unsaved or undelivered.stored:
            self._node.background.save_undelivered(
                self.messages, self._known_uaid, self.connected_at, undelivered
            )
        if session.is_existing is not None:
            # Negative when a clock was set back, here or on the node that had the user before.
            seconds = max(0.0, self._node.clock() - self.connected_at / 1000)
            session.metrics.lifespan[session.kind].observe(seconds)
            self._node.log.ended(
                session,
                self.client,
                seconds=seconds,
                direct_storage=undelivered.direct,
                reason=reason,
                code=code,
            )

    # --- limits -----------------------------------------------------------------------------------

    def _count_messages(self) -> None:
        self.session.counted_messages = 0
        if self._node.limits.admits_messages(self.uaid or id(self), self.address_key):
            return
        if self.is_connected:
            self.disconnect(PROTOCOL_VIOLATION, TOO_MANY_MESSAGES)
        else:
            self.abort()  # still sending after our close frame

    def _is_refused(self, request: UserChange) -> bool:
        refusal = self._node.limits.refuse_registration(
            self._known_uaid,
            self.address_key,
            is_new=isinstance(request, Subscribe) and not self.is_recorded,
        )
        if refusal is None:
            return False
        self._carry_out(self.session.on_refused(request, refusal))
        return True

    # --- timers -----------------------------------------------------------------------------------

    def _set_timer(self, seconds: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        is_wanted = seconds and self.is_connected
        self._timer = self._node.wheel.after(seconds, callback) if is_wanted else None

    def _cancel_timers(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _, timer in self._session_timers:
            timer.cancel()
        self._session_timers = ()

    def _set_session_timer(self, wanted: SetTimer) -> None:
        if self.session.state in BLOCKED_STATES:
            self.pause_reading()
        seconds = self._node.uniform(*wanted.between)
        others = []
        for reason, pending in self._session_timers:
            if reason is wanted.reason:
                pending.cancel()
            elif pending.pending:
                others.append((reason, pending))
        timer = self._node.wheel.after(seconds, self._on_session_timer, wanted)
        self._session_timers = (*others, (wanted.reason, timer))

    def _on_session_timer(self, wanted: SetTimer) -> None:
        self._carry_out(self.session.on_timer(wanted.reason, self._node.clock()))

    def _on_hello_timeout(self) -> None:
        if self.session.state is State.IDENTIFYING:  # others had their turns
            self._node.limits.count_late_hello(self.address_key)
        self._carry_out(self.session.on_hello_timeout())

    def _ping(self) -> None:
        if broadcasts := self.session.on_ping_due():
            self._carry_out(broadcasts)
            self._set_timer(self._node.session_settings.auto_ping_interval, self._ping)
            return
        self.ping()
        self._set_timer(self._node.session_settings.auto_ping_timeout, self._on_pong_timeout)

    def _on_pong_timeout(self) -> None:
        self._detach(NO_PONG, NO_CLOSE_FRAME)
        self.abort()
