"""Maintenance beside a running service: user agents still in use notice nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.application_server import ApplicationServer
from support.data_store import DataStore, month_table, next_month
from support.service import Service, run_command, service
from support.soak import slow_after
from support.user_agent import UserAgent

pytestmark = pytest.mark.slow

ROTATION = ("--table-rotation", "--no-table-rotation")
Command = Callable[..., Awaitable[tuple[int, str, str]]]


@asynccontextmanager
async def identified(running: Service, known: str | None = None) -> AsyncIterator[UserAgent]:
    agent = await running.connect(known)
    try:
        yield agent
    finally:
        await agent.close()


@pytest.fixture
def store(tmp_path: Path) -> DataStore:
    return DataStore(tmp_path)


@pytest.fixture
def command(store: DataStore) -> Command:
    async def command(*words: str) -> tuple[int, str, str]:
        ended = await asyncio.to_thread(run_command, [*words, "--data", str(store.data)])
        return ended.returncode, ended.stdout, ended.stderr

    return command


@pytest.mark.parametrize("rotation", slow_after(1, ROTATION))
async def test_only_user_agents_not_seen_for_months_are_dropped(
    store: DataStore, command: Command, sender: ApplicationServer, rotation: str
) -> None:
    rotates = rotation == "--table-rotation"
    old = month_table(3) if rotates else "message"
    await asyncio.to_thread(store.add_users, range(300), 3, old)
    async with service(store.data, rotation) as running:
        async with identified(running) as away:
            _, letterbox = await away.register()
        async with identified(running) as here:
            _, endpoint = await here.register()
            waiting = await sender.push(letterbox, b"stored")
            code, out, _ = await command("maintain", "--hours-only", rotation)
            assert code == 0
            assert "users: dropped 300 " in out
            sent = await sender.push(endpoint, b"direct")
            assert (await here.notification())["version"] == sent.message_id
        async with identified(running, away.uaid) as back:
            assert back.uaid == away.uaid
            assert (await back.notification())["version"] == waiting.message_id
        assert running.errors == []
    assert await asyncio.to_thread(store.users) == {away.uaid, here.uaid}
    tables = await asyncio.to_thread(store.tables)
    assert (old in tables) is not rotates
    assert (next_month() in tables) is rotates
