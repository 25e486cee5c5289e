"""The session of one user agent, without I/O: frames and store results go in, effects come out.

Each method returns the effects to carry out, in order (`effects.py`). Times are epoch seconds.

    called for                      methods
    a frame of the user agent       receive, receive_binary
    a message to be sent            accept, check_storage
    what a `StoreRequest` led to    on_result, on_refused, on_failure
    a timer                         on_timer, on_ping_due, on_hello_timeout
    the socket                      output_resumed, close, on_closed
    another process                 export, restore, restored, leave

`states.py` has the states and the transitions between them, `messages.py` the JSON, `drain.py` how
stored messages are read page by page, `simplepush.py` what differs for SimplePush.

Rule: an accepted message stays in `unacked` until it is acked or the session ends, and `on_closed`
returns what is left: nothing accepted is lost.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct

from autopush.protocol import messages, simplepush
from autopush.protocol.broadcasts import NO_BROADCASTS, Broadcasts
from autopush.protocol.drain import Drain, Unacked
from autopush.protocol.effects import (
    IDLE,
    INTERNAL_ERROR,
    NORMAL_CLOSURE,
    NOTHING_UNDELIVERED,
    PINGED_TOO_OFTEN,
    PROTOCOL_VIOLATION,
    REPLACED,
    TOO_OFTEN,
    TRY_AGAIN_LATER,
    UNSUPPORTED_DATA,
    USER_RESET,
    Ack,
    ChangeTable,
    CheckRecord,
    Close,
    DeleteMessages,
    DropReason,
    DropUser,
    Effect,
    Identified,
    Identify,
    ReadStored,
    ReportNack,
    ReportRetrieved,
    Send,
    SetTimer,
    SetUrgency,
    StoreFailure,
    StoreRequest,
    StoreResult,
    Subscribe,
    TimerReason,
    TooOften,
    Undelivered,
    Unsubscribe,
    UserChange,
)
from autopush.protocol.messages import ClientMessage
from autopush.protocol.session_state import (
    NOTHING_COUNTED,
    SessionCounts,
    SessionMetrics,
    SessionState,
    UnackedState,
)
from autopush.protocol.simplepush import SimplePushState
from autopush.protocol.states import IDENTIFIED_STATES, TRANSITIONS, Event, State, TableState
from autopush.shown import shown
from autopush.webpush.identifiers import (
    canonical_uuid,
    has_receipt,
    hash_secret,
    is_channel_id,
    is_uaid,
)
from autopush.webpush.notification import Notification, from_node, updates_message
from autopush.webpush.stored import ANY_CHANNEL, Row, StoredPage
from autopush.webpush.tokens import decode_key
from autopush.webpush.urgency import HIGHEST, LOWEST, is_below, known_urgency

CLOSE_DELAY: Final = (4.0, 8.0)
READ_RETRY_DELAY: Final = (5.0, 59.0)
TABLE_CHANGE_DELAY: Final = (1.0, 1799.0)
"""Seconds, at random, so that user agents refused by one overload do not all return at once."""

NACK_CODES: Final = (301, 302, 303)
"""The worker threw, its promise was rejected, or the user agent itself failed."""
UNREGISTER_CODES: Final = (200, 201, 202)
"""By the page or the user (also without a code), quota exceeded, permission revoked."""

_NONE_UNACKED: Final[dict[str, Unacked]] = {}
"""Shared by idle sessions; a session that sends makes its own."""


class SessionSettings(Struct, frozen=True):
    """Times in seconds, 0 for none where possible. `more_info`: the URL that explains refusals."""

    max_unacked: int = 128
    msg_limit: int = 100
    unacked_timeout: float = 30.0
    max_channels: int = 1000
    min_ping_gap: float = 55.0
    hello_timeout: float = 0.0
    auto_ping_interval: float = 0.0
    auto_ping_timeout: float = 4.0
    close_timeout: float = 10.0
    wake_timeout: float = 0.0
    simplepush: bool = True
    env: str = "development"
    more_info: str = ""


class Session:
    """One per connection; an idle one holds a few hundred bytes."""

    __slots__ = (
        "_broadcasts",
        "_is_timed",
        "_last_ping",
        "_recheck",
        "_settings",
        "_table",
        "channels",
        "connected_at",
        "counted_messages",
        "counts",
        "drain",
        "is_existing",
        "is_reset",
        "kind",
        "metrics",
        "min_urgency",
        "output_paused",
        "simplepush",
        "state",
        "uaid",
        "unacked",
    )

    def __init__(
        self,
        settings: SessionSettings,
        connected_at: int,
        metrics: SessionMetrics,
        kind: tuple[str, str, str],
        broadcasts: Broadcasts = NO_BROADCASTS,
    ) -> None:
        self._settings = settings
        self.state = State.CONNECTED
        self.uaid: str | None = None
        self.connected_at = connected_at
        """Milliseconds, as in the router record."""
        self.channels: tuple[str, ...] | None = None
        """The subscriptions, None until they were read. A tuple, as most users have few."""
        self.unacked = _NONE_UNACKED
        """By version (message id)."""
        self.simplepush: SimplePushState | None = None
        """None for Web Push."""
        self.is_existing: bool | None = None
        """Whether the user kept its UAID; None until the hello is answered."""
        self.is_reset = False
        """Whether the user gets a new UAID with its next hello."""
        self.min_urgency = LOWEST
        """Messages of a lower urgency are not sent: they wait in storage."""
        self.counts = NOTHING_COUNTED
        """Read-only, as it may be shared."""
        self.counted_messages = -1
        """Messages after the hello that acked nothing; the connection resets it to 0."""
        self.metrics = metrics
        self.kind = kind
        """The labels of most metrics: families of its system and browser, and `use_webpush`."""
        self.output_paused = False
        self.drain: Drain | None = None
        """While stored messages are read or wait for their acks."""
        self._is_timed = False
        """Whether the page that waits for its acks has a timer."""
        self._recheck = False
        """Whether storage has to be read when the user agent can take more."""
        self._table = TableState.CURRENT
        """Of which month the user's message table is, and whether it has been read to its end."""
        self._last_ping = 0.0
        self._broadcasts = broadcasts.no_subscriptions

    # --- from the user agent ----------------------------------------------------------------------

    def receive(self, payload: bytes, now: float) -> Sequence[Effect]:
        try:
            message = messages.decode(payload)
        except messages.NotAMessageError as error:
            return self.close(PROTOCOL_VIOLATION, str(error))
        event = messages.event_of(message, payload)
        if not self._step(event):
            return self.close(PROTOCOL_VIOLATION, self._complaint(event))
        if self.simplepush is not None:
            self.simplepush.last_message = now
        if event is Event.ACK:
            self.metrics.ack[self.kind].value += 1
            acked = self._acked(message.updates)
            if not acked:
                self.counted_messages += 1
            return self._complete(acked, self._own_counts(), message.updates)
        self.counted_messages += 1
        match event:
            case Event.HELLO:
                return self._hello(message, now)
            case Event.PING:
                return self._ping(now)
            case Event.REGISTER:
                return self._register(message)
            case Event.UNREGISTER:
                return self._unregister(message)
            case Event.NACK:
                return self._nack(message)
            case Event.BROADCASTS:
                return self._subscribe_to_broadcasts(message.broadcasts)
            case Event.URGENCY:
                return self._change_urgency(message)
            case _:
                return ()

    def receive_binary(self) -> Sequence[Effect]:
        return self.close(UNSUPPORTED_DATA, "text frames only")

    def _hello(self, message: ClientMessage, now: float) -> Sequence[Effect]:
        is_simplepush = simplepush.is_spoken(message)
        if self.state is State.ACTIVE and self.uaid is not None:
            is_simplepush = self.simplepush is not None
            more_info = self._settings.more_info
            reply = messages.duplicate_hello(self.uaid, more_info, is_simplepush=is_simplepush)
            return [Send(reply)]
        uaid = message.uaid if is_uaid(message.uaid) else None
        secret = message.secret
        secret_hash = hash_secret(secret) if isinstance(secret, str) else ""
        if not is_simplepush:
            identify = Identify(
                uaid,
                min_urgency=known_urgency(message.urgency),
                broadcasts=message.broadcasts,
                secret_hash=secret_hash,
                wants_secret=secret is True or bool(secret_hash),
            )
            return [identify]
        self._broadcasts = NO_BROADCASTS.no_subscriptions
        wake_data = simplepush.read_wake_data(message.wakeup_host, message.mobilenetwork)
        self.simplepush = SimplePushState(wake_data, now)
        self.kind = (*self.kind[:2], "False")
        if not self._settings.simplepush:
            refusal = self._refuse_hello(401, "Simplepush not supported")
            return [*refusal, *self.close(NORMAL_CLOSURE)]
        return [Identify(uaid, is_simplepush=True, wake_data=wake_data, secret_hash=secret_hash)]

    def _refuse_hello(self, status: int, reason: str) -> list[Effect]:
        """SimplePush only: after a reply without a UAID Firefox does not reconnect by itself."""
        if self.simplepush is None or self.state is not State.IDENTIFYING:
            return []
        return [Send(messages.refusal("hello", None, status, reason, self._settings.more_info))]

    def _ping(self, now: float) -> Sequence[Effect]:
        if 0 <= now - self._last_ping < self._settings.min_ping_gap:
            return self.close(PINGED_TOO_OFTEN, TOO_OFTEN)
        self._last_ping = now
        return [Send(messages.PONG), CheckRecord()]

    def _subscribe_to_broadcasts(self, wanted: object) -> Sequence[Effect]:
        self._broadcasts, news = self._broadcasts.add(wanted)
        return [Send(messages.broadcast(news))] if news else ()

    def _register(self, message: ClientMessage) -> Sequence[Effect]:
        channel, channels = message.channel_id, self.channels or ()
        if not is_channel_id(channel):
            reason = messages.MISSING_CHANNEL if channel is UNSET else messages.INVALID_UUID
            if canonical_uuid(channel) is not None:
                reason = messages.BAD_UUID_FORMAT
            return self._refuse("register", channel, 401, reason)
        if len(channels) >= self._settings.max_channels and channel not in channels:
            return self._refuse("register", channel, 400, "too many channels")
        wake_data = self.simplepush.wake_data if self.simplepush is not None else None
        try:
            return [Subscribe(channel, decode_key(message.key), wake_data)]
        except ValueError as error:
            return self._refuse("register", channel, 400, str(error))

    def _unregister(self, message: ClientMessage) -> Sequence[Effect]:
        spelling = message.channel_id
        if spelling is UNSET:
            return self._refuse("unregister", None, 401, messages.MISSING_CHANNEL)
        channel = canonical_uuid(spelling)
        if channel is None or not isinstance(spelling, str):
            return self._refuse("unregister", spelling, 401, "Invalid ChannelID")
        return [Unsubscribe(channel, spelling, messages.code_of(message))]

    def _change_urgency(self, message: ClientMessage) -> Sequence[Effect]:
        min_urgency = known_urgency(message.min)
        if self.simplepush is not None:
            return self._refuse("urgency", None, 400, messages.NO_URGENCY)
        if min_urgency is None:
            reason = f"{messages.INVALID_URGENCY}{shown(message.min)}"
            return self._refuse("urgency", None, 400, reason)
        request = SetUrgency(min_urgency)
        if min_urgency == self.min_urgency:
            return self._urgency_set(request, True, 0.0)
        return [request]

    def _refuse(
        self,
        message_type: str,
        channel: object,
        status: int,
        reason: str,
        retry_after: float | None = None,
    ) -> list[Effect]:
        self._step(Event.FAILED)
        page = self._settings.more_info
        return [Send(messages.refusal(message_type, channel, status, reason, page, retry_after))]

    def _nack(self, message: ClientMessage) -> Sequence[Effect]:
        """The notification still needs its ack."""
        version = messages.nacked(message)
        if version is None:
            return ()
        code, sent = messages.code_of(message), self.unacked.get(version)
        self._own_counts().nacks += 1
        self.metrics.nack[str(code) if code in NACK_CODES else "0"].add()
        return [ReportNack(version, sent.channel_id if sent is not None else None, code)]

    def _own_counts(self) -> SessionCounts:
        counts = self.counts
        if counts is NOTHING_COUNTED:
            counts = self.counts = SessionCounts()
        return counts

    def _acked(self, updates: object) -> list[str]:
        """Entries that name nothing unacked are skipped."""
        unacked = self.unacked
        if self.simplepush is not None:
            return simplepush.acked(unacked, updates)
        acked: list[str] = []
        for update in updates if isinstance(updates, list) else ():
            if (
                isinstance(update, dict)
                and isinstance(version := update.get("version"), str)
                and (sent := unacked.get(version)) is not None
                and sent.channel_id == update.get("channelID")
            ):
                code = update.get("code")
                if code in messages.UNUSABLE and isinstance(code, int) and version not in acked:
                    self.metrics.unusable[str(code)].add()
                acked.append(version)
        return acked

    def _complaint(self, event: Event) -> str:
        if self.state is State.CONNECTED:
            return "hello expected"
        return "unknown messageType" if event is Event.INVALID else "not now"

    # --- from the router --------------------------------------------------------------------------

    def accept(self, notification: Notification, row: Row | None) -> bool:
        """Take a notification, for the caller to send. `row`: where it is stored, or None.

        False when busy: storage is read as soon as the user agent can take more. Also False below
        `min_urgency`: storage is read when that falls.
        """
        if self.min_urgency != LOWEST:
            if is_below(notification.urgency, self.min_urgency):
                self.metrics.below_filter[notification.urgency].add()
                return False
            if notification.topic is not None and notification.ttl and row is None:
                return False  # to be stored: it replaces one that may wait there
        if self.state not in IDENTIFIED_STATES or self._is_busy:
            self._recheck = True
            return False
        ttl = notification.ttl
        if ttl or row is not None or notification.has_receipt:
            if notification.topic is not None:
                self._supersede(notification)
            if not self.unacked:
                self.unacked = {}
            self.unacked[notification.version] = Unacked(
                notification.channel_id,
                None if row or not ttl else notification,
                row,
                of_page=False,
            )
        else:
            self.counted_messages -= 1  # its ack will match nothing in `unacked`
        self._count_sent("Direct", notification)
        return True

    def _count_sent(self, source: str, notification: Notification) -> None:
        metrics, topic = self.metrics, "false"
        # The topic of SimplePush versions is only internal.
        if notification.topic is not None and self.simplepush is None:
            topic = "true"
        metrics.sent[source, topic, self.kind[0]].value += 1
        if notification.data is not None:
            metrics.data[source].value += len(notification.data)

    def is_outdated(self, update: Notification) -> bool:
        """Whether that version of its channel, or a newer one, is unacked (SimplePush)."""
        return simplepush.is_outdated(self.unacked, update)

    def check_storage(self, urgency: str = HIGHEST) -> Sequence[Effect]:
        """Read the stored messages now, or as soon as that is possible. `urgency`: the highest of
        those to be found; nothing is read if it is below `min_urgency`.
        """
        if is_below(urgency, self.min_urgency):
            return ()
        if self.state not in IDENTIFIED_STATES or self.drain is not None or self._is_busy:
            self._recheck = True
            return self._read_on(self.drain) if self.drain is not None else ()
        self._recheck = False
        self.drain = Drain()
        return self._next_page(self.drain)

    def schedule_table_change(self) -> Sequence[Effect]:
        """The user's message table has become old while it was connected."""
        if self.state not in IDENTIFIED_STATES:
            return ()
        return [SetTimer(TABLE_CHANGE_DELAY, TimerReason.ROTATE)]

    @property
    def _is_busy(self) -> bool:
        return (
            self.output_paused
            or len(self.unacked) >= self._settings.max_unacked
            or self._table is TableState.DRAINED
        )

    def _supersede(self, newer: Notification) -> None:
        """An unacked message of the same topic need not be saved any more."""
        for sent in self.unacked.values():
            older = sent.notification
            if older and (older.channel_id, older.topic) == (newer.channel_id, newer.topic):
                sent.notification = None

    # --- from the connection ----------------------------------------------------------------------

    def output_resumed(self) -> Sequence[Effect]:
        self.output_paused = False
        return self._continue()

    def on_ping_due(self) -> Sequence[Effect]:
        """The changed broadcasts, sent in place of a ping."""
        if self.output_paused:
            return ()
        self._broadcasts, news = self._broadcasts.take_changes()
        return [Send(messages.broadcast(news))] if news else ()

    def on_hello_timeout(self) -> Sequence[Effect]:
        """A hello that is waiting for the store by then came in time."""
        if self.state is State.CONNECTED:
            return self.close(PROTOCOL_VIOLATION, "no hello in time")
        if self.state is State.IDENTIFYING:
            return [SetTimer(CLOSE_DELAY, TimerReason.CLOSE)]
        return ()

    def on_timer(self, reason: TimerReason, now: float) -> Sequence[Effect]:
        if self.state is State.CLOSED:
            return ()
        match reason:
            case TimerReason.CLOSE:
                if self.state is not State.IDENTIFYING:
                    return ()  # the store has answered after all
                refusal = self._refuse_hello(503, "error - overloaded")
                return [*refusal, *self.close(TRY_AGAIN_LATER, "try again")]
            case TimerReason.IDLE:
                return self._on_idle(now)
            case TimerReason.RETRY_READ:
                request = self.drain.retry_read() if self.drain else None
                return [request] if request else ()
            case TimerReason.OVERDUE:
                if self.drain is None or not self._is_timed:
                    return ()  # of an earlier page
                self.drain.stop_waiting(self.unacked)
                return self._read_on(self.drain)
            case TimerReason.ROTATE:
                self._table = TableState.OLD
                return self.check_storage()

    def _on_idle(self, now: float) -> Sequence[Effect]:
        if self.simplepush is None or self.simplepush.wake_data is None:
            return ()
        left = self.simplepush.last_message + self._settings.wake_timeout - now
        if left <= 0:
            return self.close(IDLE, "UDP Idle")
        return [SetTimer((left, left), TimerReason.IDLE)]

    def close(self, code: int, reason: str = "") -> Sequence[Effect]:
        """End the session from the server's side (a newer connection, shutdown, a timeout)."""
        if self.state is State.CLOSED:
            return ()
        self._step(Event.DROPPED)
        return [Close(code, reason)]

    def on_closed(self) -> Undelivered:
        """Returns what was not delivered; a second call returns nothing."""
        self._step(Event.GONE)
        self.state = State.CLOSED
        self.drain = None
        if not self.unacked:
            return NOTHING_UNDELIVERED
        unacked, self.unacked = self.unacked.values(), _NONE_UNACKED
        for sent in unacked:
            sent.end()
        kept = [sent for sent in unacked if sent.notification or sent.row]
        return Undelivered(
            unsaved=[sent.notification for sent in kept if sent.notification],
            stored=[sent.row for sent in kept if sent.row],
            direct=sum(not sent.of_page for sent in kept),
        )

    # --- to another process -----------------------------------------------------------------------

    @property
    def is_at_rest(self) -> bool:
        """Whether it is active, and neither the store nor a sender waits for this process."""
        return (
            self.state is State.ACTIVE
            and not (self.drain is not None and self.drain.reading)
            and not any(sent.watchers for sent in self.unacked.values())
        )

    def export(self) -> SessionState | None:
        """The state for another process; None unless it is at rest."""
        if not self.is_at_rest:
            return None
        state = {name: getattr(self, slot) for name, slot in _EXPORTED.items()}
        state |= {"table": self._table.name, "broadcasts": self._broadcasts.versions()}
        state["unacked"] = {
            version: UnackedState(
                sent.channel_id,
                None if sent.notification is None else sent.notification.to_node(),
                sent.row,
                sent.of_page,
                sent.is_overdue,
            )
            for version, sent in self.unacked.items()
        }
        return SessionState(**state)

    def restore(self, state: SessionState, broadcasts: Broadcasts) -> None:
        """Go on where another process has exported; output is paused until `output_resumed`.

        :raises ValueError: the state is malformed
        :raises LookupError: it is of an unknown kind
        """
        for name, slot in _EXPORTED.items():
            setattr(self, slot, getattr(state, name))
        self.state, self.output_paused = State.ACTIVE, True
        self._table = TableState[state.table]
        self._broadcasts = broadcasts.restore(state.broadcasts)
        self.unacked = _NONE_UNACKED
        if state.unacked:
            self.unacked = {
                version: Unacked(
                    sent.channel_id,
                    None if sent.notification is None else from_node(state.uaid, sent.notification),
                    sent.row,
                    sent.of_page,
                    is_overdue=sent.is_overdue,
                )
                for version, sent in state.unacked.items()
            }
        if self.simplepush is not None:
            self.channels = ANY_CHANNEL
            self.kind = (*self.kind[:2], "False")
            self._broadcasts = NO_BROADCASTS.no_subscriptions

    def restored(self, now: float) -> Sequence[Effect]:
        """The connection of a restored session is ready."""
        idle = self._on_idle(now) if self._settings.wake_timeout else ()
        return [*idle, *self.output_resumed()]

    def leave(self) -> bool:
        """Another process has this session now; returns whether storage has to be read there."""
        self.state, self.drain, self.unacked = State.CLOSED, None, _NONE_UNACKED
        return self._recheck

    # --- from the store ---------------------------------------------------------------------------

    def on_result(self, request: StoreRequest, result: StoreResult, now: float) -> Sequence[Effect]:
        if self.state is State.CLOSED:
            return ()
        return _ON_RESULT[type(request)](self, request, result, now)

    def on_refused(self, request: UserChange, refusal: TooOften) -> Sequence[Effect]:
        """A rate limit refused the request."""
        reason, seconds = refusal.reason, refusal.retry_after
        return [*self._refuse(*_named(request), 429, reason, seconds), *self._continue()]

    def on_failure(self, request: StoreRequest, failure: StoreFailure) -> Sequence[Effect]:
        if self.state is State.CLOSED:
            return ()
        if failure is StoreFailure.TABLE_GONE:
            return self._reset_user(DropReason.NO_MESSAGE_TABLE)
        is_overload = failure is StoreFailure.OVERLOADED
        if isinstance(request, UserChange):
            reason = "overloaded" if is_overload else "storage error"
            return [*self._refuse(*_named(request), 503, reason), *self._continue()]
        if not is_overload:
            return [*self._refuse_hello(503, "error"), *self.close(INTERNAL_ERROR, "try again")]
        retry = SetTimer(*_RETRIES[type(request)])
        if not isinstance(request, ChangeTable):
            return [retry]
        self._step(Event.FAILED)
        self._table = TableState.CURRENT
        return [retry, *self._continue()]

    def _identified(self, request: Identify, result: Identified, now: float) -> Sequence[Effect]:
        self._step(Event.IDENTIFIED)
        uaid = "existing"
        if result.new:
            uaid = "new" if request.uaid is None else "reassigned"
        self.metrics.hello[*self.kind, uaid].value += 1
        self.uaid = result.uaid
        self.connected_at = result.connected_at
        self.is_existing, self.is_reset = not result.new, result.reset
        self._table = TableState.OLD if result.old_table else TableState.CURRENT
        self._broadcasts, news = self._broadcasts.add(request.broadcasts)
        self.min_urgency = request.min_urgency or result.min_urgency
        reply = messages.hello(
            result.uaid,
            env=self._settings.env,
            ping=self._settings.auto_ping_interval,
            broadcasts=news,
            min_urgency=self.min_urgency,
            secret=result.secret,
            is_simplepush=self.simplepush is not None,
        )
        effects: list[Effect] = [Send(reply)]
        if result.new:
            self.channels = ()
        if self.simplepush is not None:
            self.channels = ANY_CHANNEL
            if self._settings.wake_timeout:
                effects += self._on_idle(now)
        return effects if result.new else [*effects, *self.check_storage()]

    def _subscribed(self, request: Subscribe, endpoint: str, _now: float) -> Sequence[Effect]:
        self._step(Event.DONE)
        self._own_counts().registers += 1
        self.metrics.register[self.kind].value += 1
        channel_id = request.channel_id
        if self.channels is not None and channel_id not in self.channels:
            self.channels += (channel_id,)
        if self.drain is not None:
            self.drain.channel_changed(channel_id, is_subscribed=True)
        return [Send(messages.registered(channel_id, endpoint)), *self._continue()]

    def _unsubscribed(self, request: Unsubscribe, _result: None, _now: float) -> Sequence[Effect]:
        self._step(Event.DONE)
        self._own_counts().unregisters += 1
        code = UNREGISTER_CODES[0] if request.code is None else request.code
        self.metrics.unregister[*self.kind, str(code)].add()
        channel_id = request.channel_id
        if self.channels is not None and self.simplepush is None:
            self.channels = tuple(other for other in self.channels if other != channel_id)
        if self.drain is not None:
            self.drain.channel_changed(channel_id, is_subscribed=False)
        unacked = self.unacked.items()
        dropped = [version for version, sent in unacked if sent.channel_id == channel_id]
        return [Send(messages.unregistered(request.spelling)), *self._complete(dropped)]

    def _urgency_set(self, request: SetUrgency, is_newest: bool, _now: float) -> Sequence[Effect]:
        if not is_newest:
            return self.close(NORMAL_CLOSURE, REPLACED)
        self._step(Event.DONE)
        if is_below(request.min_urgency, self.min_urgency):
            self._recheck = True
        self.min_urgency = request.min_urgency
        return [Send(messages.URGENCY_SET), *self._continue()]

    def _table_changed(
        self, _request: ChangeTable, is_newest: bool, _now: float
    ) -> Sequence[Effect]:
        if not is_newest:
            return self.close(NORMAL_CLOSURE, REPLACED)
        self._step(Event.TABLE_CHANGED)
        self._table = TableState.CURRENT
        return self.check_storage()

    # --- stored messages and acks -----------------------------------------------------------------

    def _page_read(self, _request: ReadStored, page: StoredPage, now: float) -> Sequence[Effect]:
        drain = self.drain
        if drain is None:
            return ()
        if page.channels is not None:
            if self.channels is None:
                self.metrics.channel_count.observe(len(page.channels))
            self.channels = drain.channels_read(page.channels)
        unacked = self.unacked or {}
        channels: tuple[str, ...] = () if self.channels is None else self.channels
        limit = self._settings.msg_limit if self.simplepush is None else sys.maxsize
        room = self._settings.max_unacked - len(unacked) if self._has_overdue else sys.maxsize
        sending, dead = drain.send(page, unacked, channels, now, limit, self.min_urgency, room)
        self._is_timed = False
        self.unacked = unacked or _NONE_UNACKED
        effects = self._stored_frames(sending)
        if drain.too_many:
            return [*effects, *self._reset_user(DropReason.TOO_MANY_MESSAGES)]
        if dead:
            effects.append(DeleteMessages(dead))
        return [*effects, *self._read_on(drain)]

    def _stored_frames(self, sending: Sequence[Notification]) -> list[Effect]:
        if self.simplepush is not None:
            sending = simplepush.newest(self.unacked, sending)
        if not sending:
            return []
        self._own_counts().stored_retrieved += len(sending)
        for notification in sending:
            self._count_sent("Stored", notification)
        if self.simplepush is not None:
            return [Send(updates_message(sending))]
        effects: list[Effect] = [Send(notification.to_client()) for notification in sending]
        if versions := [each.version for each in sending if has_receipt(each.version)]:
            effects.append(ReportRetrieved(versions))
        return effects

    def _complete(
        self, versions: Iterable[str], acks: SessionCounts | None = None, updates: object = None
    ) -> Sequence[Effect]:
        """Remove messages from the unacked ones and delete their rows; then continue what waited
        for them. `acks`: where to count them if they were acked, by the member `updates`.
        """
        rows: list[Row] = []
        reported: list[str] = []
        drain = self.drain
        for version in versions:
            sent = self.unacked.pop(version, None)
            if sent is None:  # named twice
                continue
            if sent.row is not None:
                rows.append(sent.row)
            if acks is not None:
                sent.is_acked = True
                self.metrics.acked.value += 1
                if sent.notification is None and has_receipt(version):  # else it would be stored
                    reported.append(version)
                if sent.of_page:
                    acks.stored_acked += 1
                else:
                    acks.direct_acked += 1
            if sent.watchers is not None:
                sent.end()
            if drain is not None:
                drain.complete(version, sent)
        if not self.unacked:
            self.unacked = _NONE_UNACKED
        effects: list[Effect] = []
        if reported:
            acked = [Ack(*each) for each in messages.ack_codes(updates, reported)]
            effects.append(DeleteMessages(rows, acked))
        elif rows:
            effects.append(DeleteMessages(rows))
        effects += self._continue()
        return effects

    @property
    def _has_overdue(self) -> bool:
        return any(sent.is_overdue for sent in self.unacked.values())

    def _read_on(self, drain: Drain) -> Sequence[Effect]:
        """Read the next page, or set the timer that ends the wait for the acks of this one."""
        if drain.reading:
            return ()
        if not drain.waiting:
            return () if self._is_busy and self._has_overdue else self._next_page(drain)
        if self._is_timed or not (drain.has_more or self._recheck):
            return ()
        self._is_timed = True
        return [SetTimer((self._settings.unacked_timeout,) * 2, TimerReason.OVERDUE)]

    def _next_page(self, drain: Drain) -> Sequence[Effect]:
        request = drain.next_page()
        if request is not None:
            return [request]
        self.drain = None
        if self._leaves_table and not self._has_overdue:
            if self.is_reset:
                return self._reset_user(DropReason.OLD_RECORD_VERSION)
            self._table = TableState.DRAINED
        return self._continue()

    @property
    def _leaves_table(self) -> bool:
        """Whether the user is dropped or changes tables when all its stored messages are acked."""
        return self.is_reset or self._table is TableState.OLD

    def _continue(self) -> Sequence[Effect]:
        """Do what had to wait for the store, the acks or the socket."""
        if self.drain is not None:
            return self._read_on(self.drain)
        if self._table is TableState.DRAINED:
            if self.unacked or not self._step(Event.TABLE_DRAINED):
                return ()
            return [ChangeTable()]
        has_waited = self._recheck or (self._leaves_table and not self._has_overdue)
        return self.check_storage() if has_waited and not self._is_busy else ()

    def _reset_user(self, reason: DropReason) -> Sequence[Effect]:
        self.is_reset = True
        return [DropUser(reason), *self.close(NORMAL_CLOSURE, USER_RESET)]

    def _step(self, event: Event) -> bool:
        """Take the transition of that event; False when there is none from this state."""
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            return False
        self.state = state
        return True


_ON_RESULT: Final[Mapping[type, Callable[[Session, Any, Any, float], Sequence[Effect]]]] = {
    Identify: Session._identified,
    ReadStored: Session._page_read,
    Subscribe: Session._subscribed,
    Unsubscribe: Session._unsubscribed,
    SetUrgency: Session._urgency_set,
    ChangeTable: Session._table_changed,
}
_RETRIES: Final[Mapping[type, tuple[tuple[float, float], TimerReason]]] = {
    Identify: (CLOSE_DELAY, TimerReason.CLOSE),
    ReadStored: (READ_RETRY_DELAY, TimerReason.RETRY_READ),
    ChangeTable: (TABLE_CHANGE_DELAY, TimerReason.ROTATE),
}
"""What an overload of the store sets a timer for."""


def _named(request: UserChange) -> tuple[str, str | None]:
    """The message type of its answer, and the channel it names."""
    if isinstance(request, SetUrgency):
        return "urgency", None
    return "register" if isinstance(request, Subscribe) else "unregister", request.channel_id


_EXPORTED: Final = {
    name: name if name in Session.__slots__ else f"_{name}"
    for name in SessionState.__struct_fields__
}
"""The attribute of each field."""
