"""The report document: everything of a period, with the one before beside it; made of its inputs,
or read from the table ReportStore.

Rule: the same inputs make the same document, down to the order of its keys; ranked things are in
the order of their ranks.

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
import polars as pl

from channelstats.stats.activity import pairs_by, shares_of_periods
from channelstats.stats.conversation import bot_share, conversation, huddles
from channelstats.stats.entries import Entries, compared_channels, compared_users
from channelstats.stats.inputs import (
    Inputs,
    Options,
    ReportContext,
    dates_of,
    load_context,
    load_inputs,
)
from channelstats.stats.json_text import Json, Part
from channelstats.stats.measures import AUTHORS_OF_HALF, MeasuredInputs, Measures, SmallGroups
from channelstats.stats.messages import REACTED, REPLIED, PeriodMessages
from channelstats.stats.period import Period
from channelstats.stats.quantities import beside, change, counts, ratio, shown
from channelstats.tables import Tables
from channelstats.tables.messages import Progress
from keytables import Clock

SCHEMA_VERSION: Final = 1


def report(
    inputs: Inputs,
    period: Period,
    options: Options,
    *,
    generated_at: int,
    made_from: str = "",
    smallest_group: int = 1,
) -> bytes:
    """Return the document of a period as JSON. ``generated_at`` is in seconds since the epoch,
    ``made_from`` is added to the fingerprint of the inputs, ``smallest_group`` is that of
    `SmallGroups`.
    """
    measured = MeasuredInputs(inputs, period, options)
    now, then = measured.measures(period), measured.measures(period.previous)
    groups = SmallGroups(now, smallest_group)
    entries = Entries(now, groups, inputs.channels)
    made_of = fingerprint(now.period_messages, then.period_messages) + (
        made_from and f"/{made_from}"
    )
    document: dict[str, Part] = {
        "schema_version": SCHEMA_VERSION,
        "profile": "modern",  # there were others
        "report_timezone": period.zone.key,
        "generated_at": generated_at,
        "input_fingerprint": made_of,
        "start_date": period.start.isoformat(),
        "end_date": period.last.isoformat(),
        "days": period.days,
        "statistics": _statistics(now),
        "users": entries.users(),
        "user_stats": entries.user_stats(),
        "enriched_user": entries.enriched_users(),
        "channels": entries.channels(),
        "channel_stats": entries.channel_stats(),
        "channel_user": entries.channel_users(),
        "enriched_channel": entries.enriched_channels(),
        **_times(now, groups),
        **_reactions(now, entries),
        "new_statistics": _new_statistics(now, then, entries),
        "compared": _compared(now, then, groups),
    }
    del measured, now, then, groups, entries  # Before the parts, which are large, are put together.
    return msgspec.json.encode(document)


def fingerprint(*period_messages: PeriodMessages) -> str:
    """What a report was made from, in short: how many messages, how recent, sums over them."""
    parts = ("word_count", "reaction_count", "reply_count")
    of_each = (
        of.messages.select(pl.len(), pl.max("fetched_at"), pl.sum(*parts)) for of in period_messages
    )
    return "/".join("-".join(map(str, frame.fill_null(0).row(0))) for frame in of_each)


def _statistics(now: Measures) -> dict[str, Json]:
    return {
        **{name: shown(figure) for name, figure in now.statistics.items()},
        **{name: list_of(now.volume) for name, list_of in AUTHORS_OF_HALF.items()},
    }


def _times(now: Measures, groups: SmallGroups) -> dict[str, Json]:
    activity = now.activity
    shares = activity.workday_hours["share"].to_list()
    periods = shares_of_periods(shares)
    zones = groups.zones
    posters: dict[str, dict[str, int]] = {tz: {} for tz in zones["tz"]}
    for tz, uid in activity.zone_posters.iter_rows():
        if tz in posters:
            posters[tz][uid] = 1
    return {
        **activity.utc(),
        "user_weekday": pairs_by(activity.weekdays),
        "user_weekday_hour": pairs_by(activity.workday_hours),
        "weekday_activity_percentage": {str(at): share for at, share in enumerate(shares)},
        "weekday_activity_percentage_periods": periods,
        "weekday_actity_percentage_periods": periods,  # the name that it has always had
        "timezone": {tz: [m, w] for tz, m, w in zones.select("tz", "m", "w").iter_rows()},
        "posters_per_timezone": posters,
    }


def _reactions(now: Measures, entries: Entries) -> dict[str, Part]:
    given = dict(counts(now.period_messages.reactions, "emoji").iter_rows())
    words = now.volume.words
    return {
        "reaction": given,
        "emoji_rate": {name: shown(ratio(1000 * n, words)) for name, n in given.items()},
        "reaction_count": entries.top(REACTED),
        "reply_count": entries.top(REPLIED),
    }


def _new_statistics(now: Measures, then: Measures, entries: Entries) -> dict[str, Part]:
    return {
        **conversation(now, then),
        "edges": entries.edges(),
        "huddles": huddles(now),
        "bot_share": shown(bot_share(now)),
    }


def _compared(now: Measures, then: Measures, groups: SmallGroups) -> dict[str, Part]:
    days = beside(now.activity.weekdays, then.activity.weekdays, "weekday")
    return {
        "statistics": {
            name: change(figure, then.statistics[name]) for name, figure in now.statistics.items()
        },
        "user_weekday": {
            str(day): {"messages": change(m, m_before), "words": change(w, w_before)}
            for day, m, w, m_before, w_before, _ in days.iter_rows()
        },
        "channels": compared_channels(now, then, groups),
        "users": compared_users(now, then),
    }


# ── the stored one ───────────────────────────────────────────────────────────────────────────────

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
