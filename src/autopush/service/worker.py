"""One worker: the connection node and the endpoint node in one process, on one loop.

Rule: this is the only place where the parts are put together; everything is passed in, nothing is
global.
"""

import asyncio
import gc
import resource
import signal
import time
from collections.abc import Callable
from typing import Any, Final

import uvloop

from autopush import answers
from autopush.clock import Clock
from autopush.connection.front import Front
from autopush.connection.node import ConnectionNode
from autopush.connection.node_api import NodeApi
from autopush.connection.registry import Registry
from autopush.dockerflow import Dockerflow
from autopush.keys import ServiceKeys
from autopush.net.http import HttpServer
from autopush.net.http_messages import Handler, Limits, Request
from autopush.net.timers import TimerWheel
from autopush.protocol.session import Rules
from autopush.routing.nodes import Nodes
from autopush.routing.webpush import WebPushRouter
from autopush.service.listeners import BACKLOG, WorkerSockets
from autopush.settings import Settings, StartupError
from autopush.store import PushStore
from autopush.telemetry import logs
from autopush.web.app import EndpointApp
from autopush.web.cors import CommonHeaders
from autopush.web.message import MessageHandler
from autopush.web.push import PushHandler
from autopush.web.start_page import StartPage
from autopush.webpush.endpoint_token import EndpointTokens
from autopush.webpush.keyring import KeyRing
from autopush.webpush.message_id import IdFactory
from autopush.webpush.vapid import Verifier
from tablestore import TablestoreError
from tablestore.sqlite import SqliteEngine

STORE_FILE: Final = "autopush.sqlite"
REQUESTS_END: Final = 5.0
SOCKETS_END: Final = 15.0
MAX_NODE_BODY: Final = 512 * 1024
TOKENS_REMEMBERED: Final = 8192

_log = logs.get("worker")


def run_worker(
    settings: Settings,
    keys: ServiceKeys,
    sockets: WorkerSockets,
    *,
    on_ready: Callable[[], None],
    index: int = 0,
    parent_pipe: int | None = None,
) -> int:
    """Serve until SIGTERM, SIGINT or the end of `parent_pipe`; returns the exit code."""
    _raise_file_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings, keys, sockets, on_ready, index, parent_pipe))


async def _serve(
    settings: Settings,
    keys: ServiceKeys,
    sockets: WorkerSockets,
    on_ready: Callable[[], None],
    index: int,
    parent_pipe: int | None,
) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(report_loop_error)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if parent_pipe is not None:
        loop.add_reader(parent_pipe, stop.set)
    clock = time.time
    store = await open_store(settings, clock)
    worker = Worker(settings, keys, sockets, store, index=index, clock=clock)
    await worker.start()
    # What lives from now until the end is not looked at again by the garbage collector.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    on_ready()
    await stop.wait()
    await worker.stop()
    await store.close()
    return 0


async def open_store(settings: Settings, clock: Clock) -> PushStore:
    """Open the embedded store in the data folder.

    :raises StartupError: it cannot be opened
    """
    try:
        engine = await SqliteEngine.open(settings.data / STORE_FILE, clock=clock)
        return await PushStore.open(
            engine,
            router_tablename=settings.router_tablename,
            message_tablename=settings.message_tablename,
            key_hash=settings.key_hash,
            clock=clock,
        )
    except TablestoreError as error:
        raise StartupError(f"cannot open the store in {settings.data}: {error}") from error


class Worker:
    """The parts of one worker, wired."""

    def __init__(
        self,
        settings: Settings,
        keys: ServiceKeys,
        sockets: WorkerSockets,
        store: PushStore,
        *,
        index: int,
        clock: Clock,
    ) -> None:
        self._sockets = sockets
        self.wheel = TimerWheel(asyncio.get_running_loop())
        self._servers: list[asyncio.Server] = []
        ring = KeyRing(keys.crypto)
        tokens = EndpointTokens(ring, settings.public_endpoint_url, TOKENS_REMEMBERED)
        ids = IdFactory(clock, index, settings.workers)
        registry = Registry()
        own_port = sockets.router.getsockname()[1]
        self.nodes = Nodes(
            f"http://{settings.node_host}:{own_port}",
            registry,
            self.wheel,
            settings.connection_timeout,
        )
        self.connections = ConnectionNode(
            store=store,
            nodes=self.nodes,
            registry=registry,
            tokens=tokens,
            rules=Rules(
                max_unacked=settings.max_unacked,
                msg_limit=settings.msg_limit,
                auto_ping_interval=settings.auto_ping_interval,
                env=settings.env,
            ),
            wheel=self.wheel,
            clock=clock,
            hello_timeout=settings.hello_timeout,
            auto_ping_timeout=settings.auto_ping_timeout,
            close_timeout=settings.close_handshake_timeout,
            max_connections=settings.max_connections,
        )
        router = WebPushRouter(
            store, registry, self.nodes, store_first=settings.direct_delivery == "store-first"
        )
        headers = CommonHeaders(cors=not settings.no_cors, hsts_max_age=settings.hsts_max_age)
        dockerflow = Dockerflow(store, lambda: len(registry.sockets))
        push = PushHandler(
            tokens=tokens,
            verifier=Verifier(settings.public_endpoint_url),
            router=router,
            ring=ring,
            ids=ids,
            clock=clock,
            max_ttl=settings.max_notification_ttl,
            max_data=settings.max_data,
            block=headers.push,
        )
        app = EndpointApp(
            push=push,
            message=MessageHandler(store, ring, headers.message),
            dockerflow=dockerflow,
            start_page=StartPage(
                endpoint_url=settings.public_endpoint_url,
                websocket_url=settings.public_websocket_url,
            ),
            headers=headers,
            max_requests=settings.max_requests,
        )
        front = Front(
            self.connections,
            dockerflow,
            settings.public_websocket_url,
            f"{settings.public_endpoint_url}/",
        )
        self._endpoint = self._http(app, Limits(max_body=max(65_536, 2 * settings.max_data)))
        self._front = self._http(front, Limits(max_body=4096))
        self._node_api = self._http(
            NodeApi(registry, store, ring, dockerflow),
            Limits(max_body=MAX_NODE_BODY, idle_timeout=3600),
        )

    async def start(self) -> None:
        """Accept connections on all three ports."""
        loop = asyncio.get_running_loop()
        for http, sock in (
            (self._front, self._sockets.websocket),
            (self._endpoint, self._sockets.endpoint),
            (self._node_api, self._sockets.router),
        ):
            server = await loop.create_server(http.protocol, sock=sock, backlog=BACKLOG)
            self._servers.append(server)

    async def stop(self) -> None:
        """Stop accepting, finish the requests in progress, close the sockets, save what is
        unacked.
        """
        for server in self._servers:
            server.close()
        await self._endpoint.shutdown(REQUESTS_END)
        await self.connections.shutdown(SOCKETS_END)
        await self._front.shutdown(0)
        await self._node_api.shutdown(REQUESTS_END)
        self.nodes.close()
        self.wheel.close()

    def _http(self, handler: Handler, limits: Limits) -> HttpServer:
        return HttpServer(
            handler,
            limits=limits,
            wheel=self.wheel,
            error_response=answers.protocol_error,
            on_crash=_crashed,
        )


def _crashed(error: Exception, request: Request) -> None:
    # The path may hold an endpoint, which is a secret: only its first segment is told.
    where = "/".join(request.path.split("/")[:2])
    _log.exception("Request failed", error=error, method=request.method, path=where)


def report_loop_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what reached the event loop. Its own message would show callbacks with their arguments:
    user agents, rows, messages.
    """
    error = context.get("exception")
    if error is not None:
        _log.exception("Unhandled error on the event loop", error=error)
    else:
        _log.error("Complaint of the event loop", complaint=context.get("message", ""))


def _raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
