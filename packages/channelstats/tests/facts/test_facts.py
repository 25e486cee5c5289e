"""What is inside messages, as tables of facts: the same as the codecs say, in both spellings."""

from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channelstats.facts import Inputs, Options, Period
from channelstats.facts.facts import Facts
from channelstats.tables.columns import frame_of
from channelstats.tables.message_row import Reaction, decode_reactions, encode_reactions
from support.channelstats.house import UTC

PERIOD = Period(date(2024, 3, 3), 7, UTC)
USERS = st.sampled_from(["UA", "WB", "BHOOK", "U1"])
NAMES = st.sampled_from(["+1", "+1::skin-tone-2", "a:b", "wave:", "é"])
REACTIONS = st.lists(st.builds(Reaction, NAMES, st.lists(USERS, min_size=1).map(tuple)), max_size=4)


def said(*, merge_skin_tones: bool = False, **fields: Any) -> Facts:
    item = {"ts": f"{PERIOD.begin}.000000", "slack_cid": "C1", "slack_uid": "UA"} | fields
    return Facts(Inputs(frame_of([item])), Options(merge_skin_tones=merge_skin_tones))


@given(REACTIONS)
def test_reactions_are_taken_apart_as_the_codec_does(reactions: list[Reaction]) -> None:
    encoded = encode_reactions(reactions)
    older = ",".join(";".join((emoji, *users)) for emoji, users in reactions)
    expected = [(emoji, user) for emoji, users in decode_reactions(encoded) for user in users]
    for text in (encoded, older):
        assert said(reactions=text).reactions.select("emoji", "reactor").rows() == expected


def test_mentions_are_taken_apart_in_both_spellings() -> None:
    for text in ("UB:UC:UB", "UB,UC,UB"):
        assert said(mentions=text).mentions["mentioned"].to_list() == ["UB", "UC", "UB"]
    assert said().mentions.height == 0


def test_skin_tones_are_merged_on_demand_and_a_person_counted_once() -> None:
    text = "+1::skin-tone-2:UB,+1:UB:UC,handshake::skin-tone-2-6:UB"
    names = ["+1::skin-tone-2", "+1", "+1", "handshake::skin-tone-2-6"]
    assert said(reactions=text).reactions["emoji"].to_list() == names
    merged = said(reactions=text, merge_skin_tones=True).reactions.select("emoji", "reactor")
    assert merged.rows() == [("+1", "UB"), ("+1", "UC"), ("handshake", "UB")]


def test_who_answers_oneself_answers_nobody() -> None:
    assert said(parent_user_id="UA").replies.height == 0
    assert said(parent_user_id="UB").replies.select("slack_uid", "parent").rows() == [("UA", "UB")]
