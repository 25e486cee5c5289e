"""A service moves from one kind of store to the next with `autopush store copy`."""

import itertools
import os
from pathlib import Path

from support import dynamo_servers
from support.application_server import ApplicationServer
from support.cluster import CREDENTIALS
from support.postgres_servers import postgres
from support.service import autopush, service
from support.user_agent import UserAgent

USER_AGENTS = 4
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


async def test_stored_messages_arrive_after_each_move(
    tmp_path: Path, sender: ApplicationServer, agents: list[UserAgent]
) -> None:
    """The service stops and starts on the copy, with the same keys; subscriptions stay valid."""
    places = stores(tmp_path)
    endpoints: dict[str, str] = {}
    waiting: dict[str, str] = {}
    for place, following in itertools.zip_longest(places, places[1:]):
        options = ["--store", place, "--workers", "2"]
        async with service(tmp_path / "data", *options, **CREDENTIALS) as running:
            for _ in range(USER_AGENTS - len(endpoints)):
                agent = await running.connect()
                endpoints[agent.uaid] = (await agent.register())[1].split("/", 3)[3]
                await agent.close()
            for uaid, message in waiting.items():
                agents.append(agent := await running.connect(uaid))
                assert agent.uaid == uaid
                got = await agent.notification()
                assert got["version"] == message
                await agent.ack([got])
                await agent.close()
            for uaid, path in endpoints.items():
                answer = await sender.push(f"{running.endpoint}/{path}", b"x", ttl=600)
                assert answer.status == 201
                waiting[uaid] = answer.message_id
            assert running.errors == []
            if following:
                out = await autopush("store", "copy", "--online", place, following, **CREDENTIALS)
                assert "Stop the service" in out
        if following:
            out = await autopush("store", "copy", place, following, **CREDENTIALS)
            assert "read both again: equal" in out
