"""The link to a node: order, one write a turn, limits, dead and broken peers, repeats."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from autopush.net.http_messages import Request, Response
from autopush.net.link import (
    Link,
    LinkBusy,
    LinkDown,
    LinkError,
    LinkInsecure,
    LinkRefused,
    LinkResponse,
)
from autopush.net.timers import TimerWheel
from autopush.net.tls import ClientTls, ServerTls
from support.cases import cases
from support.certificates import self_signed
from support.http_shell import echo, serving
from support.sockets import full_port, unused_port
from support.stream_server import stream_server

BOTH_LOOPS = True

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class HeldClock:
    """The running loop, whose time passes by `skip` alone, which calls the timers that are due."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time()
        self._timers: list[tuple[float, asyncio.Handle]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._loop, name)

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.Handle:
        handle = asyncio.Handle(callback, (), self._loop)
        self._timers.append((when, handle))
        return handle

    def skip(self, seconds: float) -> None:
        self._now += seconds
        due = [handle for when, handle in self._timers if when <= self._now]
        self._timers = [timer for timer in self._timers if timer[0] > self._now]
        for handle in due:
            if not handle.cancelled():
                handle._run()


@pytest.fixture
async def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
async def wheel(clock: HeldClock) -> AsyncIterator[TimerWheel]:
    made = TimerWheel(cast(asyncio.AbstractEventLoop, clock), 0.02)
    yield made
    assert len(made) == 0, "a link left its timer behind"
    made.close()


@contextlib.asynccontextmanager
async def linked(wheel: TimerWheel, port: int, **settings: float) -> AsyncIterator[Link]:
    link = Link("127.0.0.1", port, wheel=wheel, **settings)  # type: ignore[arg-type]
    try:
        yield link
    finally:
        link.close()


class Peer:
    """A server that runs `talk` on each connection; `opened` counts them."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.opened = 0
        self.port = 0
        self.listener: asyncio.Server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            await self._talk(reader, writer)
        finally:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def peer(talk: Talk) -> AsyncIterator[Peer]:
    made = Peer(talk)
    async with stream_server(made._serve) as (made.listener, made.port):
        yield made


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None
    return head + await reader.readexactly(int(length[1]))


async def outcome(*requests: Awaitable[LinkResponse]) -> list[str]:
    results = await asyncio.gather(*requests, return_exceptions=True)
    return [
        f"{each.status} {each.body.decode()}" if isinstance(each, LinkResponse) else repr(each)
        for each in results
    ]


# --- our own server -----------------------------------------------------------------------------


async def test_requests_are_answered_in_their_order_on_one_connection(wheel: TimerWheel) -> None:
    async def uneven(request: Request) -> Response:
        if request.query.endswith("3"):
            await asyncio.sleep(0.001)
        return Response(200 + len(request.body) % 2, request.query.encode())

    async with serving(uneven) as here, linked(wheel, here.port) as link:
        answers = await asyncio.gather(
            *(link.request("PUT", f"/push?{n}", b"x" * (n % 900)) for n in range(500))
        )
        assert answers == [LinkResponse(200 + n % 900 % 2, str(n).encode()) for n in range(500)]
        assert here.server.connections == 1
        assert await link.request("GET", "/?again") == LinkResponse(200, b"again")
        assert here.server.connections == 1
        assert link.waiting == 0


async def test_methods_bodies_and_empty_answers(wheel: TimerWheel) -> None:
    async def nothing(request: Request) -> Response:
        return Response(204 if request.method == "DELETE" else 404)

    async with serving(nothing) as here, linked(wheel, here.port) as link:
        requests = [link.request(method, "/") for method in ("PUT", "DELETE", "GET", "DELETE")]
        assert await outcome(*requests) == ["404 ", "204 ", "404 ", "204 "]


async def test_requests_of_one_turn_are_sent_in_one_write(wheel: TimerWheel) -> None:
    reads: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100_000):
            reads.append(data)
            writer.write(OK * data.count(b"PUT"))

    async with peer(talk) as there, linked(wheel, there.port) as link:
        await link.request("PUT", "/")
        await asyncio.gather(*(link.request("PUT", f"/{n}", b"body") for n in range(20)))
        assert [data.count(b"PUT") for data in reads] == [1, 20]


async def test_a_node_that_shuts_down_in_order_answers_what_it_read(wheel: TimerWheel) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        started.set()
        await go.wait()
        return Response(200, b"ok")

    async with serving(slow) as here, linked(wheel, here.port) as link:
        waiting = [link.request("PUT", "/"), link.request("PUT", "/")]
        await started.wait()
        here.listener.close()
        ending = asyncio.ensure_future(here.server.shutdown(5))
        await asyncio.sleep(0)
        go.set()
        assert await outcome(*waiting) == ["200 ok", "200 ok"]
        await ending
        with pytest.raises(LinkDown):
            await link.request("PUT", "/")


# --- bounds and bad use -------------------------------------------------------------------------


async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_the_number_of_waiting_requests_is_limited(wheel: TimerWheel) -> None:
    async with peer(never) as there, linked(wheel, there.port, max_waiting=3) as link:
        waiting = [link.request("PUT", "/") for _ in range(3)]
        with pytest.raises(LinkBusy):
            link.request("PUT", "/")
        link.close()
        assert await outcome(*waiting) == ["LinkDown('the link is closed')"] * 3


@cases("path", ["/a b", "/a\r\nX: y", "/\u20ac", "/a\tb", "/\0"])
async def test_an_invalid_path_is_refused(wheel: TimerWheel, path: str) -> None:
    async with linked(wheel, 1) as link:
        with pytest.raises(ValueError):
            link.request("PUT", path)
        with pytest.raises(ValueError):
            link.request("HEAD", "/")


async def test_a_closed_link_stays_closed(wheel: TimerWheel) -> None:
    async with serving() as here, linked(wheel, here.port) as link:
        await link.request("GET", "/")
        link.close()
        with pytest.raises(LinkDown):
            link.request("GET", "/")
        link.close()


async def test_a_cancelled_request_does_not_shift_the_responses(wheel: TimerWheel) -> None:
    async with serving() as here, linked(wheel, here.port) as link:
        first, second, third = (link.request("GET", f"/{n}") for n in range(3))
        second.cancel()
        assert await outcome(first, third) == ["200 GET /0  0", "200 GET /2  0"]


# --- dead peers ---------------------------------------------------------------------------------


async def test_all_who_wait_for_a_refused_connection_get_refused(wheel: TimerWheel) -> None:
    async with linked(wheel, unused_port()) as link:
        results = await outcome(*(link.request("PUT", "/") for _ in range(50)))
        assert set(results) == {"LinkRefused('the connection was refused')"}


async def test_for_a_moment_after_a_refusal_requests_fail_at_once_as_down(
    wheel: TimerWheel, clock: HeldClock
) -> None:
    async with linked(wheel, unused_port()) as link:
        await outcome(link.request("PUT", "/"))
        with pytest.raises(LinkDown, match="a moment ago") as caught:
            link.request("PUT", "/")
        assert type(caught.value) is LinkDown
        clock.skip(0.1)
        with pytest.raises(LinkRefused):
            await link.request("PUT", "/")


async def test_a_peer_that_goes_on_refusing_is_tried_at_most_every_two_seconds(
    wheel: TimerWheel, clock: HeldClock
) -> None:
    async with linked(wheel, unused_port()) as link:
        for seconds in (0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0):
            with pytest.raises(LinkRefused):
                await link.request("PUT", "/")
            assert link._delay == seconds
            clock.skip(seconds + 0.01)


async def test_a_connect_that_hangs_costs_one_timeout_for_all(wheel: TimerWheel) -> None:
    with full_port() as port:
        async with linked(wheel, port, connect_timeout=0.1) as link:
            start = time.monotonic()
            results = await outcome(*(link.request("PUT", "/") for _ in range(100)))
            assert set(results) == {"LinkDown('connecting took too long')"}
            assert 0.09 < time.monotonic() - start < 5


async def test_a_silent_peer_costs_one_timeout_for_all_and_one_timer(
    wheel: TimerWheel, clock: HeldClock
) -> None:
    server = SilentUntilAwake()
    async with peer(server) as there, linked(wheel, there.port, timeout=1) as link:
        waiting = [link.request("PUT", "/") for _ in range(100)]
        assert len(wheel) == 1
        await server.received(100)
        clock.skip(1.1)
        assert set(await outcome(*waiting)) == {"LinkDown('no answer in time')"}
        assert len(wheel) == 0


async def test_a_slow_peer_has_the_whole_timeout_for_each_request(
    wheel: TimerWheel, clock: HeldClock
) -> None:
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            clock.skip(0.9)
            writer.write(OK)

    async with peer(slow) as there, linked(wheel, there.port, timeout=1) as link:
        for _ in range(6):
            assert await outcome(link.request("PUT", "/")) == ["200 ok"]
        assert there.opened == 1


async def test_the_deadline_is_that_of_the_oldest_waiting(
    wheel: TimerWheel, clock: HeldClock
) -> None:
    """The deadline of an answered request must not apply to those after it."""

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await reader.read()

    async with peer(once) as there, linked(wheel, there.port, timeout=1) as link:
        assert await outcome(link.request("PUT", "/")) == ["200 ok"]
        clock.skip(1.1)  # its timer is now that of an idle link
        request = link.request("PUT", "/")
        clock.skip(0.9)
        assert not request.done()
        clock.skip(0.2)
        assert await outcome(request) == ["LinkDown('no answer in time')"]


# --- the circuit breaker ------------------------------------------------------------------------


class SilentUntilAwake:
    """A peer that answers only while it is awake; earlier requests are never answered."""

    def __init__(self) -> None:
        self.awake = asyncio.Event()
        self.asked: list[bytes] = []
        self._received = asyncio.Condition()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await read_request(reader)
            self.asked.append(request.split(b" HTTP", 1)[0])
            async with self._received:
                self._received.notify_all()
            if self.awake.is_set():
                writer.write(OK)

    async def received(self, count: int) -> None:
        """Wait until so many requests have arrived."""
        async with asyncio.timeout(30), self._received:
            await self._received.wait_for(lambda: len(self.asked) >= count)


async def fails_fast(link: Link) -> None:
    with pytest.raises(LinkDown, match="does not answer") as caught:
        link.request("PUT", "/later")
    assert type(caught.value) is LinkDown


async def probed(link: Link) -> None:
    """Wait for the end of a probe, which shows in nothing but that it no longer waits."""
    async with asyncio.timeout(30):
        while link.waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def unanswered(server: SilentUntilAwake) -> AsyncIterator[tuple[Link, HeldClock]]:
    """A link whose first request has arrived, and was not answered in time."""
    clock = HeldClock()
    wheel = TimerWheel(cast(asyncio.AbstractEventLoop, clock), 0.02)
    async with peer(server) as there, linked(wheel, there.port, timeout=0.05) as link:
        request = link.request("PUT", "/1")
        await server.received(1)
        clock.skip(0.1)
        assert await outcome(request) == ["LinkDown('no answer in time')"]
        yield link, clock
    assert len(wheel) == 0, "a link left its timer behind"
    wheel.close()


async def test_after_a_timeout_requests_fail_at_once_and_are_not_sent() -> None:
    server = SilentUntilAwake()
    async with unanswered(server) as (link, _):
        for _ in range(100):
            await fails_fast(link)
        assert link.waiting == 0
        assert server.asked == [b"PUT /1"]


async def test_a_connect_without_an_answer_opens_the_circuit_too(wheel: TimerWheel) -> None:
    with full_port() as port:
        async with linked(wheel, port, connect_timeout=0.05) as link:
            await outcome(link.request("PUT", "/1"))
            await fails_fast(link)


async def test_a_request_sends_one_probe_when_none_is_under_way() -> None:
    server = SilentUntilAwake()
    async with unanswered(server) as (link, clock):
        clock.skip(0.5)
        assert link.waiting == 0, "without a request there is no probe"
        await fails_fast(link)
        await server.received(2)
        for _ in range(10):
            await fails_fast(link)
        assert server.asked == [b"PUT /1", b"GET /"]
        clock.skip(0.1)
        assert link.waiting == 0, "the probe was not answered in time"
        clock.skip(0.5)
        await fails_fast(link)
        await server.received(3)


async def test_the_answer_to_a_probe_closes_the_circuit() -> None:
    server = SilentUntilAwake()
    async with unanswered(server) as (link, clock):
        server.awake.set()
        clock.skip(0.5)
        await fails_fast(link)
        await probed(link)
        assert await outcome(link.request("PUT", "/2")) == ["200 ok"]
        assert server.asked == [b"PUT /1", b"GET /", b"PUT /2"]


async def test_a_probe_that_is_refused_closes_the_circuit(
    wheel: TimerWheel, clock: HeldClock
) -> None:
    server = SilentUntilAwake()
    async with peer(server) as there, linked(wheel, there.port, timeout=0.05) as link:
        request = link.request("PUT", "/1")
        await server.received(1)
        clock.skip(0.1)
        await outcome(request)
        there.listener.close()
        await there.listener.wait_closed()
        clock.skip(0.5)
        await fails_fast(link)
        await probed(link)
        clock.skip(0.1)
        assert await outcome(link.request("PUT", "/2")) == [
            "LinkRefused('the connection was refused')"
        ]


async def test_an_open_circuit_without_probes_closes_after_a_while() -> None:
    server = SilentUntilAwake()
    async with unanswered(server) as (link, clock):
        server.awake.set()
        clock.skip(10)
        assert await outcome(link.request("PUT", "/2")) == ["200 ok"]


async def test_a_link_can_be_closed_during_a_probe() -> None:
    async with unanswered(SilentUntilAwake()) as (link, clock):
        clock.skip(0.5)
        await fails_fast(link)
        assert link.waiting == 1
        link.close()
        assert link.waiting == 0


# --- broken peers -------------------------------------------------------------------------------

BROKEN = {
    "garbage": b"\x00\x01\x02 nonsense\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "an answer cut short": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
    "an answer without a length": b"HTTP/1.1 200 OK\r\n\r\nok",
    "a head cut short": b"HTTP/1.1 200 OK\r\nContent-Le",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk",
    "a bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "an upgrade": b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    "an endless head": b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000,
    "an endless body": b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + b"y" * 300_000,
    "nothing": b"",
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("before", [0, 2])
async def test_a_peer_that_answers_no_http_is_down(
    wheel: TimerWheel, kind: str, before: int
) -> None:
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(before):
            await read_request(reader)
            writer.write(OK)
        await read_request(reader)
        writer.write(BROKEN[kind])
        await writer.drain()
        if "endless" not in kind:
            writer.write_eof()
        await reader.read()

    async with peer(broken) as there, linked(wheel, there.port, timeout=5) as link:
        for _ in range(before):
            assert await outcome(link.request("PUT", "/")) == ["200 ok"]
        if kind == "nothing" and before:  # repeated on new connections, once
            assert await outcome(link.request("PUT", "/")) == ["200 ok"]
            assert there.opened == 2
            return
        results = await outcome(*(link.request("PUT", "/") for _ in range(3)))
        assert len(set(results)) == 1
        assert results[0].startswith("LinkDown(")
        assert ("too large" in results[0]) == ("endless" in kind)
        assert there.opened == 1


async def test_a_response_without_a_request_ends_the_connection(wheel: TimerWheel) -> None:
    ended = asyncio.Event()

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK + OK)
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        ended.set()

    async with peer(twice) as there, linked(wheel, there.port) as link:
        assert await outcome(link.request("PUT", "/")) == ["200 ok"]
        await ended.wait()
        assert await outcome(link.request("PUT", "/")) == ["200 ok"]
        assert there.opened == 2


async def test_interim_responses_are_skipped(wheel: TimerWheel) -> None:
    async def chatty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nX: y\r\n\r\n" + OK)

    async with peer(chatty) as there, linked(wheel, there.port) as link:
        assert await outcome(link.request("PUT", "/"), link.request("PUT", "/")) == ["200 ok"] * 2


# --- connections that end -----------------------------------------------------------------------


async def test_a_request_that_meets_an_idle_close_is_repeated(wheel: TimerWheel) -> None:
    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await read_request(reader)
            writer.write(OK)
        await read_request(reader)

    async with peer(twice) as there, linked(wheel, there.port) as link:
        for _ in range(7):
            assert await outcome(link.request("PUT", "/")) == ["200 ok"]
        assert there.opened == 4


async def test_requests_behind_connection_close_are_repeated_in_order(wheel: TimerWheel) -> None:
    async def one_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await read_request(reader)
        if b"/0 " in head:
            body = b"0"
            writer.write(
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n" + body
            )
            return
        while True:
            path = head.split()[1][1:]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(path), path))
            head = await read_request(reader)

    async with peer(one_each) as there, linked(wheel, there.port) as link:
        results = await outcome(*(link.request("PUT", f"/{n}") for n in range(5)))
        assert results == [f"200 {n}" for n in range(5)]
        assert there.opened == 2


async def test_a_request_is_repeated_only_once(wheel: TimerWheel) -> None:
    async def one_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await read_request(reader)

    async with peer(one_each) as there, linked(wheel, there.port) as link:
        assert await outcome(link.request("PUT", "/")) == ["200 ok"]
        first, second = await outcome(link.request("PUT", "/"), link.request("PUT", "/"))
        assert first == "200 ok"
        assert second.startswith("LinkDown(")
        assert there.opened == 2


async def test_an_unused_connection_is_closed(wheel: TimerWheel, clock: HeldClock) -> None:
    ended = asyncio.Event()

    async def until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        ended.set()

    async with (
        peer(until_closed) as there,
        linked(wheel, there.port, timeout=1, idle_timeout=5) as link,
    ):
        for opened in (1, 2):
            assert await outcome(link.request("PUT", "/")) == ["200 ok"]
            assert there.opened == opened
            clock.skip(4)
            assert len(wheel) == 1
            clock.skip(2)
            await ended.wait()
            ended.clear()
            assert len(wheel) == 0


async def test_a_link_recovers_when_its_peer_serves_again(
    wheel: TimerWheel, clock: HeldClock
) -> None:
    async with serving() as here:
        port = here.port
        async with linked(wheel, port) as link:
            assert (await link.request("GET", "/")).status == 200
            here.listener.close()
            await here.listener.wait_closed()
            await here.server.shutdown(1)
            with pytest.raises(LinkError):
                await link.request("GET", "/")
            async with serving(echo) as again:
                listener = await asyncio.get_running_loop().create_server(
                    again.server.protocol, "127.0.0.1", port
                )
                clock.skip(0.1)
                assert (await link.request("GET", "/")).status == 200
                listener.close()


# --- TLS ----------------------------------------------------------------------------------------


async def test_requests_are_pipelined_over_tls(wheel: TimerWheel, tmp_path: Path) -> None:
    both = self_signed(tmp_path / "node.pem")
    tls = ServerTls(str(both), str(both))
    async with serving(tls=tls.context) as served:
        link = Link("127.0.0.1", served.port, wheel=wheel, tls=ClientTls(str(both)))
        answers = await asyncio.gather(*(link.request("PUT", f"/{n}", b"x" * n) for n in range(50)))
        assert [answer.body for answer in answers] == [b"PUT /%d  %d" % (n, n) for n in range(50)]
        link.close()


async def test_a_failed_handshake_opens_the_circuit_until_a_probe_succeeds(
    wheel: TimerWheel, clock: HeldClock, tmp_path: Path
) -> None:
    both = self_signed(tmp_path / "node.pem")
    trusted = tmp_path / "trusted.pem"
    self_signed(trusted)
    server, client = ServerTls(str(both), str(both)), ClientTls(str(trusted))
    async with serving(tls=server.context) as served:
        link = Link("127.0.0.1", served.port, wheel=wheel, tls=client)
        waiting = [link.request("GET", "/"), link.request("GET", "/")]
        for each in waiting:
            with pytest.raises(LinkInsecure, match="not trusted"):
                await each
        clock.skip(0.2)
        with pytest.raises(LinkDown, match="does not answer"):
            link.request("GET", "/")
        trusted.write_bytes(both.read_bytes())
        client.reload()
        clock.skip(0.6)
        with pytest.raises(LinkDown):
            link.request("GET", "/")  # sends a probe
        async with asyncio.timeout(30):
            while link.waiting:  # noqa: ASYNC110 - a probe has no future
                await asyncio.sleep(0)
        assert (await link.request("GET", "/")).status == 200
        link.close()
