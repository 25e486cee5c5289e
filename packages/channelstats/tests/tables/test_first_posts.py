"""First posts as they are stored."""

from channelstats.tables.directory import FirstPost
from support.channelstats.house import House


async def test_stray_first_posts_are_left_out(empty: House) -> None:
    handle = await empty.table("FirstPost")
    await handle.put({"slack_uid": "C1", "slack_cid": "C1", "ts": 0})
    await handle.put(
        {"slack_uid": "U2", "slack_cid": "C1", "ts": 0, "message_id": "1700000000.000000"}
    )
    post = FirstPost("1700000000.000000", "C1")
    await empty.tables.first_posts.put([("U1", post)])
    assert await empty.tables.first_posts.all() == {"U1": post}
