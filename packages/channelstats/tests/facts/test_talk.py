"""What becomes of a question in the talk after it."""

import random

import polars as pl
import pytest

from channelstats.facts.talk import habits, outcomes
from support.channelstats.judged import STYLES, data_of, judge, lines, said, strewn

PEOPLE = {"A": "U1", "B": "U2", "C": "U3", "D": "U4"}
NOON = 1_709_553_600


def outcome(talk: str, question: int = 1) -> str:
    """Of the message in that line."""
    messages = said(lines(talk), NOON, PEOPLE)
    facts = data_of(messages).facts
    asked = messages[question - 1].raw
    ts = int(asked["ts"].replace(".", ""))
    message = facts.messages.filter(pl.col("ts") == ts)
    found = outcomes(message, facts.messages, facts.answers, habits(facts.messages))
    return str(found["outcome"].item())


def of_lines(*said_in_turn: str) -> str:
    return "\n".join(said_in_turn)


ASKED = "A+0: How do I open the door?"


IN_THREADS = of_lines(
    *(
        each
        for number in range(1, 17, 2)
        for each in (f"C+{number}: where is it?", f"B+{number} >{number}: here")
    )
)
"""Questions of a channel where they are answered in threads."""


@pytest.mark.parametrize(
    "after",
    [
        ["B+1: with the key"],
        ["B+170: It has a button on the left side, below the lamp over there."],
        ["C+100: Who has the bike?", "B+2000: <@A> with the key"],
        ["B+5: do you have the key?", "A+9: yes, but it is bent a little bit", "B+11: pull it"],
        ["C+3: Who has the bike?", "C+4: found it", "A+300: thanks, it is open"],
        ["A+50: never mind, found it"],
        ["C+1: the train is late again today, all of you take the bus then", "B+2: yes"],
        ["A+1: it is the blue one", "B+3 >2: with the key"],
    ],
    ids=str,
)
def test_a_question_is_answered_in_the_talk(after: list[str]) -> None:
    assert outcome(of_lines(ASKED, *after)) == "answered"


@pytest.mark.parametrize(
    "after",
    [
        [],
        ["A+2: it is locked"],
        ["A+2: thanks in advance"],
        ["B+5: Hello everybody, here are the notes of yesterday"],
        ["B+5: hello, does anybody have a bike?", "A+20: it is the door with the blue lock"],
        ["B+240: <https://example.org/lamp.gif>"],
        ["B+5: can anybody lend me a bike?", "C+6: yes"],
        ["B+5: the notes of yesterday", "C+7 >2: good ones"],
        ["B+900: it is raining"],
    ],
    ids=str,
)
def test_a_question_is_open_while_others_talk_of_something_else(after: list[str]) -> None:
    assert outcome(of_lines(ASKED, *after)) == "open"


def test_a_late_answer_and_a_question_back_may_be_one() -> None:
    lock = "the blue lock of the shed was new then"
    assert outcome(of_lines(ASKED, f"B+100: {lock}")) == "maybe"
    assert outcome(of_lines(ASKED, "B+4: which door?")) == "maybe"
    assert outcome(of_lines(ASKED, "B+400: <@A> which door?")) == "maybe"
    bent = "A+9: yes, but it is bent a little bit"
    assert outcome(of_lines(ASKED, "B+5: do you have the key?", bent)) == "maybe"


def test_who_names_others_answers_unless_they_are_in_the_talk() -> None:
    assert outcome(of_lines(ASKED, "B+5: <@C> has the key of it")) == "answered"
    shed = "C+0: The notes of yesterday are in the shed"
    asked = ASKED.replace("+0", "+30")
    assert outcome(of_lines(shed, asked, "B+35: <@C> has the key of it"), question=2) == "open"


def test_with_whom_the_asker_talked_goes_on_with_it_days_later() -> None:
    shed, asked = "B+0: The shed has a blue lock now", "A+20: Should we meet there on Monday then?"
    later = "B+4000: Monday at seven in the evening, bring the lamp of the shed with you please"
    meanwhile = "C+900: Hello everybody, here are the notes of yesterday"
    assert outcome(of_lines(shed, asked, later), question=2) == "answered"
    assert outcome(of_lines(shed, asked, meanwhile, later), question=2) == "open"
    agreed = "B+4000: Sure, on Monday"
    assert outcome(of_lines(shed, asked, meanwhile, agreed), question=2) == "answered"
    for other in ("A+20: Hello, should we", "A+20: <@D> should we"):
        assert outcome(of_lines(shed, asked.replace("A+20: Should we", other), later), 2) == "open"


def test_in_a_quiet_channel_what_is_said_next_answers_also_after_a_night() -> None:
    assert outcome(of_lines(ASKED, "B+600: it has a button")) == "answered"
    assert outcome(of_lines(ASKED, "B+1500: it has a button")) == "open"


def test_whoever_is_named_answers_by_writing() -> None:
    put = "A+0: <@B> I cannot open the door", "A+9: Which key do I take?"
    talked = ("C+20: Where is the cat?", "D+25: on the roof", "B+200: I changed the lock today.")
    assert outcome(of_lines(*put, *talked), 2) == "answered"
    assert outcome(of_lines(*put, *talked[:2]), 2) == "open"


def test_of_two_questions_the_later_one_is_answered_by_name() -> None:
    later = ("A+300: And how do I close the window?", "B+310: <@A> with the handle")
    first, second = (outcome(of_lines(ASKED, *later), number) for number in (1, 2))
    assert (first, second) == ("open", "answered")


def test_who_talked_on_with_somebody_else_answers_nothing() -> None:
    talk = "B+0: the red paint is dry", "C+2: but not the green one", "B+4: that takes a day"
    asked = of_lines(*talk, "A+6: How do I open the door?", "C+7: good to know")
    assert outcome(asked, 4) == "maybe"


def test_who_goes_on_with_a_talk_of_others_may_not_have_answered() -> None:
    painting = "B+0: the red paint is dry", "C+2: but not the green one"
    dries = "B+5: it dries within one day when nobody opens the window here"
    assert outcome(of_lines(*painting, "A+4: How do I open the door?", dries), 3) == "maybe"
    assert outcome(of_lines(*painting, "A+20: How do I open the door?", "B+21" + dries[3:]), 3) == (
        "answered"
    ), "the talk was over"


def test_who_wrote_last_before_a_question_answers_it_unless_it_is_put_to_all() -> None:
    painting = "C+0: the green paint is wet", "B+2: but not the red one"
    dries = "B+5: it dries within one day when nobody opens the window here"
    assert outcome(of_lines(*painting, "A+4: Which one do I take?", dries), 3) == "answered"
    assert outcome(of_lines(*painting, "A+4: hello, which one do I take?", dries), 3) == "maybe"


def test_in_a_busy_channel_the_asker_may_be_named_after_many_messages() -> None:
    others = [
        f"{'CD'[number % 2]}+{number}: the paint of wall {number} is dry" for number in range(40)
    ]
    named = "B+50: <@A> with the key"
    assert outcome(of_lines(ASKED, *others, named)) == "answered"
    assert outcome(of_lines(ASKED, *others)) != "answered"


def test_thanks_that_end_a_talk_with_who_named_the_asker_need_no_message_between() -> None:
    talk = "B+0: <@A> it is the blue one", "A+1: so with this key, from both sides of the door?"
    assert outcome(of_lines(*talk, "A+4: great, thanks"), 2) == "answered"
    assert outcome(of_lines(talk[1], "A+4: great, thanks")) == "open", "nobody spoke to them"


def test_whom_the_asker_names_later_may_answer_something_else() -> None:
    later = "A+5: <@C> have a nice day", "B+20: Where is the cat?", "C+25: on the roof"
    assert outcome(of_lines(ASKED, *later)) == "open"


def test_a_question_back_by_name_is_part_of_a_talk() -> None:
    talk = of_lines(ASKED, "C+60: the cat is on the roof again", "B+90: <@A> Which door is it?")
    assert outcome(talk, 3) == "aside"


def test_a_question_back_and_a_remark_are_part_of_a_talk() -> None:
    assert outcome(of_lines(ASKED, "B+4: which door?"), 2) == "aside"
    assert outcome(of_lines("A+0: I was first", "B+1: really?"), 2) == "aside"
    assert (
        outcome(of_lines("A+0: I was first", "B+1: the cat was faster then, lol, was it not?"), 2)
        == "aside"
    )
    assert outcome("B+0: really?") == "open", "nobody talked before"


def test_a_few_words_after_what_others_said_are_part_of_it_also_after_hours() -> None:
    shed = "B+0: The shed has a blue lock now"
    assert outcome(of_lines(shed, "A+900: at what cost?"), question=2) == "aside"
    for alone in (
        "A+900: any ideas, anybody?",
        "A+900: any ideas, <@C>?",
        "A+900: at what cost was it?",
    ):
        assert outcome(of_lines(shed, alone), question=2) == "open"


def test_a_short_question_into_a_talk_is_part_of_it_unless_put_to_all_or_about_the_asker() -> None:
    talk = "B+0: the red paint is dry"
    assert outcome(of_lines(talk, "A+2: which wall is it on?"), 2) == "aside"
    assert outcome(of_lines(talk, "A+2: where can I leave my bike?"), 2) == "open"
    assert outcome(of_lines(talk, "A+2: can anybody open the door?"), 2) == "open"
    assert outcome(of_lines(talk, "A+15: which wall is it on?"), 2) == "open", "the talk was over"


def test_who_asks_back_what_somebody_did_is_part_of_a_talk_for_hours() -> None:
    talk = "B+0: the door is locked again today"
    back = "A+150: did you turn the key twice, once for the lock above and once for the one below?"
    assert outcome(of_lines(talk, back), 2) == "aside"
    assert outcome(of_lines(talk, back.replace("150", "200")), 2) == "open", "too late"
    assert outcome(of_lines(talk, back.replace("turn the", "anyone turn my")), 2) == "open"
    asked = "A+150: how do you open the upper lock when the lower one has been open all the day?"
    assert outcome(of_lines(talk, asked), 2) == "open", "it asks nothing of B"


def test_where_questions_are_answered_in_threads_the_next_message_says_nothing() -> None:
    assert (
        outcome(of_lines(IN_THREADS, "A+60: How do I open the door?", "B+70: it has a button"), 17)
        == "open"
    )
    talked = of_lines(
        IN_THREADS, "A+60: How do I open it?", "B+65: it has a button", "A+66: I see one"
    )
    assert outcome(talked, 17) == "answered"


def left(days_before: int, weeks: int = 4, asked: int = 0) -> int:
    """Whether a question is open in the weeks up to its own that might be answered in the channel,
    unless one answers in threads there, as some did so many days before. It is ``asked`` so many
    days before the first of the period.
    """
    at = NOON - asked * 86_400
    habit = said(lines(IN_THREADS), at - days_before * 86_400, PEOPLE)
    question = said(lines(of_lines(ASKED, "B+10: it has a button")), at, PEOPLE)
    data = data_of([*habit, *question])
    return data.facts.slice(data.period.ending_with(7 * weeks)).questions_left.height


@pytest.mark.parametrize("weeks", [1, 4, 5, 12, 52])
def test_habits_are_those_of_the_four_weeks_of_a_question_however_many_are_shown(
    weeks: int,
) -> None:
    assert [left(days, weeks) for days in (1, 20, 30, 60)] == [1, 1, 0, 0]


def test_a_question_is_open_or_not_whatever_weeks_come_after_its_own() -> None:
    for asked in (28, 56):
        assert [left(days, 12, asked) for days in (1, 20, 30, 60)] == [1, 1, 0, 0]


@pytest.mark.parametrize("style", STYLES)
def test_what_is_open_of_a_channel_or_a_person_is_what_is_open_of_it_in_all(style: str) -> None:
    data = data_of(strewn(style, random.Random(style)))
    everything = data.facts.slice(data.period).questions_left
    channel = data.facts.slice(data.period, ("C1",)).questions_left
    assert channel.sort("ts").equals(everything.sort("ts"))
    for person in everything["slack_uid"].unique():
        theirs = data.facts.slice(data.period, (), person).questions_left
        assert theirs.sort("ts").equals(everything.filter(slack_uid=person).sort("ts"))


@pytest.mark.parametrize("style", STYLES)
def test_most_of_what_is_listed_is_open_and_most_of_what_is_open_is_listed(style: str) -> None:
    judged = judge(style, range(4))
    assert judged.precision >= 0.75
    assert judged.precision_of_first >= 0.8
    assert judged.recall >= 0.7
