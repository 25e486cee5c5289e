"""How many questions are open is one number, wherever it is said."""

import random
import re
from dataclasses import replace

import pytest

from channelstats.facts import facts
from channelstats.pages.loading import DashboardData
from channelstats.pages.model import Text
from channelstats.pages.queue import SHOWN
from channelstats.render.names import Directory
from channelstats.render.text import line_text
from channelstats.tables.directory import Channel, User
from support.channelstats.judged import JUDGED, STYLES, data_of, lines, said, strewn
from support.channelstats.pages import Looked, Row, look

NEWCOMER = "A+0: Hello from Rome\nA+1: where is the key of the shed?\nA+2: and who has a bike?"


def workspace(style: str) -> DashboardData:
    """A channel of that style, in which somebody new asks two questions late on the last day."""
    talks = strewn(style, random.Random(style))
    newcomer = said(lines(NEWCOMER), JUDGED.end - 3_600, {"A": "UNEW"})
    data = data_of([*talks, *newcomer])
    return replace(data, options=replace(data.options, team=frozenset({"U01", "U02", "U03"})))


def questions_of(row: Row) -> int:
    """How many questions an item of To do is about."""
    further = re.search(r"(\d+) (?:other )?question", row["reason"])
    return int(row["action"] == "Answer") + (int(further[1]) if further else 0)


def sentences(overview: Looked) -> str:
    (text,) = (part for part in overview.view.lead if isinstance(part, Text))
    return " ".join(line_text(line, Directory()) for line in text.lines)


@pytest.mark.parametrize("style", STYLES)
def test_tile_sentence_chart_to_do_and_team_count_the_same_questions(style: str) -> None:
    data = workspace(style)
    overview, todo = look("overview", data), look("todo", data)
    number = overview.number("open_questions")
    assert number
    assert f"Nobody answered {number} questions" in sentences(overview)
    assert sum(value or 0 for value in overview.series("open_questions")["now"]) == number
    items = todo.rows("queue")
    assert {row["action"] for row in items} == {"Answer", "Welcome"}
    assert sum(map(questions_of, items)) == number
    assert overview.rows("queue") == items[:SHOWN]
    assert sum(row["questions_left"] for row in todo.rows("team")) == number


def test_what_nobody_can_answer_any_more_is_no_open_question() -> None:
    data = workspace("free")
    before = look("overview", data).number("open_questions") or 0
    items = look("todo", data).rows("queue")
    item = next(row for row in items if row["action"] == "Answer")
    deactivated = {item["person"]: User(item["person"], deleted=True)}
    archived = {item["channel"]: Channel(item["channel"], is_archived=True)}
    for users, channels, left in (
        (deactivated, data.channels, before - questions_of(item)),
        ({}, archived, 0),
    ):
        inputs = replace(data.inputs, users=users, channels=channels)
        overview, todo = (look(view, replace(data, inputs=inputs)) for view in ("overview", "todo"))
        assert overview.number("open_questions") == left
        asked = [row for row in todo.rows("queue") if row["action"] == "Answer"]
        assert item["message"] not in {row["message"] for row in asked}


def test_of_too_many_the_newest_are_to_be_answered_and_no_number_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = look("todo", workspace("free")).rows("queue")
    for name in ("MOST_FOLLOWED", "NEWEST_FOLLOWED"):
        monkeypatch.setattr(facts, name, 20)
    overview, todo = (look(view, workspace("free")) for view in ("overview", "todo"))
    assert overview.number("open_questions") is None
    assert set(overview.series("open_questions")["now"]) == {None}
    assert "Nobody answered" not in sentences(overview)
    assert "questions_left" not in todo.tables["team"].rows.columns
    listed = {row["message"] for row in todo.rows("queue")}
    assert 0 < len(listed) < len(every)
    assert listed < {row["message"] for row in every}
