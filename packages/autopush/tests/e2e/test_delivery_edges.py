"""Delivery where it is hard: order, odd acks, slow user agents, reconnects, a service's end."""

import asyncio
import contextlib
import itertools
import json
import random
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import aiohttp
import pytest
from websockets.exceptions import WebSocketException

from support import wire
from support.application_server import ApplicationServer
from support.raw_client import raw_client
from support.service import Service, running_service
from support.traffic import Subscriber, TrafficLedger, send, send_for_ever
from support.user_agent import Message, UserAgent

pytestmark = pytest.mark.slow

Connect = Callable[..., Awaitable[UserAgent]]

PAUSE = 0.06
"""Seconds without a message that a user agent takes for a reason to ack what it has."""

MODES = ("store-first", "bypass")
WORKERS_AND_MODES = [("1", "bypass"), ("2", "store-first")]
"""Each number of workers and each mode once."""
PATIENT = ("--request-timeout", "20")
"""Of nodes on a busy machine, none of which is to count as unresponsive: what such a node was given
may be sent again.
"""
either_delivery = pytest.mark.parametrize(
    "running",
    [("--direct-delivery", mode) for mode in MODES],
    indirect=True,
    ids=MODES,
)


@pytest.fixture(scope="module", params=[()], ids=[""])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("edges"), *request.param) as service:
        yield service


async def away(connect: Connect) -> tuple[str, str, str]:
    """UAID, channel and endpoint of a user agent that has gone offline."""
    agent = await connect()
    channel, endpoint = await agent.register()
    await agent.close()
    return agent.uaid, channel, endpoint


async def burst(service: Service, endpoints: Sequence[str], **headers: str) -> list[str]:
    """One push to each endpoint, in one write; the message ids in the same order."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in ({"TTL": "60"} | headers).items())
    async with raw_client(service.endpoint_port) as client:
        for endpoint in endpoints:
            path = endpoint.split("/", 3)[3]
            client.send(f"POST /{path} HTTP/1.1\r\nHost: h\r\n{lines}Content-Length: 0\r\n\r\n")
        return [(await client.answer()).message_id for _ in endpoints]


def versions(messages: Sequence[Message]) -> list[str]:
    return [message["version"] for message in messages]


async def soon(agent: UserAgent) -> Message | None:
    """The next message, None when there is a pause."""
    try:
        return await asyncio.wait_for(agent.notifications.get(), PAUSE)
    except TimeoutError:
        return None


async def drain(agent: UserAgent, count: int, *, group: int) -> list[Message]:
    """Receive so many, acking `group` at a time, and what there is when nothing more comes."""
    got: list[Message] = []
    unacked: list[Message] = []
    while len(got) < count or unacked:
        # Only while something is unacked a service may wait, and then for us.
        message = await (soon(agent) if unacked else agent.notification())
        if message is not None:
            got.append(message)
            unacked.append(message)
            if len(unacked) < group and len(got) < count:
                continue
        await agent.ack(reversed(unacked))
        unacked.clear()
    return got


# ── order ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("group", [1, 10], ids=["singly", "tens"])
async def test_of_200_messages_stored_at_once_none_is_hidden_repeated_or_out_of_order(
    running: Service, connect: Connect, group: int
) -> None:
    uaid, _, endpoint = await away(connect)
    sent = await burst(running, [endpoint] * 200)
    agent = await connect(uaid)
    assert versions(await drain(agent, 200, group=group)) == sent
    await agent.close()
    await (await connect(uaid)).silence()


@either_delivery
async def test_a_burst_to_a_user_agent_that_acks_arrives_once(
    running: Service, connect: Connect
) -> None:
    agent = await connect()
    _, endpoint = await agent.register()
    sending = asyncio.create_task(burst(running, [endpoint] * 200))
    got = await agent.receive(200, ack=True)
    assert Counter(versions(got)) == Counter(await sending)
    await agent.silence()
    await agent.close()
    await (await connect(agent.uaid)).silence()


# ── acks ─────────────────────────────────────────────────────────────────────────────────────────


@either_delivery
@pytest.mark.parametrize("online", [True, False], ids=["direct", "stored"])
async def test_exactly_what_was_not_acked_comes_again(
    running: Service, connect: Connect, online: bool
) -> None:
    numbers = list(range(25))
    cases: list[list[list[int]]] = [
        [[n] for n in numbers],
        [numbers[n : n + 2] for n in range(0, 25, 2)],
        [[n] for n in reversed(numbers)],
        [numbers],
        [[*numbers, *numbers], numbers],
        [],
        [numbers[::2]],
        [numbers[1::2]],
        [[0]],
        [[24]],
        [numbers[1:]],
        [numbers[:-1]],
        [[n] for n in random.Random(2).sample(numbers, 12)],
    ]

    async def one(frames: list[list[int]]) -> None:
        agent = await connect()
        _, endpoint = await agent.register()
        if not online:
            await agent.close()
        sent = await burst(running, [endpoint] * 25)
        if not online:
            agent = await connect(agent.uaid)
        acked = await ack_by_number(agent, sent, frames)
        await agent.close()
        agent = await connect(agent.uaid)
        again = versions(await drain(agent, 25 - len(acked), group=5))
        assert sorted(again) == sorted(set(sent) - acked), frames
        if not online:
            assert again == [version for version in sent if version not in acked]
        await agent.silence()
        await agent.close()
        await (await connect(agent.uaid)).silence()

    await asyncio.gather(*(one(frames) for frames in cases))


async def ack_by_number(agent: UserAgent, sent: list[str], frames: list[list[int]]) -> set[str]:
    """Ack the messages with these numbers, a frame each. What does not come because it waits for
    other acks is left out. Returns what was acked.
    """
    got: dict[str, Message] = {}
    acked: set[str] = set()
    todo = [[sent[number] for number in frame] for frame in frames]
    while len(acked) < len(sent):
        message = await (agent.notification() if len(acked) == len(got) else soon(agent))
        while message is not None:
            assert message["version"] not in got, "it was sent twice on one connection"
            got[message["version"]] = message
            message = await soon(agent) if len(got) < len(sent) else None
        ready = [[version for version in frame if version in got] for frame in todo]
        if not any(ready):
            break
        for frame in filter(None, ready):
            await agent.ack([got[version] for version in frame])
            acked.update(frame)
        todo = [[version for version in frame if version not in got] for frame in todo]
    await agent.register()  # answered behind the acks: they were read
    return acked


# ── hello, unregister ────────────────────────────────────────────────────────────────────────────


@either_delivery
async def test_pushes_during_hello_arrive_once_and_never_before_its_reply(
    running: Service, open_connection: Connect, connect: Connect
) -> None:
    uaid, _, endpoint = await away(connect)
    for number in range(40):
        agent = await open_connection()
        sending = asyncio.create_task(burst(running, [endpoint] * 3))
        for _ in range(number % 8):
            await asyncio.sleep(0)  # another moment of the handshake each time
        await agent.hello(uaid)
        got = await agent.receive(3, ack=True)
        assert agent.received[0]["messageType"] == "hello"
        assert Counter(versions(got)) == Counter(await sending)
        await agent.close()
    await (await connect(uaid)).silence()


# ── user agents that are slow ────────────────────────────────────────────────────────────────────


@either_delivery
async def test_messages_a_user_agent_does_not_read_are_delivered_later(
    running: Service, sender: ApplicationServer
) -> None:
    async with raw_client(running.websocket_port) as client:
        uaid = await client.hello()
        channel = str(uuid.uuid4())
        register = {"messageType": "register", "channelID": channel}
        client.send(wire.text(json.dumps(register).encode()))
        endpoint = json.loads((await client.frame())[1])["pushEndpoint"]
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        body = bytes(4096)
        answers = await asyncio.gather(*(sender.push(endpoint, body) for _ in range(120)))
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        waiting = {answer.message_id for answer in answers}
        got: Counter[str] = Counter()
        while waiting - got.keys():
            message = json.loads((await client.frame())[1])
            got[message["version"]] += 1
            update = {"channelID": channel, "version": message["version"]}
            client.send(wire.text(json.dumps({"messageType": "ack", "updates": [update]}).encode()))
    assert got == Counter(waiting)
    assert uaid


# ── reconnects ───────────────────────────────────────────────────────────────────────────────────


class ReconnectingAgent:
    """A user agent that reconnects all the time, with or without a close, and acks at random."""

    def __init__(self, service: Service, seed: int) -> None:
        self._service = service
        self._random = random.Random(seed)
        self.uaid = ""
        self.endpoint = ""
        self.connects = 0
        self.delivered: Counter[str] = Counter()
        self.done: set[str] = set()
        """Acked, and the ack was certainly read."""
        self.repeated: set[str] = set()
        """Delivered after it was acked."""

    async def subscribe(self) -> None:
        agent = await self._service.connect()
        self.uaid = agent.uaid
        _, self.endpoint = await agent.register()
        await agent.close()

    async def run(self, ledger: TrafficLedger) -> None:
        """Run until it reconnected often enough and enough was sent to it."""
        while self.connects < 30 or len(ledger.accepted) < 200:
            await self._connection(self._random.choice((0, 1, 5, 20)))

    async def _connection(self, messages: int) -> None:
        agent = await UserAgent.connect(self._service.websocket)
        assert (await agent.hello(self.uaid))["uaid"] == self.uaid
        self.connects += 1
        acked = []
        for _ in range(messages):
            try:
                message = await asyncio.wait_for(agent.notifications.get(), PAUSE)
            except TimeoutError:
                break
            self._note(message)
            if self._random.random() < 0.7:
                acked.append(message)
                await agent.ack([message])
        if self._random.random() < 0.5:
            await agent.drop_connection()
            return
        await agent.close()
        if agent.socket.close_code == 1000:
            self.done.update(versions(acked))

    def _note(self, message: Message) -> None:
        version = message["version"]
        self.delivered[version] += 1
        if version in self.done:
            self.repeated.add(version)

    async def finish(self, accepted: set[str]) -> None:
        """Stay until everything has come."""
        agent = await self._service.connect(self.uaid)
        async with asyncio.timeout(10):
            while accepted - self.delivered.keys():
                message = await agent.notifications.get()
                self._note(message)
                await agent.ack([message])
        await agent.close()


@pytest.mark.parametrize(
    "running",
    [
        ("--workers", workers, "--direct-delivery", mode, *PATIENT)
        for workers, mode in WORKERS_AND_MODES
    ],
    indirect=True,
    ids=[f"{mode}, workers {workers}" for workers, mode in WORKERS_AND_MODES],
)
async def test_a_reconnect_loop_loses_nothing_and_repeats_nothing_that_was_acked(
    running: Service,
) -> None:
    ledgers = [TrafficLedger() for _ in range(3)]
    agents = [ReconnectingAgent(running, seed) for seed in range(3)]
    async with asyncio.TaskGroup() as group:
        for agent in agents:
            await agent.subscribe()
        senders = [
            group.create_task(one_after_the_other(agent.endpoint, ledger))
            for agent, ledger in zip(agents, ledgers, strict=True)
        ]
        await asyncio.gather(
            *(agent.run(ledger) for agent, ledger in zip(agents, ledgers, strict=True))
        )
        for task in senders:
            task.cancel()
    for agent, ledger in zip(agents, ledgers, strict=True):
        assert ledger.unanswered == 0
        assert not ledger.refused
        await agent.finish(ledger.accepted)
        # One push may have been under way when its sender was stopped.
        assert len(agent.delivered.keys() - ledger.accepted) <= 1
        assert agent.repeated == set()


async def one_after_the_other(endpoint: str, ledger: TrafficLedger) -> None:
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        for number in itertools.count():
            await send(session, ledger, endpoint, b"%d" % number)


# ── the end ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("workers", "mode"), WORKERS_AND_MODES)
async def test_sigterm_in_traffic_says_going_away_and_loses_nothing(
    tmp_path: Path, mode: str, workers: str
) -> None:
    service = Service(tmp_path, ["--direct-delivery", mode, "--workers", workers])
    await service.start()
    ledger = TrafficLedger()
    subscribers = [Subscriber(service, ledger) for _ in range(4)]
    for subscriber in subscribers:
        await subscriber.subscribe()
    idle = [await service.connect() for _ in range(3)]
    silent = [await service.connect(subscriber.uaid) for subscriber in subscribers[:2]]
    try:
        async with asyncio.TaskGroup() as group:
            sending = [group.create_task(send_for_ever(ledger, subscribers)) for _ in range(2)]
            receiving = [group.create_task(subscriber.run()) for subscriber in subscribers[2:]]
            await ledger.grows_by(60, 20)
            assert await service.stop() == 0, "".join(service.output[-20:])
            assert {await agent.closed() for agent in (*idle, *silent)} == {1001}
            await service.start()
            # Those that never acked reconnect and get all that was sent to them.
            receiving += [group.create_task(subscriber.run()) for subscriber in subscribers[:2]]
            await ledger.grows_by(20, 20)
            for task in sending:
                task.cancel()
            with contextlib.suppress(WebSocketException):
                await ledger.complete(20)
            for task in receiving:
                task.cancel()
        assert ledger.missing == set()
        assert set(ledger.refused) <= {503}
    finally:
        code = await service.stop()
    assert code == 0, "".join(service.output[-20:])
    assert service.errors == []
