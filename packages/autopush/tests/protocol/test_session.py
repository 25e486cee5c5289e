"""The rules of a session, one test each: frames and store results in, effects out."""

from collections.abc import Sequence

import pytest

from autopush.net.websocket import WebSocketProtocol
from autopush.protocol.broadcasts import Broadcasts
from autopush.protocol.effects import (
    CheckRecord,
    Close,
    DeleteMessages,
    DropReason,
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
    TooOften,
    Unsubscribe,
    UserChange,
)
from autopush.protocol.messages import decode
from autopush.protocol.session import Session, SessionSettings
from autopush.protocol.states import State
from autopush.webpush.identifiers import hash_secret
from autopush.webpush.stored import Row, StoredMessage, StoredPage
from support.cases import cases
from support.senders import Sender
from support.session_frames import (
    CHANNEL,
    MICROSECONDS,
    NOW,
    OTHER,
    UAID,
    ack,
    frame,
    identify,
    message,
    new_session,
    request_in,
    requested,
    sent,
    stored,
)

RESET = Close(1000, "user reset")
OTHER_UAID = "f" * 32


MAX_MESSAGE = WebSocketProtocol.max_message


def identified(
    rules: SessionSettings | None = None, *, new: bool = True, reset: bool = False
) -> Session:
    session = new_session(rules, connected_at=int(NOW * 1000))
    request = identify(session)
    session.on_result(request, Identified(UAID, int(NOW * 1000), new=new, reset=reset), NOW)
    return session


def subscribed(rules: SessionSettings | None = None) -> Session:
    session = identified(rules)
    request = requested(session, "register", channelID=CHANNEL)
    session.on_result(request, "https://push.example/wpush/v1/token", NOW)
    return session


# ── hello ───────────────────────────────────────────────────────────────────────────────────────


def test_hello_is_answered_with_the_five_members_and_env() -> None:
    session = new_session(SessionSettings(env="testing"))
    request = identify(session)
    assert request == Identify(UAID)
    (reply,) = session.on_result(request, Identified(UAID, 5, new=True), NOW)
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


@cases("uaid", ["", None, 7, [], UAID.upper(), f"{UAID}0", "é" * 32, True])
def test_a_uaid_of_the_wrong_form_or_type_counts_as_none(uaid: object) -> None:
    session = new_session()
    assert session.receive(frame(messageType="hello", use_webpush=True, uaid=uaid), NOW) == [
        Identify(None)
    ]


def test_a_known_user_gets_the_reply_before_storage_is_read() -> None:
    session = new_session()
    request = identify(session)
    reply, read = session.on_result(request, Identified(UAID, 5, new=False), NOW)
    assert isinstance(reply, Send)
    assert read == ReadStored(after=None)


def test_the_hello_reply_has_the_ping_interval_if_there_is_one() -> None:
    session = new_session(SessionSettings(auto_ping_interval=300))
    request = identify(session)
    assert sent(session.on_result(request, Identified(UAID, 5, new=True), NOW))[0]["ping"] == 300


def with_broadcasts(
    broadcasts: Broadcasts, wanted: object, **hello: object
) -> tuple[Session, dict[str, object]]:
    """An identified session, and its hello reply."""
    session = new_session(broadcasts=broadcasts)
    request = identify(session, broadcasts=wanted, **hello)
    (reply,) = sent(session.on_result(request, Identified(UAID, 5, new=True), NOW))
    return session, reply


def subscribe(session: Session, wanted: object) -> list[dict[str, object]]:
    """What is answered to a `broadcast_subscribe`."""
    return sent(session.receive(frame(messageType="broadcast_subscribe", broadcasts=wanted), NOW))


def test_changed_broadcasts_are_sent_in_place_of_the_next_ping_only() -> None:
    broadcasts = Broadcasts({"a/b": "1", "c/d": "1"})
    session, _ = with_broadcasts(broadcasts, {"a/b": "1"})
    assert session.on_ping_due() == ()
    broadcasts.update({"a/b": "2", "c/d": "2"})
    assert sent(session.on_ping_due()) == [{"messageType": "broadcast", "broadcasts": {"a/b": "2"}}]
    assert session.on_ping_due() == ()


def test_broadcast_subscribe_is_answered_only_if_there_is_something_to_say() -> None:
    broadcasts = Broadcasts({"a/b": "1", "c/d": "1"})
    session, _ = with_broadcasts(broadcasts, None)
    assert subscribe(session, {"a/b": "1"}) == []
    assert subscribe(session, {"c/d": "0", "x/y": "0"}) == [
        {
            "messageType": "broadcast",
            "broadcasts": {"c/d": "1", "errors": {"x/y": "Broadcast not found"}},
        }
    ]
    broadcasts.update({"a/b": "2", "c/d": "2"})
    assert subscribe(session, {"c/d": "2"}) == [
        {"messageType": "broadcast", "broadcasts": {"a/b": "2"}}
    ]
    assert session.on_ping_due() == ()


def test_broadcasts_wait_while_the_user_agent_does_not_read() -> None:
    broadcasts = Broadcasts({"a/b": "1"})
    session, _ = with_broadcasts(broadcasts, {"a/b": "1"})
    broadcasts.update({"a/b": "2"})
    session.output_paused = True
    assert session.on_ping_due() == ()
    session.output_resumed()
    assert len(session.on_ping_due()) == 1


def test_a_user_agent_of_simplepush_has_no_broadcasts() -> None:
    broadcasts = Broadcasts({"a/b": "1"})
    session, reply = with_broadcasts(broadcasts, {"a/b": "0"}, use_webpush=False)
    assert "broadcasts" not in reply
    (answer,) = subscribe(session, {"a/b": "0"})
    assert answer["broadcasts"] == {"errors": {"a/b": "Broadcast not found"}}
    broadcasts.update({"a/b": "2"})
    assert session.on_ping_due() == ()


def test_a_second_hello_is_refused_with_the_uaid_and_the_session_goes_on() -> None:
    session = identified()
    (reply,) = sent(session.receive(frame(messageType="hello", use_webpush=True, uaid=""), NOW))
    assert (reply["status"], reply["uaid"], reply["reason"]) == (401, UAID, "duplicate hello")
    assert session.state is State.ACTIVE


@pytest.mark.parametrize(
    "refused",
    [
        frame(messageType="hello", use_webpush=True),
        frame(messageType="register"),
        frame(messageType="register", channelID=CHANNEL, key="?"),
        frame(messageType="unregister", channelID="x"),
    ],
)
def test_every_refusal_leads_to_its_explanation(refused: bytes) -> None:
    page = "https://push.example/errors#errors-websocket"
    session = identified(SessionSettings(more_info=page))
    (reply,) = sent(session.receive(refused, NOW))
    assert reply["status"] in (400, 401)
    assert reply["more_info"] == page


@pytest.mark.parametrize(
    "payload", [b"{}", frame(messageType="ping"), frame(messageType="register", channelID=CHANNEL)]
)
def test_anything_before_hello_closes(payload: bytes) -> None:
    session = new_session()
    assert session.receive(payload, NOW) == [Close(1008, "hello expected")]
    assert session.state is State.CLOSED


def test_a_failed_hello_closes_without_a_reply() -> None:
    session = new_session()
    request = identify(session)
    assert session.on_failure(request, StoreFailure.BROKEN) == [Close(1011, "try again")]


def test_a_hello_in_an_overload_closes_without_a_reply_after_a_pause_of_4_to_8_s() -> None:
    session = new_session()
    request = identify(session)
    assert session.on_failure(request, StoreFailure.OVERLOADED) == [
        SetTimer((4, 8), TimerReason.CLOSE)
    ]
    assert session.state is State.IDENTIFYING
    assert session.on_timer(TimerReason.CLOSE, NOW) == [Close(1013, "try again")]


def test_a_hello_that_waits_for_the_store_at_the_hello_timeout_is_closed_4_to_8_s_later() -> None:
    session = new_session()
    session.receive(frame(messageType="hello", use_webpush=True), NOW)
    assert session.on_hello_timeout() == [SetTimer((4, 8), TimerReason.CLOSE)]
    assert session.on_timer(TimerReason.CLOSE, NOW) == [Close(1013, "try again")]


def test_a_hello_that_the_store_answers_before_its_close_continues() -> None:
    session = new_session()
    request = identify(session)
    session.on_hello_timeout()
    session.on_result(request, Identified("a" * 32, 1, new=True), NOW)
    assert session.on_timer(TimerReason.CLOSE, NOW) == ()
    assert session.on_hello_timeout() == ()
    assert session.state is State.ACTIVE


# ── frames that cannot be understood ────────────────────────────────────────────────────────────


@cases(
    "payload", [b"", b"nonsense", b"[]", b"3", b'"hello"', b"null", b'{"messageType":', b"[" * 5000]
)
def test_a_frame_that_is_not_a_json_object_closes_1008(payload: bytes) -> None:
    (effect,) = identified().receive(payload, NOW)
    assert isinstance(effect, Close)
    assert effect.code == 1008


@cases("kind", ["Hello", "notification", "", 7, None, {}])
def test_an_unknown_message_type_closes_1008(kind: object) -> None:
    (effect,) = identified().receive(frame(messageType=kind, other=1), NOW)
    assert effect == Close(1008, "unknown messageType")


def test_a_binary_frame_closes_1003() -> None:
    assert identified().receive_binary() == [Close(1003, "text frames only")]


def test_frames_after_the_close_are_ignored() -> None:
    session = identified()
    session.receive_binary()
    assert session.receive(b"nonsense", NOW) == ()
    assert session.receive(b"{}", NOW) == ()


# ── urgency ─────────────────────────────────────────────────────────────────────────────────────

URGENCY_SET = {"messageType": "urgency", "status": 200}


def filtered(min_urgency: str) -> Session:
    """A subscribed session with that filter."""
    session = subscribed()
    set_urgency(session, min_urgency)
    return session


def set_urgency(session: Session, min_urgency: str) -> Sequence[Effect]:
    """What follows the answer."""
    request = requested(session, "urgency", min=min_urgency)
    assert request == SetUrgency(min_urgency)
    answer, *others = session.on_result(request, True, NOW)
    assert sent([answer]) == [URGENCY_SET]
    return others


def test_urgency_as_it_is_already_is_answered_at_once() -> None:
    session = subscribed()
    assert sent(session.receive(frame(messageType="urgency", min="very-low"), NOW)) == [URGENCY_SET]
    assert session.state is State.ACTIVE


@cases("least", [None, "", "High", "medium", 3, ["high"], {}])
def test_an_unknown_urgency_is_refused_and_changes_nothing(least: object) -> None:
    session = filtered("low")
    (reply,) = sent(session.receive(frame(messageType="urgency", min=least), NOW))
    assert (reply["messageType"], reply["status"]) == ("urgency", 400)
    assert (session.state, session.min_urgency) == (State.ACTIVE, "low")


def test_an_urgency_that_cannot_be_recorded_is_503_and_changes_nothing() -> None:
    session = subscribed()
    request = requested(session, "urgency", min="high")
    (reply,) = sent(session.on_failure(request, StoreFailure.BROKEN))
    assert (reply["messageType"], reply["status"]) == ("urgency", 503)
    assert session.accept(message(1, urgency="low"), None)


def test_too_many_changes_of_the_urgency_are_429() -> None:
    session = subscribed()
    request = requested(session, "urgency", min="high")
    assert isinstance(request, SetUrgency)
    (reply,) = sent(session.on_refused(request, TooOften("too many", 1.2)))
    assert (reply["messageType"], reply["status"], reply["retry_after"]) == ("urgency", 429, 2)
    assert session.state is State.ACTIVE


def test_an_urgency_of_a_user_that_another_connection_has_closes_this_one() -> None:
    session = subscribed()
    request = requested(session, "urgency", min="high")
    assert session.on_result(request, False, NOW) == [Close(1000, "replaced")]


def test_what_is_below_the_urgency_is_not_accepted_and_everything_else_is() -> None:
    session = filtered("normal")
    accepted = [
        session.accept(message(number, urgency=urgency), None)
        for number, urgency in enumerate(["very-low", "low", "normal", "high"])
    ]
    assert accepted == [False, False, True, True]


def test_a_message_of_a_topic_is_stored_first_as_it_may_replace_one_below_the_urgency() -> None:
    session, news = filtered("low"), message(1, topic="news", urgency="high")
    assert not session.accept(news, None)
    assert session.accept(news, Row(news.sort_key, None))
    assert subscribed().accept(news, None)


def test_storage_is_not_read_for_what_is_below_the_urgency() -> None:
    session = filtered("normal")
    assert session.check_storage("low") == ()
    assert session.check_storage("normal") == [ReadStored(None)]


def test_storage_is_read_when_the_urgency_falls_and_not_when_it_rises() -> None:
    session = filtered("high")
    assert set_urgency(session, "low") == [ReadStored(None)]
    session.on_result(ReadStored(None), StoredPage((), None), NOW)
    assert set_urgency(session, "normal") == []


def test_what_is_expired_below_the_urgency_is_deleted() -> None:
    session = filtered("normal")
    read = request_in(session.check_storage())
    old = stored(1, urgency="low", ttl=0)
    assert session.on_result(read, StoredPage([old], None), NOW) == [DeleteMessages([old.row])]


def test_one_page_of_stored_messages_begins_with_the_most_urgent() -> None:
    session = subscribed()
    read = request_in(session.check_storage())
    given = ["low", "high", "normal", "very-low", "high", "normal"]
    rows = [stored(number, urgency=urgency) for number, urgency in enumerate(given)]
    urgencies = frozenset({"low", "high", "very-low"})
    page = StoredPage(rows, None, frozenset([CHANNEL]), urgencies=urgencies)
    order = [text["version"] for text in sent(session.on_result(read, page, NOW))]
    assert order == [f"version-{number}" for number in (1, 4, 2, 5, 0, 3)]


def test_a_hello_brings_the_urgency_and_its_answer_says_what_is_in_effect() -> None:
    for wanted, recorded, effective in [
        ("high", "very-low", "high"),
        ("very-low", "high", None),
        (None, "low", "low"),
        ("hurry", "low", "low"),
        (7, "very-low", None),
    ]:
        session = new_session()
        request = identify(session, urgency=wanted)
        result = Identified(UAID, 5, new=False, min_urgency=recorded)
        (reply,) = sent(session.on_result(request, result, NOW))
        assert reply.get("urgency") == effective
        assert session.min_urgency == (effective or "very-low")


def hello_with(secret: object, **members: object) -> tuple[Session, Identify]:
    session = new_session()
    return session, identify(session, secret=secret, **members)


@cases(
    ("secret", "wants_secret", "secret_hash"),
    [
        *((other, False, "") for other in (None, False, 0, 1, ["x"], {"a": "x"})),
        (True, True, ""),
        ("", True, hash_secret("")),
        ("x", True, hash_secret("x")),
    ],
)
def test_a_hello_that_has_a_secret_or_true_wants_one_with_a_new_uaid(
    secret: object, wants_secret: bool, secret_hash: str
) -> None:
    _, request = hello_with(secret)
    assert (request.wants_secret, request.secret_hash) == (wants_secret, secret_hash)


def test_the_hello_reply_has_the_secret_of_a_new_uaid_and_a_second_one_has_not() -> None:
    session, request = hello_with(True)
    result = Identified(OTHER_UAID, 5, new=True, secret="s3cret")
    (reply,) = sent(session.on_result(request, result, NOW))
    assert (reply["uaid"], reply["secret"]) == (OTHER_UAID, "s3cret")
    (again,) = sent(session.receive(frame(messageType="hello", secret=True), NOW))
    assert (again["status"], "secret" in again) == (401, False)


def test_simplepush_sends_its_secret_and_gets_none() -> None:
    _, request = hello_with("x", use_webpush=False, channelIDs=[])
    assert (request.is_simplepush, request.wants_secret) == (True, False)
    assert request.secret_hash == hash_secret("x")


def test_no_repr_has_a_secret() -> None:
    _, request = hello_with("s3cret")
    message = decode(frame(messageType="hello", secret="s3cret"))
    for each in (message, request, Identified(UAID, 5, new=True, secret="s3cret")):
        assert "s3cret" not in repr(each)


def test_simplepush_has_no_urgency() -> None:
    session = new_session()
    request = identify(session, use_webpush=False, urgency="high", channelIDs=[])
    (reply,) = sent(session.on_result(request, Identified(UAID, 5, new=True), NOW))
    assert "urgency" not in reply
    (refusal,) = sent(session.receive(frame(messageType="urgency", min="high"), NOW))
    assert (refusal["messageType"], refusal["status"]) == ("urgency", 400)


# ── ping ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("payload", [b"{}", b" { } ", frame(messageType="ping")])
def test_a_ping_is_answered_with_an_empty_object(payload: bytes) -> None:
    assert identified().receive(payload, NOW) == [Send(b"{}"), CheckRecord()]


def test_pings_less_than_55_seconds_apart_close_4774() -> None:
    session = identified()
    session.receive(b"{}", NOW)
    assert session.receive(b"{}", NOW + 55)[0] == Send(b"{}")
    (effect,) = session.receive(b"{}", NOW + 109)
    assert isinstance(effect, Close)
    assert effect.code == 4774


def test_a_clock_that_jumps_back_does_not_make_a_ping_too_early() -> None:
    session = identified()
    session.receive(b"{}", NOW)
    assert session.receive(b"{}", NOW - 3600)[0] == Send(b"{}")


# ── register and unregister ─────────────────────────────────────────────────────────────────────


def test_register_subscribes_the_channel_and_is_answered_with_its_endpoint() -> None:
    session = identified()
    sender = Sender()
    request = requested(session, "register", channelID=CHANNEL, key=sender.key_text)
    assert request == Subscribe(CHANNEL, sender.point)
    assert session.state is State.UPDATING
    assert sent(session.on_result(request, "https://e", NOW)) == [
        {
            "messageType": "register",
            "channelID": CHANNEL,
            "pushEndpoint": "https://e",
            "status": 200,
        }
    ]
    assert session.channels == (CHANNEL,)
    assert str(session.state) == str(State.ACTIVE)


@cases(
    ("kind", "members", "reason"),
    [
        ("register", {}, "Missing ChannelID"),
        *[
            ("register", {"channelID": channel}, "Bad UUID format, use lower case, dashed format")
            for channel in (CHANNEL.replace("5", "A"), CHANNEL.replace("-", ""))
        ],
        *[
            ("register", {"channelID": channel}, "Invalid UUID specified")
            for channel in ("nonsense", None, 17, [CHANNEL])
        ],
        ("unregister", {}, "Missing ChannelID"),
        *[("unregister", {"channelID": each}, "Invalid ChannelID") for each in (None, 5, "x")],
    ],
)
def test_a_bad_channel_id_is_refused_with_401_and_echoed_if_it_is_text(
    kind: str, members: dict[str, object], reason: str
) -> None:
    session = identified()
    (reply,) = sent(session.receive(frame(messageType=kind, **members), NOW))
    assert (reply["messageType"], reply["status"], reply["reason"]) == (kind, 401, reason)
    channel = members.get("channelID")
    assert reply.get("channelID") == (channel if isinstance(channel, str) else None)
    assert session.state is State.ACTIVE


@cases("key", ["af1883%&!@#*(", "abcd", "A" * 44, 7, ["AQID"], {"k": 1}])
def test_register_refuses_an_unusable_key_with_400_and_the_channel(key: object) -> None:
    effects = identified().receive(frame(messageType="register", channelID=CHANNEL, key=key), NOW)
    (reply,) = sent(effects)
    assert (reply["status"], reply["channelID"]) == (400, CHANNEL)


def test_register_answers_503_when_the_store_fails_and_the_session_goes_on() -> None:
    session = identified()
    request = requested(session, "register", channelID=CHANNEL)
    (reply,) = sent(session.on_failure(request, StoreFailure.OVERLOADED))
    assert (reply["status"], reply["channelID"], reply["reason"]) == (503, CHANNEL, "overloaded")
    assert session.state is State.ACTIVE
    assert session.channels == ()


def test_unregister_accepts_any_spelling_and_echoes_it() -> None:
    session = subscribed()
    request = requested(session, "unregister", channelID=CHANNEL.upper())
    assert request == Unsubscribe(CHANNEL, CHANNEL.upper())
    (reply,) = sent(session.on_result(request, None, NOW))
    assert reply == {"messageType": "unregister", "channelID": CHANNEL.upper(), "status": 200}
    assert session.channels == ()


def test_unregister_deletes_the_unacked_messages_of_the_channel() -> None:
    session = subscribed()
    first = message(1)
    session.accept(first, Row(first.sort_key, None))
    request = requested(session, "unregister", channelID=CHANNEL)
    _, delete = session.on_result(request, None, NOW)
    assert delete == DeleteMessages([Row(first.sort_key, None)])
    assert session.unacked == {}


def test_register_refuses_a_channel_beyond_the_limit_but_not_a_known_one() -> None:
    session = subscribed(SessionSettings(max_channels=1))
    (reply,) = sent(session.receive(frame(messageType="register", channelID=OTHER), NOW))
    assert (reply["status"], reply["reason"]) == (400, "too many channels")
    assert session.receive(frame(messageType="register", channelID=CHANNEL), NOW) == [
        Subscribe(CHANNEL, None)
    ]


# ── direct delivery ─────────────────────────────────────────────────────────────────────────────


def test_a_message_with_ttl_0_is_not_tracked() -> None:
    session = subscribed()
    assert session.accept(message(1, ttl=0), None)
    assert session.unacked == {}


def test_a_message_refused_before_the_hello_reply_is_read_from_storage_after_it() -> None:
    session = new_session()
    request = identify(session)
    assert session.check_storage() == ()
    assert not session.accept(message(1), None)
    effects = session.on_result(request, Identified(UAID, 1, new=False), NOW)
    assert isinstance(effects[-1], ReadStored)


@pytest.mark.parametrize("most", [1, 2])
def test_a_session_is_busy_at_max_unacked_and_then_reads_storage_after_an_ack(most: int) -> None:
    session = subscribed(SessionSettings(max_unacked=most))
    for number in range(most):
        assert session.accept(message(number), None)
    assert not session.accept(message(9), None)
    assert session.receive(ack(0), NOW) == [ReadStored(None)]


def test_a_session_is_busy_while_its_output_is_paused() -> None:
    session = subscribed()
    session.output_paused = True
    assert not session.accept(message(1), None)
    assert session.check_storage() == ()
    assert session.output_resumed() == [ReadStored(after=None)]


# ── ack and nack ────────────────────────────────────────────────────────────────────────────────


@cases(
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
def test_an_ack_that_names_no_unacked_message_changes_nothing(updates: object) -> None:
    session = subscribed()
    session.accept(message(1), None)
    assert list(session.receive(frame(messageType="ack", updates=updates), NOW)) == []
    assert list(session.unacked) == ["version-1"]


def test_malformed_entries_of_an_ack_are_skipped() -> None:
    session = subscribed()
    session.accept(message(1), None)
    updates = [None, {"channelID": CHANNEL}, {"channelID": CHANNEL, "version": "version-1"}]
    session.receive(frame(messageType="ack", updates=updates), NOW)
    assert session.unacked == {}


# ── storage ─────────────────────────────────────────────────────────────────────────────────────


def read_pages(session: Session, *pages: StoredPage) -> Sequence[Effect]:
    """Answer the session's reads one after the other; returns the effects of the last result."""
    effects: Sequence[Effect] = [ReadStored(after=None)]
    for page in pages:
        effects = session.on_result(request_in(effects[-1:]), page, NOW)
    return effects


FIRST = StoredPage([], "01:x", frozenset({CHANNEL}))


@pytest.mark.parametrize(
    ("last", "after"),
    [
        pytest.param(f"02:5:{CHANNEL}", "02:77:z", id="a row before it"),
        pytest.param(f"01:{CHANNEL}:a", f"01:{CHANNEL}:a", id="a topic"),
        pytest.param(f"021{CHANNEL[3:]}:id", f"021{CHANNEL[3:]}:id", id="one of the oldest kind"),
    ],
)
def test_the_read_pointer_skips_rows_with_a_time_before_it_and_no_others(
    last: str, after: str
) -> None:
    session = identified(new=False)
    first = StoredPage([], last, frozenset({CHANNEL}), read_to=77)
    assert read_pages(session, first) == [ReadStored(after=after)]


def test_a_message_before_the_read_pointer_is_neither_sent_nor_deleted() -> None:
    session = identified(new=False)
    pointer = int(NOW) * MICROSECONDS + 1
    page = StoredPage([stored(1), stored(2)], None, frozenset({CHANNEL}), read_to=pointer)
    effects = read_pages(session, page)
    assert [m["version"] for m in sent(effects)] == ["version-2"]
    assert not any(isinstance(effect, DeleteMessages) for effect in effects)


def test_the_next_page_is_read_when_this_one_is_acked_in_any_order_and_grouping() -> None:
    session = identified(new=False)
    page = StoredPage([stored(1), stored(2), stored(3)], "02:3", None)
    effects = read_pages(session, FIRST, page)
    assert [m["version"] for m in sent(effects)] == ["version-1", "version-2", "version-3"]
    rows = [entry.row for entry in page.messages]
    assert session.receive(ack(2), NOW) == [DeleteMessages([rows[1]])]
    delete, read = session.receive(ack(3, 1), NOW)
    assert delete == DeleteMessages([rows[2], rows[0]])
    assert read == ReadStored(after="02:3")


OVERDUE = SetTimer((30.0, 30.0), TimerReason.OVERDUE)


def versions(effects: Sequence[Effect]) -> list[object]:
    return [message["version"] for message in sent(effects)]


def request_effects(effects: Sequence[Effect]) -> list[Effect]:
    return [effect for effect in effects if not isinstance(effect, DeleteMessages)]


def ten(first: int) -> list[StoredMessage]:
    return [stored(number) for number in range(first, first + 10)]


@pytest.mark.parametrize("acked", [range(1, 10), range(0)], ids=["nine of ten", "none"])
def test_what_is_unacked_after_30_s_holds_back_no_other_page(acked: range) -> None:
    session = identified(new=False)
    effects = read_pages(session, FIRST, StoredPage(ten(0), "02:9"))
    assert effects[-1] == OVERDUE
    assert not request_effects(session.receive(ack(*acked), NOW))
    unacked = [f"version-{number}" for number in range(10) if number not in acked]
    assert session.on_timer(TimerReason.OVERDUE, NOW + 30) == [ReadStored("02:9")]
    effects = session.on_result(ReadStored("02:9"), StoredPage(ten(10), "02:19"), NOW + 30)
    assert effects[-1] == OVERDUE
    # What is overdue does not count: the next page is read when all others are acked.
    assert request_effects(session.receive(ack(*range(10, 20)), NOW)) == [ReadStored("02:19")]
    assert session.on_result(ReadStored("02:19"), StoredPage([], None), NOW) == []
    assert (list(session.unacked), session.drain) == (unacked, None)
    # A further pass does not send it again, and its ack still deletes it.
    assert session.check_storage() == [ReadStored(None)]
    assert versions(read_pages(session, StoredPage([stored(0), stored(30)], None))) == [
        "version-30"
    ]
    assert session.receive(ack(0), NOW) == [DeleteMessages([stored(0).row])]
    assert request_effects(session.receive(ack(30), NOW)) == []
    assert session.check_storage() == [ReadStored(None)], "the pass was over"
    rows = [stored(number).row for number in range(1, 10) if number not in acked]
    assert list(session.on_closed().stored) == rows


def test_a_page_has_a_timer_only_while_it_is_unacked_and_more_is_stored() -> None:
    session = identified(new=False)
    effects = read_pages(session, FIRST, StoredPage([stored(1), stored(2)], None))
    assert not any(isinstance(effect, SetTimer) for effect in effects)
    assert session.check_storage() == [OVERDUE]
    assert session.check_storage() == ()
    assert session.receive(ack(1), NOW) == [DeleteMessages([stored(1).row])]
    assert session.on_timer(TimerReason.OVERDUE, NOW) == [ReadStored(None)]
    assert session.on_timer(TimerReason.OVERDUE, NOW) == ()


def test_the_timer_of_an_acked_page_has_no_effect_on_the_next_one() -> None:
    session = identified(new=False)
    read_pages(session, FIRST, StoredPage([stored(1)], "02:1"))
    session.receive(ack(1), NOW)
    assert session.on_timer(TimerReason.OVERDUE, NOW) == ()
    effects = session.on_result(ReadStored("02:1"), StoredPage([stored(2)], None), NOW)
    assert versions(effects) == ["version-2"]
    assert session.on_timer(TimerReason.OVERDUE, NOW) == ()
    assert session.drain is not None


@pytest.mark.parametrize("direct", [0, 1])
def test_past_what_is_overdue_no_more_is_unacked_than_max_unacked(direct: int) -> None:
    session = identified(SessionSettings(max_unacked=15), new=False)
    read_pages(session, FIRST, StoredPage(ten(0), "02:9"))
    if direct:
        assert session.accept(message(90), None)
    session.on_timer(TimerReason.OVERDUE, NOW)
    page = StoredPage(ten(10), None)
    effects = session.on_result(ReadStored("02:9"), page, NOW)
    most = 15 - direct
    assert versions(effects) == [f"version-{number}" for number in range(10, most)]
    assert len(session.unacked) == 15
    assert not session.accept(message(91), None)
    assert session.on_timer(TimerReason.OVERDUE, NOW) == ()
    assert session.output_resumed() == ()
    # One ack makes room for one more, of the same page.
    delete, read = session.receive(ack(0), NOW)
    assert (delete, read) == (DeleteMessages([stored(0).row]), ReadStored("02:9"))
    assert versions(session.on_result(ReadStored("02:9"), page, NOW)) == [f"version-{most}"]


def test_while_output_is_paused_no_page_is_read_past_what_is_overdue() -> None:
    session = identified(new=False)
    read_pages(session, FIRST, StoredPage([stored(1)], "02:1"))
    session.output_paused = True
    assert session.on_timer(TimerReason.OVERDUE, NOW) == ()
    assert session.output_resumed() == [ReadStored("02:1")]


def test_an_old_record_is_not_dropped_while_a_message_is_overdue() -> None:
    session = identified(new=False, reset=True)
    read_pages(session, FIRST, StoredPage([stored(1)], "02:1"))
    session.on_timer(TimerReason.OVERDUE, NOW)
    assert session.on_result(ReadStored("02:1"), StoredPage([], None), NOW) == []
    assert session.receive(ack(1), NOW)[-1] == ReadStored(None)
    assert read_pages(session, StoredPage([], None)) == [
        DropUser(DropReason.OLD_RECORD_VERSION),
        RESET,
    ]


def test_what_is_overdue_does_not_count_against_msg_limit() -> None:
    session = identified(SessionSettings(msg_limit=10), new=False)
    read_pages(session, FIRST, StoredPage(ten(0), "02:9"))
    session.on_timer(TimerReason.OVERDUE, NOW)
    effects = session.on_result(ReadStored("02:9"), StoredPage(ten(10), None), NOW)
    assert len(versions(effects)) == 10
    assert session.state is State.ACTIVE


def test_an_unacked_message_whose_row_is_read_is_deleted_when_acked() -> None:
    session = identified(new=False)
    request = request_in(read_pages(session, FIRST))
    copy = stored(1)
    session.accept(copy.notification, None)
    session.on_result(request, StoredPage([copy], None), NOW)
    assert session.receive(ack(1), NOW) == [DeleteMessages([copy.row])]


def test_expired_messages_are_deleted_and_the_next_page_is_read_at_once() -> None:
    session = identified(new=False)
    dead = [stored(number, ttl=0) for number in range(10)]
    effects = read_pages(session, FIRST, StoredPage(dead, "02:9"))
    assert effects == [DeleteMessages([entry.row for entry in dead]), ReadStored(after="02:9")]


def test_stored_messages_of_an_unsubscribed_channel_are_deleted_and_not_sent() -> None:
    session = identified(new=False)
    lost = stored(1, channel=OTHER)
    read_later = StoredPage([lost], None, frozenset({CHANNEL}))
    assert read_pages(session, FIRST, read_later) == [DeleteMessages([lost.row])]


def test_no_row_is_deleted_by_a_list_of_channels_that_is_older_than_it() -> None:
    session = identified(new=False)
    assert read_pages(session, FIRST, StoredPage([stored(1, channel=OTHER)], None)) == []
    assert not session.unacked


def test_what_was_registered_before_a_page_is_read_is_as_the_page_says() -> None:
    session = identified(new=False)
    register = requested(session, "register", channelID=OTHER)
    session.on_result(register, "https://push.example/wpush/v1/token", NOW)
    read_pages(session, FIRST, StoredPage([], None))
    session.check_storage()
    read_pages(session, StoredPage([], None, frozenset({CHANNEL})))
    assert session.channels == (CHANNEL,)


def test_what_is_registered_while_a_page_is_read_is_not_as_the_page_says() -> None:
    session = identified(new=False)
    register = requested(session, "register", channelID=OTHER)
    session.on_result(register, "https://push.example/wpush/v1/token", NOW)
    unregister = requested(session, "unregister", channelID=CHANNEL)
    session.on_result(unregister, None, NOW)
    page = StoredPage([stored(1, channel=OTHER), stored(2)], None, frozenset({CHANNEL}))
    assert versions(read_pages(session, page)) == ["version-1"]
    assert session.channels == (OTHER,)


def test_an_old_record_is_dropped_when_its_messages_are_acked() -> None:
    session = identified(new=False, reset=True)
    read_pages(session, FIRST, StoredPage([stored(1)], None))
    assert session.receive(ack(1), NOW)[-2:] == [DropUser(DropReason.OLD_RECORD_VERSION), RESET]


def test_more_unacked_stored_messages_than_the_limit_reset_the_user() -> None:
    session = identified(SessionSettings(msg_limit=2), new=False)
    page = StoredPage([stored(1), stored(2), stored(3)], None)
    effects = read_pages(session, FIRST, page)
    assert [m["version"] for m in sent(effects)] == ["version-1", "version-2"]
    assert effects[-2:] == [DropUser(DropReason.TOO_MANY_MESSAGES), RESET]


def test_a_user_that_acks_is_never_reset_however_much_is_stored() -> None:
    session = identified(SessionSettings(msg_limit=2), new=False)
    effects = read_pages(session, FIRST)
    for number in range(0, 40, 2):
        page = StoredPage([stored(number), stored(number + 1)], f"02:{number}")
        effects = session.on_result(request_in(effects[-1:]), page, NOW)
        assert len(sent(effects)) == 2
        effects = session.receive(ack(number, number + 1), NOW)
    assert session.state is State.ACTIVE


@pytest.mark.parametrize(
    ("failure", "effects"),
    [
        (StoreFailure.BROKEN, [Close(1011, "try again")]),
        (StoreFailure.TABLE_GONE, [DropUser(DropReason.NO_MESSAGE_TABLE), RESET]),
    ],
)
def test_a_failed_read_closes_so_that_the_user_agent_reconnects(
    failure: StoreFailure, effects: list[Effect]
) -> None:
    session = identified(new=False)
    assert session.on_failure(ReadStored(after=None), failure) == effects
    assert session.on_timer(TimerReason.RETRY_READ, NOW) == ()


def test_a_read_in_an_overload_is_retried_after_5_to_59_s() -> None:
    session = identified(new=False)
    request = request_in(read_pages(session, FIRST))
    assert session.on_failure(request, StoreFailure.OVERLOADED) == [
        SetTimer((5, 59), TimerReason.RETRY_READ)
    ]
    assert session.check_storage() == ()
    assert session.on_timer(TimerReason.RETRY_READ, NOW) == [request]
    assert read_pages(session, FIRST, StoredPage([stored(1)], None))


# ── the end ─────────────────────────────────────────────────────────────────────────────────────


def test_on_closed_returns_unsaved_messages_and_the_rows_of_stored_ones() -> None:
    session = subscribed()
    session.accept(message(1), None)
    session.accept(message(2), Row("02:2:x", None))
    undelivered = session.on_closed()
    assert [lost.version for lost in undelivered.unsaved] == ["version-1"]
    assert list(undelivered.stored) == [Row("02:2:x", None)]
    assert session.state is State.CLOSED


def test_of_unsaved_messages_of_one_topic_only_the_newest_is_returned() -> None:
    session = subscribed()
    for number, topic in enumerate(("news", "mail", "news")):
        session.accept(message(number, topic=topic), None)
    assert [lost.version for lost in session.on_closed().unsaved] == ["version-1", "version-2"]


def test_a_second_on_closed_returns_nothing() -> None:
    session = subscribed()
    session.accept(message(1), None)
    session.on_closed()
    undelivered = session.on_closed()
    assert list(undelivered.unsaved) == []
    assert list(undelivered.stored) == []


def test_results_that_come_after_the_close_are_ignored() -> None:
    session = identified(new=False)
    session.on_closed()
    page = StoredPage([stored(1)], None, frozenset({CHANNEL}))
    assert session.on_result(ReadStored(after=None), page, NOW) == ()
    assert session.on_failure(ReadStored(after=None), StoreFailure.OVERLOADED) == ()
    assert session.unacked == {}


# ── too much at once ────────────────────────────────────────────────────────────────────────────


def filled(before: str, value: str, after: str, number: int = 100_000) -> bytes:
    """A message of up to 64 KiB with that value in it as often as it fits."""
    room = MAX_MESSAGE - len(before) - len(after)
    number = min(number, room // (len(value) + 1))
    return (before + ",".join([value] * number) + after).encode()


ACK = '{"messageType":"ack","updates":['


@cases(
    "payload",
    [
        filled(ACK, "{}", "]}"),
        filled(ACK, '{"version":""}', "]}"),
        filled(ACK, "0", "]}"),
        filled('{"x":[', "[]", "]}"),
        filled("{", '"x":0', "}"),
        filled('{"messageType":"broadcast_subscribe","broadcasts":{', '"x":0', "}}"),
        b'{"x":' + 30_000 * b"[" + 30_000 * b"]" + b"}",
    ],
)
def test_a_message_of_too_many_values_is_not_read(payload: bytes) -> None:
    assert identified().receive(payload, NOW) == [Close(1008, "too many values")]


def test_an_ack_of_as_many_messages_as_fit_into_one_is_read() -> None:
    session = subscribed(SessionSettings(max_unacked=1000))
    updates = []
    size = len(ack())
    for number in range(1000):
        notification = message(number)
        update = {"channelID": CHANNEL, "version": notification.version, "code": 100}
        size += len(frame(**update)) + 2
        if size > MAX_MESSAGE:
            break
        assert session.accept(notification, None)
        updates.append(update)
    assert len(updates) > 500
    session.receive(frame(messageType="ack", updates=updates), NOW)
    assert session.unacked == {}


@pytest.mark.parametrize("kind", ["register", "unregister"])
def test_a_refused_registration_changes_nothing_and_input_goes_on(kind: str) -> None:
    session = subscribed(SessionSettings(more_info="https://page"))
    request = requested(session, kind, channelID=OTHER)
    assert isinstance(request, UserChange)
    assert sent(session.on_refused(request, TooOften("too many", 1.2))) == [
        {
            "messageType": kind,
            "status": 429,
            "channelID": OTHER,
            "reason": "too many",
            "retry_after": 2,
            "more_info": "https://page",
        }
    ]
    assert session.state is State.ACTIVE
    assert session.channels == (CHANNEL,)


def test_messages_that_ack_nothing_sent_are_counted() -> None:
    session = subscribed()
    before = session.counted_messages
    for number, ttl in enumerate([60, 0]):
        session.accept(message(number, ttl=ttl), None)
    session.receive(ack(0), NOW)
    session.receive(ack(1), NOW)
    assert session.counted_messages == before
    session.receive(ack(0), NOW)
    session.receive(b"{}", NOW)
    assert session.counted_messages == before + 2
