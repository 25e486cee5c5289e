"""What `channelstats doctor` says about the machine: versions, time zones, the clock.

Rule: only what a report or a run depends on is looked at.
"""

import platform
from collections.abc import AsyncIterator
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from channelstats.commands.call import Call
from channelstats.commands.finding import Finding, ok, problem, warning
from channelstats.days import zone_of

_LIBRARIES: Final = (
    "channelstats",
    "polars",
    "slack-sdk",
    "aiohttp",
    "jinja2",
    "msgspec",
    "apsw",
    "pywebpush",
    "tzdata",
)
_ZONES: Final = ("Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata", "Australia/Lord_Howe")
_YEAR: Final = 2024
"""No clock that is right shows an earlier one."""


async def machine(call: Call) -> AsyncIterator[Finding]:
    found = [f"Python {platform.python_version()}"]
    missing = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    yield ok("versions", ", ".join(found))
    if missing:
        yield problem("versions", f"missing: {', '.join(missing)}")
    unknown = [name for name in _ZONES if zone_of(name) is None]
    if unknown:
        yield problem("time zones", f"{', '.join(unknown)}: not known here; install tzdata")
    else:
        yield ok("time zones", "known")
    now = datetime.fromtimestamp(call.clock(), call.zone)
    text = f"{now:%Y-%m-%d %H:%M} in {call.settings.report_timezone}"
    if now.year < _YEAR:
        yield warning("clock", f"{text}: that cannot be")
    else:
        yield ok("clock", text)
