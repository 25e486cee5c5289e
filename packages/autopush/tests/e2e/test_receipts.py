"""Receipts over real connections: several workers, two nodes, a restart, a stream."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.application_server import Answer, application_server
from support.cluster import CREDENTIALS, new_store
from support.postgres_servers import postgres
from support.service import Service, service
from support.soak import slow


def subscription_of(answer: Answer) -> str:
    assert answer.status == 202
    return answer.headers["Link"].partition(">")[0].removeprefix("<")


@asynccontextmanager
async def two_nodes(name: str, data: Path) -> AsyncIterator[tuple[Service, Service]]:
    """Of one service."""
    store = new_store() if name == "dynamodb" else f"{postgres().url()}&schema=receipts"
    variables = CREDENTIALS if name == "dynamodb" else {}
    options = ("--store", store, "--receipts")
    nodes = service(data, *options, **variables), service(data, *options, **variables)
    async with nodes[0] as one, nodes[1] as other:
        yield one, other


def at(node: Service, url: str) -> str:
    """That resource of the service, asked of that node."""
    return f"{node.endpoint}/{url.partition('://')[2].partition('/')[2]}"


@pytest.mark.parametrize("name", [slow("dynamodb"), "postgresql"])
async def test_any_node_knows_what_became_of_a_message_at_another_also_after_a_restart(
    tmp_path: Path, name: str
) -> None:
    async with (
        two_nodes(name, tmp_path) as (one, other),
        application_server(reconnecting=True) as app,
    ):

        async def receipt_at(node: Service, subscription: str, **headers: str) -> tuple[int, str]:
            answer = await app.request("GET", at(node, subscription), headers=headers)
            (receipt,) = answer.document["receipts"]
            return receipt["status"], receipt["state"]

        async def push(node: Service, topic: str | None = None) -> str:
            """Its receipt subscription."""
            url = at(node, endpoint)
            return subscription_of(await app.push(url, b"x", topic=topic, Prefer="respond-async"))

        agent = await one.connect()
        _, endpoint = await agent.register()
        direct = await push(other)
        waiting = asyncio.ensure_future(receipt_at(other, direct, Prefer="wait=60"))
        await agent.ack([await agent.notification()])
        assert await waiting == (204, "delivered")
        assert await receipt_at(one, direct) == (204, "delivered")
        await agent.close()

        replaced, kept = await push(one, "news"), await push(other, "news")
        for node in (one, other):
            assert await receipt_at(node, replaced) == (410, "expired")
            assert await receipt_at(node, kept) == (202, "stored")
        await one.kill()
        await one.start()
        agent = await other.connect(agent.uaid)
        waiting = asyncio.ensure_future(receipt_at(one, kept, Prefer="wait=60"))
        await agent.ack([await agent.notification()])
        assert await waiting == (204, "delivered")
        assert await receipt_at(other, direct) == (204, "delivered")
        await agent.close()
        assert other.errors == []
