"""Pictures."""

import re
from xml.etree import ElementTree

import msgspec
import pytest
from markupsafe import Markup

from channelstats.metrics.table import Kind
from channelstats.pages.model import DateNote, Edge, Heat, Network, Node, Series, SeriesChart
from channelstats.render.charts import drawn as with_legend
from channelstats.render.charts.drawing import HALF, LETTER, NARROW, WIDE
from channelstats.render.charts.heat import STEPS, heat, step
from channelstats.render.charts.network import network, places
from channelstats.render.charts.series import series

EVIL = '"><script>alert(1)</script>'
DAYS = tuple(f"2024-03-{day:02d}" for day in range(3, 10))
WIDTHS = (WIDE, HALF, NARROW)

LINES = SeriesChart(
    "lines",
    "messages",
    "Messages",
    "Day",
    DAYS,
    Kind.COUNT,
    (
        Series("now", "This period", (1, 2, None, 4, None, None, 7)),
        Series("before", "The period before", (1, 1, 1, 1, 1, 1, 1), faint=True),
    ),
)
BARS = SeriesChart(
    "bars", "hours", "By hour", "Hour", ("00:00", "01:00"), Kind.COUNT, LINES.series[1:]
)
HEAT = Heat("heat", "Heat", ("Mon", "Tue"), ("a", "b", "c"), ((0, 1, 9), (None, 5, 2)), Kind.COUNT)
NETWORK = Network(
    "network",
    "Who interacts with whom",
    tuple(Node(f"U{number}", 40 - number) for number in range(12)),
    tuple(Edge(f"U{number}", f"U{number // 2}", 9 - number % 5) for number in range(1, 12)),
)


def drawn(picture: Markup) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def texts(picture: Markup) -> tuple[str, list[str], list[str]]:
    """What it says, its tips and its labels."""
    parts = list(drawn(picture).iter())
    tips = [tip for part in parts if (tip := part.get("data-tip"))]
    labels = [part.text or "" for part in parts if part.tag == "text"]
    return drawn(picture).get("aria-label") or "", tips, labels


def kinds(picture: Markup, tag: str) -> list[str]:
    return [of.get("class", "") for of in drawn(picture).iter(tag)]


def numbers(picture: Markup) -> list[float]:
    return [float(of) for of in re.findall(r'(?:x|y|cx|cy|x1|x2|y1|y2)="(-?[0-9.]+)"', picture)]


def test_notes_on_dates_are_lines_with_their_texts_where_there_is_room() -> None:
    notes = tuple(
        DateNote(DAYS[at], DAYS[at], text)
        for at, text in ((1, f"{EVIL} and more"), (2, "too near"), (6, "Fair"))
    )
    chart = msgspec.structs.replace(LINES, notes=notes)
    for width in WIDTHS:
        said, tips, labels = texts(series(chart, width))
        assert kinds(series(chart, width), "line").count("noted") == 3
        assert {'"><script>alert(1)<…', "Fair"} <= set(labels)
        assert "too near" not in labels
        assert "Notes: Mon 4 Mar 2024: " in said
        assert tips[2].endswith("\nNote: Tue 5 Mar 2024: too near")
    assert "<li>Sat 9 Mar 2024: Fair</li>" in with_legend(chart)
    assert "<script" not in with_legend(chart)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_picture_is_an_image_that_says_what_it_shows(width: float) -> None:
    for picture, said in (
        (series(LINES, width), "This period: between 1 and 7, the most on Sat 9 Mar 2024."),
        (series(BARS, width), "The period before: the most at 00:00, 1."),
        (heat(HEAT, width), "The most: 9 at Mon, c."),
        (network(NETWORK, width, str.lower), "12 people. The strongest: u1 and u0 (8)"),
    ):
        image = drawn(picture)
        assert image.get("role") == "img"
        assert said in (image.get("aria-label") or "")


@pytest.mark.parametrize("width", WIDTHS)
def test_everything_is_within_the_picture(width: float) -> None:
    for picture in (
        series(LINES, width),
        series(BARS, width),
        heat(HEAT, width),
        network(NETWORK, width, str),
    ):
        _, _, wide, high = map(float, (drawn(picture).get("viewBox") or "").split())
        assert wide == width
        assert all(0 <= number <= max(wide, high) for number in numbers(picture))


def test_a_gap_in_the_numbers_is_a_gap_in_the_line() -> None:
    picture = series(LINES, WIDE)
    assert kinds(picture, "polyline") == ["line f1", "line s0"]
    assert kinds(picture, "circle") == ["dot s0"] * 4
    assert len([kind for kind in kinds(picture, "polygon") if kind == "area"]) == 3


def test_each_place_shows_its_numbers_when_pointed_at() -> None:
    tips = [of.get("data-tip") for of in drawn(series(LINES, WIDE)).iter("rect")]
    assert len(tips) == 7
    assert tips[2] == "Tue 5 Mar 2024\nThis period: \N{EN DASH}\nThe period before: 1"
    assert "Tue, b\n5" in [of.get("data-tip") for of in drawn(heat(HEAT, WIDE)).iter("rect")]


def test_one_number_alone_is_seen() -> None:
    alone = SeriesChart(
        "lines", "x", "X", "Day", ("2024-03-03",), Kind.COUNT, (Series("now", "Now", (3,)),)
    )
    assert kinds(series(alone, WIDE), "circle") == ["dot s0"]


def test_pictures_of_nothing_can_be_drawn() -> None:
    nothing = SeriesChart("lines", "x", "X", "Day", (), Kind.COUNT, ())
    assert "nothing in this period" in series(nothing, WIDE)
    no_bars = SeriesChart("bars", "x", "X", "Hour", (), Kind.COUNT, ())
    assert drawn(series(no_bars, WIDE)) is not None
    assert "nothing in this period" in heat(Heat("x", "X", (), (), (), Kind.COUNT), WIDE)
    assert "nobody interacted" in network(Network("x", "X", (), ()), WIDE, str)


def test_heat_has_a_colour_for_each_strength_and_none_for_no_cell() -> None:
    assert [step(value, 9) for value in (0, 0.1, 5, 8.99, 9)] == [0, 1, 4, 7, 7]
    assert step(1, 10**9) == 1
    assert max(step(value, 50) for value in range(51)) == STEPS
    assert len([kind for kind in kinds(heat(HEAT, WIDE), "rect") if kind.startswith("cell")]) == 5


def test_where_it_is_narrow_a_heat_map_stands_upright() -> None:
    labels = [of.text for of in drawn(heat(HEAT, NARROW)).iter("text")]
    assert labels[:2] == ["Mon", "Tue"]
    assert [of.text for of in drawn(heat(HEAT, WIDE)).iter("text")][:3] == ["a", "b", "c"]


def test_the_same_network_stands_in_the_same_places_within_bounds() -> None:
    first = places(NETWORK)
    places.cache_clear()
    assert places(NETWORK) == first
    assert len(set(first.values())) == len(NETWORK.nodes)
    assert all(0 <= at <= 1 for place in first.values() for at in (place.real, place.imag))


def test_who_interact_stand_closer_than_who_do_not() -> None:
    two_groups = Network(
        "x",
        "X",
        tuple(Node(of, 5) for of in "abcxyz"),
        tuple(Edge(one, other, 5) for one, other in ("ab", "bc", "ca", "xy", "yz", "zx")),
    )
    at = places(two_groups)

    def apart(one: str, other: str) -> float:
        return abs(at[one] - at[other])

    assert max(apart("a", "b"), apart("x", "y")) < min(apart("a", "x"), apart("b", "y"))


def test_one_person_alone_stands_in_the_middle() -> None:
    assert places(Network("x", "X", (Node("U1", 1),), ())) == {"U1": 0.5 + 0.5j}


def test_names_do_not_lie_upon_each_other_and_nobody_is_nameless_to_the_pointer() -> None:
    picture = network(NETWORK, NARROW, lambda uid: f"somebody called {uid}", "U3")
    every = list(drawn(picture).iter("circle"))
    circles = [of for of in every if of.get("data-tip")]
    assert len(circles) == len(NETWORK.nodes)
    assert circles[0].get("data-tip") == "somebody called U0\n40 in all"
    assert [of.get("class") for of in every].count("node chosen") == 1
    at = [(float(of.get("x") or 0), float(of.get("y") or 0)) for of in drawn(picture).iter("text")]
    half = len("somebody called U0") * LETTER / 2
    for number, (x, y) in enumerate(at):
        for other_x, other_y in at[number + 1 :]:
            assert abs(x - other_x) >= half or abs(y - other_y) >= 14


def test_names_are_text() -> None:
    evil = Series("now", EVIL, (1,) * 7)
    for picture in (
        series(SeriesChart("lines", "x", EVIL, EVIL, DAYS, Kind.COUNT, (evil,)), WIDE),
        series(SeriesChart("bars", "x", EVIL, EVIL, (EVIL,) * 7, Kind.COUNT, (evil,)), WIDE),
        heat(Heat("x", EVIL, (EVIL,), (EVIL,), ((1,),), Kind.COUNT), WIDE),
        network(NETWORK, WIDE, lambda _: EVIL),
    ):
        assert "<script" not in picture
        assert drawn(picture).tag == "svg"


def test_the_label_of_the_last_column_is_within_the_picture() -> None:
    parts = tuple(f"No. {number}" for number in range(7))
    chart = Heat("heat", "Heat", parts, tuple(map(str, range(24))), ((1,) * 24,) * 7, Kind.COUNT)
    labels = [
        (float(of.get("x", "")) + LETTER * len(of.text) / 2, of.text)
        for of in drawn(heat(chart, NARROW)).iter("text")
        if of.text and of.get("text-anchor") == "middle"
    ]
    assert labels[-1][1] == "No. 6"
    assert max(right for right, _ in labels) <= NARROW + 0.1


@pytest.mark.parametrize(
    ("of", "short", "long"),
    [("2024-03-10", "10 Mar", "Sun 10 Mar 2024"), ("Monday", "Mon", "Monday")],
)
def test_dates_and_weekdays_are_short_on_an_axis_and_long_where_they_are_said(
    of: str, short: str, long: str
) -> None:
    said, tips, labels = texts(heat(Heat("x", "X", (of,), ("a",), ((5,),), Kind.COUNT), WIDE))
    assert said.endswith(f"The most: 5 at {long}, a.")
    assert tips == [f"{long}, a\n5"]
    assert short in labels
    upright = heat(Heat("x", "X", (of,), ("a", "b"), ((5, 6),), Kind.COUNT), NARROW)
    assert f"a, {long}\n5" in texts(upright)[1]
    assert short in texts(upright)[2]
    bars = SeriesChart("bars", "x", "X", "Day", (of,), Kind.COUNT, (Series("n", "N", (5,)),))
    said, tips, labels = texts(series(bars, WIDE))
    assert said.endswith(f"the most at {long}, 5.")
    assert tips == [f"{long}\nN: 5"]
    assert short in labels


def test_where_it_is_narrow_every_row_of_a_heat_map_is_named() -> None:
    names = tuple(f"#channel-{number}" for number in range(11))
    hours = tuple(f"{number:02d}" for number in range(24))
    chart = Heat("x", "X", names, hours, ((1,) * 24,) * 11, Kind.COUNT)
    _, _, labels = texts(heat(chart, NARROW))
    assert set(names) <= set(labels)
    days = Heat("x", "X", ("Monday", "Tuesday"), hours, ((1,) * 24,) * 2, Kind.COUNT)
    _, _, labels = texts(heat(days, NARROW))
    assert set(hours) <= set(labels)  # upright, as the names of days have room side by side


def test_a_name_that_is_too_long_for_a_narrow_heat_map_is_cut_off() -> None:
    _, tips, labels = texts(heat(Heat("x", "X", ("n" * 80,), ("a",), ((5,),), Kind.COUNT), NARROW))
    assert labels[-1] == "n" * 17 + "…"
    assert tips[0].startswith("n" * 80)


def test_rows_of_few_people_say_how_many_and_are_pale() -> None:
    chart = Heat("x", "X", ("A", "B"), ("1",), ((100,), (50,)), Kind.PERCENT, sizes=(1, 8))
    picture = heat(chart, WIDE)
    _, tips, labels = texts(picture)
    assert {"A (1)", "B (8)"} <= set(labels)
    assert tips == ["A, 1\n100.0% of 1", "B, 1\n50.0% of 8"]
    assert picture.count(" few") == 1
    assert "paler: of fewer than 5 people" in with_legend(chart)


def test_a_chart_that_leads_somewhere_is_a_list_of_links_and_no_image() -> None:
    for chart, place in ((LINES, "2024-03-05"), (NETWORK, "U0")):
        plain, linked = with_legend(chart), with_legend(chart, leads=lambda of: f"/{of[0]}")
        assert "<a " not in plain
        assert 'role="img"' in plain
        assert 'role="img"' not in linked
        assert f'href="/{place}"' in linked
        for picture in re.findall(r"<svg class=[^>]*aria-label.*?</svg>", linked, re.DOTALL):
            drawing, _, places = picture.partition('<g role="list">')
            assert '<g aria-hidden="true">' in drawing
            assert "<a " not in drawing
            assert places.count("<a ") == places.count('role="listitem"') > 1
            assert places.count("aria-label=") == places.count("<a ")
