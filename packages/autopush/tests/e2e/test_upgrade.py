"""An upgrade of the running service: the next version takes its place, or nothing happens."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.application_server import ApplicationServer, application_server
from support.service import Service, clean_environment, service
from support.user_agent import UserAgent

workers = pytest.mark.parametrize("workers", ["1", "2"])
DONE = "The next version serves"
PAUSE = 0.005
COMMAND_TIMEOUT = 90


def upgrade(*words: str) -> "subprocess.CompletedProcess[str]":
    """The command `autopush upgrade`."""
    return subprocess.run(
        [sys.executable, "-m", "autopush.cli", "upgrade", *words],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=COMMAND_TIMEOUT,
        check=False,
    )


async def upgraded(running: Service) -> int:
    """Upgrade; returns the process id of the next version."""
    done = await asyncio.to_thread(upgrade, "--data", str(running.data))
    assert done.returncode == 0, (done.stdout, done.stderr, running.output)
    assert DONE in done.stdout
    return int(done.stdout.partition("(process ")[2].partition(")")[0])


async def stop(pid: int) -> None:
    descriptor = os.pidfd_open(pid)
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, gone.set)
    os.kill(pid, signal.SIGTERM)
    async with asyncio.timeout(COMMAND_TIMEOUT):
        await gone.wait()
    loop.remove_reader(descriptor)
    os.close(descriptor)


@workers
async def test_pushes_during_an_upgrade_are_all_accepted_and_delivered(
    tmp_path: Path, workers: str
) -> None:
    running = Service(tmp_path, ["--workers", workers, "--upgrade-drain", "1"])
    await running.start()
    agents = [await running.connect() for _ in range(4)]
    endpoints = [(await agent.register())[1] for agent in agents]
    await agents[0].close()  # the others are connected to the first version until it closes them
    statuses: Counter[int] = Counter()

    async def push(sender: ApplicationServer) -> None:
        for endpoint in endpoints:
            statuses[(await sender.push(endpoint, b"x", ttl=60)).status] += 1

    async def push_until(ended: asyncio.Event, sender: ApplicationServer) -> None:
        while not ended.is_set():
            await push(sender)
            await asyncio.sleep(PAUSE)

    is_over = asyncio.Event()
    async with application_server() as sender:
        pushing = asyncio.create_task(push_until(is_over, sender))
        pid = await upgraded(running)
        try:
            assert await running.ended() == 0
        finally:
            is_over.set()
        await pushing
        await push(sender)
    try:
        assert statuses.keys() == {201}
        versions = set()
        for agent in agents:
            await agent.closed()
            again = await running.connect(agent.uaid)
            got = agent.received_versions()
            while len(got) < statuses[201] // len(agents):
                message = await again.notification()
                got.add(message["version"])
                await again.ack([message])
            versions |= got
            await again.close()
        assert len(versions) == statuses[201]
    finally:
        await stop(pid)
    assert running.errors == []


@workers
async def test_user_agents_that_stay_behind_are_closed_over_the_time_of_the_option(
    tmp_path: Path, workers: str
) -> None:
    running = Service(tmp_path, ["--workers", workers, "--upgrade-drain", "2"])
    await running.start()
    agents = [await running.connect() for _ in range(20)]
    loop = asyncio.get_running_loop()

    async def closed(agent: UserAgent) -> float:
        assert await agent.closed() == 1001
        return loop.time()

    pid = await upgraded(running)
    times = sorted(await asyncio.gather(*map(closed, agents)))
    assert times[-1] - times[0] > 0.5  # expected: 1.8
    again = await running.connect()
    await again.close()
    assert await running.ended() == 0
    await stop(pid)


@pytest.mark.parametrize(
    ("workers", "broken"),
    [("1", "no_such_option = 1"), ("2", "no_such_option = 1"), ("2", "workers = 3")],
)
async def test_a_version_that_does_not_start_leaves_the_old_one_serving(
    tmp_path: Path, workers: str, broken: str
) -> None:
    config = tmp_path / "autopush.toml"
    config.write_text(f"workers = {workers}\n")
    data = tmp_path / "data"
    async with service(data, "--config", str(config)) as running:
        agent = await running.connect()
        _, endpoint = await agent.register()
        config.write_text(f"{broken}\n")
        failed = await asyncio.to_thread(upgrade, "--pid", str(running.pid))
        assert (failed.returncode, "goes on as before" in failed.stdout) == (1, True), failed
        await running.logged("The upgrade failed; this version goes on")
        config.write_text(f"workers = {workers}\n")
        async with application_server() as sender:
            assert (await sender.push(endpoint, b"x")).status == 201
        await agent.ack([await agent.notification()])
        await agent.close()
        pid = await upgraded(running)  # the next attempt succeeds
        assert await running.ended() == 0
        await stop(pid)


def test_an_upgrade_of_no_service_is_refused(tmp_path: Path) -> None:
    refused = upgrade("--data", str(tmp_path))
    assert refused.returncode == 3
    assert "no process has" in refused.stderr
