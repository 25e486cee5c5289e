"""An upgrade of the running service: the next version takes its place, or nothing happens."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from websockets.exceptions import ConnectionClosed

from autopush.service.upgrade import find_next_version
from support.application_server import ApplicationServer, application_server
from support.certificates import Authority
from support.chromium import Chromium
from support.console_page import log_in, shown
from support.service import Service, run_command, service
from support.soak import slow
from support.user_agent import SILENCE, Message, UserAgent

workers = pytest.mark.parametrize("workers", [slow("1"), "2"])
DONE = "The next version serves"
PAUSE = 0.005
COMMAND_TIMEOUT = 60

_started: dict[int, int] = {}
"""The main processes of a test: descriptors, and their ids."""
_services: "list[EndedService]" = []
"""The first versions among them."""


@pytest.fixture(autouse=True)
def end_what_is_left() -> Iterator[None]:
    """End the versions that a test leaves running when it fails."""
    yield
    for descriptor, pid in _started.items():
        following = find_next_version(pid)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        if following is not None:  # it was not known to the test
            with suppress(ProcessLookupError):
                os.kill(following.pid, signal.SIGKILL)
        os.close(descriptor)
    _started.clear()
    for running in _services:  # or the garbage collector would complain in another test
        running.end(signal.SIGKILL)
    _services.clear()


def note(pid: int) -> int:
    """Have that process end with the test."""
    _started[os.pidfd_open(pid)] = pid
    return pid


class EndedService(Service):
    """One that ends with the test."""

    is_executed = True

    def launch(self) -> None:
        _services.append(self)
        super().launch()
        note(self.pid)


def upgrade(*words: str) -> "subprocess.CompletedProcess[str]":
    """The command `autopush upgrade`."""
    return run_command(["upgrade", *words])


async def upgraded(running: Service) -> int:
    """Upgrade; returns the process id of the next version."""
    done = await asyncio.to_thread(upgrade, "--data", str(running.data))
    assert done.returncode == 0, (done.stdout, done.stderr, running.output)
    assert DONE in done.stdout
    return next_pid(done)


def next_pid(done: "subprocess.CompletedProcess[str]") -> int:
    """Of the version that `upgrade` has started."""
    return note(int(done.stdout.partition("(process ")[2].partition(")")[0]))


async def stop(pid: int) -> None:
    descriptor = os.pidfd_open(pid)
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, gone.set)
    os.kill(pid, signal.SIGTERM)
    async with asyncio.timeout(COMMAND_TIMEOUT):
        await gone.wait()
    loop.remove_reader(descriptor)
    os.close(descriptor)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(COMMAND_TIMEOUT):
        while not condition():  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(PAUSE)


class Load:
    """User agents that ack what they get, and pushes to all of them in turn."""

    def __init__(self, running: Service) -> None:
        self.running = running
        self.agents: list[UserAgent] = []
        self.statuses: Counter[int] = Counter()
        self.accepted: set[str] = set()
        self.unanswered = 0
        self._endpoints: list[str] = []
        self._acking: list[asyncio.Task[None]] = []

    async def connect(self, number: int) -> None:
        for _ in range(number):
            agent = await self.running.connect()
            self._endpoints.append((await agent.register())[1])
            self.agents.append(agent)
            self._acking.append(asyncio.create_task(self._ack(agent)))

    @asynccontextmanager
    async def pushing(self, *, is_killed: bool = False) -> AsyncIterator[None]:
        """`is_killed`: a process is, so a push under way there may get no answer."""
        async with application_server() as sender:
            unanswered = aiohttp.ClientConnectionError if is_killed else ()
            pushing = asyncio.create_task(self._push(sender, unanswered))
            try:
                yield
            finally:
                self._is_over = True
                await pushing

    async def all_received(self) -> None:
        """Wait until each accepted message has been received, once, on the first connection."""
        await until(lambda: self.accepted <= self.received.keys())
        assert set(self.received.values()) == {1}
        for agent in self.agents:
            assert agent.socket.close_code is None
            again = await self.running.connect(agent.uaid)  # ends the first connection
            await again.silence()
            await again.close()

    @property
    def received(self) -> Counter[str]:
        return Counter(
            each["version"]
            for agent in self.agents
            for each in agent.received
            if each["messageType"] == "notification"
        )

    async def _ack(self, agent: UserAgent) -> None:
        with suppress(ConnectionClosed):
            while True:
                await agent.ack([await agent.notifications.get()])

    async def _push(
        self, sender: ApplicationServer, unanswered: type[Exception] | tuple[()]
    ) -> None:
        self._is_over = False
        while not self._is_over:
            for endpoint in self._endpoints:
                try:
                    answer = await sender.push(endpoint, b"x", ttl=60)
                except unanswered:
                    self.unanswered += 1
                    continue
                self.statuses[answer.status] += 1
                if answer.status == 201:
                    self.accepted.add(answer.message_id)
            await asyncio.sleep(PAUSE)

    async def end(self) -> None:
        for task in self._acking:
            task.cancel()
        await asyncio.gather(*self._acking, return_exceptions=True)
        for agent in self.agents:
            await agent.close()


@asynccontextmanager
async def load(running: Service, number: int = 8) -> AsyncIterator[Load]:
    made = Load(running)
    try:
        await made.connect(number)
        yield made
    finally:
        await made.end()


async def upgraded_by_pid(running: Service, pid: int) -> int:
    """As `upgraded`, of the version with that main process."""
    done = await asyncio.to_thread(upgrade, "--pid", str(pid))
    assert done.returncode == 0, (done.stdout, done.stderr, running.output)
    return next_pid(done)


@pytest.mark.slow
@workers
async def test_a_next_version_that_is_killed_before_this_one_has_ended_is_replaced_by_it(
    tmp_path: Path, workers: str
) -> None:
    authority = Authority(tmp_path)
    tls = authority.issue(tmp_path).options
    # They cannot be handed over, so this version is still there.
    running = EndedService(tmp_path, ["--workers", workers, "--upgrade-drain", "600", *tls])
    running.tls = authority.client()
    await running.start()
    agents = [await running.connect() for _ in range(8)]
    endpoints = [(await agent.register())[1] for agent in agents]
    async with application_server(tls=authority.client()) as sender:
        for _ in range(2):  # also after it has come back once
            following = await upgraded_by_pid(running, running.pid)
            accepted = []
            for endpoint in endpoints:
                answer = await sender.push(endpoint, b"x", ttl=600)
                assert answer.status == 201
                accepted.append(answer.message_id)
            os.kill(following, signal.SIGKILL)
            await asyncio.gather(*(agent.closed() for agent in agents))  # they are given time to
            agents = [await running.connect(agent.uaid) for agent in agents]
            for agent, message_id in zip(agents, accepted, strict=True):
                while (message := await agent.notification())["version"] != message_id:
                    await agent.ack([message])
                await agent.ack([message])
            assert (await sender.push(endpoints[0], b"x", ttl=600)).status == 201
            await agents[0].receive(1, ack=True)
    for agent in agents:
        await agent.close()
    assert await running.stop() == 0
    assert not [line for line in running.errors if "serves again" not in line]


@pytest.mark.parametrize(("workers", "delivery"), [slow("1", "bypass"), ("2", "store-first")])
async def test_in_upgrades_under_load_no_connection_is_closed_and_no_push_refused_or_repeated(
    tmp_path: Path, workers: str, delivery: str
) -> None:
    options = ["--workers", workers, "--upgrade-drain", "1", "--direct-delivery", delivery]
    running = EndedService(tmp_path, options)
    await running.start()
    async with load(running) as traffic:
        async with traffic.pushing():
            first = await upgraded(running)
            second = await upgraded_by_pid(running, first)  # the first version may still be there
            assert await running.ended() == 0
        try:
            assert traffic.statuses.keys() == {201}
            await traffic.all_received()
        finally:
            await stop(second)
    assert running.errors == []


def js_number(section: str, *names: str) -> str:
    """The sum of what the console shows under these names, as a JavaScript expression."""
    values = (f"Number(({shown(section, name)} ?? 'x').replaceAll(',', ''))" for name in names)
    return f"({' + '.join(values)})"


@pytest.mark.browser
async def test_an_open_page_of_the_console_survives_a_kill_and_an_upgrade_and_is_right(
    browser: Chromium, tmp_path: Path
) -> None:
    running = EndedService(tmp_path, ["--console", "--workers", "2", "--upgrade-drain", "1"])
    await running.start()
    page, _ = await log_in(browser, running)
    connected = "Number(document.querySelector('[data-name=connected]').textContent)"
    workers = shown("service", "Workers")
    accepted = js_number("pushes", "Delivered directly", "Stored for later")
    now = "fetch('/console/now.json').then((answer) => answer.json())"

    async def shows(least: int, most: int) -> None:
        await page.until(f"{least} <= {accepted} && {accepted} <= {most}")

    async def push_more(traffic: Load) -> None:
        wanted = len(traffic.accepted) + 100
        await until(lambda: len(traffic.accepted) > wanted)

    # So many that each worker has some of them.
    async with load(running, 24) as traffic:
        await page.until(f"{connected} === {len(traffic.agents)}")
        async with traffic.pushing():
            await push_more(traffic)
        known = len(traffic.accepted)
        await shows(known, known)
        async with traffic.pushing(is_killed=True):
            os.kill(running.workers[1], signal.SIGKILL)
            await running.logged("A worker ended and is restarted")
            await push_more(traffic)
        # What a worker has counted in its last second is lost with it.
        await shows(known, len(traffic.accepted) + traffic.unanswered)
        left = [each for each in traffic.agents if each.socket.close_code is None]
        assert 0 < len(left) < len(traffic.agents)
        await page.until(f"{connected} === {len(left)}")
        known = len(traffic.accepted)
        began = await page.evaluate(f"{now}.then((now) => now.started)")
        async with traffic.pushing():
            following = await upgraded(running)
            assert await running.ended() == 0
            await push_more(traffic)
        try:
            of_upgrade = len(traffic.accepted) - known
            # Until then the page shows the old version, whose counts are its own.
            counted = "(now.outcomes.Direct ?? 0) + (now.outcomes.Stored ?? 0)"
            is_new = f"now.started !== {began} && {counted} === {accepted}"
            await page.until(f"{now}.then((now) => {is_new})")
            await page.until(f"{shown('service', 'Upgrade')} === 'none under way'")
            await page.until(f"{workers} === '2 of 2 ready'")
            await page.until(f"{connected} === {len(left)}")
            await shows(1, of_upgrade)
            before = await page.evaluate(accepted)
            async with traffic.pushing():
                await push_more(traffic)
            more = len(traffic.accepted) - known - of_upgrade
            await shows(before + more, of_upgrade + more)
            assert await page.evaluate("document.querySelector('#state').dataset.state") == "live"
            assert traffic.statuses.keys() <= {201, 503}
        finally:
            await stop(following)
    assert not [line for line in running.errors if "worker" not in line]


@pytest.mark.slow
@workers
async def test_a_version_killed_while_it_hands_over_loses_nothing_that_was_accepted(
    tmp_path: Path, workers: str
) -> None:
    running = EndedService(tmp_path, ["--workers", workers, "--upgrade-drain", "30"])
    await running.start()
    async with load(running, 40) as traffic:
        async with traffic.pushing(is_killed=True):
            pid = await upgraded(running)
            os.kill(running.pid, signal.SIGKILL)
            await running.ended()
        try:
            assert traffic.statuses.keys() == {201}
            left = [agent for agent in traffic.agents if agent.socket.close_code is not None]
            missing = traffic.accepted - traffic.received.keys()
            for agent in left:
                again = await running.connect(agent.uaid)
                while (message := await _next(again)) is not None:
                    missing.discard(message["version"])
                    await again.ack([message])
                await again.close()
            await until(lambda: missing <= traffic.received.keys())
        finally:
            await stop(pid)


@pytest.mark.slow
@workers
async def test_a_next_version_that_is_killed_while_it_starts_is_noticed_by_nobody(
    tmp_path: Path, workers: str
) -> None:
    config = tmp_path / "autopush.toml"
    config.write_text(f"workers = {workers}\n")
    async with service(tmp_path / "data", "--config", str(config)) as running:
        async with load(running) as traffic:
            async with traffic.pushing():
                config.unlink()
                os.mkfifo(config)  # the next version waits for what is written to it
                os.kill(running.pid, signal.SIGUSR2)
                await until(lambda: find_next_version(running.pid) is not None)
                following = find_next_version(running.pid)
                assert following is not None
                os.kill(following.pid, signal.SIGKILL)
                await running.logged("The upgrade failed; this version goes on")
                config.unlink()
            assert traffic.statuses.keys() == {201}
            await traffic.all_received()
        assert running.runs


async def _next(agent: UserAgent) -> Message | None:
    try:
        return await asyncio.wait_for(agent.notifications.get(), SILENCE)
    except TimeoutError:
        return None


@pytest.mark.slow
@workers
async def test_connections_over_tls_are_closed_over_the_time_of_the_option(
    tmp_path: Path, workers: str
) -> None:
    authority = Authority(tmp_path)
    tls = authority.issue(tmp_path).options
    running = EndedService(tmp_path, ["--workers", workers, "--upgrade-drain", "5", *tls])
    running.tls = authority.client()
    await running.start()
    agents = [await running.connect() for _ in range(20)]
    loop = asyncio.get_running_loop()

    async def closed(agent: UserAgent) -> float:
        assert await agent.closed() == 1001
        return loop.time()

    pid = await upgraded(running)
    times = sorted(await asyncio.gather(*map(closed, agents)))
    assert times[-1] - times[0] > 0.5  # expected: 4.7; less on a machine that lacks processors
    again = await running.connect()
    await again.close()
    assert await running.ended() == 0
    await stop(pid)


HANDLES_THE_SIGNAL = (
    "import signal; signal.signal(signal.SIGUSR2, exit); print('ready', flush=True); signal.pause()"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "echo ready; exec sleep 600"],
        [sys.executable, "-c", HANDLES_THE_SIGNAL],
        [sys.executable, "-c", HANDLES_THE_SIGNAL, "autopush", "serve"],
    ],
    ids=["without a handler", "with a handler", "with our name"],
)
def test_a_process_that_is_no_service_gets_no_signal(command: list[str]) -> None:
    other = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"ready\n"
    try:
        refused = upgrade("--pid", str(other.pid))
        assert refused.returncode == 3
        assert f"process {other.pid} is not the main process of a service" in refused.stderr
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


@pytest.mark.slow
async def test_a_worker_gets_no_signal_and_its_main_process_is_named(tmp_path: Path) -> None:
    async with service(tmp_path, "--workers", "2") as running:
        for worker in (workers := running.workers):
            refused = await asyncio.to_thread(upgrade, "--pid", str(worker))
            assert refused.returncode == 3
            assert f"is a worker of a service: its main process is {running.pid}" in refused.stderr
        agent = await running.connect()
        await agent.register()
        await agent.close()
        assert running.workers == workers
        assert running.errors == []


def test_an_upgrade_of_no_service_is_refused(tmp_path: Path) -> None:
    refused = upgrade("--data", str(tmp_path))
    assert refused.returncode == 3
    assert "no process has" in refused.stderr
