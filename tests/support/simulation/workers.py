"""The processes of a simulated service: workers, and the versions of it that an upgrade brings."""

import asyncio
import socket
from collections.abc import Awaitable
from contextlib import suppress
from contextvars import Context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from autopush.api.app import EndpointApp
from autopush.delivery.calls import Outcome
from autopush.delivery.connected import Registry
from autopush.delivery.moving import FORMAT, Moved
from autopush.delivery.node import ConnectionNode
from autopush.delivery.peers import Nodes
from autopush.delivery.user_agent import UserAgentConnection
from autopush.keys import ServiceKeys
from autopush.net.http_messages import Limits, Request, Response
from autopush.net.http_server import HttpServer
from autopush.net.siblings import (
    PREDECESSOR,
    SUCCESSOR,
    Adoption,
    Sibling,
    Siblings,
    add_successors,
    report_ended,
    socket_pairs,
)
from autopush.net.timers import TimerWheel
from autopush.service.compose import IO, compose
from autopush.store import PushStore, TablePlan
from autopush.webpush.tokens import KeyRing, new_key
from support.connection_harness import UNLIMITED
from support.recorded import new_metrics
from support.simulation.committing_engine import CommittingEngine
from support.simulation.virtual_loop import Process

if TYPE_CHECKING:
    from support.simulation.world import World

SILENT_AFTER = 2.0
SETTINGS = replace(
    UNLIMITED,
    command="serve",
    no_cors=True,
    hello_timeout=30.0,
    auto_ping_interval=300.0,
    max_notification_ttl=1_000_000,
    max_requests=1000,
)

_METRICS = new_metrics()
_KEYS = ServiceKeys((new_key(),), (new_key(),))
RING = KeyRing(_KEYS.crypto)


class _Immovable(UserAgentConnection):
    """As one over TLS of our own."""

    __slots__ = ()

    @property
    def can_move(self) -> bool:
        return False


class _EarlierNodes(Nodes):
    async def _call(self, *call: Any, **options: Any) -> Outcome:
        answer = await super()._call(*call, **options)
        return Outcome.GONE if answer is Outcome.REFUSED else answer


def _speak_another_format(sibling: Sibling, version: "Version") -> None:
    """Have a successor get another format, as long as the version is not understood."""
    hand_over = sibling.hand_over

    def hand_over_formatted(descriptor: int, state: bytes) -> Awaitable[Adoption]:
        if not version.is_understood:
            moved = msgspec.msgpack.decode(state, type=Moved)
            state = msgspec.msgpack.encode(msgspec.structs.replace(moved, format=FORMAT + 1))
        return hand_over(descriptor, state)

    sibling.hand_over = hand_over_formatted  # type: ignore[method-assign]


class Worker:
    """One process in the place `index`."""

    def __init__(self, version: "Version", index: int) -> None:
        self.version, self.index = version, index
        self.world = world = version.world
        self.process: Process
        self.context: Context
        self.process, self.context = world.loop.new_process()
        self.is_accepting = self.is_serving = self.is_stopped = self.has_ended = False
        self.instance = version.instances[index]
        self.host = f"{version.name}{index}"
        self._ends = {other: end.dup() for other, end in version.ends[index].items()}
        self.sockets: list[socket.socket] = []
        """All connections that it has got."""
        self._retiring: asyncio.Future[Any] | None = None
        self.registry: Registry
        self.node: ConnectionNode
        self.app: EndpointApp
        self.context.run(world.loop.create_task, self._start())

    def __str__(self) -> str:
        return f"{self.index} of {self.instance}"

    @property
    def can_connect(self) -> bool:
        return self.is_accepting and not self.is_stopped

    @property
    def is_answering(self) -> bool:
        return self.is_serving and any(sibling._answering for sibling in self._siblings.values())

    async def _start(self) -> None:
        world, index = self.world, self.index
        loop, clock = world.loop, world.clock
        wheel = TimerWheel(loop, tick=0.1, clock=loop.time)
        self._siblings = siblings = Siblings.on(
            self._ends, wheel, silent_after=SILENT_AFTER, monotonic=loop.time, wait=lambda: 0.0
        )
        if (successor := siblings.get(SUCCESSOR)) is not None:
            _speak_another_format(successor, self.version)
        store = await PushStore.open(
            CommittingEngine(world.disk, clock),
            TablePlan(),
            key_hash="",
            clock=clock,
            metrics=_METRICS,
        )
        settings = replace(
            SETTINGS,
            workers=len(self.version.ends),
            store="" if world.is_embedded else SETTINGS.store,
            direct_delivery="store-first" if world.store_first else "bypass",
            record_check_interval=world.record_check_interval,
        )
        io = IO(
            store=store,
            metrics=_METRICS,
            keys=_KEYS,
            wheel=wheel,
            clock=clock,
            monotonic=loop.time,
            uniform=world.rng.uniform,
            index=index,
            instance=self.instance,
            node_url=f"http://{self.host}:1",
            siblings=siblings,
            sibling_urls={
                f"http://{self.version.name}{each}:1": each for each in self._ends if each >= 0
            },
            is_alone=lambda: True,
            make_nodes=_EarlierNodes if self.version.clears_early else Nodes,
        )
        self._parts = parts = compose(settings, io)
        assert parts.websockets is not None
        assert parts.endpoint is not None
        self.registry, self.node, self.app = (
            parts.registry,
            parts.websockets.node,
            parts.endpoint.app,
        )
        refuse = cast(Any, None)  # a defect would show as one
        self._links = HttpServer(
            parts.websockets.node_port,
            limits=Limits(max_body=1 << 20, idle_timeout=600.0),
            wheel=wheel,
            error_response=refuse,
            on_crash=refuse,
            clock=clock,
        )
        siblings.start(parts.sibling_ports, self._adopt)
        if world.record_check_interval:
            loop.create_task(self.node.presence.run())
        if (predecessor := siblings.get(PREDECESSOR)) is not None:
            await predecessor.wait_until_known(SILENT_AFTER)
        self.is_serving = self.is_accepting = True
        self.version.worker_is_ready()
        if self.version.is_retired:
            self.retire()

    def _adopt(self, sock: socket.socket, state: bytes) -> Adoption:
        self.sockets.append(sock)
        return self._parts.movers.adopt(self.node, sock, state)

    def accept(self, sock: socket.socket) -> None:
        """A user agent's connection, after the upgrade."""
        self.sockets.append(sock)
        self.node.connection_limits.take_over("")
        client = self.node.clients.find("", "")
        is_movable = self.world.rng.random() > self.world.immovable
        connection = (UserAgentConnection if is_movable else _Immovable)(self.node, client, "")
        arriving = self.world.loop.connect_accepted_socket(lambda: connection, sock)
        self.context.run(self.world.loop.create_task, arriving)

    def accept_link(self, sock: socket.socket) -> None:
        """Another node's connection to the router port."""
        self.sockets.append(sock)
        arriving = self.world.loop.connect_accepted_socket(self._links.protocol, sock)
        self.context.run(self.world.loop.create_task, arriving)

    def ask(self, request: Request) -> "asyncio.Task[Response]":
        return self.world.loop.create_task(self.app.respond(request), context=self.context)

    def retire(self) -> None:
        """The next version is ready. One that starts retires when it serves."""
        if self.is_serving:
            self.context.run(self.world.loop.create_task, self._retire())

    async def _retire(self) -> None:
        async def close_idle(_seconds: float) -> None:
            """Senders of the simulation have no connections."""

        self._retiring = asyncio.ensure_future(
            self._parts.hand_over.run(self.version.drain, self._stop_accepting, close_idle)
        )
        with suppress(asyncio.CancelledError):  # it is to stop at once
            await self._retiring
        await self._stop()

    def _stop_accepting(self) -> None:
        self.is_accepting = False

    def stop(self) -> None:
        """As on SIGTERM."""
        if self._retiring is not None:
            self._retiring.cancel()
        elif self.is_serving:
            self.is_accepting = False
            self.context.run(self.world.loop.create_task, self._stop())
        else:  # it starts
            self._end()

    async def _stop(self) -> None:
        self.is_serving = False
        asked = [task for worker, _, task in self.world.asked if worker is self]
        if asked:
            await asyncio.wait(asked, timeout=5)
        await self._parts.movers.finish()
        await self.node.shutdown(15)
        await self._parts.nodes.finish(5)
        self._parts.nodes.close()
        self._siblings.close()
        self.world.loop.call_soon(self._end, context=Context())

    def _end(self) -> None:
        self.kill()
        self.version.restart(self)

    def kill(self) -> None:
        if self.has_ended:
            return
        self.is_accepting = self.is_serving = False
        self.has_ended = True
        self.world.loop.kill_process(self.process, [*self.sockets, *self._ends.values()])
        self.world.ended(self.version)


class Version:
    """The main process of a version of the service, and its workers.

    `predecessor`: the version that has started it. `drain`: seconds in which it closes what it
    cannot hand over to the next one. `name`: of the machine. `clears_early`: as an earlier version,
    which takes a refusal for the end of a node.
    """

    def __init__(
        self,
        world: "World",
        workers: int,
        drain: float,
        predecessor: "Version | None" = None,
        *,
        name: str = "worker",
        clears_early: bool = False,
    ) -> None:
        self.world, self.drain = world, drain
        self.name, self.clears_early = name, clears_early
        self.ends = socket_pairs(workers)
        self._successors = add_successors(self.ends)
        self.instances = [world.new_instance() for _ in self.ends]
        if predecessor is not None:
            self.instances = list(predecessor.instances)
            for own, end in zip(self.ends, predecessor._successors, strict=True):
                own[PREDECESSOR] = end.dup()
        self.is_retired = False
        self.is_understood = True
        """Whether the next version knows the format of its connections."""
        self.ready = asyncio.Event()
        self.workers = [Worker(self, index) for index in range(workers)]

    @property
    def has_ended(self) -> bool:
        return all(worker.has_ended for worker in self.workers)

    def worker_is_ready(self) -> None:
        if all(worker.is_serving for worker in self.workers):
            self.ready.set()

    def restart(self, worker: "Worker") -> None:
        """Put another in the place of one that has ended."""
        if not self.is_retired and self.workers[worker.index] is worker:
            self.instances[worker.index] = self.world.new_instance()
            self.workers[worker.index] = Worker(self, worker.index)

    def next_is_ready(self) -> None:
        self.is_retired = True
        for sock in self._successors:
            sock.close()
        for worker in self.workers:
            worker.retire()

    def next_has_failed(self) -> None:
        for sock in self._successors:
            report_ended(sock)

    def main_process_fails(self) -> None:
        """Its workers stop, and none is put in their places."""
        self.is_retired = True
        for sock in self._successors:
            sock.close()
        for worker in self.workers:
            worker.stop()

    def serve_again(self) -> None:
        """The next version has failed after it was ready: others take the places of the workers."""
        self.is_retired, self.is_understood = False, True
        self._successors = add_successors(self.ends)
        for worker in self.workers:
            if worker.has_ended:
                self.restart(worker)
            else:
                worker.stop()

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()
        self.close()

    def close(self) -> None:
        for ends in self.ends:
            for end in ends.values():
                end.close()
        for sock in self._successors:
            sock.close()
