"""What is made once and serves many."""

import asyncio

import pytest

from channelstats.web.single_flight import Busy, SingleFlightCache


class Maker:
    """Makes what it is asked for once it may."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.may = asyncio.Event()
        self.began = asyncio.Event()

    async def make(self, key: str) -> str:
        self.made.append(key)
        self.began.set()
        await self.may.wait()
        return key.upper()

    async def asked(self, kept: SingleFlightCache[str, str], key: str) -> str:
        return await kept.get(key, lambda: self.make(key))


@pytest.fixture
def maker() -> Maker:
    return Maker()


async def test_of_one_key_there_is_one_making(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(2)
    both = [asyncio.create_task(maker.asked(kept, "a")) for _ in range(2)]
    await maker.began.wait()
    maker.may.set()
    assert [await one for one in both] == ["A", "A"]
    assert await maker.asked(kept, "a") == "A"
    assert maker.made == ["a"]


async def test_what_was_not_asked_for_longest_goes_first(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(2)
    maker.may.set()
    for key in "abac":
        await maker.asked(kept, key)
    await maker.asked(kept, "a")
    await maker.asked(kept, "b")
    assert maker.made == ["a", "b", "c", "b"]


async def test_whoever_waits_too_long_is_told_and_the_making_goes_on(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(2, patience=0.001)
    with pytest.raises(Busy):
        await maker.asked(kept, "a")
    making = kept._making["a"]
    maker.may.set()
    await making
    assert await maker.asked(kept, "a") == "A"
    assert maker.made == ["a"]


async def test_whoever_goes_away_takes_nothing_from_the_others(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(2)
    gone = asyncio.create_task(maker.asked(kept, "a"))
    await maker.began.wait()
    stays = asyncio.create_task(maker.asked(kept, "a"))
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    maker.may.set()
    assert await stays == "A"


async def test_what_failed_is_made_anew() -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(2)

    async def fail() -> str:
        raise ValueError("no")

    async def make() -> str:
        return "yes"

    with pytest.raises(ValueError, match="no"):
        await kept.get("a", fail)
    assert await kept.get("a", make) == "yes"


async def test_no_more_wait_than_there_is_room_for(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(99)
    waiting = [asyncio.create_task(maker.asked(kept, str(number))) for number in range(16)]
    await maker.began.wait()
    await asyncio.sleep(0)
    with pytest.raises(Busy):
        await maker.asked(kept, "one more")
    assert maker.made == ["0"]
    maker.may.set()
    await asyncio.gather(*waiting)


async def test_at_the_end_what_is_being_made_is_given_up(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(2)
    asking = asyncio.create_task(maker.asked(kept, "a"))
    await maker.began.wait()
    await kept.close()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_what_weighs_much_leaves_room_for_less_and_the_newest_stays(maker: Maker) -> None:
    kept: SingleFlightCache[str, str] = SingleFlightCache(10, weigh=len)
    maker.may.set()
    for key in ("a" * 4, "b" * 4, "c" * 20, "c" * 20, "d", "d"):
        await maker.asked(kept, key)
    assert [key[0] for key in maker.made] == ["a", "b", "c", "d"]
    assert list(kept._made) == ["d"]
