"""What sessions count, for their own line in the log and for the metrics."""

import json

import pytest

from autopush.protocol.effects import Identified, ReadStored, ReportNack, StoreFailure
from autopush.protocol.session import Session
from autopush.protocol.session_state import NOTHING_COUNTED, SessionCounts
from autopush.telemetry.metric_table import (
    UA_ACK,
    UA_CHANNEL_COUNT,
    UA_HELLO,
    UA_MESSAGE_DATA,
    UA_NACK,
    UA_NOTIFICATION_ACKED,
    UA_NOTIFICATION_SENT,
    UA_NOTIFICATION_TOPIC,
    UA_NOTIFICATION_UNUSABLE,
    UA_REGISTER,
    UA_UNREGISTER,
)
from autopush.telemetry.metrics import Metrics
from autopush.webpush.notification import VersionUpdate
from autopush.webpush.stored import StoredMessage, StoredPage
from support.recorded import new_metrics, recorded
from support.session_frames import (
    CHANNEL,
    NOW,
    UAID,
    ack,
    frame,
    identify,
    message,
    new_session,
    request_in,
    requested,
    stored,
)

OTHER_UAID = "f" * 32


@pytest.fixture
def metrics() -> Metrics:
    return new_metrics()


def identified(
    metrics: Metrics, *, presented: str | None = UAID, new: bool = False, **members: object
) -> Session:
    """A session that reads storage if the user is not new."""
    session = new_session(metrics=metrics)
    request = identify(session, uaid=presented, **members)
    session.on_result(request, Identified(OTHER_UAID if new else UAID, 1, new=new), NOW)
    return session


def read(
    session: Session, *messages: StoredMessage, channels: tuple[str, ...] = (CHANNEL,)
) -> None:
    page = StoredPage(messages, None, channels=frozenset(channels))
    session.on_result(ReadStored(None), page, NOW)


def subscribed(metrics: Metrics) -> Session:
    session = identified(metrics)
    read(session)
    return session


# ── hello ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("presented", "new", "uaid", "is_existing"),
    [
        (None, True, "new", False),
        (UAID, True, "reassigned", False),
        (UAID, False, "existing", True),
    ],
)
def test_a_hello_is_counted_by_what_became_of_the_uaid(
    metrics: Metrics, presented: str | None, new: bool, uaid: str, is_existing: bool
) -> None:
    session = identified(metrics, presented=presented, new=new)
    assert recorded(metrics, UA_HELLO) == recorded(metrics, UA_HELLO, uaid=uaid) == 1
    assert session.is_existing is is_existing


def test_the_channels_of_a_known_user_are_counted_once(metrics: Metrics) -> None:
    session = identified(metrics)
    read(session, channels=("a", "b", "c"))
    session.check_storage()
    read(session, channels=("a", "b", "c"))
    cells = metrics.shared.total(UA_CHANNEL_COUNT)
    assert (sum(cells[:-1]), cells[-1]) == (1, 3)


@pytest.mark.parametrize("use_webpush", [True, False])
def test_base_labels_are_those_of_the_user_agent_and_of_its_protocol(
    metrics: Metrics, use_webpush: bool
) -> None:
    session = new_session(metrics=metrics)
    session.kind = ("Linux", "Firefox", "True")
    hello = frame(messageType="hello", uaid=UAID, channelIDs=[], use_webpush=use_webpush)
    request = request_in(session.receive(hello, NOW))
    session.on_result(request, Identified(UAID, 1, new=False), NOW)
    labels = {"ua_os_family": "Linux", "ua_browser_family": "Firefox"}
    labels["use_webpush"] = str(use_webpush)
    assert recorded(metrics, UA_HELLO, **labels) == recorded(metrics, UA_HELLO) == 1


# ── channels ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "label"),
    [(None, "200"), (200, "200"), (202, "202"), (7, "other"), ("201", "200"), (True, "200")],
)
def test_registers_and_unregisters_are_counted_when_they_are_done(
    metrics: Metrics, code: object, label: str
) -> None:
    session = subscribed(metrics)
    request = requested(session, "register", channelID=CHANNEL)
    assert session.counts is NOTHING_COUNTED
    session.on_result(request, "https://push.example/wpush/v1/token", NOW)
    members = {"messageType": "unregister", "channelID": CHANNEL, "code": code}
    request = request_in(session.receive(frame(**members), NOW))
    assert session.counts == SessionCounts(registers=1)
    session.on_result(request, None, NOW)
    assert session.counts == SessionCounts(registers=1, unregisters=1)
    assert recorded(metrics, UA_REGISTER) == recorded(metrics, UA_UNREGISTER) == 1
    assert recorded(metrics, UA_UNREGISTER, code=label) == 1


def test_a_refused_register_is_not_counted(metrics: Metrics) -> None:
    session = subscribed(metrics)
    session.receive(frame(messageType="register", channelID="x"), NOW)
    session.receive(frame(messageType="unregister", channelID="x"), NOW)
    assert session.counts is NOTHING_COUNTED
    assert recorded(metrics, UA_REGISTER) == recorded(metrics, UA_UNREGISTER) == 0


# ── notifications ───────────────────────────────────────────────────────────────────────────────


def test_direct_and_stored_notifications_are_counted_apart(metrics: Metrics) -> None:
    session = identified(metrics)
    read(session, stored(1), stored(2), stored(3))
    session.accept(message(4), None)
    session.accept(message(5), stored(5).row)
    session.receive(ack(1, 4, 5), NOW)
    expected = SessionCounts(stored_retrieved=3, stored_acked=1, direct_acked=2)
    assert session.counts == expected
    session.receive(ack(1, 4, 99), NOW)
    session.receive(frame(messageType="ack"), NOW)
    assert session.counts == expected
    assert recorded(metrics, UA_ACK) == 3
    assert recorded(metrics, UA_NOTIFICATION_ACKED) == 3
    assert recorded(metrics, UA_NOTIFICATION_SENT, source="Stored") == 3
    assert recorded(metrics, UA_NOTIFICATION_SENT, source="Direct") == 2


def test_a_version_acked_twice_in_one_message_counts_once(metrics: Metrics) -> None:
    session = subscribed(metrics)
    session.accept(message(1), None)
    session.receive(ack(1, 1), NOW)
    assert session.counts.direct_acked == 1
    assert recorded(metrics, UA_NOTIFICATION_ACKED) == 1


@pytest.mark.parametrize("space", [", ", ","])
def test_an_ack_says_by_its_code_that_a_notification_could_not_be_used(
    metrics: Metrics, space: str
) -> None:
    session = subscribed(metrics)
    codes = [100, 101, 102, 101, None, "101", 1010, 101.0, True]
    updates: list[dict[str, object]] = []
    for number, code in enumerate(codes, 1):
        session.accept(message(number), None)
        updates.append({"channelID": CHANNEL, "version": message(number).version, "code": code})
    updates += [updates[1], updates[2] | {"version": "unknown"}]
    document = {"messageType": "ack", "updates": updates}
    session.receive(json.dumps(document, separators=(space, ": ")).encode(), NOW)
    assert recorded(metrics, UA_NOTIFICATION_ACKED) == len(codes)
    assert recorded(metrics, UA_NOTIFICATION_UNUSABLE, code="101") == 2
    assert recorded(metrics, UA_NOTIFICATION_UNUSABLE, code="102") == 1


def test_topics_and_data_of_notifications_are_counted(metrics: Metrics) -> None:
    session = subscribed(metrics)
    with_data = message(1)
    with_data.data = "QUJD"
    session.accept(with_data, None)
    session.accept(message(2, topic="news"), None)
    assert recorded(metrics, UA_MESSAGE_DATA, source="Direct") == 4
    assert recorded(metrics, UA_MESSAGE_DATA, source="Stored") == 0
    assert recorded(metrics, UA_NOTIFICATION_TOPIC) == 1
    assert recorded(metrics, UA_NOTIFICATION_SENT, topic="true") == 1
    assert recorded(metrics, UA_NOTIFICATION_SENT, topic="false") == 1


def test_versions_of_simplepush_have_no_topic(metrics: Metrics) -> None:
    session = identified(metrics, use_webpush=False)
    read(session)
    session.accept(VersionUpdate.of(UAID, CHANNEL, 5), None)
    assert recorded(metrics, UA_NOTIFICATION_TOPIC) == 0
    assert recorded(metrics, UA_NOTIFICATION_SENT, topic="false", source="Direct") == 1
    updates = [{"channelID": CHANNEL, "version": 5}]
    session.receive(frame(messageType="ack", updates=updates), NOW)
    assert session.counts.direct_acked == 1
    assert recorded(metrics, UA_ACK, use_webpush="False") == 1


# ── nack ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "reported", "label"),
    [
        (301, 301, "301"),
        (303, 303, "303"),
        (999, 999, "0"),
        (1000, None, "0"),
        (-1, None, "0"),
        (None, None, "0"),
        ("301", None, "0"),
        (True, None, "0"),
        (301.5, None, "0"),
    ],
)
def test_a_nack_is_reported_and_counted_by_its_code(
    metrics: Metrics, code: object, reported: int | None, label: str
) -> None:
    session = subscribed(metrics)
    session.accept(message(1), None)
    effects = session.receive(frame(messageType="nack", version="version-1", code=code), NOW)
    assert effects == [ReportNack("version-1", CHANNEL, reported)]
    assert session.counts == SessionCounts(nacks=1)
    assert recorded(metrics, UA_NACK) == recorded(metrics, UA_NACK, code=label) == 1


def test_a_nack_of_a_version_that_is_not_unacked_names_no_channel(metrics: Metrics) -> None:
    session = subscribed(metrics)
    assert session.receive(frame(messageType="nack", version="x", code=301), NOW) == [
        ReportNack("x", None, 301)
    ]


def test_a_nack_in_simplepush_has_a_number(metrics: Metrics) -> None:
    session = identified(metrics, use_webpush=False)
    assert session.receive(frame(messageType="nack", version=5), NOW) == [
        ReportNack("5", None, None)
    ]


@pytest.mark.parametrize("version", [None, True, -1, 2**63, 1.5, [], {}])
def test_a_nack_without_a_version_is_ignored(metrics: Metrics, version: object) -> None:
    session = subscribed(metrics)
    assert session.receive(frame(messageType="nack", version=version, code=301), NOW) == ()
    assert session.counts is NOTHING_COUNTED
    assert recorded(metrics, UA_NACK) == 0


# ── the end ─────────────────────────────────────────────────────────────────────────────────────


def test_what_is_left_of_direct_messages_counts_wherever_it_is_kept(metrics: Metrics) -> None:
    session = identified(metrics)
    read(session, stored(1))
    session.accept(message(2), None)
    session.accept(message(3), stored(3).row)
    session.accept(message(4, topic="t"), None)
    session.accept(message(5, topic="t"), None)  # supersedes the one before
    session.accept(message(6, ttl=0), None)
    undelivered = session.on_closed()
    assert undelivered.direct == 3
    assert [lost.version for lost in undelivered.unsaved] == ["version-2", "version-5"]
    assert len(undelivered.stored) == 2
    assert session.on_closed().direct == 0


def test_a_new_user_that_is_dropped_is_no_existing_one(metrics: Metrics) -> None:
    session = identified(metrics, presented=None, new=True)
    session.on_failure(ReadStored(None), StoreFailure.TABLE_GONE)
    assert session.is_reset
    assert session.is_reset
