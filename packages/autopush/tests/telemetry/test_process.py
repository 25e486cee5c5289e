"""What a worker records of its process, on a fake clock."""

import asyncio
import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from autopush.service.worker import loop_error_handler
from autopush.telemetry import logs
from autopush.telemetry.log_handlers import DeliveryStream
from autopush.telemetry.metric_table import (
    LOG_LOST,
    LOOP_LAG,
    PROCESS_CPU,
    PROCESS_MAX_FILES,
    PROCESS_MEMORY,
    PROCESS_OPEN_FILES,
    REQUESTS_IN_FLIGHT,
)
from autopush.telemetry.metrics import Metrics
from autopush.telemetry.process import (
    IDLE_CPU,
    INTERVAL,
    LAG_INTERVAL,
    REPORT_INTERVAL,
    RESERVE,
    DescriptorShortage,
    ProcessMetrics,
    is_shortage,
    open_files,
)
from support.clocks import ManualClock
from support.fake_loop import FakeLoop
from support.recorded import new_metrics, recorded


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def metrics() -> Metrics:
    return new_metrics()


def process_metrics(
    metrics: Metrics,
    loop: FakeLoop,
    in_flight: Callable[[], float] = lambda: 0,
    process_time: Callable[[], float] = lambda: 0.0,
) -> ProcessMetrics:
    return ProcessMetrics(
        metrics,
        loop.loop,
        [(REQUESTS_IN_FLIGHT, in_flight)],
        monotonic=loop.perf_counter,
        process_time=process_time,
    )


def test_the_process_is_looked_at_from_the_start(metrics: Metrics, loop: FakeLoop) -> None:
    running = process_metrics(metrics, loop)
    running.start()
    assert 1_000_000 < recorded(metrics, PROCESS_MEMORY) < 64_000_000_000
    assert 3 <= recorded(metrics, PROCESS_OPEN_FILES) < 10_000
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert recorded(metrics, PROCESS_MAX_FILES) == soft
    running.close()


def test_log_lines_that_were_lost_are_counted_also_those_that_only_firehose_was_to_get(
    metrics: Metrics, loop: FakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = DeliveryStream("s", lambda: pytest.fail("never connected"), capacity=0)
    monkeypatch.setattr(DeliveryStream, "start", lambda *_: None)
    monkeypatch.setattr(stream, "_thread", threading.current_thread())
    monkeypatch.setattr(DeliveryStream, "close", lambda _: None)
    logs.configure(output="none", handlers=[stream])
    running = process_metrics(metrics, loop)
    running.start()
    assert recorded(metrics, LOG_LOST) == 0
    for _ in range(3):
        logs.get("test").info("finds no room")
    loop.advance(INTERVAL + 1)
    assert recorded(metrics, LOG_LOST) == 3
    running.close()


def test_open_files_are_counted_without_that_of_the_count() -> None:
    before = open_files()
    assert before == len(os.listdir("/proc/self/fd")) - 1
    reading, writing = os.pipe()
    assert open_files() == before + 2
    os.close(reading)
    os.close(writing)
    assert open_files() == before


@pytest.mark.skipif(not os.stat("/proc/self/fd").st_size, reason="needs Linux 6.2 or newer")
def test_open_files_are_not_listed_where_the_system_knows_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "listdir", lambda _: pytest.fail("a list of all is made"))
    assert open_files()


def test_what_changes_is_looked_at_every_five_seconds(metrics: Metrics, loop: FakeLoop) -> None:
    requests, cpu = [3.0], [1.5]
    running = process_metrics(metrics, loop, lambda: requests[0], lambda: cpu[0])
    running.start()
    assert recorded(metrics, REQUESTS_IN_FLIGHT) == 3
    assert recorded(metrics, PROCESS_CPU) == 1.5
    requests[0], cpu[0] = 8.0, 2.0
    loop.advance(INTERVAL - LAG_INTERVAL)
    assert recorded(metrics, REQUESTS_IN_FLIGHT) == 3
    loop.advance(1)
    assert recorded(metrics, REQUESTS_IN_FLIGHT) == 8
    assert recorded(metrics, PROCESS_CPU) == 2.0
    running.close()
    assert loop.scheduled == []


def test_what_a_worker_records_is_published_every_second(
    metrics: Metrics, loop: FakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[float] = []
    monkeypatch.setattr(metrics, "publish", lambda: published.append(loop.now))
    running = process_metrics(metrics, loop)
    running.start()
    for _ in range(41):
        loop.advance(LAG_INTERVAL)
    assert len(published) == 10
    published.clear()
    running.close()
    assert len(published) == 1


@pytest.mark.parametrize(("share", "times"), [(IDLE_CPU / 2, 1), (0.5, 4)])
def test_the_loop_is_measured_once_a_second_and_four_times_while_the_process_is_busy(
    metrics: Metrics, loop: FakeLoop, share: float, times: int
) -> None:
    running = process_metrics(metrics, loop, process_time=lambda: share * loop.now)
    running.start()
    loop.advance(1 + LAG_INTERVAL)
    seen: set[float] = set()
    for _ in range(4000):
        seen.update(loop.scheduled)
        loop.advance(0.001)
    assert len(seen) == pytest.approx(4 * times, abs=1)
    running.close()


def test_a_worker_that_follows_another_adds_to_its_cpu_time(
    metrics: Metrics, loop: FakeLoop
) -> None:
    for seconds in (7.0, 2.0):
        running = process_metrics(metrics, loop, process_time=partial(float, seconds))
        running.start()
        running.close()
    assert recorded(metrics, PROCESS_CPU) == 9.0


def test_the_lag_is_the_longest_of_the_last_five_seconds(metrics: Metrics, loop: FakeLoop) -> None:
    running = process_metrics(metrics, loop)
    running.start()
    loop.advance(LAG_INTERVAL)
    loop.call_later(0.1, block, loop, 0.8)
    loop.advance(1)
    loop.advance(INTERVAL)
    assert recorded(metrics, LOOP_LAG) == pytest.approx(0.8, abs=LAG_INTERVAL)
    loop.advance(2 * INTERVAL)
    assert recorded(metrics, LOOP_LAG) == pytest.approx(0, abs=1e-9)
    running.close()


def block(loop: FakeLoop, seconds: float) -> None:
    """A callback that takes so long."""
    loop.busy += seconds


async def test_a_real_loop_that_is_blocked_is_late(metrics: Metrics) -> None:
    running = ProcessMetrics(metrics, asyncio.get_running_loop(), [])
    running.start()
    async with asyncio.timeout(60):
        while not recorded(metrics, PROCESS_OPEN_FILES):  # noqa: ASYNC110 - a thread has no event
            await asyncio.sleep(0.01)
    running.close()
    assert recorded(metrics, PROCESS_CPU) > 0


# ── No file descriptor is left ────────────────────────────────────────────────────────────────────

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
    assert not shortage.check()
    all_used()
    for _ in range(241):
        assert shortage.check()
        clock.advance(REPORT_INTERVAL / 240)
    lines = [line for line in end_logs().splitlines() if LINE in line]
    assert len(lines) == 2
    assert f'"limit":{LIMIT}}}' in lines[0]
    assert f'"limit":{LIMIT},"suppressed":239' in lines[1]
    assert "Too many open files" in lines[0]


def test_a_check_that_finds_a_shortage_leaves_descriptors_for_the_loop(
    all_used: Callable[[], None],
) -> None:
    shortage = DescriptorShortage()
    shortage.check()
    all_used()
    assert shortage.check()
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(RESERVE)]
    for descriptor in opened:
        os.close(descriptor)
    shortage.close()


def test_metrics_of_a_process_without_descriptors_go_on_without_a_traceback(
    metrics: Metrics, loop: FakeLoop, all_used: Callable[[], None], end_logs: Callable[[], str]
) -> None:
    process = process_metrics(metrics, loop)
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
