"""A TLS context that asks for a certificate and accepts any, used by clients of the ssl module."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autopush.net.tls import ServerTls
from support.certificates import Authority, self_signed

BOTH_LOOPS = True
VERSIONS = pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])


class Contexts:
    """Of a server, and of its clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        issued = self.authority.issue(folder)
        self.tls = ServerTls(str(issued.certificate), str(issued.key), asks_clients=True)
        self.own = self_signed(folder / "client.pem")

    def client(self, certificate: Path | None, version: str = "TLSv1_3") -> ssl.SSLContext:
        context = self.authority.client()
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context


@pytest.fixture
def contexts(tmp_path: Path) -> Contexts:
    return Contexts(tmp_path)


class Echo(asyncio.Protocol):
    """Echoes, and keeps what it learns. `ended` is set when the connection is lost."""

    def __init__(self, made: list["Echo"]) -> None:
        made.append(self)
        self.ended = asyncio.Event()
        self.error: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.tls: ssl.SSLObject = transport.get_extra_info("ssl_object")

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self.ended.set()


class Listening:
    def __init__(self, port: int, made: list[Echo]) -> None:
        self.port = port
        self.made = made
        self.faults: list[dict[str, object]] = []

    async def connect(
        self, context: ssl.SSLContext
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context)

    async def echo(self, context: ssl.SSLContext, *texts: bytes) -> Echo:
        """Send, receive the same, and close on both sides."""
        reader, writer = await self.connect(context)
        for text in texts:
            writer.write(text)
            assert await reader.readexactly(len(text)) == text
        served = self.made[-1]
        writer.close()
        await writer.wait_closed()
        await served.ended.wait()
        return served


@asynccontextmanager
async def listening(contexts: Contexts) -> AsyncIterator[Listening]:
    loop = asyncio.get_running_loop()
    made: list[Echo] = []
    server = await loop.create_server(lambda: Echo(made), "127.0.0.1", 0, ssl=contexts.tls.context)
    here = Listening(server.sockets[0].getsockname()[1], made)
    loop.set_exception_handler(lambda _, context: here.faults.append(context))
    try:
        yield here
    finally:
        server.close()
    assert here.faults == []


def der(path: Path) -> bytes:
    """The first certificate of a file that may hold a key before it."""
    text = path.read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])


@VERSIONS
@pytest.mark.parametrize("presents", [True, False])
async def test_the_certificate_of_a_client_is_accepted_and_shown(
    contexts: Contexts, version: str, presents: bool
) -> None:
    context = contexts.client(contexts.own if presents else None, version)
    async with listening(contexts) as here:
        served = await here.echo(context, b"hello")
    assert served.tls.getpeercert(True) == (der(contexts.own) if presents else None)
    assert served.tls.getpeercert() == ({} if presents else None)
    assert served.tls.cipher()
    assert served.tls.compression() is None
    assert served.error is None


@VERSIONS
async def test_a_certificate_of_an_unknown_authority_is_accepted_with_its_chain(
    contexts: Contexts, version: str, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    authority = Authority(other)
    issued = authority.issue(other, "client.example")
    chain = other / "chain.pem"
    chain.write_bytes(issued.certificate.read_bytes() + authority.path.read_bytes())
    context = contexts.client(None, version)
    context.load_cert_chain(chain, issued.key)
    async with listening(contexts) as here:
        assert (await here.echo(context, b"x")).tls.getpeercert(True) == der(issued.certificate)


@VERSIONS
async def test_the_end_behind_data_in_one_piece_is_seen(contexts: Contexts, version: str) -> None:
    async with listening(contexts) as here:
        _, writer = await here.connect(contexts.client(contexts.own, version))
        writer.write(b"last words")
        writer.close()  # which is close_notify right behind it
        await here.made[0].ended.wait()
        assert here.made[0].error is None


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello"])
async def test_what_is_no_tls_ends_the_connection(contexts: Contexts, sent: bytes) -> None:
    async with listening(contexts) as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        writer.write(sent)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        assert not [served for served in here.made if hasattr(served, "tls")]


async def test_a_record_that_was_tampered_with_ends_the_connection(contexts: Contexts) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = contexts.client(contexts.own).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    async with listening(contexts) as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(65536))
        tls.write(b"good")
        good = outgoing.read()
        tls.write(b"bad")
        bad = bytearray(outgoing.read())
        bad[-1] ^= 1
        writer.write(good + bad)
        await here.made[0].ended.wait()
        writer.close()


@VERSIONS
async def test_a_session_is_resumed_with_its_certificate(contexts: Contexts, version: str) -> None:
    context = contexts.client(contexts.own, version)
    async with listening(contexts) as here:
        reader, writer = await here.connect(context)
        writer.write(b"x")
        await reader.readexactly(1)  # the tickets of TLS 1.3 come before it
        session = cast(ssl.SSLObject, writer.get_extra_info("ssl_object")).session
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        again = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1", session=session)
        reader2, writer2 = await asyncio.open_connection("127.0.0.1", here.port)
        while True:
            try:
                again.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer2.write(outgoing.read())
                incoming.write(await reader2.read(65536))
        again.write(b"y")
        writer2.write(outgoing.read())
        await reader2.read(1)
        assert again.session_reused
        assert here.made[1].tls.getpeercert(True) == der(contexts.own)
        for each in (writer, writer2):
            each.close()


@given(st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_pending_can_be_read_however_it_was_cut(
    contexts: Contexts, data: st.DataObject
) -> None:
    """As uvloop does: it reads while the BIO or the connection says that something is there."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = contexts.tls.context.wrap_bio(to_server, to_client, server_side=True)
    from_server, from_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = contexts.client(contexts.own).wrap_bio(
        from_server, from_client, server_hostname="127.0.0.1"
    )
    done = [False, False]
    while not all(done):
        for number, side in enumerate((client, server)):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
                done[number] = True
            to_server.write(from_client.read())
            from_server.write(to_client.read())
    texts = data.draw(st.lists(st.binary(min_size=1, max_size=40_000), max_size=8))
    for text in texts:
        for start in range(0, len(text), 16384):
            client.write(text[start : start + 16384])
    wire = from_client.read()
    read = b""
    size = data.draw(st.sampled_from([1000, 16384, 262_144]))
    while wire:
        cut = data.draw(st.integers(1, len(wire)))
        to_server.write(wire[:cut])
        wire = wire[cut:]
        with contextlib.suppress(ssl.SSLWantReadError):
            while to_server.pending or server.pending():
                read += server.read(size)
    assert read == b"".join(texts)
