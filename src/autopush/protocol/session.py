"""The session of one user agent, without I/O: frames and answers go in, actions come out.

Rule: a message that was accepted stays in `sent` until the user agent acks it or the session ends;
whatever is in `sent` at the end is handed over in the `Farewell`, so nothing accepted is lost.

Each method returns the actions to carry out, in order. Times are epoch seconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import UNSET, Struct

from autopush.protocol import messages
from autopush.protocol.actions import (
    Action,
    Answer,
    Batch,
    Close,
    DropUser,
    Farewell,
    Forget,
    Greet,
    Greeting,
    Question,
    ReadStored,
    Row,
    Send,
    Subscribe,
    Unsubscribe,
)
from autopush.protocol.drain import Drain
from autopush.protocol.in_flight import NOTHING, Sent, farewell, supersede, track, untrack
from autopush.protocol.messages import ClientMessage
from autopush.protocol.states import GREETED_STATES, TRANSITIONS, Event, State
from autopush.webpush.endpoint_token import decode_key
from autopush.webpush.identifiers import canonical_uuid, is_channel_id, is_uaid
from autopush.webpush.notification import Notification

NORMAL_CLOSURE: Final = 1000
PROTOCOL_VIOLATION: Final = 1008
UNSUPPORTED_DATA: Final = 1003
INTERNAL_ERROR: Final = 1011
TRY_AGAIN_LATER: Final = 1013
PINGED_TOO_OFTEN: Final = 4774
"""Firefox stays away after this code until it has something new to register."""

_EVENTS: Final = {
    "hello": Event.HELLO,
    "ping": Event.PING,
    "register": Event.REGISTER,
    "unregister": Event.UNREGISTER,
    "ack": Event.ACK,
    "nack": Event.NACK,
    "broadcast_subscribe": Event.BROADCASTS,
    "urgency": Event.IGNORED,
}


class Rules(Struct, frozen=True):
    """What an operator may set about sessions. Counts of messages; seconds."""

    max_unacked: int = 128
    msg_limit: int = 100
    max_channels: int = 1000
    min_ping_gap: float = 55.0
    auto_ping_interval: float = 0.0
    env: str = "development"


class Session:
    """See the module. One instance per connection; an idle one holds a few hundred bytes."""

    __slots__ = (
        "_drain",
        "_last_ping",
        "_recheck",
        "_reset",
        "_rules",
        "_wanted_broadcasts",
        "channels",
        "connected_at",
        "output_paused",
        "sent",
        "state",
        "uaid",
    )

    def __init__(self, rules: Rules, connected_at: int) -> None:
        self._rules = rules
        self.state = State.CONNECTED
        self.uaid: str | None = None
        self.connected_at = connected_at
        self.channels: tuple[str, ...] | None = None
        """The subscriptions, None until they were read. A tuple, as most users have few."""
        self.sent: Mapping[str, Sent] = NOTHING
        """By version (message id)."""
        self.output_paused = False
        self._drain: Drain | None = None
        self._recheck = False
        self._reset = False
        self._last_ping = 0.0
        self._wanted_broadcasts: object = None

    # ── from the user agent ──────────────────────────────────────────────────────────────────────

    def receive(self, payload: bytes, now: float) -> Sequence[Action]:
        """One text frame."""
        try:
            message = messages.decode(payload)
        except messages.NotAMessageError as error:
            return self._drop(PROTOCOL_VIOLATION, str(error))
        event = self._event_of(message, payload)
        if not self._move(event):
            return self._drop(PROTOCOL_VIOLATION, self._complaint(event))
        match event:
            case Event.ACK:
                return self._ack(message.updates)
            case Event.HELLO:
                return self._hello(message)
            case Event.PING:
                return self._ping(now)
            case Event.REGISTER:
                return self._register(message)
            case Event.UNREGISTER:
                return self._unregister(message)
            case Event.BROADCASTS:
                reply = messages.broadcast(message.broadcasts)
                return [Send(reply)] if reply else ()
            case _:
                return ()

    def receive_binary(self) -> Sequence[Action]:
        """A binary frame: the protocol has none."""
        return self._drop(UNSUPPORTED_DATA, "text frames only")

    # ── from the router ──────────────────────────────────────────────────────────────────────────

    def accept(self, notification: Notification, row: Row | None) -> bool:
        """Take a notification for delivery; the caller then sends it.

        `row` is where it is stored, None if it is in no storage. False when busy: storage is looked
        at as soon as the user agent can take more.
        """
        if self.state not in GREETED_STATES or self.busy:
            self._recheck = True
            return False
        if notification.ttl or row is not None:
            if notification.topic is not None:
                supersede(self.sent, notification)
            unsaved = None if row else notification
            self.sent = track(
                self.sent,
                notification.version,
                Sent(notification.channel_id, unsaved, row, drained=False),
            )
        return True

    @property
    def busy(self) -> bool:
        """Whether nothing more should be sent: output is stuck or too much is unacked."""
        return self.output_paused or len(self.sent) >= self._rules.max_unacked

    def check_storage(self) -> Sequence[Action]:
        """Look for stored messages now, or as soon as that is possible."""
        if self.state not in GREETED_STATES or self._drain is not None or self.busy:
            self._recheck = True
            return ()
        self._recheck = False
        self._drain = Drain()
        return self._next_page(self._drain)

    # ── from the socket ──────────────────────────────────────────────────────────────────────────

    def output_resumed(self) -> Sequence[Action]:
        """The socket takes data again."""
        self.output_paused = False
        return self._recheck_if_free()

    def drop(self, code: int, reason: str = "") -> Sequence[Action]:
        """The server wants this session to end (a newer connection, shutdown, a timeout)."""
        return self._drop(code, reason)

    def end(self) -> Farewell:
        """The socket is gone: what is left behind."""
        self._move(Event.GONE)
        self.state = State.CLOSED
        self._drain = None
        sent, self.sent = self.sent, NOTHING
        return farewell(sent)

    # ── from the store ───────────────────────────────────────────────────────────────────────────

    def answer(self, question: Question, answer: Answer, now: float) -> Sequence[Action]:
        """The answer to a question asked before."""
        if self.state is State.CLOSED:
            return ()
        match question, answer:
            case Greet(), Greeting():
                return self._greeted(answer)
            case Subscribe(), str():
                self._move(Event.DONE)
                if self.channels is not None and question.channel_id not in self.channels:
                    self.channels += (question.channel_id,)
                return [Send(messages.registered(question.channel_id, answer))]
            case Unsubscribe(), None:
                self._move(Event.DONE)
                return self._unsubscribed(question)
            case ReadStored(), Batch():
                return self._page_read(answer, now)
            case _:
                raise TypeError(f"{answer!r} does not answer {question!r}")

    def fail(self, question: Question, *, overloaded: bool) -> Sequence[Action]:
        """The store could not answer: too much to do just now (`overloaded`) or an error."""
        if self.state is State.CLOSED:
            return ()
        match question:
            case Subscribe() | Unsubscribe():
                self._move(Event.FAILED)
                kind = "register" if isinstance(question, Subscribe) else "unregister"
                reason = "overloaded" if overloaded else "storage error"
                return [Send(messages.refused(kind, question.channel_id, 503, reason))]
            case _:
                # No hello reply: one without a UAID keeps Firefox from reconnecting by itself.
                return self._drop(TRY_AGAIN_LATER if overloaded else INTERNAL_ERROR, "try again")

    # ── hello ────────────────────────────────────────────────────────────────────────────────────

    def _hello(self, message: ClientMessage) -> Sequence[Action]:
        if self.state is State.ACTIVE and self.uaid is not None:
            return [Send(messages.duplicate_hello(self.uaid))]
        self._wanted_broadcasts = message.broadcasts
        return [Greet(message.uaid if is_uaid(message.uaid) else None)]

    def _greeted(self, greeting: Greeting) -> Sequence[Action]:
        self._move(Event.GREETED)
        self.uaid = greeting.uaid
        self.connected_at = greeting.connected_at
        self._reset = greeting.reset
        reply = messages.hello(
            greeting.uaid,
            env=self._rules.env,
            ping=self._rules.auto_ping_interval,
            broadcasts=self._wanted_broadcasts,
        )
        self._wanted_broadcasts = None
        if greeting.new:
            self.channels = ()
            return [Send(reply)]
        return [Send(reply), *self.check_storage()]

    # ── ping ─────────────────────────────────────────────────────────────────────────────────────

    def _ping(self, now: float) -> Sequence[Action]:
        if 0 <= now - self._last_ping < self._rules.min_ping_gap:
            return self._drop(PINGED_TOO_OFTEN, "")
        self._last_ping = now
        return [Send(messages.PONG)]

    # ── register, unregister ─────────────────────────────────────────────────────────────────────

    def _register(self, message: ClientMessage) -> Sequence[Action]:
        channel = message.channel_id
        if not is_channel_id(channel):
            reason = None if channel is UNSET else messages.INVALID_UUID
            if canonical_uuid(channel) is not None:
                reason = messages.BAD_UUID_FORMAT
            return self._refuse("register", channel, 401, reason)
        channels = self.channels or ()
        if len(channels) >= self._rules.max_channels and channel not in channels:
            return self._refuse("register", channel, 400, "too many channels")
        try:
            key = decode_key(message.key)
        except ValueError as error:
            return self._refuse("register", channel, 400, str(error))
        return [Subscribe(channel, key)]

    def _unregister(self, message: ClientMessage) -> Sequence[Action]:
        spelling = message.channel_id
        if spelling is UNSET:
            return self._refuse("unregister", None, 401, "Missing ChannelID")
        channel = canonical_uuid(spelling)
        if channel is None or not isinstance(spelling, str):
            return self._refuse("unregister", spelling, 401, "Invalid ChannelID")
        return [Unsubscribe(channel, spelling)]

    def _unsubscribed(self, question: Unsubscribe) -> Sequence[Action]:
        channel_id = question.channel_id
        if self.channels is not None:
            self.channels = tuple(other for other in self.channels if other != channel_id)
        gone = [version for version, sent in self.sent.items() if sent.channel_id == channel_id]
        return [Send(messages.unregistered(question.spelling)), *self._settle(gone)]

    def _refuse(
        self, kind: str, channel: object, status: int, reason: str | None
    ) -> Sequence[Action]:
        self._move(Event.FAILED)
        return [Send(messages.refused(kind, channel, status, reason))]

    # ── notifications ────────────────────────────────────────────────────────────────────────────

    def _ack(self, updates: object) -> Sequence[Action]:
        if not isinstance(updates, list):
            return ()
        acked: list[str] = []
        for update in updates:
            if not isinstance(update, dict):
                continue
            version = update.get("version")
            sent = self.sent.get(version) if isinstance(version, str) else None
            if sent is not None and sent.channel_id == update.get("channelID"):
                acked.append(str(version))
        return self._settle(acked)

    def _settle(self, versions: Iterable[str]) -> Sequence[Action]:
        """Take these out of what is on its way, delete their rows, and go on with what waited
        for them.
        """
        rows: list[Row] = []
        drain = self._drain
        for version in versions:
            sent = self.sent.get(version)
            if sent is None:
                continue
            self.sent = untrack(self.sent, version)
            if sent.row is not None:
                rows.append(sent.row)
            if drain is not None:
                drain.settled(version, of_page=sent.drained)
        actions: list[Action] = [Forget(rows)] if rows else []
        if drain is None:
            actions += self._recheck_if_free()
        elif not drain.waiting and not drain.reading:
            actions += self._next_page(drain)
        return actions

    def _recheck_if_free(self) -> Sequence[Action]:
        if self._recheck and not self.busy and self._drain is None:
            return self.check_storage()
        return ()

    def _next_page(self, drain: Drain) -> Sequence[Action]:
        question = drain.next_page()
        if question is not None:
            return [question]
        self._drain = None
        if self._reset:
            return [DropUser(), *self._drop(NORMAL_CLOSURE, "")]
        return self._recheck_if_free()

    def _page_read(self, batch: Batch, now: float) -> Sequence[Action]:
        drain = self._drain
        if drain is None:
            return ()
        settled = drain.page_read(batch)
        if batch.channels is not None:
            self.channels = tuple(batch.channels)
        channels = self.channels or ()
        actions: list[Action] = []
        dead: list[Row] = []
        for stored in batch.messages:
            notification = stored.notification
            known = self.sent.get(notification.version)
            if known is not None:
                # On its way already; from now on its ack deletes this row.
                known.row, known.notification = stored.row, None
                continue
            if notification.version in settled or drain.is_read(notification.sort_time):
                continue
            if notification.channel_id not in channels or notification.expired(now):
                dead.append(stored.row)
                continue
            if drain.waiting >= self._rules.msg_limit:
                return [*actions, DropUser(), *self._drop(NORMAL_CLOSURE, "")]
            self.sent = track(
                self.sent,
                notification.version,
                Sent(notification.channel_id, None, stored.row, drained=True),
            )
            drain.waiting += 1
            actions.append(Send(notification.to_client()))
        if dead:
            actions.append(Forget(dead))
        if not drain.waiting:
            actions += self._next_page(drain)
        return actions

    # ── transitions ──────────────────────────────────────────────────────────────────────────────

    def _event_of(self, message: ClientMessage, payload: bytes) -> Event:
        kind = message.message_type
        if isinstance(kind, str):
            return _EVENTS.get(kind, Event.NONSENSE)
        if kind is None and messages.is_empty(message, payload):
            return Event.PING
        return Event.NONSENSE

    def _move(self, event: Event) -> bool:
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            return False
        self.state = state
        return True

    def _complaint(self, event: Event) -> str:
        if self.state is State.CONNECTED:
            return "hello expected"
        return "unknown messageType" if event is Event.NONSENSE else "not now"

    def _drop(self, code: int, reason: str) -> Sequence[Action]:
        if self.state is State.CLOSED:
            return ()
        self._move(Event.DROPPED)
        return [Close(code, reason)]
