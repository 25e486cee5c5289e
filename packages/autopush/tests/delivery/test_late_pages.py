"""A page of stored messages that arrives long after it was read: nothing is judged by what it says
of the user's channels.
"""

import asyncio

import pytest

from autopush.store.messages import PAGE
from autopush.webpush.stored import StoredPage
from support.connection_harness import CHANNEL, OTHER
from support.month_cluster import EVERY_ENGINE, NOVEMBER, ONE, TWO, Cluster, Node


class HeldPages:
    """Of one node's message table: pages are read at once, and arrive when they are let through."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self._read = node.store.current.read
        self.is_open = asyncio.Event()
        self.was_read = asyncio.Event()
        monkeypatch.setattr(node.store.current, "read", self._late)

    async def _late(self, uaid: str, after: str | None) -> StoredPage:
        page = await self._read(uaid, after)
        self.was_read.set()
        await self.is_open.wait()
        return page


@pytest.mark.parametrize("waiting", [0, PAGE + 3], ids=["one page", "two pages"])
@EVERY_ENGINE
async def test_a_channel_that_is_registered_while_a_page_is_read_gets_its_messages(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    one, two = await cluster.add(ONE), await cluster.add(TWO)
    await cluster.known_user(NOVEMBER)
    before = [cluster.message() for _ in range(waiting)]
    for message in before:
        await one.store.current.store(message)
    pages = HeldPages(one, monkeypatch)
    agent = cluster.connect(one)
    await pages.was_read.wait()
    agent.register(OTHER)
    await cluster.run_until_idle()
    new = cluster.message()
    new.channel_id = OTHER
    await two.push(new)
    pages.is_open.set()
    received = await cluster.receive_all(agent)
    assert sorted(received) == sorted(message.version for message in [*before, new])
    assert await cluster.stored(NOVEMBER) == []
    assert agent.connection.is_subscribed(CHANNEL)
    assert agent.connection.is_subscribed(OTHER)


async def test_a_message_of_a_channel_that_is_not_subscribed_is_deleted_by_a_list_read_after_it(
    cluster: Cluster,
) -> None:
    one = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)
    messages = [cluster.message() for _ in range(PAGE + 3)]
    messages[-1].channel_id = OTHER
    for message in messages:
        await one.store.current.store(message)
    agent = cluster.connect(one)
    received = await cluster.receive_all(agent)
    assert sorted(received) == sorted(message.version for message in messages[:-1])
    assert await cluster.stored(NOVEMBER) == []
