"""Who may see the console: tokens by role, cookies, and the rate of log-ins."""

from pathlib import Path

import pytest

from autopush.console.session import ACT, LIFETIME, LOGIN_RATE, LOOK, ConsoleSessions, ConsoleTokens
from support.clocks import ManualClock


@pytest.fixture
def tokens(tmp_path: Path) -> ConsoleTokens:
    return ConsoleTokens(tmp_path)


def sessions(tokens: ConsoleTokens, clock: ManualClock, key: bytes = b"k") -> ConsoleSessions:
    return ConsoleSessions(tokens, key, clock, clock)


def test_a_token_is_not_in_the_file_which_only_its_owner_can_read(tokens: ConsoleTokens) -> None:
    token = tokens.make(ACT)
    assert token not in tokens.path.read_text()
    assert tokens.path.stat().st_mode & 0o777 == 0o600


def test_another_token_of_a_role_ends_its_cookies_and_no_others(tokens: ConsoleTokens) -> None:
    look, act = tokens.make(LOOK), tokens.make(ACT)
    console = sessions(tokens, ManualClock())
    cookies = [console.open(look), console.open(act)]
    assert [console.role_of(each) for each in cookies] == [LOOK, ACT]
    ConsoleTokens(tokens.path.parent).make(ACT)  # by another process
    assert [console.role_of(each) for each in cookies] == [LOOK, ""]
    assert console.open(act) == ""


def test_a_cookie_ends_and_outlives_a_restart(tokens: ConsoleTokens) -> None:
    clock = ManualClock()
    cookie = sessions(tokens, clock).open(tokens.make(ACT))
    clock.now += LIFETIME - 2
    restarted = sessions(ConsoleTokens(tokens.path.parent), clock)
    assert restarted.role_of(cookie) == ACT
    clock.now += 3
    assert restarted.role_of(cookie) == ""


@pytest.mark.parametrize("change", ["role", "end", "mac", "key", "text", "empty"])
def test_no_cookie_can_be_made_without_the_key(tokens: ConsoleTokens, change: str) -> None:
    tokens.make(ACT)
    clock = ManualClock()
    cookie = sessions(tokens, clock, b"other" if change == "key" else b"k").open(tokens.make(LOOK))
    role, ends, mac = cookie.split(".")
    forged = {
        "role": f"{ACT}.{ends}.{mac}",
        "end": f"{role}.{int(ends) + 1}.{mac}",
        "mac": f"{role}.{ends}.{'0' * 64}",
        "key": cookie,
        "text": "look.½.é",
        "empty": "",
    }[change]
    assert sessions(tokens, clock).role_of(forged) == ""


def test_attempts_are_limited_by_address(tokens: ConsoleTokens) -> None:
    console = sessions(tokens, ManualClock())
    for _ in range(LOGIN_RATE.count):
        assert not console.wait_before_attempt("192.0.2.1")
    assert console.wait_before_attempt("192.0.2.1")
    assert not console.wait_before_attempt("192.0.2.2")
