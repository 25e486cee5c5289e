"""The pages for operators on ports that are not public: `/metrics`, and the status pages.

Rule: what `/metrics` says is true of the whole service, whichever worker responds; and while it is
rendered, the event loop is never busy for longer than a time slice.
"""

import asyncio
from time import perf_counter

from autopush.api import responses
from autopush.api.dockerflow import Dockerflow
from autopush.api.responses import ErrorResponses
from autopush.net.http_messages import Request, Response
from autopush.net.timers import Budget
from autopush.telemetry import prometheus
from autopush.telemetry.metrics import SharedMetrics


class InternalPages:
    """Serves them: alone, on the port for metrics, and where `respond` is asked for a page."""

    def __init__(
        self, dockerflow: Dockerflow, metrics: SharedMetrics, errors: ErrorResponses
    ) -> None:
        self._dockerflow = dockerflow
        self._metrics = metrics
        self._errors = errors

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
        return await self.respond(request) or self._errors.of(responses.not_found())

    async def respond(self, request: Request) -> Response | None:
        """The page of that path, None for any other path or method."""
        if request.path == "/metrics" and request.method in ("GET", "HEAD"):
            return Response(200, await self._render(), content_type=prometheus.CONTENT_TYPE)
        return await self._dockerflow.respond(request)

    async def _render(self) -> bytes:
        pieces: list[bytes] = []
        budget = Budget(perf_counter)
        for piece in prometheus.render(self._metrics):
            pieces.append(piece)
            if budget.exhausted():
                await asyncio.sleep(0)
                budget = Budget(perf_counter)
        return b"".join(pieces)
