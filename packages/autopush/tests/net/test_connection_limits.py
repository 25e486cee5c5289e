"""How many connections a worker has in all and of one address, without a network."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.net.client_limits import ConnectionLimits, ConnectionRefused, TrustedProxies

CLIENT, OTHER, PROXY = "203.0.113.7", "203.0.113.8", "127.0.0.1"


class Refusals(list[tuple[str, str]]):
    def __call__(self, limit: str, address: str) -> None:
        self.append((limit, address))


class IdleConnections:
    """A server with that many connections, of which some may be closed."""

    def __init__(self, connections: int, idle: int) -> None:
        self.connections = connections
        self.idle = idle

    def close_idle(self) -> bool:
        if not self.idle:
            return False
        self.idle -= 1
        self.connections -= 1
        return True


def limited(connections: int = 0, per_address: int = 0) -> tuple[ConnectionLimits, Refusals]:
    refusals = Refusals()
    limits = ConnectionLimits(
        TrustedProxies(["127.0.0.0/8"]),
        max_connections=connections,
        max_per_address=per_address,
        on_refused=refusals,
    )
    return limits, refusals


def test_connections_beyond_the_limit_are_refused_until_one_ends() -> None:
    limits, refusals = limited(connections=2)
    key = limits.count(CLIENT)
    limits.count(OTHER)
    with pytest.raises(ConnectionRefused) as refused:
        limits.count(PROXY)
    assert refused.value.status == 503
    assert refusals == [("tcp_connections", PROXY)]
    limits.release(key)
    limits.count(PROXY)
    assert limits.open == 2


def test_connections_of_one_address_beyond_the_limit_are_refused_until_one_ends() -> None:
    limits, refusals = limited(per_address=2)
    key = limits.count(CLIENT)
    limits.count(CLIENT)
    with pytest.raises(ConnectionRefused) as refused:
        limits.count(CLIENT)
    assert refused.value.status == 429
    assert refusals == [("address_connections", CLIENT)]
    limits.count(OTHER)
    limits.release(key)
    limits.count(CLIENT)


def test_connections_of_one_ipv6_network_count_together() -> None:
    limits, _ = limited(per_address=1)
    limits.count("2001:db8::1")
    with pytest.raises(ConnectionRefused):
        limits.count("2001:db8::2")
    limits.count("2001:db8:0:1::1")


def test_a_trusted_proxy_may_have_as_many_connections_as_there_are() -> None:
    limits, refusals = limited(per_address=1)
    for _ in range(10):
        limits.count(PROXY)
    assert (limits.open, refusals) == (10, [])


def test_a_connection_counts_by_the_client_that_it_turns_out_to_have() -> None:
    limits, refusals = limited(per_address=1)
    first, second = limits.count(PROXY), limits.count(PROXY)
    first = limits.recount(first, CLIENT)
    with pytest.raises(ConnectionRefused):
        limits.recount(second, CLIENT)
    assert refusals == [("address_connections", CLIENT)]
    limits.release(first)
    second = limits.recount(second, CLIENT)
    assert limits.recount(second, CLIENT) == second
    limits.release(second)
    assert (limits.open, limits.addresses) == (0, 0)


def test_an_idle_connection_gives_way_to_a_new_one() -> None:
    limits, refusals = limited(connections=5)
    busy, idle = IdleConnections(3, 0), IdleConnections(2, 2)
    limits.add_server(busy)
    limits.add_server(idle)
    for _ in range(7):
        limits.count(CLIENT)
    assert (busy.connections, idle.connections, refusals) == (3, 0, [])
    with pytest.raises(ConnectionRefused):
        limits.count(CLIENT)


def test_nothing_gives_way_to_an_address_that_has_too_many() -> None:
    limits, _ = limited(connections=2, per_address=2)
    server = IdleConnections(2, 2)
    limits.add_server(server)
    limits.count(CLIENT)
    limits.count(CLIENT)
    with pytest.raises(ConnectionRefused):
        limits.count(CLIENT)
    assert server.idle == 2


ADDRESSES = st.sampled_from([CLIENT, OTHER, PROXY, "", "2001:db8::1", "2001:db8::2"])


@given(st.lists(st.tuples(st.sampled_from(["admit", "recount", "release"]), ADDRESSES)))
def test_no_address_is_remembered_longer_than_its_connections(steps: list[tuple[str, str]]) -> None:
    limits, _ = limited(connections=6, per_address=2)
    keys: list[str] = []
    for step, address in steps:
        try:
            if step == "admit":
                keys.append(limits.count(address))
            elif keys and step == "recount":
                keys[0] = limits.recount(keys[0], address)
            elif keys:
                limits.release(keys.pop())
        except ConnectionRefused:
            pass
        counted = [key for key in keys if key]
        assert limits.open == len(keys) <= 6
        assert limits.addresses == len(set(counted))
        assert all(counted.count(key) <= 2 for key in counted)
