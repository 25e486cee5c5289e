"""`channelstats mail`, and mail by the other commands, as from a shell."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from channelstats.commands import DONE, NOT_DONE, USAGE, WITH_PROBLEMS
from support.channelstats.called import Capture, called
from support.channelstats.house import NOW
from support.channelstats.mail_server import PASSWORD, SmtpServer, smtp_server
from support.event_loops import LoopThread

pytestmark = pytest.mark.usefixtures("example")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SmtpServer]:
    """A mail server beside the command, which has a loop of its own."""
    with LoopThread() as loop:
        running = smtp_server(tmp_path)
        yield loop.run(running.__aenter__())
        loop.run(running.__aexit__(None, None, None))


@pytest.fixture
def flags(server: SmtpServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("CHANNELSTATS_MAIL_PASSWORD", PASSWORD)
    return [
        *("--mail-server", server.url, "--mail-from", "stats@example.com"),
        *("--mail-ca-file", str(server.ca_file), "--dashboard-url", "https://stats.example.com"),
    ]


def run(capfd: Capture, *words: str, code: int = DONE) -> str:
    capfd.readouterr()
    try:
        ended: object = called(*words, now=NOW)
    except SystemExit as error:  # wrong usage
        ended = error.code
    assert ended == code
    found = capfd.readouterr()
    assert PASSWORD not in found.out + found.err
    return found.out + found.err


def test_addresses_are_added_listed_and_removed(flags: list[str], capfd: Capture) -> None:
    anna = "anna@example.org"
    assert "each week that is over from now on" in run(capfd, "mail", "add", anna, *flags)
    assert "already" in run(capfd, "mail", "add", anna, *flags)
    assert run(capfd, "mail", "list") == f"{anna}\n"
    assert run(capfd, "notify", *flags) == (
        "week of 2024-03-10: 0 subscribers notified, 1 subscribed after it was over: theirs is the "
        "next one\n"
    )
    assert run(capfd, "mail", "remove", anna) == ""
    assert run(capfd, "mail", "list") == ""
    assert "gets no mail" in run(capfd, "mail", "remove", anna, code=NOT_DONE)
    assert "expected a mail address" in run(capfd, "mail", "add", "anna", *flags, code=NOT_DONE)
    assert "mail_server" in run(capfd, "mail", "add", anna, code=NOT_DONE)
    assert "give an address" in run(capfd, "mail", "add", *flags, code=USAGE)
    assert "give an address" in run(capfd, "mail", "list", anna, code=USAGE)


def test_a_test_mail_is_that_of_the_newest_week_and_counts_for_nothing(
    flags: list[str], server: SmtpServer, capfd: Capture
) -> None:
    anna = "anna@example.org"
    assert f"{anna}: the mail about the week of" in run(capfd, "mail", "test", anna, *flags)
    [got] = server.got
    assert got["Subject"].startswith("Test: ")
    assert ":eyes:" not in got.as_string()
    assert run(capfd, "mail", "list") == ""
    assert "expected a mail address" in run(capfd, "mail", "test", "anna", *flags, code=NOT_DONE)
    assert "mail_server" in run(capfd, "mail", "test", anna, code=NOT_DONE)
    assert "give an address" in run(capfd, "mail", "test", *flags, code=USAGE)
    broken = [*flags, "--mail-server", "smtp://127.0.0.1:9"]
    assert "not sent: " in run(capfd, "mail", "test", anna, *broken, code=NOT_DONE)


def test_the_doctor_logs_in_and_sends_nothing(
    flags: list[str],
    server: SmtpServer,
    capfd: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "the login of digest works" in run(capfd, "doctor", *flags)
    assert "AUTH" in server.commands
    assert "MAIL" not in server.commands
    monkeypatch.setenv("CHANNELSTATS_MAIL_PASSWORD", "another")
    assert "mail: smtp://digest@127.0.0.1" in (
        told := run(capfd, "doctor", *flags, code=WITH_PROBLEMS)
    )
    assert "the server answered 535" in told
    monkeypatch.delenv("CHANNELSTATS_MAIL_PASSWORD")
    told = run(capfd, "doctor", *flags, code=WITH_PROBLEMS)
    assert "there is no password for the user of mail_server" in told
