"""HTTP for fakes of providers: over TLS, HTTP/2 where the client offers it by ALPN; else HTTP/1.1.

What a request is answered is up to the `handle` of a fake, which may also break off at any point.
"""

import asyncio
import json
import ssl
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import h11

from support.event_loops import LoopThread

WAIT: Final = 20.0
"""Seconds for what a test asks of a fake."""


@dataclass(frozen=True)
class ProviderRequest:
    """A request. `connection`: the number of its connection, from 0; `version`: of HTTP."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    version: str
    connection: int
    client_certificate: bytes | None
    """As DER; None where the client showed none."""


@dataclass
class ProviderExchange:
    """One request, and the means to answer it. `stream` is 0 in HTTP/1.1."""

    request: ProviderRequest
    connection: "_Http2 | _Http1"
    stream: int

    async def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole response."""
        sent = {"content-length": str(len(body)), **(headers or {})}
        await self.connection.send(self.stream, status, sent, body, is_end=True)

    async def respond_json(
        self, status: int, document: object, headers: Mapping[str, str] | None = None
    ) -> None:
        sent = {"content-type": "application/json; charset=UTF-8", **(headers or {})}
        await self.respond(status, json.dumps(document).encode(), sent)

    async def respond_partly(self, status: int, body: bytes, missing: int) -> None:
        """Announce `missing` bytes more than are sent, and leave the response open."""
        sent = {"content-length": str(len(body) + missing)}
        await self.connection.send(self.stream, status, sent, body, is_end=False)

    async def raw(self, data: bytes) -> None:
        """Write these bytes on the connection as they are."""
        await self.connection.write(data)

    async def reset_stream(self, code: int = h2.errors.ErrorCodes.INTERNAL_ERROR) -> None:
        """RST_STREAM; in HTTP/1.1 the connection is reset."""
        await self.connection.reset(self.stream, code)

    async def go_away(self, code: int = 0, last_stream: int = 0, data: bytes = b"") -> None:
        """GOAWAY; HTTP/2 only. Streams above `last_stream` count as not handled."""
        assert isinstance(self.connection, _Http2)
        await self.connection.go_away(code, last_stream, data)

    def close(self) -> None:
        """Close the connection, when what was written is sent."""
        self.connection.writer.close()

    def abort(self) -> None:
        """Reset the TCP connection."""
        self.connection.writer.transport.abort()


T = TypeVar("T")


class ProviderServer(ABC):
    """A fake. It runs in a thread, whose loop answers whatever the test does."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        """`context`: gets its ALPN protocols here; None for no TLS."""
        self._context = context
        if context is not None:
            context.set_alpn_protocols(["h2", "http/1.1"])
        self.port = self.connections = self.pings = 0
        """The last two: how many there were so far."""
        self.max_streams = 100
        """Requests that a client may have under way on one connection."""
        self.is_silent = False
        """Whether what comes over HTTP/2 is read and not answered."""
        self.open: set[_Http2 | _Http1] = set()
        self._serving: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def handle(self, exchange: ProviderExchange) -> None:
        """Answer a request."""

    @property
    def url(self) -> str:
        return f"http{'s' if self._context else ''}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread = LoopThread().__enter__()
        self.run(self._start())
        return self

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Have the thread run it; its result."""
        return self._thread.run(coroutine, WAIT)

    def __exit__(self, *_: object) -> None:
        self.run(self._stop())
        self._thread.__exit__()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _stop(self) -> None:
        self._server.close()
        await self._end_connections()
        for _ in range(5):  # the transports are closed in later turns of the loop
            await asyncio.sleep(0)

    def drop(self) -> None:
        """Reset all connections."""
        self.run(self._drop())

    async def _drop(self) -> None:
        for connection in self.open:
            with suppress(AttributeError):  # Python 3.11.2, of TLS that is closed already
                connection.writer.transport.abort()

    def reset(self) -> None:
        """Be as at the start, without connections and with none counted."""
        self.run(self._end_connections())
        self.connections = self.pings = 0
        self.is_silent, self.max_streams = False, 100

    async def _end_connections(self) -> None:
        await self._drop()
        serving = {*self._serving}
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        self.open.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        number, self.connections = self.connections, self.connections + 1
        tls = writer.get_extra_info("ssl_object")
        is_http2 = tls is not None and tls.selected_alpn_protocol() == "h2"
        connection = (_Http2 if is_http2 else _Http1)(self, reader, writer, number)
        self.open.add(connection)
        try:
            await connection.run()
        except (OSError, h11.RemoteProtocolError, h2.exceptions.ProtocolError):
            writer.transport.abort()  # the client went away, or does not speak HTTP
        finally:
            writer.close()
            with suppress(OSError):  # of TLS the other side has a say in it
                await writer.wait_closed()
            self.open.discard(connection)


@dataclass(eq=False)
class _Http2:
    server: ProviderServer
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int

    def __post_init__(self) -> None:
        settings = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self._state = h2.connection.H2Connection(settings)
        self._state.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self.server.max_streams
            },
        )
        self._bodies: dict[int, tuple[dict[str, str], bytearray]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._window = asyncio.Condition()

    async def run(self) -> None:
        self._state.initiate_connection()
        await self._flush()
        try:
            while data := await self.reader.read(65536):
                if self.server.is_silent:
                    continue
                for event in self._state.receive_data(data):
                    await self._on_event(event)
                await self._flush()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _on_event(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                headers = {str(name): str(value) for name, value in event.headers}
                self._bodies[event.stream_id] = headers, bytearray()
            case h2.events.DataReceived():
                self._bodies[event.stream_id][1].extend(event.data)
                self._state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                self._start(event.stream_id, *self._bodies.pop(event.stream_id))
            case h2.events.StreamReset():
                self._bodies.pop(event.stream_id, None)
                if event.stream_id in self._tasks:
                    self._tasks[event.stream_id].cancel()
            case h2.events.PingReceived():
                self.server.pings += 1
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                async with self._window:
                    self._window.notify_all()

    def _start(self, stream: int, headers: dict[str, str], body: bytearray) -> None:
        request = ProviderRequest(
            headers[":method"],
            headers[":path"],
            {name: value for name, value in headers.items() if name[0] != ":"},
            bytes(body),
            "2",
            self.number,
            _client_certificate(self.writer),
        )
        task = asyncio.ensure_future(self.server.handle(ProviderExchange(request, self, stream)))
        self._tasks[stream] = task
        task.add_done_callback(lambda _: self._tasks.pop(stream, None))

    async def send(
        self, stream: int, status: int, headers: Mapping[str, str], body: bytes, *, is_end: bool
    ) -> None:
        head = [(":status", str(status)), *((n.lower(), v) for n, v in headers.items())]
        self._state.send_headers(stream, head, end_stream=is_end and not body)
        while body:
            async with self._window:
                while not (room := self._state.local_flow_control_window(stream)):
                    await self._window.wait()
            size = min(room, self._state.max_outbound_frame_size)
            piece, body = body[:size], body[size:]
            self._state.send_data(stream, piece, end_stream=is_end and not body)
            await self._flush()
        await self._flush()

    async def reset(self, stream: int, code: int) -> None:
        self._state.reset_stream(stream, code)
        await self._flush()

    async def set_max_streams(self, number: int) -> None:
        """Let the client have that many requests under way from now on."""
        setting = h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS
        self._state.update_settings({setting: number})
        await self._flush()

    async def go_away(self, code: int, last_stream: int, data: bytes) -> None:
        self._state.close_connection(code, data, last_stream)
        await self._flush()

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def _flush(self) -> None:
        await self.write(self._state.data_to_send())


@dataclass(eq=False)
class _Http1:
    server: ProviderServer
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int

    def __post_init__(self) -> None:
        self._state = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        while (request := await self._next()) is not None:
            await self.server.handle(ProviderExchange(request, self, 0))
            if self._state.our_state is not h11.DONE:  # broken off: nothing follows
                await self.reader.read()
                return
            if self._state.their_state is h11.MUST_CLOSE:
                return
            self._state.start_next_cycle()

    async def _next(self) -> ProviderRequest | None:
        head, body = None, bytearray()
        while True:
            event = self._state.next_event()
            match event:
                case h11.NEED_DATA:
                    self._state.receive_data(await self.reader.read(65536))
                case h11.Request():
                    head = event
                case h11.Data():
                    body.extend(event.data)
                case h11.EndOfMessage() if head is not None:
                    return ProviderRequest(
                        head.method.decode(),
                        head.target.decode(),
                        {name.decode(): value.decode() for name, value in head.headers},
                        bytes(body),
                        head.http_version.decode(),
                        self.number,
                        _client_certificate(self.writer),
                    )
                case _:
                    return None

    async def send(
        self, stream: int, status: int, headers: Mapping[str, str], body: bytes, *, is_end: bool
    ) -> None:
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        head = h11.Response(status_code=status, headers=encoded)
        await self.write(self._state.send(head) or b"")
        await self.write(self._state.send(h11.Data(body)) or b"")
        if is_end:
            await self.write(self._state.send(h11.EndOfMessage()) or b"")

    async def reset(self, stream: int, code: int) -> None:
        self.writer.transport.abort()

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


def _client_certificate(writer: asyncio.StreamWriter) -> bytes | None:
    tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    return tls.getpeercert(binary_form=True) if tls is not None else None
