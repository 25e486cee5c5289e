"""Watermarks rise."""

import pytest

from support.channelstats.house import House


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
