"""A message as Slack writes it becomes a row: counted, and forgotten."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.days import Calendar
from channelstats.ingest.rows import Origin, row_of
from channelstats.slack.objects import MESSAGES, SlackMessage
from channelstats.tables.message_row import MessageRow, item_of
from support.channelstats.house import UTC

ORIGIN = Origin("C1", "export", 5, "1800000000.000000")
TS = "1700000000.000100"


def row(**fields: Any) -> MessageRow:
    raw = {"type": "message", "ts": TS, "user": "UALICE", **fields}
    return row_of(msgspec.convert(raw, SlackMessage, strict=False), ORIGIN)


@pytest.mark.parametrize(
    ("fields", "author", "is_bot"),
    [
        ({"user": "UALICE", "bot_id": "BHOOK"}, "UALICE", False),
        ({"user": None, "bot_id": "BHOOK"}, "BHOOK", True),
        ({"user": None}, "", False),
        ({"user": "alice"}, "", False),
        ({"user": "U1,U2:x"}, "", False),
        ({"user": None, "bot_id": "UALICE"}, "", False),
    ],
)
def test_the_author_is_the_user_else_the_bot(
    fields: dict[str, Any], author: str, is_bot: bool
) -> None:
    found = row(**fields)
    assert (found.slack_uid, found.is_bot) == (author, is_bot)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, 0),
        ("", 0),
        ("  two\n words ", 2),
        ("see <https://a.example|the page> :tada: now", 5),
        ("half \ud83d a pair", 4),
    ],
)
def test_words_are_what_stands_between_blanks(text: str | None, words: int) -> None:
    assert row(text=text).word_count == words


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("<@UBOB> <@UBOB> and <@UALICE>", "UBOB:UBOB"),
        ("<@W1|Willa> <@UBOB|>", "W1:UBOB"),
        ("<@B1> <#C1|x> <!here> @UBOB <@ubob>", ""),
    ],
)
def test_mentions_are_of_others_in_order_with_repeats(text: str, mentions: str) -> None:
    assert row(text=text).mentions == mentions


def test_the_reaction_count_is_what_slack_counts() -> None:
    found = row(
        reactions=[
            {"name": "+1::skin-tone-2", "users": ["UBOB"], "count": 1},
            {"name": "Tada", "users": ["UBOB", "UCARA"], "count": 50},
            {"name": "wave", "users": ["UBOB", "?"]},
            {"name": "x", "users": ["UBOB", "UCARA"], "count": 1},
        ]
    )
    assert found.reactions == "+1::skin-tone-2:UBOB,tada:UBOB:UCARA,wave:UBOB,x:UBOB:UCARA"
    assert found.reaction_count == 54
    assert found.reactions_truncated


@pytest.mark.parametrize("count", [-1, 10**12, "many", None, 1e300])
def test_an_absurd_count_is_the_number_of_people_listed(count: object) -> None:
    found = row(reactions=[{"name": "a", "users": ["UBOB"], "count": count}])
    assert (found.reaction_count, found.reactions_truncated) == (1, False)


def test_a_reaction_without_a_name_is_passed_over() -> None:
    nameless = {"name": None, "users": None, "count": 5}
    found = row(reactions=[nameless, {"name": "a", "users": ["UBOB"]}])
    assert (found.reactions, found.reaction_count) == ("a:UBOB", 1)


def test_replies_are_those_with_a_user_in_the_order_of_time() -> None:
    found = row(
        thread_ts=TS,
        replies=[
            {"user": "UBOB", "ts": "1700000009.000000"},
            {"user": "UCARA", "ts": "1700000002.000000"},
            {"ts": "1700000003.000000"},
            {"user": "UBOB", "ts": "never"},
            {"user": "UCARA", "ts": "1700000002.000000"},
        ],
    )
    assert found.replies == "UCARA:1700000002.000000,UBOB:1700000009.000000"
    assert found.reply_count == 2
    assert found.is_threadhead


def test_a_message_with_replies_is_a_head_and_a_reply_has_none() -> None:
    replies = [{"user": "UBOB", "ts": "1700000009.000000"}]
    assert row(replies=replies).is_threadhead
    assert row(replies=replies, thread_ts="1600000000.000000").replies == ""


@pytest.mark.parametrize(
    "ts", [None, "", "1700000000", "yesterday", "170000000.0000001", "\uff117000000000.000000"]
)
def test_without_a_timestamp_there_is_no_row(ts: str | None) -> None:
    with pytest.raises(ValueError, match=r"ts: expected ten digits, a point, six digits"):
        row(ts=ts)


@pytest.mark.parametrize("ts", ["0000000000.000000", "0946684799.999999", "1800000000.000001"])
def test_an_absurd_time_makes_no_row(ts: str) -> None:
    with pytest.raises(ValueError, match=r"before the year 2000, or in the future"):
        row(ts=ts)


def test_an_absurd_thread_is_none() -> None:
    assert not row(thread_ts="0000000000.000000", parent_user_id="UBOB").is_threaded


def test_of_a_file_its_kind_is_kept_and_not_what_it_says() -> None:
    about = {
        "id": "F1",
        "created": "1700000000",
        "name": "Layoffs 2024.xlsx",
        "title": "Layoffs",
        "mimetype": "application/vnd.ms-excel",
        "filetype": "xlsx",
        "size": 12.0,
        "user": "UALICE",
        "preview": "Bob Berg",
        "url_private": "https://files.example/secret",
    }
    kept = {
        "id": "F1",
        "created": 1700000000,
        "extension": "xlsx",
        "mimetype": "application/vnd.ms-excel",
        "filetype": "xlsx",
        "size": 12,
        "user": "UALICE",
    }
    assert json.loads(row(files=[about, None]).files) == [kept]
    assert json.loads(row(file=about).files) == [kept]
    assert row(files=[]).files == ""


def test_a_huddle_keeps_who_and_when() -> None:
    room = {
        "id": "R1",
        "name": "secret name",
        "participant_history": ["UALICE", None, "UBOB"],
        "date_start": 100,
        "date_end": "160",
    }
    assert json.loads(row(subtype="huddle_thread", room=room).room) == {
        "participant_history": ["UALICE", "UBOB"],
        "date_start": 100,
        "date_end": 160,
    }


@pytest.mark.parametrize(
    ("room", "people", "end"),
    [
        ({"participants": ["UALICE"], "date_start": 100, "date_end": 160}, ["UALICE"], 160),
        ({"participants": ["UBOB"], "participant_history": ["UALICE"]}, ["UALICE"], 0),
        ({"participants": ["UBOB"], "participant_history": []}, ["UBOB"], 0),
        ({"date_start": 150, "date_end": 100}, [], 0),
    ],
)
def test_a_huddle_as_others_write_it(room: object, people: list[str], end: int) -> None:
    found = json.loads(row(subtype="sh_room_created", room=room).room)
    assert (found["participant_history"], found["date_end"]) == (people, end)


def test_an_edit_keeps_its_time() -> None:
    assert row(edited={"user": "UBOB", "ts": "1700000005.000000"}).edited_ts == "1700000005.000000"


def test_halves_of_surrogate_pairs_reach_no_row() -> None:
    half = "\ud83d"
    found = row(subtype=half, reactions=[{"name": f"{half}a", "users": ["UBOB"]}])
    assert (found.subtype, found.reactions) == ("unknown", "a:UBOB")


SECRET = "correct horse battery staple"
TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=9)
"""With halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
RAW = st.fixed_dictionaries(
    {"ts": st.just(TS) | JSON},
    optional={name: JSON for name in SlackMessage.__struct_fields__ if name != "ts"},
)


@given(st.lists(RAW, max_size=3))
def test_whatever_comes_becomes_a_row_that_can_be_stored_or_is_refused(
    raws: list[dict[str, Any]],
) -> None:
    found, broken = MESSAGES.decode(json.dumps(raws).encode())
    lost = [reason for reason in broken if not reason.endswith("the rest of the message was taken")]
    assert len(found) + len(lost) == len(raws)
    for message in found:
        try:
            item = item_of(row_of(message, ORIGIN), Calendar(UTC))
        except ValueError:
            continue
        json.dumps(item, ensure_ascii=False).encode()


@given(st.sampled_from(["text", "topic", "username"]))
def test_no_text_is_in_a_row(name: str) -> None:
    assert SECRET not in repr(row(**{name: SECRET}))


def test_a_message_with_absurdly_many_things_in_it_is_stored_all_the_same() -> None:
    people = [f"U{number:063d}" for number in range(20_000)]
    replies = [{"user": uid, "ts": f"{1700000001 + n}.000000"} for n, uid in enumerate(people)]
    found = row(
        text=" ".join(f"<@{uid}>" for uid in people),
        reactions=[
            {"name": "tada", "users": people, "count": 20_000},
            {"name": "\N{PARTY POPPER}" * 200, "users": people, "count": 20_000},
            *({"name": f"e{number}{'x' * 90}", "users": [], "count": 1} for number in range(9_000)),
        ],
        replies=replies,
        files=[{"id": f"F{number}", "mimetype": "x" * 100} for number in range(9_000)],
        room={"participant_history": people},
    )
    assert (found.reply_count, found.reaction_count) == (20_000, 49_000)
    assert found.reactions_truncated
    item = item_of(found, Calendar(UTC))
    assert sum(len(name) + len(str(value).encode()) for name, value in item.items()) < 400_000
    assert found.mentions.split(":")[-1] in people
    assert found.reactions.startswith(f"tada:{people[0]}:")
    assert found.replies.startswith(f"{people[0]}:1700000001.000000,")


def test_everybody_who_reacts_in_a_large_workspace_is_kept() -> None:
    people = [f"U{number:010d}" for number in range(12_000)]
    found = row(reactions=[{"name": "tada", "users": people, "count": 12_000}])
    assert not found.reactions_truncated
    assert found.reactions.count(":") == 12_000
