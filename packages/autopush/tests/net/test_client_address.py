"""Who the client is behind reverse proxies: what is believed of X-Forwarded-For."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.net.client_limits import MAX_PROXIES, TrustedProxies, unmapped
from autopush.net.http_messages import Request

PROXIES = TrustedProxies(["127.0.0.0/8", "::1", "10.0.0.0/8", "2001:db8:aa::/48"])
CLIENT = "203.0.113.7"


def client(peer: str, *forwarded: str, proxies: TrustedProxies | None = PROXIES) -> str:
    headers = {"x-forwarded-for": ", ".join(forwarded)} if forwarded else {}
    return Request("GET", "/", "", headers, peer, proxies=proxies).client_address


@pytest.mark.parametrize(
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
        ("", [CLIENT], ""),
    ],
)
def test_the_client_is_the_first_address_from_the_right_that_is_no_trusted_proxy(
    peer: str, forwarded: list[str], expected: str
) -> None:
    assert client(peer, *forwarded) == expected


def test_no_proxy_is_believed_where_none_is_trusted() -> None:
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "::1", "2001:db8:aa::1", "", "unix"])
def test_trusted_proxies_and_unknown_addresses_have_no_limit_key(address: str) -> None:
    assert PROXIES.limit_key(address) == ""
