"""Who deals with whom: circles for people, lines between them.

Rule: names are written as long as they do not lie upon each other, the weightiest first; all are
shown when pointed at.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from markupsafe import Markup

from channelstats.render.charts.drawing import LETTER, WIDE, picture, rule, tip_text, words
from channelstats.render.charts.layout import places
from channelstats.views.model import Network

_HIGH: Final = {True: 600, False: 400}
_SIDE, _TOP = {True: 70, False: 30}, 30
_SMALLEST: Final = 4
_LARGEST: Final = {True: 18, False: 12}
_NAMES: Final = {True: 60, False: 22}
_LINES: Final = 5
"""Widths of lines; the style sheet has one for each."""

_LARGE: Final = 8
"""From this size on no name lies upon a circle."""

_LONGEST: Final = 18
"""Letters of a name."""

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def network(chart: Network, width: float, named: Callable[[str], str], chosen: str = "") -> Markup:
    """The picture; ``named`` gives what to call a person. Whoever is ``chosen`` stands out."""
    parts = _parts(chart, width, named, chosen)
    return picture("network", width, _HIGH[width >= WIDE], _says(chart, named), parts)


def _parts(
    chart: Network, width: float, named: Callable[[str], str], chosen: str
) -> Iterator[Markup]:
    height, side = _HIGH[width >= WIDE], _SIDE[width >= WIDE]
    at = {
        of: (side + x * (width - 2 * side), _TOP + y * (height - 2 * _TOP))
        for of, (x, y) in places(chart).items()
    }
    strongest = max((edge.weight for edge in chart.edges), default=1)
    for edge in reversed(chart.edges):
        if edge.one in at and edge.other in at:
            strength = 1 + int((_LINES - 1) * math.sqrt(edge.weight / strongest))
            yield rule(f"edge e{strength}", *at[edge.one], *at[edge.other])
    weightiest = max((node.weight for node in chart.nodes), default=1) or 1
    large = _LARGEST[width >= WIDE]
    sizes = {
        node.id: _SMALLEST + (large - _SMALLEST) * math.sqrt(node.weight / weightiest)
        for node in chart.nodes
    }
    for node in chart.nodes:
        x, y = at[node.id]
        shape = Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{:.1f}" data-tip="{}"/>')
        kind = "node chosen" if node.id == chosen else "node"
        tip = f"{named(node.id)}\n{node.weight:,} in all"
        yield shape.format(kind, x, y, sizes[node.id], tip_text(tip))
    yield from _names(chart, at, sizes, named, width)


def _names(
    chart: Network,
    at: Mapping[str, tuple[float, float]],
    sizes: Mapping[str, float],
    named: Callable[[str], str],
    width: float,
) -> Iterator[Markup]:
    taken = [_around(*at[of], size, size) for of, size in sizes.items() if size >= _LARGE]
    for node in chart.nodes[: _NAMES[width >= WIDE]]:
        name = named(node.id)
        text = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
        x, y = at[node.id]
        half, away = LETTER * len(text) / 2, sizes[node.id]
        for across, base in (
            (x, y + away + 13),
            (x, y - away - 5),
            (x + away + half + 4, y + 4),
            (x - away - half - 4, y + 4),
        ):
            middle = min(max(across, half + 2), width - half - 2)
            place = _around(middle, base - 4, half, 7)
            if not any(_overlap(place, other) for other in taken):
                taken.append(place)
                yield words("name", middle, base, text)
                break


def _around(x: float, y: float, half_wide: float, half_high: float) -> Box:
    return (x - half_wide, y - half_high, x + half_wide, y + half_high)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _says(chart: Network, named: Callable[[str], str]) -> str:
    if not chart.nodes:
        return f"{chart.title}: nobody dealt with anybody in this period."
    strongest = ", ".join(
        f"{named(edge.one)} and {named(edge.other)} ({edge.weight:,})" for edge in chart.edges[:3]
    )
    return f"{chart.title}: {len(chart.nodes):,} people. The strongest: {strongest}."
