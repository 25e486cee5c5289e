"""A cluster of Alternator nodes: the list, the turns, the dead."""

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from keytables.dynamodb import client as client_module
from keytables.dynamodb import nodes as module
from keytables.dynamodb import retries
from keytables.dynamodb.client import Client
from keytables.errors import Throttled, Unavailable
from support.certificates import tls_pair
from support.scripted_server import Exchange, Held, ScriptedServer, ok, raw, reset

BOTH_LOOPS = True

ADDRESSES = [f"127.0.0.{number}" for number in (1, 2, 3)]


class Fleet:
    """Nodes at several loopback addresses, on one port. `listed`: what they say of themselves."""

    def __init__(self) -> None:
        self.listed: object = ADDRESSES
        self.served: Counter[str] = Counter()
        self.asked_for_list: Counter[str] = Counter()
        self.port = 0
        self.servers: dict[str, ScriptedServer] = {}
        self._stacks: dict[str, AsyncExitStack] = {}

    async def start(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        async def step(exchange: Exchange) -> None:
            if exchange.asked.path == "/localnodes":
                assert exchange.asked.method == "GET"
                self.asked_for_list[address] += 1
                await exchange.answer(json.dumps(self.listed).encode())
            else:
                self.served[address] += 1
                await exchange.answer()

        stack = self._stacks[address] = AsyncExitStack()
        server = await stack.enter_async_context(
            ScriptedServer.running([step] * 10_000, host=address, port=self.port, tls=tls)
        )
        self.servers[address] = server
        self.port = server.port

    async def stop(self, address: str) -> None:
        await self._stacks.pop(address).aclose()

    async def deserted(self, address: str) -> None:
        """Wait until no connection to this node is left."""
        server = self.servers[address]
        await server.until(lambda: server.connections > 0 and server.ended == server.connections)

    @property
    def running(self) -> list[str]:
        return list(self._stacks)


@asynccontextmanager
async def fleet_of(addresses: list[str]) -> AsyncIterator[Fleet]:
    fleet = Fleet()
    try:
        for address in addresses:
            await fleet.start(address)
        yield fleet
    finally:
        for address in fleet.running:
            await fleet.stop(address)


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with fleet_of(ADDRESSES) as made:
        yield made


@asynccontextmanager
async def client_of(fleet: Fleet, scheme: str = "http", **options: Any) -> AsyncIterator[Client]:
    client = await Client.open(
        region="any", endpoint=f"{scheme}://127.0.0.1:{fleet.port}", alternator=True, **options
    )
    try:
        yield client
    finally:
        await client.close()


async def calls(client: Client, number: int) -> None:
    for _ in range(number):
        await client.call("GetItem", b"{}")


async def test_the_nodes_are_asked_in_turn(fleet: Fleet) -> None:
    async with client_of(fleet) as client:
        await calls(client, 30)
    assert fleet.served == dict.fromkeys(ADDRESSES, 10)


async def test_the_host_that_is_signed_is_the_endpoint_s_at_every_node() -> None:
    hosts: set[str] = set()

    async def step(exchange: Exchange) -> None:
        hosts.add(exchange.asked.headers["host"])
        await exchange.answer(
            json.dumps(ADDRESSES[1:2]).encode() if "local" in exchange.asked.path else b"{}"
        )

    async with (
        ScriptedServer.running([step] * 2) as contact,
        ScriptedServer.running([step] * 2, host=ADDRESSES[1], port=contact.port) as node,
    ):
        client = await Client.open(
            region="any", endpoint=f"http://127.0.0.1:{contact.port}", alternator=True
        )
        await client.call("GetItem", b"{}")
        await client.close()
        assert len(node.asked) == 1
        assert hosts == {f"127.0.0.1:{contact.port}"}


async def test_a_dead_node_is_left_out_and_no_call_fails(fleet: Fleet) -> None:
    async with client_of(fleet) as client:
        await calls(client, 6)
        await fleet.stop(ADDRESSES[1])
        fleet.served.clear()
        await calls(client, 20)
        assert set(fleet.served) == {ADDRESSES[0], ADDRESSES[2]}


async def failures(client: Client, number: int) -> int:
    """How many of so many calls fail that are tried once."""
    failed = 0
    for _ in range(number):
        try:
            await client.call("GetItem", b"{}", patience=0.9)
        except Unavailable:
            failed += 1
    return failed


@pytest.mark.parametrize("death", ["refuses", "resets"])
async def test_a_dead_node_costs_one_try(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, death: str
) -> None:
    monkeypatch.setattr(retries, "TRIES", 1)
    async with client_of(fleet) as client:
        if death == "refuses":
            await fleet.stop(ADDRESSES[1])
        else:
            fleet.servers[ADDRESSES[1]].script = [reset] * 100
        assert await failures(client, 30) == 1


async def test_a_node_that_hangs_is_asked_once(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "try_seconds", lambda patience: 0.1)
    async with client_of(fleet) as client:
        await calls(client, 3)  # a connection that has served before says as much
        hanging = fleet.servers[ADDRESSES[1]]
        hanging.script = [Held() for _ in range(100)]
        hanging.asked.clear()
        await calls(client, 30)
        assert len(hanging.asked) == 1


async def test_a_crowded_node_is_not_a_dead_one(fleet: Fleet) -> None:
    held = Held()
    async with client_of(fleet, connections=1) as client:
        await calls(client, 3)
        fleet.servers[ADDRESSES[1]].script.insert(0, held)
        first = [asyncio.create_task(client.call("GetItem", b"{}")) for _ in range(3)]
        await held.asked.wait()
        throttled = 0
        for _ in range(3):
            try:
                await client.call("GetItem", b"{}", patience=0.1)
            except Throttled:
                throttled += 1
        assert throttled == 1
        held.let_go.set()
        await asyncio.gather(*first)
        fleet.served.clear()
        await calls(client, 3)
        assert fleet.served == dict.fromkeys(ADDRESSES, 1)


async def test_a_node_that_fails_for_many_at_once_is_back_once(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEFT_OUT", 0.02)
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: complaints.append(context)
    )
    async with client_of(fleet) as client:
        fleet.servers[ADDRESSES[1]].script[:0] = [reset] * 3
        await asyncio.gather(*[client.call("GetItem", b"{}") for _ in range(9)])
        fleet.served.clear()
        async with asyncio.timeout(10):
            while ADDRESSES[1] not in fleet.served:
                await calls(client, 1)
    assert complaints == []


@pytest.mark.usefixtures("quick_refresh")
async def test_a_closed_client_asks_for_no_list_and_leaves_no_connection(fleet: Fleet) -> None:
    async with client_of(fleet) as closed:
        await calls(closed, 6)
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if "Cluster" in repr(task)]
    for address in ADDRESSES:
        await fleet.deserted(address)
    before = fleet.servers[ADDRESSES[0]].connections
    fleet.listed = ADDRESSES[1:2]
    async with client_of(fleet):  # it asks the first node once, to begin with
        await fleet.servers[ADDRESSES[1]].until(lambda: fleet.asked_for_list[ADDRESSES[1]] > 5)
    assert fleet.servers[ADDRESSES[0]].connections == before + 1


async def test_giving_up_the_start_leaves_no_connection() -> None:
    held = Held()
    async with ScriptedServer.running([held]) as server:
        opening = asyncio.create_task(
            Client.open(region="any", endpoint=f"http://127.0.0.1:{server.port}", alternator=True)
        )
        await held.asked.wait()
        opening.cancel()
        held.let_go.set()
        await server.until(lambda: server.ended == 1)


async def test_certificates_of_nodes_bear_the_name_of_the_endpoint(tmp_path: Path) -> None:
    server_tls, client_tls = tls_pair(tmp_path, ADDRESSES[0])
    async with fleet_of([]) as fleet:
        for address in ADDRESSES:
            await fleet.start(address, server_tls)
        async with client_of(fleet, "https", tls=client_tls) as client:
            await calls(client, 3)
        assert fleet.served == dict.fromkeys(ADDRESSES, 1)


async def test_a_node_left_out_is_tried_again_after_a_while(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEFT_OUT", 0.05)
    async with client_of(fleet) as client:
        await fleet.stop(ADDRESSES[1])
        await calls(client, 6)
        await fleet.start(ADDRESSES[1])
        fleet.served.clear()
        async with asyncio.timeout(10):
            while ADDRESSES[1] not in fleet.served:
                await calls(client, 1)


async def test_when_all_are_dead_calls_fail_and_recover_with_the_first_that_is_back(
    fleet: Fleet,
) -> None:
    async with client_of(fleet) as client:
        await calls(client, 3)
        for address in ADDRESSES:
            await fleet.stop(address)
        with pytest.raises(Unavailable):
            await client.call("GetItem", b"{}")
        with pytest.raises(Unavailable):
            await client.call("GetItem", b"{}")
        await fleet.start(ADDRESSES[2])
        await calls(client, 3)
        assert fleet.served[ADDRESSES[2]] >= 3


@pytest.fixture
def quick_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REFRESH", 0.02)


async def once_served(client: Client, fleet: Fleet, addresses: set[str]) -> None:
    """Call until these nodes, and they alone, answer a round of calls."""
    async with asyncio.timeout(10):
        while set(fleet.served) != addresses:
            fleet.served.clear()
            await calls(client, 6)
            await asyncio.sleep(0.01)


@pytest.mark.usefixtures("quick_refresh")
async def test_nodes_that_come_and_go_are_followed(fleet: Fleet) -> None:
    fleet.listed = ADDRESSES[:1]
    async with client_of(fleet) as client:
        await once_served(client, fleet, {ADDRESSES[0]})
        fleet.listed = ADDRESSES
        await once_served(client, fleet, set(ADDRESSES))
        fleet.listed = ADDRESSES[:2]
        await once_served(client, fleet, set(ADDRESSES[:2]))
        await fleet.deserted(ADDRESSES[2])


@pytest.mark.usefixtures("quick_refresh")
async def test_the_list_is_asked_of_whoever_lives(fleet: Fleet) -> None:
    async with client_of(fleet) as client:
        await fleet.stop(ADDRESSES[0])  # the one the endpoint names
        await calls(client, 3)
        fleet.listed = [ADDRESSES[2]]
        await once_served(client, fleet, {ADDRESSES[2]})


@pytest.mark.usefixtures("quick_refresh")
@pytest.mark.parametrize(
    "listed", [[], {}, "127.0.0.2", [1, 2], ["", "a b", "127.0.0.1\r\nx: y", "../.."], None]
)
async def test_a_list_that_names_nobody_changes_nothing(fleet: Fleet, listed: object) -> None:
    async with client_of(fleet) as client:
        fleet.listed = listed
        before = fleet.asked_for_list.total()
        async with asyncio.timeout(10):
            while fleet.asked_for_list.total() < before + 4:
                await calls(client, 1)
        fleet.served.clear()
        await calls(client, 3)
        assert set(fleet.served) == set(ADDRESSES)


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"not JSON"),
        ok(b"{}"),
        raw(b'HTTP/1.1 404 No\r\nContent-Length: 13\r\n\r\n["127.0.0.9"]'),
    ],
)
async def test_without_a_list_the_endpoint_serves_alone(answer: Any) -> None:
    async with ScriptedServer.running([answer] * 3) as server:
        client = await Client.open(
            region="any", endpoint=f"http://127.0.0.1:{server.port}", alternator=True
        )
        server.script.clear()
        await calls(client, 2)
        await client.close()
        assert [asked.path for asked in server.asked] == ["/localnodes"] * 3 + ["/", "/"]


async def test_no_list_and_no_server_leave_a_client_that_says_so() -> None:
    async with ScriptedServer.running() as server:
        port = server.port
    client = await Client.open(region="any", endpoint=f"http://127.0.0.1:{port}", alternator=True)
    with pytest.raises(Unavailable, match="cannot connect"):
        await client.call("GetItem", b"{}")
    await client.close()
