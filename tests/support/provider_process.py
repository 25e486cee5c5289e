"""A provider of a bridge as a process of its own, for tests: HTTP on a free port of loopback.

A module of a provider has a function that finds, for each request, whom it is about and what the
provider answers by itself, and runs `serve` with it. The test starts it as `ProviderProcess`, gives
scripts of answers for some it is about, which come before the provider's own, and reads what was
requested.
"""

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NotRequired, Self, TypedDict
from urllib.parse import quote, unquote

from support.paths import PYTHONPATH

CONTROL = "/control/"


class Answer(TypedDict):
    """What a request is answered: a status with a JSON document or a text, or raw bytes."""

    status: NotRequired[int]
    document: NotRequired[object]
    text: NotRequired[str]
    headers: NotRequired[dict[str, str]]
    raw: NotRequired[str]
    """All that is sent, before the connection is closed."""
    held: NotRequired[bool]
    """Sent only after `ProviderProcess.release`."""


class Asked(TypedDict):
    """A request. `headers`: names in lower case."""

    path: str
    headers: dict[str, str]
    body: str


Judge = Callable[[Asked], tuple[str, Answer]]

HTML: Answer = {"text": "<html><body>Bad Gateway</body></html>"}
NOTHING: Answer = {"raw": ""}
HALF: Answer = {"raw": 'HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{"results": [{"mess'}
REDIRECT: Answer = {"status": 302, "headers": {"Location": "/elsewhere"}}
SILENCE: Answer = {"held": True}
TOO_LONG: Answer = {"text": "[" * 100_000}


# ── In the test ───────────────────────────────────────────────────────────────────────────────────


class ProviderProcess:
    """Runs a module of `support` that calls `serve`."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"support.{module}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def script(self, whom: str, *answers: Answer) -> None:
        """The next answers to requests about that one."""
        self._call("script", whom, answers)

    def requests(self, whom: str, *, at_least: int = 0) -> list[Asked]:
        """The requests about that one, as soon as there are so many."""
        found: list[Asked] = self._call("requests", whom, at_least)
        return found

    def message(self, whom: str) -> dict[str, Any]:
        """The JSON body of the only request about that one."""
        (asked,) = self.requests(whom)
        document: dict[str, Any] = json.loads(asked["body"])
        return document

    def release(self, whom: str) -> None:
        """Send the held answers about that one."""
        self._call("release", whom, None)

    def _call(self, what: str, whom: str, content: object) -> Any:
        path = f"{CONTROL}{what}/{quote(whom, safe='')}"
        body = json.dumps(content).encode()
        with urllib.request.urlopen(self.url + path, body, timeout=30) as response:
            return json.load(response)


# ── In the process ────────────────────────────────────────────────────────────────────────────────


class Book:
    """Scripts and requests, by whom they are about."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._changed = threading.Condition()
        self._scripts: defaultdict[str, list[Answer]] = defaultdict(list)
        self._asked: defaultdict[str, list[Asked]] = defaultdict(list)
        self._released: set[str] = set()

    def answer(self, asked: Asked) -> Answer:
        with self._changed:
            whom, answer = self._judge(asked)
            self._asked[whom].append(asked)
            self._changed.notify_all()
            if self._scripts[whom]:
                scripted = self._scripts[whom].pop(0)
                if scripted.get("held"):
                    self._changed.wait_for(lambda: whom in self._released)
                is_own = scripted.keys() == {"held"}
                return answer if is_own else scripted
            return answer

    def control(self, what: str, whom: str, content: Any) -> object:
        with self._changed:
            if what == "script":
                self._scripts[whom] += content
            elif what == "release":
                self._released.add(whom)
            elif what == "requests":
                self._changed.wait_for(lambda: len(self._asked[whom]) >= content, 20)
                return self._asked[whom]
            self._changed.notify_all()
        return None


def serve(judge: Judge) -> None:
    """Print the port, and serve until standard input ends."""
    book = Book(judge)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            if self.path.startswith(CONTROL):
                _, _, what, whom = self.path.split("/")
                self._send({"document": book.control(what, unquote(whom), json.loads(body))})
            else:
                self._send(book.answer({"path": self.path, "headers": headers, "body": body}))

        def _send(self, answer: Answer) -> None:
            with suppress(ConnectionError):  # the client may have given up
                if "raw" in answer:
                    self.wfile.write(answer["raw"].encode())
                    self.close_connection = True
                    return
                document = json.dumps(answer.get("document"))
                content = answer.get("text", document if "document" in answer else "").encode()
                self.send_response(answer.get("status", 200))
                headers: Mapping[str, str] = answer.get("headers", {})
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    os._exit(0)  # held answers are not waited for
