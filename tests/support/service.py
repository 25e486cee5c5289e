"""The service as a user starts it: a process of its own on unused ports and a temporary folder.

Rule: nothing here belongs to an event loop, so one service can serve all tests of a module. Of what
waits there are two forms: `launch` and `end` block, `start`, `stop` and `kill` are awaited.

`support.forked` makes the processes, unless a test needs the command line of a user.
"""

import asyncio
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from autopush.settings import OPTIONS
from support import forked
from support.sockets import open_files, unused_port
from support.tools import run_captured
from support.user_agent import UserAgent

READY = re.compile(
    r"autopush(?: \w+)? ready: (?:start page (?P<page>\S+)/)?"
    r"(?: · (?P<scheme>HTTPS?) (?P<http>\S+))?"
    r"(?:(?: · )?WebSocket (?P<ws>\S+) · node API (?P<node>\S+))?"
)
STARTUP_FAILED = 3
START_TIMEOUT = 60
STOP_TIMEOUT = 60

PORTS = {
    "serve": ("--port", "--router-port"),
    "connection": ("--port", "--router-port"),
    "endpoint": ("--port",),
}
_SETTINGS = {name for option in OPTIONS for name in (*option.env, option.daemon_env)}

Wrap = Callable[[Sequence[str]], list[str]]


def clean_environment(**variables: str) -> dict[str, str]:
    """Our own environment without any setting of the service or of AWS, and with these variables.

    The metadata address of EC2 is not requested.
    """
    ours = {
        name: text
        for name, text in os.environ.items()
        if name not in _SETTINGS and not name.startswith(("AUTOPUSH_", "AWS_"))
    }
    return ours | {"AWS_EC2_METADATA_DISABLED": "true"} | variables


class Service:
    """A running `autopush serve`, or another daemon. `wrap` runs its command line elsewhere."""

    is_executed = False
    """Whether its process has the command line of one that a user starts."""

    def __init__(
        self,
        data: Path,
        options: Sequence[str],
        variables: Mapping[str, str] | None = None,
        *,
        command: str = "serve",
        wrap: Wrap | None = None,
    ) -> None:
        self.data = data
        self.options = list(options)
        self.variables = dict(variables or {})
        self.command = command
        self.wrap = wrap
        self.tls: ssl.SSLContext | None = None
        """Whom its user agents trust, if it speaks TLS."""
        self.ports = {flag: str(unused_port()) for flag in PORTS[command]}
        self.endpoint = ""
        self.websocket = ""
        self.node_api = ""
        self.output: list[str] = []
        self._line = threading.Condition()
        self._process: subprocess.Popen[bytes] | forked.ForkedProcess | None = None
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether the process exists."""
        return self._process is not None and self._process.poll() is None

    @property
    def workers(self) -> list[int]:
        """The process ids of the workers of a service with several."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    @property
    def sockets(self) -> Counter[int]:
        """How many each worker has open."""
        return Counter({pid: sum("socket" in it for it in open_files(pid)) for pid in self.workers})

    async def holder(self, before: Counter[int]) -> int:
        """The worker with a socket that was not there before. For a moment both have it."""
        async with asyncio.timeout(START_TIMEOUT):
            while len(found := self.sockets - before) != 1:  # noqa: ASYNC110 - other processes
                await asyncio.sleep(0.01)
        return next(iter(found))

    @property
    def websocket_port(self) -> int:
        return _port(self.websocket)

    @property
    def endpoint_port(self) -> int:
        return _port(self.endpoint)

    @property
    def router_port(self) -> int:
        return _port(self.node_api)

    def launch(self) -> None:
        """Start, or start again on the same ports and folder."""
        words = [self.command, "--data", str(self.data)]
        for flag, port in self.ports.items():
            words += [flag, port]
        words += self.options
        environment = clean_environment(**self.variables)
        reading, writing = os.pipe()
        with open(writing, "wb") as output:
            if self.is_executed or self.wrap or not forked.can_have(self.variables):
                command = [sys.executable, "-m", "autopush.cli", *words]
                self._process = subprocess.Popen(
                    self.wrap(command) if self.wrap else command,
                    stdout=output,
                    stderr=output,
                    env=environment,
                )
            else:
                self._process = forked.ForkedProcess(
                    words, env=environment, stdout=writing, stderr=writing
                )
        ready: Future[re.Match[str]] = Future()
        self._reader = threading.Thread(target=self._read, args=(reading, ready), daemon=True)
        self._reader.start()
        match = ready.result(START_TIMEOUT)
        self.endpoint = match["page"] or ""
        if match["http"]:
            self.endpoint = f"{match['scheme'].lower()}://{match['http']}"
        self.websocket = match["ws"] or ""
        self.node_api = f"http://{match['node']}" if match["node"] else ""

    async def start(self) -> None:
        """Start, or start again on the same ports and folder."""
        await asyncio.to_thread(self.launch)

    def _read(self, descriptor: int, ready: "Future[re.Match[str]]") -> None:
        with open(descriptor, "rb") as output:
            for raw in output:
                line = raw.decode()
                with self._line:
                    self.output.append(line)
                    self._line.notify_all()
                match = READY.search(line)
                if match and not ready.done():
                    ready.set_result(match)
        if not ready.done():
            ready.set_exception(RuntimeError("did not start: " + "".join(self.output)))

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send the signal and wait for the end; returns the exit code."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            code = self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            if self._reader is not None:
                self._reader.join()
        return code

    async def ended(self) -> int:
        """Wait until it ends by itself; returns the exit code."""
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, STOP_TIMEOUT)

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """Send the signal and wait for the end; returns the exit code."""
        return await asyncio.to_thread(self.end, number)

    async def kill(self) -> None:
        """End the process without warning."""
        await self.stop(signal.SIGKILL)

    async def logged(self, text: str, times: int = 1) -> None:
        """Wait until so many lines of the output hold that text."""

        def wait() -> bool:
            with self._line:
                return self._line.wait_for(
                    lambda: sum(text in line for line in self.output) >= times, STOP_TIMEOUT
                )

        assert await asyncio.to_thread(wait), f"{times} times {text!r}: not in the output"

    async def connect(self, uaid: str | None = None) -> UserAgent:
        """An identified user agent."""
        agent = await UserAgent.connect(self.websocket, tls=self.tls)
        try:
            await agent.hello(uaid)
        except BaseException:
            await agent.close()
            raise
        return agent

    @property
    def errors(self) -> list[str]:
        """Log lines that report a fault of the service."""
        return [
            line
            for line in self.output
            if "Traceback" in line or '"Severity":3' in line or " ERROR " in line
        ]


def _port(url: str) -> int:
    return int(url.rstrip("/").rpartition(":")[2])


@asynccontextmanager
async def service(
    data: Path, *options: str, command: str = "serve", **variables: str
) -> AsyncIterator[Service]:
    """Run a service; at the end it must stop cleanly."""
    running = Service(data, options, variables, command=command)
    try:
        await running.start()
        yield running
    finally:
        code = await running.stop()
    assert code == 0, "".join(running.output[-20:])


@contextmanager
def running_service(data: Path, *options: str, **variables: str) -> Iterator[Service]:
    """Run a service for a fixture without event loop; at the end it must stop cleanly and must
    not have logged an error.
    """
    running = Service(data, options, variables)
    try:
        running.launch()
        yield running
    finally:
        code = running.end()
    assert code == 0, "".join(running.output[-20:])
    assert running.errors == []


async def new_subscriber(node: Service, agents: list[UserAgent]) -> tuple[UserAgent, str]:
    """A user agent connected there, put among `agents`, and the endpoint of its one channel."""
    agents.append(await node.connect())
    return agents[-1], (await agents[-1].register())[1]


def refusal(data: Path, command: str, *options: str, **variables: str) -> str:
    """The one line of a daemon that must not start."""
    words = [command, "--data", str(data), *options]
    ended = run_command(words, **variables)
    assert ended.returncode == STARTUP_FAILED, (ended.stdout, ended.stderr)
    assert " ready: " not in ended.stdout
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert ended.stderr.startswith("autopush: ")
    return ended.stderr


def run_command(words: Sequence[str], **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command that ends, in a process of its own."""
    environment = clean_environment(**variables)
    if forked.can_have(variables):
        return forked.run(words, environment, START_TIMEOUT)
    return run_captured(
        [sys.executable, "-m", "autopush.cli", *words], env=environment, timeout=START_TIMEOUT
    )


async def autopush(*words: str | Path, **variables: str) -> str:
    """Run a command that ends, in a process of its own; returns its output."""
    ended = await asyncio.to_thread(run_command, [*map(str, words)], **variables)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr
