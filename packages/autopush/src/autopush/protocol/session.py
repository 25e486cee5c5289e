"""The session of one user agent, without I/O: frames and answers go in, actions come out.

Rule: what may happen when is asked of the table of transitions, and whatever a user agent sends has
its answer there; what is delivered to it, and when, is `Delivery`'s.

Each method returns the actions to carry out, in order. Times are epoch seconds.
"""

from collections.abc import Sequence

from autopush.protocol import messages
from autopush.protocol.actions import (
    Action,
    Again,
    Answer,
    Batch,
    Failure,
    Greet,
    Greeting,
    Later,
    MoveMonth,
    Question,
    ReadStored,
    Send,
    Subscribe,
    Unsubscribe,
)
from autopush.protocol.channels import subscribe, unanswered, unsubscribe
from autopush.protocol.delivery import Delivery, Month
from autopush.protocol.in_flight import named
from autopush.protocol.messages import ClientMessage
from autopush.protocol.rules import (
    INTERNAL_ERROR,
    LEAVING_PAUSE,
    MOVING_PAUSE,
    NORMAL_CLOSURE,
    PINGED_TOO_OFTEN,
    PROTOCOL_VIOLATION,
    READING_PAUSE,
    TRY_AGAIN_LATER,
    UNSUPPORTED_DATA,
    Rules,
)
from autopush.protocol.states import Event, State
from autopush.webpush.identifiers import is_uaid


class Session(Delivery):
    """See the module. One instance per connection; an idle one holds a few hundred bytes."""

    __slots__ = ("_last_ping", "_wanted_broadcasts", "connected_at", "uaid")

    def __init__(self, rules: Rules, connected_at: int) -> None:
        super().__init__(rules)
        self.uaid: str | None = None
        self.connected_at = connected_at
        self._last_ping = 0.0
        self._wanted_broadcasts: object = None

    # ── from the user agent ──────────────────────────────────────────────────────────────────────

    def receive(self, payload: bytes, now: float) -> Sequence[Action]:
        """One text frame."""
        try:
            message = messages.decode(payload)
        except messages.NotAMessageError as error:
            return self._drop(PROTOCOL_VIOLATION, str(error))
        event = messages.event_of(message, payload)
        if not self._step(event):
            return self._drop(PROTOCOL_VIOLATION, self._complaint(event))
        match event:
            case Event.ACK:
                return self._settle(named(self.sent, message.updates))
            case Event.HELLO:
                return self._hello(message)
            case Event.PING:
                return self._ping(now)
            case Event.REGISTER:
                known, most = self.channels or (), self._rules.max_channels
                return self._ask(subscribe(message, known, most))
            case Event.UNREGISTER:
                return self._ask(unsubscribe(message))
            case Event.BROADCASTS:
                reply = messages.broadcast(message.broadcasts)
                return [Send(reply)] if reply else ()
            case _:
                return ()

    def receive_binary(self) -> Sequence[Action]:
        """A binary frame: the protocol has none."""
        return self._drop(UNSUPPORTED_DATA, "text frames only")

    # ── from the store ───────────────────────────────────────────────────────────────────────────

    def answer(self, question: Question, answer: Answer, now: float) -> Sequence[Action]:
        """The answer to a question asked before."""
        if self.state is State.CLOSED:
            return ()
        match question, answer:
            case Greet(), Greeting():
                return self._greeted(answer)
            case Subscribe(), str():
                return self._subscribed(question, answer)
            case Unsubscribe(), None:
                return self._unsubscribed(question)
            case ReadStored(), Batch():
                return self._page_read(answer, now)
            case MoveMonth(), bool():
                return self._moved() if answer else self._drop(NORMAL_CLOSURE)
            case _:
                raise TypeError(f"{answer!r} does not answer {question!r}")

    def fail(self, question: Question, failure: Failure) -> Sequence[Action]:
        """The store could not answer."""
        if self.state is State.CLOSED:
            return ()
        overloaded = failure is Failure.OVERLOADED
        match question:
            case _ if failure is Failure.GONE:
                return self._reset_user()
            case Subscribe() | Unsubscribe():
                self._step(Event.FAILED)
                return [unanswered(question, overloaded=overloaded), *self._go_on()]
            case ReadStored() if overloaded:
                return [Later(READING_PAUSE, Again.READING)]
            case MoveMonth() if overloaded:
                self._step(Event.FAILED)
                self._month = Month.PRESENT
                return [Later(MOVING_PAUSE, Again.MOVING), *self._go_on()]
            case Greet() if overloaded:
                # No hello reply: one without a UAID keeps Firefox from reconnecting by itself.
                return [Later(LEAVING_PAUSE, Again.LEAVING)]
        return self._drop(INTERNAL_ERROR, "try again")

    def take_up(self, again: Again) -> Sequence[Action]:
        """The pause that a `Later` asked for is over."""
        if self.state is State.CLOSED:
            return ()
        match again:
            case Again.LEAVING:
                return self._drop(TRY_AGAIN_LATER, "try again")
            case Again.READING:
                question = self._drain.read_again() if self._drain else None
                return [question] if question else ()
            case Again.MOVING:
                self._month = Month.PAST
                return self.check_storage()

    # ── hello ────────────────────────────────────────────────────────────────────────────────────

    def _hello(self, message: ClientMessage) -> Sequence[Action]:
        if self.state is State.ACTIVE and self.uaid is not None:
            return [Send(messages.duplicate_hello(self.uaid))]
        self._wanted_broadcasts = message.broadcasts
        return [Greet(message.uaid if is_uaid(message.uaid) else None)]

    def _greeted(self, greeting: Greeting) -> Sequence[Action]:
        self._step(Event.GREETED)
        self.uaid = greeting.uaid
        self.connected_at = greeting.connected_at
        self._reset = greeting.reset
        self._month = Month.PAST if greeting.moves else Month.PRESENT
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
            return self._drop(PINGED_TOO_OFTEN)
        self._last_ping = now
        return [Send(messages.PONG)]

    # ── register, unregister ─────────────────────────────────────────────────────────────────────

    def _ask(self, action: Subscribe | Unsubscribe | Send) -> Sequence[Action]:
        if isinstance(action, Send):  # a refusal
            self._step(Event.FAILED)
        return [action]

    def _subscribed(self, question: Subscribe, endpoint: str) -> Sequence[Action]:
        self._step(Event.DONE)
        channel_id = question.channel_id
        if self.channels is not None and channel_id not in self.channels:
            self.channels += (channel_id,)
        return [Send(messages.registered(channel_id, endpoint)), *self._go_on()]

    def _unsubscribed(self, question: Unsubscribe) -> Sequence[Action]:
        self._step(Event.DONE)
        channel_id = question.channel_id
        if self.channels is not None:
            self.channels = tuple(other for other in self.channels if other != channel_id)
        gone = [version for version, sent in self.sent.items() if sent.channel_id == channel_id]
        return [Send(messages.unregistered(question.spelling)), *self._settle(gone)]

    def _complaint(self, event: Event) -> str:
        if self.state is State.CONNECTED:
            return "hello expected"
        return "unknown messageType" if event is Event.NONSENSE else "not now"
