"""Messages from the Web API, run after run: what comes late, is edited, or goes away."""

from typing import Any

from channelstats.ingest.runs import Event, StepProgress, SyncOptions, SyncResult
from channelstats.ingest.sync import Part
from channelstats.tables.directory import FirstPost
from channelstats.tables.message_row import MessageRow
from support.channelstats.fake_slack import Fault
from support.channelstats.house import House
from support.channelstats.slack_house import Slack
from support.channelstats.small_workspace import A, B, C, at, said, ts, workspace
from support.channelstats.workspace import Raw

USUAL = SyncOptions()


async def stored(of: House, cid: str = "CONE") -> dict[str, MessageRow]:
    return await of.tables.messages.of_channel(cid, "0")


async def run(slack: Slack, into: House, day: float, *messages: Raw, **options: Any) -> SyncResult:
    """Serve a channel with these messages, and take it in on that day."""
    slack.serve(workspace(one=list(messages)), **options)
    finished = await slack.sync(into, now=at(day), options=USUAL)
    assert finished.ok
    return finished


# ── what is read ─────────────────────────────────────────────────────────────────────────────────


async def test_a_first_run_reads_as_far_back_as_max_age(slack: Slack, empty: House) -> None:
    await run(slack, empty, 30, said(1), said(10), said(29))
    assert sorted(await stored(empty)) == [ts(10), ts(29)]


async def test_a_later_run_begins_before_the_newest_message_known(
    slack: Slack, empty: House
) -> None:
    await run(slack, empty, 30, said(29))
    slack.serve(workspace(one=[]))
    await slack.sync(empty, now=at(31), options=SyncOptions(thread_max_age=0))
    [asked] = slack.calls("conversations.history")
    assert asked["oldest"] == f"{int(at(22)):010d}.000000"
    assert asked["inclusive"] == "1"


async def test_the_watermark_is_the_newest_message_outside_threads(
    slack: Slack, empty: House
) -> None:
    await run(slack, empty, 10, said(5), said(6), said(9, B, thread=5))
    assert await empty.tables.watermarks.get("CONE") == int(at(6))


# ── threads ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_reply_to_a_head_older_than_the_window_comes_in(slack: Slack, empty: House) -> None:
    await run(slack, empty, 2, said(1), said(1.5, B, thread=1))
    await run(slack, empty, 40, said(1), said(1.5, B, thread=1), said(39, C, thread=1), said(39.5))
    rows = await stored(empty)
    assert rows[ts(39)].parent_user_id == A
    assert rows[ts(1)].replies == f"{B}:{ts(1.5)},{C}:{ts(39)}"
    assert rows[ts(1)].reply_count == 2


async def test_the_first_reply_to_an_old_message_makes_it_a_head(
    slack: Slack, empty: House
) -> None:
    await run(slack, empty, 2, said(1))
    await run(slack, empty, 40, said(1), said(39, B, thread=1), said(38))
    rows = await stored(empty)
    assert rows[ts(1)].is_threadhead
    assert rows[ts(39)].parent_user_id == A


async def test_heads_older_than_thread_max_age_are_looked_after_no_more(
    slack: Slack, empty: House
) -> None:
    await run(slack, empty, 2, said(1))
    await run(slack, empty, 92, said(1), said(91.5, B, thread=1))
    assert sorted(await stored(empty)) == [ts(1)]


async def test_of_a_thread_that_is_not_stored_recent_replies_come_in(
    slack: Slack, empty: House
) -> None:
    thread = [said(8), said(9, B, thread=8), said(58, B, thread=8), said(59, C, thread=8)]
    for day in (60, 61):
        finished = await run(slack, empty, day, *thread, said(7), said(57))
        rows = await stored(empty)
        assert sorted(rows) == [ts(57), ts(58), ts(59)]
        assert (rows[ts(58)].parent_user_id, finished.deleted) == (A, 0)
    await run(slack, empty, 85, *thread, said(7), said(84))
    assert slack.calls("conversations.replies") == []
    await run(slack, empty, 86, *thread, said(85, B, thread=8), said(7), said(84))
    assert len(slack.calls("conversations.replies")) == 1
    assert not any(row.deleted for row in (await stored(empty)).values())


async def test_recent_replies_to_a_tombstone_that_is_not_stored_come_in(
    slack: Slack, empty: House
) -> None:
    of = workspace(one=[said(8, "USLACKBOT", subtype="tombstone"), said(59, B, thread=8)])
    of.messages["CONE"][0] |= {"reply_count": 0, "latest_reply": "0000000000.000000"}
    slack.serve(of)
    await slack.sync(empty, now=at(60), options=USUAL)
    rows = await stored(empty)
    assert sorted(rows) == [ts(59)]
    assert rows[ts(59)].is_reply


async def test_a_broadcast_finds_its_head_however_old(slack: Slack, empty: House) -> None:
    await run(slack, empty, 2, said(1))
    late = said(119, B, thread=1, subtype="thread_broadcast")
    await run(slack, empty, 120, said(1), late)
    assert (await stored(empty))[ts(1)].replies == f"{B}:{ts(119)}"


async def test_an_old_thread_without_news_is_not_read_again(slack: Slack, empty: House) -> None:
    thread = [said(1), said(1.5, B, thread=1)]
    await run(slack, empty, 2, *thread)
    await run(slack, empty, 40, *thread, said(39))
    assert slack.calls("conversations.replies") == []


async def test_what_happens_to_a_recent_reply_to_an_old_head_is_noticed(
    slack: Slack, empty: House
) -> None:
    await run(slack, empty, 2, said(1), said(39))
    late = said(39, B, thread=1)
    await run(slack, empty, 40, said(1), late, said(38))
    reacted = {**late, "reactions": [{"name": "tada", "users": [A], "count": 1}]}
    await run(slack, empty, 41, said(1), reacted, said(38))
    assert (await stored(empty))[ts(39)].reactions == f"tada:{A}"


async def test_a_broadcast_is_one_row_with_the_fields_of_a_reply(
    slack: Slack, empty: House
) -> None:
    broadcast = said(3, B, thread=1, subtype="thread_broadcast")
    finished = await run(slack, empty, 4, said(1), said(2, C, thread=1), broadcast)
    assert finished.messages == 3
    row = (await stored(empty))[ts(3)]
    assert (row.thread_ts, row.parent_user_id, row.subtype) == (ts(1), A, "thread_broadcast")
    assert await empty.tables.watermarks.get("CONE") == int(at(1))


# ── edits and reactions ──────────────────────────────────────────────────────────────────────────


async def test_an_edit_is_noticed(slack: Slack, empty: House) -> None:
    await run(slack, empty, 2, said(1))
    edited = said(1, text="a b c", edited={"user": A, "ts": ts(1.5)})
    finished = await run(slack, empty, 3, edited)
    assert (finished.changed, finished.edited) == (1, 1)
    row = (await stored(empty))[ts(1)]
    assert (row.word_count, row.edited_ts) == (3, ts(1.5))


async def test_a_reaction_taken_back_is_gone(slack: Slack, empty: House) -> None:
    await run(slack, empty, 2, said(1, reactions=[{"name": "a", "users": [B], "count": 1}]))
    finished = await run(slack, empty, 3, said(1))
    assert (finished.changed, finished.edited) == (1, 0)
    assert (await stored(empty))[ts(1)].reaction_count == 0


# ── deletions ────────────────────────────────────────────────────────────────────────────────────


async def test_a_message_that_vanishes_from_the_window_is_deleted(
    slack: Slack, empty: House
) -> None:
    await run(slack, empty, 10, said(8, B), said(9, B))
    finished = await run(slack, empty, 11, said(9, B))
    assert finished.deleted == 1
    rows = await stored(empty)
    assert (rows[ts(8)].deleted, rows[ts(9)].deleted) == (True, False)
    assert (await empty.tables.first_posts.all())[B] == FirstPost(ts(9), "CONE")
    assert (await run(slack, empty, 12, said(9, B))).deleted == 0


async def test_what_vanishes_outside_the_window_stays(slack: Slack, empty: House) -> None:
    await run(slack, empty, 2, said(1))
    await run(slack, empty, 40, said(39))
    assert not (await stored(empty))[ts(1)].deleted


async def test_a_reply_that_vanishes_is_deleted_and_its_head_forgets_it(
    slack: Slack, empty: House
) -> None:
    await run(slack, empty, 5, said(1), said(2, B, thread=1), said(3, C, thread=1))
    finished = await run(slack, empty, 6, said(1), said(3, C, thread=1))
    assert finished.deleted == 1
    rows = await stored(empty)
    assert rows[ts(2)].deleted
    assert (rows[ts(1)].replies, rows[ts(1)].reply_count) == (f"{C}:{ts(3)}", 1)


async def test_a_reply_to_an_old_head_that_vanishes_is_deleted(slack: Slack, empty: House) -> None:
    await run(slack, empty, 5, said(1), said(2, B, thread=1))
    await run(slack, empty, 40, said(1), said(39))
    assert (await stored(empty))[ts(2)].deleted


async def test_a_head_that_vanishes_takes_its_replies_along(slack: Slack, empty: House) -> None:
    await run(slack, empty, 5, said(1), said(2, B, thread=1), said(3))
    finished = await run(slack, empty, 6, said(3))
    assert finished.deleted == 2
    assert {row.ts for row in (await stored(empty)).values() if row.deleted} == {ts(1), ts(2)}


async def test_a_head_that_became_a_tombstone_keeps_its_replies(slack: Slack, empty: House) -> None:
    await run(slack, empty, 5, said(1), said(2, B, thread=1))
    slack.serve(workspace(one=[said(1, "USLACKBOT", subtype="tombstone"), said(2, B, thread=1)]))
    await slack.sync(empty, now=at(6), options=USUAL)
    rows = await stored(empty)
    assert not rows[ts(2)].deleted
    assert (rows[ts(2)].is_reply, rows[ts(2)].parent_user_id) == (True, "")


async def test_a_deleted_message_that_is_there_again_is_not_deleted(
    slack: Slack, empty: House
) -> None:
    for day, messages in ((5, [said(1), said(2)]), (6, [said(2)]), (7, [said(1), said(2)])):
        await run(slack, empty, day, *messages)
    assert not (await stored(empty))[ts(1)].deleted


async def test_what_the_workspaces_plan_hides_is_not_deleted(slack: Slack, empty: House) -> None:
    await run(slack, empty, 5, said(1), said(2), said(3))
    await run(slack, empty, 6, said(3), limited=True)
    await run(slack, empty, 7, limited=True)
    assert not any(row.deleted for row in (await stored(empty)).values())


async def test_where_an_answer_is_broken_nothing_counts_as_deleted(
    slack: Slack, empty: House
) -> None:
    await run(slack, empty, 5, said(1), said(2, B, thread=1), said(3))
    for broken in (2, 3):
        reply = said(2, B, thread=1, text=[7] if broken == 2 else "a b")
        other = said(3, text=[7] if broken == 3 else "a b")
        finished = await run(slack, empty, 6, said(1), reply, other)
        assert (finished.deleted, finished.problems) == (0, 1)


async def test_a_thread_that_is_not_found_is_empty(slack: Slack, empty: House) -> None:
    """It may be gone, or hidden; nothing is known of its replies."""
    await run(slack, empty, 5, said(1), said(2, B, thread=1))
    gone = Fault("error", "thread_not_found", method="conversations.replies")
    slack.serve(workspace(one=[said(1), said(2, B, thread=1)]), gone)
    finished = await slack.sync(empty, now=at(6), options=USUAL)
    assert (finished.ok, finished.deleted) == (True, 0)


# ── what is told ─────────────────────────────────────────────────────────────────────────────────


async def test_no_text_reaches_a_table_or_an_event(slack: Slack, empty: House) -> None:
    secret = "swordfish"
    slack.serve(workspace(one=[said(1, text=secret, blocks=[{"text": secret}]), said(2, text=[7])]))
    events: list[Event] = []
    finished = await slack.sync(empty, now=at(5), options=USUAL, on_event=events.append)
    assert secret not in repr(await empty.everything())
    assert secret not in repr((events, finished))
    assert (finished.ok, finished.problems, finished.messages) == (True, 1, 1)


async def test_progress_is_reported_channel_by_channel(slack: Slack, empty: House) -> None:
    slack.serve(workspace(one=[said(1), said(2, B, thread=1)], two=[said(3)]))
    events: list[Event] = []
    options, parts = SyncOptions(concurrency=1), frozenset({Part.MESSAGES})
    result = await slack.sync(
        empty, now=at(5), options=options, parts=parts, on_event=events.append
    )
    assert events == [
        StepProgress("messages", 0, 2),
        StepProgress("messages", 1, 2, "one", messages=2),
        StepProgress("messages", 2, 2, "two", messages=3),
    ]
    assert result == SyncResult(channels=2, messages=3, changed=3)
