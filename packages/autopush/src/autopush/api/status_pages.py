"""The pages for operators and monitoring: status, version, `/metrics`, the log check.

Status and metrics cover all workers, whichever one answers; a missing worker is a failure.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

import orjson

from autopush.api import responses
from autopush.api.request_log import RequestLog
from autopush.api.responses import ErrorResponses
from autopush.api.senders import PAGE, SendersPage
from autopush.limits import LimitRefusals, TokenBuckets
from autopush.net.http_messages import Request, Response
from autopush.net.timers import Budget
from autopush.shown import shown
from autopush.store import PushStore
from autopush.store.failures import StoreHealth
from autopush.store.push_store import UNUSED_UAID
from autopush.telemetry import logs
from autopush.telemetry.metric_table import CONNECTIONS, REQUESTS_IN_FLIGHT
from autopush.telemetry.metrics import SharedMetrics
from autopush.telemetry.process import ready_workers
from autopush.telemetry.prometheus import PROMETHEUS_TYPE, prometheus_text
from autopush.version import VERSION
from autopush.webpush.errors import Errno, PushError

# ── Status and version ────────────────────────────────────────────────────────────────────────────

STATUS: Final = {"status": "OK", "version": VERSION}
VERSION_FILE: Final = Path("version.json")
"""In the working directory, as Dockerflow specifies: /app in an image."""
MAX_VERSION_FILE: Final = 65_536
STORE_TIMEOUT: Final = 3.0
"""Seconds that a table has to answer."""
KNOWN: Final = {"source": "autopush", "version": VERSION, "commit": "", "build": ""}
"""`/__version__` without a file."""

_log = logs.get("dockerflow")


class Dockerflow:
    """`/status`, `/health` and the three pages of Dockerflow, the same on every port.

    Rule: only `/health` and `/__heartbeat__` access the store; a load balancer may poll the others
    at any rate.

    `routers`: on an endpoint, whether each bridge is enabled. `unused_uaid`: of no user, in the
    part of the store that this worker has. `certificate`: of the public ports, which says nothing
    about the service. `clock`: monotonic.
    """

    def __init__(
        self,
        store: PushStore,
        metrics: SharedMetrics,
        *,
        routers: Mapping[str, bool] | None = None,
        unused_uaid: str = UNUSED_UAID,
        certificate: Callable[[], Mapping[str, object] | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        store_timeout: float = STORE_TIMEOUT,
    ) -> None:
        self._store = StoreHealth(store, metrics, uaid=unused_uaid, clock=clock)
        self._metrics = metrics
        self._version = version_page(VERSION_FILE)
        self.routers = routers
        self._certificate = certificate
        self._clock = clock
        self._store_timeout = store_timeout

    async def respond(self, request: Request) -> Response | None:
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
        expected = self._metrics.workers
        ready = ready_workers(self._metrics, self._clock())
        workers = "OK" if ready == expected else "NOT OK"
        ok = all(status == "OK" for status in (workers, *(t["status"] for t in tables.values())))
        document: dict[str, object] = {
            "status": "OK" if ok else "NOT OK",
            "version": VERSION,
            "clients": int(self._metrics.total(CONNECTIONS)[0]),
            **tables,
            "workers": {"status": workers, "ready": ready, "expected": expected},
        }
        if (certificate := self._certificate()) is not None:
            document["certificate"] = certificate
        if self.routers is not None:
            document["request_count"] = int(self._metrics.total(REQUESTS_IN_FLIGHT)[0])
            document["routers"] = self.routers
        return responses.json(200 if ok else 503, document)


def version_page(file: Path) -> Response:
    """`/__version__`: the file, `KNOWN` without one, 500 if it is unreadable or no JSON object.

    Called once, at the start: a file replaced later describes the next version.
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


# ── Metrics ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class InternalPages:
    """`/metrics`, `/senders` and the status pages, for ports that are not public."""

    dockerflow: Dockerflow
    metrics: SharedMetrics
    errors: ErrorResponses
    senders: SendersPage | None = None
    """Of an endpoint."""

    async def __call__(self, request: Request) -> Response:
        return await self.respond(request) or self.errors.of(responses.not_found())

    async def respond(self, request: Request) -> Response | None:
        if request.path == "/metrics" and request.method in ("GET", "HEAD"):
            return Response(200, await self._render(), content_type=PROMETHEUS_TYPE)
        if self.senders is not None and request.path == PAGE and request.method in ("GET", "HEAD"):
            return await self.senders.respond()
        return await self.dockerflow.respond(request)

    async def _render(self) -> bytes:
        """Renders in time slices, so as not to block the event loop."""
        pieces: list[bytes] = []
        budget = Budget(perf_counter)
        for piece in prometheus_text(self.metrics):
            pieces.append(piece)
            if budget.spend():
                await asyncio.sleep(0)
                budget = Budget(perf_counter)
        return b"".join(pieces)


# ── The log check ─────────────────────────────────────────────────────────────────────────────────

TEAPOT: Final = 418
ERROR: Final = "ERROR:Success"

_check_log = logs.get("log_check")


class LogCheckError(Exception):
    """Raised and logged on purpose."""


@dataclass(eq=False)
class LogCheck:
    """Lets operators test, on every public port, whether errors reach the logs and Sentry.

        GET /v1/err, /v1/err/{type with "error"}    logs an error
        GET /v1/err/{type with "crit"}              logs an exception
        GET /__error__                              logs both, each with a traceback

    The response is 418. `rates`: per page, for all clients together.
    """

    errors: ErrorResponses
    requests: RequestLog
    rates: TokenBuckets
    refusals: LimitRefusals

    @staticmethod
    def has(path: str) -> bool:
        """Whether a GET of that path is answered here."""
        return path in ("/v1/err", "/__error__") or path.startswith("/v1/err/")

    def respond(self, request: Request) -> Response | None:
        match request.method, *request.path.split("/")[1:]:
            case "GET", "v1", "err":
                page = "error"
            case "GET", "v1", "err", kind if kind:
                page = next((page for page in ("error", "crit") if page in kind.lower()), "")
            case "GET", "__error__":
                page = "both"
            case _:
                return None
        if not page:
            asked = shown(request.path.rpartition("/")[2])
            known = f"the log check knows error and crit, got {asked}"
            unknown = PushError(Errno.NOTHING_HERE, known)
            return self.errors.of(unknown)
        if wait := self.rates.wait_for_token(page):
            self.refusals.add("log_check_rate", request.client_address)
            too_often = "The log check is asked for too often"
            return self.errors.of(PushError(Errno.RATE_EXCEEDED, too_often, retry_after=wait))
        client_info = self.requests.client_info(request)
        fields = {"status_code": TEAPOT, "errno": 0, "client_info": client_info}
        if page in ("crit", "both"):
            try:
                raise LogCheckError("LogCheck")
            except LogCheckError as error:
                _check_log.exception("Test Critical Message", error=error, **fields)
        if page == "crit":
            return self._teapot("Test Failure", "FAILURE:Success")
        failure = LogCheckError(ERROR) if page == "both" else None
        _check_log.error("Test Error Message", exc_info=failure, **fields)
        return self._teapot("Test Error", ERROR)

    def _teapot(self, error: str, message: str) -> Response:
        return self.errors.of(PushError(Errno.UNKNOWN, message, status=TEAPOT, phrase=error))
