"""What is taken for a question, without its text being kept."""

import pytest

from channelstats.days import Calendar
from channelstats.ingest.questions import asks, signs
from channelstats.ingest.rows import Origin, latest, row_of
from channelstats.slack.objects import SlackMessage
from channelstats.tables.columns import frame_of
from channelstats.tables.message_row import MessageRow, Sign, item_of
from channelstats.tables.message_row import row_of as row_of_item
from support.channelstats.house import UTC


@pytest.mark.parametrize(
    "text",
    [
        "Who has the key?",
        "is it *open?* I am outside",
        "Ça va ?",
        "Где ключ?!",
        "钥匙在哪\uff1f",
        "see <https://example.org/?page=1>. Is that right?",
        "How do I get in",
        "Hi <@U1>, can anyone let me in",
        "<!here> weiß jemand, wo der Schlüssel ist",
        ":wave: alguien sabe dónde está",
        "> the key is lost\nWho has another one?",
        "&gt; the key is lost\nWho has another one?",
        "has anybody solved this?",
        "Is it solved?",
        "who can edit this page?",
        "Who has the key?\nEDIT: I mean the other one",
        "a -> b, right?",
        "is this the key ? <https://example.org/key>",
        "Hey, is any of you at the door",
        "can you open it",
    ],
)
def test_a_question_is_known_by_its_mark_or_how_it_begins(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "what a day",
        "see <https://example.org/?page=1>",
        "`a ? b : c` compiles",
        "```\nis_open()?\n```",
        "x ?y",
        "everyone can do this",
        "do this first",
        "the lamp, the door, any other ideas are welcome",
        "> why?",
        "&gt; why?",
        "  > why?\nbecause of the rain",
        "&gt;&gt;&gt; first\nwhy?\nwho?",
        "well\n>>> first\nwhy?",
        "> how do I get in",
        "Who has the key?\nEDIT: solved",
        "Who has the key? \n*EDIT:* solved, thanks",
        "Who has the key?\n[Update] it is resolved now",
        "How do I get in\n(edit: never mind)",
        "[solved] who has the key?",
        "Who has the key? EDIT: solved",
        "Who has the key? (Update: it has been resolved)",
        "Wer hat den Schlüssel?\nEdit: hat sich erledigt",
    ],
)
def test_what_only_looks_like_one_is_none(text: str) -> None:
    assert not asks(text)


@pytest.mark.parametrize(
    ("sign", "text", "has_it"),
    [
        (Sign.OWN, "where can I park?", True),
        (Sign.OWN, "it is in my bag", True),
        (Sign.OWN, "¿puedo entrar?", True),
        (Sign.OWN, "which door is it?", False),
        (Sign.OWN, "can you show me the key?", False),
        (Sign.TO_ALL, "thank you guys", True),
        (Sign.TO_ALL, "the key is in my bag, as everyone knows", False),
        (Sign.TO_ALL, "the key is lost, does anybody have another?", True),
        (Sign.TO_ALL, "I lost the key. Could someone open the door", False),
        (Sign.TO_ALL, "I lost the key. Could someone open the door?", True),
        (Sign.TO_ALL, "somebody told me that it is in your bag, is it?", False),
        (Sign.ASKS_BACK, "are you using the old key?", True),
        (Sign.ASKS_BACK, "<@U1> what's your version of it?", True),
        (Sign.ASKS_BACK, "hast du den Schlüssel gedreht?", True),
        (Sign.ASKS_BACK, "do you know who has the key?", False),
        (Sign.ASKS_BACK, "could you send the key?", False),
        (Sign.ASKS_BACK, "how do you open it?", False),
    ],
)
def test_of_whom_somebody_speaks_is_known_by_words(sign: Sign, text: str, has_it: bool) -> None:
    assert (signs(text) & sign != 0) == has_it


def test_what_was_found_is_settled_and_what_others_got_is_not() -> None:
    assert signs("got it, it was in my bag") & Sign.SETTLED
    assert not signs("yes, I got that letter too") & Sign.SETTLED


def test_of_a_question_a_flag_is_kept_and_no_text() -> None:
    origin = Origin("C1", "test", 1_710_000_000, latest(1_710_000_000))
    ts, text = "1709573400.000300", "who has the secret key?"
    row = row_of(SlackMessage(type="message", user="U1", ts=ts, text=text), origin)
    item = item_of(row, Calendar(UTC))
    assert item["question"] is True
    assert "secret" not in str(item)
    assert row_of_item(item) == row
    assert frame_of([item])["question"].to_list() == [True]
    other = item_of(MessageRow("C1", ts, "U1"), Calendar(UTC))
    assert "question" not in other
    assert frame_of([other])["question"].to_list() == [False]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("?" * 300_000 + "x", id="marks"),
        pytest.param("a?" * 150_000 + "b", id="words with marks"),
        pytest.param("x ?" + " " * 300_000 + "x", id="blanks after a mark"),
        pytest.param("hi " * 100_000, id="hellos"),
        pytest.param("`" * 300_001, id="code"),
        pytest.param("> why?\n" * 50_000, id="quotes"),
        pytest.param("\n" + "[" * 300_000 + "?a", id="brackets"),
        pytest.param("edit " * 60_000 + "?a", id="edits"),
    ],
)
def test_an_endless_text_takes_no_more_time_than_in_proportion(text: str) -> None:
    assert not asks(text)  # else it would take hours
