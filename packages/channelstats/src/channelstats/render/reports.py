"""Every report in every form, by their names; for programs: JSON, CSV, Parquet.

Rule: what is asked for and what is known go in, files come out; nothing else is read or written.

The JSON of a report is the document of `channelstats.stats.document`, or the part of it that is
about one channel or one person, with nothing of others but what they did with this one. CSV and
Parquet are its tables: a column has one type, a row stands for itself, with IDs and names side by
side. Numbers are not rounded, and whole: every channel and everybody, but for groups that are too
small to be listed.
"""

import io
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
import polars as pl

from channelstats.render.data import csv_bytes
from channelstats.render.html import html_of
from channelstats.render.names import Directory
from channelstats.render.slack import content_of
from channelstats.render.text import text_of
from channelstats.stats.activity import WEEKDAYS
from channelstats.stats.conversation import daily_posters
from channelstats.stats.messages import (
    REACTED,
    REPLIED,
    TOP_MESSAGES,
)
from channelstats.stats.quantities import beside, change, replaced
from channelstats.tables.columns import ID, timestamps
from channelstats.views.components import message_cells
from channelstats.views.report_data import ReportData
from channelstats.views.reports import GROUPS, ReportKind, ReportRequest, report_on

Files: TypeAlias = dict[str, bytes]
"""Contents by name. A form of one file has one name, ""; of several, the names in their folder."""


class Form(StrEnum):
    TEXT = "text"
    HTML = "html"
    JSON = "json"
    SLACK = "slack"
    CSV = "csv"
    PARQUET = "parquet"


def render(wanted: ReportRequest, of: ReportData, names: Directory, form: Form) -> Files:
    """The files of a report."""
    if form is Form.JSON:
        return {"": json_of_report(of.document, wanted)}
    if form in (Form.CSV, Form.PARQUET):
        write = _csv if form is Form.CSV else _parquet
        frames = frames_of(wanted, of, names)
        return {f"{name}.{form}": write(frame) for name, frame in frames.items()}
    if form is Form.SLACK:
        return {"": indented(content_of(wanted, of, names).message)}
    made = report_on(wanted, of)
    text = html_of(made, names) if form is Form.HTML else text_of(made, names)
    return {"": text.encode()}


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────

_ABOUT: Final = (
    "schema_version",
    "profile",
    "report_timezone",
    "generated_at",
    "input_fingerprint",
    "start_date",
    "end_date",
    "days",
)
_PARTS: Final[Mapping[ReportKind, tuple[str, ...]]] = {
    ReportKind.CHANNEL: ("channels", "channel_stats", "channel_user", "enriched_channel"),
    ReportKind.USER: ("users", "user_stats", "enriched_user"),
}
"""The first of them is also a part of what is compared."""

_Parts: TypeAlias = dict[str, msgspec.Raw]


def json_of_report(document: bytes, wanted: ReportRequest) -> bytes:
    """The document of a period, or the part of it that a report is about."""
    found: object = msgspec.Raw(document)
    if wanted.kind in _PARTS:
        whole, subject = _parts(document), wanted.subject
        compared, name = _parts(whole["compared"]), _PARTS[wanted.kind][0]
        found = {
            **{key: whole[key] for key in _ABOUT},
            **{key: _only(whole[key], subject) for key in _PARTS[wanted.kind]},
            "compared": {name: _only(compared[name], subject)},
        }
    return indented(found)


def indented(value: object) -> bytes:
    """JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _parts(json: bytes | msgspec.Raw) -> _Parts:
    """The parts of a document; none of them is decoded."""
    return msgspec.json.decode(json, type=_Parts)


def _only(part: msgspec.Raw, subject: str) -> _Parts:
    found = _parts(part)
    return {subject: found[subject]} if subject in found else {}


# ── CSV and Parquet ──────────────────────────────────────────────────────────────────────────────

_INT: Final = pl.Int64()
_FLOAT: Final = pl.Float64()
_TEXT: Final = pl.String()


def _csv(frame: pl.DataFrame) -> bytes:
    return csv_bytes(frame.columns, frame.iter_rows())


def _parquet(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def frames_of(wanted: ReportRequest, of: ReportData, names: Directory) -> dict[str, pl.DataFrame]:
    """The tables by name: of everything, or of what is about one channel or one person."""
    found = {name: make(of) for name, make in _TABLES.get(wanted.kind, _WORKSPACE).items()}
    about = {ReportKind.CHANNEL: "channel_id", ReportKind.USER: "person_id"}
    if wanted.kind in about:
        key = pl.col(about[wanted.kind]) == wanted.subject
        found = {name: frame.filter(key) for name, frame in found.items()}
    return {name: _with_names(frame, names) for name, frame in found.items()}


def _with_names(frame: pl.DataFrame, names: Directory) -> pl.DataFrame:
    """With a column of names after each one of IDs, and with links in place of messages."""
    columns = []
    frame = frame.with_columns(pl.col(ID).cast(_TEXT))
    for column in frame.columns:
        called = names.channel if column == "channel_id" else names.person
        if column == "link":
            columns.append(replaced(frame[column], names.permalink))
            continue
        columns.append(frame[column])
        if column.endswith("_id"):
            columns.append(replaced(frame[column], called).alias(column.removesuffix("_id")))
    return pl.DataFrame(columns)


def _statistics(of: ReportData) -> pl.DataFrame:
    before = of.before.statistics
    changes = {name: change(figure, before[name]) for name, figure in of.now.statistics.items()}
    rows = [(name, *found.values()) for name, found in changes.items()]
    numbers = dict.fromkeys(("value", "before", "change_percent"), _FLOAT)
    schema = {"name": _TEXT, **numbers, "state": _TEXT}
    return pl.DataFrame(rows, schema, orient="row", strict=False)


def _channels(of: ReportData) -> pl.DataFrame:
    return of.channels.select(
        "rank",
        channel_id="slack_cid",
        messages="m",
        words="w",
        messages_before="m_before",
        words_before="w_before",
        posters=_number("posters"),
        members="members",
        percent_of_words=_number("percent"),
        cumulative_percent=_number("cpercent"),
        words_per_poster=_number("words_per_poster"),
        reactions="reaction_count",
        files=_number("files"),
        joins=_number("joins"),
        leaves=_number("leaves"),
        new=pl.col("new").fill_null(value=False).cast(_TEXT),
    )


def _people(of: ReportData) -> pl.DataFrame:
    return of.people.select(
        "rank",
        person_id="slack_uid",
        messages="m",
        words="w",
        messages_before="m_before",
        words_before="w_before",
        percent_of_words=_number("percent_of_words"),
        cumulative_percent=_number("cum_percent_of_words"),
        reactions_received="reactions",
        reactions_given="reactions_given",
        replies="replies",
        thread_messages=_number("thread_messages"),
        reactions_per_100_words=_number("rphw"),
    )


def _number(compared: str) -> pl.Expr:
    """The numbers of a column of changes."""
    return pl.col(compared).struct.field("cur")


def _channel_people(of: ReportData) -> pl.DataFrame:
    listed = of.channels.select("slack_cid")
    people = of.now.channel_authors
    found = listed.join(people, on="slack_cid", how="left", maintain_order="left_right")
    return found.select(channel_id="slack_cid", person_id="slack_uid", messages="m", words="w")


def _days(of: ReportData) -> pl.DataFrame:
    found = beside(of.now.activity.weekdays, of.before.activity.weekdays, "weekday")
    return found.select(
        "weekday",
        day=pl.Series(WEEKDAYS),
        messages="m",
        words="w",
        messages_before="m_before",
        words_before="w_before",
    )


def _hours(of: ReportData) -> pl.DataFrame:
    found = of.now.activity.workday_hours
    return found.select("hour", mean_share_percent="share", messages="m", words="w")


def _time_zones(of: ReportData) -> pl.DataFrame:
    return of.groups.zones.select(
        time_zone="tz", posters=pl.col("posters").cast(_INT), messages="m", words="w"
    )


def _emoji(of: ReportData) -> pl.DataFrame:
    return of.emoji.select("emoji", "times", per_1000_words="per_thousand_words")


def _top_messages(of: ReportData) -> pl.DataFrame:
    message = message_cells("slack_cid", "ts", "thread_ts")
    each = [
        of.top(count)
        .head(TOP_MESSAGES)
        .select(
            pl.lit(by).alias("by"),
            "count",
            ts=timestamps("ts"),
            time=_minutes(of),
            channel_id="slack_cid",
            person_id="slack_uid",
            link=message,
        )
        for by, count in {"reactions": REACTED, "replies": REPLIED}.items()
    ]
    return pl.concat(each)


def _minutes(of: ReportData) -> pl.Expr:
    """The time of each message, as `yyyy-mm-dd HH:MM` in the zone of the report."""
    at = pl.from_epoch("ts", "us").dt.replace_time_zone("UTC")
    return at.dt.convert_time_zone(of.period.zone.key).dt.strftime("%Y-%m-%d %H:%M")


def _dates(of: ReportData) -> pl.DataFrame:
    found = daily_posters(of.now)
    return pl.DataFrame(list(found.items()), {"date": _TEXT, "posters": _INT}, orient="row")


def _edges(of: ReportData) -> pl.DataFrame:
    return of.now.interactions.edges().select(from_id="one", to_id="other", times="n")


def _with_whom(of: ReportData) -> pl.DataFrame:
    """Every people group, by person."""
    interactions = of.now.interactions
    each = [
        interactions.group(name).select(
            pl.lit(name).alias("group"), person_id="uid", other_id="other", times="n"
        )
        for name in GROUPS
    ]
    return pl.concat(each).sort("person_id", maintain_order=True)


Tables: TypeAlias = Mapping[str, Callable[[ReportData], pl.DataFrame]]

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
