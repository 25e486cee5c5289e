"""The servers of a database: addresses, rotation, hosts that fail."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from keytables.dynamodb.client import Client
from keytables.dynamodb.connections import (
    ConnectionLimits,
    ConnectionPool,
    Endpoint,
    Host,
    HostRotation,
    parse_endpoint,
    parse_endpoints,
)
from keytables.dynamodb.retries import RetryPolicy
from keytables.dynamodb.signing import Credentials
from keytables.errors import Throttled, Unavailable
from support.cases import cases
from support.certificates import tls_pair
from support.clocks import ManualClock
from support.scripted_server import (
    Exchange,
    HeldStep,
    ReceivedRequest,
    ScriptedServer,
    error,
    ok,
    reset,
)

BOTH_LOOPS = True

ADDRESSES = [f"127.0.0.{number}" for number in (1, 2, 3)]
ONE_ATTEMPT = RetryPolicy(attempts=1)


# --- addresses ------------------------------------------------------------------------------------


@cases(
    ("url", "endpoint", "authority", "is_loopback"),
    [
        ("http://127.0.0.1:8000", Endpoint("127.0.0.1", 8000, False), "127.0.0.1:8000", True),
        ("http://LOCALHOST/", Endpoint("localhost", 80, False), "localhost", True),
        ("https://[::1]:4567", Endpoint("::1", 4567, True), "[::1]:4567", True),
        ("https://db.example", Endpoint("db.example", 443, True), "db.example", False),
        ("https://db.example:443/", Endpoint("db.example", 443, True), "db.example", False),
        ("http://db.example:443", Endpoint("db.example", 443, False), "db.example:443", False),
        ("http://10.0.0.7:8000", Endpoint("10.0.0.7", 8000, False), "10.0.0.7:8000", False),
    ],
)
def test_an_endpoint_is_read_from_its_url(
    url: str, endpoint: Endpoint, authority: str, is_loopback: bool
) -> None:
    found = parse_endpoint(url)
    assert found == endpoint
    assert (found.authority, found.is_loopback) == (authority, is_loopback)


def test_several_endpoints_are_separated_by_commas() -> None:
    assert parse_endpoints("http://a:1,https://b,http://A:1/") == [
        Endpoint("a", 1, False),
        Endpoint("b", 443, True),
    ]


@cases(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "ftp://127.0.0.1:21",
        "http://",
        "http://:80",
        "http://h:99999",
        "http://h:0",
        "http://h:x",
        "http://h/path",
        "http://h?query",
        "http://h#part",
        "http://[::1",
        "http://a%b",
        "http://a b",
        "http://é",
        "http://a:1,",
        "http://a:1,b:1",
    ],
)
def test_other_text_is_refused_with_the_form_of_an_endpoint(url: str) -> None:
    with pytest.raises(ValueError, match="http://HOST:PORT"):
        parse_endpoints(url)


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(ValueError) as raised:
        parse_endpoint("http://user:hunter2@127.0.0.1:8000")
    assert "hunter2" not in str(raised.value)


# --- rotation -------------------------------------------------------------------------------------


def rotation(count: int, clock: ManualClock | None = None) -> HostRotation:
    hosts = [
        Host(
            Endpoint(f"host{number}", 80, False),
            ConnectionPool("", 80, size=1, max_waiting=1, limits=ConnectionLimits()),
            region="any",
            credentials=Credentials("a", "b"),
            now=clock or ManualClock(),
        )
        for number in range(count)
    ]
    return HostRotation(hosts)


def taken(hosts: HostRotation, count: int) -> Counter[str]:
    return Counter(hosts.next().endpoint.host for _ in range(count))


async def test_a_host_that_fails_is_tried_by_one_call_after_the_interval() -> None:
    clock = ManualClock()
    hosts = rotation(2, clock)
    hosts.hosts[0].circuit.on_failure()
    assert taken(hosts, 4) == {"host1": 4}
    for _ in range(2):
        clock.advance(5)
        assert taken(hosts, 4) == {"host0": 1, "host1": 3}


# --- calls to several hosts -----------------------------------------------------------------------


class Cluster:
    """Servers at several loopback addresses."""

    def __init__(self) -> None:
        self.servers: list[ScriptedServer] = []
        self._stacks: list[AsyncExitStack] = []

    async def start(self, address: str, **options: Any) -> None:
        stack = AsyncExitStack()
        server = await stack.enter_async_context(ScriptedServer.running(host=address, **options))
        self.servers.append(server)
        self._stacks.append(stack)

    async def stop(self, number: int) -> None:
        await self._stacks[number].aclose()

    async def restart(self, number: int) -> None:
        port = self.servers[number].port
        self.servers[number] = await self._stacks[number].enter_async_context(
            ScriptedServer.running(host=ADDRESSES[number], port=port)
        )

    async def stop_all(self) -> None:
        for stack in self._stacks:
            await stack.aclose()

    def url(self, scheme: str = "http") -> str:
        return ",".join(
            f"{scheme}://{address}:{server.port}"
            for address, server in zip(ADDRESSES, self.servers, strict=True)
        )

    def served(self) -> list[int]:
        """How many calls each server got since the last time."""
        counts = [len(server.requests) for server in self.servers]
        for server in self.servers:
            server.requests.clear()
        return counts


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    for address in ADDRESSES:
        await made.start(address)
    yield made
    await made.stop_all()


@asynccontextmanager
async def client_of(
    cluster: Cluster, scheme: str = "http", **options: Any
) -> AsyncIterator[Client]:
    client = await Client.open(region="any", endpoint=cluster.url(scheme), **options)
    try:
        yield client
    finally:
        await client.close()


async def call(client: Client, count: int) -> None:
    for _ in range(count):
        await client.call("GetItem", b"{}")


async def failures(client: Client, count: int) -> int:
    """How many of so many calls fail."""
    failed = 0
    for _ in range(count):
        try:
            await client.call("GetItem", b"{}", time_limit=0.9)
        except Unavailable:
            failed += 1
    return failed


async def test_calls_are_spread_evenly_and_signed_for_their_host(cluster: Cluster) -> None:
    async with client_of(cluster) as client:
        await call(client, 30)
    requests: list[Sequence[ReceivedRequest]] = [server.requests for server in cluster.servers]
    assert [len(each) for each in requests] == [10, 10, 10]
    hosts = [{request.headers["host"] for request in each} for each in requests]
    assert hosts == [
        {f"{address}:{server.port}"}
        for address, server in zip(ADDRESSES, cluster.servers, strict=True)
    ]


async def test_each_certificate_must_bear_the_name_of_its_host(tmp_path: Path) -> None:
    server_tls, client_tls = tls_pair(tmp_path, ADDRESSES[0])
    cluster = Cluster()
    for address in ADDRESSES:
        await cluster.start(address, tls=server_tls)
    async with client_of(cluster, "https", tls=client_tls, retries=ONE_ATTEMPT) as client:
        assert await failures(client, 9) == 2
    await cluster.stop_all()
    assert [bool(count) for count in cluster.served()] == [True, False, False]


async def test_a_wrong_clock_is_corrected_for_all_hosts(cluster: Cluster) -> None:
    server_time = 1_800_000_000.0
    skewed = error("RequestTimeTooSkewed", Date=formatdate(server_time, usegmt=True))

    async def check_date(exchange: Exchange) -> None:
        is_right = exchange.request.headers["x-amz-date"].startswith("20270115")
        await (ok() if is_right else skewed)(exchange)

    for server in cluster.servers:
        server.script = [check_date] * 10
    async with client_of(cluster, clock=ManualClock(server_time - 86_400)) as client:
        await call(client, 6)
    assert sum(cluster.served()) == 7


@pytest.mark.parametrize("failure", ["refuses", "resets"])
async def test_a_host_that_fails_costs_one_attempt(cluster: Cluster, failure: str) -> None:
    async with client_of(cluster, retries=ONE_ATTEMPT) as client:
        if failure == "refuses":
            await cluster.stop(1)
        else:
            cluster.servers[1].script = [reset] * 100
        assert await failures(client, 30) == 1


async def test_no_call_fails_for_a_host_that_does(cluster: Cluster) -> None:
    async with client_of(cluster) as client:
        await call(client, 6)
        await cluster.stop(1)
        cluster.served()
        await call(client, 20)
        assert cluster.served()[1] == 0


async def test_a_host_that_does_not_respond_costs_one_attempt(cluster: Cluster) -> None:
    async with client_of(cluster, retries=RetryPolicy(attempts=100)) as client:
        await call(client, 3)  # also one whose connection has served before
        cluster.servers[1].script = [HeldStep() for _ in range(100)]
        cluster.served()
        await call(client, 30)
        assert cluster.served()[1] == 1


async def test_a_busy_host_is_not_a_failing_one(cluster: Cluster) -> None:
    held = HeldStep()
    async with client_of(cluster, connections=1) as client:
        await call(client, 3)
        cluster.servers[1].script.insert(0, held)
        first = [asyncio.create_task(client.call("GetItem", b"{}")) for _ in range(3)]
        await held.received.wait()
        throttled = 0
        for _ in range(3):
            try:
                await client.call("GetItem", b"{}", time_limit=0.1)
            except Throttled:
                throttled += 1
        assert throttled == 1
        held.released.set()
        await asyncio.gather(*first)
        cluster.served()
        await call(client, 3)
        assert cluster.served() == [1, 1, 1]


async def test_when_all_hosts_fail_calls_fail_until_the_first_host_answers(
    cluster: Cluster,
) -> None:
    async with client_of(cluster) as client:
        await call(client, 3)
        for number in range(3):
            await cluster.stop(number)
        for _ in range(2):
            with pytest.raises(Unavailable):
                await client.call("GetItem", b"{}")
        await cluster.restart(2)
        await call(client, 3)
        assert cluster.served()[2] >= 3
