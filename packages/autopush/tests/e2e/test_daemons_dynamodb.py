"""The service over DynamoDB, as one and as daemons; and what keeps it from starting there."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopush.store.tables import Month
from keytables import Engine
from keytables.stores import open_engine
from support.application_server import ApplicationServer
from support.cluster import CREDENTIALS, new_store
from support.service import new_subscriber, service
from support.user_agent import UserAgent


@pytest.fixture
async def database() -> AsyncIterator[tuple[str, Engine]]:
    """The value of `store` for new tables in a DynamoDB, and an engine to read them with."""
    url = new_store()
    engine = await open_engine(url, clock=time.time)
    yield url, engine
    await engine.close()


async def test_a_service_on_dynamodb_creates_its_tables_and_serves_from_several_workers(
    tmp_path: Path, database: tuple[str, Engine], agents: list[UserAgent], sender: ApplicationServer
) -> None:
    url, engine = database
    async with service(tmp_path, "--store", url, "--workers", "2", **CREDENTIALS) as whole:
        (line,) = [line for line in whole.output if " ready: " in line]
        assert line.rstrip().endswith(f" · store {url} workers=2")
        this = Month.at(time.time())
        names = set(await engine.table_names())
        months = {this.table("message"), this.previous.table("message")}
        assert {"router", "storage", *months} <= names
        for _ in range(4):
            agent, endpoint = await new_subscriber(whole, agents)
            direct = await sender.push(endpoint, b"direct")
            assert (await agent.notification())["version"] == direct.message_id
            await agent.close()
            stored = await sender.push(endpoint, b"stored")
            agents.append(await whole.connect(agent.uaid))
            got = await agents[-1].receive(2, ack=True)
            assert {m["version"] for m in got} == {direct.message_id, stored.message_id}
        assert whole.errors == []
    assert not (tmp_path / "autopush.sqlite").exists()
