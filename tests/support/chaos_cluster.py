"""A cluster and its faults: nodes and store, each a process on a host that may be cut off, and
random faults of the nodes, the same for the same seed.

A node is started again on its old port, as its supervisor would. All processes end with the test,
also those that were stopped. Until the finale one connection node and one endpoint node are always
without a fault; two faults may overlap; at the end every node runs again.
"""

import asyncio
import contextlib
import os
import random
import re
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from autopush.webpush.tokens import new_key
from support.chaos_ledger import ChaosLedger, Fault
from support.cluster import CREDENTIALS
from support.dynamo_servers import dynalite_program
from support.service import clean_environment
from support.soak import times
from support.sockets import unused_port

START_TIMEOUT = 60
START_ATTEMPTS = 5
STOP_TIMEOUT = 40
FAULTY = re.compile(r'Traceback|"Severity":[0-3]\b| ERROR | CRITICAL ')


class Host(Protocol):
    """Where a process runs."""

    @property
    def address(self) -> str: ...

    def command(self, arguments: Sequence[str]) -> list[str]: ...


class Loopback:
    """This machine, by its own address."""

    address = "127.0.0.1"

    def command(self, arguments: Sequence[str]) -> list[str]:
        return list(arguments)


Hosts = Callable[[str], Host]
"""Where the process of that name is to run."""


class Daemon:
    """One process. `ready`: what it prints when it serves."""

    def __init__(
        self, name: str, command: Sequence[str], *, ready: str, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.output: deque[str] = deque(maxlen=1000)
        self.complaints: list[str] = []
        """Lines of the log that report a fault of the program."""
        self._command = list(command)
        self._ready = ready
        self._environment = dict(environment)
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        """Whether the process exists, running or stopped."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start, or start again, and wait until it serves."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,
        )
        ready = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read(self._process, ready))
        await asyncio.wait_for(ready, START_TIMEOUT)

    async def _read(
        self, process: asyncio.subprocess.Process, ready: "asyncio.Future[None]"
    ) -> None:
        assert process.stdout is not None
        async for raw in process.stdout:
            line = raw.decode(errors="replace").rstrip("\n")
            self.output.append(line)
            if FAULTY.search(line):
                self.complaints.append(line)
            if self._ready in line and not ready.done():
                ready.set_result(None)
        if not ready.done():
            end = "\n".join(list(self.output)[-20:])
            ready.set_exception(RuntimeError(f"{self.name} did not start:\n{end}"))

    def send(self, number: signal.Signals) -> None:
        """A signal, if it still runs. SIGTERM is for the process that was started, the others are
        for its workers too.
        """
        if self._process is not None and self.runs:
            send = os.kill if number == signal.SIGTERM else os.killpg
            with contextlib.suppress(ProcessLookupError):
                send(self._process.pid, number)

    async def ended(self) -> int:
        """Wait for its end; returns the exit code."""
        assert self._process is not None
        try:
            code = await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT)
        except TimeoutError:
            self.send(signal.SIGKILL)
            await self._process.wait()
            raise
        if self._reader is not None:
            await self._reader
        return code

    async def end(self, number: signal.Signals) -> int:
        """Send the signal, to a process that was stopped too, and wait for the end."""
        self.send(number)
        self.send(signal.SIGCONT)
        return await self.ended()


@dataclass
class Cluster:
    """The nodes of one service, and where clients reach them."""

    connections: list[Daemon] = field(default_factory=list)
    endpoints: list[Daemon] = field(default_factory=list)
    websocket_urls: list[str] = field(default_factory=list)
    endpoint_urls: list[str] = field(default_factory=list)

    @property
    def nodes(self) -> list[Daemon]:
        return [*self.connections, *self.endpoints]


@asynccontextmanager
async def database(hosts: Hosts) -> AsyncIterator[str]:
    """An empty dynalite; yields the value of the option `store`. (For the same load ministack takes
    twice the CPU time.)
    """
    host, port = hosts("store"), unused_port()
    arguments = ["--host", host.address, "--port", str(port), "--createTableMs", "0"]
    daemon = Daemon(
        "store",
        host.command([dynalite_program(), *arguments]),
        ready="listening at",
        environment=clean_environment(),
    )
    async with _running([daemon]):
        yield f"dynamodb://us-east-1?endpoint=http://{host.address}:{port}"


@asynccontextmanager
async def cluster(
    hosts: Hosts,
    data: Path,
    *,
    store: str = "",
    connections: int = 3,
    endpoints: int = 2,
    workers: Sequence[int] = (1, 2, 4),
    **variables: str,
) -> AsyncIterator[Cluster]:
    """Nodes of one service; without `store` they share the folder. `workers`: of one node after the
    other. `variables`: their environment, beside what all such nodes need.
    """
    environment = clean_environment(
        AUTOPUSH_CRYPTO_KEY=new_key(), AUTOPUSH_NO_AWS="true", **CREDENTIALS, **variables
    )
    shared = ["--data", str(data), "--store", store, "--endpoint-url", "http://push.example"]

    def node(kind: str, number: int, *own: str) -> tuple[Daemon, str]:
        name = f"{kind}{number}"
        host, port = hosts(name), unused_port()
        command = [sys.executable, "-m", "autopush.cli", kind, "--host", host.address]
        command += ["--port", str(port), "--workers", str(workers[number % len(workers)])]
        command += [*own, *shared]
        ready = f"autopush {kind} ready"
        daemon = Daemon(name, host.command(command), ready=ready, environment=environment)
        return daemon, f"{host.address}:{port}"

    made = Cluster()
    for number in range(connections):
        daemon, place = node("connection", number, "--router-port", str(unused_port()))
        made.connections.append(daemon)
        made.websocket_urls.append(f"ws://{place}/")
    for number in range(endpoints):
        daemon, place = node("endpoint", number)
        made.endpoints.append(daemon)
        made.endpoint_urls.append(f"http://{place}")
    async with _running(made.nodes):
        yield made


@asynccontextmanager
async def _running(daemons: Sequence[Daemon]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for daemon in daemons:
            stack.push_async_callback(_end, daemon)
        await asyncio.gather(*(daemon.start() for daemon in daemons))
        yield


async def _end(daemon: Daemon) -> None:
    if daemon.runs:
        await daemon.end(signal.SIGTERM)


AT_ONCE = 2
SHORTEST, LONGEST = 0.5, 7.0
"""Seconds that a fault lasts."""
PAUSE = times(4, 10)
"""Longest time from the start of one fault to that of the next, in seconds. User agents reconnect
at the speed of the database, here some hundreds in a second.
"""
FINALE = float(times(5, 8))
"""Seconds: an endpoint node gives up a call to a node that stands still after three."""


class Cable(Protocol):
    """A host whose link can be set down and up."""

    def cut(self) -> None: ...

    def mend(self) -> None: ...

    def rebuild(self) -> None: ...


class Faults:
    """`cables`: the hosts that can be cut off, by the name of the node on them."""

    def __init__(
        self, cluster: Cluster, ledger: ChaosLedger, cables: Mapping[str, Cable], seed: int
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._cables = cables
        self._random = random.Random(seed)
        self._faulty: set[Daemon] = set()
        self._acts: dict[str, Callable[[Daemon, float], Awaitable[None]]] = {
            "kill": self._kill,
            "stop": self._stop,
            "restart": self._restart,
        }
        if cables:
            self._acts["cut"] = self._cut
            self._acts["crash"] = self._crash

    async def run(self, seconds: float) -> None:
        """Inject faults for so many seconds; returns when the last one is over."""
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < end - SHORTEST:
                await asyncio.sleep(self._random.uniform(0.2, PAUSE))
                left = end - time.monotonic()
                duration = self._random.uniform(SHORTEST, LONGEST)
                kind = self._random.choice(list(self._acts))
                place = self._random.random()
                if left > SHORTEST and len(self._faulty) < AT_ONCE:
                    choice = self._candidates()
                    target = choice[int(place * len(choice))]
                    group.create_task(self._fault(kind, target, min(duration, left)))

    async def finale(self) -> None:
        """All connection nodes are stopped, and an endpoint node that would notify them later of
        what was stored meanwhile is killed.
        """
        async with asyncio.TaskGroup() as group:
            for node in self._cluster.connections:
                group.create_task(self._fault("stop", node, FINALE))
            await asyncio.sleep(FINALE - 1)
            group.create_task(self._fault("kill", self._cluster.endpoints[0], SHORTEST))

    async def kill_node(self) -> None:
        """Returns when it serves again."""
        target = self._random.choice(self._candidates())
        await self._fault("kill", target, SHORTEST)

    async def on_database(self, kind: str, act: Callable[[], None]) -> None:
        """Have the database fail; returns when it is as before."""
        fault = Fault(kind, "database", time.monotonic())
        self._ledger.faults.append(fault)
        await asyncio.to_thread(act)
        fault.ended = time.monotonic()

    def _candidates(self) -> list[Daemon]:
        found: list[Daemon] = []
        for kind in (self._cluster.connections, self._cluster.endpoints):
            healthy = [node for node in kind if node not in self._faulty]
            if len(healthy) > 1:
                found += healthy
        return found

    async def _fault(self, kind: str, target: Daemon, seconds: float) -> None:
        fault = Fault(kind, target.name, time.monotonic())
        self._ledger.faults.append(fault)
        self._faulty.add(target)
        await self._acts[kind](target, seconds)
        self._faulty.remove(target)
        fault.ended = time.monotonic()

    async def _kill(self, target: Daemon, seconds: float) -> None:
        await target.end(signal.SIGKILL)
        await asyncio.sleep(seconds)
        await self._start(target)

    async def _start(self, target: Daemon) -> None:
        """As its supervisor does: again when the store did not answer in time."""
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                await target.start()
            except RuntimeError:
                if attempt == START_ATTEMPTS:
                    raise
            else:
                return

    async def _stop(self, target: Daemon, seconds: float) -> None:
        target.send(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            target.send(signal.SIGCONT)

    async def _restart(self, target: Daemon, seconds: float) -> None:
        assert await target.end(signal.SIGTERM) == 0, f"{target.name} did not stop in order"
        await self._start(target)

    async def _cut(self, target: Daemon, seconds: float) -> None:
        cable = self._cables[target.name]
        cable.cut()
        try:
            await asyncio.sleep(seconds)
        finally:
            cable.mend()

    async def _crash(self, target: Daemon, seconds: float) -> None:
        """The machine is lost with what its sockets held, and is started again later."""
        cable = self._cables[target.name]
        cable.cut()
        await target.end(signal.SIGKILL)
        await asyncio.sleep(seconds)
        cable.rebuild()
        await self._start(target)
