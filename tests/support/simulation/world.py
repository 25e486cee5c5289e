"""A service of several workers, its user agents and senders, and what goes wrong; all from a seed.

The workers run the real code: sessions, registry, routing, calls and hand-overs between workers,
placement, the endpoint. What is simulated is what a process or a machine does: time, the commit,
the end of a process, and one that stands still.
"""

import asyncio
import gc
import logging
import random
import socket
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import msgspec

from autopush.net.http_messages import Request, Response
from autopush.webpush.urgency import LEVELS
from support import wire
from support.simulation.committing_engine import Disk
from support.simulation.network import Failure, Network
from support.simulation.virtual_loop import VirtualLoop
from support.simulation.workers import Version, Worker

EPOCH = 1_790_000_000.0
"""The wall clock at the virtual time 0."""
INFINITE = float("inf")
DRAINS = (1.0, 10.0)
"""Seconds in which a version closes what it cannot hand over."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """For runs: what killed workers leave behind is collected at the end, not at odd times, and
    Python does not complain of what they have begun and not ended.
    """
    logging.disable(logging.CRITICAL)
    gc.disable()
    with warnings.catch_warnings(), patch("sys.unraisablehook", lambda _: None):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            gc.collect()
            gc.enable()
            logging.disable(logging.NOTSET)


@dataclass
class Accepted:
    """A message that was answered 201. `at`: of the answer."""

    version: str
    user: "User"
    channel: str
    ttl: int
    topic: str
    urgency: str
    sent: float
    at: float


@dataclass
class Filter:
    """The lowest urgency that a user agent takes. `sent`: when it asked for that, or learnt of it.
    `start`: when it was answered. `end`: when it asked for another one, or learnt of it.
    `released`: when another one was answered.
    """

    user: "User"
    least: str
    sent: float
    start: float = INFINITE
    end: float = INFINITE
    released: float = INFINITE


@dataclass
class History:
    accepted: dict[str, Accepted] = field(default_factory=dict)
    delivered: dict[str, list[float]] = field(default_factory=dict)
    """When each version was received, by the version."""
    acked: dict[str, float] = field(default_factory=dict)
    """When each version was acked first."""
    unregistering: dict[str, float] = field(default_factory=dict)
    """When a user agent left a channel …"""
    unregistered: dict[str, float] = field(default_factory=dict)
    """… and when it had the reply to that."""
    removing: set[str] = field(default_factory=set)
    """The messages that a sender wanted to delete …"""
    removed: dict[str, float] = field(default_factory=dict)
    """… and when it was told that they are."""
    connected: list[tuple["User", float, float]] = field(default_factory=list)
    """From the answer to a hello to the end of the connection."""
    filters: list[Filter] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    troubled: list[tuple[float, float]] = field(default_factory=list)
    """Times of faults."""
    wrong: list[str] = field(default_factory=list)
    """What a user agent saw that must not be."""
    places: list[tuple["User", list[str]]] = field(default_factory=list)
    """The workers that each user agent is connected to at the end."""
    lost: list[tuple[float, float]] = field(default_factory=list)
    """Times whose commits were lost in a failover."""
    calm_from: float = INFINITE
    """When the last fault was over."""


class User:
    """A user agent that stays away for a while now and then, and acks most of what it gets."""

    def __init__(self, world: "World", name: int) -> None:
        self.world, self.name = world, name
        self.rng = random.Random(world.rng.random())
        self.uaid = ""
        self.channel = str(uuid.UUID(int=self.rng.getrandbits(128), version=4))
        self.endpoint = ""
        self.former: list[tuple[str, str]] = []
        """Channels that it no longer wants, and their endpoints."""
        self.acks = self.rng.choice([0.8, 1.0])
        """Share of the messages."""
        self.network_loses = self.rng.choice([0.1, 0.5])
        """Share of the connections."""
        self._filter: Filter | None = None
        """What was answered last …"""
        self._wanted: Filter | None = None
        """… and what is not answered yet."""
        self._unanswered: set[str] = set()
        """What never was: a worker that stood still may handle it long afterwards."""
        self.is_steady = False
        """Whether it stays connected and acks everything."""
        self.stays = False
        """Whether it stays connected as long as nothing ends its connection."""
        self._is_registered = False
        self._socket: socket.socket | None = None
        self._lost: list[socket.socket] = []
        """Connections that the network has lost: only the service has not noticed."""
        self._buffer = b""
        self._identified = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_connected(self) -> bool:
        return self._socket is not None

    def connect(self) -> None:
        workers = [each for each in self.world.workers if each.can_connect]
        if not workers or self._socket is not None:
            self._later(0.5, self.connect)
            return
        theirs, self._socket = socket.socketpair()
        self._socket.setblocking(False)
        theirs.setblocking(False)
        self.rng.choice(workers).accept(theirs)
        self._buffer, self._identified = b"", 0.0
        self.world.loop.add_reader(self._socket, self._read)
        least = "very-low" if self.is_steady else self.rng.choice([*LEVELS, *4 * [None]])
        if not self.world.has_filters:
            least = None
        self._send(messageType="hello", use_webpush=True, uaid=self.uaid, urgency=least)
        if least is not None:
            self._want(least)
        # A worker that stands still never answers: a user agent does not wait for ever.
        self._later(self.rng.uniform(20, 40), self.give_up)

    def disconnect(self, *, is_noticed: bool = True) -> None:
        if self._socket is not None:
            self.world.loop.remove_reader(self._socket)
            if is_noticed:
                self._socket.close()
            else:
                self._lost.append(self._socket)
            self._socket = None
            if self._identified:
                self.world.history.connected.append(
                    (self, self._identified, self.world.loop.time())
                )

    def close(self) -> None:
        self.disconnect()
        for sock in self._lost:
            sock.close()

    def give_up(self) -> None:
        self.disconnect(is_noticed=self.rng.random() > self.network_loses)
        self._later(self.rng.choice([0.1, 1.0, 5.0, 25.0]) * self.rng.random(), self.connect)

    def _later(self, seconds: float, what: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.world.loop.call_later(seconds, what)

    def _send(self, **message: object) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.send(wire.text(msgspec.json.encode(message)))

    def _read(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.give_up()
            return
        self._buffer += data
        while self._socket is not None and (frame := self._next()) is not None:
            opcode, payload = frame
            if opcode == wire.TEXT:
                self._received(msgspec.json.decode(payload))
            elif opcode == wire.CLOSE:
                self.give_up()

    def _next(self) -> tuple[int, bytes] | None:
        buffer, start = self._buffer, 2
        if len(buffer) < 2:
            return None
        size = buffer[1]
        if size == 126:
            start, size = 4, int.from_bytes(buffer[2:4])
        if len(buffer) < start + size:
            return None
        self._buffer = buffer[start + size :]
        return buffer[0] & 15, buffer[start : start + size]

    def _received(self, message: dict[str, Any]) -> None:
        history, now = self.world.history, self.world.loop.time()
        kind = message["messageType"]
        if kind == "notification":
            history.delivered.setdefault(message["version"], []).append(now)
            if self.is_steady or self.stays or self.rng.random() < self.acks:
                seconds = 0.0 if self.is_steady else self.rng.choice([0.0, self.rng.uniform(0, 3)])
                self.world.loop.call_later(seconds, self._ack, message, self._socket)
            return
        if kind == "hello":
            if self._is_registered and message["uaid"] != self.uaid:
                history.wrong.append(f"user {self.name} got another UAID")
            self.uaid, self._identified = message["uaid"], now
            self._learn(message.get("urgency", "very-low"))
            if self.world.has_filters and not self.is_steady and self.rng.random() < 0.4:
                seconds = self.rng.uniform(0, 10)
                self.world.loop.call_later(seconds, self._change_filter, self._socket)
            stays = self.is_steady or self.stays
            self._later(1e6 if stays else self.rng.uniform(1, 30), self.give_up)
            if not self.endpoint:
                self._send(messageType="register", channelID=self.channel)
            elif self.world.has_filters and not self.is_steady and self.rng.random() < 0.1:
                self._leave_channel()
        elif kind == "register" and message["status"] == 200:
            self.endpoint, self._is_registered = message["pushEndpoint"], True
        elif kind == "unregister":
            if message["status"] == 200:
                history.unregistered[message["channelID"]] = now
            self._send(messageType="register", channelID=self.channel)
        elif kind == "urgency" and message["status"] == 200 and self._wanted is not None:
            self._learn(self._wanted.least)

    def _change_filter(self, sock: socket.socket | None) -> None:
        if sock is self._socket and self._wanted is None and not self.is_steady:
            least = self.rng.choice([*LEVELS])
            self._want(least)
            self._send(messageType="urgency", min=least)

    def _want(self, least: str) -> None:
        now = self.world.loop.time()
        if self._filter is not None:
            self._filter.end = min(self._filter.end, now)
        if self._wanted is not None:
            self._unanswered.add(self._wanted.least)
        self._wanted = Filter(self, least, now)
        self.world.history.filters.append(self._wanted)

    def _learn(self, least: str) -> None:
        """The service says what is in effect."""
        history, now = self.world.history, self.world.loop.time()
        for each in history.filters:
            if each.user is self:
                each.end, each.released = min(each.end, now), min(each.released, now)
        known = self._wanted or self._filter
        is_other = known is not None and least not in {known.least, *self._unanswered}
        if self.endpoint and known is not None and is_other and known is self._filter:
            history.wrong.append(f"user {self.name} had the filter {known.least}, now {least}")
        self._filter, self._wanted = Filter(self, least, now, start=now), None
        history.filters.append(self._filter)

    def _leave_channel(self) -> None:
        """For another one."""
        self.world.history.unregistering[self.channel] = self.world.loop.time()
        self._send(messageType="unregister", channelID=self.channel)
        self.former.append((self.channel, self.endpoint))
        self.channel, self.endpoint = str(uuid.UUID(int=self.rng.getrandbits(128), version=4)), ""

    def _ack(self, message: dict[str, Any], sock: socket.socket | None) -> None:
        if sock is self._socket:
            update = {"channelID": message["channelID"], "version": message["version"]}
            self.world.history.acked.setdefault(message["version"], self.world.loop.time())
            self._send(messageType="ack", updates=[update])


class World:
    """A run: `run` it, then look at `history`."""

    record_check_interval = 0.0
    """Seconds; 0 without checks, which would make up for what other parts do wrong."""

    USERS = 3

    def __init__(self, seed: int, *, workers: int = 2, store_first: bool = True):
        self.rng = random.Random(seed)
        self.loop = VirtualLoop()
        self.store_first = store_first
        self.disk = Disk(self.rng)
        self.usual_slowness = self.disk.slow = self.rng.choice([0.01, 0.01, 0.3])
        self.history = History()
        self.immovable = self.rng.choice([0.0, 0.3, 1.0])
        self.is_embedded = self.immovable < 1.0 and seed % 4 < 2
        """Whether the store is this service's alone, so that returning hellos are not recorded."""
        """Share of the connections that cannot move, as under TLS."""
        self.clock_offset = 0.0
        self._starts = 0
        self._number = workers
        self.has_filters = True
        self.drain = self.rng.choice(DRAINS)
        self.versions: list[Version] = []
        """Those that run, the newest last."""
        self.survivors: list[Worker] = []
        """The workers that run at the end."""
        self.users = [User(self, name) for name in range(self.USERS)]
        self.asked: list[tuple[Worker, float, asyncio.Task[Response]]] = []
        """The requests of senders, with the worker that each has reached, and when."""
        self._upgrades: list[asyncio.Task[None]] = []

    def clock(self) -> float:
        return EPOCH + self.loop.now + self.clock_offset

    @property
    def workers(self) -> list[Worker]:
        return [each for version in self.versions for each in version.workers if not each.has_ended]

    def new_instance(self) -> str:
        self._starts += 1
        return f"start{self._starts}"

    def ended(self, version: Version) -> None:
        """A worker of it has."""
        if version.is_retired and version.has_ended and version in self.versions:
            self.versions.remove(version)
            version.close()

    def run(self, seconds: float = 40.0) -> History:
        with self._determined():
            try:
                self.loop.run_until_complete(self._run(seconds))
            finally:
                self._close()
        return self.history

    @contextmanager
    def _determined(self) -> Iterator[None]:
        uaids = random.Random(self.rng.random())
        with patch(
            "autopush.delivery.placement.new_uaid", lambda: f"{uaids.getrandbits(128):032x}"
        ):
            yield

    def running_worker(self) -> Worker:
        """The one whose code runs now."""
        process = self.loop.running_process()
        return next(each for each in self.workers if each.process is process)

    def _start(self) -> None:
        self.versions.append(Version(self, self._number, self.drain))

    async def _run(self, seconds: float) -> None:
        self._start()
        await asyncio.sleep(1)
        for user in self.users:
            user.connect()
        await asyncio.sleep(1)
        end = self.loop.time() + seconds
        faults = asyncio.ensure_future(self._go_wrong(end))
        while self.loop.time() < end:
            await asyncio.sleep(self.rng.expovariate(1.5))
            if self.rng.random() < 0.05:
                self._remove()
            else:
                self._push()
        await faults
        await asyncio.gather(*self._upgrades)
        await self._heal()
        self.survivors = self.workers

    async def _heal(self) -> None:
        """No fault any more, all user agents connected: what is left has to be delivered."""
        self.disk.failing, self.disk.slow = 0.0, 0.01
        self.history.calm_from = self.loop.time()
        for user in self.users:
            user.is_steady = True
        await asyncio.sleep(70)  # retries of reads and of saves
        for user in self.users:
            user.disconnect()
            user._later(0.1, user.connect)
        await asyncio.sleep(70)
        for user in self.users:
            if user.is_connected and user.uaid:
                places = [each.host for each in self.workers if each.registry.find(user.uaid)]
                self.history.places.append((user, places))

    def _close(self) -> None:
        for user in self.users:
            user.close()
        for version in [*self.versions]:
            version.kill()
        self.loop.close()

    # ── senders ──────────────────────────────────────────────────────────────────────────────────

    def _push(self, at: Worker | None = None) -> None:
        users = [user for user in self.users if user.endpoint]
        workers = [each for each in self.workers if each.is_serving]
        if not users or not workers:
            return
        user, worker = self.rng.choice(users), at or self.rng.choice(workers)
        channel, endpoint = user.channel, user.endpoint
        if user.former and self.rng.random() < 0.1:
            channel, endpoint = self.rng.choice(user.former)
        ttl = self.rng.choice([0, 2, 3600, 3600, 3600])
        topic = self.rng.choice(["", "", "", "a", "b"])
        urgency = self.rng.choice(["normal", "normal", *LEVELS])
        headers = {"ttl": str(ttl), "urgency": urgency, **({"topic": topic} if topic else {})}
        sent = self.loop.time()
        self._ask(
            worker,
            Request("POST", urlsplit(endpoint).path, "", headers, ""),
            partial(self._answered, user, channel, ttl, topic, urgency, sent),
        )

    def _remove(self) -> None:
        """Delete a message that was accepted."""
        workers = [each for each in self.workers if each.is_serving]
        accepted, delivered = self.history.accepted, self.history.delivered
        waiting = [version for version in accepted if version not in delivered]
        if accepted and workers:
            version = self.rng.choice(waiting or [*accepted])
            self.history.removing.add(version)
            request = Request("DELETE", f"/m/{version}", "", {}, "")
            self._ask(self.rng.choice(workers), request, partial(self._removed, version))

    def _ask(self, worker: Worker, request: Request, answered: Callable[[Response], None]) -> None:
        task = worker.ask(request)
        self.asked.append((worker, self.loop.time(), task))
        task.add_done_callback(lambda task: answered(task.result()), context=Context())

    def _answered(
        self,
        user: User,
        channel: str,
        ttl: int,
        topic: str,
        urgency: str,
        sent: float,
        response: Response,
    ) -> None:
        history, now = self.history, self.loop.time()
        if response.status == 201:
            version = msgspec.json.decode(response.body)["message-id"]
            history.accepted[version] = Accepted(
                version, user, channel, ttl, topic, urgency, sent, now
            )
        else:
            history.refused[response.status] = history.refused.get(response.status, 0) + 1
            if response.status == 410 and channel not in history.unregistering:
                history.wrong.append(f"user {user.name} was called gone at {now:.2f}")

    def _removed(self, version: str, response: Response) -> None:
        if response.status == 204:
            self.history.removed.setdefault(version, self.loop.time())

    # ── faults ───────────────────────────────────────────────────────────────────────────────────

    async def _go_wrong(self, end: float) -> None:
        kinds = [self._freeze, self._break_commits, self._slow_down, self._jump]
        if self.store_first:
            kinds.append(self._kill)  # without it a kill may lose what is not acked
        upgrades = [self._upgrade, self._fail_after_upgrade]
        kinds = [
            *self.rng.sample(kinds, 2),
            *self.rng.choice([[], upgrades[:1], upgrades[:1], upgrades]),
        ]
        while self.loop.time() < end:
            await asyncio.sleep(self.rng.uniform(1, 15))
            await self.rng.choice(kinds)()

    @contextmanager
    def _troubled(self, seconds: float = 0.0) -> Iterator[None]:
        """`seconds`: for which it may have effects afterwards."""
        began = self.loop.time()
        yield
        self.history.troubled.append((began, self.loop.time() + seconds))

    async def _kill(self) -> None:
        with self._troubled(5):
            await self._kill_one()

    async def _kill_one(self) -> None:
        worker = self.rng.choice(self.workers)
        if self.rng.random() < 0.5:
            worker = await self._answering(2) or worker
        self._note(f"kill {worker}")
        worker.kill()
        await asyncio.sleep(self.rng.uniform(0.1, 1.5))
        worker.version.restart(worker)

    async def _answering(self, seconds: float) -> Worker | None:
        """One that has calls of another to answer, as soon as there is one."""
        end = self.loop.time() + seconds
        while self.loop.time() < end:
            if busy := [each for each in self.workers if each.is_answering]:
                return self.rng.choice(busy)
            await asyncio.sleep(0.02)
        return None

    async def _freeze(self) -> None:
        with self._troubled(5):
            await self._freeze_one()

    async def _freeze_one(self) -> None:
        worker = self.rng.choice(self.workers)
        seconds = self.rng.choice([0.3, 1.9, 2.1, 5.0, 9.0])
        self._note(f"freeze {worker} for {seconds}")
        worker.is_stopped = True
        self.loop.stop_process(worker.process)
        for user in self.users:
            if worker.registry.find(user.uaid) and self.rng.random() < 0.5:
                user.give_up()  # it has no answer to its ping
        await asyncio.sleep(seconds)
        if self.store_first and self.rng.random() < 0.2:
            self._note(f"kill {worker}, which is frozen")
            worker.kill()
            worker.version.restart(worker)
            return
        worker.is_stopped = False
        self.loop.continue_process(worker.process)

    async def _upgrade(self) -> None:
        """Start the next version; other faults may come while it takes over."""
        old = self.versions[-1]
        if not old.ready.is_set() or old.is_retired or len(self.versions) > 2:
            return
        old.is_understood = self.rng.random() < 0.8
        new = Version(self, self._number, self.drain, old)
        self.versions.append(new)
        if self.rng.random() < 0.2:
            await asyncio.sleep(self.rng.uniform(0, 0.1))
            if not new.ready.is_set():
                self._note("the next version fails")
                self.versions.remove(new)
                new.kill()
                old.next_has_failed()
                return
        self._note("upgrade" if old.is_understood else "upgrade to another format")
        self._upgrades.append(asyncio.ensure_future(self._take_over(old, new)))
        if self.rng.random() < 0.6:
            await new.ready.wait()
            await asyncio.sleep(self.rng.choice([0.0, 0.01, 0.1]) * self.rng.random())
            await self.rng.choice(
                [self._freeze, self._kill if self.store_first else self._freeze]
            )()

    async def _take_over(self, old: Version, new: Version) -> None:
        await new.ready.wait()
        old.next_is_ready()

    async def _fail_after_upgrade(self) -> None:
        """The main process of the next version ends while this one is not at its end."""
        if len(self.versions) < 2:
            await self._upgrade()
        if len(self.versions) < 2:
            return
        old, new = self.versions[-2:]
        await new.ready.wait()
        await asyncio.sleep(self.rng.choice([0.0, 0.01, 0.1, 2.0]) * self.rng.random())
        if new is not self.versions[-1] or old.has_ended or new.is_retired or not old.is_retired:
            return
        self._note("the next version fails after it was ready")
        with self._troubled(20):  # workers stop, and others start
            new.main_process_fails()
            old.serve_again()

    async def _break_commits(self) -> None:
        self._note("commits fail")
        self.disk.failing = self.rng.choice([0.3, 1.0])
        with self._troubled(65):  # writes are repeated, with pauses up to a minute
            await asyncio.sleep(self.rng.uniform(0.1, 4))
        self.disk.failing = 0.0

    async def _slow_down(self) -> None:
        self._note("commits are slow")
        self.disk.slow = 1.0
        await asyncio.sleep(self.rng.uniform(1, 6))
        self.disk.slow = self.usual_slowness

    async def _jump(self) -> None:
        seconds = self.rng.choice([-2.0, 2.0])
        self._note(f"clock {seconds:+}")
        self.clock_offset += seconds

    def _note(self, what: str) -> None:
        self.history.faults.append(f"{self.loop.time():.2f} {what}")


class ClusterWorld(World):
    """Several nodes of one worker each, on a database that they share."""

    record_check_interval = 20.0

    USERS = 4

    def __init__(self, seed: int, *, nodes: int, store_first: bool):
        super().__init__(seed, workers=1, store_first=store_first)
        self.is_embedded = False
        self.network = Network(self)
        self._hosts = [f"node{number}0" for number in range(nodes)]
        self._clears_early = self.rng.random() < 0.3
        """Whether one node is of a version that takes a refusal for the end of the peer."""
        self._fails_over = self.rng.random() < 0.4
        self.has_filters = not self._fails_over
        for user in self.users:
            user.stays = self.rng.random() < 0.5

    @contextmanager
    def _determined(self) -> Iterator[None]:
        with super()._determined(), patch("autopush.net.link.dial", self.network.dial):
            yield

    def _start(self) -> None:
        for number in range(len(self._hosts)):
            early = self._clears_early and not number
            name = f"node{number}"
            self.versions.append(Version(self, 1, self.drain, name=name, clears_early=early))

    async def _go_wrong(self, end: float) -> None:
        kinds = [self._cut_link, self._cut_link]
        if self._fails_over:
            kinds += [self._fail_over, self._slow_down]
        else:
            kinds += [self._freeze, self._break_commits, self._jump]
            if self.store_first:
                kinds.append(self._kill)
        while self.loop.time() < end:
            await asyncio.sleep(self.rng.uniform(1, 15))
            await self.rng.choice(kinds)()
        if self.store_first and not self._fails_over:
            await self._die_cut_off()

    async def _die_cut_off(self) -> None:
        """A node that could not notify others of its messages ends, and nobody repeats that."""
        worker = self.rng.choice([each for each in self.workers if each.is_serving])
        pairs = [frozenset((worker.host, host)) for host in self._hosts if host != worker.host]
        self._note(f"{worker} is cut off, takes messages and ends")
        with self._troubled(self.record_check_interval + 15):
            for pair in pairs:
                self.network.fail(pair, Failure.REFUSED)
            for _ in range(4):
                self._push(worker)
            await asyncio.sleep(5)
            worker.kill()
            for pair in pairs:
                self.network.mend(pair)
            worker.version.restart(worker)

    async def _cut_link(self) -> None:
        one, other = self.rng.sample(self._hosts, 2)
        pair, failure = frozenset((one, other)), self.rng.choice([*Failure])
        seconds = self.rng.choice([0.5, 3.0, 8.0, 15.0])
        self._note(f"between {one} and {other}: {failure.value}, for {seconds}")
        with self._troubled(self.record_check_interval + 15):
            self.network.fail(pair, failure)
            await asyncio.sleep(seconds / 2)
            if self.store_first and not self._fails_over and self.rng.random() < 0.3:
                await self._kill_one()
            await asyncio.sleep(seconds / 2)
            self.network.mend(pair)

    async def _fail_over(self) -> None:
        """To a standby that has fallen behind."""
        if any(not user.endpoint for user in self.users):
            return  # who is not registered yet may lose all that it has
        lag, began = self.rng.uniform(0.1, 2.0), self.loop.time()
        standby = self.disk.snapshot()
        self._join()
        with self._troubled(15):
            await asyncio.sleep(lag)
            self._note(f"failover, {lag:.2f} s behind")
            self.disk.failing = 1.0
            await asyncio.sleep(self.rng.uniform(0.1, 3))
            self.disk.fail_over(standby, began)
            self.disk.failing = 0.0
        self.history.lost.append((began, self.loop.time()))

    def _join(self) -> None:
        """One more user agent, which registers now and stays."""
        user = User(self, len(self.users))
        user.stays = True
        self.users.append(user)
        user.connect()
