"""What `channelstats doctor` says about settings: those that hold, and where each came from.

Rule: a variable that looks like a setting and is none is told: somebody believes that it works.
"""

from collections.abc import AsyncIterator
from typing import Final

from channelstats.commands.call import Call
from channelstats.commands.finding import Finding, ok, warning
from channelstats.settings import PREFIX, TABLE, places
from channelstats.settings.loading import BESIDE_SETTINGS, nearest

_ABOUT: Final = "settings"


async def settings(call: Call) -> AsyncIterator[Finding]:
    given = places(vars(call.given), call.environment)
    for setting in TABLE:
        if setting.name in given:
            value = getattr(call.settings, setting.name)
            shown = ("no", "yes")[value] if isinstance(value, bool) else value
            yield ok(_ABOUT, f"{setting.name} = {shown} ({_source(given[setting.name])})")
    if not given:
        yield ok(_ABOUT, "all as they are by default")
    else:
        yield ok(_ABOUT, f"the {len(TABLE) - len(given)} others as they are by default")
    known = {setting.variable for setting in TABLE} | set(BESIDE_SETTINGS)
    for name in sorted(call.environment):
        if name.startswith(PREFIX) and name not in known:
            near = nearest(name.removeprefix(PREFIX).lower())
            meant = f"; did you mean {PREFIX}{near.upper()}?" if near else ""
            yield warning(_ABOUT, f"{name} is no setting{meant}")


def _source(place: str) -> str:
    return place.partition(" in ")[2] or place
