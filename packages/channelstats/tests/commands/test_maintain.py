"""forget: a person is removed from the store for good."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from channelstats.commands import DONE, NOT_DONE, WITH_PROBLEMS
from support.channelstats.called import Capture, called, stored
from support.channelstats.house import NOW

pytestmark = pytest.mark.usefixtures("example")

ASKED = "Remove everything about Bob Berg (UBOB)? [y/N] "


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at_terminal(answer: str, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The screen of somebody who answers so."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def forget(*flags: str) -> int:
    return called("forget", "bob", *flags, now=NOW)


def is_there() -> bool:
    return "UBOB" in str(stored()) and "UBOB" in stored("User")


def test_a_dry_run_counts_and_touches_nothing(capfd: Capture) -> None:
    names = ("Message", "User", "Configuration", "BulkStore", "FirstPost", "ReportStore")
    before = [stored(name) for name in names]
    assert forget("--dry-run") == DONE
    counted = "6 messages would be removed, 3 of others would be changed"
    assert capfd.readouterr().out == f"Bob Berg (UBOB): {counted}\n"
    assert [stored(name) for name in names] == before


def test_as_much_goes_as_the_dry_run_counted(capfd: Capture) -> None:
    assert forget() == DONE
    assert "forgotten: 6 messages removed, 3 of others changed;" in capfd.readouterr().err
    assert not is_there()


def test_days_in_files_that_cannot_be_removed_are_a_problem(
    capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert called("report", "global", "--format", "json", now=NOW) == DONE
    for name in ("open", "unlink"):  # modes do not bind every user that tests run as
        monkeypatch.setattr(Path, name, refused(getattr(Path, name)))
    capfd.readouterr()
    assert forget("--yes") == WITH_PROBLEMS
    said = capfd.readouterr().err
    assert "forgotten: 6 messages removed" in said
    assert ".parquet: cannot be overwritten or removed" in said
    assert not is_there()


def refused(do: Callable[..., Any]) -> Callable[..., Any]:
    """The same, but for columns of days."""

    def refusing(path: Path, *arguments: Any, **how: Any) -> Any:
        if path.suffix == ".parquet":
            raise PermissionError(path)
        return do(path, *arguments, **how)

    return refusing


@pytest.mark.parametrize("answer", ["\n", "n\n", "", "bob\n"])
def test_at_a_terminal_nobody_goes_without_a_yes(
    answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = at_terminal(answer, monkeypatch)
    assert forget() == NOT_DONE
    assert screen.getvalue() == f"{ASKED}channelstats: nothing was removed\n"
    assert is_there()


@pytest.mark.parametrize("answer", ["y\n", "Yes\n"])
def test_at_a_terminal_a_yes_is_enough(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = at_terminal(answer, monkeypatch)
    assert forget() == DONE
    assert screen.getvalue().startswith(ASKED)
    assert not is_there()


def test_nobody_is_asked_who_said_yes_before(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = at_terminal("", monkeypatch)
    assert forget("--yes") == DONE
    assert "Remove everything" not in screen.getvalue()
    assert not is_there()


def test_somebody_unknown_is_called_by_the_id(capfd: Capture) -> None:
    assert called("forget", "UNOBODY", "--dry-run", now=NOW) == DONE
    assert capfd.readouterr().out.startswith("UNOBODY: 0 messages would be removed")
