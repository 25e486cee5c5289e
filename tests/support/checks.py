"""Running single checks of `autopush doctor`."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from autopush.commands.checks import Check, Findings, Level, PortUse, Subject
from autopush.commands.doctor import examine
from autopush.settings import Settings
from autopush.settings.declaration import Source

NOW = 1_790_000_000.0
"""September 2026."""


def subject(
    settings: Settings, *, now: float = NOW, ports: Mapping[str, PortUse] | None = None
) -> Subject:
    """What a check examines."""
    return Subject(settings, lambda: now, ports=ports or {})


async def findings(
    check: Callable[[Subject], Findings], examined: Subject | Settings
) -> list[tuple[str, str]]:
    """Level and text of each; whatever is no OK says what to do."""
    examined = subject(examined) if isinstance(examined, Settings) else examined
    row = Check("check", check, advice="Do something")
    found = [line.finding async for line in examine(examined, [row])]
    for finding in found:
        assert bool(finding.advice) is (finding.level is not Level.OK), finding
        assert "\n" not in str(finding)
    return [(finding.level.value, str(finding)) for finding in found]


def given(*names: str) -> dict[str, Source]:
    """The sources of options that a test has given."""
    return {name: Source("flag", f"--{name.replace('_', '-')}") for name in names}


@asynccontextmanager
async def answering(
    response: bytes, tls: ssl.SSLContext | None = None
) -> AsyncIterator["AnsweringServer"]:
    """A server on loopback that answers whatever it is sent with these bytes, then closes."""
    server = AnsweringServer()
    connections: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[writer] = asyncio.current_task()
        with suppress(OSError):
            server.heads.append(await reader.read(65_536))
            writer.write(response)
            if response.startswith(b"HTTP/1.1 101 "):
                server.frames.append(await reader.read(100))
            await writer.drain()
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as listener:
        server.port = listener.sockets[0].getsockname()[1]
        yield server
        for writer, task in connections.items():
            if task is not None and not response.startswith(b"HTTP/1.1 101 "):
                writer.transport.abort()
            await asyncio.gather(*filter(None, [task]))
            writer.transport.abort()
        await asyncio.sleep(0)


class AnsweringServer:
    """What the server of `answering` was sent."""

    def __init__(self) -> None:
        self.port = 0
        self.heads: list[bytes] = []
        self.frames: list[bytes] = []
        """What came after a response that opens a WebSocket."""


def json_response(document: object, *headers: str, status: int = 200) -> bytes:
    """A response with a JSON body."""
    body = json.dumps(document).encode()
    lines = [f"HTTP/1.1 {status} Words", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body
