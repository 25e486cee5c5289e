"""A small HTTP server in a thread, for clients that send and are only acknowledged."""

import gzip
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

WAIT = 20
"""Seconds for what a test expects."""


@dataclass(frozen=True)
class Collected:
    """A request that was received; the body is not compressed any more."""

    path: str
    headers: dict[str, str]
    body: bytes


Respond = Callable[[Collected], tuple[int, bytes]]


@dataclass
class CollectingServer:
    """Gives each request to `respond`, which returns status and body, and keeps it. `location`:
    where a redirect leads.
    """

    respond: Respond
    location: str = ""
    requests: list[Collected] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._changed = threading.Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers["content-encoding"] == "gzip":
                    body = gzip.decompress(body)
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Collected(self.path, headers, body)
                status, answer = collector.respond(request)
                collector._add(request)
                self.send_response(status)
                self.send_header("content-type", "application/x-amz-json-1.1")
                if 300 <= status < 400:
                    self.send_header("location", collector.location)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _add(self, request: Collected) -> None:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()

    def wait(self, number: int) -> list[Collected]:
        """The requests, as soon as there are so many."""
        self.wait_until(lambda: len(self.requests) >= number, f"{number} requests")
        return list(self.requests)

    def wait_until(self, is_there: Callable[[], bool], what: str) -> None:
        """Wait for a request that makes it true."""
        with self._changed:
            assert self._changed.wait_for(is_there, WAIT), (
                f"{what} did not come, but {len(self.requests)} requests"
            )
