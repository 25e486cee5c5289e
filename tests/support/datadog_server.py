"""A server that speaks Datadog's API, on loopback: what it took, by path."""

import json
from typing import Any, Self

from support.collecting_server import Collected, CollectingServer

KEY = "0123456789abcdef0123456789abcdef"


class DatadogServer:
    """`status`: what it answers to the right key; to requests of `refused_path` it is 403."""

    def __init__(self) -> None:
        self.status = 202
        self.refused_path = ""
        self.series: list[dict[str, Any]] = []
        self.distributions: list[dict[str, Any]] = []
        self.server = CollectingServer(self._respond, location="http://127.0.0.1:9/elsewhere")

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def wait(self, name: str) -> dict[str, Any]:
        """The first series, or distribution, of that metric."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = [s for s in (*self.series, *self.distributions) if s["metric"] == name]
            return bool(found)

        self.server.wait_until(is_there, name)
        return found[0]

    def _respond(self, request: Collected) -> tuple[int, bytes]:
        taken = {
            "/api/v2/series": self.series,
            "/api/v1/distribution_points": self.distributions,
        }
        if request.headers["dd-api-key"] != KEY or request.path == self.refused_path:
            return 403, b""
        if request.path not in taken:
            return 404, b""
        if self.status == 202:
            taken[request.path].extend(json.loads(request.body)["series"])
        return self.status, b""
