"""Spans of days that Slack's own analytics are stored of."""

from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.tables.configuration import Configuration
from channelstats.tables.slack_analytics import COUNTS, DateSpan, Subject, tiling
from support.channelstats.house import house

FIRST = date(2024, 3, 1)


def days(first: int, last: int) -> DateSpan:
    return DateSpan(FIRST + timedelta(first), FIRST + timedelta(last))


SPANS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=12)


def shortest(spans: list[DateSpan], at: date, last: date) -> int | None:
    """How few spans lead from a day to the last one, tried one by one."""
    if at > last:
        return 0
    found = [
        rest + 1
        for span in spans
        if span.first == at and span.last <= last
        if (rest := shortest(spans, span.last + timedelta(1), last)) is not None
    ]
    return min(found, default=None)


@given(SPANS)
def test_a_period_is_made_up_of_the_fewest_spans_without_gap_and_overlap(
    made: list[tuple[int, int]],
) -> None:
    spans = [days(first, first + length) for first, length in made]
    whole = days(2, 8)
    found = tiling(spans, whole)
    fewest = shortest(list(set(spans)), whole.first, whole.last)
    assert len(found) == (fewest or 0)
    if found:
        covered = [
            span.first + timedelta(day)
            for span in found
            for day in range((span.last - span.first).days + 1)
        ]
        assert covered == [whole.first + timedelta(day) for day in range(7)]


async def test_counts_come_back_as_they_were_stored_and_unknown_ones_as_none(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as opened:
        analytics = opened.tables.slack_analytics
        one, other = days(0, 0), days(1, 1)
        await analytics.put(Subject.CHANNELS, one, {"C2": (3, None), "C1": (0, 0)})
        await analytics.put(Subject.CHANNELS, other, {})
        assert await analytics.spans(Subject.CHANNELS) == [one, other]
        assert await analytics.spans(Subject.MEMBERS) == []
        first, second = await analytics.read(Subject.CHANNELS, [one, other])
        assert first.columns == ["id", *COUNTS[Subject.CHANNELS]]
        assert first.rows() == [("C1", 0, 0), ("C2", 3, None)]
        assert second.schema == first.schema
        assert second.is_empty()


async def test_a_text_of_many_members_is_stored_in_pieces(tmp_path: Path) -> None:
    counts = {f"U{number:09}": (1, number, number) for number in range(30_000)}
    async with house(tmp_path) as opened:
        analytics = opened.tables.slack_analytics
        assert await analytics.put(Subject.MEMBERS, days(0, 6), counts)
        assert not await analytics.put(Subject.MEMBERS, days(0, 6), counts)
        [found] = await analytics.read(Subject.MEMBERS, [days(0, 6)])
        assert found["messages"].sum() == sum(range(30_000))


async def test_who_is_removed_is_removed_from_what_a_killed_run_has_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*_: object) -> None:
        raise KeyboardInterrupt

    others, everybody = {"U1": (1, 2, 3)}, {"U1": (1, 2, 3), "U2": (4, 5, 6)}
    async with house(tmp_path) as opened:
        analytics = opened.tables.slack_analytics
        await analytics.put(Subject.MEMBERS, days(0, 6), others)
        with monkeypatch.context() as patched:  # after the text is stored
            patched.setattr(Configuration, "update", killed)
            with pytest.raises(KeyboardInterrupt):
                await analytics.put(Subject.MEMBERS, days(0, 6), everybody)
        await analytics.remove_member("U2")
        [found] = await analytics.read(Subject.MEMBERS, [days(0, 6)])
        assert found["id"].to_list() == ["U1"]
