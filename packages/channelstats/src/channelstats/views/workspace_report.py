"""The report on a whole workspace, full or brief."""

from typing import Final

import polars as pl

from channelstats.stats.activity import HOURS, WEEKDAYS, hour_text
from channelstats.stats.conversation import comings, how_many
from channelstats.stats.quantities import beside
from channelstats.stats.rankings import VOLUME_COMPARED
from channelstats.views import figures
from channelstats.views.components import table
from channelstats.views.model import (
    Column,
    Heat,
    Kind,
    Line,
    Part,
    Section,
    Series,
    SeriesChart,
    Span,
    Table,
    Tile,
    Tiles,
)
from channelstats.views.queue import SHOWN
from channelstats.views.report_data import ReportData
from channelstats.views.sections import (
    compared_tile,
    coverage_note,
    emoji_part,
    histogram,
    measured_tile,
    messages_sections,
    present,
    tile,
)

_FULL: Final = 20
_BRIEF: Final = 10
_AWAKE: Final = 12
"""Channels in the map of hours."""

_DETAILS: Final = ("words_per_poster", "thread_messages", "percent", "cpercent")
"""Columns of rankings that the brief report has not."""


_VOLUME: Final = (
    figures.WORDS,
    figures.MESSAGES,
    figures.PAGES,
    figures.WORDS_PER_MESSAGE,
    figures.WORDS_PER_POSTER,
    figures.MESSAGES_PER_POSTER,
)


def workspace_report(
    of: ReportData, *, brief: bool = False
) -> tuple[tuple[Part, ...], tuple[Section, ...]]:
    """What leads the global report, and its sections; ``brief`` is the headline only."""
    volume = Tiles(tuple(compared_tile(of, figure) for figure in _VOLUME))
    used = emoji_part(of.emoji, "Most used emoji", of.now)
    sections = present(
        _to_do(of),
        _channels(of, brief=brief),
        _people(of, brief=brief),
        _days(of),
        None if brief else _zones(of),
        None if brief else _hours(of),
        None if brief else _conversation(of),
        Section("Top emoji", (used,)),
        *messages_sections(of.top, of),
    )
    return (_posters(of), volume, *coverage_note(of)), sections


def _posters(of: ReportData) -> Tiles:
    volume, of_members, posting = of.now.volume, tuple[str | Span, ...](), tuple[Tile, ...]()
    if volume.members:  # else nothing says how many there are
        of_members = (" of ", Span(volume.members, Kind.COUNT))
        members: Line = ()
        if volume.member_posters != volume.posters:  # people from outside posted too
            members = (": ", Span(volume.member_posters, Kind.COUNT), *of_members)
            of_members = ()
        posting = (measured_tile(of, figures.POSTING, after=members),)
    return Tiles(
        (
            compared_tile(of, figures.POSTERS, after=of_members),
            *posting,
            measured_tile(of, figures.MEDIAN_MESSAGES),
            compared_tile(of, figures.TOP_TEN_MESSAGES),
            compared_tile(of, figures.HALF),
            _first_time(of),
            *_history(of),
        )
    )


def _first_time(of: ReportData) -> Tile:
    """Unknown, or not compared, where not enough is known from before."""
    figure = figures.FIRST_TIME
    if not of.now.knows_newcomers:
        return tile(figure.key, None, after=("not known",))
    if not of.before.history.knows_newcomers(of.before.period):
        return measured_tile(of, figure)
    return compared_tile(of, figure)


def _history(of: ReportData) -> tuple[Tile, ...]:
    """Where history begins within the period, as everybody looks new then."""
    day = of.data.inputs.history.first
    if day is None or not of.period.start <= day <= of.period.last:
        return ()
    return (tile("history", None, "History known since", Kind.TEXT, (day.isoformat(),)),)


def _to_do(of: ReportData) -> Section | None:
    """What is to be done first; as long as there is something."""
    rows = of.to_do.head(SHOWN)
    if rows.is_empty():
        return None
    listed = table(
        "to_do",
        "To do first",
        rows.select("action", "person", "channel", "date", "reason"),
        {"date": figures.SINCE},
    )
    return Section("To do first", (listed,))


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
        bar="words",
    )
    if not (rows["new"] == "new").any():
        listed = listed.without("new")
    known = f"{of.channels.height:,} channels with messages"
    return _ranking(f"Top {most} channels", listed, known, brief=brief)


def _people(of: ReportData, *, brief: bool) -> Section:
    most = _BRIEF if brief else _FULL
    listable = of.people.filter(pl.col("m") > 0)
    rows = listable.head(most).select(
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
    )
    return _ranking(
        f"Top {most} people", listed, f"{listable.height:,} people who posted", brief=brief
    )


def _ranking(title: str, listed: Table, known: str, *, brief: bool) -> Section:
    """How many there are is said, as there may be fewer than the title promises."""
    shown = listed.without(*_DETAILS) if brief else listed
    parts = (shown,) if len(listed.rows) else ()
    return Section(title, parts, note=f"{len(listed.rows)} of {known}")


def _days(of: ReportData) -> Section:
    found = beside(of.now.activity.weekdays, of.before.activity.weekdays, "weekday")
    rows = found.select(day=pl.Series(WEEKDAYS), **of.changes(VOLUME_COMPARED))
    rows = rows.select("day", "words", "messages")
    columns = (
        Column("day", "Day", Kind.TEXT),
        Column("words", "Words", Kind.COUNT, bar=True),
        Column("messages", "Messages", Kind.COUNT),
    )
    series = [Series("now", "This period", tuple(found["m"]))]
    if not of.not_compared:
        series.append(Series("before", "Period before", tuple(found["m_before"]), faint=True))
    title = "Messages by day, local time"
    chart = SeriesChart("bars", "weekdays", title, "Day", WEEKDAYS, Kind.COUNT, tuple(series))
    listed = Table("days", "Days, local time", columns, rows)
    return Section("Days of the week", (chart, listed))


def _zones(of: ReportData) -> Section:
    rows = of.groups.zones.select(
        rank=pl.int_range(1, pl.len() + 1),
        time_zone="tz",
        posters="posters",
        words="w",
        messages="m",
    )
    listed = table("time_zones", "Time zones, by words", rows, bar="words")
    parts = (listed,) if rows.height else ()
    return Section("Time zones", parts, note=str(rows.height))


def _hours(of: ReportData) -> Section:
    """The mean share of each hour, and beside it what was really said in it."""
    hours = pl.Series(map(hour_text, HOURS))
    rows = of.now.activity.workday_hours.select(hour=hours, share="share", messages="m", words="w")
    title = "Mean share of a person's messages in each hour, Monday to Friday, local time"
    largest = of.channels["slack_cid"].head(_AWAKE).to_list()
    parts: tuple[Part, ...] = (histogram(title, rows),)
    if largest:
        parts = (_channel_hours(of, largest), *parts)
    return Section("Hours of the day, Monday to Friday", parts)


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
    now, before, first = of.now, of.before, of.data.measured.first_posts
    posted, posted_before = (set(each.messages["slack_uid"].unique()) for each in (now, before))
    first_posts = dict(first.select("slack_uid", "ts").iter_rows())
    came = comings(posted, posted_before, first_posts, of.period)
    top_level = (f" of {how_many(now.messages, ~pl.col('is_reply')):,}",)
    monthly = (f" / {figures.MONTHLY.measure(now):,}",)
    tiles = (
        measured_tile(of, figures.THREADS_STARTED),
        measured_tile(of, figures.REPLY_SHARE),
        measured_tile(of, figures.FIRST_REPLY),
        measured_tile(of, figures.FIRST_REPLY_P90),
        measured_tile(of, figures.UNANSWERED, after=top_level),
        tile("retention", came["rate"], "Retention", Kind.PERCENT),
        tile("returning", came["returning"]),
        tile("lapsed", came["lapsed"]),
        measured_tile(of, figures.DAILY_POSTERS),
        tile("wau", figures.WEEKLY.measure(now), "Posters in 7 / 28 days", after=monthly),
        measured_tile(of, figures.GINI),
        measured_tile(of, figures.BOTS),
    )
    return Section("Conversation", (Tiles(tiles),))
