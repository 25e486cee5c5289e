"""One user agent of the load: hello, register, notifications checked and acked.

It behaves as Firefox does, one ack for each notification, and it checks every byte that should
arrive unchanged. What a notification has to be is prepared once, so that a measure sees the server
and not the load.
"""

import asyncio
import uuid
from collections.abc import Callable
from typing import cast

import orjson
from picows import WSCloseCode, WSError, WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from bench.ledger import Ledger, MismatchError
from bench.push_client import base64url

_VERSION, _DATA, _CHANNEL = b'"version":"', b'"data":"', b'"channelID":"'
_BUFFER = 4096
"""Bytes that a connection reads into; a part of a crowd has thousands of them."""


class Identity:
    """What a user agent keeps while it is away, and the body of every push to it."""

    __slots__ = ("body", "channel", "endpoint", "expected", "uaid")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.expected = base64url(body)  # as a notification carries it
        self.channel = str(uuid.uuid4())
        self.uaid = ""
        self.endpoint = ""


class UserAgent(WSListener):
    """A connected user agent. `acking` may be turned off: messages then count as delivered and
    stay unacked. `lost`: called if the server ends the connection, which is a mismatch without it.
    """

    def __init__(self, identity: Identity, ledger: Ledger) -> None:
        self.identity = identity
        self.ledger = ledger
        self.acking = True
        self.closing = False
        self.lost: Callable[[UserAgent], None] | None = None
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport = cast(WSTransport, None)
        self._channel = identity.channel.encode()
        self._ack_head = b"".join(
            (b'{"messageType":"ack","updates":[{"channelID":"', self._channel, b'","version":"')
        )
        self._reply: asyncio.Future[dict[str, object]] | None = None
        self._pong: asyncio.Future[None] | None = None

    async def connect(self, host: str, port: int, source: str, limit: float) -> None:
        """From the address `source`. Raises `OSError` if the server does not take it."""
        try:
            await ws_connect(
                lambda: self,
                f"ws://{host}:{port}/",
                websocket_handshake_timeout=limit,
                read_buffer_init_size=_BUFFER,
                extra_headers={"Sec-WebSocket-Protocol": "push-notification"},
                local_addr=(source, 0),
            )
        except WSError as refused:
            raise ConnectionResetError(str(refused)) from None

    async def hello(self, limit: float = 30.0) -> None:
        """Say who this is and wait for the reply; a known identity must be recognised."""
        known = self.identity.uaid
        reply = await self._ask(
            {"messageType": "hello", "use_webpush": True, "broadcasts": {}}
            | ({"uaid": known} if known else {}),
            limit,
        )
        uaid = reply.get("uaid")
        if reply.get("status") != 200 or not isinstance(uaid, str) or len(uaid) != 32:
            raise MismatchError(f"hello was answered {reply}")
        if known and uaid != known:
            raise MismatchError(f"a known user agent was given another uaid ({known}: {uaid})")
        self.identity.uaid = uaid

    async def register(self, key: str, limit: float = 30.0) -> bool:
        """Register the identity's channel for the application server with this public key; False if
        the server is too busy.
        """
        channel = self.identity.channel
        reply = await self._ask(
            {"messageType": "register", "channelID": channel, "key": key}, limit
        )
        status, endpoint = reply.get("status"), reply.get("pushEndpoint")
        if status == 503:
            return False
        if status != 200 or not isinstance(endpoint, str):
            raise MismatchError(f"register was answered {reply}")
        self.identity.endpoint = endpoint
        return True

    async def leave(self, limit: float = 30.0) -> None:
        """Close and wait until the server has ended the connection."""
        self.closing = True
        self.transport.send_close(WSCloseCode.OK)
        await asyncio.wait_for(self.gone, limit)

    async def barrier(self) -> None:
        """Wait until the server has handled everything sent so far: a ping and its pong."""
        self._pong = asyncio.get_running_loop().create_future()
        self.transport.send_ping()
        await self._pong

    async def _ask(self, message: dict[str, object], limit: float) -> dict[str, object]:
        self._reply = asyncio.get_running_loop().create_future()
        self.transport.send(WSMsgType.TEXT, orjson.dumps(message))
        try:
            return await asyncio.wait_for(self._reply, limit)
        except TimeoutError:
            raise MismatchError(
                f"no reply to {message['messageType']} within {limit:g} s"
            ) from None
        finally:
            self._reply = None

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT:
            self._received(frame.get_payload_as_bytes())
        elif frame.msg_type == WSMsgType.PONG:
            if self._pong is not None and not self._pong.done():
                self._pong.set_result(None)
        elif frame.msg_type == WSMsgType.CLOSE:
            if not self.closing:
                transport.send_close(frame.get_close_code())
            transport.disconnect()
        else:
            self.ledger.fail(f"a frame of type {frame.msg_type}")

    def _received(self, payload: bytes) -> None:
        at = payload.find(_VERSION)
        if at < 0:
            self._answered(payload)
            return
        at += len(_VERSION)
        version = payload[at : payload.find(b'"', at)]
        expected = self.identity.expected
        data = payload.find(_DATA) + len(_DATA)
        channel = payload.find(_CHANNEL) + len(_CHANNEL)
        end = data + len(expected)
        if payload[data:end] != expected or payload[end : end + 1] != b'"':
            self.ledger.fail(f"a notification came with other data: {payload[:200]!r}")
        if payload[channel : channel + 36] != self._channel:
            self.ledger.fail(f"a notification came for another channel: {payload[:200]!r}")
        self.ledger.deliver(version)
        if self.acking:
            ack = b"".join((self._ack_head, version, b'","code":100}]}'))
            self.transport.send(WSMsgType.TEXT, ack)

    def _answered(self, payload: bytes) -> None:
        message = orjson.loads(payload)
        is_reply = message.get("messageType") in ("hello", "register")
        if is_reply and self._reply is not None and not self._reply.done():
            self._reply.set_result(message)
        else:
            self.ledger.fail(f"an unexpected message: {payload[:200]!r}")

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        if self._pong is not None and not self._pong.done():
            self._pong.set_exception(MismatchError("the connection ended before the pong"))
            self._pong.exception()
        if self.closing:
            return
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(ConnectionResetError("before the reply"))
        elif self.lost is not None:
            self.lost(self)
        else:
            self.ledger.fail("the server ended a user agent's connection")
