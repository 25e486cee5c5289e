"""The delivering half of a session: what is sent, what is acked, when storage is looked at, and
when the user moves to the message table of this month.

Rule: a message that was accepted stays in `sent` until the user agent acks it or the session ends;
whatever is in `sent` at the end is handed over in the `Farewell`, so nothing accepted is lost.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from autopush.protocol.actions import (
    Action,
    Again,
    Batch,
    Close,
    DropUser,
    Farewell,
    Forget,
    Later,
    MoveMonth,
    Row,
)
from autopush.protocol.drain import Drain
from autopush.protocol.in_flight import NOTHING, Sent, farewell, supersede, track, untrack
from autopush.protocol.rules import MOVING_PAUSE, NORMAL_CLOSURE, Rules
from autopush.protocol.states import GREETED_STATES, TRANSITIONS, Event, State
from autopush.webpush.notification import Notification


class Month(Enum):
    """Where the user's message table stands."""

    PRESENT = "it is this month's, or may stay what it is for now"
    PAST = "the user moves when storage is read to its end"
    READ = "the user moves when all that was sent is acked; nothing more is accepted"


class Delivery:
    """See the module. One object with the session, as there are many of them."""

    __slots__ = (
        "_drain",
        "_month",
        "_recheck",
        "_reset",
        "_rules",
        "channels",
        "output_paused",
        "sent",
        "state",
    )

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.state = State.CONNECTED
        self.channels: tuple[str, ...] | None = None
        """The subscriptions, None until they were read. A tuple, as most users have few."""
        self.sent: Mapping[str, Sent] = NOTHING
        """By version (message id)."""
        self.output_paused = False
        self._drain: Drain | None = None
        self._recheck = False
        self._reset = False
        self._month = Month.PRESENT

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
        """Whether nothing more should be sent: output is stuck, too much is unacked, or all must
        be.
        """
        return (
            self.output_paused
            or len(self.sent) >= self._rules.max_unacked
            or self._month is Month.READ
        )

    def check_storage(self) -> Sequence[Action]:
        """Look for stored messages now, or as soon as that is possible."""
        if self.state not in GREETED_STATES or self._drain is not None or self.busy:
            self._recheck = True
            return ()
        self._recheck = False
        self._drain = Drain()
        return self._next_page(self._drain)

    def move_later(self) -> Sequence[Action]:
        """The user's message table has grown old, and this connection with it."""
        return [Later(MOVING_PAUSE, Again.MOVING)] if self.state in GREETED_STATES else ()

    # ── from the socket ──────────────────────────────────────────────────────────────────────────

    def output_resumed(self) -> Sequence[Action]:
        """The socket takes data again."""
        self.output_paused = False
        return self._go_on()

    def drop(self, code: int, reason: str = "") -> Sequence[Action]:
        """The server wants this session to end (a newer connection, shutdown, a timeout)."""
        return self._drop(code, reason)

    def end(self) -> Farewell:
        """The socket is gone: what is left behind."""
        self._step(Event.GONE)
        self.state = State.CLOSED
        self._drain = None
        sent, self.sent = self.sent, NOTHING
        return farewell(sent)

    # ── acks and pages ────────────────────────────────────────────────────────────────────────────

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
            actions += self._go_on()
        elif not drain.waiting and not drain.reading:
            actions += self._next_page(drain)
        return actions

    def _next_page(self, drain: Drain) -> Sequence[Action]:
        question = drain.next_page()
        if question is not None:
            return [question]
        self._drain = None
        if self._reset:
            return self._reset_user()
        if self._month is Month.PAST:
            self._month = Month.READ
        return self._go_on()

    def _page_read(self, batch: Batch, now: float) -> Sequence[Action]:
        drain = self._drain
        if drain is None:
            return ()
        if batch.channels is not None:
            self.channels = tuple(batch.channels)
        page = drain.send(batch, self.sent, self.channels or (), now, self._rules.msg_limit)
        self.sent = page.in_flight
        if page.too_many:
            return [*page.actions, *self._reset_user()]
        return page.actions if drain.waiting else [*page.actions, *self._next_page(drain)]

    def _go_on(self) -> Sequence[Action]:
        """With what had to wait until the store, the user agent and the socket are done."""
        if self._drain is not None:
            return ()
        if self._month is Month.READ:
            return [MoveMonth()] if not self.sent and self._step(Event.MOVES) else ()
        return self.check_storage() if self._recheck and not self.busy else ()

    def _moved(self) -> Sequence[Action]:
        self._step(Event.MOVED)
        self._month = Month.PRESENT
        return self.check_storage()

    # ── transitions ──────────────────────────────────────────────────────────────────────────────

    def _step(self, event: Event) -> bool:
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            return False
        self.state = state
        return True

    def _reset_user(self) -> Sequence[Action]:
        """The next hello gets a new UAID."""
        return [DropUser(), *self._drop(NORMAL_CLOSURE)]

    def _drop(self, code: int, reason: str = "") -> Sequence[Action]:
        if self.state is State.CLOSED:
            return ()
        self._step(Event.DROPPED)
        return [Close(code, reason)]
