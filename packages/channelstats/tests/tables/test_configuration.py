"""Counts and their history, names of channels."""

from datetime import date

import pytest

from channelstats.tables.configuration import Counts, counts_at
from channelstats.tables.directory import Channel
from support.channelstats.house import House


@pytest.mark.parametrize(
    ("day", "expected"), [(1, 10), (5, 10), (6, 10), (9, 10), (10, 20), (11, 20), (28, 20)]
)
def test_a_day_has_the_latest_counts_up_to_it_else_the_earliest(day: int, expected: int) -> None:
    history = {date(2024, 2, 5): Counts(10), date(2024, 2, 10): Counts(20)}
    assert counts_at(history, date(2024, 2, day)).active_users == expected


def test_without_any_counts_there_are_zeros() -> None:
    assert counts_at({}, date(2024, 1, 1)) == Counts(0, 0, 0)


async def test_the_history_of_counts_grows_by_days(empty: House) -> None:
    configuration = empty.tables.configuration
    await configuration.add_to_history(date(2024, 1, 1), Counts(1, 2, 1))
    await configuration.add_to_history(date(2024, 1, 8), Counts(3, 4, 2))
    await configuration.add_to_history(date(2024, 1, 8), Counts(5, 6, 2))
    assert await configuration.history() == {
        date(2024, 1, 1): Counts(1, 2, 1),
        date(2024, 1, 8): Counts(5, 6, 2),
    }


async def test_names_of_archived_channels_are_not_among_the_active(empty: House) -> None:
    configuration = empty.tables.configuration
    await configuration.put_names(
        [Channel("C2", "b", is_archived=True), Channel("C1", "a"), Channel("D1")]
    )
    assert (await configuration.get("channel_names"))["names"] == "a#b"
    assert (await configuration.get("active_channel_names"))["names"] == "a"


async def test_names_that_no_row_can_hold_are_not_stored(empty: House) -> None:
    configuration = empty.tables.configuration
    every = [Channel(f"C{n}", f"{n:079d}", is_archived=n > 9) for n in range(5_000)]
    await configuration.put_names(every[:9])
    await configuration.put_names(every)
    assert "names" not in await configuration.get("channel_names")
    assert str((await configuration.get("active_channel_names"))["names"]).count("#") == 9
