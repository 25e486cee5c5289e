"""A cluster in bad weather: nodes are killed, stopped, cut off and restarted under load.

What was answered 201 or 202 reaches its user agent.
"""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.application_server import application_server
from support.chaos_books import Books
from support.chaos_cluster import Host as AnyHost
from support.chaos_cluster import Hosts, Loopback, cluster, database
from support.chaos_faults import Cable, Faults
from support.chaos_fleet import Fleet
from support.netns import Host, Network, network
from support.soak import slow, times
from support.user_agent import UserAgent

USERS = int(os.environ.get("CHAOS_USERS", times(150, 2000)))
SECONDS = int(os.environ.get("CHAOS_SECONDS", times(15, 300)))
PER_SECOND = int(os.environ.get("CHAOS_RATE", times(60, 100)))
SEED = int(os.environ.get("CHAOS_SEED", "4"))
PATIENCE = 120
"""Seconds; what a store was too busy for comes up to a minute later."""
WINDOW = 30.0
"""Seconds that a message may be on its way to a user agent: until a dead connection is noticed."""
TIMEOUT = SECONDS + 5 * PATIENCE


def on_loopback(name: str) -> AnyHost:
    return Loopback()


def on_their_own(net: Network) -> tuple[Hosts, Mapping[str, Host]]:
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
        yield on_their_own(net)


async def weather(
    hosts: Hosts,
    cables: Mapping[str, Cable],
    data: Path,
    *,
    store: str,
    delivery: str = "store-first",
    seconds: int = SECONDS,
) -> Books:
    """The books of a cluster after the storm, when everything that can come has come."""
    async with cluster(hosts, data, store=store, AUTOPUSH_DIRECT_DELIVERY=delivery) as made:
        fleet = Fleet(USERS, made.websocket_urls, made.endpoint_urls)
        books = fleet.books
        async with fleet.running():
            books.begin()
            faults, over = Faults(made, books, cables, SEED), asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(fleet.push(PER_SECOND, over))
                await faults.run(seconds)
                await faults.finale()
                over.set()
            await fleet.everybody_is_connected(PATIENCE)
            if not await books.complete(PATIENCE):
                overdue = books.missing
                fleet.reconnect()
                await books.complete(PATIENCE)
                books.late = overdue - books.missing
    print(f"\n{delivery}, {USERS:,} users, {PER_SECOND} messages a second, seed {SEED}:")
    print(books.report())
    for node in made.nodes:
        for complaint, count in Counter(map(in_short, node.complaints)).items():
            print(f"  {node.name} logged {count} times: {complaint}")
    assert books.forgotten == []
    assert set(books.answers) <= {"201", "202", "503", "none"}
    return books


def in_short(line: str) -> str:
    """What a line of the log says, and the last line of its traceback."""
    if not line.startswith("{"):
        return line
    fields = json.loads(line)["Fields"]
    error = str(fields.get("exception", "")).strip().rpartition("\n")[2]
    return f"{fields['message']} ({fields.get('path') or fields.get('where') or ''}): {error}"


# ── storms ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("seconds", [5, slow(SECONDS, name="long")])
async def test_nothing_accepted_is_lost_on_the_embedded_store(tmp_path: Path, seconds: int) -> None:
    books = await weather(on_loopback, {}, tmp_path, store="", seconds=seconds)
    assert books.missing == set()
    assert books.late == set()


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
async def test_nothing_accepted_is_lost_on_dynamodb(tmp_path: Path) -> None:
    async with database(on_loopback) as store:
        books = await weather(on_loopback, {}, tmp_path, store=store)
    assert books.missing == set()
    assert books.late == set()


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
async def test_nothing_accepted_is_lost_when_links_go_down(tmp_path: Path) -> None:
    with hosts_apart() as (hosts, cables):
        async with database(hosts) as store:
            books = await weather(hosts, cables, tmp_path, store=store)
    assert books.missing == set()
    assert books.late == set()


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
async def test_bypass_loses_only_what_was_on_its_way_when_a_node_died(tmp_path: Path) -> None:
    with hosts_apart() as (hosts, cables):
        async with database(hosts) as store:
            books = await weather(hosts, cables, tmp_path, store=store, delivery="bypass")
    window = books.loss_window()
    print(f"lost {len(books.missing)}, all answered within {window:.2f} s before a node died")
    assert window < WINDOW
    assert books.late == set()


# ── one fault upon another ──────────────────────────────────────────────────────────────────────


async def test_a_check_that_its_endpoint_took_to_the_grave_is_made_up_for(tmp_path: Path) -> None:
    """The node was stopped, so nobody told it; who would have told it later is dead."""
    async with (
        cluster(
            on_loopback,
            tmp_path,
            connections=1,
            endpoints=1,
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
        async with asyncio.timeout(PATIENCE):
            while (await agent.notifications.get())["version"] != last.message_id:
                pass
        await agent.close()


@pytest.mark.parametrize(("delivery", "arrives"), [("store-first", True), ("bypass", False)])
async def test_what_a_node_sent_into_the_void_before_it_died_arrives_only_if_it_was_stored(
    tmp_path: Path, delivery: str, arrives: bool
) -> None:
    """The window of `bypass`: sent to a user agent that did not get it, and not saved yet."""
    with network() as net:
        hosts, cables = on_their_own(net)
        laptop, office = net.host("laptop"), net.host("office")
        async with (
            database(hosts) as store,
            cluster(
                hosts,
                tmp_path,
                store=store,
                connections=2,
                endpoints=1,
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
                sent = [(await sender.push(url, b"into the void")).message_id]
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
            await agent.vanish()
