"""The state diagram of a session, drawn from the table of transitions as inline SVG.

Every row of the table becomes an arrow. The layout follows from the table and from its one end
state. Colours come from the theme, light or dark.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from html import escape
from textwrap import wrap
from typing import Final, NamedTuple, TypeVar

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)

WIDTH: Final = 720
BOX_LEFT: Final = 170
BOX_WIDTH: Final = 260
BOX_HEIGHT: Final = 76
GAP: Final = 66
TOP: Final = 14
END_LEFT: Final = 610
END_WIDTH: Final = 96
LINE: Final = 16
LEGEND: Final = 40

ACTORS: Final = ("user agent", "store", "server", "socket")
"""Who causes an event; also the CSS classes of arrows and labels, with `-` for the space."""


class Arrow(NamedTuple):
    """Everything that leads from one state to another."""

    source: str
    target: str
    events: tuple[tuple[str, str], ...]
    """Name of the event and who causes it."""


def actor(event: Enum) -> str:
    """Who causes the event: the text before the colon of its value, else the socket."""
    before, colon, _ = str(event.value).partition(":")
    return before if colon and before in ACTORS else "socket"


def arrows(transitions: Mapping[tuple[S, E], S]) -> list[Arrow]:
    """The table, one arrow for each pair of states, in the order of the table."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for (source, event), target in transitions.items():
        found.setdefault((source.name, target.name), []).append((event.name.lower(), actor(event)))
    return [Arrow(source, target, tuple(events)) for (source, target), events in found.items()]


def end_state(states: Sequence[S], transitions: Mapping[tuple[S, E], S]) -> S:
    """The one state that nothing leaves."""
    left = {source for source, _ in transitions}
    ends = [state for state in states if state not in left]
    if len(ends) != 1:
        raise ValueError(f"expected one end state, found {[state.name for state in ends]}")
    return ends[0]


def draw(states: Sequence[S], transitions: Mapping[tuple[S, E], S]) -> str:
    """An `<svg>` element without empty lines, to be put into an HTML page.

    States are in one column; the end state is a bar to the right of it.
    """
    end = end_state(states, transitions)
    column = [state for state in states if state is not end]
    tops = {state.name: TOP + row * (BOX_HEIGHT + GAP) for row, state in enumerate(column)}
    height = TOP + len(column) * (BOX_HEIGHT + GAP) - GAP + TOP
    parts = [_box(state.name, str(state.value), tops[state.name]) for state in column]
    parts.append(_end_bar(end.name, str(end.value), TOP, height - 2 * TOP))
    parts += [_arrow(arrow, tops, end.name) for arrow in arrows(transitions)]
    parts.append(_legend(height + 12))
    label = "States of a session: " + ", ".join(state.name for state in states)
    return (
        f'<svg class="state-diagram" role="img" aria-label="{escape(label)}" '
        f'viewBox="0 0 {WIDTH} {height + LEGEND}" xmlns="http://www.w3.org/2000/svg">\n'
        f"{_markers()}\n" + "\n".join(parts) + "\n</svg>"
    )


def table(transitions: Mapping[tuple[S, E], S]) -> str:
    """The transitions as a Markdown table."""
    rows = ["| state | event | who and what | next state |", "|---|---|---|---|"]
    rows += [
        f"| `{source.name}` | `{event.name}` | {event.value} | `{target.name}` |"
        for (source, event), target in transitions.items()
    ]
    return "\n".join(rows)


def legend(members: Iterable[Enum]) -> str:
    """Names and meanings of an enumeration as a Markdown table."""
    rows = ["| name | meaning |", "|---|---|"]
    return "\n".join(rows + [f"| `{member.name}` | {member.value} |" for member in members])


# Pieces of the drawing


def _css(who: str) -> str:
    return who.replace(" ", "-")


def _markers() -> str:
    heads = "".join(
        f'<marker id="head-{_css(who)}" class="{_css(who)}" viewBox="0 0 10 10" refX="9" refY="5" '
        'markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
        '<path d="M0 0L10 5L0 10z"/></marker>'
        for who in ACTORS
    )
    return f"<defs>{heads}</defs>"


def _balanced(text: str, widest: int) -> list[str]:
    """The text in as few lines as `widest` characters allow, of about equal length."""
    fewest = len(wrap(text, widest))
    return next(
        lines for width in range(1, widest + 1) if len(lines := wrap(text, width)) <= fewest
    )


def _box(name: str, meaning: str, top: int) -> str:
    middle = BOX_LEFT + BOX_WIDTH // 2
    lines = _balanced(meaning, 44)
    first = top + 47 if len(lines) > 1 else top + 53
    words = "".join(
        f'<text class="meaning" x="{middle}" y="{first + 15 * number}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return (
        f'<rect class="state" x="{BOX_LEFT}" y="{top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" '
        f'rx="8"/><text class="name" x="{middle}" y="{top + 27}">{name}</text>{words}'
    )


def _end_bar(name: str, meaning: str, top: int, height: int) -> str:
    middle = END_LEFT + END_WIDTH // 2
    lines = wrap(meaning, 14)
    first = top + height // 2 - (len(lines) * 15) // 2
    words = "".join(
        f'<text class="meaning" x="{middle}" y="{first + 22 + 15 * number}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return (
        f'<rect class="state end" x="{END_LEFT}" y="{top}" width="{END_WIDTH}" height="{height}" '
        f'rx="8"/><text class="name" x="{middle}" y="{first}">{name}</text>{words}'
    )


def _arrow(arrow: Arrow, tops: Mapping[str, int], end: str) -> str:
    if arrow.target == end:
        return _to_end(arrow, tops[arrow.source])
    if arrow.source == arrow.target:
        return _loop(arrow, tops[arrow.source])
    return _between(arrow, tops[arrow.source], tops[arrow.target])


def _path(points: str, who: str) -> str:
    return f'<path class="arrow {_css(who)}" d="{points}" marker-end="url(#head-{_css(who)})"/>'


def _labels(events: Sequence[tuple[str, str]], x: int, y: int, anchor: str) -> str:
    return "".join(
        f'<text class="label {_css(who)}" x="{x}" y="{y + LINE * number}" text-anchor="{anchor}">'
        f"{escape(name)}</text>"
        for number, (name, who) in enumerate(events)
    )


def _to_end(arrow: Arrow, top: int) -> str:
    start, stop = BOX_LEFT + BOX_WIDTH, END_LEFT
    spread = BOX_HEIGHT // (len(arrow.events) + 1)
    parts = []
    for number, event in enumerate(arrow.events, 1):
        y = top + spread * number + 3
        parts.append(_path(f"M{start} {y}H{stop - 1}", event[1]))
        parts.append(_labels([event], (start + stop) // 2, y - 4, "middle"))
    return "".join(parts)


def _loop(arrow: Arrow, top: int) -> str:
    middle = top + BOX_HEIGHT // 2
    path = f"M{BOX_LEFT} {middle - 16}C{BOX_LEFT - 44} {middle - 26} {BOX_LEFT - 44} {middle + 26}"
    path += f" {BOX_LEFT - 1} {middle + 16}"
    first = middle - (len(arrow.events) - 1) * LINE // 2 + 4
    return _path(path, arrow.events[0][1]) + _labels(arrow.events, BOX_LEFT - 42, first, "end")


def _between(arrow: Arrow, source: int, target: int) -> str:
    middle = BOX_LEFT + BOX_WIDTH // 2
    who = arrow.events[0][1]
    down = target > source
    x = middle + (-40 if down else 40)
    start, stop = (source + BOX_HEIGHT, target - 1) if down else (source, target + BOX_HEIGHT + 1)
    beside, label = 9, (start + stop) // 2
    if abs(target - source) > BOX_HEIGHT + GAP:  # past other states: around them
        x = BOX_LEFT + (20 if down else BOX_WIDTH - 20)
        bend = x + (-70 if down else 70)
        path = f"M{x} {start}C{bend} {start} {bend} {stop} {x} {stop}"
        # In the first gap on its way: beside a state the labels would lie on other arrows.
        beside, label = 48, start + (GAP if down else -GAP) // 2
    else:
        path = f"M{x} {start}V{stop}"
    first = label - (len(arrow.events) - 1) * LINE // 2 + 4
    anchor, at = ("end", x - beside) if down else ("start", x + beside)
    return _path(path, who) + _labels(arrow.events, at, first, anchor)


def _legend(top: int) -> str:
    parts = []
    for number, who in enumerate(ACTORS):
        x = BOX_LEFT - 60 + number * 130
        parts.append(f'<path class="arrow {_css(who)}" d="M{x} {top + 8}h26"/>')
        parts.append(f'<text class="label {_css(who)}" x="{x + 34}" y="{top + 12}">{who}</text>')
    return "".join(parts)
