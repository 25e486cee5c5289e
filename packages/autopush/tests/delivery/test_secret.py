"""A user whose user agent has asked for a secret: who takes over its UAID, and who does not."""

import json

import pytest

from autopush.delivery.calls import Outcome
from autopush.telemetry.metric_table import UA_HELLO
from autopush.webpush.identifiers import hash_secret
from support.connection_harness import UserAgent
from support.month_cluster import ONE, TWO, Cluster, Node
from support.recorded import recorded

WRONG = pytest.mark.parametrize(
    "sent",
    [
        {},
        {"secret": True},
        {"secret": "x"},
        {"secret": ["x"]},
        {"use_webpush": False, "channelIDs": []},
        {"use_webpush": False, "channelIDs": [], "secret": "x"},
    ],
    ids=json.dumps,
)


async def owner_of_a_uaid(cluster: Cluster) -> tuple[Node, Node, UserAgent, str]:
    """Its node, another one, the user agent and its secret."""
    one, two = await cluster.add(ONE), await cluster.add(TWO)
    agent = await cluster.hello(one, None, secret=True)
    secret = agent.reply()["secret"]
    agent.register()
    await cluster.run_until_idle()
    assert agent.reply()["status"] == 200
    return one, two, agent, secret


async def reply_to(
    cluster: Cluster, node: Node, agent: UserAgent, **members: object
) -> dict[str, object]:
    """The answer to another hello with that UAID."""
    return (await cluster.hello(node, agent.uaid, **members)).reply()


@WRONG
async def test_without_its_secret_a_uaid_is_as_unknown_and_its_user_stays_untouched(
    cluster: Cluster, sent: dict[str, object]
) -> None:
    one, two, agent, secret = await owner_of_a_uaid(cluster)
    before = await cluster.record(agent.uaid)
    for node in (one, two):
        reply = await reply_to(cluster, node, agent, **sent)
        assert reply["status"] == 200
        assert reply["uaid"] != agent.uaid
        assert reply.get("secret") != secret
    assert await cluster.record(agent.uaid) == before
    assert agent.connection.is_connected
    push = await cluster.start_push(two, cluster.message(agent.uaid))
    assert await push is Outcome.DONE
    assert len(await cluster.receive_all(agent)) == 1


async def test_with_its_secret_a_uaid_is_taken_over_at_each_node(cluster: Cluster) -> None:
    one, two, agent, secret = await owner_of_a_uaid(cluster)
    for node in (two, one, one):
        again = await cluster.hello(node, agent.uaid, secret=secret)
        reply = again.reply()
        assert (reply["uaid"], "secret" in reply) == (agent.uaid, False)
        assert not agent.connection.is_connected
        agent = again


async def test_the_store_has_the_hash_of_a_secret_from_the_first_register_on(
    cluster: Cluster,
) -> None:
    one = await cluster.add(ONE)
    agent = await cluster.hello(one, None, secret=True)
    secret = agent.reply()["secret"]
    assert len(secret) == 43
    assert await one.store.users.get(agent.uaid) is None
    assert (await reply_to(cluster, one, agent, secret=secret))["uaid"] != agent.uaid
    assert agent.connection.secret_hash == hash_secret(secret)
    agent.register()
    await cluster.run_until_idle()
    assert (await cluster.record(agent.uaid)).secret_hash == hash_secret(secret)


async def test_who_sends_a_secret_with_an_unknown_uaid_gets_another_secret(
    cluster: Cluster,
) -> None:
    one, _, agent, secret = await owner_of_a_uaid(cluster)
    await one.store.users.drop(agent.uaid)
    reply = await reply_to(cluster, one, agent, secret=secret)
    assert reply["uaid"] != agent.uaid
    assert reply["secret"] not in (secret, None)


async def test_a_wrong_secret_is_counted_as_an_unknown_uaid(cluster: Cluster) -> None:
    one, _, agent, _ = await owner_of_a_uaid(cluster)
    await reply_to(cluster, one, agent, secret="x")
    assert recorded(one.metrics, UA_HELLO, uaid="reassigned") == 1
