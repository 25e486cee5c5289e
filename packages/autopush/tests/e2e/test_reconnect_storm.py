"""A running worker, and more user agents that come back at once than it carries out hellos."""

import asyncio
from pathlib import Path

import pytest

from autopush.limits import HELLOS_IN_PROGRESS
from support.service import service
from support.user_agent import UserAgent

CROWD = HELLOS_IN_PROGRESS + 100


@pytest.mark.slow
async def test_all_who_come_back_at_once_are_answered_and_so_is_register(tmp_path: Path) -> None:
    async with service(tmp_path) as running:
        crowd = await asyncio.gather(*(running.connect() for _ in range(CROWD)))
        await asyncio.gather(*(agent.register() for agent in crowd))
        await running.kill()
        for agent in crowd:
            await agent.close()
        await running.start()

        steady = await running.connect()
        returning = [await UserAgent.connect(running.websocket) for _ in crowd]
        identified = zip(returning, crowd, strict=True)
        hellos = asyncio.gather(*(agent.hello(known.uaid) for agent, known in identified))
        registered = 0
        while not (hellos.done() and registered):
            await steady.register()
            registered += 1
        assert [reply["uaid"] for reply in await hellos] == [known.uaid for known in crowd]
        assert not [line for line in running.output if "Refused by a limit" in line]
        await asyncio.gather(*(agent.close() for agent in (*returning, steady)))
