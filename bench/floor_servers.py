"""The bare servers of the floor, each a process of its own: `python -m bench.floor_servers
echo|post`, which prints its port.

Each does the least that its library allows; no server built on these parts can cost less.
"""

import asyncio
import sys
from typing import cast

import httptools
import uvloop
from picows import WSFrame, WSListener, WSTransport, WSUpgradeRequest, ws_create_server

_CREATED = (
    b"HTTP/1.1 201 Created\r\nLocation: http://127.0.0.1/m/"
    + b"A" * 160
    + b"\r\nTTL: 3600\r\nContent-Length: 0\r\n\r\n"
)


class Echo(WSListener):
    """Sends each message back."""

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        transport.send(frame.msg_type, frame.get_payload_as_bytes())


class Post(asyncio.Protocol):
    """Reads a request to its end and answers 201."""

    __slots__ = ("body", "headers", "parser", "transport", "url")

    def __init__(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.transport = cast(asyncio.Transport, None)
        self.url = b""
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.transport.write(_CREATED)
        self.headers = {}
        self.body = b""


async def _serve(kind: str) -> None:
    if kind == "echo":
        server = await ws_create_server(_listener, "127.0.0.1", 0, backlog=1024)
    else:
        server = await asyncio.get_running_loop().create_server(Post, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _listener(request: WSUpgradeRequest) -> WSListener:
    return Echo()


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1]))
