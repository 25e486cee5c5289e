"""The processes of a simulated service: workers, and the versions of it that an upgrade brings."""

import asyncio
import socket
from collections.abc import Awaitable
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from autopush.api.app import CommonHeaders, EndpointApp
from autopush.api.forwarding import ENDPOINT, Forwarding
from autopush.api.node_ports import NodeApi, NodePort, SiblingPort
from autopush.api.push import DeleteHandler, PushHandler, PushMetrics
from autopush.api.request_log import RequestLog
from autopush.api.responses import ErrorResponses
from autopush.delivery.bridged import Bridges
from autopush.delivery.connected import Registry
from autopush.delivery.moving import FORMAT, HAND_OVER_TIMEOUT, Moved, Movers
from autopush.delivery.node import ConnectionNode
from autopush.delivery.peers import NODE, RELAY, NodeAnswer, Nodes
from autopush.delivery.placement import Placement
from autopush.delivery.router import UserAgentRouter
from autopush.delivery.user_agent import UserAgentConnection
from autopush.delivery.versions import NEWER, OLDER, OtherVersions
from autopush.limits import (
    GoneLimits,
    LimitRefusals,
    PushLimits,
    TokenBuckets,
    UserAgentLimits,
)
from autopush.net.client_limits import BufferedBytes, ConnectionLimits, TrustedProxies
from autopush.net.http_messages import NO_HEADERS, Limits, Request, Response
from autopush.net.http_server import HttpServer
from autopush.net.node_auth import Sessions
from autopush.net.siblings import (
    PREDECESSOR,
    SUCCESSOR,
    Answering,
    Siblings,
    add_successors,
    report_ended,
    socket_pairs,
)
from autopush.net.timers import TimerWheel
from autopush.protocol.session import Rules
from autopush.store import PushStore, TablePlan
from autopush.store.push_store import UNUSED_UAID
from autopush.telemetry.metric_table import NODE_TIMEOUT
from autopush.webpush.identifiers import IdFactory
from autopush.webpush.tokens import EndpointTokens, KeyRing, new_key
from autopush.webpush.vapid import Verifier
from support.node_server import KEYS
from support.recorded import new_metrics
from support.simulation.committing_engine import CommittingEngine
from support.simulation.virtual_loop import Process

if TYPE_CHECKING:
    from support.simulation.world import World

URL = "https://push.example"
SILENT_AFTER = 2.0
RULES = Rules(hello_timeout=30.0, auto_ping_interval=300.0)

_METRICS = new_metrics()
RING = KeyRing([new_key()])
_TOKENS = EndpointTokens(RING, URL)


class _Immovable(UserAgentConnection):
    """As one over TLS of our own."""

    __slots__ = ()

    @property
    def can_move(self) -> bool:
        return False


class _EarlierNodes(Nodes):
    async def _call(self, *call: Any, **options: Any) -> NodeAnswer:
        answer = await super()._call(*call, **options)
        return NodeAnswer.UNREACHABLE if answer is NodeAnswer.REFUSED else answer


class _VersionSiblings(Siblings):
    """Of a worker of `version`, whose successor may know another format only."""

    version: "Version"

    def hand_over(self, index: int, descriptor: int, state: bytes) -> Awaitable[Response]:
        if index == SUCCESSOR and not self.version.is_understood:
            moved = msgspec.msgpack.decode(state, type=Moved)
            state = msgspec.msgpack.encode(msgspec.structs.replace(moved, format=FORMAT + 1))
        return super().hand_over(index, descriptor, state)


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
        self.registry = Registry(world.clock)
        self._ends = {other: end.dup() for other, end in version.ends[index].items()}
        self.sockets: list[socket.socket] = []
        """All connections that it has got."""
        self._retiring: asyncio.Future[Any] | None = None
        self.context.run(world.loop.create_task, self._start())

    def __str__(self) -> str:
        return f"{self.index} of {self.instance}"

    @property
    def can_connect(self) -> bool:
        return self.is_accepting and not self.is_stopped

    @property
    def is_answering(self) -> bool:
        return self.is_serving and any(
            sibling._answering for sibling in self._siblings._siblings.values()
        )

    async def _start(self) -> None:
        world, index = self.world, self.index
        loop, clock = world.loop, world.clock
        wheel = TimerWheel(loop, tick=0.1, clock=loop.time)
        self._siblings = siblings = _VersionSiblings(
            self._ends, wheel, silent_after=SILENT_AFTER, monotonic=loop.time, wait=lambda: 0.0
        )
        siblings.version = self.version
        store = await PushStore.open(
            CommittingEngine(world.disk, clock),
            TablePlan(),
            key_hash="",
            clock=clock,
            metrics=_METRICS,
        )
        nodes_type = _EarlierNodes if self.version.clears_early else Nodes
        self._nodes = nodes = nodes_type(
            f"http://{self.host}:1/i/{self.instance}",
            self.registry,
            wheel,
            _METRICS,
            keys=KEYS,
            connect_timeout=1,
            siblings=siblings,
            sibling_urls={
                f"http://{self.version.name}{each}:1": each for each in self._ends if each >= 0
            },
            others=OtherVersions(siblings),
        )
        self._placement = placement = Placement(store, index, len(self.version.ends))
        self._movers = movers = Movers(siblings)
        refusals = LimitRefusals(_METRICS)
        self.node = ConnectionNode(
            store=store,
            metrics=_METRICS,
            nodes=nodes,
            registry=self.registry,
            tokens=_TOKENS,
            rules=RULES,
            limits=UserAgentLimits(refusals, TokenBuckets(None)),
            wheel=wheel,
            clock=clock,
            connection_limits=ConnectionLimits(TrustedProxies(())),
            buffered=BufferedBytes(),
            placement=placement,
            move_with_hello=movers.move_with_hello,
            record_check_interval=world.record_check_interval,
            probe=partial(store.users.get, UNUSED_UAID),
            monotonic=loop.time,
            uniform=world.rng.uniform,
        )
        bridges = Bridges({}, store, _METRICS)
        requests = RequestLog(_TOKENS, ErrorResponses(URL), store.uaid_hash)
        unused = cast(Any, None)
        push = PushHandler(
            tokens=_TOKENS,
            verifier=Verifier(URL),
            router=UserAgentRouter(
                store, self.registry, nodes, bridges, _METRICS, store_first=world.store_first
            ),
            bridges=bridges,
            limits=PushLimits(refusals),
            gone=GoneLimits(refusals, None),
            ring=RING,
            ids=IdFactory(clock),
            clock=clock,
            metrics=PushMetrics(_METRICS),
            requests=requests,
            max_ttl=1_000_000,
            max_data=4096,
            block=NO_HEADERS,
            receipts=unused,
        )
        self.app = EndpointApp(
            push=push,
            simplepush=unused,
            delete=DeleteHandler(store, PushLimits(refusals), RING, NO_HEADERS),
            receipts=unused,
            registration=unused,
            dockerflow=unused,
            log_check=unused,
            pages=unused,
            requests=requests,
            headers=CommonHeaders(cors=False, hsts_max_age=0),
            clients=None,
            websocket_url=URL,
            max_requests=1000,
            forwarding=Forwarding(
                placement, siblings, _TOKENS, RING, _METRICS.counter(NODE_TIMEOUT)
            ),
        )
        ports: dict[str, Answering] = {
            RELAY: nodes.relay,
            ENDPOINT: self.app.respond_here,
            NODE: SiblingPort(
                NodeApi(self.registry, RING, OtherVersions(siblings)), f"/i/{self.instance}"
            ),
        }
        for port, direction in ((OLDER, PREDECESSOR), (NEWER, SUCCESSOR)):
            others = OtherVersions(siblings, (direction,))
            ports[port] = SiblingPort(NodeApi(self.registry, RING, others))
        api = NodeApi(self.registry, RING, OtherVersions(siblings))
        refuse = cast(Any, None)  # a defect would show as one
        self._links = HttpServer(
            NodePort(api, Sessions(KEYS, self.instance), unused, ErrorResponses(URL)),
            limits=Limits(max_body=1 << 20, idle_timeout=600.0),
            wheel=wheel,
            error_response=refuse,
            on_crash=refuse,
            clock=clock,
        )
        siblings.start(ports, self._adopt)
        if world.record_check_interval:
            loop.create_task(self.node.presence.run())
        await siblings.wait_for(PREDECESSOR, SILENT_AFTER)
        self.is_serving = self.is_accepting = True
        self.version.worker_is_ready()
        if self.version.is_retired:
            self.retire()

    def _adopt(self, sock: socket.socket, state: bytes) -> int:
        self.sockets.append(sock)
        return self._movers.adopt(self.node, sock, state)

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
        self.is_accepting = False
        self._placement.retire()
        self._nodes.retire()
        self._retiring = asyncio.gather(
            self._movers.retire(self.node, self.version.drain),
            asyncio.sleep(SILENT_AFTER),
            self._siblings.wait_for_end(PREDECESSOR, self.version.drain + HAND_OVER_TIMEOUT),
        )
        with suppress(asyncio.CancelledError):  # it is to stop at once
            await self._retiring
        await self._stop()

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
        await self._movers.finish()
        await self.node.shutdown(15)
        await self._nodes.finish(5)
        self._nodes.close()
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
