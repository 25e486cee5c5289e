"""The way of a message, drawn for the start page as inline SVG: boxes one below the other, so that
it can be read on a phone. Colours come from the theme, light or dark.
"""

from html import escape
from typing import Final, NamedTuple

WIDTH: Final = 360
BOX_HEIGHT: Final = 58
GAP: Final = 84
TOP: Final = 8


class Stop(NamedTuple):
    """`down`, `up`: what goes to the next stop, and what comes back from there."""

    name: str
    meaning: str
    down: tuple[str, str] = ("", "")
    up: tuple[str, str] = ("", "")


WAY: Final = (
    Stop(
        "application server",
        "a web site, an app's server, a homeserver",
        ("1  HTTPS: a message,", "encrypted for the app"),
        ("2  201: it is", "on your disk"),
    ),
    Stop(
        "autopush",
        "your machine: one process and one file",
        ("3  WebSocket: at once,", "or when it is back"),
        ("4  ack: deleted", "from the disk"),
    ),
    Stop("user agent", "Firefox, or Sunup or KDE for their apps"),
)


def draw() -> str:
    """An `<svg>` element without empty lines, to be put into an HTML page."""
    parts = []
    for row, stop in enumerate(WAY):
        top = TOP + row * (BOX_HEIGHT + GAP)
        middle, bottom = WIDTH / 2, top + BOX_HEIGHT
        size = f'width="{WIDTH - 20}" height="{BOX_HEIGHT}"'
        parts += [
            f'<rect class="stop" x="10" y="{top}" {size} rx="8"/>',
            f'<text class="name" x="{middle}" y="{top + 25}">{escape(stop.name)}</text>',
            f'<text class="meaning" x="{middle}" y="{top + 44}">{escape(stop.meaning)}</text>',
        ]
        if stop.down[0]:
            parts += _arrow("down", 34, bottom + 4, bottom + GAP - 6, 46, stop.down)
            parts += _arrow("up", 218, bottom + GAP - 4, bottom + 6, 230, stop.up)
    height = 2 * TOP + len(WAY) * (BOX_HEIGHT + GAP) - GAP
    label = "The way of a message: " + ", ".join(stop.name for stop in WAY)
    head = "".join(
        f'<marker id="message-{way}" class="{way}" viewBox="0 0 8 8" refX="6" refY="4" '
        f'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker>'
        for way in ("down", "up")
    )
    return (
        f'<svg class="message-picture" role="img" aria-label="{escape(label)}" '
        f'viewBox="0 0 {WIDTH} {height}" xmlns="http://www.w3.org/2000/svg">\n'
        f"<defs>{head}</defs>\n" + "\n".join(parts) + "\n</svg>"
    )


def _arrow(
    way: str, x: int, begin: float, end: float, left: int, lines: tuple[str, str]
) -> list[str]:
    text = (begin + end) / 2 - 3
    return [
        f'<path class="{way}" d="M{x} {begin} V{end}" marker-end="url(#message-{way})"/>',
        *(
            f'<text class="step {way}" x="{left}" y="{text + 17 * number}">{escape(line)}</text>'
            for number, line in enumerate(lines)
        ),
    ]
