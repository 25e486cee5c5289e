"""Goals and alerts: bounds for the figures of views.

W2 of the worked example, 2024-03-10 to 16: three people post eight messages, half of which nobody
answers.
"""

import re
from datetime import date

import pytest

from channelstats.facts import Options, Period
from channelstats.metrics.table import Kind
from channelstats.pages.goals import Bound, Measured, figures, measure_week, parse_bound
from channelstats.pages.loading import load
from channelstats.pages.model import VIEWS, Choice
from channelstats.pages.views import view_of
from support.channelstats.house import UTC, House

W2 = Period(date(2024, 3, 10), 7, UTC)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("threads.unanswered_share <= 30", Bound("threads.unanswered_share", "<=", 30)),
        (" threads.unanswered_share<=30.5% ", Bound("threads.unanswered_share", "<=", 30.5)),
        ("people.posters >= 100", Bound("people.posters", ">=", 100)),
        ("threads.first_reply < 90", Bound("threads.first_reply", "<", 90)),
        ("threads.first_reply > 2min", Bound("threads.first_reply", ">", 120)),
        ("threads.first_reply_p90 <= 2 d", Bound("threads.first_reply_p90", "<=", 172_800)),
        ("channels.private >= 1", Bound("channels.private", ">=", 1)),
    ],
)
def test_a_bound_is_a_figure_a_sign_and_a_number(text: str, bound: Bound) -> None:
    assert parse_bound(text) == bound


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("threads.unanswered", "expected a figure and a bound"),
        ("threads.unanswered = 3", "expected a figure and a bound"),
        ("threads.unanswered <= -3", "expected a figure and a bound"),
        ("threads.unanswerd <= 3", "did you mean 'threads.unanswered'?"),
        ("unanswered_share <= 3", "did you mean 'threads.unanswered_share'?"),
        ("overview.first_time <= 3", "did you mean 'newcomers.first_time'?"),
        ("zzz <= 3", "there is no figure of that name, as 'threads.unanswered_share <= 30' has"),
        ("people.posters <= 3%", "people.posters is not a percentage"),
        ("people.posters <= 3 h", "people.posters is not a time"),
    ],
)
def test_what_is_wrong_is_said_with_the_nearest_name(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_bound(text)


@pytest.mark.parametrize(
    ("sign", "holding"), [("<=", (2, 3)), (">=", (3, 4)), ("<", (2,)), (">", (4,))]
)
def test_a_bound_holds_where_its_sign_says(sign: str, holding: tuple[int, ...]) -> None:
    bound = Bound("people.posters", sign, 3)
    assert tuple(value for value in (2, 3, 4) if bound.holds(value)) == holding


async def test_every_tile_of_a_view_is_a_figure_of_its_kind(example: House) -> None:
    choice = Choice(W2.start, W2.last)
    data = await load(example.tables, choice, Options())
    for name in VIEWS:
        for tile in view_of(name, data, choice).tiles:
            known = figures()[f"{name}.{tile.name}"]
            assert (known.title, known.kind) == (tile.title, tile.kind)


async def test_the_figures_of_a_week_are_measured_in_their_order(example: House) -> None:
    wanted = [
        Bound("threads.unanswered_share", "<=", 30),
        Bound("people.posters", ">=", 3),
        Bound("channels.private", ">=", 5),
    ]
    goals, alerts = await measure_week(example.tables, W2, wanted, wanted[1:2], Options())
    assert await measure_week(example.tables, W2, [], [], Options()) == ([], [])
    assert [(goal.value, goal.holds) for goal in goals] == [(50.0, False), (3, True), (None, None)]
    assert alerts == [Measured(wanted[1], figures()["people.posters"].title, Kind.COUNT, 3)]
