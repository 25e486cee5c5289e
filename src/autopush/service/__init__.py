"""Starting and stopping the service: sockets, keys, workers.

Rule: everything that can be wrong with a start is found before a worker serves, and said in one
line.
"""

import asyncio
import sys
import time
from collections.abc import Sequence

from autopush.keys import ServiceKeys, service_keys
from autopush.service.data_folder import prepare
from autopush.service.listeners import WorkerSockets, bind
from autopush.service.supervisor import STARTUP_FAILED, WorkerSlot, supervise
from autopush.service.worker import open_store, run_worker
from autopush.settings import Settings, StartupError
from autopush.telemetry import logs

__all__ = ["run"]

_log = logs.get("service")


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code.

    :raises StartupError: the start failed
    """
    prepare(settings.data)
    keys = service_keys(settings.crypto_key, settings.auth_key, settings.data)
    settings, sockets = bind(settings)
    announce_keys(keys)
    if settings.workers > 1:
        asyncio.run(try_store(settings))
    if settings.workers == 1:
        logs.go_background()
        return run_worker(settings, keys, sockets[0], on_ready=lambda: announce(settings))

    def start(slot: WorkerSlot) -> int:
        _close_all_but(sockets, slot.index)
        try:
            return run_worker(
                settings,
                keys,
                sockets[slot.index],
                index=slot.index,
                parent_pipe=slot.parent_pipe,
                on_ready=slot.report_ready,
            )
        except StartupError as error:
            print(f"autopush: {error}", file=sys.stderr, flush=True)
            return STARTUP_FAILED

    return supervise(start, settings.workers, on_ready=lambda _: announce(settings))


async def try_store(settings: Settings) -> None:
    """Open the store once before there are workers, so that what is wrong with it is said once.

    :raises StartupError: it cannot be opened
    """
    await (await open_store(settings, time.time)).close()


def announce(settings: Settings) -> None:
    """The one line that says the service is ready, on standard output whatever the logs do."""
    workers = "" if settings.workers == 1 else f" workers={settings.workers}"
    print(
        f"autopush ready: start page {settings.public_endpoint_url}/"
        f" · WebSocket {settings.public_websocket_url}"
        f" · node API {settings.node_host}:{settings.router_port}"
        f" · data {settings.data}{workers}",
        flush=True,
    )


def announce_keys(keys: ServiceKeys) -> None:
    """Tell the operator where new keys were put, and what is wrong with old ones."""
    for path in keys.made:
        _log.info("Made a new key; keep a copy in a safe place", file=str(path))
    for warning in keys.warnings:
        _log.warning(warning)


def _close_all_but(sockets: Sequence[WorkerSockets], index: int) -> None:
    for number, others in enumerate(sockets):
        if number != index:
            others.close()
