"""Equals are in the order of their IDs wherever something is ranked, however they came in."""

import random
from datetime import date
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channelstats.counting import Counting
from channelstats.facts import Inputs, Options, Period
from channelstats.metrics.volume import authors_of_half, half, median
from channelstats.pages.document import report
from channelstats.tables.columns import MESSAGES
from channelstats.tables.directory import User
from support.channelstats.house import UTC, decoded
from support.soak import times

PERIOD = Period(date(2024, 3, 3), 7, UTC)
BEGIN = PERIOD.begin * 1_000_000
TZ = ("Asia/Tokyo", "Africa/Cairo", "Europe/Berlin")

TWICE = [{"emoji": emoji, "reactor": uid} for emoji in "ba" for uid in ("UA", "UB")]
ONCE = [{"emoji": "a", "reactor": "UB"}]

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.integers(0, 5).map(lambda minute: BEGIN + minute * 60_000_000),
            "slack_cid": st.sampled_from(["C2", "C1", "C3"]),
            "slack_uid": st.sampled_from(["UC", "UA", "UB"]),
            "word_count": st.integers(0, 2),
            "reaction_count": st.integers(0, 2),
            "reactions": st.sampled_from([None, TWICE, ONCE]),
            "mentions": st.sampled_from([None, ["UB", "UA"], ["UC"]]),
        }
    ),
    unique_by=lambda row: (row["ts"], row["slack_cid"]),
    max_size=14,
)


def frame_of(rows: list[dict[str, Any]]) -> pl.DataFrame:
    blank = dict.fromkeys(MESSAGES.names()) | {"deleted": False, "reply_count": 0, "fetched_at": 0}
    return pl.DataFrame([blank | row for row in rows], MESSAGES, orient="row")


def document(rows: list[dict[str, Any]]) -> Any:
    users = {
        uid: User(uid, tz=tz, tz_offset=0) for uid, tz in zip(("UA", "UB", "UC"), TZ, strict=True)
    }
    options = Options(Counting())
    return decoded(report(Inputs(frame_of(rows), users), PERIOD, options, generated_at=0))


def by_words(found: dict[str, list[int]]) -> list[str]:
    return sorted(found, key=lambda name: (-found[name][1], -found[name][0], name))


def by_number(found: dict[str, int]) -> list[str]:
    return sorted(found, key=lambda name: (-found[name], name))


@settings(max_examples=times(10, 300))
@given(ROWS)
def test_ranked_things_are_in_the_order_of_the_specification(rows: list[dict[str, Any]]) -> None:
    found = document(rows)
    for name in ("users", "channels", "timezone"):
        assert list(found[name]) == by_words(found[name]), name
    for users in found["channel_user"].values():
        assert list(users) == by_words(users)
    assert list(found["reaction"]) == by_number(found["reaction"])
    for user in found["enriched_user"].values():
        for name in ("reacted_to", "reactions_from", "mentions_combined", "reaction_popularity"):
            assert list(user[name]) == by_number(user[name]), name
    for listed in (found["reaction_count"], found["reply_count"]):
        assert listed == sorted(listed, key=lambda entry: (-entry[0], entry[1], entry[2]))


@settings(max_examples=times(10, 100))
@given(ROWS, st.randoms(use_true_random=False))
@pytest.mark.slow
def test_the_order_in_which_messages_come_does_not_matter(
    rows: list[dict[str, Any]], rng: random.Random
) -> None:
    shuffled = list(rows)
    rng.shuffle(shuffled)
    assert repr(document(shuffled)) == repr(document(rows))


def test_only_the_ten_most_reacted_are_listed_the_earliest_of_equals_first() -> None:
    rows = [
        {
            "ts": BEGIN + n,
            "slack_cid": "C1",
            "slack_uid": "UA",
            "word_count": 1,
            "reaction_count": 1,
        }
        for n in range(12)
    ]
    listed = document(rows)["reaction_count"]
    assert [entry[1] for entry in listed] == [f"1709424000.{n:06d}" for n in range(10)]


NUMBERS = st.lists(st.integers(0, 9)).map(lambda found: sorted(found, reverse=True))


@pytest.mark.parametrize(
    ("falling", "few", "authors"),
    [
        ([], 0, ""),
        ([0, 0], 0, ""),
        ([1], 1, "a"),
        ([5, 5], 1, "ab"),
        ([6, 5], 1, "a"),
        ([2, 1, 1], 1, "ab"),
        ([3, 3, 3], 2, "ab"),
        ([4, 2, 1, 1], 1, "ab"),
    ],
)
def test_half_of_all(falling: list[int], few: int, authors: str) -> None:
    assert half(falling) == few
    assert "".join(authors_of_half("abcd", falling)) == authors


@given(NUMBERS)
def test_half_is_the_least_number_of_the_largest_that_reaches_it(falling: list[int]) -> None:
    few = half(falling)
    assert 2 * sum(falling[:few]) >= sum(falling)
    assert few == 0 or 2 * sum(falling[: few - 1]) < sum(falling)
    listed = authors_of_half([str(n) for n in range(len(falling))], falling)
    exactly = bool(few) and 2 * sum(falling[:few]) == sum(falling)
    assert len(listed) == min(few + exactly, len(falling))


@given(NUMBERS)
def test_the_median_of_an_even_number_is_the_lower_middle(falling: list[int]) -> None:
    rising = falling[::-1]
    assert median(falling) == (rising[(len(rising) - 1) // 2] if rising else 0)
