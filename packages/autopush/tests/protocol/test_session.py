"""The rules of a session, one test each: frames and answers in, actions out."""

import pytest

from autopush.protocol.actions import (
    Action,
    Again,
    Batch,
    Close,
    DropUser,
    Failure,
    Forget,
    Greet,
    Greeting,
    Later,
    ReadStored,
    Row,
    Send,
    Subscribe,
    Unsubscribe,
)
from autopush.protocol.rules import Rules
from autopush.protocol.session import Session
from autopush.protocol.states import State
from support.session_frames import (
    CHANNEL,
    MICROSECONDS,
    NOW,
    OTHER,
    UAID,
    ack,
    frame,
    message,
    sent,
    stored,
)


def greeted(rules: Rules | None = None, *, new: bool = True, reset: bool = False) -> Session:
    session = Session(rules or Rules(), connected_at=int(NOW * 1000))
    (question,) = session.receive(frame(messageType="hello", use_webpush=True, uaid=UAID), NOW)
    session.answer(question, Greeting(UAID, int(NOW * 1000), new=new, reset=reset), NOW)  # type: ignore[arg-type]
    return session


def subscribed(rules: Rules | None = None) -> Session:
    session = greeted(rules)
    (question,) = session.receive(frame(messageType="register", channelID=CHANNEL), NOW)
    session.answer(question, "https://push.example/wpush/v1/token", NOW)  # type: ignore[arg-type]
    return session


# ── hello ───────────────────────────────────────────────────────────────────────────────────────


def test_hello_asks_who_it_is_and_answers_with_the_five_members_and_env() -> None:
    session = Session(Rules(env="testing"), connected_at=1)
    (question,) = session.receive(frame(messageType="hello", use_webpush=True, uaid=UAID), NOW)
    assert question == Greet(UAID)
    (reply,) = session.answer(question, Greeting(UAID, 5, new=True), NOW)
    assert sent([reply]) == [
        {
            "messageType": "hello",
            "uaid": UAID,
            "status": 200,
            "use_webpush": True,
            "broadcasts": {},
            "env": "testing",
        }
    ]
    assert session.connected_at == 5


@pytest.mark.parametrize("uaid", ["", None, 7, [], UAID.upper(), f"{UAID}0", "é" * 32, True])
def test_a_uaid_of_the_wrong_form_or_type_counts_as_none(uaid: object) -> None:
    session = Session(Rules(), connected_at=1)
    assert session.receive(frame(messageType="hello", uaid=uaid), NOW) == [Greet(None)]


def test_a_known_user_gets_the_reply_first_and_then_a_look_into_storage() -> None:
    session = Session(Rules(), connected_at=1)
    (question,) = session.receive(frame(messageType="hello", uaid=UAID), NOW)
    reply, read = session.answer(question, Greeting(UAID, 5, new=False), NOW)  # type: ignore[arg-type]
    assert isinstance(reply, Send)
    assert read == ReadStored(after=None)


def test_hello_tells_the_ping_interval_where_there_is_one() -> None:
    session = Session(Rules(auto_ping_interval=300), connected_at=1)
    (question,) = session.receive(frame(messageType="hello"), NOW)
    assert sent(session.answer(question, Greeting(UAID, 5, new=True), NOW))[0]["ping"] == 300  # type: ignore[arg-type]


def test_hello_says_of_every_wanted_broadcast_that_there_is_none() -> None:
    session = Session(Rules(), connected_at=1)
    (question,) = session.receive(frame(messageType="hello", broadcasts={"a/b": '"1"'}), NOW)
    reply = sent(session.answer(question, Greeting(UAID, 5, new=True), NOW))[0]  # type: ignore[arg-type]
    assert reply["broadcasts"] == {"errors": {"a/b": "Broadcast not found"}}


@pytest.mark.parametrize("broadcasts", [None, {}, [], "x", 3])
def test_no_wanted_broadcasts_means_an_empty_object(broadcasts: object) -> None:
    session = Session(Rules(), connected_at=1)
    (question,) = session.receive(frame(messageType="hello", broadcasts=broadcasts), NOW)
    assert sent(session.answer(question, Greeting(UAID, 5, new=True), NOW))[0]["broadcasts"] == {}  # type: ignore[arg-type]


def test_a_second_hello_is_refused_with_the_uaid_and_the_session_goes_on() -> None:
    session = greeted()
    (reply,) = sent(session.receive(frame(messageType="hello", uaid=""), NOW))
    assert (reply["status"], reply["uaid"], reply["reason"]) == (401, UAID, "duplicate hello")
    assert session.state is State.ACTIVE


@pytest.mark.parametrize(
    "payload",
    [b"{}", frame(messageType="ping"), frame(messageType="register", channelID=CHANNEL)],
)
def test_anything_before_hello_closes(payload: bytes) -> None:
    session = Session(Rules(), connected_at=1)
    assert session.receive(payload, NOW) == [Close(1008, "hello expected")]
    assert session.state is State.CLOSED


def test_a_failed_hello_closes_without_a_reply() -> None:
    session = Session(Rules(), connected_at=1)
    (question,) = session.receive(frame(messageType="hello"), NOW)
    assert session.fail(question, Failure.BROKEN) == [Close(1011, "try again")]  # type: ignore[arg-type]


def test_a_hello_in_an_overload_closes_without_a_reply_after_a_pause_of_4_to_8_s() -> None:
    session = Session(Rules(), connected_at=1)
    (question,) = session.receive(frame(messageType="hello"), NOW)
    assert session.fail(question, Failure.OVERLOADED) == [Later((4, 8), Again.LEAVING)]  # type: ignore[arg-type]
    assert session.state is State.GREETING
    assert session.take_up(Again.LEAVING) == [Close(1013, "try again")]


# ── frames that cannot be understood ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "payload",
    [b"", b"nonsense", b"[]", b"3", b'"hello"', b"null", b'{"messageType":', b"[" * 5000],
)
def test_what_is_no_json_object_closes_1008(payload: bytes) -> None:
    (action,) = greeted().receive(payload, NOW)
    assert isinstance(action, Close)
    assert action.code == 1008


@pytest.mark.parametrize("kind", ["Hello", "notification", "", 7, None, {}])
def test_an_unknown_message_type_closes_1008(kind: object) -> None:
    (action,) = greeted().receive(frame(messageType=kind, other=1), NOW)
    assert action == Close(1008, "unknown messageType")


def test_a_binary_frame_closes_1003() -> None:
    assert greeted().receive_binary() == [Close(1003, "text frames only")]


def test_nothing_is_answered_after_the_end() -> None:
    session = greeted()
    session.receive_binary()
    assert session.receive(b"nonsense", NOW) == ()
    assert session.receive(b"{}", NOW) == ()


def test_urgency_is_accepted_and_ignored() -> None:
    session = greeted()
    assert session.receive(frame(messageType="urgency", min="high"), NOW) == ()
    assert session.state is State.ACTIVE


# ── ping ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("payload", [b"{}", b" { } ", frame(messageType="ping")])
def test_a_ping_is_answered_with_an_empty_object(payload: bytes) -> None:
    assert greeted().receive(payload, NOW) == [Send(b"{}")]


def test_pings_less_than_55_seconds_apart_close_4774() -> None:
    session = greeted()
    session.receive(b"{}", NOW)
    assert session.receive(b"{}", NOW + 55) == [Send(b"{}")]
    (action,) = session.receive(b"{}", NOW + 109)
    assert isinstance(action, Close)
    assert action.code == 4774


def test_a_clock_that_jumps_back_does_not_punish_a_ping() -> None:
    session = greeted()
    session.receive(b"{}", NOW)
    assert session.receive(b"{}", NOW - 3600) == [Send(b"{}")]


# ── register and unregister ─────────────────────────────────────────────────────────────────────


def test_register_asks_for_the_channel_and_answers_with_its_endpoint() -> None:
    session = greeted()
    actions = session.receive(frame(messageType="register", channelID=CHANNEL, key="AQID"), NOW)
    assert actions == [Subscribe(CHANNEL, b"\x01\x02\x03")]
    assert session.state is State.WORKING
    assert sent(session.answer(actions[0], "https://e", NOW)) == [
        {
            "messageType": "register",
            "channelID": CHANNEL,
            "pushEndpoint": "https://e",
            "status": 200,
        }
    ]
    assert session.channels == (CHANNEL,)
    assert str(session.state) == str(State.ACTIVE)


@pytest.mark.parametrize(
    ("channel", "reason"),
    [
        (CHANNEL.replace("5", "A"), "Bad UUID format, use lower case, dashed format"),
        (CHANNEL.replace("-", ""), "Bad UUID format, use lower case, dashed format"),
        ("nonsense", "Invalid UUID specified"),
        (None, "Invalid UUID specified"),
        (17, "Invalid UUID specified"),
        ([CHANNEL], "Invalid UUID specified"),
    ],
)
def test_register_refuses_a_bad_channel_id_with_401(channel: object, reason: str) -> None:
    session = greeted()
    (reply,) = sent(session.receive(frame(messageType="register", channelID=channel), NOW))
    assert (reply["messageType"], reply["status"], reply["reason"]) == ("register", 401, reason)
    assert reply.get("channelID") == (channel if isinstance(channel, str) else None)
    assert session.state is State.ACTIVE


def test_register_without_a_channel_id_is_refused_without_a_reason() -> None:
    (reply,) = sent(greeted().receive(frame(messageType="register"), NOW))
    assert reply["status"] == 401
    assert "reason" not in reply


@pytest.mark.parametrize("key", ["af1883%&!@#*(", 7, ["AQID"], {"k": 1}])
def test_register_refuses_an_unusable_key_with_400_and_the_channel(key: object) -> None:
    actions = greeted().receive(frame(messageType="register", channelID=CHANNEL, key=key), NOW)
    (reply,) = sent(actions)
    assert (reply["status"], reply["channelID"]) == (400, CHANNEL)


def test_register_answers_503_when_the_store_fails_and_the_session_goes_on() -> None:
    session = greeted()
    (question,) = session.receive(frame(messageType="register", channelID=CHANNEL), NOW)
    (reply,) = sent(session.fail(question, Failure.OVERLOADED))  # type: ignore[arg-type]
    assert (reply["status"], reply["channelID"], reply["reason"]) == (503, CHANNEL, "overloaded")
    assert session.state is State.ACTIVE
    assert session.channels == ()


def test_unregister_takes_any_spelling_and_echoes_the_one_it_got() -> None:
    session = subscribed()
    (question,) = session.receive(frame(messageType="unregister", channelID=CHANNEL.upper()), NOW)
    assert question == Unsubscribe(CHANNEL, CHANNEL.upper())
    (reply,) = sent(session.answer(question, None, NOW))
    assert reply == {"messageType": "unregister", "channelID": CHANNEL.upper(), "status": 200}
    assert session.channels == ()


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, "Missing ChannelID"),
        ({"channelID": None}, "Invalid ChannelID"),
        ({"channelID": 5}, "Invalid ChannelID"),
        ({"channelID": "x"}, "Invalid ChannelID"),
    ],
)
def test_unregister_refuses_a_bad_channel_id_with_401(
    members: dict[str, object], reason: str
) -> None:
    (reply,) = sent(greeted().receive(frame(messageType="unregister", **members), NOW))
    assert (reply["status"], reply["reason"]) == (401, reason)


def test_unregister_forgets_what_is_on_its_way_to_that_channel() -> None:
    session = subscribed()
    first = message(1)
    session.accept(first, Row(first.sort_key, None))
    (question,) = session.receive(frame(messageType="unregister", channelID=CHANNEL), NOW)
    _, forget = session.answer(question, None, NOW)  # type: ignore[arg-type]
    assert forget == Forget([Row(first.sort_key, None)])
    assert session.sent == {}


def test_register_refuses_a_channel_beyond_the_limit_but_not_one_that_is_known() -> None:
    session = subscribed(Rules(max_channels=1))
    (reply,) = sent(session.receive(frame(messageType="register", channelID=OTHER), NOW))
    assert (reply["status"], reply["reason"]) == (400, "too many channels")
    assert session.receive(frame(messageType="register", channelID=CHANNEL), NOW) == [
        Subscribe(CHANNEL, None)
    ]


# ── direct delivery ─────────────────────────────────────────────────────────────────────────────


def test_an_accepted_message_is_kept_until_it_is_acked() -> None:
    session = subscribed()
    assert session.accept(message(1), None)
    assert list(session.sent) == ["version-1"]
    assert session.receive(ack(1), NOW) == []
    assert session.sent == {}


def test_a_stored_message_is_deleted_when_it_is_acked() -> None:
    session = subscribed()
    row = Row("02:5:x", None)
    session.accept(message(1), row)
    assert session.receive(ack(1), NOW) == [Forget([row])]


def test_a_message_with_ttl_0_is_not_tracked() -> None:
    session = subscribed()
    assert session.accept(message(1, ttl=0), None)
    assert session.sent == {}


def test_nothing_is_accepted_before_the_hello_was_answered() -> None:
    session = Session(Rules(), connected_at=1)
    session.receive(frame(messageType="hello"), NOW)
    assert not session.accept(message(1), None)


def test_what_was_refused_while_greeting_is_looked_for_afterwards() -> None:
    session = Session(Rules(), connected_at=1)
    (question,) = session.receive(frame(messageType="hello"), NOW)
    assert session.check_storage() == ()
    assert not session.accept(message(1), None)
    actions = session.answer(question, Greeting(UAID, 1, new=False), NOW)  # type: ignore[arg-type]
    assert isinstance(actions[-1], ReadStored)


def test_a_session_is_busy_at_max_unacked_and_looks_into_storage_when_it_is_not() -> None:
    session = subscribed(Rules(max_unacked=2))
    assert session.accept(message(1), None)
    assert session.accept(message(2), None)
    assert not session.accept(message(3), None)
    assert session.receive(ack(1), NOW) == [ReadStored(after=None)]


def test_max_unacked_1_allows_one_message_at_a_time() -> None:
    session = subscribed(Rules(max_unacked=1))
    assert session.accept(message(1), None)
    assert not session.accept(message(2), None)


def test_a_session_is_busy_while_its_output_is_stuck() -> None:
    session = subscribed()
    session.output_paused = True
    assert not session.accept(message(1), None)
    assert session.check_storage() == ()
    assert session.output_resumed() == [ReadStored(after=None)]


def test_output_that_resumes_without_a_reason_to_look_does_nothing() -> None:
    session = subscribed()
    session.output_paused = True
    assert session.output_resumed() == ()


# ── ack and nack ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "updates",
    [
        None,
        [],
        {},
        "x",
        [None],
        [3],
        [{}],
        [{"channelID": CHANNEL}],
        [{"version": "version-1"}],
        [{"channelID": OTHER, "version": "version-1"}],
        [{"channelID": CHANNEL, "version": ["version-1"]}],
        [{"channelID": CHANNEL, "version": "version-2"}],
    ],
)
def test_an_ack_that_fits_nothing_changes_nothing(updates: object) -> None:
    session = subscribed()
    session.accept(message(1), None)
    assert list(session.receive(frame(messageType="ack", updates=updates), NOW)) == []
    assert list(session.sent) == ["version-1"]


def test_bad_entries_of_an_ack_are_skipped_and_the_rest_counts() -> None:
    session = subscribed()
    session.accept(message(1), None)
    updates = [None, {"channelID": CHANNEL}, {"channelID": CHANNEL, "version": "version-1"}]
    session.receive(frame(messageType="ack", updates=updates), NOW)
    assert session.sent == {}


def test_a_nack_keeps_the_message() -> None:
    session = subscribed()
    session.accept(message(1), None)
    assert session.receive(frame(messageType="nack", version="version-1", code=301), NOW) == ()
    assert list(session.sent) == ["version-1"]


# ── storage ─────────────────────────────────────────────────────────────────────────────────────


def read_pages(session: Session, *pages: Batch) -> list[Action]:
    """Answer the session's reads in turn; returns the actions of the last answer."""
    actions: list[Action] = [ReadStored(after=None)]
    for page in pages:
        question = actions[-1]
        assert isinstance(question, ReadStored)
        actions = list(session.answer(question, page, NOW))
    return actions


FIRST = Batch([], "01:x", frozenset({CHANNEL}))


def test_a_pass_ends_with_the_last_page_and_another_may_begin() -> None:
    session = greeted(new=False)
    assert read_pages(session, FIRST) == [ReadStored(after="01:x")]
    assert read_pages(session, Batch([], None)) == []
    assert session.check_storage() == [ReadStored(after=None)]


def test_the_read_pointer_of_the_table_spares_what_lies_before_it() -> None:
    session = greeted(new=False)
    first = Batch([], f"02:5:{CHANNEL}", frozenset({CHANNEL}), read_to=77)
    assert read_pages(session, first) == [ReadStored(after="02:77:z")]


def test_the_read_pointer_spares_no_topic_message() -> None:
    session = greeted(new=False)
    first = Batch([], f"01:{CHANNEL}:a", frozenset({CHANNEL}), read_to=77)
    assert read_pages(session, first) == [ReadStored(after=f"01:{CHANNEL}:a")]


def test_the_read_pointer_spares_no_row_of_the_oldest_kind_either() -> None:
    session = greeted(new=False)
    first = Batch([], f"021{CHANNEL[3:]}:id", frozenset({CHANNEL}), read_to=77)
    assert read_pages(session, first) == [ReadStored(after=first.last)]


def test_a_message_before_the_read_pointer_is_neither_sent_nor_deleted() -> None:
    session = greeted(new=False)
    pointer = int(NOW) * MICROSECONDS + 1
    page = Batch([stored(1), stored(2)], None, frozenset({CHANNEL}), read_to=pointer)
    actions = read_pages(session, page)
    assert [m["version"] for m in sent(actions)] == ["version-2"]
    assert not any(isinstance(action, Forget) for action in actions)


def test_the_next_page_is_read_when_all_of_this_one_is_acked_in_any_grouping() -> None:
    session = greeted(new=False)
    page = Batch([stored(1), stored(2), stored(3)], "02:3", None)
    actions = read_pages(session, FIRST, page)
    assert [m["version"] for m in sent(actions)] == ["version-1", "version-2", "version-3"]
    rows = [entry.row for entry in page.messages]
    assert session.receive(ack(2), NOW) == [Forget([rows[1]])]
    forget, read = session.receive(ack(3, 1), NOW)
    assert forget == Forget([rows[2], rows[0]])
    assert read == ReadStored(after="02:3")


def test_what_is_acked_while_a_page_is_read_is_not_sent_from_that_page() -> None:
    session = greeted(new=False)
    (question,) = read_pages(session, FIRST)
    assert isinstance(question, ReadStored)
    direct = stored(1)
    session.accept(direct.notification, direct.row)
    assert session.receive(ack(1), NOW) == [Forget([direct.row])]
    actions = session.answer(question, Batch([direct, stored(2)], None), NOW)
    assert [m["version"] for m in sent(actions)] == ["version-2"]


def test_a_message_on_its_way_whose_row_turns_up_is_deleted_when_acked_and_not_saved() -> None:
    session = greeted(new=False)
    (question,) = read_pages(session, FIRST)
    assert isinstance(question, ReadStored)
    twin = stored(1)
    session.accept(twin.notification, None)
    session.answer(question, Batch([twin], None), NOW)
    assert session.receive(ack(1), NOW) == [Forget([twin.row])]


def test_what_is_on_its_way_already_is_not_sent_again_from_storage() -> None:
    session = greeted(new=False)
    (question,) = read_pages(session, FIRST)
    assert isinstance(question, ReadStored)
    direct = stored(1)
    session.accept(direct.notification, direct.row)
    actions = session.answer(question, Batch([direct, stored(2)], None), NOW)
    assert [m["version"] for m in sent(actions)] == ["version-2"]


def test_expired_messages_are_deleted_and_the_next_page_is_read_at_once() -> None:
    session = greeted(new=False)
    dead = [stored(number, ttl=0) for number in range(10)]
    actions = read_pages(session, FIRST, Batch(dead, "02:9"))
    assert actions == [
        Forget([entry.row for entry in dead]),
        ReadStored(after="02:9"),
    ]


def test_messages_of_an_unregistered_channel_are_deleted_not_delivered() -> None:
    session = greeted(new=False)
    lost = stored(1, channel=OTHER)
    actions = read_pages(session, FIRST, Batch([lost], None))
    assert actions == [Forget([lost.row])]


def test_a_check_asked_for_during_a_pass_starts_another_one_after_it() -> None:
    session = greeted(new=False)
    assert session.check_storage() == ()
    actions = read_pages(session, FIRST, Batch([], None))
    assert actions == [ReadStored(after=None)]


def test_an_old_record_is_dropped_when_its_messages_are_acked() -> None:
    session = greeted(new=False, reset=True)
    read_pages(session, FIRST, Batch([stored(1)], None))
    assert session.receive(ack(1), NOW)[-2:] == [DropUser(), Close(1000, "")]


def test_more_unacked_stored_messages_than_the_limit_reset_the_user() -> None:
    session = greeted(Rules(msg_limit=2), new=False)
    page = Batch([stored(1), stored(2), stored(3)], None)
    actions = read_pages(session, FIRST, page)
    assert [m["version"] for m in sent(actions)] == ["version-1", "version-2"]
    assert actions[-2:] == [DropUser(), Close(1000, "")]


def test_a_user_that_acks_is_never_reset_however_much_it_fetches() -> None:
    session = greeted(Rules(msg_limit=2), new=False)
    actions = read_pages(session, FIRST)
    for number in range(0, 40, 2):
        page = Batch([stored(number), stored(number + 1)], f"02:{number}")
        actions = list(session.answer(actions[-1], page, NOW))  # type: ignore[arg-type]
        assert len(sent(actions)) == 2
        actions = list(session.receive(ack(number, number + 1), NOW))
    assert session.state is State.ACTIVE


def test_a_failed_read_closes_so_that_the_user_agent_comes_back() -> None:
    session = greeted(new=False)
    assert session.fail(ReadStored(after=None), Failure.BROKEN) == [Close(1011, "try again")]


def test_a_read_in_an_overload_is_tried_again_after_5_to_59_s() -> None:
    session = greeted(new=False)
    (question,) = read_pages(session, FIRST)
    assert session.fail(question, Failure.OVERLOADED) == [Later((5, 59), Again.READING)]  # type: ignore[arg-type]
    assert session.check_storage() == ()
    assert session.take_up(Again.READING) == [question]
    assert read_pages(session, FIRST, Batch([stored(1)], None))


def test_while_a_read_waits_for_its_next_try_messages_flow_and_none_comes_twice() -> None:
    session = greeted(new=False)
    read_pages(session, FIRST)
    session.fail(ReadStored(after="01:x"), Failure.OVERLOADED)
    acked, unacked = stored(1), stored(2)
    for direct in (acked, unacked):
        assert session.accept(direct.notification, direct.row)
    assert session.receive(ack(1), NOW) == [Forget([acked.row])]
    (question,) = session.take_up(Again.READING)
    page = Batch([unacked, stored(3)], None)
    actions = session.answer(question, page, NOW)  # type: ignore[arg-type]
    assert [m["version"] for m in sent(actions)] == ["version-3"]


def test_a_message_table_that_is_gone_drops_the_user() -> None:
    session = greeted(new=False)
    assert session.fail(ReadStored(after=None), Failure.GONE) == [DropUser(), Close(1000, "")]
    assert session.take_up(Again.READING) == ()


# ── the end ─────────────────────────────────────────────────────────────────────────────────────


def test_the_farewell_hands_over_what_is_in_no_storage_and_tells_of_what_is() -> None:
    session = subscribed()
    session.accept(message(1), None)
    session.accept(message(2), Row("02:2:x", None))
    farewell = session.end()
    assert [lost.version for lost in farewell.unsaved] == ["version-1"]
    assert list(farewell.waiting) == [Row("02:2:x", None)]
    assert session.state is State.CLOSED


def test_a_second_farewell_is_empty() -> None:
    session = subscribed()
    session.accept(message(1), None)
    session.end()
    farewell = session.end()
    assert list(farewell.unsaved) == []
    assert list(farewell.waiting) == []


def test_answers_that_come_after_the_end_change_nothing() -> None:
    session = greeted(new=False)
    session.end()
    page = Batch([stored(1)], None, frozenset({CHANNEL}))
    assert session.answer(ReadStored(after=None), page, NOW) == ()
    assert session.fail(ReadStored(after=None), Failure.OVERLOADED) == ()
    assert session.sent == {}
