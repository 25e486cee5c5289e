"""A cluster under faults and load: nodes of one, two and four workers are killed, stopped, cut off
and restarted, and what was answered 201 or 202 reaches its user agent.
"""

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.application_server import application_server
from support.chaos_cluster import Cable, Cluster, Faults, Hosts, Loopback, cluster, database
from support.chaos_cluster import Host as AnyHost
from support.chaos_fleet import Fleet
from support.chaos_ledger import ChaosLedger
from support.netns import Host, Network, network
from support.postgres_servers import ReplicatedPostgres
from support.soak import SOAK, each_number_of_workers, slow, times
from support.user_agent import UserAgent

USERS = int(os.environ.get("CHAOS_USERS", times(100, 2000)))
SECONDS = int(os.environ.get("CHAOS_SECONDS", times(10, 300)))
PER_SECOND = int(os.environ.get("CHAOS_RATE", times(60, 100)))
SEED = int(os.environ.get("CHAOS_SEED", "4"))
DELIVERY_TIMEOUT = 120
"""Seconds; what a busy store rejected is retried up to a minute later."""
WINDOW = 30.0
"""Seconds that a message may be on its way to a user agent: until a dead connection is noticed."""
TIMEOUT = SECONDS + 5 * DELIVERY_TIMEOUT


def on_loopback(name: str) -> AnyHost:
    return Loopback()


def on_own_hosts(net: Network) -> tuple[Hosts, Mapping[str, Host]]:
    """Each process on a host of its own, and those hosts."""
    made: dict[str, Host] = {}

    def host(name: str) -> Host:
        made[name] = net.host(name)
        return made[name]

    return host, made


@contextmanager
def hosts_apart() -> Iterator[tuple[Hosts, Mapping[str, Cable]]]:
    """A host for each process, and one for the clients."""
    with network() as net, net.host("clients").entered():
        yield on_own_hosts(net)


async def run_with_faults(
    hosts: Hosts,
    cables: Mapping[str, Cable],
    data: Path,
    *,
    store: str,
    delivery: str = "store-first",
    seconds: int = SECONDS,
) -> ChaosLedger:
    """The ledger of a cluster after the faults, when everything that can be delivered was."""
    async with cluster(hosts, data, store=store, AUTOPUSH_DIRECT_DELIVERY=delivery) as made:
        fleet = Fleet(USERS, made.websocket_urls, made.endpoint_urls)
        ledger = fleet.ledger
        async with fleet.running():
            ledger.begin()
            faults, over = Faults(made, ledger, cables, SEED), asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(fleet.push(PER_SECOND, over))
                await faults.run(seconds)
                await faults.finale()
                over.set()
            await deliver_all(fleet)
    print(f"\n{delivery}, {USERS:,} users, {PER_SECOND} messages a second, seed {SEED}:")
    report(made, ledger)
    assert set(ledger.answers) <= {"201", "202", "503", "none"}
    return ledger


async def deliver_all(fleet: Fleet) -> None:
    """Wait until all that can be delivered was."""
    ledger = fleet.ledger
    await fleet.all_connected(DELIVERY_TIMEOUT)
    if not await ledger.complete(DELIVERY_TIMEOUT):
        overdue = ledger.missing
        fleet.reconnect()
        await ledger.complete(DELIVERY_TIMEOUT)
        ledger.late = overdue - ledger.missing


def report(made: Cluster, ledger: ChaosLedger) -> None:
    """Print what happened; no user agent may have been forgotten."""
    print(ledger.report())
    for node in made.nodes:
        for complaint, count in Counter(map(in_short, node.complaints)).items():
            print(f"  {node.name} logged {count} times: {complaint}")
    assert ledger.forgotten == []


def in_short(line: str) -> str:
    """What a line of the log says, and the last line of its traceback."""
    if not line.startswith("{"):
        return line
    fields = json.loads(line)["Fields"]
    error = str(fields.get("exception") or fields.get("reason") or "").strip().rpartition("\n")[2]
    return f"{fields['message']} ({fields.get('path') or fields.get('where') or ''}): {error}"


# ── random faults ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
async def test_nothing_accepted_is_lost_on_the_embedded_store(tmp_path: Path) -> None:
    ledger = await run_with_faults(on_loopback, {}, tmp_path, store="", seconds=SECONDS)
    assert ledger.missing == set()
    assert ledger.late == set()


@pytest.mark.slow
@pytest.mark.skipif(not SOAK, reason="links that go down come with the same faults")
@pytest.mark.timeout(TIMEOUT)
async def test_nothing_accepted_is_lost_on_dynamodb(tmp_path: Path) -> None:
    async with database(on_loopback) as store:
        ledger = await run_with_faults(on_loopback, {}, tmp_path, store=store)
    assert ledger.missing == set()
    assert ledger.late == set()


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
async def test_nothing_accepted_is_lost_when_links_go_down(tmp_path: Path) -> None:
    with hosts_apart() as (hosts, cables):
        async with database(hosts) as store:
            ledger = await run_with_faults(hosts, cables, tmp_path, store=store)
    assert ledger.missing == set()
    assert ledger.late == set()


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
async def test_bypass_loses_only_what_was_on_its_way_when_a_node_died(tmp_path: Path) -> None:
    with hosts_apart() as (hosts, cables):
        async with database(hosts) as store:
            ledger = await run_with_faults(hosts, cables, tmp_path, store=store, delivery="bypass")
    window = ledger.loss_window()
    print(f"lost {len(ledger.missing)}, all answered within {window:.2f} s before a node died")
    assert window < WINDOW
    assert ledger.late == set()


# ── PostgreSQL with a standby ────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def replicated_postgres() -> AsyncIterator[ReplicatedPostgres]:
    database = ReplicatedPostgres()
    try:
        await asyncio.to_thread(database.start)
        yield database
    finally:
        await asyncio.to_thread(database.remove)


def stored_messages(database: ReplicatedPostgres) -> bytes | None:
    """All that is in the message table; None while it cannot be read."""
    try:
        return database.primary.execute("SELECT encode(item, 'escape') FROM t.message").encode()
    except RuntimeError:
        return None


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize(
    ("nodes", "restarts", "failovers"),
    [
        pytest.param(1, 1, 1, id="once"),
        slow(times(6, 20), times(3, 10), times(2, 5), name="often"),
    ],
)
async def test_nothing_accepted_is_lost_on_postgresql_and_its_outages_close_nobody(
    tmp_path: Path, nodes: int, restarts: int, failovers: int
) -> None:
    async with (
        replicated_postgres() as database,
        cluster(
            on_loopback,
            tmp_path,
            store=f"{database.url}&schema=t",
            connections=2,
            AUTOPUSH_DIRECT_DELIVERY="store-first",
        ) as made,
    ):
        fleet = Fleet(50, made.websocket_urls, made.endpoint_urls)
        ledger, dice = fleet.ledger, random.Random(SEED)
        faults, over = Faults(made, ledger, {}, SEED), asyncio.Event()
        acts: list[tuple[str, Callable[[], None]]] = [
            *[("restart", lambda: database.restart(dice.uniform(0, 2)))] * restarts,
            *[("failover", database.fail_over)] * failovers,
            *[("", lambda: None)] * nodes,
        ]
        dice.shuffle(acts)
        read = partial(stored_messages, database)
        watching = asyncio.create_task(ledger.acks.watch_store(read, ledger.accepted, 0.5))
        async with fleet.running():
            ledger.begin()
            async with asyncio.TaskGroup() as group:
                group.create_task(fleet.push(PER_SECOND, over))
                for kind, act in acts:
                    await fleet.all_connected(DELIVERY_TIMEOUT)
                    before = len(ledger.connects)
                    if kind:
                        await faults.on_database(kind, act)
                    else:
                        await faults.kill_node()
                    await ledger.grows_by(PER_SECOND, DELIVERY_TIMEOUT)
                    if kind:
                        assert len(ledger.connects) == before
                over.set()
            await deliver_all(fleet)
            await ledger.acks.look(read, ledger.accepted)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    report(made, ledger)
    assert watching.cancelled()
    assert set(ledger.answers) <= {"201", "503", "none"}
    assert ledger.missing == ledger.late == set()
    assert ledger.acks.again == []
    assert ledger.acks.settled > len(ledger.accepted) / 2


# ── two faults at once ──────────────────────────────────────────────────────────────────────


@each_number_of_workers()
async def test_a_stored_message_arrives_though_its_endpoint_died_before_notifying_the_node(
    tmp_path: Path, workers: int
) -> None:
    """The node was stopped and could not be notified; the endpoint that would repeat it is dead."""
    async with (
        cluster(
            on_loopback,
            tmp_path,
            connections=1,
            endpoints=1,
            workers=[workers],
            AUTOPUSH_DIRECT_DELIVERY="store-first",
        ) as made,
        application_server(reconnecting=True) as sender,
    ):
        (node,), (endpoint,) = made.connections, made.endpoints
        agent = await UserAgent.connect(made.websocket_urls[0])
        await agent.hello()
        _, url = await agent.register()
        url = made.endpoint_urls[0] + urlsplit(url).path
        node.send(signal.SIGSTOP)
        for _ in range(2):  # the first one is in the stopped node's socket, the second nowhere
            last = await sender.push(url, b"stored")
        await endpoint.end(signal.SIGKILL)
        node.send(signal.SIGCONT)
        async with asyncio.timeout(DELIVERY_TIMEOUT):
            while (await agent.notifications.get())["version"] != last.message_id:
                pass
        await agent.close()


@each_number_of_workers()
@pytest.mark.parametrize(("delivery", "arrives"), [("store-first", True), ("bypass", False)])
async def test_what_a_node_sent_to_a_lost_user_agent_before_it_died_arrives_only_if_it_was_stored(
    tmp_path: Path, delivery: str, arrives: bool, workers: int
) -> None:
    """The window of `bypass`: sent to a user agent that did not get it, and not saved yet."""
    with network() as net:
        hosts, cables = on_own_hosts(net)
        laptop, office = net.host("laptop"), net.host("office")
        async with (
            database(hosts) as store,
            cluster(
                hosts,
                tmp_path,
                store=store,
                connections=2,
                endpoints=1,
                workers=[workers],
                AUTOPUSH_DIRECT_DELIVERY=delivery,
            ) as nodes,
            application_server(reconnecting=True) as sender,
        ):
            with laptop.entered():
                agent = await UserAgent.connect(nodes.websocket_urls[0])
                await agent.hello()
                _, url = await agent.register()
            url = nodes.endpoint_urls[0] + urlsplit(url).path
            laptop.cut()
            with office.entered():
                sent = [(await sender.push(url, b"lost on the way")).message_id]
            cables["connection0"].cut()
            await nodes.connections[0].end(signal.SIGKILL)
            laptop.mend()
            with laptop.entered():
                again = await UserAgent.connect(nodes.websocket_urls[1])
                await again.hello(agent.uaid)
            with office.entered():
                sent.append((await sender.push(url, b"afterwards")).message_id)
            got = [message["version"] for message in await again.receive(1 + arrives, ack=True)]
            assert got == (sent if arrives else sent[1:])
            await again.close()
            await agent.drop_connection()
