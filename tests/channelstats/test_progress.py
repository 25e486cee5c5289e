"""The line that shows how far a run is."""

import io

from channelstats.progress import Progress
from support.clocks import ManualClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_counts_and_the_time_left() -> None:
    terminal, clock = Terminal(), ManualClock(100.0)
    progress = Progress(terminal, clock, quiet=False)
    clock.advance(30.0)
    progress.show(1, 5, "#general")
    assert terminal.getvalue().endswith("░ 1/5 2 min left  #general")
    progress.end()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_what_was_done_before_is_no_measure_of_the_time_left() -> None:
    terminal, clock = Terminal(), ManualClock(100.0)
    progress = Progress(terminal, clock, quiet=False)
    clock.advance(1000.0)
    progress.start(50)
    clock.advance(30.0)
    progress.show(51, 55, "x")
    assert terminal.getvalue().endswith(" 51/55 2 min left  x")


def test_without_a_total_there_is_a_count_alone() -> None:
    terminal = Terminal()
    progress = Progress(terminal, ManualClock(0.0), quiet=False)
    progress.show(0, 0, "users")
    progress.show(1234, 0, "rows")
    assert terminal.getvalue() == "\r\x1b[Kusers\r\x1b[K1,234  rows"


def test_bytes_are_a_share_of_megabytes() -> None:
    terminal, clock = Terminal(), ManualClock(100.0)
    progress = Progress(terminal, clock, quiet=False)
    clock.advance(30.0)
    progress.show_bytes(300_000_000, 1_500_000_000, "40,000 messages  #general")
    assert terminal.getvalue().endswith("░ 20% of 1,500 MB 2 min left  40,000 messages  #general")
    progress.show_bytes(0, 300_000, "x")
    assert terminal.getvalue().endswith("░ 0% of 0.3 MB   x")
    progress.show_bytes(0, 0, "x")
    assert terminal.getvalue().endswith("░ 0% of 0.0 MB   x")


def test_a_file_and_the_quiet_get_nothing() -> None:
    file, terminal = io.StringIO(), Terminal()
    for stream, quiet in ((file, False), (terminal, True)):
        progress = Progress(stream, ManualClock(0.0), quiet=quiet)
        progress.show(1, 2, "x")
        progress.show_bytes(1, 2, "x")
        progress.end()
    assert file.getvalue() == terminal.getvalue() == ""
