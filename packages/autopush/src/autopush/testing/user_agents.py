"""User agents inside the test service: each has a UAID, one subscription and its keys.

They speak the protocol over a WebSocket of their own, so that what a sender sends takes the way to
a browser, and a socket can be dropped.
"""

import asyncio
import json
import os
import ssl
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ec import ECDH, SECP256R1, generate_private_key
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from autopush.net.frames import CLOSE, PING, PONG, TEXT
from autopush.webpush.public_keys import load_key
from autopush.webpush.syntax import decode_base64url, encode_base64url, parse_parameters

REPLY_TIMEOUT: Final = 10.0
"""Seconds until the service has answered a message of a user agent."""
DELIVERED: Final = 100
UNREADABLE: Final = 101
"""Codes of an ack, as Firefox sends them."""

_P256: Final = SECP256R1()
_WEBSOCKET_KEY: Final = "dGhlIHNhbXBsZSBub25jZQ=="
"""That of RFC 6455, section 1.3: no cache stands between."""
_HEADER: Final = 21
"""Bytes of an aes128gcm header before the sender's key: salt, record size, length of the key."""
_POINT: Final = 65
_TAG: Final = 16


class UnreadableBody(Exception):  # noqa: N818 - what it is, for the reader of a failed test
    """A body that a browser drops; the text says what is wrong with it."""


class UserAgentKeys:
    """The keys of a subscription: `p256dh` and `auth`, in base64url."""

    def __init__(self) -> None:
        self._private = generate_private_key(_P256)
        self._auth = os.urandom(16)
        self._point = self._private.public_key().public_bytes(
            Encoding.X962, PublicFormat.UncompressedPoint
        )
        self.p256dh, self.auth = encode_base64url(self._point), encode_base64url(self._auth)

    def decrypt(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        """The text of a body. `headers`: those of the push, with lower-case names.

        :raises UnreadableBody: a browser could not read it
        """
        match headers.get("content-encoding", "").strip().lower():
            case "aes128gcm":
                return self._decrypt_aes128gcm(body)
            case "aesgcm":
                return self._decrypt_aesgcm(body, headers)
        raise UnreadableBody("the body is not encrypted: Content-Encoding must be aes128gcm")

    def _decrypt_aes128gcm(self, body: bytes) -> bytes:
        """RFC 8188, section 2, and RFC 8291, section 3.4."""
        if len(body) < _HEADER:
            raise UnreadableBody(
                f"the body has {len(body)} bytes, but aes128gcm begins with a salt (16), the "
                "record size (4) and the length of the sender's key (1)"
            )
        salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
        if length != _POINT:
            raise UnreadableBody(
                f"the aes128gcm header has a key of {length} bytes, expected the public key of the "
                "sender in 65 (uncompressed P-256)"
            )
        point, record = body[_HEADER : _HEADER + _POINT], body[_HEADER + _POINT :]
        if size < _TAG + 2:
            raise UnreadableBody(f"the aes128gcm record size is {size}, expected at least 18")
        if len(record) > size:
            raise UnreadableBody(
                f"the aes128gcm record size is {size}, but {len(record)} bytes follow: a push is "
                "one record (RFC 8291, section 4)"
            )
        secret = _derive(
            self._exchange(point), self._auth, b"WebPush: info\0" + self._point + point
        )
        key = _derive(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _derive(secret, salt, b"Content-Encoding: nonce\0", 12)
        padded = _open(key, nonce, record).rstrip(b"\0")
        if not padded:
            raise UnreadableBody("bad padding: only zeros, expected 02 after the text")
        if padded[-1] != 2:
            hint = ", which says that another record follows" if padded[-1] == 1 else ""
            raise UnreadableBody(
                f"bad padding: the text ends with {padded[-1]:02x}{hint}; expected the delimiter "
                "02 (RFC 8188, section 2)"
            )
        return padded[:-1]

    def _decrypt_aesgcm(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        """The draft before RFC 8291, draft-ietf-webpush-encryption-04."""
        try:
            salt = decode_base64url(parse_parameters(headers.get("encryption", ""))["salt"])
            point = decode_base64url(parse_parameters(headers.get("crypto-key", ""))["dh"])
        except (KeyError, ValueError):
            raise UnreadableBody(
                "aesgcm needs salt= in Encryption and dh= in Crypto-Key, in base64url"
            ) from None
        pair = b"".join(len(each).to_bytes(2, "big") + each for each in (self._point, point))
        context = b"P-256\0" + pair
        secret = _derive(self._exchange(point), self._auth, b"Content-Encoding: auth\0")
        key = _derive(secret, salt, b"Content-Encoding: aesgcm\0" + context, 16)
        nonce = _derive(secret, salt, b"Content-Encoding: nonce\0" + context, 12)
        padded = _open(key, nonce, body)
        padding = int.from_bytes(padded[:2], "big")
        if len(padded) < 2 + padding or any(padded[2 : 2 + padding]):
            raise UnreadableBody("bad padding: expected its length in two bytes, then zeros")
        return padded[2 + padding :]

    def _exchange(self, point: bytes) -> bytes:
        try:
            return self._private.exchange(ECDH(), load_key(point))
        except ValueError:
            raise UnreadableBody("the sender's public key is no point of P-256") from None


def _derive(secret: bytes, salt: bytes, info: bytes, length: int = 32) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(secret)


def _open(key: bytes, nonce: bytes, record: bytes) -> bytes:
    try:
        return AESGCM(key).decrypt(nonce, record, None)
    except (InvalidTag, ValueError):
        raise UnreadableBody(
            "the body cannot be decrypted with the keys of this subscription: it was encrypted for "
            "other p256dh or auth, or not as RFC 8291 says"
        ) from None


Delivered = tuple[Mapping[str, Any], "bytes | UnreadableBody | None"]
"""A notification of the protocol and its text: None for an empty push."""


class SimulatedUserAgent:
    """`url`: where it connects. `tls`: whom it trusts, for wss."""

    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        self._url, self._tls = urlsplit(url), tls
        self.keys = UserAgentKeys()
        self.uaid = self.channel_id = self.endpoint = ""
        self._messages: asyncio.Queue[Delivered] = asyncio.Queue()
        self._replies: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        return self._writer is not None

    async def connect(self) -> None:
        """As the user it was, if it has a UAID."""
        assert self._writer is None
        reader, self._writer = await asyncio.open_connection(
            self._url.hostname, self._url.port, ssl=self._tls
        )
        self._writer.write(
            f"GET {self._url.path} HTTP/1.1\r\nHost: {self._url.netloc}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {_WEBSOCKET_KEY}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REPLY_TIMEOUT)
        assert head.startswith(b"HTTP/1.1 101 "), head
        self._reading = asyncio.create_task(self._read(reader))
        hello = await self._ask(messageType="hello", use_webpush=True, uaid=self.uaid)
        self.uaid = hello["uaid"]

    async def subscribe(self, vapid_key: str | None) -> dict[str, Any]:
        """The reply to its registration, whose `status` is 200 if it has an `endpoint` now."""
        self.channel_id = str(uuid.uuid4())
        reply = await self._ask(messageType="register", channelID=self.channel_id, key=vapid_key)
        self.endpoint = reply.get("pushEndpoint", "")
        return reply

    async def unsubscribe(self) -> None:
        await self._ask(messageType="unregister", channelID=self.channel_id, code=200)

    async def next_message(self, seconds: float) -> Delivered:
        """:raises TimeoutError: there is none in that time"""
        if not self._messages.empty():
            return self._messages.get_nowait()
        return await asyncio.wait_for(self._messages.get(), seconds)

    async def disconnect(self) -> None:
        """Without a close frame, as when a network is lost."""
        if self._writer is not None:
            self._writer.transport.abort()
        if self._reading is not None:
            await self._reading

    # ── frames (RFC 6455, section 5) ─────────────────────────────────────────────────────────────

    async def _ask(self, **message: object) -> dict[str, Any]:
        self._send(TEXT, json.dumps(message).encode())
        return await asyncio.wait_for(self._replies.get(), REPLY_TIMEOUT)

    def _send(self, opcode: int, payload: bytes) -> None:
        """Masked by zeros, which leaves the payload as it is."""
        assert self._writer is not None
        length = len(payload)
        size = bytes((0x80 | length,)) if length < 126 else b"\xfe" + length.to_bytes(2, "big")
        self._writer.write(bytes((0x80 | opcode,)) + size + bytes(4) + payload)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                first, length = await reader.readexactly(2)
                if length > 125:
                    length = int.from_bytes(
                        await reader.readexactly(2 if length == 126 else 8), "big"
                    )
                payload = await reader.readexactly(length)
                match first & 15:
                    case opcode if opcode == PING:
                        self._send(PONG, payload)
                    case opcode if opcode == CLOSE:
                        break
                    case _:
                        self._handle(json.loads(payload))
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _handle(self, message: dict[str, Any]) -> None:
        if message.get("messageType") != "notification":
            self._replies.put_nowait(message)
            return
        text = self._decrypted(message)
        code = UNREADABLE if isinstance(text, UnreadableBody) else DELIVERED
        update = {"channelID": message["channelID"], "version": message["version"], "code": code}
        self._send(TEXT, json.dumps({"messageType": "ack", "updates": [update]}).encode())
        self._messages.put_nowait((message, text))

    def _decrypted(self, message: Mapping[str, Any]) -> "bytes | UnreadableBody | None":
        if not message.get("data"):
            return None
        given = message.get("headers", {})
        headers = {
            "content-encoding": given.get("encoding", ""),
            "encryption": given.get("encryption", ""),
            "crypto-key": given.get("crypto_key", ""),
        }
        try:
            return self.keys.decrypt(decode_base64url(message["data"]), headers)
        except UnreadableBody as error:
            return error
