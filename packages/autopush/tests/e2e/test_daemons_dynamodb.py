"""The service over DynamoDB, as one and as daemons; and what keeps it from starting there."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopush.store.tables import Month, message_table
from keytables import Engine
from keytables.stores import open_engine
from support.application_server import ApplicationServer
from support.cluster import CREDENTIALS, cluster, new_store
from support.service import Service, new_subscriber, refusal, service
from support.user_agent import UserAgent


@pytest.fixture
async def database() -> AsyncIterator[tuple[str, Engine]]:
    """The value of `store` for new tables in a DynamoDB, and an engine to read them with."""
    url = new_store()
    engine = await open_engine(url, clock=time.time)
    yield url, engine
    await engine.close()


async def test_a_service_on_dynamodb_creates_its_tables_and_serves_from_several_workers(
    tmp_path: Path,
    database: tuple[str, Engine],
    agents: list[UserAgent],
    sender: ApplicationServer,
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


async def test_on_dynamodb_a_connected_user_agents_message_is_not_stored_by_default(
    tmp_path: Path,
    database: tuple[str, Engine],
    agents: list[UserAgent],
    sender: ApplicationServer,
) -> None:
    url, engine = database
    table = await engine.ensure_table(message_table(Month.at(time.time()).table("message")))
    for mode, rows in (({}, 1), ({"AUTOPUSH_DIRECT_DELIVERY": "store-first"}, 2)):
        async with cluster(tmp_path, url, connections=1, endpoints=1, **mode) as running:
            agent, endpoint = await new_subscriber(running.connections[0], agents)
            await sender.push(endpoint, b"x")
            await agent.notification()
            assert len((await table.query(agent.uaid)).items) == rows  # one is the channels row


async def test_daemons_that_start_together_create_the_tables_once(
    tmp_path: Path, database: tuple[str, Engine], sender: ApplicationServer
) -> None:
    url, _ = database
    options = ["--store", url, "--endpoint-url", "http://push.example"]
    daemons = [
        Service(tmp_path, options, CREDENTIALS, command=command)
        for command in ("connection", "endpoint", "connection")
    ]
    try:
        await asyncio.gather(*(daemon.start() for daemon in daemons))
        for base in (daemons[0].node_api, daemons[1].endpoint, daemons[2].node_api):
            assert (await sender.request("GET", f"{base}/health")).status == 200
    finally:
        assert [await daemon.stop() for daemon in daemons] == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "variables", "words"),
    [
        ("dynamodb://mars-1", CREDENTIALS, ["'mars-1'", "us-east-1"]),
        ("dynamodb://us-east-1", {}, ["no AWS credentials", "AWS_ACCESS_KEY_ID"]),
        (
            "dynamodb://us-east-1?endpoint=http://127.0.0.1:1",
            CREDENTIALS,
            ["cannot connect to 127.0.0.1 port 1"],
        ),
        ("dynamodb://us-east-1?endpoint=ftp://x", CREDENTIALS, ["http://HOST:PORT"]),
        ("dynamodb://us-east-1?endpoint=http://me:geheim@x", CREDENTIALS, ["http://HOST:PORT"]),
    ],
)
def test_a_database_that_cannot_be_reached_is_named(
    tmp_path: Path, store: str, variables: dict[str, str], words: list[str]
) -> None:
    nowhere = {"HOME": str(tmp_path), **variables}
    line = refusal(tmp_path, "endpoint", "-p0", "--store", store, **nowhere)
    for word in words:
        assert word in line
    assert "geheim" not in line
