"""SimplePush from outside: what the integration tests of the original check, and two workers."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from autopush.store.tables import router_table, storage_table
from keytables import TableHandle
from keytables.sqlite import open_sqlite
from support.application_server import Answer, ApplicationServer
from support.service import Service, service
from support.user_agent import SimplePushAgent, UserAgent
from support.wake_server import wake_server

pytestmark = pytest.mark.slow

T = TypeVar("T")
Connect = Callable[..., Awaitable[SimplePushAgent]]
HOST = {"ip": "127.0.0.1", "port": 9}


async def put(
    sender: ApplicationServer, endpoint: str, version: int, data: str | None = None
) -> Answer:
    """Tell an endpoint a version."""
    body = f"version={version}" + (f"&data={data}" if data else "")
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return await sender.request("PUT", endpoint, headers=headers, body=body.encode())


@pytest.fixture
def connect_to(agents: list[UserAgent]) -> Connect:
    """Connects user agents to any service, by UAID or as new ones."""

    async def connect_to(service: Service, uaid: str | None = None) -> SimplePushAgent:
        agent = await SimplePushAgent.connect(service.websocket)
        agents.append(agent)
        await agent.hello(uaid)
        return agent

    return connect_to


async def in_table(service: Service, name: str, work: Callable[[TableHandle], Awaitable[T]]) -> T:
    """Work on the router table or that of the versions, as another process."""
    engine = await open_sqlite(service.data / "autopush.sqlite")
    declared = {"router": router_table, "storage": storage_table}[name](name)
    try:
        return await work(await engine.ensure_table(declared))
    finally:
        await engine.close()


async def nothing_stored(service: Service) -> None:
    """Wait until the table of versions is empty: acked rows are deleted in the background."""
    async with asyncio.timeout(30):
        while (  # noqa: ASYNC110 - another process deletes them
            await in_table(service, "storage", lambda table: table.scan())
        ).items:
            await asyncio.sleep(0.02)


# ── waking ──────────────────────────────────────────────────────────────────────────────────────


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
            form = await asyncio.wait_for(waker.forms.get(), 30)
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
