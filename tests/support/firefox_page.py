"""The page that tests run in a browser, and the small server it reports to.

The page fetches commands (`GET /command`, answered when there is one) and posts what came out of
them; its service worker posts every push message it gets, and shows a notification for one with the
text "show: TITLE". So a test drives a browser without any debugging protocol, and the push API is
used the way a web site uses it.

Rule: a command is given only to the page of the newest run of the browser; a page of an earlier
run, whose connection may still be open, gets none.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

LONG_POLL = 15  # seconds

PAGE = """<!doctype html><meta charset="utf-8"><title>Push test</title><script>
const run = new URL(location).searchParams.get("run");
const Script = Object.getPrototypeOf(async function () {}).constructor;

async function subscribe(scope, options) {
  const registration = await navigator.serviceWorker.register("/worker.js", { scope });
  const worker = registration.installing ?? registration.waiting ?? registration.active;
  while (worker.state !== "activated") {
    await new Promise((done) => worker.addEventListener("statechange", done, { once: true }));
  }
  return (await registration.pushManager.subscribe(options)).toJSON();
}

async function subscriptionOf(scope) {
  const registration = await navigator.serviceWorker.getRegistration(scope);
  return registration.pushManager.getSubscription();
}

(async () => {
  for (;;) {
    const answer = await fetch(`/command?run=${run}`);
    if (answer.status !== 200) continue;
    const { id, script } = await answer.json();
    let outcome;
    try {
      outcome = { id, value: (await new Script(script)()) ?? null };
    } catch (error) {
      outcome = { id, error: String(error) };
    }
    await fetch("/outcome", { method: "POST", body: JSON.stringify(outcome) });
  }
})();
</script>"""

WORKER = """
const born = Date.now();
let events = 0;

function report(kind, body) {
  const { pathname } = new URL(registration.scope);
  const query = new URLSearchParams({ kind, scope: pathname, born, event: ++events });
  return fetch(`/event?${query}`, { method: "POST", body });
}

self.addEventListener("push", (event) => {
  event.waitUntil(report(event.data ? "data" : "empty", event.data?.arrayBuffer() ?? ""));
  const [, title] = event.data?.text().match(/^show: (.*)/) ?? [];
  if (title) event.waitUntil(registration.showNotification(title));
});
self.addEventListener("notificationclick", (event) => {
  event.waitUntil(report("click", event.notification.title));
});
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(report("lost", "")));
"""


@dataclass(frozen=True, order=True)
class PushEvent:
    """An event of a service worker. Sorting gives the order in which one worker got them."""

    born: int
    number: int
    scope: str
    kind: str
    """`data`, `empty`, `lost` for a subscription that the browser dropped, or `click` on a
    notification."""
    body: bytes


class ControlServer:
    """Serves the page on a free loopback port, in threads. It is also the browser's proxy: what the
    browser wants from anywhere else is refused.

    `changed` guards everything here and is notified of every change.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.events: list[PushEvent] = []
        self._run = 0
        self._last_id = 0
        self._command: dict[str, object] | None = None
        self._outcomes: dict[int, dict[str, Any]] = {}
        self._closed = False
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,))
        self._thread.start()

    def close(self) -> None:
        """End all threads. The browser must have ended: its connections end with it."""
        with self.changed:
            self._closed = True
            self.changed.notify_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def new_run(self) -> str:
        """Drop the commands for earlier pages; returns the URL of the page for a new run."""
        with self.changed:
            self._run += 1
            self._command = None
            self.changed.notify_all()
            return f"http://127.0.0.1:{self.port}/?run={self._run}"

    def ask(self, script: str) -> int:
        """Have the page run the body of an asynchronous JavaScript function; returns a number for
        `outcome`."""
        with self.changed:
            self._last_id += 1
            self._command = {"id": self._last_id, "script": script}
            self.changed.notify_all()
            return self._last_id

    def outcome(self, number: int) -> dict[str, Any] | None:
        """The outcome of a script: its `value` or its `error`; None before it ended."""
        return self._outcomes.get(number)

    # ── what the handler calls ───────────────────────────────────────────────────────────────────

    def next_command(self, run: str) -> dict[str, object] | None:
        """Wait for a command for that run; None if the page shall request again, or is outdated."""

        def over() -> bool:
            return self._closed or run != str(self._run)

        with self.changed:
            self.changed.wait_for(lambda: over() or self._command, LONG_POLL)
            if over():
                return None
            command, self._command = self._command, None
            return command

    def note(self, add: Callable[[], object]) -> None:
        """Change something under the lock."""
        with self.changed:
            add()
            self.changed.notify_all()

    def note_outcome(self, outcome: dict[str, Any]) -> None:
        self.note(lambda: self._outcomes.update({outcome["id"]: outcome}))


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Browsers end in the middle of things; that is no error here."""


def _handler_of(control: ControlServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, query = self._target()
            if path == "/":
                self._answer(PAGE.encode(), "text/html")
            elif path == "/worker.js":
                self._answer(WORKER.encode(), "text/javascript")
            elif path == "/command":
                command = control.next_command(query.get("run", ""))
                if command is None:
                    self._answer(b"", "text/plain", 204)
                else:
                    self._answer(json.dumps(command).encode(), "application/json")
            else:
                self._answer(b"", "text/plain", 404)

        def do_POST(self) -> None:
            path, query = self._target()
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if path == "/outcome":
                control.note_outcome(json.loads(body))
            elif path == "/event":
                event = PushEvent(
                    born=int(query["born"]),
                    number=int(query["event"]),
                    scope=query["scope"],
                    kind=query["kind"],
                    body=body,
                )
                control.note(lambda: control.events.append(event))
            else:
                self._answer(b"", "text/plain", 404)
                return
            self._answer(b"", "text/plain")

        def do_CONNECT(self) -> None:
            self._answer(b"", "text/plain", 404)

        def _target(self) -> tuple[str, dict[str, str]]:
            """Path and query; of a request to a proxy, its whole URL and nothing."""
            url = urlsplit(self.path)
            if url.netloc:
                return self.path, {}
            return url.path, {name: values[0] for name, values in parse_qs(url.query).items()}

        def _answer(self, body: bytes, kind: str, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    return Handler
