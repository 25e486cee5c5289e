"""A row and its item: both spellings read, one written, nothing empty stored."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from channelstats.days import Calendar
from channelstats.tables.columns import frame_of
from channelstats.tables.message_row import MessageRow, item_of, row_of
from keytables import Item
from support.channelstats.house import UTC

ROWS = st.builds(
    MessageRow,
    slack_cid=st.just("C1"),
    ts=st.from_regex(r"1[0-9]{9}\.[0-9]{6}", fullmatch=True),
    slack_uid=st.sampled_from(["", "UALICE"]),
    word_count=st.integers(0, 9),
    mentions=st.sampled_from(["", "UA:UB"]),
    reactions=st.sampled_from(["", "a:UA,b:UB"]),
    thread_ts=st.sampled_from(["", "1700000000.000000"]),
    deleted=st.booleans(),
    is_bot=st.booleans(),
    fetched_at=st.sampled_from([0, 5]),
)


@given(ROWS)
def test_a_row_comes_back_from_its_item(row: MessageRow) -> None:
    item = item_of(row, Calendar(UTC))
    assert row_of(item) == row
    assert not any(value in (None, "", [], {}) for value in item.values())


def test_zeros_and_falsehoods_are_written() -> None:
    item = item_of(MessageRow("C1", "1700000000.000000"), Calendar(UTC))
    assert item == {
        "cid_ts": "C1_1700000000.000000",
        "date": "2023-11-14",
        "ts": "1700000000.000000",
        "slack_cid": "C1",
        "word_count": 0,
        "reaction_count": 0,
        "reply_count": 0,
        "is_threadhead": False,
        "is_threaded": False,
    }


OLD: Item = {
    "cid_ts": "C1_1560000000.000100",
    "ts": "1560000000.000100",
    "slack_cid": "C1",
    "user_id": "UALICE",
    "word_count": 3,
    "mentions": "UBOB,UCARA",
    "reactions": "tada;UBOB,+1::skin-tone-2;UBOB;UCARA",
    "reaction_count": 3,
    "thread_ts": "1560000000.000100",
    "is_thread_head": True,
}


def test_rows_of_the_past_are_read_and_written_in_todays_spelling() -> None:
    row = row_of(OLD)
    assert row.slack_uid == "UALICE"
    assert row.is_threadhead
    item = item_of(row, Calendar(UTC))
    assert item["slack_uid"] == "UALICE"
    assert item["mentions"] == "UBOB:UCARA"
    assert item["reactions"] == "tada:UBOB,+1::skin-tone-2:UBOB:UCARA"
    assert item["is_threadhead"] is True
    assert not item.keys() & {"user_id", "is_thread_head"}


def test_columns_know_both_spellings() -> None:
    today = item_of(row_of(OLD), Calendar(UTC))
    frame = frame_of([OLD, {**today, "ts": "1560000000.000200"}])
    assert frame["slack_uid"].to_list() == ["UALICE", "UALICE"]
    assert frame["ts"].to_list() == [1560000000000100, 1560000000000200]
    assert frame["thread_ts"].to_list() == [1560000000000100] * 2
    assert frame["deleted"].to_list() == [False, False]


def test_what_has_no_time_is_in_no_column() -> None:
    assert frame_of([{"cid_ts": "C1_x", "ts": "x", "slack_cid": "C1"}]).height == 0
    assert frame_of([]).height == 0


def test_a_row_knows_heads_and_replies() -> None:
    row = MessageRow("C1", "1700000000.000000")
    assert (row.is_threaded, row.is_threadhead, row.is_reply) == (False, False, False)
    head = msgspec.structs.replace(row, thread_ts=row.ts)
    assert (head.is_threaded, head.is_threadhead, head.is_reply) == (True, True, False)
    reply = msgspec.structs.replace(row, thread_ts="1600000000.000000")
    assert (reply.is_threaded, reply.is_threadhead, reply.is_reply) == (True, False, True)
