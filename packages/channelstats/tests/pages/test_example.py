"""Figures of the worked example, as the dashboard shows them.

What its tables share with the report, ``test_against_reports`` has of every workspace.

W2 is 2024-03-10 to 16; A, B and C are UALICE, UBOB and UCARA.
"""

import asyncio
from datetime import date
from pathlib import Path

import pytest

from channelstats.facts import Options
from channelstats.pages.loading import DashboardData, load
from channelstats.pages.model import Choice
from support.channelstats.house import copied_house
from support.channelstats.pages import Looked, look

A, B, C = "UALICE", "UBOB", "UCARA"
W2 = Choice(date(2024, 3, 10), date(2024, 3, 16))


async def _loaded(taken_in: Path, folder: Path) -> DashboardData:
    async with copied_house(taken_in, folder) as opened:
        return await load(opened.tables, W2, Options())


@pytest.fixture(scope="module")
def w2(taken_in: Path, tmp_path_factory: pytest.TempPathFactory) -> DashboardData:
    return asyncio.run(_loaded(taken_in, tmp_path_factory.mktemp("example")))


def near(value: object) -> object:
    return pytest.approx(value, abs=5e-5)


def changes(of: Looked) -> dict[str, tuple[float, float | None]]:
    """What tiles show, and what they showed before."""
    found = {name: tile.change for name, tile in of.tiles.items()}
    return {name: (change["cur"], change["prev"]) for name, change in found.items() if change}


def test_tiles_of_the_overview(w2: DashboardData) -> None:
    overview = look("overview", w2)
    assert changes(overview) == {
        "posters": (3, 3),
        "messages": (8, 5),
        "first_reply": (1200, 2100),
        "open_questions": (0, 0),
    }
    messages = overview.tiles["messages"].change
    assert messages is not None
    assert messages["state"] == "up"
    assert messages["diff_pct"] == near(60)


def test_a_person_beside_the_mean_of_all_posters(w2: DashboardData) -> None:
    overview = look("overview", w2, person=A)
    assert changes(overview) == {
        "messages": (3, 1),
        "words": (20, 8),
        "share_of_messages": (37.5, 20.0),
        "threads_started": (1, 1),
        "first_reply": (1200, 2100),
        "unanswered": (50.0, 0.0),
        "reactions": (2, 3),
        "reactions_given": (2, 1),
        "answers": (3, 2),
    }
    assert {name: tile.everyone for name, tile in overview.tiles.items()} == {
        "messages": near(8 / 3),
        "words": near(40 / 3),
        "share_of_messages": near(100 / 3),
        "threads_started": near(1 / 3),
        "first_reply": 1200,
        "unanswered": 50.0,
        "reactions": 2.0,
        "reactions_given": 2.0,
        "answers": 1.0,
    }
    assert overview.series("messages")["now"] == (0, 1, 0, 1, 1, 0, 0)
    assert overview.series("messages")["everyone"] == near((2 / 3, 2 / 3, *[1 / 3] * 3, 0, 1 / 3))


def test_volume_by_day_against_the_week_before(w2: DashboardData) -> None:
    volume = look("volume", w2)
    assert volume.charts["posters"].labels[0] == "2024-03-10"
    assert volume.series("posters") == {
        "now": (2, 2, 1, 1, 1, 0, 1),
        "before": (1, 2, 1, 1, 0, 0, 0),
    }
    assert volume.series("words")["now"] == (10, 12, 5, 9, 2, 0, 2)


def test_hours_are_those_of_the_authors_clocks_weekends_too(w2: DashboardData) -> None:
    hours = look("hours", w2)
    heat = hours.charts["week"]
    assert heat.rows[0] == "Sunday"
    said = {
        (heat.rows[row], hour): n
        for row, values in enumerate(heat.values)
        for hour, n in enumerate(values)
        if n
    }
    assert said == {
        ("Sunday", 0): 1,
        ("Sunday", 5): 1,
        ("Sunday", 10): 1,
        ("Monday", 9): 1,
        ("Monday", 17): 1,
        ("Tuesday", 9): 1,
        ("Wednesday", 15): 1,
        ("Thursday", 8): 1,
    }
    days = hours.by("weekdays", "weekday")
    assert (days["Sunday"]["messages"], days["Sunday"]["words"]) == (3, 12)
    assert (days["Monday"]["messages"], days["Monday"]["words_before"]) == (2, 19)
    nine = hours.by("hours", "hour")["09:00"]
    assert (nine["messages"], nine["words"]) == (2, 14)
    assert hours.view.notes == ()


def test_weeks_begin_where_they_are_said_to(w2: DashboardData) -> None:
    monday = DashboardData(w2.inputs, w2.period, w2.options, first_weekday=0)
    assert look("hours", monday).charts["week"].rows[0] == "Monday"
    assert look("hours", monday).charts["weekdays"].labels[-1] == "Sunday"


def test_channels(w2: DashboardData) -> None:
    rows = look("channels", w2).rows("channels")
    assert [(row["channel"], row["private"], row["members"]) for row in rows] == [
        ("CGEN", "", 3),
        ("CDEV", "", 3),
    ]


def test_channels_of_a_person_stand_beside_the_words_of_all(w2: DashboardData) -> None:
    rows = look("channels", w2, person=C).rows("channels")
    assert [(row["channel"], row["channel_words"]) for row in rows] == [("CDEV", 16), ("CGEN", 24)]


def test_people_of_a_channel(w2: DashboardData) -> None:
    in_dev = look("people", w2, channel="CDEV").rows("people")
    assert [(row["person"], row["words"]) for row in in_dev] == [(A, 9), (C, 5), (B, 2)]
    assert in_dev[0]["change"]["state"] == "new"


def test_whom_a_person_deals_with(w2: DashboardData) -> None:
    people = look("people", w2, person=A)
    assert [row["person"] for row in people.rows("people")] == [A]
    assert people.rows("partners") == [
        {
            "person": B,
            "total": 6,
            "reactions_from": 1,
            "reacted_to": 2,
            "thread_responders": 2,
            "author_thread_responded": 0,
            "mentioned_you": 0,
            "you_mentioned": 1,
        },
        {
            "person": C,
            "total": 4,
            "reactions_from": 1,
            "reacted_to": 0,
            "thread_responders": 1,
            "author_thread_responded": 0,
            "mentioned_you": 0,
            "you_mentioned": 2,
        },
    ]


def test_threads(w2: DashboardData) -> None:
    threads = look("threads", w2)
    assert changes(threads) == {
        "threads_started": (1, 1),
        "replies": (50.0, 40.0),
        "first_reply": (1200, 2100),
        "first_reply_p90": (1200, 2100),
        "unanswered": (2, 1),
        "unanswered_share": (50.0, near(33.33333)),
    }
    waiting = threads.charts["first_replies"]
    assert dict(zip(waiting.labels, threads.series("first_replies")["now"], strict=True)) == {
        "under 1 min": 0,
        "under 5 min": 0,
        "under 15 min": 0,
        "under 1 h": 1,
        "under 4 h": 0,
        "under 1 day": 0,
        "over 1 day": 0,
        "never": 0,
    }
    assert threads.series("response_time")["now"] == (None, 1200, *[None] * 5)
    channels = threads.by("channels", "channel")
    assert channels["CGEN"]["replies"] == 80.0
    assert (channels["CDEV"]["unanswered"], channels["CDEV"]["first_reply"]) == (2, None)
    assert [row["date"] for row in threads.rows("most_replied")] == ["2024-03-11"]


def test_reactions(w2: DashboardData) -> None:
    reactions = look("reactions", w2)
    assert reactions.number("per_thousand_words") == 150.0
    assert [tuple(row.values()) for row in reactions.rows("receivers")] == [(B, 4), (A, 2)]


def test_network(w2: DashboardData) -> None:
    network = look("network", w2)
    first = network.rows("edges")[0]
    assert (first["mentions"], first["replies"], first["reactions"]) == (1, 0, 2)
    nodes = {node.id: node.weight for node in network.charts["network"].nodes}
    assert nodes == {A: 10, B: 9, C: 7}
    assert network.number("mutual") == near(200 / 3)


def test_newcomers(w2: DashboardData) -> None:
    newcomers = look("newcomers", w2)
    (week,) = newcomers.rows("weeks")
    assert week == {
        "week": "2024-03-10",
        "both": 3,
        "new": None,
        "returning": 0,
        "lapsed": 0,
        "rate": 100.0,
        "weekly": 3,
        "monthly": 3,
    }
    assert "first_time" not in changes(newcomers)  # history begins in the week before
    cohorts = newcomers.by("cohorts", "week")
    began = cohorts["2024-03-03"]
    assert (began["newcomers"], began["week_1"], began["week_2"]) == (3, 100.0, 100.0)
    assert began["week_3"] is None
    assert cohorts["2024-03-10"]["newcomers"] == 0
