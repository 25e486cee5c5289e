"""One connection, byte by byte and second by second."""

import asyncio
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keytables.dynamodb.connections import (
    Connection,
    ConnectionLimits,
    HttpResponse,
    NotSent,
    ResponseLost,
)
from support.fake_loop import FakeLoop
from support.fake_transport import FakeTransport

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


def response(body: bytes = b"{}", head: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n" % (len(body), head) + body


class ClockLoop(FakeLoop):
    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.get_running_loop().create_future()


class Harness:
    """A connection on a fake transport and a fake clock."""

    def __init__(self, **limits: Any) -> None:
        self.loop = ClockLoop()
        self.free_calls = 0
        self.closed = 0
        self.connection = Connection(
            self.loop.loop,
            limits=ConnectionLimits(**limits),
            on_free=self.on_free,
            on_closed=self.on_closed,
        )
        self.transport = FakeTransport(self.loop, self.connection)

    def on_free(self, connection: Connection) -> None:
        assert connection is self.connection
        self.free_calls += 1

    def on_closed(self, connection: Connection) -> None:
        assert connection is self.connection
        self.closed += 1

    def request(self, seconds: float = 1.5) -> "asyncio.Future[HttpResponse]":
        return self.connection.exchange(b"request", seconds)

    def receive(self, *parts: bytes) -> None:
        for part in parts:
            self.connection.data_received(part)

    def run_scheduled(self) -> None:
        """Run what is scheduled for the next iteration of the loop."""
        self.loop.advance()


@pytest.fixture
async def harness() -> Harness:
    return Harness()


def loss(future: "asyncio.Future[HttpResponse]") -> ResponseLost:
    error = future.exception()
    assert isinstance(error, ResponseLost)
    return error


async def test_a_response_is_read_in_pieces_of_any_size(harness: Harness) -> None:
    whole = response(b'{"a":1}', b"Date: today\r\n")
    for size in range(1, len(whole) + 1):
        future = harness.request()
        harness.receive(*(whole[at : at + size] for at in range(0, len(whole), size)))
        assert future.result() == HttpResponse(200, b'{"a":1}', b"today")
    assert harness.free_calls == len(whole)
    assert harness.transport.written == b"request" * len(whole)


async def test_a_checksum_is_only_for_its_own_response(harness: Harness) -> None:
    summed = response(b'{"a":1}', b"X-Amz-CRC32: %d\r\nDate: x\r\n" % zlib.crc32(b'{"a":1}'))
    interim = b"HTTP/1.1 100 Continue\r\nx-amz-crc32: 1\r\n\r\n"
    for data, body in ((summed, b'{"a":1}'), (response(), b"{}"), (interim + response(), b"{}")):
        future = harness.request()
        harness.receive(data)
        assert future.result().body == body
    assert future.result().date == b""


@pytest.mark.parametrize("data", [response(), b"HTTP/1.1 2", b"?"])
async def test_data_without_a_request_closes_an_idle_connection(
    harness: Harness, data: bytes
) -> None:
    harness.receive(data)
    assert not harness.connection.is_open
    with pytest.raises(NotSent):
        harness.request()
    harness.run_scheduled()
    assert (harness.free_calls, harness.closed) == (0, 1)


async def test_the_limit_of_size_is_for_each_response() -> None:
    harness = Harness(max_response=1000)
    for _ in range(5):
        future = harness.request()
        harness.receive(response(b"{" * 900)[:500], response(b"{" * 900)[500:])
        assert len(future.result().body) == 900
    future = harness.request()
    harness.receive(HEAD % 5000, b"{" * 990)
    harness.run_scheduled()
    assert str(loss(future)) == "the server's response is too large"


async def test_nothing_is_sent_once_the_server_has_closed(harness: Harness) -> None:
    harness.transport.eof()
    assert not harness.connection.is_open  # before the connection is lost
    with pytest.raises(NotSent, match="the server closed"):
        harness.request()
    harness.run_scheduled()
    assert harness.closed == 1


async def test_only_a_used_connection_that_closes_without_a_byte_is_stale(harness: Harness) -> None:
    future = harness.request()
    harness.transport.reset()
    harness.run_scheduled()
    assert not loss(future).stale

    for received, stale in ((b"", True), (b"HTTP/1.1 200", False)):
        harness = Harness()
        harness.request()
        harness.receive(response())
        future = harness.request()
        if received:
            harness.receive(received)
        harness.transport.reset()
        harness.run_scheduled()
        assert loss(future).stale is stale


async def test_a_response_that_is_late_is_no_sign_of_a_stale_connection(harness: Harness) -> None:
    harness.request()
    harness.receive(response())
    future = harness.request()
    harness.loop.advance(2.0)
    harness.run_scheduled()
    assert str(loss(future)) == "no response in time"
    assert not loss(future).stale


async def test_the_largest_responses_of_dynamodb_fit(harness: Harness) -> None:
    part = b"=" * (1 << 20)
    future = harness.request()
    harness.receive(HEAD % (22 * len(part)), *[part] * 22)  # 16 MB in base64
    assert len(future.result().body) == 22 << 20


async def test_time_runs_from_the_request(harness: Harness) -> None:
    for _ in range(20):
        harness.loop.advance(1.0)
        future = harness.request()
        harness.loop.advance(1.0)
        assert not future.done()
        harness.receive(response())
    future = harness.request()
    harness.receive(HEAD % 5000)
    for _ in range(14):  # a response in small pieces has no more time
        harness.loop.advance(0.1)
        harness.receive(b"{")
    assert not future.done()
    harness.loop.advance(0.2)
    harness.run_scheduled()
    assert str(loss(future)) == "no response in time"
    assert not harness.connection.is_open
    assert harness.loop.scheduled == []


async def test_a_cancelled_request_has_a_time_limit_too(harness: Harness) -> None:
    future = harness.request()
    future.cancel()
    harness.loop.advance(1.0)
    assert (harness.free_calls, harness.closed) == (0, 0)
    harness.loop.advance(1.0)
    harness.run_scheduled()
    assert (harness.free_calls, harness.closed) == (0, 1)


async def test_an_unused_connection_is_closed_some_time_after_its_last_response(
    harness: Harness,
) -> None:
    harness.loop.advance(ConnectionLimits().idle_timeout - 1)
    harness.request()
    harness.receive(response())
    harness.loop.advance(ConnectionLimits().idle_timeout - 1)
    assert harness.connection.is_open
    harness.loop.advance(2)
    harness.run_scheduled()
    assert harness.closed == 1
    assert harness.loop.scheduled == []


async def test_an_idle_connection_has_one_timer(harness: Harness) -> None:
    for _ in range(10):
        harness.request()
        harness.receive(response())
    assert len(harness.loop.scheduled) == 1


async def test_a_lost_response_that_nobody_awaits_is_not_logged(harness: Harness) -> None:
    logged: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: logged.append(context))
    future = harness.request()
    harness.transport.reset()
    harness.run_scheduled()
    del future
    assert logged == []


damaged = st.builds(
    lambda data, at, cut, put: data[:at] + put + data[at + cut :],
    st.sampled_from(
        [
            response(b'{"a":1}', b"x-amz-crc32: 1\r\nDate: x\r\n"),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            response() * 2,
        ]
    ),
    st.integers(0, 80),
    st.integers(0, 20),
    st.binary(max_size=20),
)


@given(data=damaged, size=st.integers(1, 100))
def test_whatever_the_server_sends_the_request_gets_a_response_or_it_is_lost(
    data: bytes, size: int
) -> None:
    async def run() -> None:
        harness = Harness()
        future = harness.request()
        for at in range(0, len(data), size):
            if not harness.transport.lost:
                harness.receive(data[at : at + size])
                harness.run_scheduled()
        if not harness.transport.lost:
            harness.transport.reset()
            harness.run_scheduled()
        assert future.done()
        assert isinstance(future.exception(), ResponseLost | None)
        assert harness.closed == 1
        assert harness.loop.scheduled == []

    asyncio.run(run())


async def test_closing_is_reported_once(harness: Harness) -> None:
    harness.connection.abort("enough")
    harness.connection.abort("really")
    harness.run_scheduled()
    with pytest.raises(NotSent, match="enough"):
        harness.request()
    assert harness.closed == 1
