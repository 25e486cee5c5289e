"""Which channels an interrupted run has done, and how long that is believed."""

import pytest

from channelstats.ingest import runs
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


async def test_many_channels_are_noted_in_several_rows(
    empty: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_CHANNELS_OF_ROW", 2)
    clock = ManualClock(BEGUN)
    first, every = checkpoint(empty, clock), [f"C{number}" for number in range(5)]
    await first.start()
    for cid in every[:3]:
        await first.add(cid)
    second = checkpoint(empty, clock)
    assert await second.start() == set(every[:3])
    for number, cid in enumerate(every[3:]):
        await second.add(cid, {"newest": str(number)})
    last = checkpoint(empty, clock)
    assert await last.start() == set(every)
    assert last.noted["newest"] == "1"
    rows = [await empty.tables.configuration.get(f"sync it{end}") for end in ("", " 1", " 2")]
    assert [row["done"] for row in rows] == [{"C0", "C1"}, {"C2", "C3"}, {"C4"}]
    await last.clear()
    assert await checkpoint(empty, clock).start() == frozenset()
    assert await empty.tables.configuration.get("sync it 2") == {}


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
