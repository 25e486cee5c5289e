"""What the team and all others wrote, answered and asked."""

import pytest

from channelstats.facts import Options
from channelstats.tables.directory import User
from support.channelstats.pages import Looked, data_of, look
from support.channelstats.said import said

TEAM = frozenset({"@ann", "UTWO"})


def looked(
    view: str = "threads",
    team: frozenset[str] = TEAM,
    smallest_group: int = 1,
    outside: tuple[str, ...] = (),
) -> Looked:
    """A thread that UANN of the team answers, one that a member does, a question of either."""
    one, other = said(0, "UM", reply_count=2), said(2, "UANN", reply_count=1)
    threads = [one, said(1, "UANN", one), said(3, "UMEM", one), other, said(4, "UM", other)]
    asked = {f"C{uid}": [said(5, uid, text="who has the key?")] for uid in ("UM", "UMEM", "UTWO")}
    messages = {"C1": threads, **asked}
    users = {uid: User(uid, is_stranger=True) for uid in outside}
    users["UANN"] = User("UANN", user_name="ann")
    data = data_of(messages, users=users, options=Options(team=team))
    return look(view, data, smallest_group=smallest_group)


@pytest.mark.parametrize("view", ["threads", "todo"])
def test_first_answers_and_unanswered_questions_are_split_by_the_team(view: str) -> None:
    day = 86_400
    assert looked(view).rows("team") == [
        {
            "group": "Team",
            "messages": 3,
            "first_answers": 1,
            "first_answer": day + 2,
            "questions_left": 1,
        },
        {
            "group": "Members",
            "messages": 5,
            "first_answers": 1,
            "first_answer": 2 * day - 2,
            "questions_left": 2,
        },
    ]


def test_without_a_team_or_with_a_small_one_nothing_is_split() -> None:
    assert "team" not in looked(team=frozenset()).tables
    assert "team" in looked(smallest_group=2).tables
    assert "team" not in looked(smallest_group=3).tables


def test_external_people_are_told_apart_unless_they_are_few() -> None:
    written = {row["group"]: row["messages"] for row in looked(outside=("UMEM",)).rows("team")}
    assert written == {"Team": 3, "Members": 3, "External": 2}
    written = {
        row["group"]: row["messages"]
        for row in looked(outside=("UMEM",), smallest_group=2).rows("team")
    }
    assert written == {"Team": 3, "Members": 5}
