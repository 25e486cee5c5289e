"""A connection that stands for months is noted anew, or its user would look like one that left."""

from datetime import UTC, datetime

from support.connection_house import House, UserAgent


def at(month: int, day: int) -> float:
    return datetime(2027, month, day, 12, tzinfo=UTC).timestamp()


async def connected_in_september() -> tuple[House, UserAgent]:
    house = await House.open()
    house.clock.now = at(9, 10)
    await house.store.rotate()
    return house, await house.subscribed()


async def seen(house: House, agent: UserAgent) -> str:
    return str((await house.record(agent.uaid)).last_connect)[:6]


async def a_day_in(house: House, month: int, day: int) -> None:
    house.clock.now = at(month, day)
    await house.store.rotate()
    await house.pass_time(3600)


async def test_before_a_connection_is_two_months_old_its_user_is_noted_as_seen() -> None:
    house, agent = await connected_in_september()
    await a_day_in(house, 10, 30)
    assert await seen(house, agent) == "202709"
    await a_day_in(house, 10, 31)
    assert await seen(house, agent) == "202710"
    await a_day_in(house, 11, 30)
    assert await seen(house, agent) == "202711"


async def test_a_user_that_has_left_is_not_noted() -> None:
    house, agent = await connected_in_september()
    uaid = agent.uaid
    house.clock.now = at(10, 31)
    await house.store.rotate()
    agent.leave()
    await house.pass_time(3600)
    assert str((await house.record(uaid)).last_connect)[:6] == "202709"


async def test_a_connection_that_is_on_record_no_more_changes_nothing() -> None:
    house, agent = await connected_in_september()
    item = house.engine.tables["router"].items[(agent.uaid,)]
    item["node_id"] = "http://elsewhere:8081"
    await a_day_in(house, 10, 31)
    assert await seen(house, agent) == "202709"


async def test_nothing_is_written_for_a_connection_of_this_month_or_the_last() -> None:
    house, agent = await connected_in_september()
    house.engine.calls.clear()
    await a_day_in(house, 9, 30)
    assert "update router" not in house.engine.calls
    assert await seen(house, agent) == "202709"


async def test_one_without_subscriptions_which_is_in_no_table_stays_out_of_them() -> None:
    house = await House.open()
    house.clock.now = at(9, 10)
    await house.store.rotate()
    await house.greeted()
    await a_day_in(house, 10, 31)
    assert house.users() == []
