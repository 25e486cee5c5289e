"""Status pages: `/status`, `/health` and the three of Dockerflow.

What `/health` says is true of the whole service, whichever of its workers answers: numbers are
summed over all workers, and one that is missing is a failure.

Rule: only `/health` and `/__heartbeat__` touch the store; a load balancer may request the others at
any rate.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import orjson

from autopush.api import responses
from autopush.net.http_messages import Request, Response
from autopush.store import PushStore
from autopush.store.health import StoreHealth
from autopush.telemetry import logs
from autopush.telemetry.metric_table import CONNECTIONS, REQUESTS_IN_FLIGHT
from autopush.telemetry.metrics import SharedMetrics
from autopush.telemetry.process import ready_workers
from autopush.version import VERSION

STATUS: Final = {"status": "OK", "version": VERSION}
VERSION_FILE: Final = Path("version.json")
"""In the working directory, where Dockerflow has it: /app in an image."""
MAX_VERSION_FILE: Final = 65_536
STORE_TIMEOUT: Final = 3.0
"""Seconds that a table has to answer."""
KNOWN: Final = {"source": "autopush", "version": VERSION, "commit": "", "build": ""}
"""What is known of the version without a file."""

_log = logs.get("dockerflow")


class Dockerflow:
    """The status pages, the same on every port.

    `routers`: of an endpoint, the bridges by name, and whether they are in service. `clock`: the
    monotonic one.
    """

    def __init__(
        self,
        store: PushStore,
        metrics: SharedMetrics,
        *,
        routers: Mapping[str, bool] | None = None,
        version_file: Path = VERSION_FILE,
        clock: Callable[[], float] = time.monotonic,
        store_timeout: float = STORE_TIMEOUT,
    ) -> None:
        self._store = StoreHealth(store, metrics, clock=clock)
        self._metrics = metrics
        self._version = version_page(version_file)
        self._routers = routers
        self._clock = clock
        self._store_timeout = store_timeout

    async def respond(self, request: Request) -> Response | None:
        """The page of that path, None for any other path or method."""
        if request.method not in ("GET", "HEAD"):
            return None
        match request.path:
            case "/status":
                return responses.json(200, STATUS)
            case "/health" | "/__heartbeat__":
                return await self._health()
            case "/__version__":
                return self._version
            case "/__lbheartbeat__":
                return responses.text(200, "")
        return None

    async def _health(self) -> Response:
        tables = await self._store.states(self._store_timeout)
        workers = self._workers()
        parts = [workers["status"], *(table["status"] for table in tables.values())]
        ok = all(status == "OK" for status in parts)
        document: dict[str, object] = {
            "status": "OK" if ok else "NOT OK",
            "version": VERSION,
            "clients": int(self._metrics.total(CONNECTIONS)[0]),
            **tables,
            "workers": workers,
        }
        if self._routers is not None:
            document["request_count"] = int(self._metrics.total(REQUESTS_IN_FLIGHT)[0])
            document["routers"] = self._routers
        return responses.json(200 if ok else 503, document)

    def _workers(self) -> dict[str, object]:
        expected = self._metrics.workers
        ready = ready_workers(self._metrics, self._clock())
        status = "OK" if ready == expected else "NOT OK"
        return {"status": status, "ready": ready, "expected": expected}


def version_page(file: Path) -> Response:
    """`/__version__`: what the file says, or what is known where there is none; a file that cannot
    be read or is no JSON object makes it a 500.

    It is to be read once, at the start: a file that is replaced later describes what is to run.
    """
    try:
        with file.open("rb") as opened:
            document = orjson.loads(opened.read(MAX_VERSION_FILE))
        if not isinstance(document, dict):
            raise ValueError("not a JSON object")  # noqa: TRY004 - as for what is no JSON
    except FileNotFoundError:
        document = KNOWN
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a JSON object"
        _log.warning("The file of the version cannot be read", file=str(file), reason=reason)
        return responses.text(500, f"{file.name} cannot be read\n")
    return responses.json(200, document)
