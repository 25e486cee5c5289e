"""Who interacts with whom: circles for people, lines between them.

Rule: the same network gives the same places. Everybody begins on a spiral, the weightiest within;
each step pushes all apart, pulls those who interact together and everyone gently to the middle, and
moves them less than the step before (Fruchterman and Reingold 1991). Names are written as long as
they do not lie upon each other, the weightiest first; all are shown when pointed at.
"""

import cmath
import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from typing import Final, TypeAlias

from markupsafe import Markup

from channelstats.pages.model import Network
from channelstats.render.charts.drawing import LETTER, WIDE, Leads, Place, nowhere, picture, shape
from channelstats.render.words import cut_off

Places: TypeAlias = dict[str, complex]
"""By ID; across is the real part and down the imaginary one."""

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom."""

_STEPS: Final = 140
_GOLDEN: Final = math.pi * (3 - math.sqrt(5))
_MIDDLE: Final = 1.1
"""How strongly the middle pulls."""

_TOP: Final = 30
_SMALLEST: Final = 4
_LINES: Final = 5
"""Widths of lines; the style sheet has one for each."""

_LARGE: Final = 8
"""From this size on no name lies upon a circle."""

_LONGEST: Final = 18
"""Letters of a name."""


def network(
    chart: Network,
    width: float,
    named: Callable[[str], str],
    chosen: str = "",
    leads: Leads = nowhere,
) -> Markup:
    """The picture; ``named`` gives what to call a person. Whoever is ``chosen`` stands out."""
    height = 600 if width >= WIDE else 400
    parts = _parts(chart, width, height, named, chosen, leads)
    return picture("network", width, height, _says(chart, named), parts)


def _parts(
    chart: Network,
    width: float,
    height: float,
    named: Callable[[str], str],
    chosen: str,
    leads: Leads,
) -> Iterator[Markup | Place]:
    is_wide = width >= WIDE
    side, largest = (70, 18) if is_wide else (30, 12)
    across, down = width - 2 * side, height - 2 * _TOP
    at = {
        uid: complex(side + place.real * across, _TOP + place.imag * down)
        for uid, place in places(chart).items()
    }
    strongest = max((edge.weight for edge in chart.edges), default=1)
    for edge in reversed(chart.edges):
        if edge.one in at and edge.other in at:
            strength = 1 + int((_LINES - 1) * math.sqrt(edge.weight / strongest))
            one, other = at[edge.one], at[edge.other]
            ends = {"x1": one.real, "y1": one.imag, "x2": other.real, "y2": other.imag}
            yield shape("line", f"edge e{strength}", **ends)
    heaviest = max((node.weight for node in chart.nodes), default=1) or 1
    sizes = {}
    for node in chart.nodes:
        size = _SMALLEST + (largest - _SMALLEST) * math.sqrt(node.weight / heaviest)
        sizes[node.id] = size
        kind = "node chosen" if node.id == chosen else "node"
        tip = f"{named(node.id)}\n{node.weight:,} in all"
        circle = {"cx": at[node.id].real, "cy": at[node.id].imag, "r": size}
        yield shape("circle", kind, **circle)
        yield Place("circle", circle, tip, leads((node.id,)))
    most = 60 if is_wide else 22
    names = {node.id: cut_off(named(node.id), _LONGEST) for node in chart.nodes[:most]}
    yield from _names(names, at, sizes, width)


def _names(
    names: Mapping[str, str], at: Places, sizes: Mapping[str, float], width: float
) -> Iterator[Markup]:
    """Each name below, above, right or left of its circle, where there is room."""
    taken = [_around(at[uid], size, size) for uid, size in sizes.items() if size >= _LARGE]
    for uid, text in names.items():
        x, y = at[uid].real, at[uid].imag
        half, away = LETTER * len(text) / 2, sizes[uid]
        for across, base in (
            (x, y + away + 13),
            (x, y - away - 5),
            (x + away + half + 4, y + 4),
            (x - away - half - 4, y + 4),
        ):
            middle = min(max(across, half + 2), width - half - 2)
            place = _around(complex(middle, base - 4), half, 7)
            if not any(_overlap(place, other) for other in taken):
                taken.append(place)
                yield shape("text", "name", text, x=middle, y=base, text_anchor="middle")
                break


def _around(middle: complex, half_wide: float, half_high: float) -> Box:
    x, y = middle.real, middle.imag
    return (x - half_wide, y - half_high, x + half_wide, y + half_high)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _says(chart: Network, named: Callable[[str], str]) -> str:
    if not chart.nodes:
        return f"{chart.title}: nobody interacted with anybody in this period."
    strongest = ", ".join(
        f"{named(edge.one)} and {named(edge.other)} ({edge.weight:,})" for edge in chart.edges[:3]
    )
    return f"{chart.title}: {len(chart.nodes):,} people. The strongest: {strongest}."


@lru_cache(maxsize=32)
def places(network: Network) -> Places:
    """The place of each node, from 0 to 1 across and down. Takes some tenths of a second for
    sixty.
    """
    nodes = network.nodes
    if not nodes:
        return {}
    number = {node.id: at for at, node in enumerate(nodes)}
    most = max((edge.weight for edge in network.edges), default=1)
    pulls = [
        (number[edge.one], number[edge.other], 0.15 + 0.85 * edge.weight / most)
        for edge in network.edges
        if edge.one in number and edge.other in number and edge.one != edge.other
    ]
    near = 0.75 / math.sqrt(len(nodes))
    heaviest = max(node.weight for node in nodes) or 1
    sizes = [near * near * (0.6 + 1.4 * math.sqrt(node.weight / heaviest)) for node in nodes]
    pairs = [
        (one, other, sizes[one] + sizes[other]) for one, other in combinations(range(len(nodes)), 2)
    ]
    at = [cmath.rect(0.5 * math.sqrt(n / len(nodes)), n * _GOLDEN) for n in range(len(nodes))]
    for step in range(_STEPS):
        moves = [-_MIDDLE * near * place for place in at]
        for one, other, size in pairs:
            apart = at[one] - at[other]
            push = apart * (size / (abs(apart) ** 2 + 1e-9))
            moves[one] += push
            moves[other] -= push
        for one, other, weight in pulls:
            apart = at[one] - at[other]
            pull = apart * (abs(apart) / near * weight * 0.6)
            moves[one] -= pull
            moves[other] += pull
        farthest = 0.12 * (1 - step / _STEPS) + 0.001
        at = [
            place + move * min(1, farthest / (abs(move) or 1))
            for place, move in zip(at, moves, strict=True)
        ]
    across, down = (
        _stretched([point.real for point in at]),
        _stretched([point.imag for point in at]),
    )
    return dict(zip(number, map(complex, across, down), strict=True))


def _stretched(values: list[float]) -> list[float]:
    """So that they go from 0 to 1; alone, in the middle."""
    least, most = min(values), max(values)
    return [(value - least) / (most - least) if most > least else 0.5 for value in values]
