"""Where the people of a network stand: who deals much with each other stands close.

Rule: the same network gives the same places. Everybody begins on a spiral, the weightiest within;
each step pushes all apart, pulls those who deal with each other together and everyone gently to the
middle, and moves them less than the step before (Fruchterman and Reingold 1991).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from channelstats.views.model import Network

Places: TypeAlias = dict[str, tuple[float, float]]
"""By ID; across and down, from 0 to 1."""

_STEPS: Final = 140
_GOLDEN: Final = math.pi * (3 - math.sqrt(5))
_MIDDLE: Final = 1.1
"""How strongly the middle pulls."""


@lru_cache(maxsize=32)
def places(network: Network) -> Places:
    """The place of each node. Takes some tenths of a second for sixty."""
    ids = [node.id for node in network.nodes]
    if not ids:
        return {}
    number = {of: at for at, of in enumerate(ids)}
    most = max((edge.weight for edge in network.edges), default=1)
    pulls = [
        (number[edge.one], number[edge.other], 0.15 + 0.85 * edge.weight / most)
        for edge in network.edges
        if edge.one in number and edge.other in number and edge.one != edge.other
    ]
    across = [0.5 * math.sqrt(at / len(ids)) * math.cos(at * _GOLDEN) for at in range(len(ids))]
    down = [0.5 * math.sqrt(at / len(ids)) * math.sin(at * _GOLDEN) for at in range(len(ids))]
    near = 0.75 / math.sqrt(len(ids))
    heaviest = max(node.weight for node in network.nodes) or 1
    sizes = [0.6 + 1.4 * math.sqrt(node.weight / heaviest) for node in network.nodes]
    for step in range(_STEPS):
        _move(across, down, pulls, sizes, near, 0.12 * (1 - step / _STEPS) + 0.001)
    return dict(zip(ids, zip(_spread(across), _spread(down), strict=True), strict=True))


def _move(
    across: list[float],
    down: list[float],
    pulls: Sequence[tuple[int, int, float]],
    sizes: Sequence[float],
    near: float,
    farthest: float,
) -> None:
    """One step; nobody goes further than ``farthest``."""
    count = len(across)
    right = [-_MIDDLE * near * x for x in across]
    below = [-_MIDDLE * near * y for y in down]
    for one in range(count):
        x, y = across[one], down[one]
        for other in range(one + 1, count):
            dx, dy = x - across[other], y - down[other]
            push = near * near * (sizes[one] + sizes[other]) / (dx * dx + dy * dy + 1e-9)
            right[one] += dx * push
            below[one] += dy * push
            right[other] -= dx * push
            below[other] -= dy * push
    for one, other, weight in pulls:
        dx, dy = across[one] - across[other], down[one] - down[other]
        pull = math.hypot(dx, dy) / near * weight * 0.6
        right[one] -= dx * pull
        below[one] -= dy * pull
        right[other] += dx * pull
        below[other] += dy * pull
    for at in range(count):
        length = math.hypot(right[at], below[at])
        if length:
            part = min(length, farthest) / length
            across[at] += right[at] * part
            down[at] += below[at] * part


def _spread(values: Sequence[float]) -> list[float]:
    """Stretched so that they go from 0 to 1; alone, in the middle."""
    least, most = min(values), max(values)
    return [(value - least) / (most - least) if most > least else 0.5 for value in values]
