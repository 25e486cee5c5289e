"""What was encoded comes back as it was; what older programs wrote is understood."""

from hypothesis import given
from hypothesis import strategies as st

from channelstats.identifiers import timestamp
from channelstats.tables.codecs import (
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
)

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
