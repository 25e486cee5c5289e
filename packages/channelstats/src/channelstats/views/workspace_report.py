"""The report on a whole workspace, full or brief.

Rule: the order is that of the original; what it did not have is marked as beyond it.
"""

from typing import Final

import polars as pl

from channelstats.days import period_text
from channelstats.stats.activity import HOURS, WEEKDAYS, hour_text
from channelstats.stats.conversation import bot_share, conversation
from channelstats.stats.measures import AUTHORS_OF_HALF
from channelstats.stats.quantities import counts
from channelstats.views.components import table
from channelstats.views.model import (
    Bars,
    Column,
    Heat,
    Kind,
    Layout,
    Part,
    Report,
    Section,
    Series,
    Span,
    Table,
    Tile,
    Tiles,
)
from channelstats.views.report_data import ReportData, emoji_rates, unchanged
from channelstats.views.sections import (
    coverage_note,
    emoji_part,
    histogram,
    messages_sections,
    number_tile,
    present,
    text_tile,
)

_FULL: Final = 20
_BRIEF: Final = 10
_AWAKE: Final = 12
"""Channels in the map of hours."""

_DETAILS: Final = ("words_per_poster", "thread_messages", "percent", "cpercent")
"""Columns of rankings that the brief report has not."""


def workspace_report(of: ReportData, *, brief: bool = False) -> Report:
    """The global report; ``brief`` is its headline only."""
    emoji = counts(of.now.period_messages.reactions, "emoji")
    emoji = emoji_rates(emoji.with_columns(w=pl.lit(of.now.volume.words, pl.Int64)))
    used = emoji_part(emoji, "Most used emoji")
    sections = present(
        _channels(of, brief=brief),
        _people(of, brief=brief),
        _days(of),
        None if brief else _zones(of),
        None if brief else _hours(of),
        None if brief else _conversation(of),
        Section("Top emoji", (used,), rule_before=True, rule_after=True),
        *messages_sections(of.top, of),
    )
    return Report(
        title=("Workspace report",),
        period=period_text(of.period.start, of.period.last),
        lead=(_posters(of), _volume(of), *coverage_note(of)),
        sections=sections,
    )


def _compared(of: ReportData, name: str, title: str, kind: Kind = Kind.COUNT) -> Tile:
    """A figure of `statistics` against the one before."""
    compared = of.change(of.now.statistics[name], of.before.statistics[name])
    return Tile(name.replace(" ", "_"), title, kind, compared)


def _posters(of: ReportData) -> Tiles:
    now, before = of.now.statistics, of.before.statistics
    active = Span(now["active_users"], Kind.COUNT) if isinstance(now["active_users"], int) else ""
    compared = of.change(now["posters"], before["posters"])
    return Tiles(
        (
            Tile("posters", "Posters", Kind.COUNT, compared, after=(" of ", active)),
            number_tile("posting", "Members who posted", now["% posting"], Kind.PERCENT),
            number_tile("median", "Median messages per poster", now["median messages"]),
            _compared(of, "topten messages", "Top 10's share of messages", Kind.PERCENT),
            _compared(of, "50percent of words", "People who wrote half of all words"),
            _compared(of, "first-time posters", "First-time posters"),
            *_history(of),
        )
    )


def _history(of: ReportData) -> tuple[Tile, ...]:
    """Where history begins within the period, as everybody looks new then."""
    day = of.data.inputs.history.first
    if day is None or not of.period.start <= day <= of.period.last:
        return ()
    return (text_tile("history", "History known since", day.isoformat()),)


def _volume(of: ReportData) -> Tiles:
    return Tiles(
        (
            _compared(of, "words", "Words"),
            _compared(of, "messages", "Messages"),
            _compared(of, "pages", "Pages"),
            _compared(of, "words per message", "Words per message", Kind.NUMBER),
            _compared(of, "words per poster", "Words per poster", Kind.NUMBER),
            _compared(of, "messages per poster", "Messages per poster", Kind.NUMBER),
        )
    )


def _channels(of: ReportData, *, brief: bool) -> Section:
    most = _BRIEF if brief else _FULL
    rows = of.channels.head(most).select(
        "rank",
        pl.col("slack_cid").alias("channel"),
        pl.when("new").then(pl.lit("new")).otherwise(pl.lit("")).alias("new"),
        *("posters", "members", "words", "messages"),
        *("words_per_poster", "percent", "cpercent"),
    )
    listed = table(
        "channels",
        f"Top {most} channels, by words",
        rows,
        {"words_per_poster": "Words per poster"},
        bar="words",
        line="{}.| {}| ({})| {}|/{} posters|, {}w|, {}m"
        "|, {} words/poster|, {} of traffic|, {} cumulative",
    )
    if not (rows["new"] == "new").any():
        listed = listed.without("new")
    known = f"{of.channels.height:,} channels with messages"
    return _ranking(f"Top {most} channels", listed, known, brief=brief)


def _people(of: ReportData, *, brief: bool) -> Section:
    most = _BRIEF if brief else _FULL
    half = len(AUTHORS_OF_HALF["50percent users for words"](of.now.volume))
    rows = of.people.head(min(most, half)).select(
        "rank",
        pl.col("slack_uid").alias("person"),
        *("words", "messages", "rphw", "thread_messages"),
        pl.col("percent_of_words").alias("percent"),
        pl.col("cum_percent_of_words").alias("cpercent"),
    )
    listed = table(
        "people",
        f"Top {most} people, by words",
        rows,
        bar="words",
        line="{}.| {}| {}w|, {}m|, {} reactions/100 words"
        "|, {} replies to their threads|, {} of traffic|, {} cumulative",
    )
    known = f"{half:,} people who wrote half of all words"
    return _ranking(f"Top {most} people", listed, known, brief=brief)


def _ranking(title: str, listed: Table, known: str, *, brief: bool) -> Section:
    """How many there are is said, as there may be fewer than the title promises."""
    shown = listed.without(*_DETAILS) if brief else listed
    parts = (shown,) if len(listed.rows) else ()
    return Section(title, parts, rule_before=True, note=f"{len(listed.rows)} of {known}")


def _days(of: ReportData) -> Section:
    now, before = (side.activity.local_days() for side in (of.now, of.before))
    pairs = [(now.get(str(day), [0, 0]), before.get(str(day), [0, 0])) for day in range(7)]
    columns = (
        Column("day", "Day", Kind.TEXT, phrase="{}"),
        Column("words", "Words", Kind.COUNT, bar=True, label="word"),
        Column("messages", "Messages", Kind.COUNT, phrase=" in {}", label="message"),
    )
    words = [of.change(now[1], before[1]) for now, before in pairs]
    messages = [of.change(now[0], before[0]) for now, before in pairs]
    rows = pl.DataFrame({"day": WEEKDAYS, "words": words, "messages": messages})
    series = [Series("now", "This period", tuple(now[0] for now, _ in pairs))]
    if not of.not_compared:
        earlier = tuple(before[0] for _, before in pairs)
        series.append(Series("before", "Period before", earlier, faint=True))
    labels = tuple(name[:3] for name in WEEKDAYS)
    title = "Messages by day, local time"
    chart = Bars("weekdays", title, "Day", labels, Kind.COUNT, tuple(series))
    listed = Table("days", "Days, local time", columns, rows, layout=Layout.LIST)
    return Section("Days of the week", (chart, listed), rule_before=True)


def _zones(of: ReportData) -> Section:
    rows = of.zones.select(
        rank=pl.int_range(1, pl.len() + 1),
        time_zone="tz",
        posters="posters",
        words="w",
        messages="m",
    )
    line = "{}.| {}| {} posters|, {}w|, {}m"
    listed = table("time_zones", "Time zones, by words", rows, bar="words", line=line)
    parts = (listed,) if rows.height else ()
    return Section("Time zones", parts, rule_before=True, note=str(rows.height))


def _hours(of: ReportData) -> Section:
    """The mean share of each hour, and beside it what was really said in it."""
    activity = of.now.activity
    said, shares = activity.local_hours(), activity.shares()
    rows = [(hour_text(hour), shares[str(hour)], *said.get(str(hour), (0, 0))) for hour in HOURS]
    frame = pl.DataFrame(rows, ["hour", "share", "messages", "words"], orient="row")
    title = "Mean share of a person's messages in each hour, Monday to Friday, local time"
    largest = of.channels["slack_cid"].head(_AWAKE).to_list()
    parts: tuple[Part, ...] = (histogram(title, frame),)
    if largest:
        parts = (_channel_hours(of, largest), *parts)
    return Section("Hours of the day, Monday to Friday", parts, rule_before=True)


def _channel_hours(of: ReportData, largest: list[str]) -> Heat:
    found = [
        dict(of.of_channel("hours", cid).select("hour", "messages").iter_rows()) for cid in largest
    ]
    return Heat(
        "channel_hours",
        "When the largest channels are active: messages by hour, Monday to Friday, local time",
        rows=tuple(largest),
        columns=tuple(f"{hour:02d}" for hour in HOURS),
        values=tuple(tuple(hours.get(hour_text(hour), 0) for hour in HOURS) for hours in found),
        kind=Kind.COUNT,
        row_kind=Kind.CHANNEL,
    )


def _conversation(of: ReportData) -> Section:
    now, before = of.now.period_messages, of.before.period_messages
    new = conversation(now, before, of.data.measured.first_posts)
    first_reply, retention = new["first_reply"], new["retention"]

    def number(name: str, title: str, value: float | None, kind: Kind, after: str = "") -> Tile:
        change = None if value is None else unchanged(value)
        return Tile(name, title, kind, change, after=(after,) if after else ())

    bots = 100 * bot_share(now.source, of.period)
    tiles = (
        number("threads_started", "Threads started", new["threads_started"], Kind.COUNT),
        number("thread_share", "Messages in threads", 100 * new["thread_share"], Kind.PERCENT),
        number("median", "Median time to first reply", first_reply["median"], Kind.SECONDS),
        number("p90", "90% answered within", first_reply["p90"], Kind.SECONDS),
        number(
            "unanswered", "Unanswered", new["unanswered"], Kind.COUNT, f" of {new['top_level']:,}"
        ),
        number("retention", "Retention", retention["rate"], Kind.PERCENT),
        number("returning", "Returning", retention["returning"], Kind.COUNT),
        number("lapsed", "Lapsed", retention["lapsed"], Kind.COUNT),
        number("daily", "Posters on an average day", new["daily_posters_mean"], Kind.NUMBER),
        number("wau", "Posters in 7 / 28 days", new["wau"], Kind.COUNT, f" / {new['mau']:,}"),
        number("gini", "Unevenness of words (Gini)", new["gini_of_words"], Kind.RATE),
        number("bots", "Messages by bots", bots, Kind.PERCENT),
    )
    return Section("Conversation", (Tiles(tiles),), beyond=True)
