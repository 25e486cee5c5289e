"""What statsd servers and Datadog get, when, and what becomes of it when they are away."""

import asyncio
import socket
import time
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.service.datadog import TIMEOUT, Datadog
from autopush.telemetry.exporters import MAX_DATAGRAM, Change, Changes, Exporter, Statsd, datagrams
from autopush.telemetry.metrics import MAX_SAMPLES, Kind, Metric, Metrics, SharedMetrics
from support.collecting_servers import KEY, DatadogServer

PUSHES = Metric("pushes", Kind.COUNTER, "pushes", {"code": ("201", "410")})
SOCKETS = Metric("sockets", Kind.GAUGE, "sockets")
TIME = Metric("time", Kind.HISTOGRAM, "time of a push", {}, (0.1, 1.0), "seconds")
CPU = Metric("cpu", Kind.COUNTER, "CPU time", unit="seconds", per_worker=True)
MEMORY = Metric("memory", Kind.GAUGE, "memory", per_worker=True)
TABLE = (PUSHES, SOCKETS, TIME)


def workers(number: int = 1, table: Sequence[Metric] = TABLE) -> list[Metrics]:
    shared = SharedMetrics(table, number)
    metrics = [shared.of_worker(index) for index in range(number)]
    for each in metrics:
        each.samples = []
    return metrics


def found(changes: Changes) -> dict[str, Sequence[float]]:
    return {
        f"{change.metric.name} {' '.join(change.tags)}".strip(): change.values
        for change in changes.collect()
    }


def test_a_counter_is_sent_as_what_it_has_grown_by_since_it_was_taken() -> None:
    [metrics] = workers()
    metrics.counter(PUSHES, code="201").add(2)  # before there is an exporter
    changes = Changes(metrics)
    metrics.counter(PUSHES, code="201").add(3)
    assert found(changes) == {"pushes code:201": [3], "sockets": [0]}
    metrics.counter(PUSHES, code="201").add()
    assert found(changes) == {"pushes code:201": [4], "sockets": [0]}, "it was not confirmed"
    changes.confirm()
    assert found(changes) == {"sockets": [0]}


def test_each_worker_sends_its_own_counts_and_the_first_one_the_gauges_of_all() -> None:
    first, second = workers(2)
    both = [Changes(first), Changes(second)]
    for worker, number in ((first, 1), (second, 2)):
        worker.counter(PUSHES, code="410").add(number)
        worker.gauge(SOCKETS).set(number)
    assert [found(each) for each in both] == [
        {"pushes code:410": [1], "sockets": [3]},
        {"pushes code:410": [2]},
    ]


def test_what_is_of_one_process_is_sent_by_it_with_its_number() -> None:
    both = workers(2, (CPU, MEMORY))
    changes = [Changes(metrics) for metrics in both]
    for number, metrics in enumerate(both, 1):
        metrics.counter(CPU).add(number)
        metrics.gauge(MEMORY).set(number)
    assert [found(each) for each in changes] == [
        {"cpu worker:0": [1], "memory worker:0": [1]},
        {"cpu worker:1": [2], "memory worker:1": [2]},
    ]


def test_the_values_of_a_histogram_are_sent_once_with_the_share_that_was_kept() -> None:
    [metrics] = workers()
    changes = Changes(metrics)
    histogram = metrics.histogram(TIME)
    for _ in range(2 * MAX_SAMPLES):
        histogram.observe(0.5)
    change = next(each for each in changes.collect() if each.metric is TIME)
    assert (len(change.values), change.rate) == (MAX_SAMPLES, 0.5)
    changes.confirm()
    assert found(changes) == {"sockets": [0]}


def test_without_an_exporter_no_values_are_kept() -> None:
    metrics = SharedMetrics(TABLE, 1).of_worker(0)
    metrics.histogram(TIME).observe(1)
    assert metrics.samples is None


def test_lines_have_names_values_types_rates_and_tags() -> None:
    changes = [
        Change(PUSHES, {"code": "201"}, [3]),
        Change(SOCKETS, {}, [10_000]),
        Change(TIME, {}, [0.25, 2], 0.5),
    ]
    [datagram] = datagrams(changes)
    assert datagram.decode().split("\n") == [
        "autopush.pushes:3|c|#code:201",
        "autopush.sockets:10000|g",
        "autopush.time:250|ms|@0.5",
        "autopush.time:2000|ms|@0.5",
    ]


@given(st.lists(st.floats(0, 1e9), max_size=500))
def test_every_line_is_in_one_datagram_and_none_is_too_long(values: list[float]) -> None:
    sent = list(datagrams([Change(TIME, {}, values)]))
    assert all(len(datagram) <= MAX_DATAGRAM for datagram in sent)
    lines = [line for datagram in sent for line in datagram.split(b"\n")]
    assert len(lines) == len(values)


@pytest.fixture
def statsd() -> socket.socket:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    server.settimeout(30)
    return server


async def test_a_statsd_server_gets_what_was_recorded_also_at_the_end(
    statsd: socket.socket,
) -> None:
    [metrics] = workers()
    exporter = Exporter(metrics, Statsd("127.0.0.1", statsd.getsockname()[1]))
    exporter.start()
    metrics.counter(PUSHES, code="201").add(7)
    await exporter.stop()
    received = await asyncio.to_thread(statsd.recv, 65536)
    statsd.close()
    assert b"autopush.pushes:7|c|#code:201" in received


async def test_datadog_gets_counts_gauges_and_distributions_with_host_and_time() -> None:
    [metrics] = workers()
    with DatadogServer() as server:
        sender = Datadog(server.url, KEY, host="box", interval=0.05, clock=lambda: 1_700_000_000.5)
        exporter = Exporter(metrics, sender)
        exporter.start()
        metrics.counter(PUSHES, code="201").add(7)
        metrics.gauge(SOCKETS).set(5)
        metrics.histogram(TIME).observe(0.25)
        distribution = await asyncio.to_thread(server.wait_for, "autopush.time")
        await exporter.stop()
        series = {each["metric"]: each for each in server.series[:2]}
    assert series["autopush.pushes"] == {
        "metric": "autopush.pushes",
        "type": 1,
        "interval": 0,
        "points": [{"timestamp": 1_700_000_000, "value": 7.0}],
        "resources": [{"type": "host", "name": "box"}],
        "tags": ["code:201"],
    }
    assert (series["autopush.sockets"]["type"], series["autopush.sockets"]["points"]) == (
        3,
        [{"timestamp": 1_700_000_000, "value": 5.0}],
    )
    assert distribution["points"] == [[1_700_000_000, [250.0]]]


@pytest.mark.parametrize("status", [302, 403, 500])
async def test_counts_of_an_outage_are_sent_when_it_is_over_and_it_is_logged_once(
    status: int, end_logs: Callable[[], str]
) -> None:
    [metrics] = workers()
    with DatadogServer() as server:
        server.status = status
        exporter = Exporter(metrics, Datadog(server.url, KEY, host="box", interval=0.02))
        exporter.start()
        metrics.counter(PUSHES, code="201").add(7)
        await asyncio.to_thread(server.wait, 3)
        server.status = 202
        counted = await asyncio.to_thread(server.wait_for, "autopush.pushes")
        await exporter.stop()
    assert counted["points"][0]["value"] == 7
    log = end_logs()
    assert log.count("Metrics cannot be sent") == 1
    assert f"HTTP {status}" in log
    assert log.count("Metrics can be sent again") == 1
    assert KEY not in log


async def test_counts_that_arrived_are_not_sent_again_when_the_values_are_refused() -> None:
    [metrics] = workers()
    with DatadogServer() as server:
        server.refused_path = "/api/v1/distribution_points"
        exporter = Exporter(metrics, Datadog(server.url, KEY, host="box", interval=0.02))
        exporter.start()
        metrics.counter(PUSHES, code="201").add(7)
        metrics.histogram(TIME).observe(0.25)
        await asyncio.to_thread(server.wait_for, "autopush.pushes")
        metrics.counter(PUSHES, code="410").add(1)
        await exporter.stop()
        sent = [each["points"][0]["value"] for each in server.series if "pushes" in each["metric"]]
    assert sent == [7, 1]
    assert server.distributions == []


async def test_localhost_is_where_statsd_servers_listen_by_default(
    statsd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def getaddrinfo(_: object, port: int, **__: object) -> object:
        known = ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1"))
        return [(family, socket.SOCK_DGRAM, 17, "", (host, port)) for family, host in known]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    sender = Statsd("localhost", statsd.getsockname()[1])
    await sender.send([Change(SOCKETS, {}, [5])])
    received = await asyncio.to_thread(statsd.recv, 65536)
    await sender.close()
    statsd.close()
    assert received == b"autopush.sockets:5|g"


@pytest.mark.parametrize("host", ["::1", "[::1]"])
async def test_a_statsd_server_may_have_an_address_of_ipv6(host: str) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as server:
        server.bind(("::1", 0))
        server.settimeout(30)
        sender = Statsd(host, server.getsockname()[1])
        await sender.send([Change(SOCKETS, {}, [5])])
        received = await asyncio.to_thread(server.recv, 65536)
        await sender.close()
    assert received == b"autopush.sockets:5|g"


def test_a_request_under_way_does_not_hold_up_the_end_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("autopush.telemetry.exporters.STOP_TIMEOUT", 0.05)

    accepted: list[socket.socket] = []

    async def serve(silent: socket.socket) -> None:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        exporter = Exporter(workers()[0], Datadog(url, KEY, host="box", interval=0.0))
        exporter.start()
        accepted.append((await asyncio.get_running_loop().sock_accept(silent))[0])
        await exporter.stop()

    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        asyncio.run(serve(silent))
    assert time.monotonic() - began < TIMEOUT / 2
    accepted[0].close()
