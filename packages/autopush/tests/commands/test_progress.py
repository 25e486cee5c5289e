"""How far a long command is."""

import io

import pytest

from autopush.commands.progress import LINE_EVERY, Progress, bar, describe
from support.clocks import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (0, 4000, 0, "0 of 4,000"),
        (1000, 4000, 10, "1,000 of 4,000 · 100 a second · 30 s left"),
        (1, 4000, 2, "1 of 4,000 · 0.5 a second · 2 h 13 min left"),
        (50, 150, 61, "50 of 150 · 0.82 a second · 2 min 02 s left"),
        (5, 4, 1, "5 of 5 · 5 a second · 0 s left"),
        (0, 0, 5, "0 of 0"),
    ],
)
def test_amount_speed_and_time_left(done: int, total: int, seconds: float, text: str) -> None:
    assert describe(done, total, seconds) == text


@pytest.mark.parametrize(("done", "total", "filled"), [(0, 10, 0), (5, 10, 15), (11, 10, 30)])
def test_the_bar_is_never_longer_than_its_frame(done: int, total: int, filled: int) -> None:
    assert bar(done, total) == "[" + "#" * filled + "." * (30 - filled) + "]"


def test_on_a_terminal_one_line_is_drawn_again(clock: ManualClock) -> None:
    stream = Terminal()
    progress = Progress(100, stream=stream, clock=clock)
    for _ in range(100):
        clock.advance(0.0625)
        progress.add(1)
    drawn = stream.getvalue().split("\r")[1:]
    assert len(drawn) == 50
    assert drawn[0].startswith("[....")
    assert "\n" not in stream.getvalue()
    progress.clear()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_elsewhere_a_line_comes_now_and_then(clock: ManualClock) -> None:
    stream = io.StringIO()
    progress = Progress(960, stream=stream, clock=clock)
    for _ in range(320):
        clock.advance(0.125)
        progress.add(2)
    progress.clear()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 40 / LINE_EVERY
    assert lines[0] == "160 of 960 · 16 a second · 50 s left"
    assert "\x1b" not in stream.getvalue()
