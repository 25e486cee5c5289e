"""The application servers' half of the load: VAPID tokens, and POSTs over persistent connections.

A request is prepared as one bytes object, and each connection has one request under way, like a
sender without pipelining. Tokens are signed before a clock starts.
"""

import asyncio
import base64
import time
from collections.abc import Callable, Iterator
from typing import cast
from urllib.parse import unquote_to_bytes, urlsplit

import orjson
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bench.ledger import Ledger

ES256 = ec.ECDSA(hashes.SHA256())
_HALF_A_DAY = 12 * 3600

Answered = Callable[["Poster", bytes, bytes], None]
"""Called with the connection, the status (three digits) and the version its Location names; in an
answer without one, the body.
"""


class Poster(asyncio.Protocol):
    """One connection of an application server. `is_usable`: the server has not ended it, nor will
    after the answer.
    """

    __slots__ = ("_rest", "answered", "is_usable", "lost", "transport")

    def __init__(self) -> None:
        self.transport = cast(asyncio.Transport, None)
        self.answered: Answered = _ignore
        self.lost: Callable[[str], None] | None = None
        self.is_usable = True
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        if self.lost is not None:
            self.lost(str(exc or "end of file"))

    def ask(self, request: bytes) -> asyncio.Future[tuple[bytes, bytes]]:
        """Send a request; the status, and the version or body, of its answer. Raises
        `ConnectionResetError`.
        """
        future = asyncio.get_running_loop().create_future()

        def on_lost(reason: str) -> None:
            if not future.done():
                future.set_exception(ConnectionResetError(reason))

        self.answered = lambda _, status, version: future.set_result((status, version))
        self.lost = on_lost
        self.transport.write(request)
        return future

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
            self._rest = b""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            self._rest = data
            return
        head = data[: end + 2].lower()
        body = int(_header(data, head, b"content-length") or 0)
        if len(data) < end + 4 + body:
            self._rest = data
            return
        self.is_usable = b"\r\nconnection: close" not in head
        location = _header(data, head, b"location").partition(b"/m/")[2]
        self.answered(self, data[9:12], unquote_to_bytes(location) or data[end + 4 :])

    def close(self) -> None:
        self.lost = None
        self.transport.close()


def _header(data: bytes, head: bytes, name: bytes) -> bytes:
    """The value of a header; `head`: the response's in small letters, and a line's end."""
    at = head.find(b"\r\n" + name + b":")
    return data[at + len(name) + 3 : head.find(b"\r\n", at + 2)] if at >= 0 else b""


def _ignore(poster: Poster, status: bytes, version: bytes) -> None:
    raise RuntimeError("a response without a request")


async def open_posters(host: str, port: int, count: int) -> list[Poster]:
    """Connect this many."""
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(Poster, host, port) for _ in range(count)]
    return [poster for _, poster in made]


class PushRequest:
    """The bytes of a push to one endpoint, in two halves around the VAPID token."""

    __slots__ = ("after", "before")

    def __init__(self, endpoint: str, key: str, body: bytes, ttl: int = 3600) -> None:
        """Prepares a POST of an aes128gcm body; `key`: the sender's public key, base64url."""
        url = urlsplit(endpoint)
        self.before = (
            f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nTTL: {ttl}\r\nUrgency: normal\r\n"
            "Content-Type: application/octet-stream\r\nContent-Encoding: aes128gcm\r\n"
            f"Content-Length: {len(body)}\r\nAuthorization: vapid t="
        ).encode()
        self.after = f", k={key}\r\n\r\n".encode() + body

    def signed(self, token: bytes) -> bytes:
        return b"".join((self.before, token, self.after))


class ClosedLoop:
    """Each poster sends the next request as soon as its last one was answered: what saturates a
    server.
    """

    def __init__(self, posters: list[Poster], requests: Iterator[bytes], ledger: Ledger) -> None:
        """Starts at once and ends with the requests; the ledger of the round has been begun with
        their number.
        """
        self._requests = requests
        self._ledger = ledger
        for poster in posters:
            poster.answered = self._answered
            poster.lost = self._lost
            request = next(requests, None)
            if request is not None:
                poster.transport.write(request)

    def _answered(self, poster: Poster, status: bytes, version: bytes) -> None:
        if status != b"201":
            self._ledger.fail(refusal(status, version))
            return
        self._ledger.answer(version)
        request = next(self._requests, None)
        if request is not None:
            poster.transport.write(request)

    def _lost(self, reason: str) -> None:
        self._ledger.fail(f"the server ended an application server's connection: {reason}")


def refusal(status: bytes, body: bytes) -> str:
    return f"a push was answered {status.decode()}: {body.decode(errors='replace')}"


def base64url(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


class ApplicationServer:
    """A key pair and the tokens it signs (RFC 8292)."""

    def __init__(self) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        point = self._private.public_key().public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint
        )
        self.key = base64url(point).decode()
        self._made = 0

    def token(self, audience: str) -> bytes:
        """A token that was never used, good for twelve hours."""
        self._made += 1
        header = base64url(b'{"typ":"JWT","alg":"ES256"}')
        claims = {
            "aud": audience,
            "exp": int(time.time()) + _HALF_A_DAY,
            "sub": f"mailto:bench{self._made}@example.com",
        }
        text = header + b"." + base64url(orjson.dumps(claims))
        r, s = decode_dss_signature(self._private.sign(text, ES256))
        return text + b"." + base64url(r.to_bytes(32, "big") + s.to_bytes(32, "big"))
