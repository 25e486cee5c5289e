"""What goes into the report: the command line, and log lines by kind without their fields."""

import sys

import pytest

from autopush.console.report import LoggedErrors, Report, ReportError, logged_lines, report_command
from autopush.telemetry import logs


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["python", "-m", "autopush.cli", "serve", "--port", "1"], ["-m", "autopush.cli"]),
        (["python", "/usr/bin/autopush", "serve", "--port", "1"], ["/usr/bin/autopush"]),
    ],
)
def test_the_command_has_the_flags_of_the_service(words: list[str], expected: list[str]) -> None:
    command = report_command("serve", words)
    assert command == [sys.executable, *expected, "report", "--for", "serve", "--port", "1"]


def test_without_the_name_of_the_daemon_no_word_is_taken() -> None:
    command = report_command("connection", ["python", "other", "--connections", "9"])
    assert command[1:] == ["-m", "autopush.cli", "report", "--for", "connection"]


async def test_log_lines_are_counted_by_kind_and_their_fields_left_out() -> None:
    logged = LoggedErrors()
    report = Report([sys.executable, "-c", "print('checked')"], logged)
    log = logs.get("somewhere")
    for address in ("192.0.2.1", "192.0.2.2"):
        log.warning("A client failed", remote_ip=address)
    log.info("All is well")
    text = await report.text()
    report.close()
    logged.close()
    assert text.startswith("checked\n")
    assert "2x, last " in text
    assert text.count("WARNING autopush.somewhere: A client failed") == 1
    assert "192.0.2" not in text
    assert "All is well" not in text


def test_the_lines_of_all_workers_are_counted_together() -> None:
    lines = logged_lines([{"WARNING a": (2, 60.0)}, {"WARNING a": (1, 0.0), "ERROR b": (1, 61.0)}])
    assert lines == [
        "1x, last 1970-01-01T00:01:01+00:00  ERROR b",
        "3x, last 1970-01-01T00:01:00+00:00  WARNING a",
    ]


async def test_a_command_that_fails_is_said() -> None:
    report = Report([sys.executable, "-c", "raise SystemExit(3)"], LoggedErrors())
    with pytest.raises(ReportError, match="ended with 3"):
        await report.text()
    report.close()
