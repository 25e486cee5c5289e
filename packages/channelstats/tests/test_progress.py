"""The line that shows how far a run is."""

import io
import threading
from contextlib import redirect_stderr

import pytest
from tqdm import tqdm

from channelstats.progress import ProgressBar, progress_bar, show
from channelstats.render.words import width
from support.clocks import ManualClock


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def bar(self, what: str, unit: str = "", total: int = 0, done: int = 0) -> ProgressBar:
        with redirect_stderr(self):
            return progress_bar(what, unit, total, done)

    @property
    def line(self) -> str:
        """The last one that was drawn."""
        return self.getvalue().rpartition("\r")[2].rstrip()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    found = ManualClock(100.0)
    monkeypatch.setattr("tqdm.std.time", found)
    return found


@pytest.mark.parametrize(
    ("unit", "total", "done", "line"),
    [
        ("report", 5, 1, "| 1/5 [00:30<02:00, 30.00s/report, #general]"),
        ("B", 1_500_000_000, 300_000_000, "| 300M/1.50G [00:30<02:00, 10.0MB/s, #general]"),
        ("B", 0, 0, "x: 0.00B [00:30, ?B/s, #general]"),
        (" days", 0, 60, "x: 60 days [00:30,  2.00 days/s, #general]"),
        ("", 0, 0, "x"),
    ],
)
def test_a_terminal_gets_counts_and_the_time_left(
    terminal: Terminal, clock: ManualClock, unit: str, total: int, done: int, line: str
) -> None:
    with terminal.bar("x", unit, total) as bar:
        assert terminal.line.startswith("x")
        clock.advance(30.0)
        show(bar, done, total, "#general")
        assert terminal.line.endswith(line)
    assert terminal.line == ""


def test_the_time_left_is_by_all_that_was_done_in_this_run(
    terminal: Terminal, clock: ManualClock
) -> None:
    with terminal.bar("sending", "report", 56, 50) as bar:
        assert "| 50/56 [00:00<?, " in terminal.line
        for done, seconds in ((51, 1.0), (52, 29.0)):
            clock.advance(seconds)
            show(bar, done, 56)
        assert "| 52/56 [00:30<01:00, " in terminal.line


def test_a_file_and_the_quiet_get_nothing() -> None:
    for stream, quiet in ((io.StringIO(), False), (Terminal(), True)):
        with redirect_stderr(stream), progress_bar("x", "report", 2, quiet=quiet) as bar:
            show(bar, 1, 2, "x")
        assert stream.getvalue() == ""


def test_the_line_is_drawn_ten_times_a_second_at_most(
    terminal: Terminal, clock: ManualClock
) -> None:
    with terminal.bar("sending", "report", 10_000) as bar:
        for done in range(1, 10_001):
            clock.advance(0.001)
            show(bar, done, 10_000, "x")
        assert 90 <= terminal.getvalue().count("\r") <= 102


@pytest.mark.parametrize("name", ["long" * 50, "\N{CJK UNIFIED IDEOGRAPH-7701}" * 50])
def test_a_name_that_is_too_long_is_cut_in_whatever_window(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, clock: ManualClock, name: str
) -> None:
    with terminal.bar("messages", "channel", 5) as bar:
        for columns in (80, 70):
            monkeypatch.setenv("COLUMNS", str(columns))
            clock.advance(1.0)
            show(bar, 1, 5, name)
            assert name[:5] in terminal.line
            assert columns - 4 <= width(terminal.line) <= columns - 3


def test_no_thread_is_started_and_no_lock_between_processes_made(terminal: Terminal) -> None:
    with terminal.bar("sending", "report", 5):
        assert tqdm.monitor is None
    assert isinstance(vars(tqdm)["_lock"], type(threading.RLock()))
