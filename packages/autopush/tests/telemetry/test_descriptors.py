"""One line a minute when no file descriptor is left."""

import asyncio
import errno
import os
import resource
from collections.abc import Callable, Iterator

import pytest

from autopush.service.worker import loop_error_handler
from autopush.telemetry.metric_table import PROCESS_OPEN_FILES
from autopush.telemetry.process import (
    INTERVAL,
    LAG_INTERVAL,
    REPORT_INTERVAL,
    RESERVE,
    DescriptorShortage,
    ProcessMetrics,
    is_shortage,
)
from support.clocks import ManualClock
from support.fake_loop import FakeLoop
from support.recorded import new_metrics, recorded

LINE = "No file descriptor is left: new connections are closed"
LIMIT = 200


@pytest.fixture
def all_used() -> Iterator[Callable[[], None]]:
    """Opens files until no descriptor is left."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened: list[int] = []

    def use_all() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, before[1]))
        while True:
            try:
                opened.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                return

    yield use_all
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_shortage_is_one_line_a_minute_with_the_limit_and_what_was_not_reported(
    all_used: Callable[[], None], end_logs: Callable[[], str]
) -> None:
    clock = ManualClock()
    shortage = DescriptorShortage(monotonic=clock)
    assert not shortage.look()
    all_used()
    for _ in range(241):
        assert shortage.look()
        clock.advance(REPORT_INTERVAL / 240)
    lines = [line for line in end_logs().splitlines() if LINE in line]
    assert len(lines) == 2
    assert f'"limit":{LIMIT}}}' in lines[0]
    assert f'"limit":{LIMIT},"suppressed":239' in lines[1]
    assert "Too many open files" in lines[0]


def test_a_look_that_finds_a_shortage_leaves_descriptors_for_the_loop(
    all_used: Callable[[], None],
) -> None:
    shortage = DescriptorShortage()
    shortage.look()
    all_used()
    assert shortage.look()
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(RESERVE)]
    for descriptor in opened:
        os.close(descriptor)
    shortage.close()


def test_metrics_of_a_process_without_descriptors_go_on_without_a_traceback(
    all_used: Callable[[], None], end_logs: Callable[[], str]
) -> None:
    loop, metrics = FakeLoop(), new_metrics()
    process = ProcessMetrics(metrics, loop.loop, [], monotonic=loop.perf_counter)
    process.start()
    all_used()
    loop.advance(2 * INTERVAL + LAG_INTERVAL)
    assert recorded(metrics, PROCESS_OPEN_FILES) == LIMIT
    assert loop.errors == []
    process.close()
    text = end_logs()
    assert text.count(LINE) == 1
    assert "Traceback" not in text


async def test_what_the_loop_reports_of_a_shortage_is_the_same_line(
    end_logs: Callable[[], str],
) -> None:
    loop = asyncio.get_running_loop()
    handle = loop_error_handler(DescriptorShortage())
    for _ in range(100):
        error = OSError(errno.EMFILE, "Too many open files")
        handle(loop, {"message": "accept failed", "exception": error})
    handle(loop, {"exception": OSError(errno.EPERM, "not allowed")})
    text = end_logs()
    assert text.count(LINE) == 1
    assert text.count("Unhandled error on the event loop") == 1


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (OSError(errno.EMFILE, ""), True),
        (OSError(errno.ENFILE, ""), True),
        (OSError(errno.EPERM, ""), False),
        (ValueError(), False),
        (None, False),
    ],
)
def test_which_errors_are_a_shortage(error: Exception | None, is_one: bool) -> None:
    assert is_shortage(error) is is_one
