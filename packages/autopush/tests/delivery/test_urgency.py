"""Messages below the urgency that a user agent takes wait for it, on every engine and node."""

import pytest

from autopush.delivery.calls import Outcome
from support.connection_harness import UserAgent
from support.month_cluster import EVERY_ENGINE, ONE, TWO, Cluster, Node

DELIVERED, STORED, DISCARDED = Outcome.DONE, Outcome.STORED, Outcome.DISCARDED
BOTH = pytest.mark.parametrize("store_first", [True, False], ids=["store-first", "bypass"])


async def two_nodes(
    cluster: Cluster, least: str, *, store_first: bool = True
) -> tuple[Node, Node, UserAgent]:
    """The node of a user agent with that filter, another one, and the user agent."""
    one = await cluster.add(ONE, store_first=store_first)
    two = await cluster.add(TWO, store_first=store_first)
    agent = await cluster.hello(one, None)
    agent.register()
    await cluster.run_until_idle()
    await set_urgency(cluster, agent, least)
    return one, two, agent


async def set_urgency(cluster: Cluster, agent: UserAgent, least: str) -> None:
    agent.received()
    agent.send_json(messageType="urgency", min=least)
    await cluster.run_until_idle()


async def push(
    cluster: Cluster, node: Node, agent: UserAgent, urgency: str, ttl: int = 90 * 86_400
) -> tuple[Outcome, str]:
    message = cluster.message(agent.uaid, urgency=urgency, ttl=ttl)
    result = await (await cluster.start_push(node, message))
    await cluster.run_until_idle()
    return result, message.version


@EVERY_ENGINE
@BOTH
async def test_what_is_below_waits_and_comes_when_the_filter_falls(
    cluster: Cluster, store_first: bool
) -> None:
    one, two, agent = await two_nodes(cluster, "high", store_first=store_first)
    assert agent.reply() == {"messageType": "urgency", "status": 200}
    waiting = []
    for node in (one, two, one, two):
        result, version = await push(cluster, node, agent, "low")
        assert result is STORED
        waiting.append(version)
    assert agent.received() == []
    for node in (one, two):
        result, version = await push(cluster, node, agent, "high")
        assert result is DELIVERED
        assert await cluster.receive_all(agent) == [version]
    await set_urgency(cluster, agent, "low")
    assert await cluster.receive_all(agent) == waiting


@BOTH
async def test_what_is_below_with_a_ttl_of_0_is_discarded(
    cluster: Cluster, store_first: bool
) -> None:
    one, two, agent = await two_nodes(cluster, "normal", store_first=store_first)
    for node in (one, two):
        assert (await push(cluster, node, agent, "low", ttl=0))[0] is DISCARDED
    await set_urgency(cluster, agent, "very-low")
    assert await cluster.receive_all(agent) == []


async def test_the_filter_stays_with_the_user_and_a_hello_may_change_it(cluster: Cluster) -> None:
    one, two, agent = await two_nodes(cluster, "high")
    _, low = await push(cluster, two, agent, "low")
    _, normal = await push(cluster, two, agent, "normal")
    again = await cluster.hello(two, agent.uaid)
    assert again.reply()["urgency"] == "high"
    assert await cluster.receive_all(again) == []
    again = await cluster.hello(one, agent.uaid, urgency="normal")
    hello, first = again.received()
    assert isinstance(hello, dict)
    assert isinstance(first, dict)
    assert (hello["urgency"], first["version"]) == ("normal", normal)
    again.ack(first)
    again = await cluster.hello(one, agent.uaid)
    assert again.reply()["urgency"] == "normal"
    again = await cluster.hello(two, agent.uaid, urgency="very-low")
    hello, first = again.received()
    assert isinstance(hello, dict)
    assert isinstance(first, dict)
    assert ("urgency" in hello, first["version"]) == (False, low)
