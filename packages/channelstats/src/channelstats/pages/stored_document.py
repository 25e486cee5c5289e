"""The stored document of a period: read from the table ReportStore, or made again.

Rule: a stored document is used only where everything it was made from is the same; otherwise it is
made again and takes the place of the old one. No message is read to find that out: the versions of
dates tell, see `channelstats.tables.day_versions`. While one of them is open nothing is kept.

It is stored as `<start>-<days>`. What else tells one from another (options, time zone, version,
inputs) is in its fingerprint, so there is one for each period and old ones do not pile up.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from datetime import date
from typing import Final

import msgspec

from channelstats.facts.periods import Period
from channelstats.facts.reading import Options, ReportContext, dates_of, load_context, load_inputs
from channelstats.pages.document import SCHEMA_VERSION, report
from channelstats.tables import Tables
from channelstats.tables.messages import Progress
from keytables import Clock

CODE_VERSION: Final = 1
"""Goes up with every change of what a document says."""

_DIGITS: Final = 16


async def document_of(
    tables: Tables,
    period: Period,
    options: Options,
    *,
    clock: Clock,
    refresh: bool = False,
    progress: Progress | None = None,
) -> bytes:
    """The document of a period as JSON: the stored one, or a new one where there is none or with
    ``refresh``. ``progress`` is called with the dates read, and all.
    """
    context = await load_context(tables, options)
    # Replies may be later than the period; where first posts are to be found, any message counts.
    first = date.min if context.first_posts is None else dates_of(period)[0]
    state = await tables.messages.versions.since(first)
    mark = await asyncio.to_thread(_made_from, context, state, period, options)
    name = f"{period.start.isoformat()}-{period.days}"
    if not refresh and state and (kept := await tables.reports.get(name)) is not None:
        stored = await asyncio.to_thread(_read, kept, mark)
        if stored is not None:
            return stored
    inputs = await load_inputs(tables, period, options, progress, context=context, refresh=refresh)
    now = int(clock())

    def make() -> bytes:
        return report(inputs, period, options, generated_at=now, made_from=mark)

    made = await asyncio.to_thread(make)
    if state and await tables.messages.versions.since(first) == state:
        await tables.reports.put(name, made.decode())
    return made


def _made_from(context: ReportContext, state: str | None, period: Period, options: Options) -> str:
    """What a document is made from and by, in short; ``state`` is that of the messages."""
    made_from: Mapping[str, object] = {
        "versions": [SCHEMA_VERSION, CODE_VERSION],
        "period": [period.start, period.days, period.zone.key],
        "options": [options.counting, options.default_timezone, options.merge_skin_tones],
        "left_out": [sorted(context.excluded_people), sorted(context.excluded_channels)],
        "messages": state,
        "users": sorted(context.users.items()),
        "channels": sorted(context.channels.items()),
        "counts": sorted((day.isoformat(), counts) for day, counts in context.counts.items()),
        "first_posts": None if context.first_posts is None else sorted(context.first_posts.items()),
    }
    return hashlib.sha256(msgspec.json.encode(made_from)).hexdigest()[:_DIGITS]


class _Mark(msgspec.Struct):
    """What a stored document was made from."""

    input_fingerprint: str


def _read(text: str, mark: str) -> bytes | None:
    """The stored document; None if it is another, or cannot be understood."""
    try:
        made_from = msgspec.json.decode(text, type=_Mark).input_fingerprint
    except msgspec.MsgspecError:
        return None
    return text.encode() if made_from.endswith(f"/{mark}") else None
