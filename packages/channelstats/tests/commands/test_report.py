"""What `channelstats report` says where the store does not reach as far as the report."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from channelstats.commands import DONE
from channelstats.commands import report as module
from channelstats.tables.messages import Messages
from support.channelstats.called import Capture, called
from support.channelstats.house import EXAMPLE, NOW
from support.channelstats.workspace import write_linked

pytestmark = pytest.mark.usefixtures("example")

READ = "the days up to 2024-03-16 were read"
LATER = datetime(2024, 5, 1, tzinfo=UTC).timestamp()
LATER_THAT_WEEK = datetime(2024, 3, 18, 9, tzinfo=UTC).timestamp()
BEYOND = ["--from", "2024-03-14", "--to", "2024-03-20"]


def told(capfd: Capture, *flags: str, now: float = LATER) -> list[str]:
    assert called("report", "global", *flags, now=now) == DONE
    found = capfd.readouterr()
    assert found.out.startswith("Workspace report")
    return found.err.splitlines()


def test_after_an_old_import_the_usual_week_is_the_last_with_messages(capfd: Capture) -> None:
    assert called("report", "global", now=LATER) == DONE
    found = capfd.readouterr()
    assert "Sunday 10 March 2024 to Saturday 16 March 2024" in found.out
    assert found.err.splitlines() == [
        "messages were read up to 2024-03-17 00:00, so this is the last whole week"
    ]


def test_a_week_after_everything_names_the_newest_message(capfd: Capture) -> None:
    silent, later = told(capfd, "--week", "2024-04-24")
    assert silent == (
        "there were no messages from 2024-04-21 to 2024-04-27; "
        "the newest message is from 2024-03-16: --week 2024-03-16"
    )
    assert later == f"{READ}; what came later is not in this report"


def test_days_whose_messages_are_too_old_to_be_kept_have_none(capfd: Capture) -> None:
    assert called("import-export", str(EXAMPLE), "--retention-days", "10", now=NOW) == DONE
    capfd.readouterr()
    [silent] = told(capfd, "--week", "2024-03-05")
    assert silent == (
        "there were no messages from 2024-03-03 to 2024-03-09; "
        "the newest message is from 2024-03-16: --week 2024-03-16"
    )


@pytest.mark.parametrize(
    ("days", "now", "said"),
    [
        (["--week", "2024-03-05"], LATER, []),
        (["--week", "2024-03-13"], LATER, []),
        (BEYOND, LATER, [f"{READ}; what came later is not in this report"]),
        (BEYOND, LATER_THAT_WEEK, [f"{READ}; 2024-03-20 is not over"]),
        (["--quiet"], LATER, []),
    ],
)
def test_a_report_says_what_of_its_days_was_not_read_or_is_not_over(
    capfd: Capture, days: list[str], now: float, said: list[str]
) -> None:
    assert told(capfd, *days, now=now) == said


def test_messages_are_linked_to_the_workspace_that_files_of_an_export_are_linked_to(
    capfd: Capture, tmp_path: Path
) -> None:
    def text(*flags: str) -> str:
        assert called("report", "global", "--week", "2024-03-13", *flags, now=LATER) == DONE
        return capfd.readouterr().out

    assert ".slack.com" not in text()
    export = write_linked(EXAMPLE, tmp_path / "export", "https://acme.slack.com/files/UALICE/F1/a")
    assert called("import-export", str(export), now=NOW) == DONE
    capfd.readouterr()
    assert "https://acme.slack.com/archives/C" in text()
    given = text("--slack-name", "given")
    assert "https://given.slack.com/archives/C" in given
    assert "acme" not in given


def test_json_that_is_stored_is_written_again_without_a_message_or_a_name_being_read(
    capfd: Capture, tmp_path: Path
) -> None:
    week = ("--format", "json", "--week", "2024-03-10")
    assert called("report", "global", *week, now=LATER) == DONE
    made = capfd.readouterr()

    def read(*_: object) -> None:
        raise AssertionError("messages or names are read")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Messages, "of_days", read)
        patched.setattr(module, "load", read)
        assert called("report", "global", *week, now=LATER + 60) == DONE
    assert capfd.readouterr() == made
    out = ("--format", "csv", "--out", str(tmp_path))
    assert called("report", "global", *week, *out, now=LATER + 60) == DONE
    [file] = tmp_path.glob("*.json")
    assert file.read_text() == made.out
    capfd.readouterr()
    assert called("report", "global", *week, "--regen", now=LATER + 60) == DONE
    again = json.loads(capfd.readouterr().out)
    assert again == {**json.loads(made.out), "generated_at": int(LATER) + 60}


def test_days_after_everything_offer_as_many_with_messages(capfd: Capture) -> None:
    silent, *_ = told(capfd, "--days", "20")
    assert silent == (
        "there were no messages from 2024-04-11 to 2024-04-30; "
        "the newest message is from 2024-03-16: --days 20 --to 2024-03-16"
    )
    assert called("report", "channel", "dev", "--days", "20", now=LATER) == DONE
    page = capfd.readouterr().out
    assert "Nobody wrote anything in this channel in this period." in page
    assert "Saturday 16 March 2024; as many days up to it are from 2024-02-26 to 2024" in page
    assert called("report", "global", "--days", "20", now=LATER) == DONE
    assert "The newest message of the workspace is of Saturday 16 March" in capfd.readouterr().out
