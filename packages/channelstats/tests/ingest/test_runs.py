"""Which channels an interrupted run has done, and how long that is believed."""

from channelstats.ingest.runs import Checkpoint
from support.channelstats.house import House
from support.clocks import ManualClock

BEGUN = 1_710_000_000


def checkpoint(
    of: House, clock: ManualClock, mark: str = "a", seconds: int | None = 60
) -> Checkpoint:
    return Checkpoint(of.tables.configuration, "sync it", clock, mark=mark, seconds=seconds)


async def test_a_run_goes_on_where_an_interrupted_one_ended(empty: House) -> None:
    clock = ManualClock(BEGUN)
    first = checkpoint(empty, clock)
    assert await first.start() == frozenset()
    await first.add("C1")
    clock.advance(50)
    await first.add("C2", {"newest": "1", "links": {}})
    clock.advance(59)
    second = checkpoint(empty, clock)
    assert await second.start() == {"C1", "C2"}
    assert second.begun == BEGUN
    assert (second.noted["newest"], "links" in second.noted) == ("1", False)
    await second.clear()
    assert await checkpoint(empty, clock).start() == frozenset()


async def test_old_notes_and_those_of_other_options_are_dropped(empty: House) -> None:
    clock = ManualClock(BEGUN)
    for mark, later in (("b", 0), ("a", 60), ("a", -120)):
        await checkpoint(empty, clock).add("C1")
        clock.advance(later)
        left = checkpoint(empty, clock, mark)
        assert await left.start() == frozenset()
        await left.add("C2")
        assert await checkpoint(empty, clock, mark).start() == {"C2"}
        await left.clear()


async def test_without_a_bound_notes_are_believed_at_any_time(empty: House) -> None:
    clock = ManualClock(BEGUN)
    for columns in ({}, {"at": BEGUN - 10**6}, {"at": BEGUN + 10**6}):
        await empty.tables.configuration.put("sync it", {"done": frozenset(("C1",)), **columns})
        assert await checkpoint(empty, clock, "", None).start() == {"C1"}
