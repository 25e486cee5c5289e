"""Old messages go, with what was made of them; what is younger stays as it was."""

from datetime import date

from channelstats.counting import Counting
from channelstats.tables.directory import FirstPost
from channelstats.tables.exclusion import remove_before
from channelstats.tables.first_posts import rebuild
from support.channelstats.house import House


async def removed(house: House, first: date) -> dict[str, int]:
    found = {day: number async for day, number in remove_before(house.tables, first)}
    await house.tables.messages.close_days()
    return found


async def kept(house: House) -> set[str]:
    """The dates of which columns are kept."""
    first, last = date(2024, 3, 1), date(2024, 3, 31)
    async for _ in house.tables.messages.of_days(first, last):
        pass
    return set(house.kept()["day"])


async def test_messages_of_dates_before_the_first_go(example: House) -> None:
    await example.tables.messages.close_days()
    before = await example.items("Message")
    assert await removed(example, date(2024, 3, 5)) == {"2024-03-03": 2, "2024-03-04": 2}
    after = await example.items("Message")
    assert after == {key: item for key, item in before.items() if str(item["date"]) >= "2024-03-05"}
    assert len(after) == 11


async def test_what_was_made_of_them_goes_too_and_that_alone(example: House) -> None:
    await example.tables.messages.close_days()
    made = await kept(example)
    assert {"2024-03-03", "2024-03-10"} <= made
    await removed(example, date(2024, 3, 10))
    left = set(example.kept()["day"])
    assert left == {day for day in made if day >= "2024-03-10"}


async def test_first_posts_and_people_stay(example: House) -> None:
    before = {name: await example.items(name) for name in ("FirstPost", "User", "Channel")}
    await removed(example, date(2024, 3, 31))
    assert await example.items("Message") == {}
    assert before == {name: await example.items(name) for name in before}


async def test_first_posts_that_are_made_anew_keep_those_of_removed_messages(
    example: House,
) -> None:
    before = await example.items("FirstPost")
    await removed(example, date(2024, 3, 10))
    wrong = FirstPost("1710369900.001300", "CDEV")  # which is stored, and Alice's
    await example.tables.first_posts.put([("UDAVE", wrong)])
    await rebuild(example.tables, Counting())
    assert await example.items("FirstPost") == before


async def test_a_second_time_there_is_nothing_left_to_remove(example: House) -> None:
    assert sum((await removed(example, date(2024, 3, 10))).values()) == 6
    days = await example.tables.messages.days()
    assert await removed(example, date(2024, 3, 10)) == {}
    assert await example.tables.messages.days() == days
