"""Limits of one client address."""

import pytest

from autopush.net.address_limits import AddressRates
from autopush.rates import Rate

CLIENT = "203.0.113.7"


def rates(rate: Rate | None) -> AddressRates:
    return AddressRates(rate, monotonic=lambda: 1000.0)


def test_an_address_over_its_rate_learns_how_long_to_wait() -> None:
    limit = rates(Rate(2, "min"))
    assert [limit.take(CLIENT), limit.take(CLIENT)] == [0.0, 0.0]
    assert limit.take(CLIENT) == pytest.approx(30.0)
    assert limit.take("203.0.113.8") == 0.0


def test_what_is_not_limited_has_no_rate() -> None:
    limit = rates(Rate(1, "h"))
    assert {limit.take("") for _ in range(10)} == {0.0}


def test_without_a_rate_nothing_is_refused() -> None:
    limit = rates(None)
    assert {limit.take(CLIENT) for _ in range(10)} == {0.0}
