"""Rows and columns lose the same of those who are left out."""

import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.days import Calendar
from channelstats.tables.columns import frame_of
from channelstats.tables.directory import Channel, User
from channelstats.tables.exclusion import (
    frame_without,
    resolve_channels,
    resolve_people,
    row_without,
)
from channelstats.tables.message_row import (
    MessageRow,
    Reaction,
    Reply,
    decode_mentions,
    decode_reactions,
    decode_replies,
    encode_mentions,
    encode_reactions,
    encode_replies,
    item_of,
)
from support.channelstats.house import UTC

PEOPLE = ("UA", "UAB", "UB", "WC", "UBA", "BX")
EMOJI = ("+1", "+1::skin-tone-2", "tada", "ua")


def made(rng: random.Random) -> MessageRow:
    def some(most: int) -> list[str]:
        return [rng.choice(PEOPLE) for _ in range(rng.randint(0, most))]

    def replies() -> list[Reply]:
        return [Reply(uid, f"17000000{n:02d}.000000") for n, uid in enumerate(some(4))]

    reactions = [
        Reaction(rng.choice(EMOJI), tuple(dict.fromkeys(some(3))) or ("UB",)) for _ in range(2)
    ]
    answers = replies()
    room = '{"date_end":2,"date_start":1,"participant_history":["UA","UB"]}'
    return MessageRow(
        "C1",
        f"{rng.randrange(1_700_000_000, 1_700_100_000)}.000100",
        rng.choice((*PEOPLE, "")),
        mentions=encode_mentions(some(3)),
        reactions=encode_reactions(reactions),
        reaction_count=sum(len(reaction.users) for reaction in reactions) + rng.randint(0, 2),
        parent_user_id=rng.choice((*PEOPLE, "")),
        replies=encode_replies(answers),
        reply_count=len(answers),
        room=room if rng.random() < 0.3 else "",
        files='[{"id":"F1","user":"UA"}]' if rng.random() < 0.3 else "",
    )


def told(row: MessageRow) -> tuple[object, ...]:
    """What a row says, apart from how it is written."""
    return (
        row.slack_uid,
        decode_mentions(row.mentions),
        [(emoji, uid) for emoji, users in decode_reactions(row.reactions) for uid in users],
        row.reaction_count,
        row.parent_user_id,
        [(reply.user, int(reply.ts.replace(".", ""))) for reply in decode_replies(row.replies)],
        row.reply_count,
        [uid for uid in ("UA", "UB") if f'"{uid}"' in row.room],
    )


def told_by(frame: pl.DataFrame) -> list[tuple[object, ...]]:
    return [
        (
            row["slack_uid"] or "",
            row["mentions"] or [],
            [(of["emoji"], of["reactor"]) for of in row["reactions"] or ()],
            row["reaction_count"],
            row["parent_user_id"] or "",
            [(of["replier"], of["replied_at"]) for of in row["replies"] or ()],
            row["reply_count"],
            [uid for uid in ("UA", "UB") if f'"{uid}"' in (row["room"] or "")],
        )
        for row in frame.iter_rows(named=True)
    ]


@given(st.randoms(use_true_random=False), st.sets(st.sampled_from(PEOPLE), min_size=1))
def test_rows_and_columns_lose_the_same(rng: random.Random, out: set[str]) -> None:
    rows = [made(rng) for _ in range(20)]
    calendar = Calendar(UTC)
    left = [row for row in (row_without(row, out.__contains__) for row in rows) if row is not None]
    frame = frame_without(frame_of([item_of(row, calendar) for row in rows]), out)
    assert told_by(frame) == [told(row) for row in left]
    for row in left:
        text = f"{row.mentions} {row.reactions} {row.replies} {row.parent_user_id}"
        assert not out & set(text.replace(":", " ").replace(",", " ").split())
        assert not any(f'"{uid}"' in row.room + row.files for uid in out)


def test_a_row_that_names_nobody_stays_the_same_one() -> None:
    row = MessageRow("C1", "1700000000.000000", "UB", mentions="UA")
    assert row_without(row, {"UC"}.__contains__) is row


def test_channels_are_left_out_of_columns() -> None:
    rows = [MessageRow(cid, "1700000000.000000", "UA") for cid in ("C1", "C2")]
    frame = frame_of([item_of(row, Calendar(UTC)) for row in rows])
    assert frame_without(frame, (), {"C1"})["slack_cid"].to_list() == ["C2"]
    assert frame_without(frame, ()).equals(frame)


@pytest.mark.parametrize("listed", ["UA", "ann", "@ann", "@Annie"])
def test_people_are_meant_by_id_and_by_name(listed: str) -> None:
    users = {
        "UA": User("UA", user_name="ann", display_name="Annie"),
        "UB": User("UB", user_name="bob"),
    }
    assert resolve_people([listed], users) == {"UA"}


def test_somebody_unknown_is_meant_by_id_alone() -> None:
    assert resolve_people(["UZ", "zoe"], {}) == {"UZ"}


def test_channels_are_meant_by_id_and_by_name() -> None:
    channels = {"C1": Channel("C1", friendly_name="general")}
    assert {"C1", "C9"} <= resolve_channels(["#general", "C9"], channels)
