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
    terminal, clock = Terminal(), ManualClock(0.0)
    progress = Progress(terminal, clock, quiet=False)
    progress.show(0, 0, "users")
    clock.advance(1.0)
    progress.show(1234, 0, "rows")
    assert terminal.getvalue() == "\r\x1b[Kusers\r\x1b[K1,234  rows"


def test_bytes_are_a_share_of_megabytes() -> None:
    terminal, clock = Terminal(), ManualClock(100.0)
    progress = Progress(terminal, clock, quiet=False)
    clock.advance(30.0)
    progress.show_bytes(300_000_000, 1_500_000_000, "40,000 messages  #general")
    assert terminal.getvalue().endswith("░ 20% of 1,500 MB 2 min left  40,000 messages  #general")
    clock.advance(1.0)
    progress.show_bytes(0, 300_000, "x")
    assert terminal.getvalue().endswith("░ 0% of 0.3 MB   x")
    clock.advance(1.0)
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


def test_the_line_is_drawn_ten_times_a_second_at_most_and_at_the_end() -> None:
    terminal, clock = Terminal(), ManualClock(0.0)
    progress = Progress(terminal, clock, quiet=False)
    for done in range(1, 10_001):
        clock.advance(0.001)
        progress.show(done, 10_000, "x")
    assert 90 <= terminal.getvalue().count("\r") <= 102
    assert " 10,000/10,000 " in terminal.getvalue().rpartition("\r")[2]


def test_whatever_comes_after_the_end_or_a_start_is_drawn_at_once() -> None:
    terminal = Terminal()
    progress = Progress(terminal, ManualClock(0.0), quiet=False)
    progress.show(1, 0, "a")
    progress.end()
    progress.show(2, 0, "b")
    progress.start(0)
    progress.show(3, 0, "c")
    progress.show(4, 0, "never")
    assert terminal.getvalue() == "\r\x1b[K1  a\r\x1b[K\r\x1b[K2  b\r\x1b[K3  c"


def test_a_clock_that_is_set_back_does_not_stop_the_line() -> None:
    terminal, clock = Terminal(), ManualClock(1000.0)
    progress = Progress(terminal, clock, quiet=False)
    progress.show(1, 0, "a")
    clock.advance(-900.0)
    progress.show(2, 0, "b")
    assert terminal.getvalue().endswith("2  b")
