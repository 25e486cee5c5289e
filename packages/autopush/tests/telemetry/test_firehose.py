"""Log lines on their way to Firehose, with botocore as the client and a fake of the service."""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from autopush.telemetry import logs
from autopush.telemetry.log_handlers import MAX_RECORD_BYTES, RETRIES, DeliveryStream, open_stream
from autopush.telemetry.logs import LineHandler
from keytables.retries import Backoff
from support.collecting_servers import MAX_BATCH, MAX_RECORDS, STREAM, FirehoseServer
from support.log_lines import LogFile

Lost = list[tuple[int, str]]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FirehoseServer]:
    with FirehoseServer() as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def lost() -> Iterator[Lost]:
    """What was reported as lost."""
    reports: Lost = []

    class Reports(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            fields = record.__dict__["fields"]
            reports.append((fields["lost"], fields["cause"]))

    logger, handler = logging.getLogger("autopush.telemetry.log_handlers"), Reports()
    logger.addHandler(handler)
    yield reports
    logger.removeHandler(handler)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent at the end arrives, however long that takes."""
    monkeypatch.setattr("autopush.telemetry.log_handlers.CLOSE_TIMEOUT", 50)


@pytest.fixture
def start() -> Iterator[Callable[..., DeliveryStream]]:
    """Started streams, which are closed at the end."""
    streams: list[DeliveryStream] = []

    def started(
        name: str = STREAM, capacity: int = 10_000, flush_interval: float = 0.05
    ) -> DeliveryStream:
        connect = open_stream(name, capacity=1)._connect
        stream = DeliveryStream(
            name,
            connect,
            capacity=capacity,
            flush_interval=flush_interval,
            pauses=Backoff(0.01, 0.02),
        )
        stream.start()
        streams.append(stream)
        return stream

    yield started
    for stream in streams:
        stream.close()


def records_of(lines: Sequence[bytes]) -> list[bytes]:
    return [b"\x1e" + line for line in lines]


def test_each_record_is_a_line_after_a_separator(
    server: FirehoseServer, start: Callable[..., DeliveryStream]
) -> None:
    stream = start()
    stream.put(b'{"a":1}\n')
    stream.put(b'{"b":2}\n')
    stream.close()
    assert server.records == [b'\x1e{"a":1}\n', b'\x1e{"b":2}\n']


def test_lines_are_sent_when_the_interval_ends(
    server: FirehoseServer, start: Callable[..., DeliveryStream]
) -> None:
    stream = start()
    stream.put(b"a\n")
    server.wait(1)
    stream.put(b"b\n")
    server.wait(2)
    assert server.batches == [[b"\x1ea\n"], [b"\x1eb\n"]]


def test_a_batch_of_the_most_records_is_sent_without_waiting(
    server: FirehoseServer, start: Callable[..., DeliveryStream]
) -> None:
    stream = start(flush_interval=3600)
    lines = [b"%d\n" % number for number in range(MAX_RECORDS + 1)]
    for line in lines:
        stream.put(line)
    server.wait(1)
    assert server.batches == [records_of(lines[:-1])]
    stream.close()
    assert server.records == records_of(lines)


def test_a_batch_is_smaller_than_its_limit_in_bytes(
    server: FirehoseServer, start: Callable[..., DeliveryStream]
) -> None:
    stream = start(flush_interval=3600)
    lines = [b"%d" % (number % 10) * 500_000 for number in range(20)]
    for line in lines:
        stream.put(line)
    stream.close()
    assert server.records == records_of(lines)
    assert len(server.batches) > 2
    for request in server.requests:
        assert len(request.body) < MAX_BATCH + 4096  # in base64, and the JSON around it


def test_a_line_that_is_too_long_for_a_record_is_lost_alone(
    server: FirehoseServer, start: Callable[..., DeliveryStream], lost: Lost
) -> None:
    stream = start()
    for line in (b"a\n", b"x" * MAX_RECORD_BYTES, b"y" * (MAX_RECORD_BYTES - 1), b"b\n"):
        stream.put(line)
    stream.close()
    assert [record[1:2] for record in server.records] == [b"a", b"y", b"b"]
    assert stream.lost == 1
    assert sum(number for number, _ in lost) == 1


@pytest.mark.parametrize("failures", [[500], [500, 503, 500], [(1,)], [(0, 2), 500, (0,)]])
def test_what_failed_is_sent_again_and_nothing_else(
    server: FirehoseServer,
    start: Callable[..., DeliveryStream],
    failures: list[int | Sequence[int]],
    lost: Lost,
) -> None:
    server.failures = list(failures)
    stream = start()
    for line in (b"a\n", b"b\n", b"c\n"):
        stream.put(line)
    server.wait(len(failures) + 1)
    stream.close()
    assert sorted(server.records) == records_of([b"a\n", b"b\n", b"c\n"])
    assert (stream.lost, lost) == (0, [])


def test_a_batch_that_fails_again_and_again_is_dropped_and_counted_and_the_next_is_sent(
    server: FirehoseServer, start: Callable[..., DeliveryStream], lost: Lost
) -> None:
    server.failures = [500] * (RETRIES + 1)
    stream = start()
    stream.put(b"a\n")
    server.wait(RETRIES + 1)
    stream.put(b"b\n")
    server.wait(RETRIES + 2)
    stream.close()
    assert server.records == [b"\x1eb\n"]
    assert stream.lost == 1
    assert lost == [(1, "ServiceUnavailableException")]


def test_a_service_that_is_not_there_loses_lines_and_delays_nothing(
    start: Callable[..., DeliveryStream], lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_FIREHOSE", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    stream = start()
    stream.put(b"a\n")
    stream.close()
    assert lost == [(1, "EndpointConnectionError")]


class StuckClient:
    """Does not answer until it is released."""

    def __init__(self) -> None:
        self.called = threading.Event()
        self.released = threading.Event()

    def put_record_batch(self, **_: object) -> dict[str, object]:
        self.called.set()
        self.released.wait()
        return {"FailedPutCount": 0}


def test_lines_beyond_the_capacity_are_dropped_and_counted(lost: Lost) -> None:
    client = StuckClient()
    stream = DeliveryStream(STREAM, lambda: client, capacity=10, flush_interval=0)
    stream.start()
    stream.put(b"first\n")
    assert client.called.wait(20)
    for _ in range(15):
        stream.put(b"more\n")
    assert stream.lost == 5
    client.released.set()
    stream.close()
    assert lost == [(5, "the queue was full")]


def test_the_end_does_not_wait_for_a_service_that_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autopush.telemetry.log_handlers.CLOSE_TIMEOUT", 0.05)
    client = StuckClient()
    stream = DeliveryStream(STREAM, lambda: client, capacity=10, flush_interval=0)
    stream.start()
    stream.put(b"first\n")
    assert client.called.wait(20)
    stream.close()
    assert not client.released.is_set()
    client.released.set()


# With the logs


def test_log_lines_go_to_the_output_and_to_the_stream(
    server: FirehoseServer, tmp_path: Path
) -> None:
    stream = open_stream(STREAM, capacity=100)
    lines = LogFile(tmp_path, level="info", handlers=[stream])
    logs.get("x").info("before a fork")
    logs.start_background()
    logs.get("x").info("a", number=1)
    logs.get("x").info("b")
    logs.shutdown()
    written = lines.path.read_bytes().splitlines(keepends=True)
    assert len(written) == 3
    assert server.records == records_of(written[1:])


def test_what_is_lost_is_in_the_other_output(server: FirehoseServer, tmp_path: Path) -> None:
    lines = LogFile(tmp_path, level="info", handlers=[open_stream("other", capacity=100)])
    logs.start_background()
    logs.get("x").info("a")
    logs.shutdown()
    assert [fields["message"] for fields in lines.all_fields] == [
        "a",
        "Log lines lost: Firehose did not take them",
    ]
    assert lines.all_fields[-1]["lost"] == 1


def test_a_blocked_output_does_not_keep_lines_from_the_stream() -> None:
    class Client:
        def __init__(self) -> None:
            self.records: list[bytes] = []
            self.done = threading.Event()

        def put_record_batch(self, **arguments: object) -> dict[str, object]:
            records = arguments["Records"]
            assert isinstance(records, list)
            self.records += [record["Data"] for record in records]
            self.done.set()
            return {"FailedPutCount": 0}

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"." * 4096)
    os.set_blocking(writer, True)
    client = Client()
    stream = DeliveryStream(STREAM, lambda: client, capacity=10, flush_interval=0)
    handler = LineHandler(writer, logging.Formatter())
    for each in (handler, stream):
        each.setFormatter(logging.Formatter())
        each.start()
        each.handle(logging.makeLogRecord({"msg": "a"}))
    assert client.done.wait(20)
    assert client.records == [b"\x1ea\n"]
    os.close(reader)
    handler.close()
    stream.close()
    os.close(writer)


def test_the_thread_sleeps_while_there_is_nothing_to_do() -> None:
    gets = 0
    stream = DeliveryStream(STREAM, StuckClient, capacity=10, flush_interval=0.01)
    get = stream._lines.get

    class Counting:
        put = staticmethod(stream._lines.put)
        qsize = staticmethod(stream._lines.qsize)

        def get(self, timeout: float | None = None) -> bytes | None:
            nonlocal gets
            gets += 1
            return get(timeout=timeout)

    stream._lines = Counting()  # type: ignore[assignment]
    stream.start()
    assert stream._thread is not None
    stream._thread.join(0.2)
    stream.close()
    assert gets <= 2


def test_without_another_output_lines_go_to_the_stream(server: FirehoseServer) -> None:
    logs.configure(output="none", handlers=[open_stream(STREAM, capacity=100)])
    logs.get("x").info("a")
    logs.shutdown()
    assert len(server.records) == 1
