"""TLS of our own, from outside: on the public ports, between nodes, and while it is replaced."""

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from support.application_server import ApplicationServer, application_server
from support.certificates import Authority, CertificateFiles
from support.service import Service, service
from support.sockets import open_files
from support.user_agent import UserAgent


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def files(authority: Authority, tmp_path: Path) -> CertificateFiles:
    return authority.issue(tmp_path)


@asynccontextmanager
async def tls_service(
    folder: Path, authority: Authority, files: CertificateFiles, *options: str
) -> AsyncIterator[Service]:
    async with service(folder / "data", *files.options, *options) as running:
        running.tls = authority.client()
        yield running


def names_of(tls: ssl.SSLObject) -> set[str]:
    """What the server's certificate is for."""
    return {value for _, value in cast(dict[str, Any], tls.getpeercert())["subjectAltName"]}


def names_seen(agent: UserAgent) -> set[str]:
    return names_of(agent.socket.transport.get_extra_info("ssl_object"))


async def names_shown(port: int, authority: Authority) -> set[str]:
    """Of the certificate that a new connection gets."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=authority.client())
    names = names_of(writer.get_extra_info("ssl_object"))
    writer.close()
    return names


# ── the public ports ─────────────────────────────────────────────────────────────────────────────


async def test_a_message_comes_through_over_wss_and_https(
    tmp_path: Path, authority: Authority, files: CertificateFiles, agents: list[UserAgent]
) -> None:
    async with (
        tls_service(tmp_path, authority, files, "--workers", "2") as running,
        application_server(tls=authority.client()) as sender,
    ):
        assert running.websocket.startswith("wss://127.0.0.1:")
        for _ in range(4):
            agents.append(await running.connect())
            _, endpoint = await agents[-1].register()
            assert endpoint.startswith(f"{running.endpoint}/wpush/")
            assert endpoint.startswith("https://")
            answer = await sender.push(endpoint, b"x" * 4096)
            (got,) = await agents[-1].receive(1, ack=True)
            assert got["version"] == answer.message_id
            assert answer.headers["Location"].startswith("https://")
            assert answer.headers["Strict-Transport-Security"].startswith("max-age=31536000")
        # What comes while it is away, and in one burst.
        await agents[-1].close()
        sent = [(await sender.push(endpoint, b"%d" % n)).message_id for n in range(30)]
        agents.append(await running.connect(agents[-1].uaid))
        assert [m["version"] for m in await agents[-1].receive(30, ack=True)] == sent
    assert await agents[0].closed() == 1001  # each is told that the service goes
    assert running.errors == []


# ── replacing the certificate ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_after_sighup_new_connections_get_the_new_certificate_and_old_ones_go_on(
    tmp_path: Path,
    authority: Authority,
    files: CertificateFiles,
    agents: list[UserAgent],
    workers: str,
) -> None:
    async with (
        tls_service(tmp_path, authority, files, "--workers", workers) as running,
        application_server(tls=authority.client()) as sender,
    ):
        agents += [await running.connect() for _ in range(4)]
        endpoints = [(await agent.register())[1] for agent in agents]
        authority.issue(tmp_path, "127.0.0.1", "renewed.example")
        os.kill(running.pid, signal.SIGHUP)
        await running.logged("A certificate was read again", int(workers))
        (line, *_) = [line for line in running.output if "was read again" in line]
        assert "renewed.example" in line
        assert "expires" in line
        for port in (running.websocket_port, running.endpoint_port):
            for _ in range(4):
                assert "renewed.example" in await names_shown(port, authority)
        for agent, endpoint in zip(agents, endpoints, strict=True):
            assert names_seen(agent) == {"127.0.0.1"}
            answer = await sender.push(endpoint, b"over the old connection")
            assert (await agent.notification())["version"] == answer.message_id
    assert running.errors == []


@pytest.mark.slow
async def test_a_worker_that_is_restarted_has_the_new_certificate_too(
    tmp_path: Path, authority: Authority, files: CertificateFiles
) -> None:
    async with tls_service(tmp_path, authority, files, "--workers", "2") as running:
        authority.issue(tmp_path, "127.0.0.1", "renewed.example")
        os.kill(running.pid, signal.SIGHUP)
        await running.logged("A certificate was read again", 2)
        for pid in running.workers:
            os.kill(pid, signal.SIGKILL)
        await running.logged("A certificate was read again", 4)
        for _ in range(6):
            names = await names_shown(running.endpoint_port, authority)
            assert "renewed.example" in names


@pytest.mark.slow
async def test_sighup_has_every_process_open_the_log_again(tmp_path: Path) -> None:
    log, old = tmp_path / "log", tmp_path / "log.1"
    options = ("--log-output", str(log), "--workers", "2")
    async with service(tmp_path / "data", *options) as running:
        log.rename(old)
        files = {process: set(open_files(process)) for process in {running.pid, *running.workers}}
        assert all(str(old) in names for names in files.values())
        os.kill(running.pid, signal.SIGHUP)
        async with asyncio.timeout(20):
            # Other processes have no event for it.
            while not all(str(log) in open_files(process) for process in files):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert not any(str(old) in open_files(process) for process in files)


# ── between nodes ────────────────────────────────────────────────────────────────────────────────


async def test_messages_cross_between_nodes_with_and_without_tls(
    tmp_path: Path,
    authority: Authority,
    files: CertificateFiles,
    agents: list[UserAgent],
    sender: ApplicationServer,
) -> None:
    trust = ("--router-ssl-ca", str(authority.path))
    data = tmp_path / "data"
    async with service(data, *trust, command="endpoint") as endpoint_node:
        url = ("--endpoint-url", endpoint_node.endpoint)
        async with (
            service(
                data, *url, *trust, *files.router_options, "--workers", "2", command="connection"
            ) as secure,
            service(data, *url, *trust, command="connection") as plain,
        ):
            for node in (secure, secure, secure, plain):
                agents.append(await node.connect())
                _, endpoint = await agents[-1].register()
                answer = await sender.push(endpoint, b"through the node", ttl=0)
                assert (await agents[-1].notification())["version"] == answer.message_id
            # A user agent that moves: the new node has the old one close its connection.
            for before, after in ((secure, plain), (plain, secure)):
                old = await before.connect()
                await old.register()
                agents += [old, await after.connect(old.uaid)]
                assert await old.closed() is not None
    assert secure.errors == plain.errors == endpoint_node.errors == []
