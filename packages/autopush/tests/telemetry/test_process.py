"""What a worker records of its process, on a fake clock."""

import asyncio
import os
import resource
import threading
from collections.abc import Callable
from functools import partial

import pytest

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
from autopush.telemetry.process import INTERVAL, LAG_INTERVAL, ProcessMetrics, open_files
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
    loop.advance(INTERVAL)
    assert recorded(metrics, LOG_LOST) == 3
    running.close()


def test_open_files_are_counted_without_that_of_the_count() -> None:
    before = open_files()
    reading, writing = os.pipe()
    assert open_files() == before + 2
    os.close(reading)
    os.close(writing)
    assert open_files() == before


def test_what_changes_is_looked_at_every_five_seconds(metrics: Metrics, loop: FakeLoop) -> None:
    requests, cpu = [3.0], [1.5]
    running = process_metrics(metrics, loop, lambda: requests[0], lambda: cpu[0])
    running.start()
    assert recorded(metrics, REQUESTS_IN_FLIGHT) == 3
    assert recorded(metrics, PROCESS_CPU) == 1.5
    requests[0], cpu[0] = 8.0, 2.0
    loop.advance(INTERVAL - LAG_INTERVAL)
    assert recorded(metrics, REQUESTS_IN_FLIGHT) == 3
    loop.advance(LAG_INTERVAL)
    assert recorded(metrics, REQUESTS_IN_FLIGHT) == 8
    assert recorded(metrics, PROCESS_CPU) == 2.0
    running.close()
    assert loop.scheduled == []


def test_what_a_worker_records_is_published_several_times_a_second(
    metrics: Metrics, loop: FakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[float] = []
    monkeypatch.setattr(metrics, "publish", lambda: published.append(loop.now))
    running = process_metrics(metrics, loop)
    running.start()
    loop.advance(1)
    assert len(published) >= 4
    published.clear()
    running.close()
    assert len(published) == 1


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
