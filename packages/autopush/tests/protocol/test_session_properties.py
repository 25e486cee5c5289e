"""A session against a model of storage and user agent: nothing is lost, nothing is sent twice.

Months pass, the store is overloaded at times, and output is paused; storage has one table for each
month, and the user has one of them. Messages differ in urgency, and the user agent changes its
filter. A result of the store may come long after what it says was
read: channels are registered and unregistered meanwhile.
"""

import json
from collections import defaultdict
from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from autopush.protocol.effects import (
    ChangeTable,
    Close,
    DeleteMessages,
    DropUser,
    Effect,
    Identified,
    Identify,
    ReadStored,
    Send,
    SetTimer,
    SetUrgency,
    StoreFailure,
    Subscribe,
    TimerReason,
    Unsubscribe,
)
from autopush.protocol.session import SessionSettings
from autopush.protocol.states import TRANSITIONS, Event, State
from autopush.webpush.notification import Notification
from autopush.webpush.stored import Row, StoredMessage, StoredPage
from autopush.webpush.urgency import LEVELS, LOWEST, NORMAL, is_below
from support.session_frames import new_session
from support.soak import examples

UAID = "0" * 32
CHANNEL = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
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
        self.received: list[str] = []
        self.channels = {CHANNEL}
        self.channel_of: dict[str, str] = {}
        self.requests: list[ReadStored | ChangeTable] = []
        self.update: Subscribe | Unsubscribe | None = None
        self.filter: SetUrgency | None = None
        self.least = LOWEST
        self.urgency_of: dict[str, str] = {}
        self.pages: list[tuple[ReadStored, StoredPage]] = []
        self.timers: list[TimerReason] = []

    @initialize(max_unacked=st.integers(1, 6))
    def connect(self, max_unacked: int) -> None:
        self.session_rules = SessionSettings(max_unacked=max_unacked)
        self._open()

    @property
    def rows(self) -> dict[str, Notification]:
        """The table the user has."""
        return self.tables[self.users_month]

    def _open(self) -> None:
        self.session = new_session(self.session_rules)
        self.received = []
        self.seen: set[str] = set()
        self.direct = self.acks = 0
        self.requests = []
        self.pages = []
        self.update = self.filter = None
        self.timers = []
        assert self.session.receive(b'{"messageType":"hello","use_webpush":true}', NOW) == [
            Identify(None)
        ]
        old_table = self.users_month < self.this_month
        result = Identified(UAID, 1, new=False, old_table=old_table, min_urgency=self.least)
        self._carry_out(self.session.on_result(Identify(None), result, NOW))

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    text = json.loads(effect.payload)
                    if text["messageType"] == "notification":
                        self._receive(text["version"])
                case DeleteMessages():
                    for row in effect.rows:
                        del self.rows[row.sort_key]
                case ReadStored() | ChangeTable():
                    self.requests.append(effect)
                case Subscribe() | Unsubscribe():
                    self.update = effect
                case SetUrgency():
                    self.filter = effect
                case SetTimer():
                    self.timers.append(effect.reason)
                case Close() | DropUser():
                    raise AssertionError("a well-behaved user agent was closed")

    def _receive(self, version: str) -> None:
        assert version not in self.seen, "sent twice on one connection"
        assert version not in self.acked, "sent again after its ack"
        assert self.session.state is not State.ROTATING, "sent during a change of tables"
        assert not is_below(self.urgency_of[version], self.session.min_urgency), "below the filter"
        self.seen.add(version)
        self.received.append(version)

    def _message(self, channel: str, urgency: str) -> Notification:
        self.number += 1
        self.channel_of[f"v{self.number}"] = channel
        self.urgency_of[f"v{self.number}"] = urgency
        return Notification(
            uaid=UAID,
            channel_id=channel,
            version=f"v{self.number}",
            ttl=60,
            timestamp=int(NOW),
            urgency=urgency,
            sort_time=1_000_000 + self.number,
        )

    @rule(
        store_first=st.booleans(),
        channel=st.sampled_from([CHANNEL, OTHER]),
        urgency=st.sampled_from([*LEVELS]),
    )
    def push(self, store_first: bool, channel: str, urgency: str) -> None:
        if channel not in self.channels:  # the endpoint refuses it
            return
        notification = self._message(channel, urgency)
        self.accepted.add(notification.version)
        row = Row(notification.sort_key, None)
        if store_first:
            self.rows[row.sort_key] = notification
        if self.session.accept(notification, row if store_first else None):
            self.direct += 1
            self._receive(notification.version)
        else:
            self.rows[row.sort_key] = notification
            self._carry_out(self.session.check_storage(urgency))

    @rule(channel=st.sampled_from([CHANNEL, OTHER]), urgency=st.sampled_from([*LEVELS]))
    def push_through_another_node(self, channel: str, urgency: str) -> None:
        if channel not in self.channels:
            return
        notification = self._message(channel, urgency)
        self.accepted.add(notification.version)
        self.rows[notification.sort_key] = notification
        self._carry_out(self.session.check_storage(urgency))

    @precondition(lambda self: self.session.state is State.ACTIVE)
    @rule(least=st.sampled_from([*LEVELS]))
    def change_the_filter(self, least: str) -> None:
        frame = json.dumps({"messageType": "urgency", "min": least}).encode()
        self._carry_out(self.session.receive(frame, NOW))

    @precondition(lambda self: self.filter)
    @rule()
    def the_filter_is_recorded(self) -> None:
        change, self.filter = self.filter, None
        if change is not None:
            self.least = change.min_urgency
            self._carry_out(self.session.on_result(change, True, NOW))

    @precondition(lambda self: self.requests)
    @rule()
    def storage_returns_a_result(self) -> None:
        request = self.requests.pop(0)
        if isinstance(request, ChangeTable):
            assert not self.session.unacked, "requested with unacked messages"
            left = self.tables.pop(self.users_month, {})
            self.users_month = self.this_month
            self.rows.update(left)
            self._carry_out(self.session.on_result(request, True, NOW))
            return
        self._carry_out(self.session.on_result(request, self._page(request), NOW))

    def _page(self, request: ReadStored) -> StoredPage:
        after = request.after or ""
        keys = sorted(key for key in self.rows if key > after)
        page = keys[:PAGE]
        messages = [StoredMessage(Row(key, None), self.rows[key]) for key in page]
        last = page[-1] if len(keys) > PAGE else None
        known = self.session.channels or ()
        is_listed = request.after is None or any(
            stored.notification.channel_id not in known for stored in messages
        )
        channels = frozenset(self.channels) if is_listed else None
        urgencies = frozenset(self.urgency_of.values()) - {NORMAL} if not after else frozenset()
        return StoredPage(messages, last, channels, urgencies=urgencies)

    @precondition(lambda self: self.requests and isinstance(self.requests[0], ReadStored))
    @rule()
    def a_page_is_read(self) -> None:
        request = self.requests.pop(0)
        assert isinstance(request, ReadStored)
        self.pages.append((request, self._page(request)))

    @precondition(lambda self: self.pages)
    @rule()
    def the_page_arrives(self) -> None:
        request, page = self.pages.pop(0)
        self._carry_out(self.session.on_result(request, page, NOW))

    @precondition(lambda self: self.session.state is State.ACTIVE)
    @rule(kind=st.sampled_from(["register", "unregister"]))
    def change_channel(self, kind: str) -> None:
        frame = json.dumps({"messageType": kind, "channelID": OTHER}).encode()
        self._carry_out(self.session.receive(frame, NOW))

    @precondition(lambda self: self.update)
    @rule()
    def the_change_is_committed(self) -> None:
        if isinstance(self.update, Subscribe):
            self.channels.add(OTHER)
            return
        self.channels.discard(OTHER)
        # What was sent to the channel so far may be delivered, and need not be.
        self.accepted -= {v for v in self.accepted - self.acked if self.channel_of[v] == OTHER}

    @precondition(lambda self: self.update)
    @rule()
    def the_change_is_carried_out(self) -> None:
        self.the_change_is_committed()
        update, self.update = self.update, None
        if isinstance(update, Subscribe):
            self._carry_out(self.session.on_result(update, "https://push.example/x", NOW))
        elif update is not None:
            self.received = [v for v in self.received if self.channel_of[v] != OTHER]
            self._carry_out(self.session.on_result(update, None, NOW))

    @precondition(lambda self: self.requests)
    @rule()
    def storage_is_overloaded(self) -> None:
        self._carry_out(self.session.on_failure(self.requests.pop(0), StoreFailure.OVERLOADED))

    @precondition(lambda self: self.timers)
    @rule()
    def a_timer_fires(self) -> None:
        self._carry_out(self.session.on_timer(self.timers.pop(0), NOW))

    @rule()
    def a_month_begins(self) -> None:
        self.this_month += 1

    @rule()
    def a_month_passes_without_a_hello(self) -> None:
        self.this_month += 1
        self._carry_out(self.session.schedule_table_change())

    @precondition(lambda self: self.received and self.session.state is State.ACTIVE)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(self.received), min_size=1, unique=True))
        self._ack(chosen)

    def _ack(self, chosen: list[str]) -> None:
        self.received = [version for version in self.received if version not in chosen]
        self.acked.update(chosen)
        self.acks += len(chosen)
        updates = [
            {"channelID": self.channel_of[version], "version": version} for version in chosen
        ]
        frame = json.dumps({"messageType": "ack", "updates": updates}).encode()
        self._carry_out(self.session.receive(frame, NOW))

    @rule(paused=st.booleans())
    def output(self, paused: bool) -> None:
        if paused:
            self.session.output_paused = True
        elif self.session.output_paused:
            self._carry_out(self.session.output_resumed())

    @rule()
    def reconnect(self) -> None:
        for lost in self.session.on_closed().unsaved:
            self.rows[lost.sort_key] = lost
        self._open()

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "session"):
            return
        stored = {message.version for message in self.rows.values()}
        assert self.accepted - self.acked <= stored | set(self.session.unacked)

    @invariant()
    def every_received_message_is_tracked(self) -> None:
        if hasattr(self, "session"):
            assert set(self.received) == set(self.session.unacked)

    @invariant()
    def what_is_sent_and_acked_is_counted(self) -> None:
        if hasattr(self, "session"):
            counts = self.session.counts
            assert counts.direct_acked + counts.stored_acked == self.acks
            assert counts.stored_retrieved + self.direct == len(self.seen)

    @invariant()
    def a_rotating_session_waits_for_its_request(self) -> None:
        if hasattr(self, "session") and self.session.state is State.ROTATING:
            assert self.requests == [ChangeTable()]

    def teardown(self) -> None:
        """In the end the user agent receives and acks everything, whatever it acked late."""
        if not hasattr(self, "session"):
            return
        self.output(paused=False)
        if self.update:
            self.the_change_is_carried_out()
        self.the_filter_is_recorded()
        if self.session.state is not State.ACTIVE:
            self.storage_returns_a_result()
        self.change_the_filter(LOWEST)
        self.the_filter_is_recorded()
        is_current = self.users_month == self.this_month and TimerReason.ROTATE not in self.timers
        if is_current and self.session_rules.max_unacked > 1:
            self.reconnect()
            self.storage_returns_a_result()
            never_acked = set(self.received[:1])
            self._ack_all_but(never_acked)
            assert self.accepted - never_acked <= self.acked
        self._ack_all_but(set())
        assert self.accepted <= self.acked
        left = [message for table in self.tables.values() for message in table.values()]
        assert all(message.channel_id == OTHER for message in left)
        assert self.accepted.isdisjoint(message.version for message in left)

    def _ack_all_but(self, kept: set[str]) -> None:
        for _ in range(10 * (self.number + len(self.timers) + 2)):
            if self.update:
                self.the_change_is_carried_out()
            elif self.timers:
                self.a_timer_fires()
            elif self.pages:
                self.the_page_arrives()
            elif self.requests:
                self.storage_returns_a_result()
            elif acked := [version for version in self.received if version not in kept]:
                self._ack(acked)


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(
    max_examples=examples(60, 3000), stateful_step_count=40, deadline=None
)


def test_every_state_can_reach_the_closed_state() -> None:
    for state in State:
        if state is not State.CLOSED:
            assert TRANSITIONS[state, Event.GONE] is State.CLOSED


def test_the_transitions_name_every_state_and_every_event_that_is_legal_somewhere() -> None:
    named = {state for state, _ in TRANSITIONS} | set(TRANSITIONS.values())
    assert named == set(State)
    events = {event for _, event in TRANSITIONS}
    assert events == set(Event) - {Event.INVALID}, "INVALID is legal in no state"
