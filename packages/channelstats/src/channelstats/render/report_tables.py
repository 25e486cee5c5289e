"""The tables of a report as frames, for spreadsheets and notebooks.

Rule: a column has one type; a row stands for itself, with IDs and names side by side. Numbers are
not rounded, and whole: every channel and everybody, but for groups that are too small to be listed.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import polars as pl

from channelstats.identifiers import timestamp
from channelstats.render.names import Directory
from channelstats.stats.activity import HOURS
from channelstats.stats.conversation import daily_posters
from channelstats.stats.messages import REACTED, REPLIED, TOP_MESSAGES, with_shown_times
from channelstats.stats.quantities import change, ratio, shown
from channelstats.stats.rankings import AUTHOR_FIGURES, CHANNEL_FIGURES, is_new
from channelstats.views.report_data import ReportData
from channelstats.views.reports import ReportKind, Wanted
from channelstats.views.sections import WEEKDAYS
from channelstats.views.user_report import GROUPS

_INT: Final = pl.Int64()
_FLOAT: Final = pl.Float64()
_TEXT: Final = pl.String()


def frames_of(wanted: Wanted, of: ReportData, names: Directory) -> dict[str, pl.DataFrame]:
    """The tables by name: of everything, or of what is about one channel or one person."""
    tables = _TABLES.get(wanted.kind, _WORKSPACE)
    found = {name: table(of, names) for name, table in tables.items()}
    about = {ReportKind.CHANNEL: "channel_id", ReportKind.USER: "person_id"}
    if wanted.kind in about:
        key = pl.col(about[wanted.kind]) == wanted.subject
        found = {name: frame.filter(key) for name, frame in found.items()}
    return found


def _statistics(of: ReportData, _: Directory) -> pl.DataFrame:
    now, before = of.now.measures.statistics, of.before.measures.statistics
    rows = []
    for name, figure in now.items():
        found = change(figure, before[name])
        rows.append((name, found["cur"], found["prev"], found["diff_pct"], found["state"]))
    schema = {
        "name": _TEXT,
        "value": _FLOAT,
        "before": _FLOAT,
        "change_percent": _FLOAT,
        "state": _TEXT,
    }
    return pl.DataFrame(rows, schema, orient="row", strict=False)


def _channels(of: ReportData, names: Directory) -> pl.DataFrame:
    known = pl.DataFrame(
        [
            (cid, channel.members, is_new(channel, of.period))
            for cid, channel in of.data.inputs.channels.items()
        ],
        {"slack_cid": _TEXT, "members": _INT, "new": pl.Boolean},
        orient="row",
    )
    figures = {name: formula.column().shown() for name, formula in CHANNEL_FIGURES.items()}
    found = of.groups.listable(of.now.measures.channel_frame)
    found = _with_before(found, of.before.measures.channel_frame, "slack_cid")
    return (
        found.join(known, on="slack_cid", how="left", maintain_order="left")
        .with_columns(**figures)
        .select(
            rank=pl.int_range(1, pl.len() + 1),
            channel_id="slack_cid",
            channel=_named("slack_cid", names.channel, found),
            messages="m",
            words="w",
            messages_before="m_before",
            words_before="w_before",
            posters="posters",
            members="members",
            percent_of_words="percent",
            cumulative_percent="cpercent",
            words_per_poster="words_per_poster",
            reactions="reaction_count",
            new=pl.col("new").fill_null(value=False).cast(pl.String),
        )
    )


def _people(of: ReportData, names: Directory) -> pl.DataFrame:
    wanted = ("percent_of_words", "cum_percent_of_words", "rphw")
    figures = {name: AUTHOR_FIGURES[name].column().shown() for name in wanted}
    found = of.now.measures.author_frame
    found = _with_before(found, of.before.measures.author_frame, "slack_uid")
    return found.with_columns(**figures).select(
        "rank",
        person_id="slack_uid",
        person=_named("slack_uid", names.person, found),
        messages="m",
        words="w",
        messages_before="m_before",
        words_before="w_before",
        percent_of_words="percent_of_words",
        cumulative_percent="cum_percent_of_words",
        reactions_received="reactions",
        reactions_given="reactions_given",
        replies="replies",
        thread_messages="thread_messages",
        reactions_per_100_words="rphw",
    )


def _channel_people(of: ReportData, names: Directory) -> pl.DataFrame:
    listed = of.groups.listable(of.now.measures.channel_frame).select("slack_cid")
    found = listed.join(
        of.now.measures.channel_authors, on="slack_cid", how="left", maintain_order="left_right"
    )
    return found.select(
        channel_id="slack_cid",
        channel=_named("slack_cid", names.channel, found),
        person_id="slack_uid",
        person=_named("slack_uid", names.person, found),
        messages="m",
        words="w",
    )


def _days(of: ReportData, _: Directory) -> pl.DataFrame:
    now, before = (side.measures.activity.local_days() for side in (of.now, of.before))
    rows = [
        (day, name, *now.get(str(day), (0, 0)), *before.get(str(day), (0, 0)))
        for day, name in enumerate(WEEKDAYS)
    ]
    columns = ("weekday", "day", "messages", "words", "messages_before", "words_before")
    schema = {name: _TEXT if name == "day" else _INT for name in columns}
    return pl.DataFrame(rows, schema, orient="row")


def _hours(of: ReportData, _: Directory) -> pl.DataFrame:
    activity = of.now.measures.activity
    volumes, shares = activity.local_hours(), activity.shares()
    rows = [(hour, shares[str(hour)], *volumes.get(str(hour), (0, 0))) for hour in HOURS]
    schema = {"hour": _INT, "mean_share_percent": _FLOAT, "messages": _INT, "words": _INT}
    return pl.DataFrame(rows, schema, orient="row")


def _time_zones(of: ReportData, _: Directory) -> pl.DataFrame:
    zones = of.now.measures.activity.zones
    shows = [of.groups.shows_zone(posters) for posters in zones["posters"]]
    return zones.filter(shows).select(
        time_zone="tz", posters=pl.col("posters").cast(pl.Int64), messages="m", words="w"
    )


def _emoji(of: ReportData, _: Directory) -> pl.DataFrame:
    words = of.now.measures.volume.words
    rows = [
        (name, times, float(shown(ratio(1000 * times, words))))
        for name, times in of.now.measures.period_messages.emoji().items()
    ]
    schema = {"emoji": _TEXT, "times": _INT, "per_1000_words": _FLOAT}
    return pl.DataFrame(rows, schema, orient="row")


def _top_messages(of: ReportData, names: Directory) -> pl.DataFrame:
    rows = []
    kinds = {"reactions": REACTED, "replies": REPLIED}
    period_messages, hidden = of.now.measures.period_messages, of.data.inputs.hides_times
    for kind, count in kinds.items():
        most = with_shown_times(of.now.top(count).head(TOP_MESSAGES), period_messages)
        for times, ts, cid, uid, thread_ts in most.iter_rows():
            at, thread = timestamp(ts), "" if thread_ts is None else timestamp(thread_ts)
            link = "" if hidden else names.permalink(f"{cid}/{at}/{thread}")
            named = cid, names.channel(cid), uid, names.person(uid)
            rows.append((kind, times, at, *named, link))
    columns = ("by", "count", "ts", "channel_id", "channel", "person_id", "person", "link")
    schema = {name: _INT if name == "count" else _TEXT for name in columns}
    return pl.DataFrame(rows, schema, orient="row")


def _dates(of: ReportData, _: Directory) -> pl.DataFrame:
    found = daily_posters(of.now.measures.period_messages.messages, of.period)
    return pl.DataFrame(list(found.items()), {"date": _TEXT, "posters": _INT}, orient="row")


def _edges(of: ReportData, names: Directory) -> pl.DataFrame:
    found = of.now.measures.interactions.edges()
    return found.select(
        from_id="one",
        **{"from": _named("one", names.person, found)},
        to_id="other",
        to=_named("other", names.person, found),
        times="n",
    )


def _with_whom(of: ReportData, names: Directory) -> pl.DataFrame:
    """Every people group, by person."""
    interactions = of.now.measures.interactions
    each = [
        interactions.group(name).select(pl.lit(name).alias("group"), "uid", "other", "n")
        for name in GROUPS
    ]
    found = pl.concat(each).sort("uid", maintain_order=True)
    return found.select(
        "group",
        person_id="uid",
        person=_named("uid", names.person, found),
        other_id="other",
        other=_named("other", names.person, found),
        times="n",
    )


def _with_before(now: pl.DataFrame, before: pl.DataFrame, key: str) -> pl.DataFrame:
    """With `m_before` and `w_before`, null where there was no such thing."""
    earlier = before.select(key, m_before="m", w_before="w")
    return now.join(earlier, on=key, how="left", maintain_order="left")


def _named(column: str, called: Callable[[str], str], frame: pl.DataFrame) -> pl.Expr:
    """The names of the IDs in a column."""
    ids = frame[column].unique()
    found = pl.Series([called(of) for of in ids], dtype=pl.String)
    return pl.col(column).replace_strict(ids, found, return_dtype=pl.String)


Tables: TypeAlias = Mapping[str, Callable[[ReportData, Directory], pl.DataFrame]]

_WORKSPACE: Final[Tables] = {
    "statistics": _statistics,
    "channels": _channels,
    "people": _people,
    "channel_people": _channel_people,
    "days": _days,
    "hours": _hours,
    "time_zones": _time_zones,
    "emoji": _emoji,
    "top_messages": _top_messages,
    "dates": _dates,
    "edges": _edges,
    "with_whom": _with_whom,
}
_TABLES: Final[Mapping[ReportKind, Tables]] = {
    ReportKind.CHANNEL: {"channels": _channels, "channel_people": _channel_people},
    ReportKind.USER: {"people": _people, "with_whom": _with_whom},
}
