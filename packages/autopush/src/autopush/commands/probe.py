"""One HTTP request with a time limit, which may be an upgrade to a WebSocket.

The library for HTTP is an extra that not every installation has; what is needed here is less than
it offers, and the answer to an upgrade more.
"""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from autopush.settings.value_types import url_host

TIMEOUT: Final = 4.0
"""Seconds for the whole request."""
MAX_ANSWER: Final = 65_536
UNANSWERED: Final = "the connection was closed without an answer"

CLOSE: Final = b"\x88\x80\0\0\0\0"
"""A close frame without status, masked with zeros as clients must mask (RFC 6455 section 5.5.1)."""


class ProbeFailed(Exception):  # noqa: N818 - named for what happened
    """There was no answer; the text says why."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused
        """Nothing listens there."""


@dataclass(slots=True)
class ProbeAnswer:
    """A response: headers by lower-case name. `expires`: when the server's certificate ends (epoch
    seconds), None without TLS or where it was not checked.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    expires: float | None = None


async def fetch(
    url: str, headers: Mapping[str, str] | None = None, *, verify: bool = True
) -> ProbeAnswer:
    """GET this URL (http, https, ws or wss). `verify`: check the server's certificate.

    Raises:
        ProbeFailed: no answer within `TIMEOUT`, or none that is HTTP.
    """
    try:
        async with asyncio.timeout(TIMEOUT):
            return await _fetch(url, headers or {}, verify=verify)
    except TimeoutError:
        raise ProbeFailed(f"no answer within {TIMEOUT:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise ProbeFailed(f"its certificate is refused: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise ProbeFailed(f"no TLS there: {error.reason}") from None
    except ConnectionRefusedError:
        raise ProbeFailed("nothing listens there", refused=True) from None
    except ConnectionResetError:
        raise ProbeFailed(UNANSWERED) from None
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ProbeFailed(reason or "no host has that name") from None


async def _fetch(url: str, headers: Mapping[str, str], *, verify: bool) -> ProbeAnswer:
    parts = urlsplit(url)
    host = parts.hostname or ""
    is_tls = parts.scheme in ("https", "wss")
    reader, writer = await asyncio.open_connection(
        host, parts.port or (443 if is_tls else 80), ssl=_context(verify) if is_tls else None
    )
    try:
        address = url_host(host) + (f":{parts.port}" if parts.port else "")
        lines = {"Host": address, "Accept": "application/json", "Connection": "close", **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"GET {parts.path or '/'} HTTP/1.1\r\n{head}\r\n".encode("ascii"))
        answer = await _read(reader)
        if answer.status == 101:
            writer.write(CLOSE)
        if is_tls and verify:
            ends = writer.get_extra_info("peercert").get("notAfter", "")
            answer.expires = ssl.cert_time_to_seconds(ends)
        return answer
    finally:
        writer.transport.abort()  # a server need not answer to the end of TLS


def _context(verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def _read(reader: asyncio.StreamReader) -> ProbeAnswer:
    collected = _AnswerParser()
    parser = HttpResponseParser(collected)
    received = 0
    while not collected.complete and received < MAX_ANSWER:
        data = await reader.read(16_384)
        if not data:
            break
        received += len(data)
        try:
            parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            if not collected.complete:  # else: what follows a 101
                raise ProbeFailed("what answers there is not HTTP") from None
    collected.answer.status = parser.get_status_code() if received else 0
    if not collected.answer.status:
        raise ProbeFailed(UNANSWERED)
    return collected.answer


class _AnswerParser:
    """Collects what httptools calls it with."""

    def __init__(self) -> None:
        self.answer = ProbeAnswer()
        self.complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.answer.body += body

    def on_message_complete(self) -> None:
        self.complete = True
