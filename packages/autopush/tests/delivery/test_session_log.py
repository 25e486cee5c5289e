"""The lines about sessions, from the socket to the log, and what is counted beside them."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from autopush.delivery.session_log import Clients, SessionLog, reason_of_client
from autopush.net.client_limits import TOO_MUCH
from autopush.protocol.effects import DropReason, ReportNack, Unsubscribe
from autopush.store.messages import row_of
from autopush.telemetry.logs import LINES_PER_SECOND
from autopush.telemetry.metric_table import (
    UA_ALREADY_CONNECTED,
    UA_EXPIRATION,
    UA_LIFESPAN,
    UA_NOTIFICATION_CHECK,
)
from autopush.webpush.identifiers import message_id_hash
from autopush.webpush.notification import VersionUpdate
from support import wire
from support.cases import cases
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, OTHER, UAID, Harness, UserAgent
from support.log_lines import LogFile
from support.recorded import recorded

FIREFOX = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.13; rv:61.0) Gecko/20100101 Firefox/61.0"


@pytest.fixture
def log(tmp_path: Path) -> LogFile:
    return LogFile(tmp_path)


def hashed(uaid: str) -> str:
    return sha256(uaid.encode()).hexdigest()


def session_line(log: LogFile) -> dict[str, Any]:
    (fields,) = log.fields("Session")
    return fields


# ── Session ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_connection_that_had_a_uaid_leaves_one_line_with_all_fields(
    harness: Harness, log: LogFile
) -> None:
    agent = harness.connect(FIREFOX, "push.example:8080")
    agent.hello()
    await harness.run_until_idle()
    agent.register()
    agent.register(OTHER)
    await harness.run_until_idle()
    agent.received()
    for _ in range(2):
        assert agent.connection.deliver(harness.message(agent.uaid), None)
    first, _ = agent.received()
    agent.ack(first)
    agent.send_json(messageType="nack", version="x", code=301)
    agent.send_json(messageType="unregister", channelID=OTHER, code=201)
    await harness.pass_time(12.5)
    agent.disconnect()
    await harness.run_until_idle()
    assert session_line(log) == {
        "uaid_hash": hashed(agent.uaid),
        "uaid_reset": False,
        "existing_uaid": False,
        "connection_type": "webpush",
        "host": "push.example:8080",
        "ua_name": "Firefox",
        "ua_category": "desktop",
        "ua_os_family": "Mac OS X",
        "ua_os_ver": "10.13",
        "ua_browser_family": "Firefox",
        "ua_browser_ver": "61.0",
        "connection_time": 12.5,
        "direct_acked": 1,
        "direct_storage": 1,
        "stored_retrieved": 0,
        "stored_acked": 0,
        "nacks": 1,
        "registers": 2,
        "unregisters": 1,
        "disconnect_reason": "connection lost",
        "close_code": 1006,
    }
    cells = harness.metrics.shared.total(UA_LIFESPAN)
    assert sum(cells) == 13.5  # one in a bucket, and the sum


async def test_with_a_key_hash_logs_and_store_have_the_same_hash(log: LogFile) -> None:
    harness = await Harness.open(key_hash="secret")
    agent = await harness.subscribed()
    (stored,) = harness.users()
    agent.disconnect()
    await harness.run_until_idle()
    assert session_line(log)["uaid_hash"] == stored != hashed(agent.uaid)


async def test_without_an_answered_hello_there_is_no_line(harness: Harness, log: LogFile) -> None:
    await harness.known_user()
    silent, waiting, wrong = harness.connect(), harness.connect(), harness.connect()
    waiting.hello(UAID)  # its store does not answer before it is gone
    wrong.send(wire.text(b"[]"))
    for agent in (silent, waiting, wrong):
        agent.disconnect()
    await harness.run_until_idle()
    assert log.text == ""
    assert sum(harness.metrics.shared.total(UA_LIFESPAN)) == 0


async def test_a_known_user_and_what_it_had_stored(harness: Harness, log: LogFile) -> None:
    await harness.known_user()
    for _ in range(2):
        await harness.store_message()
    agent = await harness.hello()
    _, first, _ = agent.received()
    agent.ack(first)
    await harness.run_until_idle()
    agent.disconnect()
    await harness.run_until_idle()
    line = session_line(log)
    assert (line["existing_uaid"], line["uaid_reset"]) == (True, False)
    assert (line["stored_retrieved"], line["stored_acked"]) == (2, 1)
    assert (line["direct_acked"], line["direct_storage"]) == (0, 0)


@pytest.mark.parametrize("stored_first", [False, True])
async def test_a_direct_message_that_is_not_acked_is_in_storage_afterwards(
    harness: Harness, log: LogFile, stored_first: bool
) -> None:
    agent = await harness.subscribed()
    message = harness.message(agent.uaid)
    row = row_of(message)
    if stored_first:
        await harness.store.current.store(message)
    assert agent.connection.deliver(message, row if stored_first else None)
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.stored_versions() == [message.version]
    assert session_line(log)["direct_storage"] == 1


async def test_sessions_of_simplepush(harness: Harness, log: LogFile) -> None:
    first = await harness.subscribed(use_webpush=False)
    assert first.connection.deliver(VersionUpdate.of(first.uaid, CHANNEL, 5), None)
    first.disconnect()
    await harness.run_until_idle()
    second = await harness.hello(first.uaid, use_webpush=False)
    second.send_json(messageType="ack", updates=[{"channelID": CHANNEL, "version": 5}])
    await harness.run_until_idle()
    second.disconnect()
    third = await harness.hello(first.uaid, use_webpush=False)
    third.disconnect()
    await harness.run_until_idle()
    lines = log.fields("Session")
    assert {line["connection_type"] for line in lines} == {"simplepush"}
    names = ("direct_acked", "direct_storage", "stored_retrieved", "stored_acked")
    counted = [tuple(line[name] for name in names) for line in lines]
    assert counted == [(0, 1, 0, 0), (0, 0, 1, 1), (0, 0, 0, 0)]


# ── why a connection ended ──────────────────────────────────────────────────────────────────────


@cases(
    ("code", "reason"),
    [
        (1000, "closed by the client"),
        (1001, "closed by the client"),
        (4000, "closed by the client"),
        (1002, "protocol error"),
        (1009, "protocol error"),
        (1006, "connection lost"),
        (1013, TOO_MUCH),
    ],
)
def test_the_reason_of_a_connection_that_the_session_did_not_end(code: int, reason: str) -> None:
    assert reason_of_client(code) == reason


async def ended(harness: Harness, log: LogFile) -> tuple[str, int]:
    """Reason and code of the only session that has ended."""
    await harness.run_until_idle()
    line = session_line(log)
    return line["disconnect_reason"], line["close_code"]


@pytest.mark.parametrize(
    ("sent", "reason", "code"),
    [
        (wire.close(1001, b"secret"), "closed by the client", 1001),
        (wire.text(b"secret"), "not JSON", 1008),
        (wire.text(b"{}") * 2, "pinged too often", 4774),
    ],
    ids=["close", "nonsense", "pings"],
)
async def test_why_a_client_was_closed_is_logged_and_nothing_that_it_said(
    harness: Harness, log: LogFile, sent: bytes, reason: str, code: int
) -> None:
    agent = await harness.identified()
    agent.send(sent)
    assert await ended(harness, log) == (reason, code)
    assert "secret" not in log.text


async def test_a_connection_that_is_replaced(harness: Harness, log: LogFile) -> None:
    await harness.known_user()
    first = await harness.identified(UAID)
    await harness.hello(UAID)
    assert await ended(harness, log) == ("replaced", 1000)
    first.disconnect()  # the socket ends later than the session
    assert await ended(harness, log) == ("replaced", 1000)


async def test_a_client_that_does_not_answer_a_ping(log: LogFile) -> None:
    harness = await Harness.open(auto_ping_interval=300)
    await harness.identified()
    await harness.pass_time(301.1)
    await harness.pass_time(5)
    assert await ended(harness, log) == ("no pong", 1006)


async def test_a_node_that_stops(harness: Harness, log: LogFile) -> None:
    await harness.identified()
    await harness.node.shutdown(1)
    assert await ended(harness, log) == ("going away", 1001)


async def test_a_user_that_is_reset(harness: Harness, log: LogFile) -> None:
    await harness.known_user()
    harness.change_record(record_version=0)
    await harness.hello()
    assert await ended(harness, log) == ("user reset", 1000)
    assert session_line(log)["uaid_reset"] is True
    assert dropped(harness, log, DropReason.OLD_RECORD_VERSION) is None


# ── users that are dropped ──────────────────────────────────────────────────────────────────────


def dropped(harness: Harness, log: LogFile, reason: DropReason) -> object:
    """The code of the only user that was dropped, for that reason."""
    (line,) = log.fields("Dropping User")
    code = line.pop("code", None)
    assert line == {"uaid_hash": hashed(UAID), "reason": reason.value}
    metrics = harness.metrics
    assert recorded(metrics, UA_EXPIRATION) == 1
    assert recorded(metrics, UA_EXPIRATION, reason=reason.value) == 1
    return code


@pytest.mark.parametrize(
    ("changed", "hello", "reason", "code"),
    [
        ({"connected_at": None}, {}, DropReason.INCOMPLETE_RECORD, 104),
        ({"current_month": None}, {}, DropReason.NO_MESSAGE_TABLE, 105),
        ({"current_month": "message_2011_01"}, {}, DropReason.NO_MESSAGE_TABLE, 105),
        ({"router_type": None}, {}, DropReason.INCOMPLETE_RECORD, 104),
        ({"router_type": "simplepush"}, {}, DropReason.ROUTER_TYPE_CHANGED, 102),
        ({}, {"use_webpush": False}, DropReason.ROUTER_TYPE_CHANGED, 102),
    ],
)
async def test_a_user_of_an_unusable_record_is_dropped_and_gets_a_new_uaid(
    harness: Harness,
    log: LogFile,
    changed: dict[str, str | None],
    hello: dict[str, object],
    reason: DropReason,
    code: int,
) -> None:
    await harness.known_user()
    harness.change_record(**changed)
    agent = await harness.identified(UAID, **hello)
    assert dropped(harness, log, reason) == code
    assert agent.uaid != UAID
    assert harness.users() == []
    agent.register()
    await harness.run_until_idle()
    assert harness.users() == [agent.uaid]


async def test_too_many_messages(log: LogFile) -> None:
    harness = await Harness.open(msg_limit=2)
    await harness.known_user()
    for _ in range(3):
        await harness.store_message()
    await harness.hello()
    assert dropped(harness, log, DropReason.TOO_MANY_MESSAGES) is None


# ── single messages ─────────────────────────────────────────────────────────────────────────────


async def test_registers_and_unregisters_are_logged_when_they_are_done(
    harness: Harness, log: LogFile
) -> None:
    agent = await harness.identified()
    agent.register()
    assert log.fields("Register") == []
    await harness.run_until_idle()
    for code in ({}, {"code": 202}):
        agent.send_json(messageType="unregister", channelID=CHANNEL.upper(), **code)
        await harness.run_until_idle()
    line = {"uaid_hash": hashed(agent.uaid), "channel_id": CHANNEL}
    assert log.fields("Register") == [line]
    assert log.fields("Unregister") == [line, {**line, "code": 202}]


async def test_a_register_that_ends_after_its_session_is_not_logged(
    harness: Harness, log: LogFile
) -> None:
    agent = await harness.identified()
    agent.register()
    agent.disconnect()
    await harness.run_until_idle()
    assert session_line(log)["registers"] == 0
    assert log.fields("Register") == []


async def test_the_contents_of_a_nack_are_logged_and_the_message_stays(
    harness: Harness, log: LogFile
) -> None:
    agent = await harness.subscribed()
    message = await harness.store_message(agent.uaid)
    assert agent.connection.deliver(message, row_of(message))
    agent.send_json(messageType="nack", version=message.version, code=302)
    agent.send_json(messageType="nack", version="unknown")
    assert log.fields("Nack") == [
        {
            "uaid_hash": hashed(agent.uaid),
            "message_id_hash": message_id_hash(message.version),
            "channel_id": CHANNEL,
            "code": 302,
        },
        {"uaid_hash": hashed(agent.uaid), "message_id_hash": message_id_hash("unknown")},
    ]
    await harness.run_until_idle()
    assert list(agent.connection.session.unacked) == harness.stored_versions() == [message.version]


async def test_a_check_of_storage_is_counted_when_it_starts(harness: Harness) -> None:
    agent = await harness.subscribed()
    agent.connection.check_storage()
    agent.connection.check_storage()  # one is running
    assert recorded(harness.metrics, UA_NOTIFICATION_CHECK) == 1


async def test_a_hello_that_another_connection_interferes_with_is_counted(harness: Harness) -> None:
    await harness.known_user()
    harness.engine.before("update router", lambda: harness.change_record(connected_at=2**53))
    await harness.hello()
    assert recorded(harness.metrics, UA_ALREADY_CONNECTED) == 1


# ── secrets ─────────────────────────────────────────────────────────────────────────────────────


async def use_everything(harness: Harness) -> tuple[UserAgent, list[str]]:
    """A user agent that has sent every message there is, and what must be nowhere in the log."""
    agent = await harness.identified(None)
    agent.register()
    await harness.run_until_idle()
    endpoint = agent.reply()["pushEndpoint"]
    stored = harness.message(agent.uaid, topic="geheim")
    await harness.store.current.store(stored)
    direct = harness.message(agent.uaid)
    direct.data = "QUJDREVGR0g"
    assert agent.connection.deliver(direct, None)
    agent.connection.check_storage()
    await harness.run_until_idle()
    received = agent.received()
    assert len(received) == 2
    for message in (stored, direct):
        agent.send_json(messageType="nack", version=message.version, code=303)
    agent.ack(received[0])
    agent.hello(agent.uaid)
    agent.send_json({}, {"messageType": "urgency", "min": "high"})
    agent.send_json(messageType="broadcast_subscribe", broadcasts={"geheim/x": "geheim"})
    agent.send_json(messageType="unregister", channelID=OTHER, code=200)
    await harness.run_until_idle()
    token = endpoint.rpartition("/")[2]
    secrets = [agent.uaid, endpoint, token, stored.version, direct.version, direct.data, "geheim"]
    return agent, [*secrets, stored.version.rstrip("=")]


@pytest.mark.parametrize("human", [False, True])
async def test_no_line_of_a_session_holds_a_secret(
    harness: Harness, tmp_path: Path, human: bool
) -> None:
    log = LogFile(tmp_path, human=human)
    agent, secrets = await use_everything(harness)
    agent.send_json(messageType="geheim", uaid=agent.uaid)
    await harness.run_until_idle()
    assert all(event in log.text for event in ("Register", "Unregister", "Nack", "Session"))
    for secret in secrets:
        assert secret not in log.text


# ── as many as a user agent likes ───────────────────────────────────────────────────────────────


async def test_of_each_kind_only_so_many_lines_are_written_and_the_others_counted(
    harness: Harness, tmp_path: Path
) -> None:
    clock = ManualClock()
    log = LogFile(tmp_path, monotonic=clock)
    lines = SessionLog(hashed, harness.metrics)

    def write() -> None:
        lines.registered(UAID, CHANNEL)
        lines.unregistered(UAID, Unsubscribe(CHANNEL, CHANNEL, 200))
        lines.nacked(UAID, ReportNack("version", None, 301))
        lines.dropped(UAID, DropReason.TOO_MANY_MESSAGES)
        client = Clients().find("", "")
        lines.ended(session, client, seconds=1, direct_storage=0, reason="lost", code=1006)

    agent = await harness.identified()
    session = agent.connection.session
    for _ in range(LINES_PER_SECOND + 7):
        write()
    clock.advance(1)
    write()
    for event in ("Register", "Unregister", "Nack", "Dropping User", "Session"):
        *first, last = log.fields(event)
        assert len(first) == LINES_PER_SECOND, event
        assert not any("suppressed" in fields for fields in first)
        assert last["suppressed"] == 7
        assert last["uaid_hash"]
