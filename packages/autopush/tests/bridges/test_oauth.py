"""Access tokens: fetched once for all who wait, ahead of expiry, and again when refused."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from autopush.bridges import oauth
from autopush.bridges.oauth import AHEAD, LEAST_VALIDITY, PAUSE, Grant, TokenCache
from autopush.delivery.bridge_contract import RouterError
from autopush.webpush.errors import Errno
from support.clocks import ManualClock

LIFETIME = 3600.0


class Issuer:
    """Issues token-1, token-2 … or fails; with `gate` closed, no request is answered."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.requests = 0
        self.error: RouterError | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.lifetime = LIFETIME
        self.cache = TokenCache("one", self.fetch, self.clock)

    async def fetch(self) -> Grant:
        self.requests += 1
        number = self.requests
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return Grant(f"token-{number}", self.lifetime)


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    yield issuer
    await issuer.cache.close()


async def until_idle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_token_is_kept_until_shortly_before_its_expiry(issuer: Issuer) -> None:
    assert await issuer.cache.get() == "token-1"
    issuer.clock.advance(LIFETIME - AHEAD - 1)
    assert await issuer.cache.get() == "token-1"
    await until_idle()
    assert issuer.requests == 1


async def test_ahead_of_its_expiry_it_is_replaced_and_nobody_waits(issuer: Issuer) -> None:
    await issuer.cache.get()
    issuer.gate.clear()
    issuer.clock.advance(LIFETIME - AHEAD)
    assert [await issuer.cache.get() for _ in range(3)] == ["token-1"] * 3
    issuer.gate.set()
    await until_idle()
    assert await issuer.cache.get() == "token-2"
    assert issuer.requests == 2


async def test_all_who_wait_share_one_request(issuer: Issuer) -> None:
    issuer.gate.clear()
    waiting = [asyncio.ensure_future(issuer.cache.get()) for _ in range(20)]
    await until_idle()
    issuer.gate.set()
    assert await asyncio.gather(*waiting) == ["token-1"] * 20
    assert issuer.requests == 1


async def test_one_who_gives_up_does_not_end_the_request_of_the_others(issuer: Issuer) -> None:
    issuer.gate.clear()
    first, second = (asyncio.ensure_future(issuer.cache.get()) for _ in range(2))
    await until_idle()
    first.cancel()
    await until_idle()
    issuer.gate.set()
    assert await second == "token-1"
    assert issuer.requests == 1


async def test_at_its_expiry_everybody_waits_for_the_new_one(issuer: Issuer) -> None:
    await issuer.cache.get()
    issuer.clock.advance(LIFETIME - LEAST_VALIDITY)
    assert await issuer.cache.get() == "token-2"


async def test_a_refused_token_is_replaced_once(issuer: Issuer) -> None:
    await issuer.cache.get()
    again = [asyncio.ensure_future(issuer.cache.get(refused="token-1")) for _ in range(2)]
    assert await asyncio.gather(*again) == ["token-2", "token-2"]
    assert await issuer.cache.get(refused="token-1") == "token-2"
    assert issuer.requests == 2


async def test_a_failure_reaches_each_who_waits_as_an_error_of_its_own(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.error = RouterError(Errno.BRIDGE_REFUSED, "refused", is_outage=True)
    waiting = [issuer.cache.get() for _ in range(2)]
    first, second = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(first, RouterError)
    assert isinstance(second, RouterError)
    assert first is not second
    assert (first.errno, first.status, first.message, first.is_outage) == (
        901,
        502,
        "refused",
        True,
    )
    assert [each.getMessage() for each in caplog.records] == ["No access token was issued"]
    issuer.error = None
    assert await issuer.cache.get() == "token-2"


async def test_a_failed_replacement_costs_no_message_and_is_repeated_after_a_pause(
    issuer: Issuer,
) -> None:
    await issuer.cache.get()
    issuer.error = RouterError(Errno.BRIDGE_UNREACHABLE, "unreachable", is_outage=True)
    issuer.clock.advance(LIFETIME - AHEAD)
    for _ in range(3):
        assert await issuer.cache.get() == "token-1"
        await until_idle()
    assert issuer.requests == 2
    issuer.error = None
    issuer.clock.advance(PAUSE)
    assert await issuer.cache.get() == "token-1"
    await until_idle()
    assert await issuer.cache.get() == "token-3"


async def test_a_short_lived_token_is_used_for_most_of_its_life(issuer: Issuer) -> None:
    issuer.lifetime = 40.0
    await issuer.cache.get()
    issuer.clock.advance(29)
    assert await issuer.cache.get() == "token-1"
    await until_idle()
    assert issuer.requests == 1
    issuer.clock.advance(7)
    assert await issuer.cache.get() == "token-2"


async def test_a_request_that_takes_too_long_is_502_903(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer.gate.clear()
    with monkeypatch.context() as patch:
        patch.setattr(oauth, "FETCH_TIMEOUT", 0.05)
        with pytest.raises(RouterError) as caught:
            await issuer.cache.get()
    assert (caught.value.status, caught.value.errno) == (502, 903)
    issuer.gate.set()
    assert await issuer.cache.get() == "token-2"


async def test_close_ends_a_request_under_way(issuer: Issuer) -> None:
    issuer.gate.clear()
    waiting = asyncio.ensure_future(issuer.cache.get())
    await until_idle()
    await issuer.cache.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_a_grant_does_not_show_its_token() -> None:
    assert "secret" not in repr(Grant("secret", 5))
