"""Clients of the public ports: who they are, and how much they may have, without a network."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.net.client_limits import (
    MAX_PROXIES,
    BufferedBytes,
    ConnectionLimits,
    ConnectionRefused,
    TrustedProxies,
    unmapped,
)
from autopush.net.http_messages import Request
from support.cases import cases

# ── Who the client is ─────────────────────────────────────────────────────────────────────────────


PROXIES = TrustedProxies(["127.0.0.0/8", "::1", "10.0.0.0/8", "2001:db8:aa::/48"])
CLIENT = "203.0.113.7"


def client(peer: str, *forwarded: str, proxies: TrustedProxies | None = PROXIES) -> str:
    headers = {"x-forwarded-for": ", ".join(forwarded)} if forwarded else {}
    return Request("GET", "/", "", headers, peer, proxies=proxies).client_address


@cases(
    ("peer", "forwarded", "expected"),
    [
        (CLIENT, [], CLIENT),
        ("10.0.0.1", [], "10.0.0.1"),
        (CLIENT, ["192.0.2.1"], CLIENT),
        ("10.0.0.1", [CLIENT], CLIENT),
        ("::1", [CLIENT], CLIENT),
        ("::ffff:10.0.0.1", [CLIENT], CLIENT),
        ("10.0.0.1", ["2001:DB8::0:7"], "2001:db8::7"),
        ("10.0.0.1", ["::ffff:203.0.113.7"], CLIENT),
        ("10.0.0.1", ["192.0.2.66", CLIENT], CLIENT),
        ("10.0.0.1", ["192.0.2.66", CLIENT, "10.0.0.2"], CLIENT),
        ("10.0.0.1", ["192.0.2.66", CLIENT, "2001:db8:aa::1", "127.0.0.1"], CLIENT),
        ("10.0.0.1", ["10.1.1.1", "10.2.2.2"], "10.1.1.1"),
        ("10.0.0.1", [f"{CLIENT}:50123"], CLIENT),
        ("10.0.0.1", ["[2001:db8::7]:50123"], "2001:db8::7"),
        ("10.0.0.1", ["[2001:db8::7]"], "2001:db8::7"),
        ("10.0.0.1", ["fe80::1%eth0"], "fe80::1"),
        ("10.0.0.1", [CLIENT, "unknown"], "10.0.0.1"),
        ("10.0.0.1", [CLIENT, "unknown", "10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", [CLIENT, ""], "10.0.0.1"),
        ("", [CLIENT], CLIENT),  # of a Unix socket
        ("", ["192.0.2.66", CLIENT], CLIENT),
    ],
)
def test_the_client_is_the_first_address_from_the_right_that_is_no_trusted_proxy(
    peer: str, forwarded: list[str], expected: str
) -> None:
    assert client(peer, *forwarded) == expected


def test_no_proxy_is_believed_where_none_is_trusted() -> None:
    assert client("", CLIENT, proxies=TrustedProxies(())) == ""
    assert client("127.0.0.1", CLIENT, proxies=None) == "127.0.0.1"
    assert client("127.0.0.1", CLIENT, proxies=TrustedProxies([])) == "127.0.0.1"


def test_a_chain_is_followed_for_a_bounded_number_of_proxies() -> None:
    chain = [f"10.0.0.{number}" for number in range(100)]
    assert client("127.0.0.1", *chain) == f"10.0.0.{100 - MAX_PROXIES}"


@given(st.text(st.characters(max_codepoint=255)), st.sampled_from([CLIENT, "2001:db8::7"]))
def test_what_a_client_writes_itself_never_counts(made_up: str, address: str) -> None:
    assert client("10.0.0.1", made_up, address) == address
    assert client(address, made_up) == address


def test_an_ipv4_address_is_shown_as_such_on_a_socket_of_ipv6() -> None:
    assert unmapped("::ffff:192.0.2.1") == "192.0.2.1"
    assert unmapped("::ffff:0:102:304") == "::ffff:0:102:304"
    assert unmapped("192.0.2.1") == "192.0.2.1"


@cases(
    ("address", "key"),
    [
        (CLIENT, CLIENT),
        ("::ffff:203.0.113.7", CLIENT),
        ("2001:db8:0:7::1", "2001:db8:0:7::/64"),
        ("2001:DB8:0:7:ffff:ffff:ffff:ffff", "2001:db8:0:7::/64"),
        ("2001:db8:0:8::1", "2001:db8:0:8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_limits_count_by_ipv4_address_and_by_network_of_ipv6(address: str, key: str) -> None:
    assert PROXIES.limit_key(address) == key


@cases("address", ["127.0.0.1", "10.1.2.3", "::1", "2001:db8:aa::1", "", "unix"])
def test_trusted_proxies_and_unknown_addresses_have_no_limit_key(address: str) -> None:
    assert PROXIES.limit_key(address) == ""


# ── How many connections ──────────────────────────────────────────────────────────────────────────


OTHER, PROXY = "203.0.113.8", "127.0.0.1"


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


def test_a_trusted_proxy_may_have_as_many_connections_as_there_are() -> None:
    limits, refusals = limited(per_address=1)
    for _ in range(10):
        limits.count(PROXY)
    assert (limits.open, refusals) == (10, [])


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


@given(st.lists(st.tuples(st.sampled_from(["count", "recount", "release"]), ADDRESSES)))
def test_no_address_is_remembered_longer_than_its_connections(steps: list[tuple[str, str]]) -> None:
    limits, _ = limited(connections=6, per_address=2)
    keys: list[str] = []
    for step, address in steps:
        try:
            if step == "count":
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


# ── How many bytes ────────────────────────────────────────────────────────────────────────────────


class Holder:
    def __init__(self, buffered: BufferedBytes) -> None:
        self.buffered = buffered
        self.held = 0
        self.given_up = 0

    def hold(self, size: int) -> None:
        self.held = size
        self.buffered.hold(self, size)

    def give_up(self) -> None:
        self.given_up += 1
        self.hold(0)


def test_the_message_that_is_incomplete_for_longest_is_given_up() -> None:
    reports: list[int] = []
    buffered = BufferedBytes(100, lambda: reports.append(1))
    old, young, new = Holder(buffered), Holder(buffered), Holder(buffered)
    old.hold(10)
    young.hold(80)
    old.hold(20)
    new.hold(1)
    assert (old.given_up, young.given_up, new.given_up) == (1, 0, 0)
    assert (buffered.total, len(reports)) == (81, 1)


def test_as_many_are_given_up_as_it_takes() -> None:
    buffered = BufferedBytes(100)
    small = [Holder(buffered) for _ in range(10)]
    for holder in small:
        holder.hold(10)
    large = Holder(buffered)
    large.hold(45)
    assert [holder.given_up for holder in small] == [1] * 5 + [0] * 5
    assert (large.given_up, buffered.total) == (0, 95)


def test_a_message_beyond_the_limit_is_given_up_itself() -> None:
    buffered = BufferedBytes(100)
    holder = Holder(buffered)
    holder.hold(101)
    assert (holder.given_up, buffered.total) == (1, 0)


def test_a_complete_message_is_young_again_with_the_next() -> None:
    buffered = BufferedBytes(100)
    first, second = Holder(buffered), Holder(buffered)
    first.hold(50)
    second.hold(50)
    first.hold(0)
    first.hold(51)
    assert (first.given_up, second.given_up) == (0, 1)


def test_without_a_limit_everything_is_held() -> None:
    buffered = BufferedBytes()
    holder = Holder(buffered)
    holder.hold(1 << 40)
    assert holder.given_up == 0


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 120)), max_size=50))
def test_the_total_is_the_sum_and_within_the_limit(steps: list[tuple[int, int]]) -> None:
    buffered = BufferedBytes(100)
    holders = [Holder(buffered) for _ in range(5)]
    for which, size in steps:
        holders[which].hold(size)
        assert buffered.total == sum(holder.held for holder in holders) <= 100


def test_connections_of_one_ipv6_network_count_together() -> None:
    limits, _ = limited(per_address=1)
    limits.count("2001:db8::1")
    with pytest.raises(ConnectionRefused):
        limits.count("2001:db8::2")
    limits.count("2001:db8:0:1::1")
