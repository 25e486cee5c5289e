"""The rules of a SimplePush session: frames and store results in, effects out."""

from collections.abc import Sequence

import pytest

from autopush.protocol.effects import (
    Close,
    DeleteMessages,
    Effect,
    Identified,
    Identify,
    ReadStored,
    SetTimer,
    StoreFailure,
    Subscribe,
    TimerReason,
    Unsubscribe,
)
from autopush.protocol.session import Session, SessionSettings
from autopush.protocol.simplepush import read_wake_data
from autopush.protocol.states import State
from autopush.webpush.notification import VersionUpdate
from autopush.webpush.stored import Row, StoredMessage, StoredPage
from support.cases import cases
from support.session_frames import (
    CHANNEL,
    NOW,
    OTHER,
    UAID,
    frame,
    new_session,
    request_in,
    requested,
    sent,
)

HOST = {"ip": "192.0.2.7", "port": 4711}
NETWORK = {"mcc": "310", "mnc": "26", "netid": "home"}
WAKE_DATA = {"ip": "192.0.2.7", "port": "4711", **NETWORK}
FIRST_READ = ReadStored(None)


def update(number: int, channel: str = CHANNEL, data: str | None = None) -> VersionUpdate:
    return VersionUpdate.of(UAID, channel, number, data)


def row(number: int, channel: str = CHANNEL) -> Row:
    return Row(channel, f"{channel}:{number}")


def page(*updates: VersionUpdate, last: str | None = None) -> StoredPage:
    messages = [StoredMessage(Row(each.channel_id, each.version), each) for each in updates]
    return StoredPage(messages, last)


def ack(*versions: object, channel: object = CHANNEL) -> bytes:
    updates = [{"channelID": channel, "version": version} for version in versions]
    return frame(messageType="ack", updates=updates)


def hello(
    rules: SessionSettings | None = None, **members: object
) -> tuple[Session, Sequence[Effect]]:
    session = new_session(rules)
    message = frame(messageType="hello", uaid=UAID, channelIDs=[], **members)
    return session, session.receive(message, NOW)


def identified(
    rules: SessionSettings | None = None, *, new: bool = True, **members: object
) -> Session:
    session, effects = hello(rules, **members)
    session.on_result(request_in(effects), Identified(UAID, 5, new=new), NOW)
    return session


def reading(*updates: VersionUpdate, last: str | None = None) -> tuple[Session, Sequence[Effect]]:
    """A session that has read that page first, and the effects."""
    session = identified(new=False)
    return session, session.on_result(FIRST_READ, page(*updates, last=last), NOW)


def accept(session: Session, *numbers: int) -> None:
    for number in numbers:
        assert session.accept(update(number), None)


# ── hello ───────────────────────────────────────────────────────────────────────────────────────


@cases(
    ("members", "is_simplepush"),
    [
        *[({"use_webpush": value}, True) for value in (False, 0, "")],
        *[({"channelIDs": channels}, True) for channels in ([], [CHANNEL], "anything")],
        *[({"use_webpush": value, "channelIDs": []}, False) for value in (True, 1, "yes")],
    ],
)
def test_a_hello_without_a_true_use_webpush_is_one_of_simplepush(
    members: dict[str, object], is_simplepush: bool
) -> None:
    session = new_session(connected_at=5)
    effects = session.receive(frame(messageType="hello", uaid=UAID, **members), NOW)
    assert effects == [Identify(UAID, is_simplepush=is_simplepush)]
    assert (session.simplepush is not None) is is_simplepush


@cases("members", [{}, {"use_webpush": None}, {"channelIDs": None}])
@cases("rules", [SessionSettings(), SessionSettings(simplepush=False)])
def test_a_hello_with_neither_use_webpush_nor_channels_is_web_push_as_kde_sends_it(
    rules: SessionSettings, members: dict[str, object]
) -> None:
    session = new_session(rules, 5)
    effects = session.receive(frame(messageType="hello", uaid=UAID, **members), NOW)
    assert effects == [Identify(UAID)]
    assert session.simplepush is None


def test_the_reply_has_neither_use_webpush_nor_broadcasts() -> None:
    session, effects = hello(SessionSettings(auto_ping_interval=300), broadcasts={"a": "1"})
    (reply,) = sent(session.on_result(request_in(effects), Identified(UAID, 5, new=True), NOW))
    assert reply == {
        "messageType": "hello",
        "uaid": UAID,
        "status": 200,
        "env": "development",
        "ping": 300,
    }


def test_a_version_that_is_not_acked_in_time_holds_back_no_other_page() -> None:
    session, _ = reading(update(5), update(7, OTHER), last=OTHER)
    session.receive(ack(7, channel=OTHER), NOW)
    assert session.on_timer(TimerReason.OVERDUE, NOW) == [ReadStored(OTHER)]
    assert session.on_result(ReadStored(OTHER), page(), NOW) == []
    assert session.receive(ack(5), NOW) == [DeleteMessages([row(5)])]


def test_a_second_hello_is_refused_without_use_webpush_and_the_session_goes_on() -> None:
    session = identified()
    (reply,) = sent(session.receive(frame(messageType="hello", use_webpush=True), NOW))
    assert (reply["status"], reply["uaid"], reply["reason"]) == (401, UAID, "duplicate hello")
    assert "use_webpush" not in reply
    assert session.state is State.ACTIVE


def test_with_simplepush_disabled_the_hello_is_refused_and_the_socket_closed() -> None:
    session, effects = hello(SessionSettings(simplepush=False))
    (reply,) = sent(effects)
    assert (reply["messageType"], reply["status"]) == ("hello", 401)
    assert reply["reason"] == "Simplepush not supported"
    assert "uaid" not in reply
    assert effects[1:] == [Close(1000)]
    assert session.state is State.CLOSED
    _, effects = hello(SessionSettings(simplepush=False), use_webpush=True)
    assert effects == [Identify(UAID)]


def test_a_failed_hello_is_told_before_the_close() -> None:
    session, effects = hello()
    effects = session.on_failure(request_in(effects), StoreFailure.BROKEN)
    (reply,) = sent(effects)
    assert (reply["status"], reply["reason"]) == (503, "error")
    assert effects[1:] == [Close(1011, "try again")]


def test_a_hello_in_an_overload_is_told_after_a_pause() -> None:
    session, effects = hello()
    wait = session.on_failure(request_in(effects), StoreFailure.OVERLOADED)
    assert wait == [SetTimer((4, 8), TimerReason.CLOSE)]
    effects = session.on_timer(TimerReason.CLOSE, NOW)
    (reply,) = sent(effects)
    assert (reply["status"], reply["reason"]) == (503, "error - overloaded")
    assert effects[1:] == [Close(1013, "try again")]


# ── channels ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("new", [True, False])
def test_every_channel_counts_as_subscribed_also_after_an_unregister(new: bool) -> None:
    session = identified(new=new)
    request = requested(session, "unregister", channelID=CHANNEL)
    assert request == Unsubscribe(CHANNEL, CHANNEL)
    session.on_result(request, None, NOW)
    assert session.channels is not None
    assert CHANNEL in session.channels


def test_register_asks_for_an_endpoint_and_has_no_limit() -> None:
    session = identified(SessionSettings(max_channels=1))
    for channel in (CHANNEL, OTHER):
        request = requested(session, "register", channelID=channel)
        assert request == Subscribe(channel, None)
        (reply,) = sent(session.on_result(request, "https://e", NOW))
        assert (reply["status"], reply["pushEndpoint"]) == (200, "https://e")


def test_an_unregister_forgets_what_was_sent_for_the_channel() -> None:
    session, _ = reading(update(3), update(4, OTHER))
    request = requested(session, "unregister", channelID=CHANNEL)
    effects = session.on_result(request, None, NOW)
    assert effects[1:] == [DeleteMessages([row(3)])]
    assert list(session.unacked) == [f"{OTHER}:4"]


# ── delivery and acks ───────────────────────────────────────────────────────────────────────────


def test_all_stored_versions_are_sent_in_one_notification() -> None:
    _, effects = reading(update(3), update(2**60, OTHER))
    assert sent(effects) == [
        {
            "messageType": "notification",
            "updates": [
                {"channelID": CHANNEL, "version": 3},
                {"channelID": OTHER, "version": 2**60},
            ],
        }
    ]


def test_msg_limit_does_not_apply() -> None:
    session = identified(SessionSettings(msg_limit=1), new=False)
    effects = session.on_result(FIRST_READ, page(update(3), update(4, OTHER)), NOW)
    assert len(effects) == 1
    assert len(session.unacked) == 2


def test_a_stored_version_is_not_sent_when_a_newer_one_was_and_is_deleted_with_its_ack() -> None:
    session = identified(new=False)
    accept(session, 7)
    effects = session.on_result(FIRST_READ, page(update(5)), NOW)
    assert effects == []
    assert session.receive(ack(7), NOW) == [DeleteMessages([row(5)])]
    assert not session.unacked


def test_a_stored_version_that_was_sent_directly_is_not_sent_again_but_deleted_with_its_ack() -> (
    None
):
    session = identified(new=False)
    accept(session, 7)
    assert sent(session.on_result(FIRST_READ, page(update(7)), NOW)) == []
    assert session.receive(ack(7), NOW) == [DeleteMessages([row(7)])]


def test_a_version_is_outdated_by_an_unacked_one_that_is_not_lower() -> None:
    session = identified()
    accept(session, 7)
    assert session.is_outdated(update(7))
    assert session.is_outdated(update(6))
    assert not session.is_outdated(update(8))
    assert not session.is_outdated(update(6, OTHER))
    session.receive(ack(7), NOW)
    assert not session.is_outdated(update(6))


def test_an_ack_covers_all_lower_versions_of_its_channel_only() -> None:
    session = identified()
    accept(session, 5, 6, 9)
    assert session.accept(update(6, OTHER), row(6, OTHER))
    assert session.receive(ack(8), NOW) == []
    assert list(session.unacked) == [f"{CHANNEL}:9", f"{OTHER}:6"]
    assert session.receive(ack(2**70, channel=OTHER), NOW) == [DeleteMessages([row(6, OTHER)])]


NO_UPDATES: list[object] = [3, None, {}, [], [None], ["x"], [{}], [[]]]
NO_HIGHER_NUMBERS: list[object] = ["5", 5.0, True, None, [5], {}, 4, -5]
OTHER_CHANNELS: list[object] = [None, 3, [], {}, CHANNEL.replace("-", ""), OTHER]


@cases(
    "message",
    [
        *[frame(messageType="ack", updates=updates) for updates in NO_UPDATES],
        *map(ack, NO_HIGHER_NUMBERS),
        *[ack(5, channel=channel) for channel in OTHER_CHANNELS],
    ],
)
def test_an_ack_that_names_nothing_unacked_is_passed_over(message: bytes) -> None:
    session = identified()
    accept(session, 5)
    assert session.receive(message, NOW) == []
    assert session.unacked


def test_an_ack_with_broken_entries_covers_what_the_others_name() -> None:
    session = identified()
    accept(session, 5)
    updates = [None, {"version": 5}, {"channelID": CHANNEL, "version": 5}]
    session.receive(frame(messageType="ack", updates=updates), NOW)
    assert not session.unacked


def test_of_what_is_unacked_at_the_end_only_the_newest_version_has_to_be_saved() -> None:
    session = identified()
    accept(session, 5, 6)
    assert session.accept(update(1, OTHER), row(1, OTHER))
    undelivered = session.on_closed()
    assert undelivered.unsaved == [update(6)]
    assert undelivered.stored == [row(1, OTHER)]


# ── waking ──────────────────────────────────────────────────────────────────────────────────────


def test_wake_data_is_passed_on_with_the_hello_and_the_first_register() -> None:
    session, effects = hello(wakeup_host=HOST, mobilenetwork=NETWORK)
    assert effects == [Identify(UAID, is_simplepush=True, wake_data=WAKE_DATA)]
    session.on_result(request_in(effects), Identified(UAID, 5, new=True), NOW)
    request = requested(session, "register", channelID=CHANNEL)
    assert request == Subscribe(CHANNEL, None, WAKE_DATA)


@cases(
    ("host", "network", "data"),
    [
        (HOST, NETWORK, WAKE_DATA),
        (HOST, None, {**WAKE_DATA, "mcc": "", "mnc": "", "netid": ""}),
        (HOST, {"mcc": 310, "other": 1}, {**WAKE_DATA, "mcc": "310", "mnc": "", "netid": ""}),
        (
            {"ip": "2001:db8::1", "port": "80"},
            NETWORK,
            {**WAKE_DATA, "ip": "2001:db8::1", "port": "80"},
        ),
        (None, NETWORK, None),
        ("192.0.2.7:4711", NETWORK, None),
        ({"ip": "192.0.2.7"}, NETWORK, None),
        ({"port": 4711}, NETWORK, None),
        ({"ip": "example.com", "port": 4711}, NETWORK, None),
        ({"ip": 3221225991, "port": 4711}, NETWORK, None),
        ({"ip": ["192.0.2.7"], "port": 4711}, NETWORK, None),
        ({"ip": "fe80::1%eth0\n" + "x" * 999, "port": 4711}, NETWORK, None),
        ({"ip": "192.0.2.7", "port": 0}, NETWORK, None),
        ({"ip": "192.0.2.7", "port": 65536}, NETWORK, None),
        ({"ip": "192.0.2.7", "port": -1}, NETWORK, None),
        ({"ip": "192.0.2.7", "port": True}, NETWORK, None),
        ({"ip": "192.0.2.7", "port": "80 "}, NETWORK, None),
        (HOST, {"netid": "x" * 65}, None),
        (HOST, {"netid": "a\nb"}, None),
    ],
)
def test_wake_data_is_what_a_device_can_have_or_nothing(
    host: object, network: object, data: dict[str, str] | None
) -> None:
    assert read_wake_data(host, network) == data


def waking(seconds: float = 30.0) -> tuple[Session, Sequence[Effect]]:
    session, effects = hello(SessionSettings(wake_timeout=seconds), wakeup_host=HOST)
    result = Identified(UAID, 5, new=True)
    return session, session.on_result(request_in(effects), result, NOW + 1)


def test_an_idle_device_is_disconnected_after_the_timeout() -> None:
    session, effects = waking()
    assert effects[1:] == [SetTimer((29, 29), TimerReason.IDLE)]
    session.receive(b"{}", NOW + 20)
    assert session.on_timer(TimerReason.IDLE, NOW + 30) == [SetTimer((20, 20), TimerReason.IDLE)]
    assert session.on_timer(TimerReason.IDLE, NOW + 50) == [Close(4774, "UDP Idle")]


def test_without_timeout_or_wake_data_no_one_is_disconnected() -> None:
    _, effects = waking(0)
    assert len(effects) == 1
    session, effects = hello(SessionSettings(wake_timeout=30))
    assert len(session.on_result(request_in(effects), Identified(UAID, 5, new=True), NOW)) == 1
    session, effects = hello(SessionSettings(wake_timeout=30), use_webpush=True, wakeup_host=HOST)
    assert len(session.on_result(request_in(effects), Identified(UAID, 5, new=True), NOW)) == 1
