"""Errors on their way to Sentry, with its SDK and a fake of the service."""

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autopush.telemetry import logs
from autopush.telemetry.log_format import REDACTED
from autopush.telemetry.log_handlers import REPORTS_PER_MINUTE, CrashReports, open_crash_reports
from support.collecting_servers import SentryServer
from support.log_lines import LogFile

Open = Callable[[], CrashReports]


@pytest.fixture
def server() -> Iterator[SentryServer]:
    with SentryServer() as server:
        yield server


def open_reports(dsn: str) -> CrashReports:
    return open_crash_reports(
        dsn, release="autopush@2.0", environment="stage", hostname="push-1.example"
    )


@pytest.fixture
def lines(server: SentryServer, tmp_path: Path) -> Iterator[LogFile]:
    """Logs whose errors go to the server too."""
    lines = LogFile(tmp_path, level="debug", handlers=[open_reports(server.dsn)])
    logs.start_background()
    yield lines
    logs.shutdown()


SECRET = "geheim"


def fail(secret: str) -> None:
    hidden = {"key": secret}
    raise LookupError(f"lost {len(hidden)}")


def log_failure(**fields: object) -> None:
    try:
        fail(SECRET)
    except LookupError as error:
        logs.get("x").exception("Request failed", error=error, **fields)


def test_an_error_with_a_traceback_is_one_event(server: SentryServer, lines: LogFile) -> None:
    log_failure(errno=999)
    logs.shutdown()
    (event,) = server.events
    (exception,) = event["exception"]["values"]
    assert (exception["type"], exception["value"]) == ("LookupError", "lost 1")
    frames = [frame["function"] for frame in exception["stacktrace"]["frames"]]
    assert frames == ["log_failure", "fail"]
    assert event["logentry"]["message"] == "Request failed"
    assert event["extra"] == {"errno": 999}
    assert (event["level"], event["logger"]) == ("error", "autopush.x")
    assert (event["release"], event["environment"]) == ("autopush@2.0", "stage")
    assert event["server_name"] == "push-1.example"


def test_only_errors_with_an_exception_are_events(server: SentryServer, lines: LogFile) -> None:
    log = logs.get("x")
    log.error("an error")
    log.warning("a warning", exc_info=LookupError("lost"))
    log.info("a line")
    logging.getLogger("some.library").error("said")
    logs.shutdown()
    assert len(lines.records) == 3
    assert server.events == []


def test_errors_of_libraries_are_events_too_but_not_those_of_sending(
    server: SentryServer, lines: LogFile
) -> None:
    for name in ("urllib3.connectionpool", "sentry_sdk.errors", "asyncio"):
        logging.getLogger(name).error("failed", exc_info=LookupError(name))
    logs.shutdown()
    assert server.exceptions == [("LookupError", "asyncio")]


def test_neither_variables_nor_source_nor_the_command_line_leave(
    server: SentryServer, lines: LogFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["autopush", f"--auth-key={SECRET}"])
    log_failure()
    logs.shutdown()
    (event,) = server.events
    assert SECRET not in server.text
    for frame in event["exception"]["values"][0]["stacktrace"]["frames"]:
        assert frame.keys().isdisjoint({"vars", "context_line", "pre_context", "post_context"})
    for part in ("request", "user", "modules", "breadcrumbs"):
        assert not event.get(part)


def test_fields_named_like_a_secret_leave_without_their_value(
    server: SentryServer, lines: LogFile
) -> None:
    log_failure(authorization=SECRET, deep=[{"crypto_key": SECRET}])
    logs.shutdown()
    (event,) = server.events
    assert event["extra"] == {"authorization": REDACTED, "deep": [{"crypto_key": REDACTED}]}
    assert SECRET not in server.text + lines.text


def test_of_a_client_only_its_request_leaves(server: SentryServer, lines: LogFile) -> None:
    info = {"request_id": "1-2", "method": "POST", "uri": "/wpush/v1/*"}
    log_failure(client_info=info | {"remote_ip": "192.0.2.7", "user_agent": "pusher"})
    logs.shutdown()
    (event,) = server.events
    assert event["extra"] == info
    assert "192.0.2.7" not in server.text


def test_events_of_one_type_are_bounded_and_the_rest_is_counted(
    server: SentryServer, tmp_path: Path
) -> None:
    now = [0.0]
    connect = open_reports(server.dsn)._connect
    LogFile(tmp_path, level="debug", handlers=[CrashReports(connect, monotonic=lambda: now[0])])
    logs.start_background()
    log = logs.get("x")
    for _ in range(100):
        log.exception("failed", error=LookupError("lost"))
    log.exception("failed", error=ValueError("bad"))
    now[0] += 60
    log.exception("failed", error=LookupError("again"))
    logs.shutdown()
    assert len(server.events) == REPORTS_PER_MINUTE + 2
    assert server.exceptions[-2:] == [("ValueError", "bad"), ("LookupError", "again")]
    assert server.events[-1]["extra"] == {"suppressed": 100 - REPORTS_PER_MINUTE}


def test_nothing_is_sent_before_the_start_which_comes_after_a_fork(
    server: SentryServer, tmp_path: Path
) -> None:
    LogFile(tmp_path, level="debug", handlers=[open_reports(server.dsn)])
    log_failure()
    logs.start_background()
    logs.get("x").exception("failed", error=ValueError("bad"))
    logs.shutdown()
    assert server.exceptions == [("ValueError", "bad")]


def test_a_service_that_refuses_or_is_not_there_disturbs_nothing(
    server: SentryServer, tmp_path: Path
) -> None:
    server.status = 500
    for dsn in (server.dsn, "http://key@127.0.0.1:1/7"):
        lines = LogFile(tmp_path, level="debug", handlers=[open_reports(dsn)])
        logs.start_background()
        log_failure()
        logs.shutdown()
    assert [fields["message"] for fields in lines.all_fields] == ["Request failed"] * 2


def test_an_error_that_cannot_be_reported_is_logged_once_and_raises_nothing(
    server: SentryServer, lines: LogFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(CrashReports, "_report", broken)
    log_failure()
    logs.shutdown()
    assert [fields["message"] for fields in lines.all_fields] == [
        "Request failed",
        "An error cannot be reported to Sentry: RuntimeError",
    ]


@pytest.mark.parametrize("dsn", ["nonsense", "http://127.0.0.1/7", "ftp://key@127.0.0.1/7", ":"])
def test_what_is_no_dsn_is_refused_at_once(dsn: str) -> None:
    with pytest.raises(ValueError):
        open_reports(dsn)
