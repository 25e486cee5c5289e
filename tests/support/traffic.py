"""Senders and user agents that continue through any failure, and a ledger of what they saw."""

import asyncio
import contextlib
import itertools
from collections import Counter
from dataclasses import dataclass, field

import aiohttp
from websockets.exceptions import WebSocketException

from support.service import Service
from support.user_agent import UserAgent

HEADERS = {"TTL": "3600", "Content-Encoding": "aes128gcm"}
RECONNECT_PAUSE = 0.05
"""Seconds a user agent waits before it connects again to a service that is down."""


@dataclass
class TrafficLedger:
    """Message ids: answered 201, and how often each was delivered."""

    accepted: set[str] = field(default_factory=set)
    delivered: Counter[str] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)
    unanswered: int = 0
    progress: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def missing(self) -> set[str]:
        return self.accepted - self.delivered.keys()

    async def complete(self, seconds: float) -> None:
        """Wait until everything accepted was delivered."""
        async with asyncio.timeout(seconds):
            while self.missing:
                self.progress.clear()
                await self.progress.wait()

    async def grows_by(self, count: int, seconds: float) -> None:
        """Wait until so many more were accepted."""
        goal = len(self.accepted) + count
        async with asyncio.timeout(seconds):
            while len(self.accepted) < goal:
                self.progress.clear()
                await self.progress.wait()


class Subscriber:
    """A user agent that always reconnects with its UAID and acks what it gets."""

    def __init__(self, service: Service, ledger: TrafficLedger) -> None:
        self._service = service
        self._ledger = ledger
        self._agent: UserAgent | None = None
        self.uaid = ""
        self.endpoint = ""
        self.connects = 0

    async def subscribe(self) -> None:
        self._agent = await self._service.connect()
        self.uaid = self._agent.uaid
        _, self.endpoint = await self._agent.register()

    async def run(self) -> None:
        while True:
            with contextlib.suppress(OSError, WebSocketException, TimeoutError):
                await self._receive()
            await asyncio.sleep(RECONNECT_PAUSE)

    async def _receive(self) -> None:
        agent, self._agent = self._agent, None
        if agent is None:
            agent = await UserAgent.connect(self._service.websocket)
            reply = await agent.hello(self.uaid)
            assert reply["uaid"] == self.uaid, "the user was forgotten"
            self.connects += 1
        closed = asyncio.ensure_future(agent.socket.wait_closed())
        try:
            while True:
                message = asyncio.ensure_future(agent.notifications.get())
                await asyncio.wait({message, closed}, return_when=asyncio.FIRST_COMPLETED)
                if not message.done():
                    message.cancel()
                    return
                self._ledger.delivered[message.result()["version"]] += 1
                self._ledger.progress.set()
                await agent.ack([message.result()])
        finally:
            closed.cancel()
            await agent.close()


async def send(
    session: aiohttp.ClientSession, ledger: TrafficLedger, endpoint: str, body: bytes
) -> None:
    """One push, whose outcome is recorded in the ledger."""
    try:
        async with session.post(endpoint, headers=HEADERS, data=body) as answer:
            if answer.status == 201:
                document = await answer.json()
                ledger.accepted.add(document["message-id"])
            else:
                ledger.refused[answer.status] += 1
    except (aiohttp.ClientError, OSError):
        ledger.unanswered += 1
        await asyncio.sleep(RECONNECT_PAUSE)
    ledger.progress.set()


async def send_for_ever(ledger: TrafficLedger, subscribers: list[Subscriber]) -> None:
    """Push to one subscriber after the other, until cancelled."""
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        for number, subscriber in enumerate(itertools.cycle(subscribers)):
            await send(session, ledger, subscriber.endpoint, b"%d" % number)
