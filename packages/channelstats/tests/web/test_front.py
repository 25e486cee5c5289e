"""The way in: half a request keeps nobody out, and no error of accepting floods the log."""

import asyncio
import errno
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from channelstats.web import front
from channelstats.web.front import Front, listen, log_accept_errors_once, most_connections

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def answer(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="here")


@asynccontextmanager
async def served(most: int, patience: float = 60.0) -> AsyncIterator[tuple[Front, int]]:
    """A server with so many connections at most, and its port."""
    server = web.Server(answer, access_log=None)
    door = Front(server, most, patience)
    listening = await listen(door, "127.0.0.1", 0)
    try:
        yield door, listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        door.close()
        await server.shutdown(1)


async def ask(port: int, *parts: bytes, close: bool = True) -> bytes:
    """The answer to a request that comes in parts."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        return await reader.read() if close else await reader.readuntil(b"here")
    finally:
        writer.close()


REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("cut", [1, 10, len(REQUEST) - 3, len(REQUEST) - 1])
async def test_a_request_that_comes_in_parts_is_answered(cut: int) -> None:
    async with served(10) as (door, port):
        assert b"200 OK" in await ask(port, REQUEST[:cut], REQUEST[cut:])
        assert b"200 OK" in await ask(port, REQUEST)
        assert not door._waiting


async def test_a_connection_is_used_again() -> None:
    async with served(10) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"here")
        writer.close()


async def test_half_requests_give_way_to_whole_ones() -> None:
    async with served(20) as (door, port):
        halves: list[Ends] = []
        for _ in range(60):
            halves.append(await asyncio.open_connection("127.0.0.1", port))
            halves[-1][1].write(b"GET / HT")
        assert b"200 OK" in await ask(port, REQUEST)
        assert door.connections <= 20
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await halves[0][0].readexactly(1)
        for _, writer in halves:
            writer.close()


async def test_half_a_request_ends_after_a_while() -> None:
    async with served(10, patience=0.01) as (door, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HT")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        assert door.connections == 0


async def test_an_endless_head_is_refused() -> None:
    async with served(10) as (_, port):
        assert b"400 Bad Request" in await ask(port, b"GET / HTTP/1.1\r\n", b"X: " + b"x" * 70_000)


async def test_that_nothing_can_be_accepted_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    log_accept_errors_once(loop)
    try:
        with socket.socket() as listening:
            context = {
                "message": "socket.accept() out of system resource",
                "exception": OSError(errno.EMFILE, "Too many open files"),
                "socket": listening,
            }
            for _ in range(50):
                loop.call_exception_handler(context)
        assert [record.getMessage() for record in caplog.records] == [
            "no further connection can be accepted: [Errno 24] Too many open files"
        ]
        loop.call_exception_handler({"message": "something else"})
        assert len(caplog.records) == 2
    finally:
        loop.set_exception_handler(None)


def test_connections_leave_descriptors_for_the_store() -> None:
    assert most_connections(65_536) == front.MAX_CONNECTIONS
    assert most_connections(256) == 156
    assert most_connections(50) == 10


def test_the_limit_of_descriptors_is_raised_to_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {"soft": 1_024}
    monkeypatch.setattr(resource, "getrlimit", lambda _: (known["soft"], 4_096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, of: known.update(soft=of[0]))
    assert front.raise_descriptor_limit() == 4_096
    assert known["soft"] == 4_096
    assert front.raise_descriptor_limit() == 4_096
