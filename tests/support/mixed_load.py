"""A mixed load: user agents that come and go, subscribe and unsubscribe, and ack at once, late,
after a nack or not at all; application servers that push with and without topic and with all kinds
of TTL.
"""

import asyncio
import contextlib
import json
import random
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from support import wire
from support.load_ledger import AgentConnection, LoadLedger, Subscription
from support.raw_client import RawClient
from support.service import Service

DAY = 86_400
TTLS = [(30 * DAY, True), (7 * DAY, True), (7 * DAY, True), (5, False), (0, False)]
"""Seconds, and whether the message lasts until the end of the run."""
TOPICS = ["a", "b"]
CHANNELS = 3
CONNECT_TIMEOUT = 5.0
REPLY_TIMEOUT = 10.0
GONE = (OSError, asyncio.IncompleteReadError, TimeoutError, EOFError)
FOUND = (201, 202)
COMPLETE = 90
"""Seconds after the faults in which everything must arrive: what failed often in the background is
repeated after up to a minute.
"""
LATE = 45
"""Seconds after which all user agents connect again."""


class ConnectionRefused(OSError):
    """What the service said instead of a good hello."""


class LoadAgent:
    """One user agent, on one connection after the other, to any of the ports."""

    def __init__(self, ports: Sequence[int], ledger: LoadLedger, dice: random.Random) -> None:
        self.uaid = ""
        self.subscriptions: list[Subscription] = []
        self.subscribed = asyncio.Event()
        self.is_leaving = True
        """Whether it ends connections by itself."""
        self._ports = ports
        self._ledger = ledger
        self._dice = dice
        self._client: RawClient | None = None
        self._connection = AgentConnection()
        self._unacked: list[dict[str, str]] = []
        self._acked: list[tuple[int, str]] = []
        """Acks that were sent, each with the number of the ping behind it."""
        self._pings = 0
        self._asked: str | None = None
        """The channel it registers or unregisters."""

    @property
    def is_connected(self) -> bool:
        return self._client is not None

    async def run(self) -> None:
        """Be connected for ever."""
        while True:
            try:
                await self._use_connection()
            except ConnectionRefused as error:
                self._ledger.refused_connects[str(error)] += 1
            except GONE as error:
                if self._client is None:
                    self._ledger.refused_connects[type(error).__name__] += 1
            self._client = None
            await asyncio.sleep(self._dice.uniform(0.05, 0.5))

    async def _use_connection(self) -> None:
        port = self._dice.choice(self._ports)
        async with asyncio.timeout(CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            client = RawClient(reader, writer)
            self._connection = AgentConnection()
            self._unacked, self._acked, self._pings, self._asked = [], [], 0, None
            await self._hello(client)
            self._client = client
            self._ledger.connects += 1
            acting = asyncio.create_task(self._act(client))
            try:
                while await self._receive(client):
                    pass
            finally:
                acting.cancel()
                await asyncio.gather(acting, return_exceptions=True)
        finally:
            writer.transport.abort()

    async def _hello(self, client: RawClient) -> None:
        with _refusals():
            await client.upgrade()
        self._send(client, messageType="hello", use_webpush=True, uaid=self.uaid)
        opcode, payload = await client.frame()
        if opcode != wire.TEXT:
            raise ConnectionRefused(f"closed {int.from_bytes(payload[:2])}")
        reply = json.loads(payload)
        if reply["status"] != 200:
            raise ConnectionRefused(f"hello {reply['status']}")
        if self.subscriptions and reply["uaid"] != self.uaid:
            self._ledger.forgotten.append(f"{self.uaid} became {reply['uaid']}")
        self.uaid = reply["uaid"]

    def _send(self, client: RawClient, **members: object) -> None:
        client.send(wire.text(json.dumps(members).encode()))

    async def _receive(self, client: RawClient) -> bool:
        """Take one frame; False at the end."""
        opcode, payload = await client.frame()
        if opcode == wire.PONG:
            number = int(payload)
            confirmed = [version for at, version in self._acked if at <= number]
            self._acked = [each for each in self._acked if each[0] > number]
            self._ledger.acks.confirm(confirmed, self._connection)
        elif opcode == wire.PING:
            client.send(wire.frame(wire.PONG, payload))
        elif opcode == wire.TEXT:
            self._read(client, json.loads(payload))
        return opcode != wire.CLOSE

    def _read(self, client: RawClient, message: dict[str, Any]) -> None:
        kind = message["messageType"]
        if kind == "notification":
            self._ledger.deliver(message["version"], self._connection)
            self._unacked.append(message)
            if self._dice.random() < 0.7:
                self._ack(client)
        elif kind == "register":
            if message["status"] == 200:
                path = urlsplit(message["pushEndpoint"]).path
                self.subscriptions.append(Subscription(self.uaid, message["channelID"], path))
                if len(self.subscriptions) >= CHANNELS:
                    self.subscribed.set()
            self._asked = None
        elif kind == "unregister":
            self._asked = None

    def _ack(self, client: RawClient) -> None:
        self._dice.shuffle(self._unacked)
        updates = [
            {"channelID": each["channelID"], "version": each["version"], "code": 100}
            for each in self._unacked
        ]
        self._send(client, messageType="ack", updates=updates)
        self._pings += 1
        self._acked += [(self._pings, each["version"]) for each in self._unacked]
        self._unacked.clear()
        client.send(wire.frame(wire.PING, b"%d" % self._pings))

    async def _act(self, client: RawClient) -> None:
        """What it does by itself, until it ends the connection."""
        dice = self._dice
        while True:
            await asyncio.sleep(dice.uniform(0.1, 0.5))
            number = dice.random()
            if self._asked is None and len(self.subscriptions) < CHANNELS:
                self._asked = str(uuid.UUID(int=dice.getrandbits(128), version=4))
                self._send(client, messageType="register", channelID=self._asked)
            elif self._asked is None and number < 0.02 and self.subscribed.is_set():
                subscription = self.subscriptions.pop(0)
                subscription.is_kept = False
                self._asked = subscription.channel
                self._send(client, messageType="unregister", channelID=self._asked, code=200)
            elif number < 0.5:
                if self._unacked and number < 0.1:
                    version = self._unacked[0]["version"]
                    self._send(client, messageType="nack", version=version, code=302)
                self._ack(client)  # with nothing to ack it is a ping
            elif self.is_leaving and number > 0.9:
                if number > 0.95:
                    client.send(wire.close(1000))
                client.writer.close()  # what is unacked comes again
                return

    def drop_connection(self) -> None:
        if self._client is not None:
            self._client.drop_connection()


def _discard(
    busy: set[tuple[Subscription, str]], key: tuple[Subscription, str], _: "asyncio.Task[None]"
) -> None:
    busy.discard(key)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except AssertionError as error:  # the upgrade had another answer
        raise ConnectionRefused("upgrade refused") from error


class MixedLoad:
    """The user agents and the application servers of a service: of all of its nodes alike."""

    def __init__(self, users: int, nodes: Sequence[Service], seed: int) -> None:
        self.ledger = LoadLedger()
        self._dice = random.Random(seed)
        ports = [node.websocket_port for node in nodes if node.websocket]
        self.agents = [
            LoadAgent(ports, self.ledger, random.Random(f"{seed} {number}"))
            for number in range(users)
        ]
        self._endpoints = [node.endpoint for node in nodes if node.endpoint]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """User agents come and go meanwhile; all are subscribed at the beginning."""
        tasks = [asyncio.create_task(agent.run()) for agent in self.agents]
        try:
            async with asyncio.timeout(60):
                for agent in self.agents:
                    await agent.subscribed.wait()
            yield
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):  # a user agent that gave up
                raise end

    async def push(self, per_second: float, over: asyncio.Event) -> None:
        """Push to one after the other until it is over; returns when all is answered."""
        loop = asyncio.get_running_loop()
        timeout = aiohttp.ClientTimeout(total=REPLY_TIMEOUT, sock_connect=2)
        connector = aiohttp.TCPConnector(limit=100)
        async with (
            aiohttp.ClientSession(timeout=timeout, connector=connector) as session,
            asyncio.TaskGroup() as group,
        ):
            due, busy = loop.time(), set[tuple[Subscription, str]]()
            while not over.is_set():
                await asyncio.sleep(due - loop.time())
                due += 1 / per_second
                agent = self._dice.choice(self.agents)
                if not agent.subscriptions:
                    continue
                subscription = self._dice.choice(agent.subscriptions)
                topic = self._dice.choice(TOPICS) if self._dice.random() < 0.25 else None
                ttl, lasts = self._dice.choice(TTLS)
                if topic is None:
                    group.create_task(self._push(session, subscription, None, ttl, lasts=lasts))
                elif (subscription, topic) not in busy:  # so that its order is known
                    busy.add((subscription, topic))
                    push = self._push(session, subscription, topic, ttl, lasts=lasts)
                    task = group.create_task(push)
                    task.add_done_callback(partial(_discard, busy, (subscription, topic)))

    async def _push(
        self,
        session: aiohttp.ClientSession,
        subscription: Subscription,
        topic: str | None,
        ttl: int,
        *,
        lasts: bool,
    ) -> None:
        ledger = self.ledger
        headers = {"TTL": str(ttl), "Content-Encoding": "aes128gcm"}
        if topic is not None:
            headers["Topic"] = topic
        ledger.send(subscription, topic)
        body = self._dice.randbytes(self._dice.choice([10, 200, 3000]))
        url = self._dice.choice(self._endpoints) + subscription.path
        try:
            async with session.post(url, headers=headers, data=body) as answer:
                document = await answer.json()
                if answer.status in FOUND:
                    ledger.answers[str(answer.status)] += 1
                    version = document["message-id"]
                    ledger.accept(version, subscription, topic, lasts=lasts)
                    return
                ledger.answers[f"{answer.status}/{document['errno']}"] += 1
                if answer.status in (404, 410) and subscription.is_kept:
                    ledger.forgotten.append(f"{answer.status} for {subscription.channel}")
        except (aiohttp.ClientError, OSError):  # a timeout is an OSError too
            ledger.answers["none"] += 1

    async def all_connected(self, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while not all(agent.is_connected for agent in self.agents):  # noqa: ASYNC110 - others end
                await asyncio.sleep(0.1)

    def stay(self) -> None:
        """From now on user agents keep their connections."""
        for agent in self.agents:
            agent.is_leaving = False

    def reconnect(self) -> None:
        """Drop all connections; the user agents reconnect by themselves."""
        for agent in self.agents:
            agent.drop_connection()

    async def complete(self) -> None:
        """Wait until all that must arrive has arrived, after the faults."""
        ledger = self.ledger
        self.stay()
        await self.all_connected(COMPLETE)
        if not await ledger.complete(LATE):
            overdue = ledger.missing
            self.reconnect()
            await ledger.complete(COMPLETE)
            ledger.late = overdue - ledger.missing
