"""Documents of reports, kept in the table ReportStore.

Rule: a stored document is used only where everything it was made from is the same, down to every
row; otherwise it is made anew and takes the place of the old one.

It is stored as `<start>-<days>`. What else tells one from another (profile, time zone, version,
inputs) is in its fingerprint, so there is one for each period and old ones do not pile up.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec
import polars as pl

from channelstats.reports.view import as_mapping
from channelstats.stats import Inputs, Options, Period, report
from channelstats.stats.document import SCHEMA_VERSION
from channelstats.stats.gather import gather
from channelstats.stats.values import Json
from channelstats.tables import Tables
from tablestore import Clock

CODE_VERSION: Final = 1
"""Goes up with every change of what a document says."""

_DIGITS: Final = 16


async def document_of(
    tables: Tables, period: Period, options: Options, *, clock: Clock, anew: bool = False
) -> dict[str, Json]:
    """The document of a period: the stored one, or one made ``anew``."""
    inputs = await gather(tables, period, options)
    mark = await asyncio.to_thread(fingerprint, inputs, period, options)
    name = f"{period.start.isoformat()}-{period.days}"
    if not anew and (stored := _read(await tables.reports.get(name), mark)) is not None:
        return stored
    made = await asyncio.to_thread(report, inputs, period, options, generated_at=int(clock()))
    document = dict(made.document)
    document["input_fingerprint"] = f"{document['input_fingerprint']}/{mark}"
    text = msgspec.json.encode(document).decode()
    await tables.reports.put(name, text)
    return _decoded(text)


def fingerprint(inputs: Inputs, period: Period, options: Options) -> str:
    """What a document is made from and by, in short."""
    rows = inputs.messages.hash_rows(seed=0)
    known: Mapping[str, object] = {
        "versions": [SCHEMA_VERSION, CODE_VERSION],
        "period": [period.start, period.days, period.zone.key],
        "options": [options.counting, options.default_timezone, options.merge_skin_tones],
        "messages": [len(rows), _sum(rows)],
        "users": sorted(inputs.users.items()),
        "channels": sorted(inputs.channels.items()),
        "counts": sorted((day.isoformat(), counts) for day, counts in inputs.counts.items()),
        "first_posts": None if inputs.first_posts is None else sorted(inputs.first_posts.items()),
    }
    return hashlib.sha256(msgspec.json.encode(known)).hexdigest()[:_DIGITS]


def _sum(rows: pl.Series) -> int:
    """The same for the same rows in any order."""
    return int(rows.sum()) if len(rows) else 0


def _read(text: str | None, mark: str) -> dict[str, Json] | None:
    """The stored document; None if there is none, or another, or none that can be understood."""
    if text is None:
        return None
    try:
        document = _decoded(text)
    except msgspec.DecodeError:
        return None
    made_from = document.get("input_fingerprint")
    return document if isinstance(made_from, str) and made_from.endswith(f"/{mark}") else None


def _decoded(text: str) -> dict[str, Json]:
    return dict(as_mapping(msgspec.json.decode(text)))
