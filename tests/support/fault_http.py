"""HTTP/1.1 messages as the fault proxy needs them: read whole, sent whole."""

import asyncio
from dataclasses import dataclass, replace

_ENDS = frozenset({b"content-length", b"transfer-encoding", b"x-amz-crc32", b"connection"})
"""Headers that speak of the body as it was, or of one connection."""


@dataclass(frozen=True)
class Message:
    """A request or an answer. `start` is its first line, without the line's end."""

    start: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def status(self) -> int:
        return int(self.start.split(b" ", 2)[1])

    def header(self, name: bytes) -> bytes:
        """Empty if it is not there; `name` in lower case."""
        return next((value for key, value in self.headers if key.lower() == name), b"")

    def with_body(self, body: bytes) -> "Message":
        """The same with another body, and without what was said about the old one."""
        kept = [(key, value) for key, value in self.headers if key.lower() not in _ENDS]
        return replace(self, headers=kept, body=body)

    def __bytes__(self) -> bytes:
        kept = [pair for pair in self.headers if pair[0].lower() != b"content-length"]
        lines = [b"%s: %s" % pair for pair in [*kept, (b"Content-Length", b"%d" % len(self.body))]]
        return b"\r\n".join([self.start, *lines, b"", self.body])


async def read_message(reader: asyncio.StreamReader) -> Message | None:
    """The next message, whose length must be said; None at the end.

    Raises asyncio.IncompleteReadError where it breaks off.
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
        raise ValueError("the body is in chunks, which this server does not read")
    length = int(found.header(b"content-length") or 0)
    return replace(found, body=await reader.readexactly(length))
