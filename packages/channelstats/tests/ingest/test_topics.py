"""What is counted of words: what many people say, and nothing else."""

from collections.abc import Iterable
from datetime import date
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.ingest import topics
from channelstats.ingest.stop_words import STOP_WORDS
from channelstats.ingest.topics import NotCounted, TopicCounter, words_of, words_of_names
from channelstats.tables.directory import User
from channelstats.tables.exclusion import Exclusions
from channelstats.tables.message_row import MessageRow

UTC = ZoneInfo("UTC")
WEEK = date(2024, 3, 10)
AT = 1_710_158_400
"""Noon of the Monday in that week."""
NOBODY = NotCounted(Exclusions(), frozenset(), frozenset())

Said = tuple[str, str, str]
"""By whom, where, what."""


def said(person: str, channel: str, second: int = AT, subtype: str = "") -> MessageRow:
    return MessageRow(channel, f"{second}.000100", person, subtype=subtype)


def counted(messages: Iterable[Said], out: NotCounted = NOBODY) -> dict[str, int]:
    """What is kept of a week."""
    counter = TopicCounter(AT, UTC, 6)
    for person, channel, text in messages:
        counter.add(said(person, channel), text)
    found = counter.result(out)
    return found[WEEK].terms if found else {}


def by(people: int, channels: int, text: str = "harvest") -> list[Said]:
    return [(f"U{n}", f"C{n % channels}", text) for n in range(people)]


@pytest.mark.parametrize(
    ("people", "channels", "kept"), [(5, 2, True), (4, 2, False), (4, 4, False), (50, 1, False)]
)
def test_a_word_is_kept_that_five_people_said_in_two_channels(
    people: int, channels: int, kept: bool
) -> None:
    assert counted(by(people, channels)) == ({"harvest": people} if kept else {})


def test_what_is_kept_is_in_the_order_of_words_whichever_came_first() -> None:
    words = [f"harvest{letter}" for letter in "tkdbxgaq"]
    assert list(counted(said for word in words for said in by(5, 2, word))) == sorted(words)


def test_somebody_is_one_person_however_often_and_wherever_they_say_it() -> None:
    often = [("U0", f"C{n}", "harvest harvest") for n in range(20)]
    assert counted([*often, *by(4, 2)]) == {}
    assert counted([*often, *by(5, 2)]) == {"harvest": 5}


def test_those_who_are_left_out_and_bots_do_not_count() -> None:
    six = by(6, 2)
    assert counted(six, NotCounted(Exclusions({"U0"}), frozenset(), frozenset())) == {"harvest": 5}
    assert counted(six, NotCounted(Exclusions({"U0"}), frozenset({"U1"}), frozenset())) == {}
    assert counted([("B0", "C0", "harvest"), *by(4, 2)]) == {}


def test_names_of_people_are_no_words() -> None:
    names = words_of_names([User("U9", user_name="harvest.moon", real_name="Anna O'Hara")])
    assert names == {"harvest", "moon", "anna", "o", "hara"}
    known = NotCounted(Exclusions(), frozenset(), names)
    assert counted(by(5, 2, "Anna brings rain"), known) == {"brings": 5, "rain": 5}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The harvest, the HARVEST!", {"harvest"}),
        ("sow <@U01ABCDEF> in <#C012|general> or <!here>", {"sow"}),
        ("sow `secret_name` rain ```\npassword = 1\n``` late", {"sow", "rain", "late"}),
        ("an open block ```token = abc", {"open", "block"}),
        (":tada: rain:", {"rain"}),
        ("mail anna@example.org or <mailto:bob@example.org|bob>", {"mail"}),
        (
            "<https://www.Example.org/a/b?token=1#x|our words> late",
            {"example.org", "example.org/a/b", "late"},
        ),
        ("https://example.org:8080/.", {"example.org"}),
        ("<https://acme.slack.com/archives/C01/p17>", set()),
        ("<http://localhost/x> <https://user:pass@example.org/>", {"example.org"}),
        ("Grüße aus Łódź", {"grüße", "łódź"}),
        ("Grüße—Łódź\u00a0rain 🌧", {"grüße", "łódź", "rain"}),
        ("ΌΛΟΣ.ΑΒΓ", {"όλοσ", "αβγ"}),
        (
            "<https://example.org/a<https://b.example> xhttps://example.com",
            {"example.org", "example.org/a<https://b.example"},
        ),
        ("<https://[half> it", set()),
        ("thanks<@U1> rain (<@U2>) <@U3>", {"rain"}),
        ("", set()),
    ],
)
def test_what_is_a_word_and_what_is_kept_of_a_link(text: str, expected: set[str]) -> None:
    assert counted(by(5, 2, text)).keys() == expected


def test_what_is_no_word_is_dropped_however_many_say_it() -> None:
    text = f"the 2024 ab {'x' * 31} harvest https://example.org/{'y' * 120}"
    assert counted(by(5, 2, text)) == {"harvest": 5, "example.org": 5}


def test_messages_of_other_weeks_and_those_that_nobody_wrote_are_not_counted() -> None:
    counter = TopicCounter(AT, UTC, 6)
    long_ago = AT - topics.WEEKS * 7 * 86_400
    for n in range(6):
        counter.add(said(f"U{n}", f"C{n % 2}", long_ago), "harvest")
        counter.add(said(f"U{n}", f"C{n % 2}", AT + 7 * 86_400), "harvest")
        counter.add(said(f"U{n}", f"C{n % 2}", subtype="channel_join"), "harvest")
        counter.add(said(f"U{n}", f"C{n % 2}", AT - 7 * 86_400, subtype="me_message"), "rain")
    found = counter.result(NOBODY)
    assert {week: of.terms for week, of in found.items()} == {date(2024, 3, 3): {"rain": 6}}
    assert found[date(2024, 3, 3)].messages == found[date(2024, 3, 3)].people == 6


@given(
    st.lists(
        st.tuples(
            st.sampled_from([f"U{n}" for n in range(8)]),
            st.sampled_from(["C0", "C1", "C2"]),
            st.sampled_from(["harvest rain", "rain", "snow harvest", "the snow"]),
        ),
        max_size=60,
    ),
    st.sampled_from([1, 3, 100_000]),
)
def test_counts_are_those_of_a_plain_loop(messages: list[Said], pending: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topics, "_PENDING", pending)
        expected = {}
        for word in ("harvest", "rain", "snow"):
            uses = [(who, where) for who, where, text in messages if word in text.split()]
            people, channels = {who for who, _ in uses}, {where for _, where in uses}
            if len(people) >= 5 and len(channels) >= 2:
                expected[word] = len(people)
        assert counted(messages) == expected


def test_what_is_too_much_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "_PENDING", 1)
    monkeypatch.setattr(topics, "_MOST_WORDS", 1)
    assert counted([*by(5, 2), *by(5, 2, "rain"), *by(6, 2)]) == {"harvest": 6}
    monkeypatch.setattr(topics, "_MOST_USES", -1)
    assert counted(by(5, 2)) == {}


@given(st.text(st.one_of(st.characters(codec="ascii"), st.characters()), max_size=60))
def test_words_are_those_of_the_plain_definition(text: str) -> None:
    plain = "".join(letter for letter in text if letter not in "<:`@")  # what begins no word
    fit = {word for word in words_of(plain) if 3 <= len(word) <= 30 and not word.isdecimal()}
    assert counted(by(5, 2, plain)).keys() == fit - STOP_WORDS


def test_somebody_who_says_no_word_that_is_kept_is_one_of_those_who_wrote() -> None:
    counter = TopicCounter(AT, UTC, 6)
    for person, text in (("U1", "2024"), ("U2", "the"), ("U3", "harvest")):
        counter.add(said(person, "C1"), text)
    found = counter.result(NOBODY)[WEEK]
    assert (found.messages, found.people) == (3, 2)


def test_stop_words_are_words() -> None:
    assert all(words_of(word) == [word] for word in STOP_WORDS)
