"""Broadcasts from outside: a source, the service, and user agents."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.megaphone_server import MONITOR, MegaphoneServer, megaphone_server
from support.service import Service, refusal, service
from support.sockets import unused_port
from support.user_agent import Message, UserAgent

OTHER = "remote-settings/other"
FAST = ("--megaphone-poll-interval", "0.05")
TICKING = (*FAST, "--auto-ping-interval", "0.5")
TOKEN = "Bearer a-secret-of-the-source"


@pytest.fixture
async def source() -> AsyncIterator[MegaphoneServer]:
    async with megaphone_server() as source:
        source.versions |= {MONITOR: "1", OTHER: "1"}
        yield source


@pytest.fixture
async def running(source: MegaphoneServer, tmp_path: Path) -> AsyncIterator[Service]:
    options = ("--workers", "2", "--megaphone-api-url", source.url, *TICKING)
    async with service(tmp_path, *options, MEGAPHONE_API_TOKEN=TOKEN) as running:
        yield running
    assert running.errors == []
    assert {each.headers["Authorization"] for each in source.requests} == {TOKEN}
    assert TOKEN not in "".join(running.output)


async def connected(
    running: Service, agents: list[UserAgent], broadcasts: dict[str, str] | None = None
) -> tuple[UserAgent, object]:
    """A user agent, and the broadcasts of its hello reply."""
    agents.append(await UserAgent.connect(running.websocket))
    return agents[-1], (await agents[-1].hello(broadcasts=broadcasts))["broadcasts"]


def broadcast(**versions: str) -> Message:
    names = {"monitor": MONITOR, "other": OTHER}
    told = {names[name]: version for name, version in versions.items()}
    return {"messageType": "broadcast", "broadcasts": told}


async def test_an_outdated_version_is_answered_in_the_hello_reply_and_changes_are_pushed(
    running: Service, source: MegaphoneServer, agents: list[UserAgent]
) -> None:
    agent, told = await connected(running, agents, broadcasts={MONITOR: "0"})
    assert told == {MONITOR: "1"}
    for version in ("2", "3"):
        source.versions[MONITOR] = version
        assert await agent.reply() == broadcast(monitor=version)


# ── the start ─────────────────────────────────────────────────────────────────────────────────────


async def refused(tmp_path: Path, *options: str, command: str = "serve") -> str:
    """The one line of a service that must not start."""
    ports = {"serve": ("--port", "0", "--router-port", "0")}
    words = (*ports.get(command, ()), *options)
    return await asyncio.to_thread(refusal, tmp_path, command, *words)


@pytest.mark.slow
async def test_without_a_first_answer_nothing_starts(
    source: MegaphoneServer, tmp_path: Path
) -> None:
    source.status = 500
    options = ("--workers", "2", "--megaphone-api-url", source.url)
    line = await refused(tmp_path, *options)
    assert line == f"autopush: --megaphone-api-url: {source.url}: the answer is 500\n"
    url = f"http://127.0.0.1:{unused_port()}"
    line = await refused(tmp_path, "--megaphone-api-url", url)
    assert line.startswith(f"autopush: --megaphone-api-url: {url}: ")


@pytest.mark.slow
async def test_without_pings_the_start_warns_that_no_change_is_sent(
    source: MegaphoneServer, tmp_path: Path, agents: list[UserAgent]
) -> None:
    options = ("--megaphone-api-url", source.url, "--auto-ping-interval", "0")
    async with service(tmp_path, *options) as running:
        await running.logged("auto_ping_interval is 0")
        agents.append(await UserAgent.connect(running.websocket))
        reply = await agents[-1].hello(broadcasts={MONITOR: "0"})
        assert "ping" not in reply
        assert reply["broadcasts"] == {MONITOR: "1"}
