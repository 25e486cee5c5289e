"""A session goes on in another process: what its state has, and when it can be exported."""

import msgspec
import pytest

from autopush.protocol.broadcasts import Broadcasts
from autopush.protocol.effects import Identified, ReadStored, SetTimer, TimerReason
from autopush.protocol.session import Session, SessionSettings
from autopush.protocol.session_state import NOT_EXPORTED, SessionState
from autopush.webpush.stored import ANY_CHANNEL, Row, StoredPage
from support.session_frames import (
    CHANNEL,
    NOW,
    OTHER,
    UAID,
    ack,
    frame,
    identify,
    message,
    new_session,
    sent,
    stored,
)


def identified(source: Broadcasts | None = None, /, **hello: object) -> Session:
    session = new_session(SessionSettings(), broadcasts=source or Broadcasts())
    session.on_result(identify(session, **hello), Identified(UAID, int(NOW * 1000), new=False), NOW)
    return session


def finish_reading(session: Session, *numbers: int) -> None:
    page = StoredPage([stored(number) for number in numbers], None, frozenset({CHANNEL}))
    session.on_result(ReadStored(None), page, NOW)


def moved(session: Session, broadcasts: Broadcasts | None = None) -> Session:
    state = session.export()
    assert state is not None
    sent_state = msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=SessionState)
    other = new_session(SessionSettings(), broadcasts=broadcasts or Broadcasts())
    other.restore(sent_state, broadcasts or Broadcasts())
    other.restored(NOW)
    return other


def test_each_attribute_is_exported_or_said_not_to_be() -> None:
    attributes = {name.lstrip("_") for name in Session.__slots__}
    others = {name.lstrip("_") for name in NOT_EXPORTED}
    exported = set(SessionState.__struct_fields__)
    assert attributes == exported | others
    assert not exported & others


def test_fields_that_one_version_lacks_are_left_out_or_have_their_default() -> None:
    session = identified()
    finish_reading(session)
    state = session.export()
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(state))
    for other in (fields[:-1], [*fields, "a field of a later version"]):
        assert msgspec.convert(other, SessionState) == state


def test_a_session_goes_on_with_all_that_it_had() -> None:
    session = identified()
    finish_reading(session, 1)
    session.accept(message(2), None)
    session.accept(message(3, topic="t"), Row("topic", "version-3"))
    session.receive(frame(messageType="nack", version="version-2", code=302), NOW)
    session.receive(frame(messageType="ping"), NOW)
    other = moved(session)
    assert other.export() == session.export()
    assert [other.unacked[version] for version in other.unacked] == [*session.unacked.values()]
    assert not other.output_paused
    assert other.kind == session.kind
    assert other.receive(ack(2), NOW) == []
    (deletion,) = other.receive(ack(1), NOW)[:1]
    assert deletion.rows == [stored(1).row]  # type: ignore[union-attr]
    assert other.counts.direct_acked == other.counts.stored_acked == other.counts.nacks == 1
    assert other.drain is None  # the pass that was under way is over
    assert other.receive(frame(messageType="ping"), NOW)[0].code == 4774  # type: ignore[union-attr]


def test_what_is_overdue_holds_back_no_page_in_the_other_process_either() -> None:
    session = identified()
    page = StoredPage([stored(1)], "02:1", frozenset({CHANNEL}))
    session.on_result(ReadStored(None), page, NOW)
    state = session.export()
    assert state is not None
    other = new_session()
    other.restore(state, Broadcasts())
    assert other.restored(NOW) == [SetTimer((30.0, 30.0), TimerReason.OVERDUE)]
    assert other.on_timer(TimerReason.OVERDUE, NOW) == [ReadStored("02:1")]
    other.on_result(ReadStored("02:1"), StoredPage([stored(2)], "02:2"), NOW)
    assert moved(other).receive(ack(2), NOW)[-1] == ReadStored("02:2")


def test_what_was_not_stored_is_saved_by_the_process_that_has_it() -> None:
    session = identified()
    finish_reading(session)
    late = message(2)
    late.sort_time = 2**70
    session.accept(late, None)
    other = moved(session)
    assert session.leave() is False
    assert session.on_closed().unsaved == ()
    assert other.on_closed().unsaved == [late]


def test_while_the_store_or_a_sender_waits_there_is_no_state() -> None:
    session = new_session()
    assert session.export() is None
    session = identified()
    assert session.export() is None, "it reads"
    finish_reading(session)
    assert session.export() is not None
    session.accept(message(1), None)
    session.unacked["version-1"].watchers = [lambda: None]
    assert session.export() is None
    session.unacked["version-1"].watchers = None
    session.receive(frame(messageType="register", channelID=OTHER), NOW)
    assert session.export() is None


def test_a_message_that_came_while_it_moved_is_read_there() -> None:
    session = identified()
    finish_reading(session)
    session.output_paused = True
    state = session.export()
    assert state is not None
    assert not session.accept(message(1), None)
    assert session.leave() is True
    other = new_session()
    other.restore(state, Broadcasts())
    assert other.check_storage() == ()
    assert other.restored(NOW) == [ReadStored(None)]


def test_a_simplepush_session_goes_on() -> None:
    session = identified(use_webpush=None, channelIDs=[])
    finish_reading(session)
    other = moved(session)
    assert other.simplepush == session.simplepush
    assert other.channels is ANY_CHANNEL
    assert other.kind[2] == "False"


def test_broadcasts_are_those_of_the_other_process() -> None:
    session = identified(Broadcasts({"a": "1", "b": "1"}), broadcasts={"a": "1", "b": "1"})
    finish_reading(session)
    unchanged = moved(session, Broadcasts({"a": "1", "b": "1"}))
    assert unchanged.on_ping_due() == ()
    changed = moved(session, Broadcasts({"a": "2"}))
    (news,) = sent(changed.on_ping_due())
    assert news["broadcasts"] == {"a": "2"}


def test_a_table_state_of_another_version_is_not_guessed() -> None:
    session = identified()
    finish_reading(session)
    state = session.export()
    assert state is not None
    with pytest.raises(LookupError):
        new_session().restore(msgspec.structs.replace(state, table="NEW"), Broadcasts())
