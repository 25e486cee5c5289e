"""HTTP over TLS, whose transport cannot close one direction alone, and has buffers of its own."""

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import NamedTuple

import pytest

from autopush.net.http_messages import Request, Response
from autopush.net.tls import ServerTls
from support.certificates import self_signed
from support.http_shell import Serving, describe, read_answers
from support.http_shell import serving as serving_http

BOTH_LOOPS = True

TIMEOUT = 30
GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
LAST_GET = b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
BIG = b"x" * 300_000


class Contexts(NamedTuple):
    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(params=["ssl", "pyOpenSSL"])
def tls(tmp_path: Path, request: pytest.FixtureRequest) -> Contexts:
    """Of a server without `client_certs` and of one with it, and of a client with a certificate."""
    both = str(self_signed(tmp_path / "both.pem"))
    server = ServerTls(both, both, asks_clients=request.param == "pyOpenSSL")
    client = ssl.create_default_context(cafile=both)
    client.load_cert_chain(both)
    return Contexts(server.context, client)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def opened(port: int, tls: Contexts) -> Streams:
    return await asyncio.open_connection("127.0.0.1", port, ssl=tls.client)


async def until_gone(here: Serving) -> None:
    async with asyncio.timeout(TIMEOUT):
        while here.server.connections:  # noqa: ASYNC110 - a server has no event for it
            await asyncio.sleep(0)


def big_or_small(request: Request) -> Response:
    return Response(200, BIG if request.path == "/big" else describe(request))


async def test_pipelined_requests_are_answered_in_order_and_the_last_ends_the_connection(
    tls: Contexts,
) -> None:
    async with serving_http(tls=tls.server) as here:
        reader, writer = await opened(here.port, tls)
        writer.write(GET * 99 + LAST_GET)
        answers = read_answers(await asyncio.wait_for(reader.read(), TIMEOUT))
        assert [answer.status for answer in answers] == [200] * 100
        writer.close()


async def test_a_client_that_reads_late_gets_everything(tls: Contexts) -> None:
    async with serving_http(big_or_small, tls=tls.server) as here:
        reader, writer = await opened(here.port, tls)
        writer.write(b"GET /big HTTP/1.1\r\nHost: h\r\n\r\n" * 30 + LAST_GET)
        await asyncio.sleep(0.2)  # the server's buffers and those of the kernel fill up
        answers = read_answers(await asyncio.wait_for(reader.read(), TIMEOUT))
        assert [len(answer.body) for answer in answers[:-1]] == [len(BIG)] * 30
        assert len(answers) == 31
        writer.close()


async def test_what_cannot_be_parsed_is_answered_while_the_client_still_sends(
    tls: Contexts,
) -> None:
    async with serving_http(tls=tls.server) as here:
        reader, writer = await opened(here.port, tls)
        writer.write(b"nonsense\r\n\r\n" + b"x" * 200_000)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), TIMEOUT)
        assert head.startswith(b"HTTP/1.1 400 ")
        writer.close()
        await until_gone(here)


@pytest.mark.parametrize("before", [b"", GET[:9], GET])
@pytest.mark.parametrize("way", ["close", "abort"])
async def test_a_client_that_leaves_is_forgotten_whatever_it_has_sent(
    tls: Contexts, before: bytes, way: str
) -> None:
    async with serving_http(tls=tls.server) as here:
        _, writer = await opened(here.port, tls)
        writer.write(before)
        await asyncio.sleep(0)
        if way == "close":
            writer.close()
        else:
            writer.transport.abort()
        await until_gone(here)
        with contextlib.suppress(OSError):  # an answer came after the end of the connection
            await writer.wait_closed()


async def test_a_shutdown_ends_idle_connections_in_order(tls: Contexts) -> None:
    async with serving_http(tls=tls.server) as here:
        reader, writer = await opened(here.port, tls)
        writer.write(GET)
        await reader.readuntil(b"\r\n\r\n")
        await here.server.shutdown(TIMEOUT)
        await asyncio.wait_for(reader.read(), TIMEOUT)
        assert here.server.connections == 0
        writer.close()


async def test_a_shutdown_aborts_a_connection_whose_client_does_not_read(tls: Contexts) -> None:
    async with serving_http(big_or_small, tls=tls.server) as here:
        _, writer = await opened(here.port, tls)
        writer.write(b"GET /big HTTP/1.1\r\nHost: h\r\n\r\n" * 60)
        await asyncio.sleep(0.2)
        await here.server.shutdown(0.1)
        await until_gone(here)
        writer.transport.abort()
