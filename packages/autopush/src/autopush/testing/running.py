"""Runs a test service on two free ports of loopback: one public, one to control it."""

import asyncio
import queue
import secrets
import socket
import ssl
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, cast
from weakref import WeakSet

import msgspec

from autopush.clock import ServiceClock
from autopush.net.http_server import HttpConnection, HttpServer
from autopush.store import PushStore
from autopush.store.tables import TablePlan
from autopush.testing.control import ControlHandler
from autopush.testing.in_memory import InMemoryService
from autopush.testing.memory_engine import MemoryEngine
from autopush.testing.steering import CONNECTION

LOOPBACK: Final = "127.0.0.1"


class Address(msgspec.Struct, frozen=True):
    """Where a test service is. `url`: start of its endpoints; `websocket_url`: for browsers;
    `control` and `token`: of its control API; `ca`: PEM file of the CA to trust, with TLS.
    """

    url: str
    websocket_url: str
    control: str
    token: str
    ca: str | None = None


@asynccontextmanager
async def running_service(*, tls: bool = False) -> AsyncIterator[Address]:
    """A service that serves until the end of the block. `tls`: on its public port."""
    loop, clock, token = asyncio.get_running_loop(), ServiceClock(), secrets.token_urlsafe(16)
    engine = MemoryEngine(clock)
    store = await PushStore.open(engine, TablePlan(), key_hash="", clock=clock)
    with ExitStack() as stack:
        server_tls = trusted = ca = None
        if tls:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="autopush-")))
            ca, server_tls, trusted = _new_ca(folder)
        sockets = [stack.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(2)]
        origin, control = (f"{LOOPBACK}:{each.getsockname()[1]}" for each in sockets)
        url = f"http{'s' if tls else ''}://{origin}"
        service = InMemoryService(url, store, engine, clock, trusted)
        servers = [service.server(service.steering), service.server(ControlHandler(service, token))]
        opened = WeakSet[asyncio.Transport]()
        listeners = [
            await loop.create_server(_protocol_of(server, opened), sock=sock, ssl=context)
            for server, sock, context in zip(servers, sockets, (server_tls, None), strict=True)
        ]
        try:
            yield Address(url, service.websocket_url, f"http://{control}", token, ca)
        finally:
            for listener in listeners:
                listener.close()
            await service.close(servers)
            for transport in list(opened):  # such as one whose client does not end it
                transport.abort()
            await asyncio.sleep(0)  # then they are closed


def _protocol_of(
    server: HttpServer, opened: WeakSet[asyncio.Transport]
) -> Callable[[], HttpConnection]:
    class Connection(HttpConnection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            opened.add(cast(asyncio.Transport, transport))
            super().connection_made(transport)

    def make() -> HttpConnection:
        connection = Connection(server, "", None)
        CONNECTION.set(connection)
        return connection

    return make


def _new_ca(folder: Path) -> tuple[str, ssl.SSLContext, ssl.SSLContext]:
    from autopush.testing.throwaway_ca import issue  # noqa: PLC0415 - takes long to import

    authority, chain = issue(folder, LOOPBACK)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(chain)
    return str(authority), server, ssl.create_default_context(cafile=str(authority))


@contextmanager
def service_in_thread(*, tls: bool = False) -> Iterator[Address]:
    """The same in a thread, with an event loop of its own."""
    started: queue.SimpleQueue[Address | BaseException] = queue.SimpleQueue()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with running_service(tls=tls) as address:
            started.put(address)
            await stop.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(serve())
            except BaseException as error:  # noqa: BLE001 - raised in the thread that started this
                started.put(error)

    thread = threading.Thread(target=run, name="autopush test service", daemon=True)
    thread.start()
    address = started.get()
    if isinstance(address, BaseException):
        raise address
    try:
        yield address
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(stop.set)
        thread.join()
    if not started.empty():
        raise RuntimeError("the test service has failed") from cast(BaseException, started.get())
