"""The HTTP/1.1 client: how connections are used, and how a response may end."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autopush.net import http_client
from autopush.net.http_client import (
    MAX_RESPONSE,
    ClientLimits,
    HttpBusyError,
    HttpClient,
    HttpError,
    HttpTimeoutError,
    client_tls,
)
from support.cases import cases
from support.certificates import tls_pair
from support.stream_server import stream_server

BOTH_LOOPS = True
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Server:
    """Answers each request with the next of `answers`, the last one again and again; None: says
    nothing until `release`. A connection ends after an answer that `ends` holds.
    """

    answers: list[bytes | None] = field(default_factory=lambda: [OK])
    ends: tuple[bytes, ...] = ()
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    most_open: int = 0
    release: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    port: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/path?x=y"

    async def until(self, is_so: Callable[["Server"], bool]) -> None:
        async with asyncio.timeout(30), self.changed:
            await self.changed.wait_for(lambda: is_so(self))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
                self.heads.append(head + await reader.readexactly(int(length or 0)))
                async with self.changed:
                    self.changed.notify_all()
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer is None:
                    await self.release.wait()
                    answer = OK
                writer.write(answer)
                await writer.drain()
                if answer in self.ends:
                    return
        finally:
            self.open -= 1
            writer.close()
            async with self.changed:
                self.changed.notify_all()


@asynccontextmanager
async def listening(server: Server, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    async with stream_server(server.serve, tls=tls) as (_, server.port):
        server.scheme = "http" if tls is None else "https"
        yield server


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with listening(Server()) as server:
        yield server
        server.release.set()


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient(None, ClientLimits(max_connections=3, busy_timeout=0.1))
    yield client
    await client.close()


async def failure(sent: Awaitable[object]) -> HttpError:
    with pytest.raises(HttpError) as caught:
        await sent
    return caught.value


async def test_requests_one_after_the_other_share_a_connection(
    server: Server, client: HttpClient
) -> None:
    response = await client.request("POST", server.url, [("x", "1")], b"body")
    assert (response.status, response.headers, response.body) == (
        200,
        {"content-length": "2"},
        b"ok",
    )
    assert await client.request("GET", server.url) == response
    assert server.connections == 1
    host = f"host: 127.0.0.1:{server.port}\r\n".encode()
    assert [head.lower() for head in server.heads] == [
        b"post /path?x=y http/1.1\r\n" + host + b"x: 1\r\ncontent-length: 4\r\n\r\nbody",
        b"get /path?x=y http/1.1\r\n" + host + b"\r\n",
    ]


async def test_requests_at_the_same_time_wait_for_the_connections_there_may_be(
    server: Server,
) -> None:
    client = HttpClient(None, ClientLimits(max_connections=3, busy_timeout=30))
    server.answers = [None]
    sent = asyncio.gather(*(client.request("POST", server.url) for _ in range(64)))
    await server.until(lambda it: len(it.heads) == 3)
    server.release.set()
    assert [response.status for response in await sent] == [200] * 64
    assert server.most_open == 3
    await client.close()


async def test_a_request_that_finds_no_free_connection_in_time_is_not_sent(
    server: Server, client: HttpClient
) -> None:
    server.answers = [None]
    held = [asyncio.ensure_future(client.request("POST", server.url)) for _ in range(3)]
    await asyncio.sleep(0)
    assert isinstance(await failure(client.request("POST", server.url)), HttpBusyError)
    server.release.set()
    assert {response.status for response in await asyncio.gather(*held)} == {200}
    assert len(server.heads) == 3


async def test_a_response_that_does_not_come_in_time_costs_its_connection(server: Server) -> None:
    client = HttpClient(None, ClientLimits(response_timeout=0.05))
    server.answers = [None]
    late = await failure(client.request("POST", server.url))
    assert isinstance(late, HttpTimeoutError)
    server.release.set()
    await server.until(lambda server: not server.open)
    await client.close()


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nto the end", b"to the end"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", b"ok"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b"ok"),
    ],
    ids=["until the connection ends", "HTTP/1.0", "chunked", "after an informational one"],
)
async def test_a_whole_response(
    server: Server, client: HttpClient, answer: bytes, body: bytes
) -> None:
    server.answers = [answer]
    server.ends = (answer,)
    response = await client.request("POST", server.url)
    assert (response.status, response.body) == (200, body)
    assert "link" not in response.headers


BROKEN = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "too large": b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n" + bytes(MAX_RESPONSE + 1),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_response_is_repeated_only_if_twice_is_harmless(
    server: Server, name: str
) -> None:
    client = HttpClient(None, ClientLimits(max_retry=1))
    server.ends = (BROKEN[name],)
    server.answers = [BROKEN[name], OK]
    error = await failure(client.request("POST", server.url))
    assert (error.processed, error.is_connection) == (True, True)
    assert len(server.heads) == 1
    server.answers = [BROKEN[name], OK]
    assert (await client.request("POST", server.url, idempotent=True)).status == 200
    assert len(server.heads) == 3
    await client.close()


async def test_redirects_are_not_followed(server: Server, client: HttpClient) -> None:
    server.answers = [b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"]
    assert (await client.request("POST", server.url)).status == 302
    assert len(server.heads) == 1


async def test_an_idle_connection_is_closed_and_the_next_request_gets_a_new_one(
    server: Server, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "IDLE_TIMEOUT", 0.02)
    await client.request("POST", server.url)
    await server.until(lambda server: not server.open)
    await client.request("POST", server.url)
    assert server.connections == 2


@cases(
    ("url", "headers"),
    [
        ("nonsense", ()),
        ("ftp://127.0.0.1/", ()),
        ("http:///path", ()),
        ("https://127.0.0.1/", ()),  # without a TLS context
        ("http://127.0.0.1/é", ()),
        ("http://127.0.0.1/\r\nx: y", ()),
        ("http://127.0.0.1/", [("x", "y\r\nz: 1")]),
    ],
)
async def test_what_cannot_be_requested_is_an_error(
    client: HttpClient, url: str, headers: list[tuple[str, str]]
) -> None:
    assert not (await failure(client.request("POST", url, headers))).processed


async def test_a_closed_client_fails_what_is_under_way_and_what_comes(
    server: Server, client: HttpClient
) -> None:
    server.answers = [None]
    held = asyncio.ensure_future(client.request("POST", server.url))
    await server.until(lambda server: bool(server.heads))
    await client.close()
    assert "closed" in str(await failure(held))
    assert "closed" in str(await failure(client.request("POST", server.url)))


# ── through a proxy ──────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def proxy_of(heads: list[bytes], answer: bytes) -> AsyncIterator[int]:
    """A proxy that answers CONNECT so, and then passes everything on if that was 200."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heads.append(head)
        writer.write(answer)
        if b" 200 " in answer:
            port = int(head.split()[1].rpartition(b":")[2])
            reading, writing = await asyncio.open_connection("127.0.0.1", port)
            try:
                await asyncio.gather(copy(reader, writing), copy(reading, writer))
            finally:  # a copy that is cancelled before it has begun closes nothing
                writing.transport.abort()

    async with stream_server(serve) as (_, port):
        yield port


async def test_https_goes_through_the_proxy_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, _ = tls_pair(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    heads: list[bytes] = []
    established = b"HTTP/1.1 200 Connection established\r\n\r\n"
    async with listening(Server(), tls) as server, proxy_of(heads, established) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://us%65r:pass@127.0.0.1:{port}")
        client = HttpClient(client_tls(), uses_proxy=True)
        assert (await client.request("POST", server.url, (), b"x")).body == b"ok"
        await client.close()
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        direct = HttpClient(client_tls(), uses_proxy=True)
        assert (await direct.request("POST", server.url, (), b"x")).body == b"ok"
        await direct.close()
    (head,) = heads
    assert head.startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n".encode())
    assert b"Basic " + base64.b64encode(b"user:pass") in head


async def test_a_proxy_that_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy_of([], b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n") as port:
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{port}")
        client = HttpClient(client_tls(), uses_proxy=True)
        error = await failure(client.request("POST", "https://provider.example/"))
        assert (str(error), error.processed) == ("the proxy answers 407", False)
        await client.close()
