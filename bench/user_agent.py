"""One user agent of the load: hello, register, notifications checked and acked.

It behaves as Firefox does, one ack for each notification, and it checks every byte that should
arrive unchanged.
"""

import asyncio
import uuid
from collections.abc import Callable

import orjson

from bench.ledger import Ledger, MismatchError
from bench.push_client import base64url
from bench.websocket_client import TEXT, WebSocketClient, frame, upgrade_request

_VERSION, _DATA, _CHANNEL = b'"version":"', b'"data":"', b'"channelID":"'


_REQUEST = upgrade_request("Sec-WebSocket-Protocol: push-notification")


class Identity:
    """What a user agent keeps while it is away, and the body of every push to it."""

    __slots__ = ("body", "channel", "endpoint", "expected", "uaid")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.expected = base64url(body)  # as a notification carries it
        self.channel = str(uuid.uuid4())
        self.uaid = ""
        self.endpoint = ""


class UserAgent(WebSocketClient):
    """A connected user agent. `acking` may be turned off: messages then count as delivered and
    stay unacked. `lost`: called if the server ends the connection, which is a mismatch without it.
    """

    __slots__ = (
        "_ack_head",
        "_channel",
        "_first",
        "_reply",
        "acking",
        "identity",
        "ledger",
        "lost",
    )

    def __init__(self, identity: Identity, ledger: Ledger) -> None:
        super().__init__(_REQUEST)
        self.identity = identity
        self.ledger = ledger
        self.acking = True
        self.lost: Callable[[UserAgent], None] | None = None
        self._first = b""
        self._channel = identity.channel.encode()
        self._ack_head = b"".join(
            (b'{"messageType":"ack","updates":[{"channelID":"', self._channel, b'","version":"')
        )
        self._reply: asyncio.Future[dict[str, object]] | None = None

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
            raise MismatchError(
                f"a known user agent was given another uaid ({known} became {uaid})"
            )
        self.identity.uaid = uaid

    async def register(self, key: str | None, limit: float = 30.0) -> bool:
        """Register the identity's channel for the application server with this public key; False if
        the server is too busy.
        """
        message: dict[str, object] = {"messageType": "register", "channelID": self.identity.channel}
        if key is not None:
            message["key"] = key
        reply = await self._ask(message, limit)
        status, endpoint = reply.get("status"), reply.get("pushEndpoint")
        if status == 503:
            return False
        if status != 200 or not isinstance(endpoint, str):
            raise MismatchError(f"register was answered {reply}")
        self.identity.endpoint = endpoint
        return True

    async def leave(self, limit: float = 30.0) -> None:
        """Close and wait until the server has ended the connection."""
        self.close()
        await asyncio.wait_for(self.gone, limit)

    async def _ask(self, message: dict[str, object], limit: float) -> dict[str, object]:
        self._reply = asyncio.get_running_loop().create_future()
        if self.is_open:
            self.transport.write(frame(TEXT, orjson.dumps(message)))
        else:
            self._first = orjson.dumps(message)  # goes out as soon as the handshake is answered
        try:
            return await asyncio.wait_for(self._reply, limit)
        except TimeoutError:
            raise MismatchError(
                f"no reply to {message['messageType']} within {limit:g} s"
            ) from None
        finally:
            self._reply = None

    def opened(self) -> None:
        if self._first:
            self.transport.write(frame(TEXT, self._first))

    def text_received(self, payload: bytes) -> None:
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
            self.transport.write(
                frame(TEXT, b"".join((self._ack_head, version, b'","code":100}]}')))
            )

    def _answered(self, payload: bytes) -> None:
        message = orjson.loads(payload)
        kind = message.get("messageType")
        if kind == "notification" and isinstance(message.get("version"), str):
            self.text_received(orjson.dumps(message))  # it was written with spaces
        elif kind not in ("hello", "register"):
            self.ledger.fail(f"an unexpected message: {payload[:200]!r}")
        elif self._reply is not None and not self._reply.done():
            self._reply.set_result(message)
        else:
            self.ledger.fail(f"an unexpected reply: {payload[:200]!r}")

    def ended(self, reason: str) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(ConnectionResetError(reason))
        elif self.lost is not None:
            self.lost(self)
        else:
            self.ledger.fail(f"the server ended a user agent's connection: {reason}")
