"""Rows that come are settled with rows that were stored."""

import copy
import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.ingest.merging import earliest, merge_messages
from channelstats.tables.message_row import MessageRow


def ts(number: int) -> str:
    return f"17000000{number:02d}.000000"


def row(number: int, author: str = "UA", thread: int | None = None, **fields: Any) -> MessageRow:
    made = MessageRow("C1", ts(number), author, thread_ts="" if thread is None else ts(thread))
    return msgspec.structs.replace(made, **fields)


Rows = dict[str, MessageRow]


def settled(*came: MessageRow, stored: Rows | None = None) -> Rows:
    """The rows of the channel after ``came``."""
    before = stored or {}
    return before | {row.ts: row for row, _ in merge_messages(before, came)}


def test_a_reply_has_the_heads_author_as_parent() -> None:
    found = settled(row(1), row(2, "UB", thread=1, parent_user_id="UWRONG"))
    assert found[ts(2)].parent_user_id == "UA"
    assert found[ts(1)].parent_user_id == "UA"
    assert found[ts(1)].is_threadhead


def test_without_a_head_a_reply_keeps_the_parent_it_names() -> None:
    found = settled(row(2, "UB", thread=1, parent_user_id="UA"), row(3, "UB", thread=1))
    assert found[ts(2)].parent_user_id == "UA"
    assert found[ts(3)].parent_user_id == ""


def test_replies_to_a_head_that_is_gone_are_to_nobody() -> None:
    gone = row(1, "USLACKBOT", thread=1, subtype="tombstone")
    found = settled(gone, row(2, "UB", thread=1, parent_user_id="UA"))
    assert found[ts(2)].parent_user_id == ""
    assert found[ts(2)].is_reply
    assert found[ts(1)].reply_count == 1


def test_the_replies_of_a_head_are_those_it_lists_and_those_that_name_it() -> None:
    head = row(1, thread=1, replies=f"UB:{ts(2)},UGONE:{ts(9)}", reply_count=2)
    found = settled(head, row(2, "UB", thread=1), row(3, "UC", thread=1))[ts(1)]
    assert found.replies == f"UB:{ts(2)},UC:{ts(3)},UGONE:{ts(9)}"
    assert found.reply_count == 3


def test_replies_of_bots_without_a_user_are_kept_apart() -> None:
    bot = row(2, "BHOOK", thread=1, is_bot=True)
    found = settled(row(1, thread=1), bot, row(3, "", thread=1), row(4, "UB", thread=1))[ts(1)]
    assert (found.replies, found.reply_count) == (f"UB:{ts(4)}", 1)
    assert found.bot_replies == f"BHOOK:{ts(2)}"


def test_who_answers_a_reply_names_it_and_makes_no_head_of_it() -> None:
    found = settled(row(1), row(2, "UB", thread=1), row(3, "UC", thread=2))
    assert not found[ts(2)].is_threadhead
    assert found[ts(2)].reply_count == 0
    assert found[ts(3)].parent_user_id == "UB"


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        (
            {"fetched_at": 2, "word_count": 1},
            {"fetched_at": 1, "word_count": 2, "reaction_count": 9},
        ),
        ({"reply_count": 2, "replies": f"UB:{ts(2)},UC:{ts(3)}"}, {"reaction_count": 9}),
        ({"reaction_count": 2}, {"reaction_count": 1, "edited_ts": ts(9)}),
    ],
)
def test_of_one_message_the_more_recent_row_stays(
    newer: dict[str, Any], older: dict[str, Any]
) -> None:
    new, old = row(1, thread=1, **newer), row(1, thread=1, **older)
    for first, second in itertools.permutations((new, old)):
        for found in (
            settled(copy.copy(first), copy.copy(second)),
            settled(copy.copy(second), stored=settled(copy.copy(first))),
        ):
            kept = found[ts(1)]
            assert (kept.fetched_at, kept.word_count) == (new.fetched_at, new.word_count)
            assert (kept.reaction_count, kept.edited_ts) == (new.reaction_count, new.edited_ts)


def test_where_nothing_tells_the_first_row_stays() -> None:
    first, second = row(1, word_count=1), row(1, word_count=2)
    assert settled(copy.copy(first), copy.copy(second))[ts(1)].word_count == 1
    assert merge_messages({ts(1): first}, [second]) == []


def test_a_broadcast_keeps_the_fields_of_a_reply() -> None:
    reply = row(2, "UB", thread=1, parent_user_id="UA", subtype="thread_broadcast")
    broadcast = row(2, "UB", subtype="thread_broadcast", reaction_count=1)
    for order in itertools.permutations((reply, broadcast)):
        found = settled(*map(copy.copy, order))[ts(2)]
        assert (found.thread_ts, found.parent_user_id) == (ts(1), "UA")
        assert found.reaction_count == 1


def test_a_later_import_completes_a_thread() -> None:
    first = settled(row(1), row(2, "UB"))
    before = copy.deepcopy(first)
    changes = merge_messages(first, [row(3, "UC", thread=1)])
    assert first == before  # what was stored is left as it is
    assert [changed.ts for changed, _ in changes] == [ts(1), ts(3)]
    head, replaced = changes[0]
    assert (head.reply_count, head.is_threadhead, replaced) == (1, True, before[ts(1)])
    assert changes[1][0].parent_user_id == "UA"


def test_the_lowest_time_is_of_a_message_or_of_its_thread() -> None:
    assert earliest([row(5), row(7, thread=3)]) == ts(3)
    assert earliest([]) == ""


MESSAGES = st.builds(
    row,
    st.integers(1, 8),
    st.sampled_from(["", "UA", "UB", "UC"]),
    st.none() | st.integers(1, 8),
    fetched_at=st.just(1),
    parent_user_id=st.sampled_from(["", "UA", "UX"]),
    subtype=st.sampled_from(["", "", "tombstone"]),
)


@given(st.lists(MESSAGES))
def test_what_is_settled_stays_when_it_comes_again(came: list[MessageRow]) -> None:
    stored = settled(*copy.deepcopy(came))
    assert merge_messages(stored, list(stored.values())) == []
    assert merge_messages(stored, copy.deepcopy(came)) == []


@given(st.lists(MESSAGES, unique_by=lambda row: row.ts), st.data())
def test_an_export_in_two_parts_leaves_what_the_whole_leaves(
    came: list[MessageRow], data: st.DataObject
) -> None:
    whole = settled(*copy.deepcopy(came))
    parts = data.draw(st.lists(st.booleans(), min_size=len(came), max_size=len(came)))
    first = [row for row, in_first in zip(came, parts, strict=True) if in_first]
    second = [row for row, in_first in zip(came, parts, strict=True) if not in_first]
    stored = settled(*copy.deepcopy(first))
    assert settled(*copy.deepcopy(second), stored=stored) == whole


def test_what_an_import_did_not_know_of_a_question_the_next_one_adds() -> None:
    old = row(1, fetched_at=9)
    assert settled(row(1, question=True, fetched_at=9), stored={ts(1): old})[ts(1)].question
    # An older import too: but not of another text.
    assert settled(row(1, question=True, fetched_at=3), stored={ts(1): old})[ts(1)].question
    edited = row(1, fetched_at=9, edited_ts=ts(5))
    assert not settled(row(1, question=True, fetched_at=3), stored={ts(1): edited})[ts(1)].question
