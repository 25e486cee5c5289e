"""Clients that disappear, stop half-way, do not read, or never finish what they begin."""

import asyncio
import base64
import socket
import struct
import threading
import time
from concurrent.futures import Future
from contextlib import AsyncExitStack

import pytest

from support import wire
from support.application_server import ApplicationServer
from support.bad_input import delivers_only, push_head, request
from support.raw_client import RawClient, raw_client
from support.service import Service
from support.user_agent import UserAgent

pytestmark = pytest.mark.slow

HEAD_TIMEOUT = 10.0
HELLO_TIMEOUT = 6.0
UPGRADE: dict[str, str | None] = {
    "Host": "h",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(b"0123456789abcdef").decode(),
}


async def test_a_sender_that_shut_its_half_still_gets_its_answers(
    http: RawClient, target: tuple[UserAgent, str]
) -> None:
    agent, endpoint = target
    http.send(push_head(endpoint, "Content-Length: 0") * 3)
    http.finish()
    sent = [(await http.answer()).message_id for _ in range(3)]
    assert [message["version"] for message in await agent.receive(3)] == sent
    assert await http.end() == b""


async def test_half_a_request_has_no_effect(
    running: Service, target: tuple[UserAgent, str], sender: ApplicationServer
) -> None:
    agent, endpoint = target
    whole = push_head(endpoint, "Content-Encoding: aes128gcm", "Content-Length: 10") + "0123456789"
    for end in ("finish", "drop_connection"):
        for length in (1, 20, len(whole) - 12, len(whole) - 1):
            async with raw_client(running.endpoint_port) as client:
                client.send(whole[:length])
                await asyncio.sleep(0)
                getattr(client, end)()
                await client.end()
    await delivers_only(agent, sender, endpoint)


async def test_a_websocket_that_resets_or_shuts_its_half_is_cleaned_up(
    running: Service, sender: ApplicationServer
) -> None:
    async def clients() -> int:
        count = (await sender.request("GET", f"{running.endpoint}/health")).document["clients"]
        assert isinstance(count, int)
        return count

    before = await clients()
    async with AsyncExitStack() as stack:
        for number in range(6):
            client = await stack.enter_async_context(raw_client(running.websocket_port))
            await (client.upgrade() if number < 2 else client.hello())
            if number % 2:
                client.send(wire.text(b'{"messageType":"reg')[:-3])
                client.finish()
                await client.end()
            else:
                linger = struct.pack("ii", 1, 0)  # an RST instead of a FIN
                sock = client.writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                client.drop_connection()
    for _ in range(250):
        if await clients() == before:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("sockets are left over")


async def test_a_sender_that_reads_no_answers_does_not_delay_others(
    running: Service, target: tuple[UserAgent, str], sender: ApplicationServer
) -> None:
    agent, endpoint = target
    async with raw_client(running.endpoint_port) as client:
        sock = client.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.writer.transport.set_write_buffer_limits(high=1 << 20)
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 2000)
        await delivers_only(agent, sender, endpoint)


Outcome = Future[tuple[float, bytes]]
"""After how many seconds something came, and what."""


class SlowClients:
    """Clients that begin something and never end it, in the background of the whole module."""

    def __init__(self, service: Service) -> None:
        begin = b"GET / HTTP/1.1\r\nHost: h\r\n"
        upgrade = request("GET / HTTP/1.1", UPGRADE)
        self.drips = [
            self._begin(port, begin, b"X-Slow: 1\r\n")
            for port in (service.endpoint_port, service.websocket_port)
        ]
        self.mute = self._begin(service.websocket_port, upgrade, b"")

    def _begin(self, port: int, first: bytes, more: bytes) -> Outcome:
        outcome: Outcome = Future()
        threading.Thread(target=self._run, args=(port, first, more, outcome), daemon=True).start()
        return outcome

    @staticmethod
    def _run(port: int, first: bytes, more: bytes, outcome: Outcome) -> None:
        try:
            with socket.create_connection(("127.0.0.1", port)) as sock:
                began = time.monotonic()
                sock.sendall(first)
                sock.settimeout(0.5)
                data = b""
                while not data and time.monotonic() - began < HEAD_TIMEOUT + 5:
                    try:
                        data = sock.recv(65536)
                        if data.startswith(b"HTTP/1.1 101"):
                            data = data.partition(b"\r\n\r\n")[2]
                    except TimeoutError:
                        sock.sendall(more)
            outcome.set_result((time.monotonic() - began, data))
        except OSError as error:
            outcome.set_exception(error)


@pytest.fixture(scope="module", autouse=True)
def slow_clients(running: Service) -> SlowClients:
    return SlowClients(running)


# Last, as by now most of the time has passed.


async def test_a_connection_without_hello_is_closed_in_time(slow_clients: SlowClients) -> None:
    seconds, data = await asyncio.wrap_future(slow_clients.mute)
    assert data[:2] == bytes((0x80 | wire.CLOSE, len(data) - 2))
    assert int.from_bytes(data[2:4]) == 1008
    assert HELLO_TIMEOUT - 1 < seconds < HELLO_TIMEOUT + 3


async def test_a_head_that_is_sent_too_slowly_is_ended_with_408(slow_clients: SlowClients) -> None:
    for outcome in slow_clients.drips:
        seconds, data = await asyncio.wrap_future(outcome)
        assert data.startswith(b"HTTP/1.1 408 ")
        assert HEAD_TIMEOUT - 1 < seconds < HEAD_TIMEOUT + 3
