"""Users and channels: two rows for a channel, and what a replaced row keeps."""

from channelstats.tables.directory import Channel, User
from support.channelstats.house import House


async def test_a_replaced_user_keeps_the_time_of_insertion(empty: House) -> None:
    users = empty.tables.users
    await users.put([User("U1", user_name="old", insert_timestamp=5)])
    await users.put([User("U1", user_name="new"), User("U2")])
    found = await users.all()
    assert found["U1"] == User("U1", user_name="new", insert_timestamp=5)
    assert found["U2"].insert_timestamp is None


async def test_adding_a_user_changes_nobody(empty: House) -> None:
    users = empty.tables.users
    await users.put([User("U1", user_name="known")])
    await users.add([User("U1", user_name="guessed"), User("U2", user_name="guessed")])
    assert {uid: user.user_name for uid, user in (await users.all()).items()} == {
        "U1": "known",
        "U2": "guessed",
    }


def test_the_name_shown_is_the_first_that_is_not_empty() -> None:
    assert User("U1", "name", "Real", "display").name == "display"
    assert User("U1", "name", "Real").name == "Real"
    assert User("U1", "name").name == "name"
    assert User("U1").name == "U1"


async def test_the_earliest_account_date_stays(empty: House) -> None:
    created = empty.tables.users_created
    await created.add([("U1", 50), ("U1", 40), ("U2", 9)])
    await created.add([("U1", 60), ("U2", 3)])
    assert await created.all() == {"U1": 40, "U2": 3}


async def test_channels_are_counted_once(empty: House) -> None:
    channels = empty.tables.channels
    await channels.put([Channel("C1", "one", 3), Channel("D1")])
    assert await channels.all() == {"C1": Channel("C1", "one", 3), "D1": Channel("D1")}
    assert sorted(await empty.items("Channel")) == ["C1", "D1", "one"]
    assert await channels.named("one") == Channel("C1", "one", 3)
    assert await channels.named("two") is None


async def test_an_alias_never_takes_the_name_of_a_channel_of_today(empty: House) -> None:
    channels = empty.tables.channels
    one, two = Channel("C1", "one"), Channel("C2", "two")
    await channels.put([one, two])
    await channels.put_alias("two", one)
    await channels.put_alias("older", one)
    assert await channels.named("two") == two
    assert await channels.named("older") == one


async def test_a_name_that_looks_like_an_id_takes_nobodys_row(empty: House) -> None:
    channels = empty.tables.channels
    await channels.put([Channel("C1", "one"), Channel("C2", "C1")])
    assert await channels.named("C1") == Channel("C1", "one")
