"""A service moves from one kind of store to the next with `autopush store copy`."""

import asyncio
import itertools
import os
from pathlib import Path

from support import dynamo_servers
from support.application_server import ApplicationServer
from support.cluster import CREDENTIALS
from support.postgres_servers import postgres
from support.service import autopush, service
from support.user_agent import UserAgent

USER_AGENTS, MESSAGES = 3, 8
_numbers = itertools.count()


def stores(folder: Path) -> list[str]:
    """One of each kind, and the first kind again."""
    name = f"moves{os.getpid()}_{next(_numbers)}"
    return [
        f"sqlite://{folder}/first.sqlite",
        f"{postgres().url()}&schema={name}",
        f"dynamodb://us-east-1?endpoint={dynamo_servers.ministack()}&prefix={name}.",
        f"sqlite://{folder}/last.sqlite",
    ]


async def push_to_all(sender: ApplicationServer, endpoints: dict[str, str]) -> dict[str, set[str]]:
    """By UAID, the IDs of the messages that were answered 201."""
    accepted: dict[str, set[str]] = {uaid: set() for uaid in endpoints}
    for _ in range(MESSAGES):
        for uaid, endpoint in endpoints.items():
            answer = await sender.push(endpoint, b"x", ttl=600)
            assert answer.status == 201
            accepted[uaid].add(answer.message_id)
    return accepted


async def receive(agent: UserAgent, expected: set[str]) -> None:
    received: set[str] = set()
    while received != expected:
        got = await agent.notification()
        received.add(got["version"])
        assert received <= expected
        await agent.ack([got])


async def test_stored_messages_arrive_after_each_move(
    tmp_path: Path, sender: ApplicationServer, agents: list[UserAgent]
) -> None:
    """What is accepted while the first copy is made comes along with the last one. The service
    starts on it with the same keys, and subscriptions stay valid.
    """
    places = stores(tmp_path)
    paths: dict[str, str] = {}
    accepted: dict[str, set[str]] = {}
    for place, following in itertools.zip_longest(places, places[1:]):
        async with service(tmp_path / "data", "--store", place, **CREDENTIALS) as running:
            for _ in range(USER_AGENTS - len(paths)):
                agent = await running.connect()
                paths[agent.uaid] = (await agent.register())[1].split("/", 3)[3]
                await agent.close()
            for uaid, expected in accepted.items():
                agents.append(agent := await running.connect(uaid))
                assert agent.uaid == uaid
                await receive(agent, expected)
                await agent.close()
            if following:
                endpoints = {uaid: f"{running.endpoint}/{path}" for uaid, path in paths.items()}
                accepted, out = await asyncio.gather(
                    push_to_all(sender, endpoints),
                    autopush("store", "copy", "--online", place, following, **CREDENTIALS),
                )
                assert "Stop the service" in out
            assert running.errors == []
        if following:
            out = await autopush("store", "copy", place, following, **CREDENTIALS)
            assert "read both again: equal" in out
