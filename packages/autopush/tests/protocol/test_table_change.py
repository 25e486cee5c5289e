"""When a session changes its user to the message table of this month, and what waits for it."""

import pytest

from autopush.protocol.effects import (
    ChangeTable,
    Close,
    DeleteMessages,
    DropReason,
    DropUser,
    Effect,
    Identified,
    ReadStored,
    Send,
    SetTimer,
    StoreFailure,
    TimerReason,
)
from autopush.protocol.session import Session
from autopush.protocol.states import State
from autopush.webpush.stored import StoredMessage, StoredPage
from support.session_frames import (
    CHANNEL,
    NOW,
    UAID,
    ack,
    identify,
    message,
    new_session,
    requested,
    sent,
    stored,
)

FIRST = ReadStored(after=None)
CHANGE = ChangeTable()
RESET = Close(1000, "user reset")
RETRY = SetTimer((1, 1799), TimerReason.ROTATE)


def identified(*, old_table: bool = True, reset: bool = False) -> Session:
    """A session whose first read of storage is not answered yet."""
    session = new_session()
    request = identify(session)
    result = Identified(UAID, 1, new=False, reset=reset, old_table=old_table)
    reply, read = session.on_result(request, result, NOW)
    assert isinstance(reply, Send)
    assert read == FIRST
    return session


def changing() -> Session:
    """A session that waits for its change of tables: nothing was stored."""
    session = identified()
    assert page(session) == [CHANGE]
    assert session.state is State.ROTATING
    return session


def page(session: Session, *messages: StoredMessage) -> list[Effect]:
    """Answer the only read of a pass."""
    return list(session.on_result(FIRST, StoredPage(messages, None, frozenset({CHANNEL})), NOW))


def test_a_user_of_this_month_keeps_its_table() -> None:
    session = identified(old_table=False)
    assert page(session) == []
    assert session.state is State.ACTIVE


def test_with_nothing_stored_the_table_is_changed_right_after_the_hello() -> None:
    assert page(identified()) == [CHANGE]


def test_the_table_is_changed_when_all_stored_messages_are_acked() -> None:
    session = identified()
    first, second = stored(1), stored(2)
    assert len(sent(page(session, first, second))) == 2
    assert session.receive(ack(2), NOW) == [DeleteMessages([second.row])]
    assert session.receive(ack(1), NOW) == [DeleteMessages([first.row]), CHANGE]


def test_the_table_is_not_changed_while_a_message_is_overdue() -> None:
    session = identified()
    first, last = stored(1), stored(2)
    session.on_result(FIRST, StoredPage([first], "02:1", frozenset({CHANNEL})), NOW)
    assert session.on_timer(TimerReason.OVERDUE, NOW) == [ReadStored("02:1")]
    session.on_result(ReadStored("02:1"), StoredPage([last], None), NOW)
    assert session.receive(ack(2), NOW) == [DeleteMessages([last.row])]
    assert session.accept(message(3), None)
    assert session.receive(ack(3, 1), NOW) == [DeleteMessages([first.row]), FIRST]
    assert page(session) == [CHANGE]


def test_dead_rows_of_the_old_table_are_deleted_before_the_change() -> None:
    session = identified()
    dead = stored(1, ttl=0)
    assert page(session, dead) == [DeleteMessages([dead.row]), CHANGE]


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("kind", ["register", "unregister"])
def test_an_open_register_or_unregister_is_finished_first(kind: str, done: bool) -> None:
    session = identified()
    request = requested(session, kind, channelID=CHANNEL)
    assert page(session) == []
    if done:
        result = "https://push.example/" if kind == "register" else None
        reply, change = session.on_result(request, result, NOW)
    else:
        reply, change = session.on_failure(request, StoreFailure.OVERLOADED)
    assert isinstance(reply, Send)
    assert change == CHANGE


def test_a_user_that_has_another_connection_by_now_is_closed_here() -> None:
    assert changing().on_result(CHANGE, False, NOW) == [Close(1000, "replaced")]


def test_a_change_in_an_overload_is_retried_later_and_the_session_keeps_the_old_table() -> None:
    session = changing()
    assert session.on_failure(CHANGE, StoreFailure.OVERLOADED) == [RETRY]
    assert session.state is State.ACTIVE
    assert session.accept(message(1), None)
    assert session.receive(ack(1), NOW) == []
    assert session.on_timer(TimerReason.ROTATE, NOW) == [FIRST]
    assert page(session) == [CHANGE]


@pytest.mark.parametrize(
    ("failure", "effects"),
    [
        (StoreFailure.BROKEN, [Close(1011, "try again")]),
        (StoreFailure.TABLE_GONE, [DropUser(DropReason.NO_MESSAGE_TABLE), RESET]),
    ],
)
def test_any_other_failure_of_a_change_closes(failure: StoreFailure, effects: list[Effect]) -> None:
    assert changing().on_failure(CHANGE, failure) == effects


def test_a_session_that_ends_during_the_change_leaves_nothing_undelivered() -> None:
    session = changing()
    undelivered = session.on_closed()
    assert (list(undelivered.unsaved), list(undelivered.stored)) == ([], [])
    assert session.on_result(CHANGE, True, NOW) == ()


def test_a_connection_that_outlives_its_month_changes_tables_at_a_random_time() -> None:
    session = changing()
    session.on_result(CHANGE, True, NOW)
    page(session)
    assert session.schedule_table_change() == [RETRY]
    assert session.on_timer(TimerReason.ROTATE, NOW) == [FIRST]
    assert page(session) == [CHANGE]


def test_a_session_without_a_hello_has_no_table_to_change() -> None:
    assert new_session().schedule_table_change() == ()
