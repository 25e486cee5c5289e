"""Who may look."""

import pytest

from channelstats.web.access import (
    Authenticator,
    TooManyFailures,
    Verdict,
    host_name,
    is_own,
    is_this_machine,
)
from support.clocks import ManualClock

TOKEN = "correct-horse-battery"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8090", "LOCALHOST", "127.0.0.1:1", "127.9.9.9", "[::1]:8090"]
)
def test_without_a_token_this_machine_is_let_in_by_its_own_names(
    clock: ManualClock, host: str
) -> None:
    assert Authenticator(None, clock).judge({"Host": host}, "") is Verdict.LET_IN


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8090",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "0.0.0.0:8090",
        "[::2]",
        "[::1",
        "",
        "a@localhost.evil.example",
    ],
)
def test_without_a_token_nobody_is_let_in_by_another_name(clock: ManualClock, host: str) -> None:
    assert Authenticator(None, clock).judge({"Host": host}, "") is Verdict.OTHER_NAME


def test_a_request_without_a_host_is_not_let_in(clock: ManualClock) -> None:
    assert Authenticator(None, clock).judge({}, "") is Verdict.OTHER_NAME


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Real-IP"])
def test_without_a_token_nobody_comes_through_a_proxy(clock: ManualClock, header: str) -> None:
    headers = {"Host": "127.0.0.1:8090", header: "10.0.0.1"}
    assert Authenticator(None, clock).judge(headers, "") is Verdict.THROUGH_PROXY


def test_with_a_token_the_cookie_alone_counts(clock: ManualClock) -> None:
    guard = Authenticator(TOKEN, clock)
    far = {"Host": "stats.example", "X-Forwarded-For": "10.0.0.1"}
    assert guard.judge(far, guard.cookie) is Verdict.LET_IN
    for cookie in ("", TOKEN, guard.cookie[:-1], "é"):
        assert guard.judge({"Host": "localhost"}, cookie) is Verdict.LOG_IN


def test_a_cookie_does_not_tell_the_token_and_goes_with_it(clock: ManualClock) -> None:
    assert TOKEN not in Authenticator(TOKEN, clock).cookie
    assert Authenticator(TOKEN, clock).cookie == Authenticator(TOKEN, clock).cookie
    assert Authenticator(f"{TOKEN}2", clock).cookie != Authenticator(TOKEN, clock).cookie


def test_wrong_tokens_are_bounded_by_address_and_minute(clock: ManualClock) -> None:
    guard = Authenticator(TOKEN, clock)
    for _ in range(10):
        assert not guard.is_right("wrong", "10.0.0.1")
    with pytest.raises(TooManyFailures):
        guard.is_right(TOKEN, "10.0.0.1")
    assert guard.is_right(TOKEN, "10.0.0.2")
    clock.advance(60)
    assert guard.is_right(TOKEN, "10.0.0.1")


def test_addresses_of_one_network_are_one(clock: ManualClock) -> None:
    guard = Authenticator(TOKEN, clock)
    for number in range(10):
        assert not guard.is_right("wrong", f"2001:db8::{number:x}%eth0")
    with pytest.raises(TooManyFailures):
        guard.is_right("wrong", "2001:db8::ffff")
    assert not guard.is_right("wrong", "2001:db8:0:1::1")


def test_what_is_remembered_of_failures_is_bounded(clock: ManualClock) -> None:
    guard = Authenticator(TOKEN, clock)
    for number in range(1_500):
        assert not guard.is_right("wrong", f"10.0.{number // 256}.{number % 256}")
    assert len(guard._failures._of) == 1_000


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "http://localhost:8090", "Host": "localhost:8090"}, True),
        ({"Origin": "http://localhost:8091", "Host": "localhost:8090"}, False),
        ({"Origin": "null", "Host": "localhost:8090"}, False),
        ({"Host": "localhost:8090"}, True),
    ],
)
def test_what_pages_of_others_send_is_known(headers: dict[str, str], own: bool) -> None:
    assert is_own(headers) is own


def test_a_host_is_found_without_its_port() -> None:
    assert host_name("[::1]:8090") == "::1"
    assert host_name("example.com:80") == "example.com"
    assert host_name("[nonsense") == ""


def test_addresses_of_this_machine_are_known() -> None:
    assert is_this_machine("::1")
    assert is_this_machine("localhost.")
    assert not is_this_machine("0.0.0.0")
    assert not is_this_machine("192.168.0.1")
