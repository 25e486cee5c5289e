"""The lists of the view "To do": each row is something to act on, and leads to its message."""

from collections.abc import Mapping

from channelstats.days import DAY
from channelstats.facts.periods import History
from channelstats.tables.directory import User
from support.channelstats.pages import Row, data_of, look
from support.channelstats.said import LONG_AGO, WEEK, joined, liked, said
from support.channelstats.workspace import Raw


def cell(cid: str, message: Raw) -> str:
    return f"{cid}/{message['ts']}/"


def todo(
    messages: dict[str, list[Raw]],
    *,
    archived: str = "",
    history: History = LONG_AGO,
    channel: str = "",
    person: str = "",
    smallest_group: int = 1,
    users: Mapping[str, User] | None = None,
) -> dict[str, list[Row]]:
    data = data_of(messages, users=users, history=history, archived=[archived])
    shown = look("todo", data, channel, person, smallest_group=smallest_group)
    return {name: shown.rows(name) for name in shown.tables}


def test_messages_that_nobody_answered_are_listed_newest_first() -> None:
    old, new, asked = said(0, "UA"), said(3, "UB"), said(1, "UC")
    answered, own = said(2, "UD"), said(2, "UD")
    messages = {"C1": [old, new, asked, said(2, "UA", asked), liked(4, "UA", "UB")]}
    found = todo(messages)["unanswered"]
    assert [row["message"] for row in found] == [cell("C1", new), cell("C1", old)]
    assert [row["person"] for row in found] == ["UB", "UA"]
    assert found[0]["date"] == "2024-03-13"
    alone = {"C1": [answered, said(3, "UD", own)]}
    assert [row["person"] for row in todo(alone)["unanswered"]] == ["UD"], "an answer by oneself"


def test_newcomers_are_listed_those_whom_nobody_answered_first() -> None:
    known, lonely, welcome = said(-9, "UA"), said(1, "UNEW1"), said(3, "UNEW22")
    messages = {"C1": [known, said(0, "UA"), lonely, welcome, said(4, "UA", welcome)]}
    found = todo(messages)["newcomers"]
    assert [(row["person"], row["answered"]) for row in found] == [("UNEW1", 0), ("UNEW22", 1)]
    assert found[0]["message"] == cell("C1", lonely)


def test_nobody_is_a_newcomer_before_history_is_known() -> None:
    messages = {"C1": [said(1, "UNEW1")]}
    assert todo(messages, history=History(WEEK.start - 7 * DAY, WEEK.last))["newcomers"] == []


def test_who_joined_and_never_posted_is_listed_the_newest_first() -> None:
    first, other = joined(1, "USHY1"), joined(2, "USHY22")
    messages = {
        "C1": [said(-9, "UA"), first, other, joined(1, "UB"), said(3, "UB"), joined(-2, "UOLD")],
        "C2": [joined(4, "USHY1"), joined(3, "UOLD"), said(-20, "UQUIET"), joined(2, "UQUIET")],
    }
    found = todo(messages)["never_posted"]
    assert [(row["person"], row["channels"]) for row in found] == [("USHY22", 1), ("USHY1", 2)]
    assert [row["message"] for row in found] == [cell("C1", other), cell("C1", first)]
    early = History(WEEK.start - 7 * DAY, WEEK.last)
    assert todo(messages, history=early)["never_posted"] == []
    # In a channel alone: who posted elsewhere did post.
    assert todo({**messages, "C3": [joined(1, "UA")]}, channel="C3")["never_posted"] == []


def test_who_left_the_workspace_needs_no_welcome() -> None:
    messages = {"C1": [said(-9, "UA"), joined(1, "UGONE"), joined(1, "UBOT11")]}
    people = {"UGONE": User("UGONE", deleted=True), "UBOT11": User("UBOT11", is_bot=True)}
    assert todo(messages)["never_posted"] != []
    assert todo(messages, users=people)["never_posted"] == []


def test_people_who_posted_before_and_not_now_are_listed_with_their_last_message() -> None:
    last = said(-2, "UA")
    found = todo({"C1": [said(-5, "UA"), last, said(-3, "UB"), said(1, "UB")]})["lapsed"]
    assert [(row["person"], row["messages_before"]) for row in found] == [("UA", 2)]
    assert found[0]["message"] == cell("C1", last)


def test_channels_that_fell_silent_are_listed_with_their_last_message() -> None:
    messages = {
        "C1": [said(1, "UA")],
        "C2": [said(-20, "UA"), said(-12, "UB")],
        "C3": [said(-2, "UA")],
        "C4": [said(-1, "UA")],
    }
    found = todo(messages, archived="C4")["silent"]
    assert [row["channel"] for row in found] == ["C3", "C2"]
    assert found[1]["message"] == cell("C2", messages["C2"][1])
    assert found[1]["person"] == "UB"
    only = todo(messages, archived="C4", smallest_group=2)
    assert [row["channel"] for row in only["silent"]] == []


def test_nobody_is_said_to_have_stayed_where_the_days_before_were_not_read() -> None:
    for first, is_known in ((WEEK.previous.start, True), (WEEK.start, False)):
        data = data_of({"C1": [said(1, "UA")]}, history=History(first, WEEK.last))
        empty = {of.title: of.empty for of in look("todo", data).view.sections}
        unknown = [empty[name].startswith("Not known") for name in _OF_THE_DAYS_BEFORE]
        assert unknown == [not is_known] * 2


_OF_THE_DAYS_BEFORE = ("People who stopped posting", "Channels gone silent")


def test_with_a_person_chosen_the_lists_are_about_the_person() -> None:
    messages = {"C1": [said(0, "UA"), said(1, "UB"), said(-2, "UC")], "C2": [said(-2, "UA")]}
    found = todo(messages, person="UA")
    assert [row["person"] for row in found["unanswered"]] == ["UA"]
    assert found["lapsed"] == []
    assert "silent" not in found


def test_of_those_who_stopped_accounts_that_were_deactivated_are_named_and_come_last() -> None:
    messages = {"C1": [*(said(-day, "UGONE") for day in (2, 3, 4)), said(-3, "UHERE2")]}
    found = todo(messages, users={"UGONE": User("UGONE", deleted=True)})["lapsed"]
    assert [(row["person"], row["messages_before"], row["account"]) for row in found] == [
        ("UHERE2", 1, ""),
        ("UGONE", 3, "deactivated"),
    ]
