"""Where accounts are required: users of a token connect, strangers do not, and revoking ends it."""

import asyncio
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from support.application_server import ApplicationServer
from support.service import Service, autopush, service
from support.user_agent import UserAgent

REQUIRED = ("--accounts-required", "--log-level", "debug")
REVOKED_WITHIN = 15
"""Seconds; the documentation says five, and this machine may be busy."""
PAUSE = 0.1


async def user_command(data: Path, *words: str, store: str = "", **variables: str) -> str:
    """What `autopush user` prints."""
    options = ["--data", str(data), *(["--store", store] if store else [])]
    printed = await autopush("user", *words, *options, **variables)
    return "".join(line for line in printed.splitlines() if not line.startswith("store: "))


async def connect(running: Service, token: str, uaid: str | None = None) -> UserAgent:
    agent = await UserAgent.connect(f"{running.websocket.rstrip('/')}/{token}")
    await agent.hello(uaid)
    return agent


async def refused(running: Service, path: str) -> int:
    with pytest.raises(InvalidStatus) as refusal:
        await UserAgent.connect(f"{running.websocket.rstrip('/')}/{path}")
    return refusal.value.response.status_code


async def is_admitted(running: Service, token: str) -> bool:
    try:
        agent = await UserAgent.connect(f"{running.websocket.rstrip('/')}/{token}")
    except InvalidStatus:
        return False
    await agent.close()
    return True


async def unknown(running: Service, token: str) -> None:
    """Wait until every worker has read that an account was revoked."""
    async with asyncio.timeout(REVOKED_WITHIN):
        # The kernel chooses the worker.
        while any(  # noqa: ASYNC110 - other processes learn it
            [await is_admitted(running, token) for _ in range(8)]
        ):
            await asyncio.sleep(PAUSE)


async def test_a_user_agent_with_a_token_is_served_until_its_user_is_revoked(
    tmp_path: Path, sender: ApplicationServer
) -> None:
    async with service(tmp_path):
        pass  # it has created the store
    ann, eve = [await user_command(tmp_path, "add", name) for name in ("ann", "eve")]
    async with service(tmp_path, *REQUIRED, "--workers", "2") as running:
        agents = [await connect(running, ann) for _ in range(4)]
        endpoints = [(await agent.register())[1] for agent in agents]
        other = await connect(running, eve)
        _, endpoint = await other.register()
        for each in (*endpoints, endpoint):
            assert ann not in each
            assert (await sender.push(each, b"x")).status == 201
        for agent in (*agents, other):
            await agent.ack([await agent.notification()])

        # It returns, and reaches any worker first.
        await agents[0].close()
        agents[0] = await connect(running, ann, agents[0].uaid)
        assert (await sender.push(endpoints[0], b"x")).status == 201
        await agents[0].ack([await agents[0].notification()])

        await user_command(running.data, "revoke", "ann")
        async with asyncio.timeout(REVOKED_WITHIN):
            codes = await asyncio.gather(*(agent.closed() for agent in agents))
        assert codes == [1008] * 4
        await unknown(running, ann)
        assert await refused(running, ann) == 403
        assert (await sender.push(endpoint, b"x")).status == 201
        await other.ack([await other.notification()])
        await other.close()
        assert running.errors == []
        log = "".join(running.output)
        assert ann not in log
        assert eve not in log
