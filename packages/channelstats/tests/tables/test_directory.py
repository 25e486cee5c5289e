"""Users and channels: two rows for a channel, and what a replaced row keeps."""

import pytest

from channelstats.tables.directory import Channel, FirstPost, User
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


# ── Many IDs in few rows ─────────────────────────────────────────────────────────────────────────


async def test_an_id_is_known_as_a_whole_token_only(empty: House) -> None:
    hashes = empty.tables.user_hash
    await hashes.add(["U1233"])
    assert await hashes.known(["U1233", "U123", "U33", "3"]) == {"U1233"}


async def test_the_first_id_under_a_key_is_stored_and_none_is_lost(empty: House) -> None:
    hashes = empty.tables.user_hash
    await hashes.add(["UAX"])
    await hashes.add(["UBX", "UAX", "UCY"])
    rows = await empty.items("UserHash")
    assert {key: item["uids"] for key, item in rows.items()} == {"X": "UAX UBX", "Y": "UCY"}


# ── Samples of members ───────────────────────────────────────────────────────────────────────────


async def test_each_sample_is_a_column(empty: House) -> None:
    log = empty.tables.members_log
    await log.add(1710028000, {"CGEN": 3})
    await log.add(1709423000, {"CGEN": 2, "CDEV": 1})
    assert (await empty.items("ChannelMembersLog"))["CGEN"] == {
        "slack_cid": "CGEN",
        "ts_1709423000": 2,
        "ts_1710028000": 3,
    }
    assert await log.samples("CGEN") == [(1709423000, 2), (1710028000, 3)]
    assert await log.samples("CNONE") == []


# ── Watermarks rise ──────────────────────────────────────────────────────────────────────────────


async def test_a_watermark_only_rises(empty: House) -> None:
    watermarks = empty.tables.watermarks
    assert await watermarks.get("C1") == 0
    for seconds in (5, 9, 7):
        await watermarks.raise_to("C1", seconds)
    assert await watermarks.get("C1") == 9


@pytest.mark.parametrize("older", ["1710237600.000200", 1710237600, 1710237600.5])
async def test_watermarks_of_the_past_are_read(empty: House, older: str | float) -> None:
    await (await empty.table("ChannelConfiguration")).put(
        {"slack_cid": "C1", "last_message_ts": older}
    )
    watermarks = empty.tables.watermarks
    assert await watermarks.get("C1") == 1710237600
    await watermarks.raise_to("C1", 1710237599)
    assert await watermarks.get("C1") == 1710237600
    await watermarks.raise_to("C1", 1710237601)
    assert await watermarks.get("C1") == 1710237601


async def test_stray_first_posts_are_left_out(empty: House) -> None:
    handle = await empty.table("FirstPost")
    await handle.put({"slack_uid": "C1", "slack_cid": "C1", "ts": 0})
    await handle.put(
        {"slack_uid": "U2", "slack_cid": "C1", "ts": 0, "message_id": "1700000000.000000"}
    )
    post = FirstPost("1700000000.000000", "C1")
    await empty.tables.first_posts.put([("U1", post)])
    assert await empty.tables.first_posts.all() == {"U1": post}
