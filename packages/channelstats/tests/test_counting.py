"""Which messages count: the same for one message and for columns."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.counting import Counting, is_bot
from channelstats.tables.columns import ID

USUAL = Counting()
WITH_BOTS = Counting(include_bots=True)
FURTHER = Counting(further=("channel_join", "reminder_add"))
BOTS = frozenset({"UBOT"})

TALK = ("thread_broadcast", "me_message", "file_share")
SUBTYPES = ("", *TALK, "bot_message", "channel_join", "tombstone", "huddle_thread")
AUTHORS = ("", "UALICE", "W1", "UBOT", "BHOOK", "USLACKBOT")


def test_what_people_say_counts() -> None:
    assert [s for s in SUBTYPES if USUAL.counts("UALICE", s, BOTS)] == ["", *TALK]
    assert [a for a in AUTHORS if USUAL.counts(a, "", BOTS)] == ["UALICE", "W1"]


def test_bots_are_included_on_demand() -> None:
    assert WITH_BOTS.counts("BHOOK", "bot_message", BOTS)
    assert not WITH_BOTS.counts("UALICE", "channel_join", BOTS)


def test_further_subtypes_count_beside_the_usual_ones() -> None:
    counted = [s for s in SUBTYPES if FURTHER.counts("UALICE", s, BOTS)]
    assert counted == ["", *TALK, "channel_join"]
    assert not FURTHER.counts("UBOT", "channel_join", BOTS)


def test_every_way_of_counting_has_a_name_of_its_own() -> None:
    ways = [USUAL, WITH_BOTS, FURTHER, Counting(further=("channel_join",))]
    assert len({way.name for way in ways}) == len(ways)
    assert FURTHER.name == "modern and channel_join, reminder_add"


@pytest.mark.parametrize("author", ["UBOT", "BHOOK", "USLACKBOT"])
def test_a_bot_is_marked_or_known_by_its_bot_id_or_slackbot(author: str) -> None:
    assert is_bot(author, BOTS)
    assert not is_bot("UALICE", BOTS)


@given(
    counting=st.sampled_from((USUAL, WITH_BOTS, FURTHER)),
    rows=st.lists(st.tuples(st.sampled_from(AUTHORS), st.sampled_from(SUBTYPES), st.booleans())),
)
def test_columns_are_judged_as_messages_are(
    counting: Counting, rows: list[tuple[str, str, bool]]
) -> None:
    frame = pl.DataFrame(
        [(author or None, subtype or None, deleted) for author, subtype, deleted in rows],
        {"slack_uid": ID, "subtype": pl.String, "deleted": pl.Boolean},
        orient="row",
    )
    judged = frame.select(counting.counted(BOTS)).to_series().to_list()
    assert judged == [
        not deleted and counting.counts(author, subtype, BOTS) for author, subtype, deleted in rows
    ]
