"""The service on PostgreSQL: what an operator does with the database."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from support.application_server import ApplicationServer
from support.postgres_proxy import PostgresProxy
from support.postgres_servers import FAST, PostgresServer, dump_program, postgres
from support.service import Service, refusal, service
from support.user_agent import UserAgent

SCHEMA = f"e2e{os.getpid()}"


@pytest.fixture
def fresh() -> Iterator[PostgresServer]:
    """Another cluster."""
    server = PostgresServer(*FAST)
    try:
        server.start()
        yield server
    finally:
        server.remove()


async def run(*words: str) -> None:
    """`pg_dump` or `pg_restore`."""
    name, *others = words
    process = await asyncio.create_subprocess_exec(dump_program(name), *others, env=os.environ)
    assert await process.wait() == 0


async def counted(running: Service, metric: str) -> float:
    """The value of a metric, once it is there."""
    async with aiohttp.ClientSession() as client, asyncio.timeout(20):
        while True:
            async with client.get(f"{running.node_api}/metrics") as answer:
                text = await answer.text()
            if found := re.search(rf"^{metric} ([1-9]\S*)$", text, re.MULTILINE):
                return float(found[1])


async def test_a_second_node_without_the_key_is_told_to_copy_it_from_another(
    tmp_path: Path,
) -> None:
    url = f"{postgres().url()}&schema={SCHEMA}keys"
    async with service(tmp_path / "first", "--store", url) as running:
        agent = await running.connect()
        await agent.register()
        await agent.close()
        second = tmp_path / "second"
        said = await asyncio.to_thread(refusal, second, "serve", "--store", url)
        copy = "Copy the key of another node: its option crypto_key, or its file keys/crypto_key"
        assert said.index(copy) < said.index("`autopush keys accept`")
        assert f"to {second}/keys/crypto_key" in said
        key = (tmp_path / "first/keys/crypto_key").read_text()
        (second / "keys").mkdir(exist_ok=True)
        (second / "keys/crypto_key").write_text(key)
        async with service(second, "--store", url):
            pass


async def test_stored_messages_arrive_after_a_dump_was_restored_to_a_fresh_cluster(
    tmp_path: Path, sender: ApplicationServer, agents: list[UserAgent], fresh: PostgresServer
) -> None:
    """By the commands of the page, with the dump made while the service runs."""
    url = postgres().url()
    async with service(tmp_path / "data", "--store", f"{url}&schema={SCHEMA}") as running:
        agent = await running.connect()
        _, endpoint = await agent.register()
        await agent.close()
        stored = await sender.push(endpoint, b"kept", ttl=600)
        assert stored.status == 201
        assert await counted(running, "autopush_store_commits_total") > 0
        assert await counted(running, "autopush_store_connections") > 1
        dump = str(tmp_path / "autopush.dump")
        await run("pg_dump", "--schema", SCHEMA, "--format", "custom", "--file", dump, url)
    await run("pg_restore", "--no-owner", "--dbname", fresh.url(), dump)
    place = f"{fresh.url()}&schema={SCHEMA}"
    async with service(tmp_path / "data", "--store", place) as restored:
        agents.append(again := await restored.connect(agent.uaid))
        assert again.uaid == agent.uaid
        got = await again.notification()
        assert got["version"] == stored.message_id
        await again.ack([got])
        assert restored.errors == []


async def test_a_push_and_its_ack_are_one_round_trip_each_and_a_push_to_be_stored_is_four(
    tmp_path: Path, sender: ApplicationServer, agents: list[UserAgent]
) -> None:
    """Printed: what `docs/postgresql.md` says of round trips and bytes."""
    body, count = b"x" * 1024, 20
    async with PostgresProxy(postgres().port) as proxy:
        store = f"{postgres().url(port=proxy.port)}&schema={SCHEMA}_trips"
        options = ("--store", store, "--direct-delivery", "store-first")
        async with service(tmp_path / "data", *options) as running:
            agents.append(agent := await running.connect())
            _, endpoint = await agent.register()

            async def cost(what: str, act: Callable[[], Awaitable[object]]) -> float:
                for _ in range(2):  # the second time all statements are prepared
                    requests, sent, received = proxy.requests, proxy.sent, proxy.received
                    for _ in range(count):
                        await act()
                trips = (proxy.requests - requests) / count
                sizes = [
                    (now - then) / count
                    for now, then in ((proxy.sent, sent), (proxy.received, received))
                ]
                print(f"{what}: {trips:.2f} round trips, {sizes[0]:.0f} B out, {sizes[1]:.0f} B in")
                return trips

            async def delivered() -> None:
                assert (await sender.push(endpoint, body, ttl=600)).status == 201
                await agent.ack([await agent.notification()])

            async def stored() -> None:
                assert (await sender.push(endpoint, body, ttl=600)).status == 201

            assert await cost("pushed, delivered and acked", delivered) < 2.5
            await agent.close()
            assert await cost("pushed and stored", stored) < 4.5
