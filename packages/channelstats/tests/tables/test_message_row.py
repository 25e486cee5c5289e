"""A row and its item: both spellings read, one written, nothing empty stored."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from channelstats.days import Calendar
from channelstats.identifiers import timestamp
from channelstats.tables.columns import frame_of
from channelstats.tables.message_row import (
    MessageRow,
    Reaction,
    Reply,
    decode_mentions,
    decode_reactions,
    decode_replies,
    emoji_name,
    encode_mentions,
    encode_reactions,
    encode_replies,
    extension,
    item_of,
    row_of,
)
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


# ── What was encoded comes back as it was; what older programs wrote is understood ───────────────


USERS = st.builds(
    "{}{}".format, st.sampled_from("UWB"), st.text("AUWBZ019", min_size=1, max_size=6)
)
NAMES = st.text("abcz0129_+-:é", min_size=1, max_size=12) | st.sampled_from(
    ["+1::skin-tone-2", "+1", "u1", "a:b:c", "wave:"]
)
REACTIONS = st.lists(st.builds(Reaction, NAMES, st.lists(USERS).map(tuple)))
TIMES = st.integers(0, 10**16 - 1).map(timestamp)
REPLIES = st.lists(st.builds(Reply, USERS, TIMES), unique_by=lambda reply: reply.ts)


@given(st.lists(USERS))
def test_mentions_come_back_in_order_with_repeats(users: list[str]) -> None:
    assert decode_mentions(encode_mentions(users)) == users
    assert decode_mentions(",".join(users)) == users


@given(REACTIONS)
def test_reactions_come_back(reactions: list[Reaction]) -> None:
    assert decode_reactions(encode_reactions(reactions)) == reactions


@given(REACTIONS)
def test_reactions_with_semicolons_are_understood(reactions: list[Reaction]) -> None:
    older = ",".join(";".join((emoji, *users)) for emoji, users in reactions if users)
    assert decode_reactions(older) == [reaction for reaction in reactions if reaction.users]


def test_colons_in_the_name_of_an_emoji_stay_in_it() -> None:
    expected = [Reaction("+1::skin-tone-2", ("UBOB",)), Reaction("tada", ("UALICE", "UCARA"))]
    assert decode_reactions("+1::skin-tone-2:UBOB,tada:UALICE:UCARA") == expected
    assert decode_reactions("+1::skin-tone-2;UBOB,tada;UALICE;UCARA") == expected
    assert decode_reactions("") == []


@given(REPLIES)
def test_replies_come_back_in_the_order_of_time(replies: list[Reply]) -> None:
    found = decode_replies(encode_replies(replies))
    assert found == sorted(replies, key=lambda reply: reply.ts)


def test_damaged_replies_are_left_out() -> None:
    damaged = "UBOB:1709575500.000400,,UBOB,:1709575500.000400,UBOB:yesterday,x:1709575500.000400"
    assert decode_replies(damaged) == [Reply("UBOB", "1709575500.000400")]


@given(st.text())
def test_the_name_of_an_emoji_can_be_encoded_whatever_it_was(text: str) -> None:
    name = emoji_name(text)
    if name:
        assert decode_reactions(encode_reactions([Reaction(name, ("UBOB",))])) == [
            Reaction(name, ("UBOB",))
        ]


def test_of_a_files_name_only_the_extension_is_kept() -> None:
    names = ["Secret plan.PDF", "archive.tar.gz", "README", ".bashrc", "odd.a b", "x." + "y" * 17]
    assert [extension(name) for name in names] == ["pdf", "gz", "", "", "", ""]
