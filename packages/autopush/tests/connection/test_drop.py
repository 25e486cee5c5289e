"""A user is dropped whole: never its channels without its record, never another connection's."""

import pytest

from autopush.protocol.rules import Rules
from keytables import Throttled, Unavailable
from support.connection_house import CHANNEL, OTHER, OTHER_NODE, UAID, House


@pytest.fixture
async def house() -> House:
    return await House.open(Rules(msg_limit=1))


async def too_many(house: House) -> None:
    """A known user agent is reset."""
    await house.known_user()
    for _ in range(2):
        await house.store.current.store(house.message())
    agent = house.connect()
    agent.hello(UAID)
    await house.settle()
    assert not agent.connection.is_open


async def test_a_record_that_cannot_be_dropped_yet_keeps_its_channels(house: House) -> None:
    """Killed now, it is the user it was; without channels it would be one nobody can reach."""
    house.engine.fail("delete router", Throttled("full"), Unavailable("gone"))
    await too_many(house)
    assert house.users() == [UAID]
    assert await house.store.current.channels(UAID) == {CHANNEL}
    for pause in (1, 2):
        await house.pass_time(pause)
    assert house.users() == []
    assert await house.store.current.channels(UAID) == frozenset()


async def test_channels_that_cannot_be_dropped_yet_are_dropped_later(house: House) -> None:
    house.engine.errors["delete message"] = [Throttled("full")]
    await too_many(house)
    assert house.users() == []
    await house.pass_time(1)
    assert await house.store.current.channels(UAID) == frozenset()


async def test_a_user_that_has_connected_elsewhere_meanwhile_is_left_to_that_node(
    house: House,
) -> None:
    house.engine.fail("delete router", Throttled("full"))
    await too_many(house)
    record = await house.record()
    assert await house.store.users.connect(record, OTHER_NODE, record.connected_at + 1)
    await house.store.current.add_channel(UAID, OTHER)
    await house.pass_time(1)
    assert house.users() == [UAID]
    assert await house.store.current.channels(UAID) == {CHANNEL, OTHER}


async def test_so_is_one_that_is_found_unknown_while_it_connects_elsewhere(house: House) -> None:
    await house.known_user()
    house.edit_record(current_month="message_2001_01")
    before = house.engine.tables["router"].items

    def connects() -> None:
        before[UAID,] = {**before[UAID,], "connected_at": 6, "current_month": "message"}

    house.engine.before("delete router", connects)
    agent = await house.greeted(UAID)
    assert agent.uaid != UAID
    assert house.users() == [UAID]
    assert await house.store.current.channels(UAID) == {CHANNEL}


async def test_the_record_of_a_user_behind_a_bridge_is_left_alone(house: House) -> None:
    await house.known_user()
    house.edit_record(router_type="fcm", current_month=None)
    agent = await house.greeted(UAID)
    assert agent.uaid != UAID
    assert house.users() == [UAID]
