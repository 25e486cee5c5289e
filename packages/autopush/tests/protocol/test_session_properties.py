"""A session against a model of storage and user agent: nothing lost, nothing twice.

Months turn, the store is overloaded now and then, and output is stuck; storage is one table for
each month, and the user has one of them.
"""

import json
from collections import defaultdict
from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from autopush.protocol.actions import (
    Action,
    Again,
    Batch,
    Close,
    DropUser,
    Failure,
    Forget,
    Greeting,
    Later,
    MoveMonth,
    ReadStored,
    Row,
    Send,
    StoredMessage,
)
from autopush.protocol.rules import Rules
from autopush.protocol.session import Session
from autopush.protocol.states import TRANSITIONS, Event, State
from autopush.webpush.notification import Notification
from support.soak import times

UAID = "0" * 32
CHANNEL = "11111111-2222-3333-4444-555555555555"
NOW = 1_800_000_000.0
PAGE = 3


class SessionMachine(RuleBasedStateMachine):
    """Senders, storage and a user agent around one session after another."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.tables: defaultdict[int, dict[str, Notification]] = defaultdict(dict)
        self.this_month = self.users_month = 0
        self.accepted: set[str] = set()
        self.acked: set[str] = set()
        self.held: list[str] = []
        self.questions: list[ReadStored | MoveMonth] = []
        self.pauses: list[Again] = []

    @initialize(max_unacked=st.integers(1, 6))
    def connect(self, max_unacked: int) -> None:
        self.session_rules = Rules(max_unacked=max_unacked)
        self._open()

    @property
    def rows(self) -> dict[str, Notification]:
        """The table the user has."""
        return self.tables[self.users_month]

    def _open(self) -> None:
        self.session = Session(self.session_rules, connected_at=1)
        self.held = []
        self.seen: set[str] = set()
        self.questions = []
        self.pauses = []
        (question,) = self.session.receive(b'{"messageType":"hello"}', NOW)
        moves = self.users_month < self.this_month
        answer = Greeting(UAID, 1, new=False, moves=moves)
        self._do(self.session.answer(question, answer, NOW))  # type: ignore[arg-type]

    def _do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Send():
                    text = json.loads(action.payload)
                    if text["messageType"] == "notification":
                        self._receive(text["version"])
                case Forget():
                    for row in action.rows:
                        del self.rows[row.sort_key]
                case ReadStored() | MoveMonth():
                    self.questions.append(action)
                case Later():
                    self.pauses.append(action.again)
                case Close() | DropUser():
                    raise AssertionError("a well-behaved user agent was closed")

    def _receive(self, version: str) -> None:
        assert version not in self.seen, "sent twice on one connection"
        assert version not in self.acked, "sent again after its ack"
        assert self.session.state is not State.MOVING, "sent between two months"
        self.seen.add(version)
        self.held.append(version)

    def _message(self) -> Notification:
        self.number += 1
        return Notification(
            uaid=UAID,
            channel_id=CHANNEL,
            version=f"v{self.number}",
            ttl=60,
            timestamp=int(NOW),
            sort_time=1_000_000 + self.number,
        )

    @rule(store_first=st.booleans())
    def push(self, store_first: bool) -> None:
        notification = self._message()
        self.accepted.add(notification.version)
        row = Row(notification.sort_key, None)
        if store_first:
            self.rows[row.sort_key] = notification
        if self.session.accept(notification, row if store_first else None):
            self._receive(notification.version)
        else:
            self.rows[row.sort_key] = notification

    @rule()
    def push_through_another_node(self) -> None:
        notification = self._message()
        self.accepted.add(notification.version)
        self.rows[notification.sort_key] = notification
        self._do(self.session.check_storage())

    @precondition(lambda self: self.questions)
    @rule()
    def storage_answers(self) -> None:
        question = self.questions.pop(0)
        if isinstance(question, MoveMonth):
            assert not self.session.sent, "left with messages on their way"
            left = self.tables.pop(self.users_month, {})
            self.users_month = self.this_month
            self.rows.update(left)
            self._do(self.session.answer(question, True, NOW))
            return
        after = question.after or ""
        keys = sorted(key for key in self.rows if key > after)
        page = keys[:PAGE]
        messages = [StoredMessage(Row(key, None), self.rows[key]) for key in page]
        last = page[-1] if len(keys) > PAGE else None
        channels = frozenset({CHANNEL}) if question.after is None else None
        self._do(self.session.answer(question, Batch(messages, last, channels), NOW))

    @precondition(lambda self: self.questions)
    @rule()
    def storage_is_overloaded(self) -> None:
        self._do(self.session.fail(self.questions.pop(0), Failure.OVERLOADED))

    @precondition(lambda self: self.pauses)
    @rule()
    def a_pause_is_over(self) -> None:
        self._do(self.session.take_up(self.pauses.pop(0)))

    @rule()
    def month_turns(self) -> None:
        self.this_month += 1

    @rule()
    def a_month_passes_without_a_hello(self) -> None:
        self.this_month += 1
        self._do(self.session.move_later())

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.held), min_size=1, unique=True))
        self._ack(chosen)

    def _ack(self, chosen: list[str]) -> None:
        self.held = [version for version in self.held if version not in chosen]
        self.acked.update(chosen)
        updates = [{"channelID": CHANNEL, "version": version} for version in chosen]
        frame = json.dumps({"messageType": "ack", "updates": updates}).encode()
        self._do(self.session.receive(frame, NOW))

    @rule(stuck=st.booleans())
    def output(self, stuck: bool) -> None:
        if stuck:
            self.session.output_paused = True
        elif self.session.output_paused:
            self._do(self.session.output_resumed())

    @rule()
    def reconnect(self) -> None:
        for lost in self.session.end().unsaved:
            self.rows[lost.sort_key] = lost
        self._open()

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "session"):
            return
        stored = {message.version for message in self.rows.values()}
        assert self.accepted - self.acked <= stored | set(self.session.sent)

    @invariant()
    def every_held_message_is_tracked(self) -> None:
        if hasattr(self, "session"):
            assert set(self.held) == set(self.session.sent)

    @invariant()
    def what_waits_has_something_to_wait_for(self) -> None:
        if hasattr(self, "session") and self.session.state is State.MOVING:
            assert self.questions == [MoveMonth()]

    def teardown(self) -> None:
        """In the end the user agent acks everything and gets everything."""
        if not hasattr(self, "session"):
            return
        self.output(stuck=False)
        self._do(self.session.check_storage())
        for _ in range(10 * (self.number + len(self.pauses) + 2)):
            if self.pauses:
                self.a_pause_is_over()
            elif self.questions:
                self.storage_answers()
            elif self.held:
                self._ack(self.held)
        assert self.acked == self.accepted
        assert not any(self.tables.values())


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(
    max_examples=times(60, 3000), stateful_step_count=40, deadline=None
)


def test_the_table_leaves_no_state_without_a_way_to_its_end() -> None:
    for state in State:
        if state is not State.CLOSED:
            assert TRANSITIONS[state, Event.GONE] is State.CLOSED


def test_the_table_names_every_state_and_every_event_a_user_agent_can_cause() -> None:
    named = {state for state, _ in TRANSITIONS} | set(TRANSITIONS.values())
    assert named == set(State)
    events = {event for _, event in TRANSITIONS}
    assert events == set(Event) - {Event.NONSENSE}, "nonsense is legal nowhere"
