"""SimplePush from outside: what the integration tests of the original check, and two workers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from autopush.store.tables import router_table, storage_table
from keytables import Item, Param, TableHandle, Update
from keytables.sqlite import open_sqlite
from support.application_server import ApplicationServer
from support.cluster import cluster
from support.service import Service, running_service, service
from support.simplepush_agent import SimplePushAgent, put
from support.soak import slow
from support.user_agent import UserAgent
from support.wake_server import wake_server

pytestmark = pytest.mark.slow

T = TypeVar("T")
Connect = Callable[..., Awaitable[SimplePushAgent]]
WAKE_TIMEOUT = 0.6
"""Seconds."""
HOST = {"ip": "127.0.0.1", "port": 9}


@pytest.fixture(scope="module", params=["store-first", slow("bypass")])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    options = ("--direct-delivery", request.param, "--wake-timeout", str(WAKE_TIMEOUT))
    with running_service(tmp_path_factory.mktemp("simplepush"), *options) as service:
        yield service


@pytest.fixture
def connect_to(agents: list[UserAgent]) -> Connect:
    """Connects user agents to any service, by UAID or as new ones."""

    async def connect_to(service: Service, uaid: str | None = None) -> SimplePushAgent:
        agent = await SimplePushAgent.connect(service.websocket)
        agents.append(agent)
        await agent.hello(uaid)
        return agent

    return connect_to


@pytest.fixture
def connect(running: Service, connect_to: Connect) -> Connect:
    """Connects user agents to the module's service."""

    async def connect(uaid: str | None = None) -> SimplePushAgent:
        return await connect_to(running, uaid)

    return connect


async def away(connect: Connect) -> tuple[str, str, str]:
    """A user agent that has gone offline: its UAID, channel and endpoint."""
    agent = await connect()
    subscription = await agent.register()
    await agent.close()
    return agent.uaid, *subscription


async def in_table(service: Service, name: str, work: Callable[[TableHandle], Awaitable[T]]) -> T:
    """Work on the router table or that of the versions, as another process."""
    engine = await open_sqlite(service.data / "autopush.sqlite")
    declared = {"router": router_table, "storage": storage_table}[name](name)
    try:
        return await work(await engine.ensure_table(declared))
    finally:
        await engine.close()


async def record_of(service: Service, uaid: str) -> Item | None:
    return await in_table(service, "router", lambda table: table.get((uaid,)))


async def nothing_stored(service: Service) -> None:
    """Wait until the table of versions is empty: acked rows are deleted in the background."""
    async with asyncio.timeout(10):
        while (  # noqa: ASYNC110 - another process deletes them
            await in_table(service, "storage", lambda table: table.scan())
        ).items:
            await asyncio.sleep(0.02)


# ── hello and register ──────────────────────────────────────────────────────────────────────────


async def test_a_user_agent_that_changes_the_protocol_gets_a_new_uaid_both_ways(
    running: Service, connect: Connect, sender: ApplicationServer, agents: list[UserAgent]
) -> None:
    uaid, _, endpoint = await away(connect)
    modern = await running.connect(uaid)
    agents.append(modern)
    assert modern.uaid != uaid
    assert await record_of(running, uaid) is None
    assert (await put(sender, endpoint, 1)).status == 410
    await modern.register()
    await modern.close()
    assert (await connect(modern.uaid)).uaid != modern.uaid
    assert await record_of(running, modern.uaid) is None


async def test_an_endpoint_of_the_other_protocol_is_refused_and_the_record_stays(
    running: Service, connect: Connect, sender: ApplicationServer, agents: list[UserAgent]
) -> None:
    uaid, _, endpoint = await away(connect)
    modern = await running.connect()
    agents.append(modern)
    _, other = await modern.register()
    await modern.close()
    for user, record in ((uaid, endpoint), (modern.uaid, other)):
        before = await record_of(running, user)
        wrong = record.replace("/spush/", "/w/").replace("/wpush/", "/spush/")
        wrong = wrong.replace("/w/", "/wpush/")
        answer = await (sender.push(wrong) if "/wpush/" in wrong else put(sender, wrong, 1))
        assert (answer.status, answer.document["errno"]) == (400, 108)
        assert answer.document["message"] == "Wrong URL for user"
        assert before is not None
        assert await record_of(running, user) == before


async def test_with_disable_simplepush_the_hello_is_refused_with_401_and_closed(
    tmp_path: Path,
) -> None:
    async with service(tmp_path, "--disable-simplepush") as refusing:
        agent = await SimplePushAgent.connect(refusing.websocket)
        reply = await agent.hello()
        assert (reply["status"], reply["reason"]) == (401, "Simplepush not supported")
        assert "uaid" not in reply
        assert await agent.closed() == 1000
        modern = await refusing.connect()
        assert modern.uaid
        await modern.close()


# ── what the original's tests assert ────────────────────────────────────────────────────────────


async def test_a_push_while_disconnected_is_202_and_comes_at_the_next_connect(
    connect: Connect, sender: ApplicationServer
) -> None:
    uaid, channel, endpoint = await away(connect)
    answer = await put(sender, endpoint, 12)
    assert (answer.status, answer.body) == (202, b"Notification Stored")
    assert answer.headers["Access-Control-Allow-Methods"] == "PUT"
    assert await (await connect(uaid)).update() == {"channelID": channel, "version": 12}


@pytest.mark.parametrize("end", [UserAgent.close, UserAgent.drop_connection])
async def test_a_direct_version_that_is_not_acked_comes_again_without_its_data(
    connect: Connect,
    sender: ApplicationServer,
    end: Callable[[UserAgent], Awaitable[None]],
) -> None:
    agent = await connect()
    channel, endpoint = await agent.register()
    answer = await put(sender, endpoint, 12, "howdythere")
    assert (answer.status, answer.body) == (200, b"Delivered")
    assert (await agent.update())["data"] == "howdythere"
    await end(agent)
    again = await connect(agent.uaid)
    assert await again.update() == {"channelID": channel, "version": 12}


async def test_a_stored_version_that_is_acked_does_not_come_again(
    running: Service, connect: Connect, sender: ApplicationServer
) -> None:
    uaid, _, endpoint = await away(connect)
    await put(sender, endpoint, 12)
    agent = await connect(uaid)
    await agent.ack([await agent.update()])
    await agent.close()
    await (await connect(uaid)).silence()


async def test_a_stored_version_of_an_unregistered_channel_does_not_come_again(
    connect: Connect, sender: ApplicationServer
) -> None:
    uaid, channel, endpoint = await away(connect)
    await put(sender, endpoint, 12)
    agent = await connect(uaid)
    await agent.update()
    assert (await agent.unregister(channel))["status"] == 200
    await agent.close()
    await (await connect(uaid)).silence()


async def test_last_connect_of_an_earlier_month_becomes_the_current_month(
    running: Service, connect: Connect
) -> None:
    uaid, *_ = await away(connect)
    earlier: Item = {"last_connect": 201601010001}
    change = Update(set={"last_connect": Param("last_connect")})
    await in_table(running, "router", lambda table: table.update((uaid,), change, earlier))
    await connect(uaid)
    record = await record_of(running, uaid)
    assert record is not None
    assert str(record["last_connect"]).startswith(time.strftime("%Y%m", time.gmtime()))


@pytest.mark.parametrize("form", [True, False], ids=["with a content type", "without one"])
async def test_data_reaches_a_connected_user_agent(
    connect: Connect, sender: ApplicationServer, form: bool
) -> None:
    agent = await connect()
    channel, endpoint = await agent.register()
    await put(sender, endpoint, 7, "howdy & thére", form=form)
    assert await agent.update() == {"channelID": channel, "version": 7, "data": "howdy & thére"}


# ── versions ────────────────────────────────────────────────────────────────────────────────────


async def test_all_stored_versions_come_in_one_notification_the_newest_of_each_channel(
    connect: Connect, sender: ApplicationServer
) -> None:
    agent = await connect()
    subscriptions = [await agent.register() for _ in range(3)]
    await agent.close()
    for version in (3, 5, 4):
        for _, endpoint in subscriptions:
            assert (await put(sender, endpoint, version)).status == 202
    updates = await (await connect(agent.uaid)).updates()
    expected = [{"channelID": channel, "version": 5} for channel, _ in sorted(subscriptions)]
    assert updates == expected


async def test_without_a_version_it_is_the_time_in_seconds(
    connect: Connect, sender: ApplicationServer
) -> None:
    agent = await connect()
    _, endpoint = await agent.register()
    before = int(time.time())
    assert (await sender.request("PUT", f"{endpoint}?data=x")).status == 200
    update = await agent.update()
    assert before <= update["version"] <= time.time()
    assert update["data"] == "x"


async def test_messages_of_both_protocols_pass_each_other_in_one_service(
    running: Service, connect: Connect, sender: ApplicationServer, agents: list[UserAgent]
) -> None:
    modern, old = await running.connect(), await connect()
    agents.append(modern)
    (_, modern_endpoint), (_, old_endpoint) = await modern.register(), await old.register()
    for version in range(1, 6):
        answer = await sender.push(modern_endpoint, b"x")
        assert (await put(sender, old_endpoint, version)).status == 200
        assert (await modern.notification())["version"] == answer.message_id
        assert (await old.update())["version"] == version


# ── waking ──────────────────────────────────────────────────────────────────────────────────────


async def test_an_idle_device_that_can_be_woken_is_disconnected_with_4774(
    running: Service, agents: list[UserAgent]
) -> None:
    agent = await SimplePushAgent.connect(running.websocket)
    agents.append(agent)
    await agent.hello(wakeup_host=HOST, mobilenetwork={"mcc": "310", "mnc": "26"})
    await agent.register()
    record = await record_of(running, agent.uaid)
    assert record is not None
    expected = {"ip": "127.0.0.1", "port": "9", "mcc": "310", "mnc": "26", "netid": ""}
    assert record["wake_data"] == {"data": expected}
    assert await agent.closed() == 4774
    assert agent.socket.close_reason == "UDP Idle"


async def test_a_stored_version_wakes_a_device_and_the_sender_does_not_wait_for_it(
    tmp_path: Path, sender: ApplicationServer, agents: list[UserAgent]
) -> None:
    async with wake_server(tmp_path) as waker:
        options = ("--wake-server", waker.url, "--wake-pem", str(waker.client))
        trust = {"SSL_CERT_FILE": str(waker.trust)}
        waker.answers.clear()
        async with service(tmp_path, *options, "--wake-timeout", "60", **trust) as waking:
            agent = await SimplePushAgent.connect(waking.websocket)
            agents.append(agent)
            await agent.hello(wakeup_host=HOST, mobilenetwork={"netid": "home"})
            _, endpoint = await agent.register()
            assert (await put(sender, endpoint, 1)).status == 200
            await agent.close()
            assert (await put(sender, endpoint, 2)).status == 202
            form = await asyncio.wait_for(waker.forms.get(), 10)
            assert form == {"ip": "127.0.0.1", "port": "9", "mcc": "", "mnc": "", "netid": "home"}
            assert waker.forms.empty()
            assert waking.errors == []


# ── several workers and nodes ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("delivery", ["store-first", "bypass"])
async def test_versions_pass_from_worker_to_worker(
    tmp_path: Path, connect_to: Connect, sender: ApplicationServer, delivery: str
) -> None:
    options = ("--workers", "2", "--direct-delivery", delivery)
    async with service(tmp_path, *options) as whole:
        subscribed = []
        for _ in range(8):  # the kernel deals them out: some to each
            agent = await connect_to(whole)
            subscribed.append((agent, *await agent.register()))
        for version in (1, 2):
            for agent, channel, endpoint in subscribed:
                assert (await put(sender, endpoint, version, "x")).status == 200
                update = await agent.update()
                assert update == {"channelID": channel, "version": version, "data": "x"}
                await agent.ack([update])
        await nothing_stored(whole)
        assert whole.errors == []


async def test_a_version_reaches_a_user_agent_that_moved_from_a_killed_node(
    tmp_path: Path, connect_to: Connect, sender: ApplicationServer
) -> None:
    async with cluster(tmp_path, connections=2, endpoints=1) as running:
        one, two = running.connections
        agent = await connect_to(one)
        channel, endpoint = await agent.register()
        assert (await put(sender, endpoint, 1)).status == 200
        assert (await agent.update())["version"] == 1
        await one.kill()
        answer = await put(sender, endpoint, 2)
        assert (answer.status, answer.body) == (202, b"Notification Stored")
        moved = await connect_to(two, agent.uaid)
        assert moved.uaid == agent.uaid
        assert await moved.update() == {"channelID": channel, "version": 2}
        assert (await put(sender, endpoint, 3)).status == 200
        assert (await moved.update())["version"] == 3
        await one.start()


async def test_a_user_agent_that_reconnects_elsewhere_gets_what_it_has_not_acked(
    tmp_path: Path, connect_to: Connect, sender: ApplicationServer
) -> None:
    bypass = {"AUTOPUSH_DIRECT_DELIVERY": "bypass"}
    async with cluster(tmp_path, connections=2, endpoints=1, **bypass) as running:
        one, two = running.connections
        agent = await connect_to(one)
        channel, endpoint = await agent.register()
        for version, home in enumerate((two, one, two), 1):
            assert (await put(sender, endpoint, version)).status == 200
            assert (await agent.update())["version"] == version
            agent = await connect_to(home, agent.uaid)  # while the old connection is open
            assert await agent.update() == {"channelID": channel, "version": version}
            await agent.ack([{"channelID": channel, "version": version}])
