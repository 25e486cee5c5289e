"""A server that speaks Datadog's API, on loopback: what it took, by path."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any

KEY = "0123456789abcdef0123456789abcdef"


class DatadogServer(ThreadingHTTPServer):
    """`status`: what it answers to the right key."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 202
        self.requests = 0
        self.series: list[dict[str, Any]] = []
        self.distributions: list[dict[str, Any]] = []
        self.changed = Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def wait(self, name: str) -> dict[str, Any]:
        """The first series, or distribution, of that metric."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = [s for s in (*self.series, *self.distributions) if s["metric"] == name]
            return bool(found)

        with self.changed:
            assert self.changed.wait_for(is_there, 30), f"{name} did not come"
        return found[0]


class _Handler(BaseHTTPRequestHandler):
    server: DatadogServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = {
            "/api/v2/series": self.server.series,
            "/api/v1/distribution_points": self.server.distributions,
        }
        status = self.server.status
        if self.headers["DD-API-KEY"] != KEY:
            status = 403
        elif self.path not in known:
            status = 404
        with self.server.changed:
            self.server.requests += 1
            if status == 202:
                known[self.path].extend(body["series"])
            self.server.changed.notify_all()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Tests read what it took."""


@contextmanager
def datadog_server() -> Iterator[DatadogServer]:
    with DatadogServer() as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
