"""The two kinds of node as separate daemons over one store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.application_server import ApplicationServer
from support.cluster import ServiceCluster, new_store, running_cluster
from support.service import new_subscriber, service
from support.user_agent import UserAgent


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceCluster]:
    """Two connection nodes and two endpoint nodes, over DynamoDB."""
    first = {"AUTOPUSH_DIRECT_DELIVERY": "store-first"}
    data = tmp_path_factory.mktemp("cluster")
    with running_cluster(data, new_store(), connections=2, endpoints=2, **first) as running:
        yield running


# ── a message through both ───────────────────────────────────────────────────────────────────────


async def test_a_message_comes_through_any_endpoint_to_any_connection_node(
    nodes: ServiceCluster, agents: list[UserAgent], sender: ApplicationServer
) -> None:
    for node in nodes.connections:
        agent, endpoint = await new_subscriber(node, agents)
        assert endpoint.startswith(f"{nodes.endpoints[0].endpoint}/wpush/v1/")
        for number in (0, 1):
            answer = await sender.push(nodes.by_way_of(endpoint, number), b"here")
            (got,) = await agent.receive(1, ack=True)
            assert got["version"] == answer.message_id
            location = nodes.by_way_of(answer.headers["Location"], number)
            assert (await sender.delete(location)).status == 204
        assert (await sender.push(endpoint, ttl=0)).status == 201
        assert (await agent.notification())["channelID"]


async def test_when_a_connection_node_is_killed_its_user_agents_reconnect_to_another(
    nodes: ServiceCluster, agents: list[UserAgent], sender: ApplicationServer
) -> None:
    here, there = nodes.connections
    agent, endpoint = await new_subscriber(here, agents)
    delivered = await sender.push(endpoint, b"delivered, not acked")
    assert (await agent.notification())["version"] == delivered.message_id
    await here.kill()
    await agent.closed()
    stored = await sender.push(nodes.by_way_of(endpoint, 1), b"not connected")
    agents.append(await there.connect(agent.uaid))
    got = await agents[-1].receive(2, ack=True)
    assert [m["version"] for m in got] == [delivered.message_id, stored.message_id]
    await here.start()


@pytest.mark.slow
async def test_daemons_work_beside_a_whole_service_on_its_folder(
    tmp_path: Path, agents: list[UserAgent], sender: ApplicationServer
) -> None:
    async with service(tmp_path, "--workers", "2") as whole:
        url = ("--endpoint-url", whole.endpoint)
        left, known = await new_subscriber(whole, agents)
        await left.close()
        agents.append(returned := await whole.connect(left.uaid))  # which is not recorded
        async with (
            service(tmp_path, *url, command="connection") as node,
            service(tmp_path, *url, command="endpoint") as other,
        ):
            answer = await sender.push(known.replace(whole.endpoint, other.endpoint), b"x")
            (got,) = await returned.receive(1, ack=True)
            assert got["version"] == answer.message_id
            for home in (whole, node):
                agent, endpoint = await new_subscriber(home, agents)
                for base in (whole.endpoint, other.endpoint):
                    answer = await sender.push(endpoint.replace(whole.endpoint, base), b"x")
                    (got,) = await agent.receive(1, ack=True)
                    assert got["version"] == answer.message_id
            assert whole.errors + node.errors + other.errors == []


# ── what each of them serves ─────────────────────────────────────────────────────────────────────


async def test_each_daemon_serves_its_ports_and_says_so(
    tmp_path: Path, sender: ApplicationServer
) -> None:
    async with service(tmp_path, command="endpoint") as endpoint:
        (line,) = [line for line in endpoint.output if " ready: " in line]
        assert line.startswith(f"autopush endpoint ready: start page {endpoint.endpoint}/ · HTTP ")
        assert line.rstrip().endswith(f" · store {tmp_path}/autopush.sqlite")
        assert (await sender.request("GET", f"{endpoint.endpoint}/")).status == 200
        assert (await sender.request("GET", f"{endpoint.endpoint}/health")).status == 200
        refused = await sender.request("PUT", f"{endpoint.endpoint}/notif/{'0' * 32}")
        assert refused.status == 404
    async with service(tmp_path, command="connection") as node:
        (line,) = [line for line in node.output if " ready: " in line]
        assert line.startswith(f"autopush connection ready: WebSocket {node.websocket} · node API ")
        assert line.rstrip().endswith(f" · store {tmp_path}/autopush.sqlite")
        for url in (node.websocket.replace("ws:", "http:"), node.node_api + "/"):
            assert (await sender.request("GET", f"{url}health")).status == 200
        pushed = await sender.push(f"{node.websocket.replace('ws:', 'http:')}wpush/v1/x")
        assert pushed.status == 404
