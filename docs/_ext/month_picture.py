"""The move of a user to the table of the next month, drawn as a strip of time in inline SVG.

Moments have names, so that what happens at one moment is drawn at one place. Colours come from the
theme.
"""

from html import escape
from typing import Final

WIDTH: Final = 720
NAMES: Final = 128
"""Where the lanes begin, to the right of their names."""
END: Final = 712
LANE: Final = 30
GAP: Final = 18
TOP: Final = 34

HELLO: Final = NAMES
ACKED: Final = 292
COPIED: Final = 336
RECORDED: Final = 412
LOOKED: Final = 500
CONNECTED: Final = 622
STEPS: Final = {"1": COPIED, "2": RECORDED, "3": LOOKED, "4": CONNECTED}

LATER: Final = LOOKED + 64
"""A message is stored by a node that read the record before step 2."""

LANES: Final = ("connection", "router record", "old table", "new table")

CAPTIONS: Final = (
    "1: channels copied · 2: record changed · 3: old table read again · 4: read a last time",
    "a: stored before 2, found in step 3",
    "b: stored later by a slow node, which then reads the record again and moves the message",
)


def draw() -> str:
    """An `<svg>` element without empty lines, to be put into an HTML page."""
    height = _top(len(LANES)) + 18 * len(CAPTIONS)
    parts = [_step(number, x) for number, x in STEPS.items()]
    parts += [_name(lane, number) for number, lane in enumerate(LANES)]
    parts += [
        _bar(0, HELLO, ACKED, "hello: reads the old table", "busy"),
        _bar(0, ACKED, LOOKED, "ROTATING: input and notifications wait", "waits"),
        _bar(0, LOOKED, CONNECTED - 12, "delivers", "busy"),
        _bar(0, CONNECTED, END, "next hello", "busy"),
        _bar(1, HELLO, RECORDED, "current_month: old", "old"),
        _bar(1, RECORDED, CONNECTED, "new, moved_from: old", "new"),
        _bar(1, CONNECTED, END, "new", "new"),
        _bar(2, HELLO, LOOKED, "", "old"),
        _words(2, (HELLO + ACKED) // 2, "messages, channels"),
        _bar(2, LOOKED, CONNECTED, "", "rest"),
        _bar(3, COPIED, RECORDED, "channels", "new"),
        _bar(3, RECORDED, END, "messages, channels", "new"),
    ]
    parts += [_message("a", RECORDED - 46, LOOKED + 16), _message("b", LATER, LATER)]
    parts += [_caption(text, line) for line, text in enumerate(CAPTIONS)]
    label = "The move of a user from the message table of one month to that of the next"
    return (
        f'<svg class="month-picture" role="img" aria-label="{label}" '
        f'viewBox="0 0 {WIDTH} {height}" xmlns="http://www.w3.org/2000/svg">\n'
        '<defs><marker id="month-head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z"/></marker></defs>\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _top(lane: int) -> int:
    return TOP + lane * (LANE + GAP)


def _name(text: str, lane: int) -> str:
    y = _top(lane) + LANE // 2 + 4
    return f'<text class="lane" x="{NAMES - 12}" y="{y}" text-anchor="end">{escape(text)}</text>'


def _bar(lane: int, start: int, stop: int, text: str, kind: str) -> str:
    box = f'x="{start}" y="{_top(lane)}" width="{stop - start}" height="{LANE}"'
    words = _words(lane, (start + stop) // 2, text) if text else ""
    return f'<rect class="bar {kind}" {box}/>{words}'


def _words(lane: int, x: int, text: str) -> str:
    y = _top(lane) + LANE // 2 + 4
    return f'<text class="words" x="{x}" y="{y}">{escape(text)}</text>'


def _step(number: str, x: int) -> str:
    return (
        f'<path class="moment" d="M{x} {TOP - 6}V{_top(len(LANES)) - GAP + 4}"/>'
        f'<circle class="moment" cx="{x}" cy="{TOP - 16}" r="10"/>'
        f'<text class="number" x="{x}" y="{TOP - 12}">{number}</text>'
    )


def _message(name: str, stored: int, carried: int) -> str:
    """A message in the old table, and when it is moved to the new one."""
    old, new = _top(2) + LANE // 2, _top(3)
    path = f"M{stored} {old}C{stored} {new - 4} {carried} {old} {carried} {new - 1}"
    return (
        f'<circle class="message" cx="{stored}" cy="{old}" r="3.5"/>'
        f'<path class="carried" d="{path}" marker-end="url(#month-head)"/>'
        f'<text class="number" x="{stored - 10}" y="{old + 4}">{name}</text>'
    )


def _caption(text: str, line: int) -> str:
    y = _top(len(LANES)) + 6 + 18 * line
    return f'<text class="caption" x="{NAMES}" y="{y}">{escape(text)}</text>'
