"""Starting and stopping, as an operator sees it."""

import asyncio
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.application_server import application_server
from support.event_loops import until
from support.megaphone_server import megaphone_server
from support.service import Service, clean_environment, running_service, service
from support.soak import slow
from support.tools import run_captured

TIMEOUT = 30
ANY_PORTS = ("--port", "0", "--router-port", "0")

some_workers = pytest.mark.parametrize("workers", [slow("1"), "2"])


def start(
    data: Path, *options: str, wrap: tuple[str, ...] = (), **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Start a service that must not come up, and wait for its end."""
    return run_captured(
        [
            *(*wrap, sys.executable, "-m", "autopush.cli", "serve", "--data", str(data)),
            *ANY_PORTS,
            *options,
        ],
        env=clean_environment(**variables),
        timeout=TIMEOUT,
    )


@contextmanager
def taken_port() -> Iterator[str]:
    """A port that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield str(other.getsockname()[1])


# ── what keeps it from starting ──────────────────────────────────────────────────────────────────


@pytest.mark.slow
@some_workers
def test_the_reason_why_it_does_not_start_is_an_error_in_the_journal_of_systemd(
    tmp_path: Path, workers: str
) -> None:
    journal, output = os.pipe()
    found = os.fstat(output)
    variables = clean_environment(JOURNAL_STREAM=f"{found.st_dev}:{found.st_ino}")
    with taken_port() as port:
        command = [sys.executable, "-m", "autopush.cli", "serve", "--data", str(tmp_path)]
        command += [*ANY_PORTS, "--port", port, "--workers", workers]
        subprocess.run(
            command, stdout=output, stderr=output, env=variables, timeout=TIMEOUT, check=False
        )
    os.close(output)
    with open(journal) as lines:
        errors = [line for line in lines if line.startswith("<3>")]
    assert len(errors) == 1
    assert errors[0].startswith("<3>autopush: ")
    assert port in errors[0]


# ── a good start ─────────────────────────────────────────────────────────────────────────────────


async def test_more_info_of_every_refusal_is_a_page_of_the_service_with_that_anchor(
    tmp_path: Path,
) -> None:
    async with service(tmp_path) as running, application_server() as http:
        websocket_port = running.websocket.replace("ws://", "http://")
        refusals = [
            (await http.push(f"{running.endpoint}/wpush/v1/x")).document,
            (await http.request("GET", f"{running.endpoint}/nowhere")).document,
            (await http.request("POST", f"{websocket_port}nowhere")).document,
            (await http.request("GET", f"{running.node_api}/nowhere")).document,
        ]
        reader, writer = await asyncio.open_connection(*running.endpoint[7:].split(":"))
        writer.write(b"this is not HTTP\r\n\r\n")
        refusals.append(json.loads((await reader.read()).partition(b"\r\n\r\n")[2]))
        writer.close()
        assert refusals[-1]["errno"] is None
        agent = await running.connect()
        await agent.send(messageType="register", channelID="x")
        refusals.append(await agent.reply())
        await agent.close()
        for refusal in refusals:
            url, _, anchor = refusal["more_info"].partition("#")
            assert url == f"{running.endpoint}/errors"
            page = await http.request("GET", url)
            assert page.status == 200
            assert f'id="{anchor}"'.encode() in page.body


@some_workers
async def test_when_the_ready_line_is_printed_all_ports_serve(tmp_path: Path, workers: str) -> None:
    async with service(tmp_path, "--workers", workers) as running, application_server() as http:
        websocket_port = running.websocket.replace("ws://", "http://")
        for url in (running.endpoint, websocket_port, running.node_api):
            assert (await http.request("GET", f"{url.rstrip('/')}/health")).status == 200
        agent = await running.connect()
        assert (await agent.register())[1].startswith(f"{running.endpoint}/wpush/v1/")
        await agent.close()
        assert sum("autopush ready" in line for line in running.output) == 1
        assert running.errors == []


@pytest.mark.parametrize(
    ("number", "workers"), [(signal.SIGINT, "1"), (signal.SIGINT, "2"), (signal.SIGTERM, "2")]
)
def test_a_signal_ends_it_with_exit_code_0(
    tmp_path: Path, number: signal.Signals, workers: str
) -> None:
    running = Service(tmp_path, ["--workers", workers])
    running.launch()
    assert running.end(number) == 0
    assert running.errors == []
    for port in (running.websocket_port, running.endpoint_port, running.router_port):
        with socket.create_server(("127.0.0.1", port)):
            pass  # it is free again


async def test_a_service_that_stops_has_logged_every_session(tmp_path: Path) -> None:
    running = Service(tmp_path, ["--human-logs", "--workers", "2"])
    await running.start()
    agents = [await running.connect() for _ in range(20)]
    assert await running.stop() == 0
    lines = [line for line in running.output if " Session uaid_hash=" in line]
    assert len(lines) == len(agents)
    assert all("disconnect_reason='going away' close_code=1001" in line for line in lines)
    for agent in agents:
        await agent.close()


@pytest.mark.slow
@some_workers
async def test_sigterm_during_the_wait_for_a_locked_store_ends_the_start_with_exit_code_0(
    tmp_path: Path, workers: str
) -> None:
    with running_service(tmp_path, "--workers", workers):
        pass
    with (tmp_path / "autopush.sqlite-open").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running = Service(tmp_path, ["--workers", workers])
        starting = asyncio.create_task(running.start())
        await running.logged("Waiting for another process that has the store locked")
        began = time.monotonic()
        assert await running.stop() == 0
        assert time.monotonic() - began < 10
        with pytest.raises(RuntimeError, match="did not start"):
            await starting
    assert "Stopped during the start" in running.output[-1]
    assert running.errors == []


@pytest.mark.slow
@some_workers
async def test_sighup_during_the_start_does_not_end_it_and_is_obeyed(
    tmp_path: Path, workers: str
) -> None:
    log = tmp_path / "log"
    async with megaphone_server() as source:
        source.answers.clear()  # the start waits for this
        options = ["--workers", workers, "--log-output", str(log)]
        options += ["--megaphone-api-url", source.url]
        running = Service(tmp_path / "data", options)
        received = asyncio.create_task(source.polled(1))
        starting = asyncio.create_task(running.start())
        await received
        log.rename(tmp_path / "old")
        os.kill(running.pid, signal.SIGHUP)
        source.answers.set()
        await starting
        await until(log.exists)
        assert await running.stop() == 0


# ── several on one folder ────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
async def test_two_services_may_start_at_once_on_one_new_folder_and_work_together(
    tmp_path: Path,
) -> None:
    one, two = Service(tmp_path, []), Service(tmp_path, [])
    try:
        await asyncio.gather(one.start(), two.start())
        agent = await one.connect()
        _, endpoint = await agent.register()
        other = endpoint.replace(one.endpoint, two.endpoint)
        async with application_server() as http:
            # Over the other's endpoint to this one's socket.
            direct = await http.push(other, b"direct")
            assert (await agent.notification())["version"] == direct.message_id
            await agent.close()
            # Not acked there, and one more: both wait, and the other has them.
            stored = await http.push(endpoint, b"stored")
            agent = await two.connect(agent.uaid)
            got = await agent.receive(2, ack=True)
            assert {m["version"] for m in got} == {direct.message_id, stored.message_id}
        await agent.close()
    finally:
        codes = [await running.stop() for running in (one, two)]
    assert codes == [0, 0]
    assert one.errors + two.errors == []
