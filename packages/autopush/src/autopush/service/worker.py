"""One worker: the nodes that its command wants, in one process, on one loop.

Rule: this is the only place where the parts are put together.
"""

import asyncio
import gc
import resource
import signal
import time
from collections.abc import Callable
from typing import Any, Final

import uvloop

from autopush.clock import Clock
from autopush.keys import ServiceKeys
from autopush.service.connection_part import ConnectionPart
from autopush.service.endpoint_part import EndpointPart
from autopush.service.listeners import BACKLOG, Sockets
from autopush.service.months import keep_turning
from autopush.service.opening import open_store
from autopush.service.parts import Part, Shared
from autopush.settings import Settings
from autopush.store import PushStore
from autopush.telemetry import logs

CHECKS_END: Final = 5.0

_log = logs.get("worker")


def run_worker(
    settings: Settings,
    keys: ServiceKeys,
    sockets: Sockets,
    *,
    on_ready: Callable[[], None],
    parent_pipe: int | None = None,
) -> int:
    """Serve until SIGTERM, SIGINT or the end of `parent_pipe`; returns the exit code."""
    _raise_file_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings, keys, sockets, on_ready, parent_pipe))


async def _serve(
    settings: Settings,
    keys: ServiceKeys,
    sockets: Sockets,
    on_ready: Callable[[], None],
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
    worker = Worker(settings, keys, sockets, store, clock=clock)
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


class Worker:
    """The parts of one worker, wired."""

    def __init__(
        self,
        settings: Settings,
        keys: ServiceKeys,
        sockets: Sockets,
        store: PushStore,
        *,
        clock: Clock,
    ) -> None:
        own_id = ""
        if settings.has_sockets:
            own_id = settings.node_url(sockets["router"].getsockname()[1])
        self._shared = Shared(settings, keys, store, clock, own_id)
        # In the order in which they finish: what the endpoint still delivers, the node still saves.
        self._parts: list[Part] = []
        if settings.has_endpoint:
            self._parts.append(EndpointPart(self._shared, sockets))
        if settings.has_sockets:
            self._parts.append(ConnectionPart(self._shared, sockets))
        self._servers: list[asyncio.Server] = []
        self._months: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Accept connections on all ports."""
        loop = asyncio.get_running_loop()
        self._months = loop.create_task(keep_turning(self._shared.store.rotate))
        for part in self._parts:
            for http, sock in part.servers:
                server = await loop.create_server(http.protocol, sock=sock, backlog=BACKLOG)
                self._servers.append(server)

    async def stop(self) -> None:
        """Stop accepting, finish the requests in progress, close the sockets, save what is
        unacked.
        """
        for server in self._servers:
            server.close()
        if self._months is not None:
            self._months.cancel()
        for part in self._parts:
            await part.finish()
        await self._shared.nodes.finish(CHECKS_END)
        self._shared.close()


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
