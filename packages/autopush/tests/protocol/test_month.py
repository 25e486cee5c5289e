"""When a session moves its user to the message table of this month, and what waits meanwhile."""

import pytest

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
    Send,
    StoredMessage,
)
from autopush.protocol.rules import Rules
from autopush.protocol.session import Session
from autopush.protocol.states import State
from support.session_frames import CHANNEL, NOW, UAID, ack, frame, message, sent, stored

FIRST = ReadStored(after=None)


def greeted(
    rules: Rules | None = None, *, reset: bool = False, answer: bool = True
) -> tuple[Session, list[Action]]:
    """A session whose user has the table of an earlier month; its first read is answered."""
    session = Session(rules or Rules(), connected_at=1)
    (question,) = session.receive(frame(messageType="hello", uaid=UAID), NOW)
    greeting = Greeting(UAID, 1, new=False, reset=reset, moves=True)
    reply, read = session.answer(question, greeting, NOW)  # type: ignore[arg-type]
    assert isinstance(reply, Send)
    assert read == FIRST
    return session, page(session) if answer else [read]


def page(session: Session, *messages: StoredMessage) -> list[Action]:
    """The one page of a pass is read."""
    return list(session.answer(FIRST, Batch(messages, None, frozenset({CHANNEL})), NOW))


def is_moving(session: Session) -> bool:
    return session.state is State.MOVING


def test_a_user_of_this_month_is_not_moved() -> None:
    session = Session(Rules(), connected_at=1)
    (question,) = session.receive(frame(messageType="hello", uaid=UAID), NOW)
    session.answer(question, Greeting(UAID, 1, new=False), NOW)  # type: ignore[arg-type]
    assert page(session) == []
    assert session.state is State.ACTIVE


def test_with_nothing_stored_the_user_is_moved_right_after_the_hello() -> None:
    session, actions = greeted()
    assert actions == [MoveMonth()]
    assert is_moving(session)


def test_the_user_is_moved_when_all_that_was_stored_is_acked() -> None:
    session, _ = greeted(answer=False)
    first, second = stored(1), stored(2)
    assert len(sent(page(session, first, second))) == 2
    assert session.receive(ack(2), NOW) == [Forget([second.row])]
    assert session.receive(ack(1), NOW) == [Forget([first.row]), MoveMonth()]


def test_the_rows_of_the_old_month_are_deleted_before_it_is_left() -> None:
    session, _ = greeted(answer=False)
    dead = stored(1, ttl=0)
    assert page(session, dead) == [Forget([dead.row]), MoveMonth()]


def test_messages_flow_until_storage_is_read_to_its_end() -> None:
    session, _ = greeted(answer=False)
    assert session.accept(message(1), None)
    assert page(session) == []
    assert session.busy


def test_from_then_on_nothing_is_accepted_until_all_is_acked() -> None:
    session, _ = greeted(answer=False)
    session.accept(message(1), None)
    page(session)
    assert not session.accept(message(2), None)
    assert session.check_storage() == ()
    assert session.receive(ack(1), NOW) == [MoveMonth()]


def test_while_it_is_moved_nothing_is_accepted_and_what_was_refused_is_looked_for() -> None:
    session, (question,) = greeted()
    assert not session.accept(message(1), None)
    assert session.check_storage() == ()
    assert session.answer(question, True, NOW) == [FIRST]  # type: ignore[arg-type]
    assert session.state is State.ACTIVE
    assert session.accept(message(2), None)


def test_the_new_month_is_looked_into_whether_told_to_or_not() -> None:
    session, (question,) = greeted()
    assert session.answer(question, True, NOW) == [FIRST]  # type: ignore[arg-type]
    assert page(session) == []
    assert session.state is State.ACTIVE


def test_a_user_is_moved_once() -> None:
    session, (question,) = greeted()
    session.answer(question, True, NOW)  # type: ignore[arg-type]
    for _ in range(3):
        assert page(session) == []
        assert session.check_storage() == [FIRST]


def test_output_that_resumes_meanwhile_moves_nothing_twice() -> None:
    session, _ = greeted()
    session.output_paused = True
    assert session.output_resumed() == ()
    assert is_moving(session)


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("kind", ["register", "unregister"])
def test_a_register_or_unregister_that_is_under_way_is_finished_first(
    kind: str, done: bool
) -> None:
    session, _ = greeted(answer=False)
    (question,) = session.receive(frame(messageType=kind, channelID=CHANNEL), NOW)
    assert page(session) == []
    if done:
        answer = "https://push.example/" if kind == "register" else None
        reply, move = session.answer(question, answer, NOW)  # type: ignore[arg-type]
    else:
        reply, move = session.fail(question, Failure.OVERLOADED)  # type: ignore[arg-type]
    assert isinstance(reply, Send)
    assert move == MoveMonth()


def test_unregistering_the_last_unacked_message_lets_the_user_go() -> None:
    session, _ = greeted(answer=False)
    page(session, stored(1))
    (question,) = session.receive(frame(messageType="unregister", channelID=CHANNEL), NOW)
    _, _, move = session.answer(question, None, NOW)  # type: ignore[arg-type]
    assert move == MoveMonth()


def test_an_old_record_is_dropped_and_not_moved() -> None:
    session, actions = greeted(reset=True)
    assert actions == [DropUser(), Close(1000, "")]
    assert session.state is State.CLOSED


def test_a_user_that_is_another_connections_by_now_is_left_to_it() -> None:
    session, (question,) = greeted()
    assert session.answer(question, False, NOW) == [Close(1000, "")]  # type: ignore[arg-type]


def test_a_move_in_an_overload_is_put_off_and_the_session_goes_on_in_the_old_month() -> None:
    session, (question,) = greeted()
    assert session.fail(question, Failure.OVERLOADED) == [Later((1, 1799), Again.MOVING)]  # type: ignore[arg-type]
    assert session.state is State.ACTIVE
    assert session.accept(message(1), None)
    assert session.receive(ack(1), NOW) == []
    assert session.take_up(Again.MOVING) == [FIRST]
    assert page(session) == [MoveMonth()]


def test_what_was_refused_during_a_move_that_failed_is_looked_for() -> None:
    session, (question,) = greeted()
    session.accept(message(1), None)
    assert session.fail(question, Failure.OVERLOADED) == [  # type: ignore[arg-type]
        Later((1, 1799), Again.MOVING),
        FIRST,
    ]


def test_a_move_that_is_taken_up_during_a_pass_waits_for_the_next_one() -> None:
    session, (question,) = greeted()
    session.fail(question, Failure.OVERLOADED)  # type: ignore[arg-type]
    assert session.check_storage() == [FIRST]
    assert session.take_up(Again.MOVING) == ()
    assert page(session) == [MoveMonth()]


def test_a_move_that_is_taken_up_with_messages_on_their_way_waits_for_their_acks() -> None:
    session, (question,) = greeted()
    session.fail(question, Failure.OVERLOADED)  # type: ignore[arg-type]
    session.accept(message(1), None)
    assert session.take_up(Again.MOVING) == [FIRST]
    assert page(session) == []
    assert session.receive(ack(1), NOW) == [MoveMonth()]


def test_any_other_failure_of_a_move_closes() -> None:
    session, (question,) = greeted()
    assert session.fail(question, Failure.BROKEN) == [Close(1011, "try again")]  # type: ignore[arg-type]


def test_a_table_that_is_gone_during_a_move_drops_the_user() -> None:
    session, (question,) = greeted()
    assert session.fail(question, Failure.GONE) == [DropUser(), Close(1000, "")]  # type: ignore[arg-type]


def test_a_session_that_ends_meanwhile_leaves_nothing_and_hears_nothing() -> None:
    session, (question,) = greeted()
    farewell = session.end()
    assert (list(farewell.unsaved), list(farewell.waiting)) == ([], [])
    assert session.answer(question, True, NOW) == ()  # type: ignore[arg-type]


def test_a_connection_that_outlives_its_month_moves_at_a_moment_of_its_own() -> None:
    session, (question,) = greeted()
    session.answer(question, True, NOW)  # type: ignore[arg-type]
    page(session)
    assert session.move_later() == [Later((1, 1799), Again.MOVING)]
    assert session.take_up(Again.MOVING) == [FIRST]
    assert page(session) == [MoveMonth()]


def test_a_session_without_hello_has_nothing_to_move() -> None:
    session = Session(Rules(), connected_at=1)
    assert session.move_later() == ()
