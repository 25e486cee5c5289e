"""Whatever happens in whatever order: the newest version of a channel comes until it is acked, and
no more then.
"""

import random
from collections import defaultdict

import pytest

from autopush.webpush.notification import VersionUpdate
from keytables import Throttled
from support.connection_harness import CHANNEL, OTHER, OTHER_NODE, UAID, Harness, UserAgent
from support.endpoint_harness import Endpoint

STEPS = 60
FAULTS = ("put storage", "delete storage", "get router")


class Device:
    """A user agent over its connections, and the application server of its channels."""

    def __init__(self, harness: Harness, chance: random.Random, *, store_first: bool) -> None:
        self.harness = harness
        self.chance = chance
        self.router = Endpoint(harness, store_first=store_first).router
        self.agent: UserAgent | None = None
        self.taken: defaultdict[str, int] = defaultdict(int)
        """By channel, the newest version that was answered without an error."""
        self.received: defaultdict[str, int] = defaultdict(int)
        self.acked: defaultdict[str, int] = defaultdict(int)
        self.unacked: list[tuple[str, int]] = []

    async def push(self) -> None:
        channel, number = self.chance.choice((CHANNEL, OTHER)), self.chance.randint(1, 30)
        number = max(number, self.received[channel])  # versions of an application only grow
        try:
            recipient = await self.router.find_simplepush(UAID)
            await self.router.route(recipient, VersionUpdate.of(UAID, channel, number))
        except Throttled:
            return
        self.taken[channel] = max(number, self.taken[channel])

    async def connect(self) -> None:
        self.agent = await self.harness.hello(UAID, use_webpush=False)
        self.unacked.clear()

    async def disconnect(self) -> None:
        if self.agent is not None:
            self.agent.disconnect()
            self.agent = None

    async def pause(self) -> None:
        if self.agent is not None:
            self.agent.connection.output_paused()

    async def resume(self) -> None:
        if self.agent is not None:
            self.agent.connection.output_resumed()

    async def fail(self) -> None:
        self.harness.engine.fail(self.chance.choice(FAULTS), Throttled("full"))

    async def ack(self) -> None:
        """Ack some of what was received, in any order."""
        if self.agent is not None:
            some = self.chance.sample(self.unacked, self.chance.randint(0, len(self.unacked)))
            self.send_ack(some)

    def send_ack(self, versions: list[tuple[str, int]]) -> None:
        assert self.agent is not None
        updates = [{"channelID": channel, "version": number} for channel, number in versions]
        self.agent.send_json(messageType="ack", updates=updates)
        for channel, number in versions:
            self.acked[channel] = max(number, self.acked[channel])
        self.unacked = [each for each in self.unacked if each not in versions]

    def receive(self) -> int:
        """Read what was sent; returns how many updates."""
        before = len(self.unacked)
        for message in self.agent.received() if self.agent else ():
            if isinstance(message, dict) and message["messageType"] == "notification":
                for update in message["updates"]:
                    channel, number = update["channelID"], update["version"]
                    self.unacked.append((channel, number))
                    self.received[channel] = max(number, self.received[channel])
        return len(self.unacked) - before

    async def drain(self) -> int:
        """Connect, receive and ack until nothing more comes; returns how many updates came."""
        count = 0
        await self.connect()
        while True:
            await self.harness.pass_time(120)
            if not (received := self.receive()):
                return count
            count += received
            self.send_ack(list(self.unacked))


@pytest.mark.parametrize("store_first", [True, False], ids=["store-first", "bypass"])
@pytest.mark.parametrize("seed", range(40))
async def test_the_newest_version_comes_until_it_is_acked_and_then_no_more(
    seed: int, store_first: bool
) -> None:
    harness = await Harness.open(max_unacked=3)
    await harness.store.users.create_simplepush(UAID, OTHER_NODE, 5, None)
    device = Device(harness, random.Random(seed), store_first=store_first)
    steps = [device.push] * 6 + [device.ack] * 4
    steps += [device.connect, device.disconnect, device.pause, device.resume, device.fail]
    for _ in range(STEPS):
        await device.chance.choice(steps)()
        if device.chance.random() < 0.7:
            await harness.run_until_idle()
            device.receive()
    await device.disconnect()
    harness.engine.errors.clear()
    await harness.pass_time(120)
    await device.drain()
    for channel, number in device.taken.items():
        assert device.acked[channel] >= number
    await device.disconnect()
    assert await device.drain() == 0
    assert harness.stored_updates() == {}
