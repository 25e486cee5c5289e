"""The connections of the fault proxy: those made to it, and its own to the server."""

import asyncio
import socket
import struct
from collections.abc import Callable

from support.fault_http import Message, read_message

PIECES = 8
RESET = struct.pack("ii", 1, 0)
"""Of SO_LINGER: what is closed is reset."""


class Listener:
    """Takes connections as they come. Nothing is left half taken when it closes, so that the same
    port can be listened on again at once.
    """

    def __init__(self, host: str, port: int, taken: Callable[[socket.socket], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._taken = taken
        self._socket = socket.create_server((host, port), backlog=100)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._take)

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    def _take(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return  # it is gone again
        connection.setblocking(False)
        self._taken(connection)

    def close(self) -> None:
        """Refuse connections from now on; those that wait are reset."""
        self._loop.remove_reader(self._socket)
        self._socket.close()


class Caller:
    """A connection that was made to the proxy. `busy`: a call of it is with the server."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None
        self.busy = False
        self.cut = False

    async def read(self) -> Message | None:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(sock=self._socket)
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

    async def gone(self) -> None:
        """Wait until the other side closes."""
        await self._reader.read()

    def reset(self) -> None:
        """Cut the connection so that the other side gets an RST."""
        self.cut = True
        if self._socket.fileno() != -1:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if self._writer is None:
            self._socket.close()
        else:
            self._writer.transport.abort()

    def close(self) -> None:
        if self._writer is None:
            self._socket.close()
        else:
            self._writer.close()


class Upstream:
    """The way to the server, for one caller."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def exchange(self, request: Message) -> Message:
        if self._streams is None or self._streams[0].at_eof():
            self.close()
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(bytes(request))
        answer = await read_message(reader)
        if answer is None:
            raise ConnectionResetError
        return answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
