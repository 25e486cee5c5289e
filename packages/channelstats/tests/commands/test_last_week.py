"""The last week of a team that works from Monday to Friday, from import to report and sending."""

import json
from datetime import UTC, datetime
from pathlib import Path

from channelstats.commands import DONE, NOT_DONE
from support.channelstats.called import Capture, called, error_lines
from support.channelstats.workspace import Workspace, write_zip

FRIDAY, SATURDAY, MONDAY = 20, 21, 23
"""Of November 2026."""


def time(day: int, hour: int = 12) -> datetime:
    return datetime(2026, 11, day, hour, tzinfo=UTC)


def at(day: int, hour: int = 12) -> float:
    return time(day, hour).timestamp()


NO_DATE = datetime(1980, 1, 1, tzinfo=UTC)
"""What zips say whose program knew no time."""


def team(folder: Path, written: datetime) -> Path:
    """An export of a team that posted from Monday 26 October to Friday 20 November."""
    days = [at(day) for day in range(2, FRIDAY + 1)] + [
        at(1) - number * 86_400 for number in (5, 6)
    ]
    messages = [
        {"type": "message", "user": "UA", "ts": f"{int(sent)}.000100", "text": "a"}
        for sent in sorted(days)
        if datetime.fromtimestamp(sent, UTC).weekday() < 5
    ]
    channel = {"id": "CDEV", "name": "dev", "created": 1, "members": ["UA"]}
    of = Workspace([{"id": "UA", "name": "ann"}], [channel], {"CDEV": messages})
    return write_zip(of.files(), folder / "export.zip", written=written)


def last_week(capfd: Capture, now: float = at(MONDAY, 15)) -> tuple[str, int]:
    """The first day of the week that a report is on, and how many messages it has."""
    assert called("report", "global", "--format", "json", now=now) == DONE
    found = json.loads(capfd.readouterr().out)
    return found["start_date"], found["statistics"]["messages"]


def test_an_export_taken_on_monday_has_all_of_the_week_before(
    tmp_path: Path, capfd: Capture
) -> None:
    now, written = at(MONDAY, 15), time(MONDAY, 9)
    assert called("import-export", str(team(tmp_path, written)), now=now) == DONE
    capfd.readouterr()
    assert last_week(capfd) == ("2026-11-15", 5)
    assert called("report", "global", now=now) == DONE
    assert capfd.readouterr().err == ""
    flags = ["--report-channel", "dev", "--dry-run"]
    assert called("send-weekly", *flags, now=now) == DONE
    assert capfd.readouterr().err == ""


def test_an_export_taken_on_friday_lacks_the_end_of_the_week(
    tmp_path: Path, capfd: Capture
) -> None:
    export = team(tmp_path, time(FRIDAY, 18))
    assert called("import-export", str(export), now=at(MONDAY, 15)) == DONE
    assert error_lines(capfd)[-1] == (
        "it has every message up to 2026-11-20 18:00: when its files were written"
    )
    assert last_week(capfd) == ("2026-11-08", 5)
    assert called("send-weekly", "--report-channel", "dev", now=at(MONDAY, 15)) == NOT_DONE
    [line] = error_lines(capfd)
    assert "Slack was read up to 2026-11-20 18:00: run channelstats sync all, or import" in line


def test_where_nothing_says_when_it_was_taken_the_import_asks(
    tmp_path: Path, capfd: Capture
) -> None:
    assert called("import-export", str(team(tmp_path, NO_DATE)), now=at(MONDAY, 15)) == DONE
    assert error_lines(capfd)[-1] == (
        "it has every message up to 2026-11-21 00:00: the day of its newest message; if it was "
        "taken later, say so with --until DATE"
    )
    assert last_week(capfd) == ("2026-11-08", 5)


def test_a_week_that_was_read_to_its_last_second_is_whole(tmp_path: Path, capfd: Capture) -> None:
    export, now = str(team(tmp_path, NO_DATE)), at(MONDAY, 15)
    assert called("import-export", export, "--until", "2026-11-21", now=now) == DONE
    assert error_lines(capfd)[-1].startswith("it has every message up to 2026-11-22 00:00")
    assert called("send-weekly", "--report-channel", "dev", "--dry-run", now=now) == DONE
    assert capfd.readouterr().err == ""
