"""The connections of the fault proxy, made to it and by it, and their HTTP/1.1 messages."""

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

_BODY_HEADERS = frozenset({b"content-length", b"transfer-encoding", b"x-amz-crc32", b"connection"})
"""Headers about the original body, or about one connection."""


@dataclass(frozen=True)
class Message:
    """A request or response, read and sent whole. `start`: its first line without the line end."""

    start: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def status(self) -> int:
        return int(self.start.split(b" ", 2)[1])

    def header(self, name: bytes) -> bytes:
        """Its value, empty if it is missing; `name` in lower case."""
        return next((value for key, value in self.headers if key.lower() == name), b"")

    def with_body(self, body: bytes) -> "Message":
        """The same message with another body, without the headers about the old one."""
        kept = [(key, value) for key, value in self.headers if key.lower() not in _BODY_HEADERS]
        return replace(self, headers=kept, body=body)

    def __bytes__(self) -> bytes:
        kept = [pair for pair in self.headers if pair[0].lower() != b"content-length"]
        lines = [b"%s: %s" % pair for pair in [*kept, (b"Content-Length", b"%d" % len(self.body))]]
        return b"\r\n".join([self.start, *lines, b"", self.body])


async def read_message(reader: asyncio.StreamReader) -> Message | None:
    """The next message, which must have a Content-Length; None at the end.

    Raises asyncio.IncompleteReadError where it is cut off.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise
        return None
    start, *lines = head[:-4].split(b"\r\n")
    headers = [
        (name.strip(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)
    ]
    found = Message(start, headers, b"")
    if found.header(b"transfer-encoding"):
        raise ValueError("a chunked body, which this proxy does not read")
    length = int(found.header(b"content-length") or 0)
    return replace(found, body=await reader.readexactly(length))


PIECES = 8
RESET = struct.pack("ii", 1, 0)
"""Value of SO_LINGER: closing resets the connection."""


class Listener:
    """Accepts connections. None is half accepted when it closes, so that the port can be used again
    at once.
    """

    def __init__(self, host: str, port: int, on_accept: Callable[[socket.socket], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_accept = on_accept
        self._socket = socket.create_server((host, port), backlog=100)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._accept)

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return  # it is closed already
        connection.setblocking(False)
        self._on_accept(connection)

    def close(self) -> None:
        """Refuse connections from now on, and reset those that wait."""
        self._loop.remove_reader(self._socket)
        self._socket.close()


class ClientConnection:
    """A connection to the proxy. `busy`: the server is handling a call of it."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None
        self._is_opening = False
        self.busy = False
        self.was_reset = False

    async def read(self) -> Message | None:
        if self._writer is None:
            self._is_opening = True  # from now on the socket is the transport's
            self._reader, self._writer = await asyncio.open_connection(sock=self._socket)
            if self.was_reset:
                self._writer.transport.abort()
        return await read_message(self._reader)

    async def _send(self, text: bytes) -> None:
        assert self._writer is not None
        self._writer.write(text)
        await self._writer.drain()

    async def send(self, message: Message) -> bool:
        await self._send(bytes(message))
        return True

    async def send_slowly(self, text: bytes, seconds: float) -> bool:
        size = -(-len(text) // PIECES)
        for start in range(0, len(text), size):
            await self._send(text[start : start + size])
            await asyncio.sleep(seconds / PIECES)
        return True

    async def wait_closed(self) -> None:
        """Wait until the other side closes."""
        await self._reader.read()

    def reset(self) -> None:
        """Close the connection so that the other side gets an RST."""
        self.was_reset = True
        if self._socket.fileno() != -1:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if self._writer is not None:
            self._writer.transport.abort()
        elif not self._is_opening:
            self._socket.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        elif not self._is_opening:
            self._socket.close()


class ServerConnection:
    """The connection to the server, for one connection to the proxy."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def exchange(self, request: Message) -> Message:
        if self._streams is None or self._streams[0].at_eof():
            self.close()
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(bytes(request))
        response = await read_message(reader)
        if response is None:
            raise ConnectionResetError
        return response

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
