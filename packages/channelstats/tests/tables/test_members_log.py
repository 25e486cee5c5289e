"""Samples of members."""

from support.channelstats.house import House


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
