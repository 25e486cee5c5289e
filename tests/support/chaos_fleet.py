"""Many user agents that behave as Firefox does, and application servers that push to all of them.

A user agent reconnects by itself, to any node, with growing delays; it detects a dead connection by
pings of its own. An application server repeats what was not answered.
"""

import asyncio
import contextlib
import itertools
import json
import random
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import aiohttp
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.typing import Subprotocol

from support.ack_ledger import AgentConnection
from support.chaos_ledger import ChaosLedger

PING = 15.0
"""Seconds between WebSocket pings, and how long one may take: many stay with a node that is stopped
or cut off for a while.
"""
APP_PING = 60.0
"""Seconds between pings of the push protocol, which may not come more often than each 55."""
CONNECT = 5.0
"""Seconds to connect, and for the handshake."""
REPLY = 10.0
"""Seconds for a reply, as in Firefox."""
LONGEST_PAUSE = 3.0
TRIES = 5
"""How often an application server sends one message."""
HEADERS = {"TTL": "3600", "Content-Encoding": "aes128gcm"}
SUBSCRIBE_AT_ONCE = 40
GONE = (OSError, WebSocketException, TimeoutError)


class UserAgent:
    """One user agent with one subscription, on one connection after the other."""

    def __init__(self, urls: Sequence[str], ledger: ChaosLedger) -> None:
        self.uaid = ""
        self.path = ""
        """Of its endpoint."""
        self.socket: ClientConnection | None = None
        self.url = ""
        """Where it is connected, or tried to be."""
        self.pinged = 0.0
        self._urls = urls
        self._ledger = ledger
        self._channel = str(uuid.uuid4())
        self._connection = AgentConnection()

    async def run(self, subscribed: "asyncio.Future[None]") -> None:
        """Be connected for ever."""
        pause = 0.0
        while True:
            with contextlib.suppress(*GONE):
                async with self._connected() as socket:
                    await self._hello(socket)
                    pause = 0.0
                    if not subscribed.done():
                        subscribed.set_result(None)
                    async for frame in socket:
                        await self._receive(socket, json.loads(frame))
            self.socket = None
            await asyncio.sleep(random.uniform(0.5, 1) * pause)
            pause = min(LONGEST_PAUSE, 2 * pause or 0.2)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[ClientConnection]:
        self.url = random.choice(self._urls)
        self._connection = AgentConnection()
        async with connect(
            self.url,
            subprotocols=[Subprotocol("push-notification")],
            compression=None,
            proxy=None,
            open_timeout=CONNECT,
            ping_interval=PING,
            ping_timeout=PING,
            close_timeout=0.5,
        ) as socket:
            yield socket

    async def _hello(self, socket: ClientConnection) -> None:
        async with asyncio.timeout(REPLY):
            hello = {"messageType": "hello", "use_webpush": True, "uaid": self.uaid}
            reply = await self._request(socket, hello)
            if self.path and reply["uaid"] != self.uaid:
                self._ledger.forgotten.append(self.uaid)
                self.path = ""
            if not self.path:
                self.uaid = reply["uaid"]
                register = {"messageType": "register", "channelID": self._channel}
                self.path = urlsplit((await self._request(socket, register))["pushEndpoint"]).path
        self.socket = socket
        self.pinged = time.monotonic()
        self._ledger.connects.append(self.pinged)

    async def _request(
        self, socket: ClientConnection, request: Mapping[str, object]
    ) -> dict[str, str]:
        await socket.send(json.dumps(request))
        while True:
            message = json.loads(await socket.recv())
            if message.get("messageType") == request["messageType"]:
                if message.get("status") != 200:
                    raise TimeoutError  # it reconnects and tries again
                assert isinstance(message, dict)
                return message
            await self._receive(socket, message)

    async def _receive(self, socket: ClientConnection, message: dict[str, str]) -> None:
        if message.get("messageType") != "notification":
            return
        self._ledger.deliver(message["version"], self._connection)
        version = message["version"]
        update = {"channelID": message["channelID"], "version": version, "code": 100}
        await socket.send(json.dumps({"messageType": "ack", "updates": [update]}))
        confirm = partial(self._confirm, version, self._connection)
        asyncio.ensure_future(await socket.ping()).add_done_callback(confirm)

    def _confirm(
        self, version: str, connection: AgentConnection, pong: "asyncio.Future[float]"
    ) -> None:
        if not pong.cancelled() and pong.exception() is None:
            self._ledger.acks.confirm([version], connection)

    def drop_connection(self) -> None:
        """Drop the connection without a close frame."""
        if self.socket is not None:
            self.socket.transport.abort()


class Fleet:
    """The user agents and the application servers. To be entered once."""

    def __init__(
        self, count: int, websocket_urls: Sequence[str], endpoint_urls: Sequence[str]
    ) -> None:
        self.ledger = ChaosLedger()
        self.agents = [UserAgent(websocket_urls, self.ledger) for _ in range(count)]
        self._endpoints = endpoint_urls
        self._numbers = itertools.count()

    @property
    def connected(self) -> int:
        return sum(agent.socket is not None for agent in self.agents)

    async def all_connected(self, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while self.connected < len(self.agents):  # noqa: ASYNC110 - connections end meanwhile
                await asyncio.sleep(0.1)

    def reconnect(self) -> None:
        """Drop all connections; the user agents reconnect by themselves."""
        for agent in self.agents:
            agent.drop_connection()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """User agents come and go by themselves meanwhile; all are subscribed at the beginning."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._ping())]
        try:
            for start in range(0, len(self.agents), SUBSCRIBE_AT_ONCE):
                ready: list[asyncio.Future[None]] = []
                for agent in self.agents[start : start + SUBSCRIBE_AT_ONCE]:
                    ready.append(loop.create_future())
                    tasks.append(loop.create_task(agent.run(ready[-1])))
                await asyncio.wait_for(asyncio.gather(*ready), 60)
            yield
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):  # a user agent that gave up
                raise end

    async def _ping(self) -> None:
        """The ping of the push protocol, as Firefox sends it (each half hour)."""
        while True:
            await asyncio.sleep(1)
            now = time.monotonic()
            for agent in self.agents:
                if agent.socket is not None and now > agent.pinged + APP_PING:
                    agent.pinged = now
                    with contextlib.suppress(*GONE):
                        await agent.socket.send("{}")

    # ── application servers ──────────────────────────────────────────────────────────────────────

    async def push(self, per_second: float, over: asyncio.Event) -> None:
        """Push to one after the other until it is over; returns when all is answered."""
        loop = asyncio.get_running_loop()
        order = random.sample(self.agents, len(self.agents))
        timeout = aiohttp.ClientTimeout(total=10, sock_connect=2)
        connector = aiohttp.TCPConnector(limit=200)
        async with (
            aiohttp.ClientSession(timeout=timeout, connector=connector) as session,
            asyncio.TaskGroup() as group,
        ):
            due = loop.time()
            for agent in itertools.cycle(order):
                if over.is_set():
                    break
                await asyncio.sleep(due - loop.time())
                due += 1 / per_second
                group.create_task(self._push(session, agent))

    async def _push(self, session: aiohttp.ClientSession, agent: UserAgent) -> None:
        number = next(self._numbers)
        ledger = self.ledger
        for attempt in range(TRIES):
            endpoint = self._endpoints[(number + attempt) % len(self._endpoints)]
            ledger.sent += 1
            ledger.retried += attempt > 0
            try:
                async with session.post(
                    endpoint + agent.path, headers=HEADERS, data=b"message %d" % number
                ) as answer:
                    at_once = answer.status == 503 and "Retry-After" not in answer.headers
                    ledger.answer(f"{answer.status}{' at once' * at_once}")
                    if answer.status in (201, 202):
                        ledger.accept((await answer.json())["message-id"], agent.uaid)
                        return
            except (aiohttp.ClientError, OSError):  # a timeout is an OSError too
                ledger.answer("none")
            await asyncio.sleep(0.3 * 2**attempt)
