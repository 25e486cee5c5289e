"""Limits of one client address."""

import pytest

from autopush.net.address_limits import AddressRates
from autopush.net.client_address import TrustedProxies
from autopush.rates import Rate

PROXIES = TrustedProxies(["127.0.0.0/8"])
CLIENT = "203.0.113.7"


def rates(rate: Rate | None) -> AddressRates:
    return AddressRates(PROXIES, rate, monotonic=lambda: 1000.0)


def test_an_address_over_its_rate_learns_how_long_to_wait() -> None:
    limit = rates(Rate(2, "min"))
    assert [limit.take(CLIENT), limit.take(CLIENT)] == [0.0, 0.0]
    assert limit.take(CLIENT) == pytest.approx(30.0)
    assert limit.take("203.0.113.8") == 0.0


def test_addresses_of_one_ipv6_network_share_a_rate() -> None:
    limit = rates(Rate(1, "min"))
    assert limit.take("2001:db8::1") == 0.0
    assert limit.take("2001:db8::2") > 0
    assert limit.take("2001:db8:0:1::1") == 0.0


def test_a_trusted_proxy_has_no_rate() -> None:
    limit = rates(Rate(1, "h"))
    assert {limit.take("127.0.0.1") for _ in range(10)} == {0.0}


def test_without_a_rate_nothing_is_refused() -> None:
    limit = rates(None)
    assert {limit.take(CLIENT) for _ in range(10)} == {0.0}
