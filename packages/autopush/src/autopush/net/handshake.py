"""The opening handshake of RFC 6455 as a server judges it: request head in, answer out.

The rule it keeps: whatever a client sends, the answer is 101 or a 4xx that says what is missing.
Compression and other extensions are never agreed to.
"""

import binascii
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Final

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
_VERSION: Final = "13"

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    """Answer 101 with these headers; from then on both sides speak frames."""

    headers: Headers


@dataclass(frozen=True, slots=True)
class Refused:
    """Answer `status` with these headers; `reason` says in words what was expected."""

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
) -> Accepted | Refused:
    """Judge an upgrade request (RFC 6455, 4.2).

    `http_version` is like "1.1"; the names of `headers` are in lower case, and lines of the same
    name are joined with commas. Of `subprotocols`, the first that the client offers is agreed to;
    a client that offers none of them is accepted without.

    Refusals are 426 where the client must ask differently (no upgrade to websocket, another
    version of the protocol), else 400.
    """
    if method != "GET":
        return Refused(400, (), "A WebSocket is opened with GET.")
    if http_version != "1.1":
        return Refused(400, (), "A WebSocket is opened over HTTP/1.1.")
    if not _has_token(headers, "upgrade", "websocket"):
        return Refused(
            426, _UPGRADE_REQUIRED, "The Upgrade header must name websocket, the service here."
        )
    if not _has_token(headers, "connection", "upgrade"):
        return Refused(426, _UPGRADE_REQUIRED, "The Connection header must name Upgrade.")
    if headers.get("sec-websocket-version", "").strip() != _VERSION:
        return Refused(
            426,
            (("Sec-WebSocket-Version", _VERSION), *_UPGRADE_REQUIRED),
            f"Sec-WebSocket-Version must be {_VERSION}.",
        )
    key = headers.get("sec-websocket-key", "").strip()
    if not _is_key(key):
        return Refused(400, (), "Sec-WebSocket-Key must be 16 bytes in base64.")
    answer = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", accept_key(key)),
    ]
    offered = _split(headers.get("sec-websocket-protocol", ""))
    chosen = next((name for name in subprotocols if name in offered), None)
    if chosen is not None:
        answer.append(("Sec-WebSocket-Protocol", chosen))
    return Accepted(tuple(answer))


def accept_key(key: str) -> str:
    """The value of Sec-WebSocket-Accept that answers a client's Sec-WebSocket-Key (4.2.2)."""
    digest = sha1(key.encode("ascii") + _GUID, usedforsecurity=False).digest()
    return b64encode(digest).decode("ascii")


def _is_key(key: str) -> bool:
    try:
        return len(key) == 24 and len(binascii.a2b_base64(key, strict_mode=True)) == 16
    except ValueError:  # binascii.Error is one; so is a character beyond ASCII
        return False


def _has_token(headers: Mapping[str, str], name: str, token: str) -> bool:
    return token in (value.lower() for value in _split(headers.get(name, "")))


def _split(value: str) -> Iterable[str]:
    return [part.strip(" \t") for part in value.split(",")]
