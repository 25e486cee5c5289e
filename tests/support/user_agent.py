"""A user agent for tests: the protocol over an independent WebSocket library."""

import asyncio
import contextlib
import json
import ssl
import uuid
from collections.abc import Iterable
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.http11 import USER_AGENT
from websockets.typing import Subprotocol

TIMEOUT = 60.0
"""Seconds a test waits for what must come."""
CLOSE_TIMEOUT = 60.0
"""Seconds until a service has closed a connection, which a worker that ends is given time for."""
SILENCE = 0.4
"""Seconds without a notification after which a test concludes that none is sent."""

Message = dict[str, Any]


class UserAgent:
    """One connection. Notifications are kept apart from replies, as they may come at any time."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.uaid = ""
        self.received: list[Message] = []
        """Every message received, in order."""
        self.replies: asyncio.Queue[Message] = asyncio.Queue()
        self.notifications: asyncio.Queue[Message] = asyncio.Queue()
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def connect(
        cls,
        url: str,
        user_agent: str | None = USER_AGENT,
        tls: ssl.SSLContext | None = None,
    ) -> Self:
        """`user_agent`: the header of that name; `tls`: whom to trust, for a wss URL."""
        socket = await connect(
            url,
            subprotocols=[Subprotocol("push-notification")],
            user_agent_header=user_agent,
            ping_interval=None,
            proxy=None,
            ssl=tls,
        )
        return cls(socket)

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for frame in self.socket:
                message = json.loads(frame)
                self.received.append(message)
                kind = message.get("messageType")
                (self.notifications if kind == "notification" else self.replies).put_nowait(message)

    async def send(self, **members: object) -> None:
        await self.socket.send(json.dumps(members))

    async def reply(self) -> Message:
        return await asyncio.wait_for(self.replies.get(), TIMEOUT)

    async def hello(self, uaid: str | None = None, **members: object) -> Message:
        await self.send(messageType="hello", use_webpush=True, uaid=uaid or "", **members)
        reply = await self.reply()
        self.uaid = reply["uaid"]
        return reply

    async def register(self, channel: str | None = None, key: str | None = None) -> tuple[str, str]:
        """Returns channel id and endpoint."""
        channel = channel or str(uuid.uuid4())
        await self.send(messageType="register", channelID=channel, key=key)
        reply = await self.reply()
        assert (reply["status"], reply["channelID"]) == (200, channel), reply
        return channel, reply["pushEndpoint"]

    async def unregister(self, channel: str) -> Message:
        await self.send(messageType="unregister", channelID=channel, code=200)
        return await self.reply()

    async def notification(self) -> Message:
        return await asyncio.wait_for(self.notifications.get(), TIMEOUT)

    async def receive(self, count: int, *, ack: bool = False) -> list[Message]:
        got = []
        for _ in range(count):
            got.append(await self.notification())
            if ack:
                await self.ack(got[-1:])
        return got

    async def silence(self) -> None:
        """Nothing comes. (Only time can show that; everything else here waits for events.)"""
        try:
            surprise = await asyncio.wait_for(self.notifications.get(), SILENCE)
        except TimeoutError:
            return
        raise AssertionError(f"unexpected: {surprise}")

    async def ack(self, messages: Iterable[Message], code: int = 100) -> None:
        updates = [
            {"channelID": m["channelID"], "version": m["version"], "code": code} for m in messages
        ]
        await self.send(messageType="ack", updates=updates)

    async def closed(self) -> int | None:
        """Wait for the end of the connection; returns the close code."""
        await asyncio.wait_for(self.socket.wait_closed(), CLOSE_TIMEOUT)
        await self._reader
        return self.socket.close_code

    async def close(self) -> None:
        await self.socket.close()
        await self._reader

    async def drop_connection(self) -> None:
        """End the connection without a close frame."""
        self.socket.transport.abort()
        await self.socket.wait_closed()


class SimplePushAgent(UserAgent):
    """One connection. A notification has a list of updates."""

    async def hello(self, uaid: str | None = None, **members: object) -> Message:
        await self.send(messageType="hello", uaid=uaid or "", channelIDs=[], **members)
        reply = await self.reply()
        self.uaid = reply.get("uaid", "")
        return reply

    async def updates(self) -> list[Message]:
        """The updates of the next notification."""
        notification = await self.notification()
        assert notification.keys() == {"messageType", "updates"}
        updates = notification["updates"]
        assert isinstance(updates, list)
        return updates

    async def update(self) -> Message:
        """The only update of the next notification."""
        [update] = await self.updates()
        assert isinstance(update, dict)
        return update
