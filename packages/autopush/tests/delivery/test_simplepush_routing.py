"""How a version reaches its user: a socket of this worker, another node, the store."""

import asyncio

import pytest

from autopush.delivery.calls import Outcome
from autopush.delivery.router import UserOnRecord
from autopush.store import UserRecord
from autopush.store.users import SIMPLEPUSH
from autopush.webpush.errors import PushError
from autopush.webpush.notification import VersionUpdate
from keytables import Throttled, Unavailable
from support import endpoint_harness
from support.connection_harness import CHANNEL, OTHER_NODE, UAID, Harness, UserAgent
from support.month_cluster import ONE, THREE, TWO, Cluster, Node

OLD = {"use_webpush": False}
WAKE_DATA = {"ip": "192.0.2.7", "port": "4711", "mcc": "", "mnc": "", "netid": ""}
BOTH = pytest.mark.parametrize("store_first", [True, False], ids=["store-first", "bypass"])


def update(number: int, data: str | None = None) -> VersionUpdate:
    return VersionUpdate.of(UAID, CHANNEL, number, data)


class Endpoint(endpoint_harness.Endpoint):
    """Notes the users it had woken."""

    def __init__(self, harness: Harness, *, store_first: bool = True) -> None:
        super().__init__(harness, store_first=store_first)
        self.woken: list[UserRecord] = []
        self.router.wake = self.woken.append

    async def send(self, number: int, data: str | None = None) -> Outcome:
        recipient = await self.router.find_simplepush(UAID)
        return await self.router.route(recipient, update(number, data))


async def connected(harness: Harness) -> UserAgent:
    """A known user on a socket of this worker."""
    await not_connected(harness)
    agent = await harness.identified(UAID, **OLD)
    harness.engine.calls.clear()
    harness.nodes.calls.clear()
    return agent


async def not_connected(
    harness: Harness, node_id: str | None = None, wake_data: dict[str, str] | None = None
) -> None:
    """A known user whose record names that node, or none."""
    await harness.store.users.create_simplepush(UAID, node_id or OTHER_NODE, 5, wake_data)
    if node_id is None:
        await harness.store.users.clear_node(await harness.record())
    harness.engine.calls.clear()


# ── finding the user ────────────────────────────────────────────────────────────────────────────


async def test_a_user_agent_of_this_worker_is_found_without_a_store_call(harness: Harness) -> None:
    agent = await connected(harness)
    assert await Endpoint(harness).router.find_simplepush(UAID) is agent.connection
    assert harness.engine.calls == []


async def test_any_other_is_found_with_one_store_call(harness: Harness) -> None:
    await not_connected(harness)
    assert isinstance(await Endpoint(harness).router.find_simplepush(UAID), UserOnRecord)
    assert harness.engine.calls == ["get router"]


@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("router_type", ["webpush", "simplepush", "fcm"])
async def test_a_user_of_another_router_type_is_refused_and_its_record_kept(
    harness: Harness, router_type: str, online: bool
) -> None:
    router = Endpoint(harness).router
    is_simplepush = router_type == SIMPLEPUSH
    if is_simplepush:
        await not_connected(harness)
    else:
        await harness.known_user()
    if online and router_type != "fcm":
        await harness.identified(UAID, use_webpush=not is_simplepush)
    if router_type == "fcm":
        harness.change_record(router_type="fcm")
    before = dict(harness.engine.tables["router"].items[(UAID,)])
    with pytest.raises(PushError) as caught:
        await (router.find(UAID, CHANNEL) if is_simplepush else router.find_simplepush(UAID))
    assert (caught.value.status, caught.value.errno) == (400, 108)
    assert str(caught.value) == "Wrong URL for user"
    assert harness.engine.tables["router"].items[(UAID,)] == before


# ── delivery ────────────────────────────────────────────────────────────────────────────────────


@BOTH
async def test_a_connected_user_agent_gets_it_with_its_data(
    harness: Harness, store_first: bool
) -> None:
    agent = await connected(harness)
    endpoint = Endpoint(harness, store_first=store_first)
    assert await endpoint.send(3, "text") is Outcome.DONE
    assert agent.reply()["updates"] == [{"channelID": CHANNEL, "version": 3, "data": "text"}]
    assert harness.stored_updates() == ({CHANNEL: 3} if store_first else {})
    assert harness.nodes.calls == []


@BOTH
async def test_a_busy_user_agent_gets_it_from_the_store_without_its_data(
    harness: Harness, store_first: bool
) -> None:
    agent = await connected(harness)
    agent.connection.output_paused()
    assert await Endpoint(harness, store_first=store_first).send(3, "text") is (Outcome.STORED)
    assert harness.stored_updates() == {CHANNEL: 3}
    assert agent.received() == []
    agent.connection.output_resumed()
    await harness.run_until_idle()
    assert agent.reply()["updates"] == [{"channelID": CHANNEL, "version": 3}]


@BOTH
async def test_a_node_that_takes_it_ends_the_delivery(harness: Harness, store_first: bool) -> None:
    await not_connected(harness, OTHER_NODE)
    harness.nodes.push_answer = Outcome.DONE
    endpoint = Endpoint(harness, store_first=store_first)
    assert await endpoint.send(3, "text") is Outcome.DONE
    assert harness.nodes.calls == [("push", OTHER_NODE, UAID)]
    assert harness.nodes.pushed[0].data == "text"
    assert harness.nodes.pushed[0].stored == ("storage" if store_first else None)
    assert harness.stored_updates() == ({CHANNEL: 3} if store_first else {})


@BOTH
@pytest.mark.parametrize("answer", Outcome)
async def test_otherwise_it_is_stored_and_the_node_on_record_checks(
    harness: Harness, store_first: bool, answer: Outcome
) -> None:
    await not_connected(harness, OTHER_NODE)
    harness.nodes.push_answer, harness.nodes.check_answer = Outcome.BUSY, answer
    delivered = answer is Outcome.DONE
    assert await Endpoint(harness, store_first=store_first).send(3) is (
        Outcome.DONE if delivered else Outcome.STORED
    )
    assert harness.stored_updates() == {CHANNEL: 3}
    assert harness.nodes.checks == [("check", OTHER_NODE, UAID)]
    record = await harness.record()
    assert record.node_id == (None if answer.means_gone else OTHER_NODE)


@pytest.mark.parametrize("error", [Throttled("full"), Unavailable("gone")])
async def test_what_cannot_be_stored_is_an_error_and_wakes_no_one(
    harness: Harness, error: Exception
) -> None:
    await not_connected(harness, wake_data=WAKE_DATA)
    harness.engine.fail("put storage", error)
    endpoint = Endpoint(harness)
    with pytest.raises(type(error)):
        await endpoint.send(3)
    assert endpoint.woken == []


async def test_a_user_that_is_dropped_meanwhile_leaves_nothing(harness: Harness) -> None:
    await not_connected(harness)
    harness.engine.before("put storage", harness.engine.tables["router"].items.clear)
    with pytest.raises(PushError) as caught:
        await Endpoint(harness).send(3)
    assert (caught.value.status, caught.value.errno) == (410, 105)
    assert harness.stored_updates() == {}


# ── waking ──────────────────────────────────────────────────────────────────────────────────────


@BOTH
@pytest.mark.parametrize("node_id", [None, OTHER_NODE], ids=["no node", "a node"])
async def test_a_device_that_is_not_reached_is_woken(
    harness: Harness, store_first: bool, node_id: str | None
) -> None:
    await not_connected(harness, node_id, WAKE_DATA)
    harness.nodes.check_answer = Outcome.SILENT
    endpoint = Endpoint(harness, store_first=store_first)
    assert await endpoint.send(3) is Outcome.STORED
    assert [record.wake_data for record in endpoint.woken] == [WAKE_DATA]


async def test_a_device_without_wake_data_or_on_a_node_is_not_woken(harness: Harness) -> None:
    endpoint = Endpoint(harness)
    await not_connected(harness)
    assert await endpoint.send(3) is Outcome.STORED
    await not_connected(harness, OTHER_NODE, WAKE_DATA)
    harness.nodes.push_answer = Outcome.BUSY
    assert await endpoint.send(4) is Outcome.DONE
    assert endpoint.woken == []


# ── two nodes ───────────────────────────────────────────────────────────────────────────────────


async def send_from(node: Node, number: int) -> Outcome:
    recipient = await node.router.find_simplepush(UAID)
    return await node.router.route(recipient, update(number))


async def two_nodes(cluster: Cluster, *, store_first: bool) -> tuple[Node, Node]:
    one = await cluster.add(ONE, store_first=store_first)
    two = await cluster.add(TWO, store_first=store_first)
    await one.store.users.create_simplepush(UAID, ONE, 5, None)
    return one, two


async def receive_all(cluster: Cluster, agent: UserAgent) -> list[int]:
    """Receive and ack until no more come."""
    received: list[int] = []
    while True:
        await cluster.run_until_idle()
        new = [
            each
            for message in agent.received()
            if isinstance(message, dict) and message["messageType"] == "notification"
            for each in message["updates"]
        ]
        if not new:
            return received
        received += [each["version"] for each in new]
        agent.send_json(messageType="ack", updates=new)


@BOTH
@pytest.mark.parametrize("step", range(5))
@pytest.mark.parametrize("home", [ONE, THREE])
async def test_a_reconnect_at_any_moment_of_a_push_misses_nothing(
    cluster: Cluster, store_first: bool, step: int, home: str
) -> None:
    one, two = await two_nodes(cluster, store_first=store_first)
    await cluster.add(THREE, store_first=store_first)
    first = await cluster.hello(one, UAID, **OLD)
    if step % 2:
        first.disconnect()
    two.gate.at(step, two.gate.hold)
    push = asyncio.ensure_future(send_from(two, 3))
    await cluster.run_until_idle()
    agent = await cluster.hello(cluster.nodes[home], UAID, **OLD)
    received = await receive_all(cluster, agent)
    two.gate.release()
    received += await receive_all(cluster, agent)
    assert 3 in received
    assert await push is Outcome.DONE
    again = await cluster.hello(one, UAID, **OLD)
    assert await receive_all(cluster, again) == []
