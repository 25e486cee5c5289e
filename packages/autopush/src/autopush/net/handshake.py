"""The opening handshake of RFC 6455 on the server's side, without I/O.

Rule: whatever a client sends, the answer is 101 or a 4xx that says what is missing. Compression and
other extensions are never negotiated.
"""

import binascii
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Final

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
_VERSION: Final = "13"

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HandshakeAccepted:
    """Answer 101 with these headers; then both sides send frames."""

    headers: Headers


@dataclass(frozen=True, slots=True)
class HandshakeRefused:
    """Answer `status` with these headers; `reason` is a sentence that says what was expected."""

    status: int
    headers: Headers
    reason: str


_UPGRADE_REQUIRED: Final[Headers] = (("Upgrade", "websocket"), ("Connection", "Upgrade"))


def accept(
    method: str,
    http_version: str,
    headers: Mapping[str, str],
    *,
    subprotocols: Sequence[str] = (),
) -> HandshakeAccepted | HandshakeRefused:
    """Check an upgrade request (RFC 6455, 4.2).

    `http_version` is like "1.1"; the names of `headers` are in lower case, and lines of the same
    name are joined with commas. Of `subprotocols`, the first that the client offers is selected;
    a client that offers none of them is accepted without one.

    The status of a refusal is 426 where the client must ask differently (no upgrade to websocket,
    another version of the protocol), else 400.
    """
    if method != "GET":
        return HandshakeRefused(400, (), "A WebSocket is opened with GET.")
    if http_version != "1.1":
        return HandshakeRefused(400, (), "A WebSocket is opened over HTTP/1.1.")
    if "websocket" not in _tokens(headers.get("upgrade", "").lower()):
        return HandshakeRefused(
            426, _UPGRADE_REQUIRED, "The Upgrade header must name websocket, the service here."
        )
    if "upgrade" not in _tokens(headers.get("connection", "").lower()):
        return HandshakeRefused(426, _UPGRADE_REQUIRED, "The Connection header must name Upgrade.")
    if headers.get("sec-websocket-version", "").strip() != _VERSION:
        return HandshakeRefused(
            426,
            (("Sec-WebSocket-Version", _VERSION), *_UPGRADE_REQUIRED),
            f"Sec-WebSocket-Version must be {_VERSION}.",
        )
    key = headers.get("sec-websocket-key", "").strip()
    if not _is_key(key):
        return HandshakeRefused(400, (), "Sec-WebSocket-Key must be 16 bytes in base64.")
    response = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", accept_key(key)),
    ]
    if subprotocols:
        offered = _tokens(headers.get("sec-websocket-protocol", ""))
        for name in subprotocols:
            if name in offered:
                response.append(("Sec-WebSocket-Protocol", name))
                break
    return HandshakeAccepted(tuple(response))


def accept_key(key: str) -> str:
    """The Sec-WebSocket-Accept for a client's Sec-WebSocket-Key (4.2.2)."""
    digest = sha1(key.encode("ascii") + _GUID, usedforsecurity=False).digest()
    return b64encode(digest).decode("ascii")


def _is_key(key: str) -> bool:
    try:
        return len(key) == 24 and len(binascii.a2b_base64(key, strict_mode=True)) == 16
    except ValueError:  # binascii.Error is one; so is a character beyond ASCII
        return False


def _tokens(value: str) -> list[str]:
    return [part.strip(" \t") for part in value.split(",")]
