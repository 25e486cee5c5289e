"""The HTTP server: requests, answers, order, upgrades, pauses, deadlines, shutdown."""

import asyncio
import contextlib
import gc
import socket
import struct
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import cast

import pytest

from autopush.net.frames import answer_handshake
from autopush.net.http_messages import Answer, Request, Response, Upgrade, header_block
from autopush.net.http_server import HttpConnection, HttpServer
from autopush.net.timers import MAX_SECONDS, MAX_STEPS
from support.application_server import Answer as ClientAnswer
from support.cases import cases
from support.event_loops import until
from support.http_shell import (
    MAX_BODY,
    Serving,
    Shell,
    Transport,
    describe,
    echo,
    read_answers,
    receive,
    serving,
)
from support.raw_client import RawClient

GET = b"GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n"


def post(body: bytes, *lines: str, path: str = "/p") -> bytes:
    head = "".join(f"{line}\r\n" for line in lines)
    return (
        f"POST {path} HTTP/1.1\r\nHost: h\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


BOTH_LOOPS = True


async def connect(here: Serving) -> RawClient:
    return RawClient(*await asyncio.open_connection("127.0.0.1", here.port))


async def talk(here: Serving, *chunks: bytes, count: int) -> list[ClientAnswer]:
    client = await connect(here)
    for chunk in chunks:
        client.send(chunk)
    answers = [await client.answer() for _ in range(count)]
    client.drop_connection()
    return answers


# --- requests -----------------------------------------------------------------------------------


def one(*chunks: bytes) -> Request:
    shell = Shell()
    answers, _ = shell.exchange(*chunks)
    assert [answer.status for answer in answers] == [200]
    return shell.requests[0]


def test_a_request_has_all_its_parts() -> None:
    request = one(post(b"body", "TTL:  60 \t", "X-Odd-Name: \xe9", path="/w/%41?x=1&y=/?"))
    assert (request.method, request.path, request.query) == ("POST", "/w/%41", "x=1&y=/?")
    assert request.body == b"body"
    assert request.headers == {
        "host": "h",
        "ttl": "60",
        "x-odd-name": "Ã©",  # the bytes of the wire, as latin-1
        "content-length": "4",
    }
    assert request.keep_alive
    assert not request.http10
    assert not request.upgrade


def test_lines_of_one_name_are_joined_in_their_order() -> None:
    lines = ("Crypto-Key: dh=a", "TTL: 1", "crypto-key: p256ecdsa=b", "CRYPTO-KEY: c")
    assert one(post(b"", *lines)).headers["crypto-key"] == "dh=a, p256ecdsa=b, c"


def test_a_chunked_body_is_put_together_and_its_trailers_dropped() -> None:
    request = one(
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
        b"3;ext=1\r\nabc\r\n1\r\nd\r\n0\r\nTTL: 5\r\nHost: other\r\nHost: third\r\n\r\n"
    )
    assert request.body == b"abcd"
    assert request.headers == {"host": "h", "transfer-encoding": "Chunked"}


def test_trailers_do_not_leak_into_the_next_request() -> None:
    shell = Shell()
    chunked = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTTL: 5\r\n\r\n"
    shell.exchange(chunked + GET)
    assert shell.requests[1].headers == {"host": "h"}


@pytest.mark.parametrize(
    ("target", "path", "query", "host"),
    [
        ("http://example.org:80/p?q", "/p", "q", "example.org:80"),
        ("HTTPS://example.org", "/", "", "example.org"),
        ("http://example.org?q/x", "/", "q/x", "example.org"),
        ("/http://x/", "/http://x/", "", "h"),
        ("//x/y", "//x/y", "", "h"),
    ],
)
def test_absolute_targets_are_taken_apart(target: str, path: str, query: str, host: str) -> None:
    request = one(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    assert (request.path, request.query, request.headers["host"]) == (path, query, host)


def test_the_asterisk_is_for_options() -> None:
    assert one(b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").path == "*"
    answers, _ = Shell().exchange(b"GET * HTTP/1.1\r\nHost: h\r\n\r\n")
    assert [answer.status for answer in answers] == [400]


async def test_the_peer_is_the_clients_address() -> None:
    def peer(request: Request) -> Response:
        return Response(200, request.peer.encode())

    async with serving(peer) as here:
        assert (await talk(here, GET, count=1))[0].body == b"127.0.0.1"


def test_line_ends_before_a_request_are_ignored() -> None:
    answers, _ = Shell().exchange(b"\r\n", b"\r\n" + GET + b"\r\n", GET)
    assert [answer.status for answer in answers] == [200, 200]


# --- answers ------------------------------------------------------------------------------------


def answer_with(response: Response) -> Shell:
    def handler(request: Request) -> Response:
        return response

    return Shell(handler)


def test_an_answer_is_one_write_with_date_length_and_the_handlers_headers() -> None:
    shell = answer_with(
        Response(
            201,
            b"made",
            (("location", "http://x/m/1"), ("ttl", "60")),
            "text/plain",
            header_block((("strict-transport-security", "max-age=1"),)),
        )
    )
    answers, transport = shell.exchange(GET)
    assert transport.writes == 1
    (answer,) = answers
    assert (answer.version, answer.status, answer.reason) == ("HTTP/1.1", 201, "Created")
    assert answer.body == b"made"
    assert answer.headers == {
        "date": "Sun, 06 Nov 1994 08:49:37 GMT",
        "strict-transport-security": "max-age=1",
        "location": "http://x/m/1",
        "ttl": "60",
        "content-type": "text/plain",
        "content-length": "4",
    }


def test_the_answer_to_head_has_the_length_but_not_the_body() -> None:
    shell = Shell()
    head = GET.replace(b"GET", b"HEAD")
    transport = shell.connect()
    receive(transport, head + GET)
    first, second = read_answers(bytes(transport.written), heads=(0,))
    assert first.headers["content-length"] == str(len(b"HEAD /a b=c 0"))
    assert second.body == b"GET /a b=c 0"


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_content_have_no_body(status: int) -> None:
    (answer, _), _ = answer_with(Response(status, b"ignored")).exchange(GET + GET)
    assert (answer.status, answer.body) == (status, b"")
    assert "content-length" not in answer.headers


@cases("status", [-1, 0, 99, 100, 101, 199, 600])
def test_a_status_that_is_not_final_is_a_crash(status: int) -> None:
    shell = answer_with(Response(status))
    (answer,), _ = shell.exchange(GET)
    assert answer.status == 500
    assert isinstance(shell.crashes[0], ValueError)


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: x", "a\nb", "a\rb", "\u20ac"])
def test_a_header_that_would_break_the_framing_is_a_crash(value: str) -> None:
    shell = answer_with(Response(200, b"", (("location", value),)))
    (answer,), _ = shell.exchange(GET)
    assert answer.status == 500
    assert "location" not in answer.headers
    assert len(shell.crashes) == 1
    with pytest.raises(ValueError):
        header_block((("location", value),))


def test_the_date_changes_with_the_second() -> None:
    shell = Shell()
    seconds = 784111777.5
    server = HttpServer(
        echo,
        limits=shell.server.limits,
        wheel=shell.server.wheel,
        error_response=lambda status, reason: Response(status),
        on_crash=lambda exc, request: Response(500),
        clock=lambda: seconds,
    )
    now = shell.clock.time()
    assert server.date(now) == "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
    seconds += 0.6
    assert server.date(now + 0.4).endswith(":37 GMT\r\n")
    assert server.date(now + 0.6).endswith(":38 GMT\r\n")


# --- crashes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suspends", [False, True])
async def test_a_crash_is_a_500_reported_once_and_the_connection_stays(suspends: bool) -> None:
    async def crash(request: Request) -> Response:
        if suspends:
            await asyncio.sleep(0)
        raise RuntimeError("secret")

    async with serving(crash) as here:
        answers = await talk(here, GET + GET, count=2)
        assert [answer.status for answer in answers] == [500, 500]
        assert b"secret" not in answers[0].body
        assert [str(exc) for exc in here.crashes] == ["secret", "secret"]


async def test_a_handler_that_is_cancelled_is_answered_503() -> None:
    async def cancelled(request: Request) -> Response:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    async with serving(cancelled) as here:
        assert [answer.status for answer in await talk(here, GET, count=1)] == [503]


def test_an_upgrade_that_was_not_offered_is_a_crash() -> None:
    def handler(request: Request) -> Upgrade:
        return Upgrade((), lambda _: asyncio.Protocol())

    shell = Shell(handler)
    (answer,), _ = shell.exchange(GET)
    assert answer.status == 500
    assert isinstance(shell.crashes[0], TypeError)


# --- order, keep-alive --------------------------------------------------------------------------


class Gate:
    """A handler that suspends for paths with "wait" until the test resumes it, in any order."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.finished: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.arrived = asyncio.Event()

    def open(self, path: str) -> None:
        self.gates.setdefault(path, asyncio.Event()).set()

    async def __call__(self, request: Request) -> Response:
        path = request.path
        self.started.append(path)
        self.arrived.set()
        if "wait" in path:
            await self.gates.setdefault(path, asyncio.Event()).wait()
        self.finished.append(path)
        return Response(200, path.encode())


def get(path: str, *lines: str) -> bytes:
    head = "".join(f"{line}\r\n" for line in lines)
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n{head}\r\n".encode()


async def test_pipelined_requests_are_answered_in_order_one_at_a_time() -> None:
    gate = Gate()
    async with serving(gate.__call__) as here:
        client = await connect(here)
        client.send(get("/1") + get("/wait2") + get("/3") + get("/wait4") + get("/5"))
        assert (await client.answer()).body == b"/1"
        assert gate.started == ["/1", "/wait2"]  # nothing overtakes
        gate.open("/wait2")
        assert [(await client.answer()).body for _ in range(2)] == [b"/wait2", b"/3"]
        gate.open("/wait4")
        assert [(await client.answer()).body for _ in range(2)] == [b"/wait4", b"/5"]
        client.drop_connection()


async def test_a_client_is_not_read_while_its_handler_is_suspended() -> None:
    gate = Gate()
    async with serving(gate.__call__) as here:
        client = await connect(here)
        client.send(get("/wait"))
        await gate.arrived.wait()
        flood = get("/x") * 400_000
        client.writer.transport.set_write_buffer_limits(high=1)
        client.send(flood)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.writer.drain(), 0.3)
        assert gate.started == ["/wait"]
        gate.open("/wait")
        assert (await client.answer()).body == b"/wait"
        assert (await client.answer()).body == b"/x"
        client.writer.transport.abort()


def turns(shell: Shell, transport: Transport, data: bytes) -> list[int]:
    """How many requests each turn handled, from that of the read until reading is resumed."""
    counts: list[int] = []
    transport.protocol.data_received(data)
    while True:
        counts.append(len(shell.requests) - sum(counts))
        if transport.reading:
            return counts
        shell.clock.turn()


@cases("before", [b"", GET[:9]])
@cases("many", [200, 1000, 5000])
def test_pipelined_requests_take_one_time_slice_of_each_turn(before: bytes, many: int) -> None:
    shell = Shell()
    transport = shell.connect()
    receive(transport, before)
    counts = turns(shell, transport, (GET * many)[len(before) :])
    assert max(counts) <= MAX_STEPS + 1
    assert sum(counts) == many
    assert len(read_answers(bytes(transport.written))) == many
    assert 75 <= closed_after(shell, transport) <= 76


def test_a_time_slice_is_limited_in_seconds_too() -> None:
    def slow(request: Request) -> Response:
        shell.clock.busy += MAX_SECONDS * 0.6
        return Response(200)

    shell = Shell(slow)
    counts = turns(shell, shell.connect(), GET * 20)
    assert max(counts) <= 4
    assert sum(counts) == 20


def test_a_large_read_waits_for_the_next_turn() -> None:
    """libuv would read the next as soon as this one returned."""
    shell = Shell(max_body=100_000)
    assert turns(shell, shell.connect(), post(b"x" * 70_000) + GET) == [0, 2]


def test_after_a_time_slice_the_client_may_not_read_or_have_gone() -> None:
    def large(request: Request) -> Response:
        return Response(200, b"x" * 1000)

    shell = Shell(large)
    transport = shell.connect()
    transport.protocol.data_received(GET * 100)
    transport.stuck = True
    transport.protocol.pause_writing()
    done = len(shell.requests)
    shell.clock.turn()
    assert len(shell.requests) == done  # the client does not read: the next turn changes nothing
    transport.unstick()
    transport.protocol.resume_writing()
    transport.reset()
    shell.clock.advance()
    assert len(shell.requests) < 100
    assert shell.server.connections == 0
    assert len(shell.server.wheel) == 0


@cases(
    ("request_", "connection"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", None),
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n\r\n", None),
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "close"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n", "close"),
        (b"GET / HTTP/1.0\r\n\r\n", "close"),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive"),
    ],
)
def test_the_connection_header_is_honoured(request_: bytes, connection: str | None) -> None:
    (answer,), transport = Shell().exchange(request_)
    assert answer.headers.get("connection") == connection
    assert transport.closing == (connection == "close")


def test_nothing_behind_connection_close_is_answered() -> None:
    shell = Shell()
    answers, transport = shell.exchange(get("/1", "Connection: close") + get("/2"))
    assert [answer.body for answer in answers] == [b"GET /1  0"]
    assert transport.closing
    assert len(shell.requests) == 1


# --- clients that leave -------------------------------------------------------------------------


@pytest.mark.parametrize("reset", [True, False])
async def test_what_was_accepted_is_finished_without_its_client(reset: bool) -> None:
    gate = Gate()
    async with serving(gate.__call__) as here:
        client = await connect(here)
        client.send(get("/wait"))
        await gate.arrived.wait()
        if reset:
            linger = struct.pack("ii", 1, 0)
            raw = client.writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        client.writer.transport.abort()
        if reset:
            await until(lambda: not here.server.connections)
        gate.open("/wait")
        await until(lambda: bool(gate.finished))
        await until(lambda: not here.server.connections)
    assert here.crashes == []


async def test_a_client_that_closed_its_half_gets_its_answers() -> None:
    gate = Gate()
    async with serving(gate.__call__) as here:
        client = await connect(here)
        client.send(get("/wait1") + get("/wait2") + get("/3"))
        client.writer.write_eof()
        await gate.arrived.wait()
        gate.open("/wait1")
        await client.answer()
        gate.open("/wait2")
        answers = read_answers(await client.reader.read())
        assert [answer.body for answer in answers] == [b"/wait2", b"/3"]
        assert answers[-1].headers["connection"] == "close"
        client.drop_connection()


@pytest.mark.parametrize("part", [b"", b"GE", b"GET / HT", GET[:-2], post(b"abc")[:-1]])
def test_an_end_within_a_request_closes(part: bytes) -> None:
    shell = Shell()
    transport = shell.connect()
    receive(transport, part)
    transport.eof()
    shell.clock.advance()
    assert transport.lost
    assert transport.written == b""
    assert shell.server.connections == 0


# --- 100 Continue -------------------------------------------------------------------------------

EXPECT = post(b"body", "Expect: 100-Continue")


def test_continue_is_sent_when_the_body_is_awaited() -> None:
    shell = Shell()
    transport = shell.connect()
    receive(transport, EXPECT[:-4])
    assert transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    receive(transport, EXPECT[-4:])
    assert read_answers(bytes(transport.written))[1].body == b"POST /p  4"


def test_continue_is_left_out_when_the_body_is_there() -> None:
    answers, _ = Shell().exchange(EXPECT + GET)
    assert [answer.status for answer in answers] == [200, 200]


def test_no_continue_for_a_body_that_is_refused() -> None:
    head = f"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: {MAX_BODY + 1}"
    answers, _ = Shell().exchange(head.encode() + b"\r\n\r\n")
    assert [answer.status for answer in answers] == [413]


async def test_continue_waits_for_the_answers_before_it() -> None:
    gate = Gate()
    async with serving(gate.__call__) as here:
        client = await connect(here)
        client.send(get("/wait") + EXPECT[:-4])
        await gate.arrived.wait()
        gate.open("/wait")
        assert (await client.answer()).status == 200
        assert (await client.answer()).status == 100
        client.send(b"body")
        assert (await client.answer()).status == 200
        client.drop_connection()


# --- upgrades -----------------------------------------------------------------------------------

UPGRADE = get(
    "/ws",
    "Connection: keep-alive, Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)


class UpgradedProtocol(asyncio.Protocol):
    """The protocol after an upgrade: it sends back upper-case text."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data.upper())


def upgrading(request: Request) -> Answer | Coroutine[None, None, Answer]:
    return answer_late(request) if "late" in request.query else upgraded(request)


async def answer_late(request: Request) -> Answer:
    await asyncio.sleep(0)
    return upgraded(request)


def upgraded(request: Request) -> Answer:
    if request.path != "/ws":
        return Response(200, describe(request))
    answer = answer_handshake(request.method, "1.0" if request.http10 else "1.1", request.headers)
    if not answer.accepted:
        return Response(answer.status, headers=answer.headers)
    return Upgrade(answer.headers, lambda _: UpgradedProtocol())


def test_the_transport_goes_to_the_new_protocol_with_what_was_read_behind_the_head() -> None:
    shell = Shell(upgrading)
    transport = shell.connect()
    receive(transport, GET + UPGRADE + b"frames", b" more")
    first, _, rest = bytes(transport.written).partition(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert read_answers(first)[0].status == 200
    head, _, behind = rest.partition(b"\r\n\r\n")
    assert b"Sec-WebSocket-Accept" in head
    assert head.lower().count(b"connection:") == 1
    assert behind == b"FRAMES MORE"
    assert shell.server.connections == 0
    assert len(shell.server.wheel) == 0


def test_the_new_protocol_may_stop_reading_at_once() -> None:
    class Deaf(UpgradedProtocol):
        def data_received(self, data: bytes) -> None:
            self.transport.pause_reading()

    def handler(request: Request) -> Upgrade:
        return Upgrade((("upgrade", "x"),), lambda _: Deaf())

    shell = Shell(handler)
    transport = shell.connect()
    transport.protocol.data_received(UPGRADE + b"x" * 100_000)  # more than is read in one turn
    shell.clock.advance()
    assert isinstance(transport.protocol, Deaf)
    assert not transport.reading


async def test_input_during_the_handler_of_an_upgrade_is_kept() -> None:
    considered, go = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response | Upgrade:
        if request.upgrade:
            considered.set()
            await go.wait()
        return upgraded(request)

    async with serving(slow) as here:
        client = await connect(here)
        client.send(UPGRADE + b"a")
        await considered.wait()
        client.send(b"b" * 300_000)
        await talk(here, GET, count=1)  # the loop has polled the sockets meanwhile
        go.set()
        assert (await client.answer()).status == 101
        assert await client.reader.readexactly(300_001) == b"A" + b"B" * 300_000
        client.drop_connection()


def test_after_an_upgrade_http_is_garbage() -> None:
    shell = Shell(upgrading)
    transport = shell.connect()
    held = gc.get_referents(transport.protocol)
    (reader,) = [each for each in held if type(each).__name__ == "RequestParser"]
    (parser,) = [x for x in gc.get_referents(reader) if type(x).__name__ == "HttpRequestParser"]
    del held, reader
    gc.disable()
    try:
        before = sys.getrefcount(parser)
        receive(transport, UPGRADE)
        assert isinstance(transport.protocol, UpgradedProtocol)
        assert sys.getrefcount(parser) < before
        assert sys.getrefcount(parser) == 2  # ours, and that of the call
    finally:
        gc.enable()


@pytest.mark.parametrize("late", ["", "?late"])
async def test_an_offer_to_upgrade_may_be_declined(late: str) -> None:
    offer = UPGRADE.replace(b"/ws", b"/plain" + late.encode())
    async with serving(upgrading) as here:
        answers = await talk(here, offer + GET, offer, count=3)
        assert [answer.status for answer in answers] == [200, 200, 200]


@cases(
    "framed",
    [b"Content-Length: 4\r\n\r\nbody", b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"],
)
@cases("size", [1, 7, 100_000])
def test_a_request_with_a_body_may_offer_to_upgrade(framed: bytes, size: int) -> None:
    """As Java's HTTP client does with h2c."""
    shell = Shell(upgrading)
    head = b"POST /p HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    data = (head + framed) * 2 + GET
    answers, _ = shell.exchange(*(data[i : i + size] for i in range(0, len(data), size)))
    assert [answer.body for answer in answers] == [b"POST /p  4", b"POST /p  4", b"GET /a b=c 0"]
    assert not shell.requests[0].upgrade


def test_an_offer_to_upgrade_in_http_1_0_is_ignored() -> None:
    shell = Shell(upgrading)
    (answer,), _ = shell.exchange(UPGRADE.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert answer.status >= 400  # the handshake's own refusal
    assert "upgrade" not in shell.requests[0].headers


def test_a_protocol_that_cannot_be_made_is_a_500() -> None:
    def fails(_: str) -> asyncio.Protocol:
        raise RuntimeError("no")

    def handler(request: Request) -> Upgrade:
        return Upgrade((("upgrade", "x"),), fails)

    shell = Shell(handler)
    (answer,), _ = shell.exchange(UPGRADE)
    assert answer.status == 500
    assert len(shell.crashes) == 1


# --- deadlines ----------------------------------------------------------------------------------


def closed_after(shell: Shell, transport: Transport, limit: float = 300) -> float:
    start = shell.clock.time()
    while not transport.lost:
        assert shell.clock.time() < start + limit
        shell.clock.advance(0.25)
    return shell.clock.time() - start


def test_an_unused_connection_is_closed_without_a_response() -> None:
    shell = Shell()
    transport = shell.connect()
    assert 75 <= closed_after(shell, transport) <= 76
    assert transport.written == b""


def test_the_idle_timeout_begins_with_the_last_answer() -> None:
    shell = Shell()
    transport = shell.connect()
    for _ in range(5):
        shell.clock.advance(60)
        receive(transport, GET)
    assert 75 <= closed_after(shell, transport) <= 76
    assert len(read_answers(bytes(transport.written))) == 5


@cases("used", [b"", GET])
@cases("part", [b"G", b"\r\nPOS", b"GET /", GET[:-2]])
def test_a_slow_head_is_answered_408(used: bytes, part: bytes) -> None:
    shell = Shell()
    transport = shell.connect()
    receive(transport, used, part)
    elapsed = 0.0
    while not transport.ended:
        shell.clock.advance(0.25)
        elapsed += 0.25
        assert elapsed < 20
    assert 10 <= elapsed <= 10.5
    answer = read_answers(bytes(transport.written))[-1]
    assert (answer.status, answer.headers["connection"]) == (408, "close")
    assert closed_after(shell, transport) < 3


def test_a_slow_body_is_answered_408() -> None:
    shell = Shell()
    transport = shell.connect()
    receive(transport, post(b"x" * 100)[:-90])
    elapsed = 0
    while not transport.ended:
        receive(transport, b"x")
        shell.clock.advance(1)
        elapsed += 1
    assert 30 <= elapsed <= 31
    assert read_answers(bytes(transport.written))[0].status == 408


def test_a_slow_handler_has_no_deadline() -> None:
    async def never_mind() -> None:
        gate = Gate()
        shell = Shell(gate.__call__)
        transport = shell.connect()
        receive(transport, get("/wait"))
        shell.clock.advance(500)
        assert not transport.closing
        gate.open("/wait")
        await until(lambda: bool(transport.written))
        assert 75 <= closed_after(shell, transport) <= 76

    asyncio.run(never_mind())


def test_a_client_that_does_not_read_is_paused_then_dropped() -> None:
    def large(request: Request) -> Response:
        return Response(200, b"x" * 10_000)

    shell = Shell(large)
    transport = shell.connect()
    transport.stuck = True
    receive(transport, GET * 100)
    assert len(shell.requests) < 10
    receive(transport, GET)
    assert not transport.reading
    assert 30 <= closed_after(shell, transport) <= 31
    assert len(shell.requests) < 10
    assert shell.server.connections == 0


def test_a_client_that_reads_again_gets_everything() -> None:
    def large(request: Request) -> Response:
        return Response(200, b"x" * 10_000)

    shell = Shell(large)
    transport = shell.connect()
    transport.stuck = True
    receive(transport, GET * 100, GET)
    shell.clock.advance(20)
    transport.unstick()
    shell.clock.advance()
    assert len(read_answers(bytes(transport.written))) == 101
    assert transport.reading
    assert 75 <= closed_after(shell, transport) <= 76


def test_a_closed_connection_whose_answer_is_not_read_is_dropped() -> None:
    shell = Shell()
    transport = shell.connect()
    transport.stuck = True
    receive(transport, get("/", "Connection: close"))
    assert not transport.lost
    assert 30 <= closed_after(shell, transport) <= 31


def test_an_idle_connection_has_one_timer_and_little_else() -> None:
    shell = Shell()
    transports = [shell.connect() for _ in range(10)]
    for transport in transports:
        receive(transport, *[post(b"x" * 500)] * 20)
    assert len(shell.server.wheel) == 10
    assert len(shell.clock.scheduled) == 1


# --- the end ------------------------------------------------------------------------------------


async def test_shutdown_closes_idle_connections_and_finishes_requests_under_way() -> None:
    gate = Gate()
    async with serving(gate.__call__) as here:
        idle, busy, reading = [await connect(here) for _ in range(3)]
        idle.send(get("/"))
        await idle.answer()
        busy.send(get("/wait") + get("/next"))
        reading.send(post(b"abc")[:-1])
        await talk(here, get("/"), count=1)  # the loop has polled the sockets meanwhile
        await until(lambda: here.server.connections == 3)
        assert "/wait" in gate.started
        ending = asyncio.ensure_future(here.server.shutdown(5))
        assert await idle.reader.read() == b""
        assert not ending.done()
        reading.send(b"c")
        (answer,) = read_answers(await reading.reader.read())
        assert answer.headers["connection"] == "close"
        assert not ending.done()
        gate.open("/wait")
        answers = read_answers(await busy.reader.read())
        assert [answer.body for answer in answers] == [b"/wait", b"/next"]
        assert answers[-1].headers["connection"] == "close"
        await ending
        assert here.server.connections == 0
        late = await connect(here)
        with contextlib.suppress(ConnectionResetError):
            assert await late.reader.read() == b""
        for client in (idle, busy, reading, late):
            client.drop_connection()


async def test_shutdown_aborts_what_takes_too_long() -> None:
    gate = Gate()
    async with serving(gate.__call__) as here:
        client = await connect(here)
        client.send(get("/wait"))
        await gate.arrived.wait()
        await here.server.shutdown(0.05)
        with contextlib.suppress(ConnectionResetError):
            assert await client.reader.read() == b""
        gate.open("/wait")
        await until(lambda: bool(gate.finished))
        client.drop_connection()


async def test_a_closed_connection_leaves_no_cycle_behind() -> None:
    def connections() -> int:
        return sum(type(each) is HttpConnection for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = connections()
        async with serving() as here:
            client = await connect(here)
            client.send(post(b"x" * 100))
            await client.answer()
            assert connections() == before + 1
            client.drop_connection()
            await until(lambda: connections() == before)
    finally:
        gc.enable()


# --- a client library ---------------------------------------------------------------------------


async def test_the_shell_serves_on_a_unix_socket(tmp_path: Path) -> None:
    async with serving() as here:
        loop = asyncio.get_running_loop()
        path = str(tmp_path / "socket")
        listener = await loop.create_unix_server(here.server.protocol, path)
        reader, writer = await asyncio.open_unix_connection(path)
        client = RawClient(reader, writer)
        client.send(GET)
        assert (await client.answer()).status == 200
        client.drop_connection()
        listener.close()
        await listener.wait_closed()


def test_a_status_without_a_name_is_sent() -> None:
    (answer,), _ = answer_with(Response(599)).exchange(GET)
    assert (answer.status, answer.reason) == (599, "")


def test_a_head_sent_byte_by_byte_has_the_same_deadline() -> None:
    shell = Shell()
    transport = shell.connect()
    sent = 0
    while not transport.ended:
        receive(transport, GET[:-2][sent : sent + 1] or b"X: y\r\n")
        sent += 1
        shell.clock.advance(1)
    assert 9 <= sent <= 11
