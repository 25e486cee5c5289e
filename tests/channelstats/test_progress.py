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


def test_a_file_and_the_quiet_get_nothing() -> None:
    file, terminal = io.StringIO(), Terminal()
    for stream, quiet in ((file, False), (terminal, True)):
        progress = Progress(stream, ManualClock(0.0), quiet=quiet)
        progress.show(1, 2, "x")
        progress.end()
    assert file.getvalue() == terminal.getvalue() == ""
