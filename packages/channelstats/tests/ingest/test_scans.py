"""How recent stored rows are that were seen unchanged, and what that spares."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.ingest.merging import NO_SCANS, Scan, ScanLog, merge_messages
from channelstats.ingest.runs import SyncOptions, SyncResult
from channelstats.tables.message_row import MessageRow
from support.channelstats.house import House, house
from support.channelstats.slack_house import Slack
from support.channelstats.small_workspace import A, B, at, said, ts, workspace
from support.channelstats.workspace import Raw, write_zip


def row(number: int, at: int = 0, thread: int = 0, **fields: Any) -> MessageRow:
    head = stamp(thread) if thread else ""
    return MessageRow("C1", stamp(number), "UA", thread_ts=head, fetched_at=at, **fields)


def stamp(number: int) -> str:
    return f"17000{number:05d}.000000"


def stored(*rows: MessageRow) -> dict[str, MessageRow]:
    return {one.ts: one for one in rows}


# ── scans ────────────────────────────────────────────────────────────────────────────────────────


def test_a_scan_covers_what_was_seen_in_its_span_and_its_threads() -> None:
    there = stored(*map(row, range(1, 9)))
    seen = {stamp(number) for number in (3, 5, 6)}
    scan = Scan.of_run(
        seen, there, at=9, since=stamp(3), until=stamp(6), threads=[stamp(1), stamp(5)]
    )
    assert [n for n in range(1, 9) if scan.covers(row(n))] == [3, 5, 6]
    assert scan.covers(row(8, thread=1))
    assert scan.covers(row(1, thread=1))


def test_what_is_seen_is_as_recent_as_the_latest_scan_else_as_its_row() -> None:
    scans = [Scan(5, stamp(1), stamp(9)), Scan(8, stamp(4), stamp(9))]
    for order in itertools.permutations(scans):
        seen = NO_SCANS
        for scan in order:
            seen = seen.with_scan(scan)
        assert [seen.recency(row(n, at=3)) for n in (0, 1, 4, 10)] == [3, 5, 8, 3]
    assert seen.recency(row(4, at=10)) == 10
    assert seen.recency(row(4, at=3, deleted=True)) == 3


def test_a_scan_that_says_all_of_another_takes_its_place() -> None:
    seen = NO_SCANS
    for at_ in range(1, 30):
        seen = seen.with_scan(Scan(at_, stamp(1), stamp(at_)))
    assert seen.scans == (Scan(29, stamp(1), stamp(29)),)


def test_few_scans_are_kept_the_first_and_the_last_among_them() -> None:
    seen = NO_SCANS
    for at_ in range(1, 100):
        seen = seen.with_scan(Scan(at_, stamp(at_), stamp(at_ + 7)))
    assert len(seen.scans) == 8
    times = [scan.at for scan in seen.scans]
    assert (times[0], times[-1]) == (1, 99)


def test_where_too_much_was_missed_the_span_is_shorter() -> None:
    there = stored(*(row(number) for number in range(1000)))
    scan = Scan.of_run({stamp(999)}, there, at=1, since=stamp(0), until=stamp(999))
    assert len(scan.unseen) == 200
    assert [n for n in range(1000) if scan.covers(row(n))] == [999]


async def test_scans_are_stored_as_they_are(empty: House) -> None:
    configuration = empty.tables.configuration
    assert await ScanLog.load(configuration, "C1") == NO_SCANS
    scan = Scan(5, stamp(1), stamp(9), frozenset({stamp(2)}), frozenset({stamp(0)}))
    seen = ScanLog((scan, Scan(6, stamp(4), stamp(9))))
    await seen.save(configuration, "C1")
    assert await ScanLog.load(configuration, "C1") == seen
    assert await ScanLog.load(configuration, "C2") == NO_SCANS


# ── what is merged by them ──────────────────────────────────────────────────────────────────────

versions = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2)), max_size=6)


@given(versions)
def test_the_state_read_last_stays_whatever_came_in_which_order(
    came: list[tuple[int, int]],
) -> None:
    """Several sources of one message, each as recent as it says; what it was when it was read."""
    state = dict(came)  # one state for each time
    there: dict[str, MessageRow] = {}
    seen = NO_SCANS
    for when, _ in came:
        now = [row(1, when, word_count=state[when])]
        changes = merge_messages(there, now, seen)
        assert all(before is None or new.word_count != before.word_count for new, before in changes)
        there |= {new.ts: new for new, _ in changes}
        seen = seen.with_scan(
            Scan.of_run({stamp(1)}, there, at=when, since=stamp(1), until=stamp(1))
        )
    for found in there.values():
        assert found.word_count == state[max(state)]


def test_a_row_is_not_written_for_its_time_and_source_alone() -> None:
    there = stored(row(1, 3, source="export"))
    assert merge_messages(there, [row(1, 9, source="api")]) == []
    [(new, before)] = merge_messages(there, [row(1, 9, word_count=2)])
    assert (new.fetched_at, before) == (9, there[stamp(1)])


# ── runs ─────────────────────────────────────────────────────────────────────────────────────────


async def synced(slack: Slack, into: House, day: float, *messages: Raw) -> SyncResult:
    slack.serve(workspace(one=list(messages)))
    return await slack.sync(into, now=at(day), options=SyncOptions(thread_max_age=30))


async def exported(into: House, path: Path, *messages: Raw) -> None:
    await into.take_in(write_zip(workspace(one=list(messages)).files(), path), now=at(60))


THREAD = [
    said(5),
    said(6, B, thread=5),
    said(7),
    said(9.5, B, thread=5),
    said(9.6, None, bot_id="BHOOK"),
]


async def test_a_run_over_an_unchanged_workspace_writes_no_message_and_opens_no_day(
    slack: Slack, empty: House
) -> None:
    await synced(slack, empty, 10, *THREAD)
    messages = await empty.items("Message")
    marks = {
        key: value
        for key, value in (await empty.items("Configuration")).items()
        if key.startswith("days")
    }
    assert marks
    for day in (10.5, 11, 14, 17):
        again = await synced(slack, empty, day, *THREAD)
        assert (again.changed, again.edited, again.deleted) == (0, 0, 0)
        assert await empty.items("Message") == messages
        assert marks.items() <= (await empty.items("Configuration")).items()


async def test_one_change_is_one_row_and_one_day(slack: Slack, empty: House) -> None:
    await synced(slack, empty, 10, *THREAD)
    before = await empty.tables.messages.versions.all()
    changed = [*THREAD[:2], said(7, text="a b c"), *THREAD[3:]]
    assert (await synced(slack, empty, 11, *changed)).changed == 1
    after = await empty.tables.messages.versions.all()
    assert [day for day in before if after[day] != before[day]] == ["2023-11-21"]


@pytest.mark.parametrize("thread", [None, 5])
async def test_an_export_does_not_take_back_what_was_seen_after_it(
    slack: Slack, empty: House, tmp_path: Path, thread: int | None
) -> None:
    """A reaction that came and went: the export has it, the runs before and after it have not."""
    fields: dict[str, Any] = {} if thread is None else {"thread": thread}
    other = [said(5), said(6, B, thread=5)]
    plain = said(9, **fields)
    liked = said(9, reactions=[{"name": "a", "users": [B], "count": 1}], **fields)
    for day in (10, 12, 12.5):
        await synced(slack, empty, day, *other, plain)
    before = await empty.items("Message")
    await exported(empty, tmp_path / "x.zip", *other, liked, said(11))
    after = await empty.items("Message")
    assert after.pop(f"CONE_{ts(11)}")
    assert after == before
    await exported(empty, tmp_path / "y.zip", *other, liked, said(13))
    assert (await empty.items("Message"))[f"CONE_{ts(9)}"]["reaction_count"] == 1


async def test_an_export_says_more_of_what_no_run_has_seen_since(
    slack: Slack, empty: House, tmp_path: Path
) -> None:
    """Weeks later, a run does not look at the message any more."""
    await synced(slack, empty, 10, said(9))
    liked = said(9, reactions=[{"name": "a", "users": [B], "count": 1}])
    await synced(slack, empty, 40, liked, said(39))
    await exported(empty, tmp_path / "x.zip", liked, said(38))
    found = await empty.items("Message")
    assert found[f"CONE_{ts(9)}"]["reaction_count"] == 1
    assert found[f"CONE_{ts(39)}"]["slack_uid"] == A


async def test_an_older_export_does_not_take_back_what_a_later_one_confirmed(
    tmp_path: Path,
) -> None:
    plain = said(1)
    liked = said(1, reactions=[{"name": "a", "users": [B], "count": 1}])
    exports = {5: plain, 7: liked, 9: plain}
    for number, order in enumerate(itertools.permutations(exports)):
        async with house(tmp_path / str(number)) as opened:
            for day in order:
                path = tmp_path / f"{number}-{day}.zip"
                await exported(opened, path, exports[day], said(day))
            found = await opened.items("Message")
            assert found[f"CONE_{ts(1)}"]["reaction_count"] == 0
