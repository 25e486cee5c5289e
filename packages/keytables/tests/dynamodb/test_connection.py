"""One connection, byte by byte and second by second."""

import asyncio
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keytables.dynamodb import connection as module
from keytables.dynamodb.connection import IDLE, Answer, Connection, Lost, NotSent
from support.fake_loop import FakeLoop
from support.fake_transport import FakeTransport

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


def answer(body: bytes = b"{}", head: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n" % (len(body), head) + body


class ClockLoop(FakeLoop):
    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.get_running_loop().create_future()


class House:
    """A connection on a transport and a clock that the test holds."""

    def __init__(self) -> None:
        self.loop = ClockLoop()
        self.freed = 0
        self.ended = 0
        self.connection = Connection(self.loop.loop, freed=self.on_freed, ended=self.on_ended)
        self.transport = FakeTransport(self.loop, self.connection)

    def on_freed(self, connection: Connection) -> None:
        assert connection is self.connection
        self.freed += 1

    def on_ended(self, connection: Connection) -> None:
        assert connection is self.connection
        self.ended += 1

    def ask(self, seconds: float = 1.5) -> "asyncio.Future[Answer]":
        return self.connection.exchange(b"ask", seconds)

    def hear(self, *parts: bytes) -> None:
        for part in parts:
            self.connection.data_received(part)

    def spent(self) -> None:
        """Whatever was put off to the next turn of the loop."""
        self.loop.advance()


@pytest.fixture
async def house() -> House:
    return House()


def how(future: "asyncio.Future[Answer]") -> Lost:
    error = future.exception()
    assert isinstance(error, Lost)
    return error


async def test_an_answer_is_taken_in_pieces_of_any_size(house: House) -> None:
    whole = answer(b'{"a":1}', b"Date: today\r\n")
    for size in range(1, len(whole) + 1):
        future = house.ask()
        house.hear(*(whole[at : at + size] for at in range(0, len(whole), size)))
        assert future.result() == Answer(200, b'{"a":1}', b"today")
    assert house.freed == len(whole)
    assert house.transport.written == b"ask" * len(whole)


async def test_a_checksum_holds_for_its_own_answer_alone(house: House) -> None:
    summed = answer(b'{"a":1}', b"X-Amz-CRC32: %d\r\nDate: x\r\n" % zlib.crc32(b'{"a":1}'))
    interim = b"HTTP/1.1 100 Continue\r\nx-amz-crc32: 1\r\n\r\n"
    for data, body in ((summed, b'{"a":1}'), (answer(), b"{}"), (interim + answer(), b"{}")):
        future = house.ask()
        house.hear(data)
        assert future.result().body == body
    assert future.result().date == b""


@pytest.mark.parametrize("data", [answer(), b"HTTP/1.1 2", b"?"])
async def test_what_nobody_asked_ends_an_idle_connection(house: House, data: bytes) -> None:
    house.hear(data)
    assert not house.connection.open
    with pytest.raises(NotSent):
        house.ask()
    house.spent()
    assert (house.freed, house.ended) == (0, 1)


async def test_the_bound_is_each_answer_s_own(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER", 1000)
    for _ in range(5):
        future = house.ask()
        house.hear(answer(b"{" * 900)[:500], answer(b"{" * 900)[500:])
        assert len(future.result().body) == 900
    future = house.ask()
    house.hear(HEAD % 5000, b"{" * 990)
    house.spent()
    assert str(how(future)) == "the server's answer is too large"


async def test_nothing_is_sent_once_the_server_has_said_goodbye(house: House) -> None:
    house.transport.eof()
    assert not house.connection.open  # before the connection is lost
    with pytest.raises(NotSent, match="the server closed"):
        house.ask()
    house.spent()
    assert house.ended == 1


async def test_only_a_used_connection_that_ends_without_a_byte_was_stale(house: House) -> None:
    future = house.ask()
    house.transport.reset()
    house.spent()
    assert not how(future).stale

    for heard, stale in ((b"", True), (b"HTTP/1.1 200", False)):
        house = House()
        house.ask()
        house.hear(answer())
        future = house.ask()
        if heard:
            house.hear(heard)
        house.transport.reset()
        house.spent()
        assert how(future).stale is stale


async def test_an_answer_that_does_not_come_in_time_is_no_sign_of_a_stale_connection(
    house: House,
) -> None:
    house.ask()
    house.hear(answer())
    future = house.ask()
    house.loop.advance(2.0)
    house.spent()
    assert str(how(future)) == "no answer in time"
    assert not how(future).stale


async def test_the_largest_answers_of_dynamodb_fit(house: House) -> None:
    part = b"=" * (1 << 20)
    future = house.ask()
    house.hear(HEAD % (22 * len(part)), *[part] * 22)  # 16 MB in base64
    assert len(future.result().body) == 22 << 20


async def test_time_runs_from_the_request_and_not_from_the_connection(house: House) -> None:
    for _ in range(20):
        house.loop.advance(1.0)
        future = house.ask()
        house.loop.advance(1.0)
        assert not future.done()
        house.hear(answer())
    future = house.ask()
    house.loop.advance(1.4)
    assert not future.done()
    house.loop.advance(0.2)
    house.spent()
    assert str(how(future)) == "no answer in time"
    assert not house.connection.open
    assert house.loop.scheduled == []


async def test_a_cancelled_request_has_its_time_too(house: House) -> None:
    future = house.ask()
    future.cancel()
    house.loop.advance(1.0)
    assert (house.freed, house.ended) == (0, 0)
    house.loop.advance(1.0)
    house.spent()
    assert (house.freed, house.ended) == (0, 1)


async def test_an_unused_connection_is_closed_after_a_while_from_its_last_answer(
    house: House,
) -> None:
    house.loop.advance(IDLE - 1)
    house.ask()
    house.hear(answer())
    house.loop.advance(IDLE - 1)
    assert house.connection.open
    house.loop.advance(2)
    house.spent()
    assert house.ended == 1
    assert house.loop.scheduled == []


async def test_an_idle_connection_has_one_timer(house: House) -> None:
    for _ in range(10):
        house.ask()
        house.hear(answer())
    assert len(house.loop.scheduled) == 1


async def test_a_lost_answer_that_nobody_awaits_is_no_news(house: House) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: complaints.append(context)
    )
    future = house.ask()
    house.transport.reset()
    house.spent()
    del future
    assert complaints == []


spoilt = st.builds(
    lambda data, at, cut, put: data[:at] + put + data[at + cut :],
    st.sampled_from(
        [
            answer(b'{"a":1}', b"x-amz-crc32: 1\r\nDate: x\r\n"),
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            answer() * 2,
        ]
    ),
    st.integers(0, 80),
    st.integers(0, 20),
    st.binary(max_size=20),
)


@given(data=spoilt, size=st.integers(1, 100))
def test_whatever_the_server_says_the_request_is_answered_or_lost(data: bytes, size: int) -> None:
    async def run() -> None:
        house = House()
        future = house.ask()
        for at in range(0, len(data), size):
            if not house.transport.lost:
                house.hear(data[at : at + size])
                house.spent()
        if not house.transport.lost:
            house.transport.reset()
            house.spent()
        assert future.done()
        assert isinstance(future.exception(), Lost | None)
        assert house.ended == 1
        assert house.loop.scheduled == []

    asyncio.run(run())


async def test_the_end_is_told_once(house: House) -> None:
    house.connection.abort("enough")
    house.connection.abort("really")
    house.spent()
    with pytest.raises(NotSent, match="enough"):
        house.ask()
    assert house.ended == 1
