"""What is to be done first: of each kind in turn, with the reason in words."""

from collections.abc import Collection, Mapping

import pytest

from channelstats.facts.periods import History
from channelstats.pages.queue import SHOWN, is_item
from channelstats.tables.directory import User
from channelstats.tables.marks import ItemMark, MarkState
from support.channelstats.pages import Looked, Row, data_of, look
from support.channelstats.said import LONG_AGO, joined, liked, said
from support.channelstats.workspace import Raw


def asked(day: int, user: str) -> Raw:
    return said(day, user, text="who has the key?")


def looked(
    messages: dict[str, list[Raw]],
    view: str = "todo",
    *,
    users: Mapping[str, User] | None = None,
    marks: Mapping[str, ItemMark] | None = None,
    channel: str = "",
    person: str = "",
    smallest_group: int = 1,
    history: History = LONG_AGO,
    archived: Collection[str] = (),
) -> Looked:
    data = data_of(messages, users=users, history=history, archived=archived)
    return look(view, data, channel, person, marks=marks or {}, smallest_group=smallest_group)


def queue(messages: dict[str, list[Raw]], **options: object) -> list[Row]:
    return looked(messages, **options).rows("queue")  # type: ignore[arg-type]


def weekly(user: str, *days: int) -> list[Raw]:
    """A message that somebody likes, in the middle of weeks that ended so many weeks ago."""
    return [liked(3 - 7 * week, user, "UFAN") for week in days]


def test_a_question_that_nobody_answered_is_listed_and_what_is_none_is_not() -> None:
    old = [said(-40, user) for user in ("UA", "UBB")]
    new, older = asked(4, "UA"), asked(2, "UA")
    rows = queue({"C1": [*old, older, new, said(5, "UA"), said(3, "UBB")]})
    assert [row["action"] for row in rows] == ["Answer"], "one of each asker"
    assert rows[0]["message"] == f"C1/{new['ts']}/"
    assert rows[0]["date"] == "2024-03-14"
    assert (
        rows[0]["reason"] == "Nobody answered this question. 1 other question of theirs waits too."
    )
    assert rows[0]["item"] == f"question C1/{new['ts'].replace('.', '')}"


def test_what_may_have_been_answered_comes_last_and_says_so() -> None:
    old = [said(-40, user) for user in ("UA", "UBB", "UCCC")]
    late, open_ = asked(4, "UA"), asked(2, "UCCC")
    at, text = f"{int(late['ts'][:10]) + 2 * 3600}.000000", "the blue lock of the shed was new"
    rows = queue({"C1": [*old, open_, late, said(4, "UBB", text=text, ts=at)]})
    assert [row["person"] for row in rows if row["action"] == "Answer"] == ["UCCC", "UA"]
    assert rows[-1]["reason"].startswith("Maybe answered: somebody wrote next, but late")


def test_a_newcomer_is_welcomed_once_whatever_they_asked() -> None:
    hello, question = said(1, "UNEW"), asked(2, "UNEW")
    (row,) = queue({"C1": [said(-40, "UA"), hello, said(3, "UNEW")]})
    assert (row["action"], row["person"]) == ("Welcome", "UNEW")
    assert row["reason"] == "New: nobody answered 2 messages of theirs."
    assert row["message"] == f"C1/{hello['ts']}/"
    (row,) = queue({"C1": [said(-40, "UA"), hello], "C2": [question, asked(3, "UNEW")]})
    assert (row["action"], row["item"]) == ("Welcome", "newcomer UNEW")
    assert row["reason"] == ("New: nobody answered 3 messages of theirs, 2 questions among them.")
    assert row["message"] == f"C2/{question['ts']}/", "there the answer is waited for"


def test_a_newcomer_whose_reply_drew_something_is_not_said_to_be_unanswered() -> None:
    head = said(-40, "UA")
    reply = said(1, "UNEW", head)
    thanked = said(2, "UA", head)
    liked_reply = reply | {"reactions": [{"name": "heart", "users": ["UA"], "count": 1}]}
    assert [row["action"] for row in queue({"C1": [head, reply]})] == ["Welcome"]
    for messages in ([head, reply, thanked], [head, liked_reply]):
        assert queue({"C1": messages}) == []
        (row,) = looked({"C1": messages}).rows("newcomers")
        assert (row["messages"], row["answered"]) == (1, 1)
    earlier = said(0, "UA", head)
    assert [row["action"] for row in queue({"C1": [head, earlier, reply]})] == ["Welcome"]


def test_nobody_welcomes_an_account_that_is_gone() -> None:
    new = [said(-40, "UA"), said(1, "UNEW")]
    assert [row["person"] for row in queue({"C1": new})] == ["UNEW"]
    assert queue({"C1": new}, users={"UNEW": User("UNEW", deleted=True)}) == []


def test_nothing_in_an_archived_channel_is_to_be_answered() -> None:
    question = [said(-40, "UA"), asked(1, "UA")]
    assert [row["action"] for row in queue({"C1": question})] == ["Answer"]
    assert queue({"C1": question}, archived=["C1"]) == []


def test_who_wrote_in_most_weeks_and_then_not_for_two_is_missed() -> None:
    always = weekly("UA", *range(10))
    missed, rare, lately = weekly("UMISSED", *range(2, 10)), weekly("URARE", 3, 9), weekly("UL", 1)
    rows = queue({"C1": [*always, *missed, *rare, *lately]})
    assert [(row["action"], row["person"]) for row in rows] == [("Write to", "UMISSED")]
    assert rows[0]["reason"] == "Wrote in 8 of 8 weeks, then for 2 weeks nothing."
    assert rows[0]["message"] == f"C1/{missed[0]['ts']}/"
    gone = {"UMISSED": User("UMISSED", deleted=True)}
    assert queue({"C1": [*always, *missed]}, users=gone) == []


def test_who_or_what_is_back_since_the_period_is_not_listed() -> None:
    always = weekly("UA", *range(10))
    missed = weekly("UMISSED", *range(2, 10))
    heads = [said(-30 + day, "UA") for day in range(6)]
    answers = [said(-29 + day, "UKNOWS", head) for day, head in enumerate(heads)]
    talk = [liked(-20 + day, uid, "UFAN") for day in range(3) for uid in ("UA", "UBB")]
    messages = {"C1": [*always, *missed, *heads, *answers], "C2": talk}
    found = {row["action"] for row in queue(messages)}
    assert found == {"Write to", "Find help for", "Revive"}
    messages["C1"] += [liked(9, "UMISSED", "UFAN"), liked(9, "UKNOWS", "UFAN")]
    messages["C2"].append(liked(9, "UA", "UFAN"))
    assert queue(messages) == []


def test_nobody_is_missed_while_everybody_is_on_holidays() -> None:
    people = ["UA", "UBB", "UCCC", "UDDDD"]
    everybody = [of for uid in people for of in weekly(uid, *range(2, 10))]
    # In the last two weeks one of four was there.
    assert queue({"C1": [*everybody, *weekly("UA", 0, 1)]}) == []
    back = [of for uid in people[:3] for of in weekly(uid, 0, 1)]
    assert [row["person"] for row in queue({"C1": [*everybody, *back]})] == ["UDDDD"]


def test_a_channel_that_lost_the_one_who_answered_needs_help() -> None:
    heads = [said(-30 + day, "UASKS") for day in range(6)]
    answers = [said(-29 + day, "UKNOWS", head) for day, head in enumerate(heads)]
    now = liked(1, "UASKS", "UFAN")
    rows = queue({"C1": [*heads, *answers, now]})
    found = [row for row in rows if row["action"] == "Find help for"]
    assert [(row["channel"], row["person"]) for row in found] == [("C1", "UKNOWS")]
    assert found[0]["reason"].startswith("Gave 6 of 6 answers here,")
    back = liked(2, "UKNOWS", "UFAN")
    assert not any(
        row["action"] == "Find help for" for row in queue({"C1": [*heads, *answers, now, back]})
    )


def test_a_channel_that_fell_silent_is_listed_if_people_talked_there() -> None:
    talk = [liked(-20 + day, uid, "UFAN") for day in range(3) for uid in ("UA", "UBB")]
    alone = [liked(-20 + day, "UA", "UFAN") for day in range(6)]
    rows = queue({"C1": talk, "C2": alone, "C3": weekly("UA", 0) + weekly("UBB", 0)})
    assert [(row["action"], row["channel"]) for row in rows] == [("Revive", "C1")]
    assert rows[0]["reason"] == "6 messages by 2 people before, none in this period."


def test_who_joined_and_never_wrote_is_said_hello_to() -> None:
    rows = queue({"C1": [liked(-40, "UA", "UFAN"), liked(1, "UA", "UFAN"), joined(2, "USHY")]})
    assert [(row["action"], row["person"]) for row in rows] == [("Say hello to", "USHY")]
    assert rows[0]["reason"] == "Joined 1 channel, and wrote nothing so far."


def test_kinds_take_turns_and_overview_has_the_first_ten() -> None:
    old = [liked(-40, "UA", "UFAN")]
    questions = [asked(day, f"UA{'A' * day}") for day in range(6)]
    known = [liked(-40, of["user"], "UFAN") for of in questions]
    new = [said(day, f"UNEWCOMERS{'N' * day}") for day in range(6)]
    messages = {"C1": [*old, *known, *new], "C2": questions}
    rows = queue(messages)
    assert [row["action"] for row in rows[:4]] == ["Answer", "Welcome", "Answer", "Welcome"]
    top = looked(messages, "overview").tables["queue"]
    assert top.rows.to_dicts() == rows[:SHOWN]
    assert (len(rows), top.whole) == (12, "todo")


def test_what_is_marked_is_left_out_and_listed_below_with_who_said_so() -> None:
    old = [said(-40, user) for user in ("UA", "UBB")]
    messages = {"C1": [*old, asked(4, "UA"), asked(2, "UBB")]}
    first, second = queue(messages)
    marks = {
        first["item"]: ItemMark(MarkState.NOT_A_QUESTION, "UCARA"),
        "question C9/1": second["item"],
    }
    marks["question C9/1"] = ItemMark(MarkState.DONE)
    found = looked(messages, marks=marks)
    assert found.rows("queue") == [second]
    (row,) = found.rows("marked")
    assert (row["item"], row["state"], row["by"]) == (first["item"], "not a question", "UCARA")
    assert "marked" not in looked(messages).tables


def test_what_happens_again_is_another_item() -> None:
    always = weekly("UA", *range(10))
    before = queue({"C1": [*always, *weekly("UMM", *range(2, 10))]})
    again = queue({"C1": [*always, *weekly("UMM", *range(3, 10))]})
    assert before[0]["item"] != again[0]["item"]


def test_of_a_channel_or_a_person_it_is_what_concerns_them() -> None:
    old = [said(-40, user) for user in ("UA", "UBB")]
    messages = {"C1": [*old, asked(4, "UA")], "C2": [asked(2, "UBB")]}
    assert [row["channel"] for row in queue(messages, channel="C2")] == ["C2"]
    assert "queue" not in looked(messages, person="UA").tables
    assert "queue" not in looked(messages, "overview", person="UA").tables
    assert queue(messages, smallest_group=3) == []


@pytest.mark.parametrize(
    ("key", "is_one"),
    [
        ("question C1/1709573400000300", True),
        ("newcomer U1", True),
        ("answerer C1/U1/1709573400000300", True),
        ("secret U1", False),
        ("question", False),
        ("question C1/1/2/3", False),
        ("question " + "C" * 101, False),
        ("newcomer <b>", False),
    ],
)
def test_only_keys_that_items_may_have_can_be_marked(key: str, is_one: bool) -> None:
    assert is_item(key) == is_one
