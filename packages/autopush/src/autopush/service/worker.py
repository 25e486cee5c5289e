"""The process of a worker: event loop, signals and shutdown."""

import asyncio
import gc
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

from autopush.service.app import ServiceContext, Worker
from autopush.service.listeners import raise_limit
from autopush.service.reload import Reloading, reload_at, reload_from
from autopush.service.storage import open_store, parts_of_worker
from autopush.service.store_watch import StoreWatch
from autopush.service.upgrade import ServiceUpgrade
from autopush.store.failures import StoreFailures
from autopush.telemetry import logs
from autopush.telemetry.process import DescriptorShortage, is_shortage

SHUTDOWN_TIMEOUT: Final = 28.0
"""Seconds until a shutdown is cut short if the store hangs: 2 less than `GRACE_PERIOD`."""
SHUTDOWN_CUT_SHORT: Final = 1
"""Exit code of a shutdown that was cut short."""
SERVE_AGAIN: Final = -1
"""In place of an exit code: the next version has failed before this one has ended, so a worker has
to serve in this process again.
"""

_log = logs.get(__name__)


async def serve(
    service: ServiceContext,
    index: int,
    on_ready: Callable[[], None],
    *,
    parent_pipe: int | None = None,
    reloads: Reloading | socket.socket,
    has_reloaded: bool = False,
    upgrade: ServiceUpgrade | None = None,
) -> int:
    """Serve as the worker of that index until SIGTERM, SIGINT or the end of `parent_pipe`; returns
    the exit code.

    `reloads`: reloads at SIGHUP; one of several workers takes what comes from the main process, and
    before serving reads the certificates again if there was a reload. SIGUSR2 begins the `upgrade`;
    in one of several workers it says that the next version is ready. Then this one ends when it has
    no clients, at most `upgrade_drain` seconds later, or with `SERVE_AGAIN`.
    """
    raise_limit()
    loop = asyncio.get_running_loop()
    shortage = DescriptorShortage()
    loop.set_exception_handler(loop_error_handler(shortage))
    hangup = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, hangup.set)
    # An earlier SIGHUP is delivered now: it was blocked since the start of the program.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
    clock = service.clock
    metrics = service.metrics.of_worker(index)
    failures = StoreFailures(metrics)
    store = await open_store(
        service.settings,
        clock,
        metrics,
        failures.note,
        parts_of_worker(index, service.settings.workers),
    )
    # From here on a shutdown has work to finish; an earlier signal ends the process.
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if parent_pipe is not None:
        loop.add_reader(parent_pipe, stop.set)
    next_is_ready = asyncio.Event()
    if has_reloaded:
        await asyncio.to_thread(service.certificates.reload, clock())
    worker = Worker(service, index, metrics, store, clock, shortage)
    await worker.start()
    watch = StoreWatch(
        store, failures, service.settings, metrics, clock=clock, reports_disk=index == 0
    )
    watching = loop.create_task(watch.run())
    if isinstance(reloads, Reloading):
        reloading = loop.create_task(reload_at(hangup, reloads, worker))
    else:
        reloading = loop.create_task(reload_from(reloads, worker))
    # What exists now lives until the end: the garbage collector need not scan it again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    worker.process.set_ready(True)  # before the service is announced
    on_ready()
    failed = asyncio.Event()
    if upgrade is None:
        loop.add_signal_handler(signal.SIGUSR2, next_is_ready.set)
    else:
        begin = upgrade.begin_on
        loop.add_signal_handler(signal.SIGUSR2, begin, loop, next_is_ready.set, failed.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])  # as SIGHUP
    stopping = [loop.create_task(each.wait()) for each in (stop, failed)]
    handing_over = loop.create_task(
        _hand_over_at(next_is_ready, worker, service.settings.upgrade_drain)
    )
    await asyncio.wait([*stopping, handing_over], return_when=asyncio.FIRST_COMPLETED)
    if handing_over.done() and (error := handing_over.exception()) is not None:
        _log.exception("The connections could not be handed over", error=error)
    handing_over.cancel()
    if upgrade is not None:
        upgrade.cancel()
    cut_short = _end_process_after(SHUTDOWN_TIMEOUT)
    worker.process.set_ready(False)
    reloading.cancel()
    watching.cancel()
    # What the next version listens on too is kept: it may fail until this one has ended.
    await worker.stop(keep_sockets=not stop.is_set())
    await store.close()
    if stop.is_set() or not failed.is_set():
        return 0
    cut_short.cancel()
    # Until the next worker handles them: they would end the process.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP, signal.SIGUSR2])
    return SERVE_AGAIN


async def _hand_over_at(begin: asyncio.Event, worker: Worker, seconds: float) -> None:
    await begin.wait()
    await worker.hand_over(seconds)


def _end_process_after(seconds: float) -> threading.Timer:
    """End this process even if a thread of the store, or the loop, waits for a stuck disk."""
    timer = threading.Timer(seconds, _end_process)
    timer.daemon = True
    timer.start()
    return timer


def _end_process() -> None:
    _log.error("The shutdown did not end in time and is cut short", seconds=SHUTDOWN_TIMEOUT)
    logs.shutdown()
    os._exit(SHUTDOWN_CUT_SHORT)


def loop_error_handler(
    shortage: DescriptorShortage,
) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """An exception handler that logs no arguments of callbacks: user agents, rows, messages."""

    def log_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and is_shortage(error):
            shortage.note(error)
        elif error is not None:
            _log.exception("Unhandled error on the event loop", error=error)
        else:
            _log.error("Error reported by the event loop", reason=context.get("message", ""))

    return log_error
