"""Every report in every form, by their names; for programs: JSON, CSV, Parquet.

Rule: what is asked for and what is known go in, files come out; nothing else is read or written.

The JSON of a report is the document of `channelstats.pages.document`, or the part of it that is
about one channel or one person, with nothing of others but what they did with this one. CSV and
Parquet are the tables of the dashboard, whole and unrounded, a file each.
"""

import io
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
import polars as pl

from channelstats.metrics.table import Table
from channelstats.pages.model import CHANNEL, PERSON, VIEWS
from channelstats.pages.reports import ReportData, ReportKind, ReportRequest, report_on
from channelstats.render.data import csv_of
from channelstats.render.html import html_of
from channelstats.render.names import Directory
from channelstats.render.slack import content_of
from channelstats.render.text import text_of
from channelstats.tables.columns import ID

VIEWS_OF: Final[Mapping[ReportKind, tuple[str, ...]]] = {
    ReportKind.CHANNEL: (CHANNEL, "people"),
    ReportKind.USER: (PERSON, "channels"),
}
"""The views whose tables a report has in CSV and Parquet; of everything all of them."""

Files: TypeAlias = dict[str, bytes]
"""Contents by name. A form of one file has one name, ""; of several, the names in their folder."""


class Form(StrEnum):
    TEXT = "text"
    HTML = "html"
    JSON = "json"
    SLACK = "slack"
    CSV = "csv"
    PARQUET = "parquet"


def render(wanted: ReportRequest, data: ReportData, names: Directory, form: Form) -> Files:
    """The files of a report."""
    if form is Form.JSON:
        return {"": json_of_report(data.document, wanted)}
    if form in (Form.CSV, Form.PARQUET):
        zone, is_csv = data.period.zone, form is Form.CSV
        return {
            f"{table.name}.{form}": csv_of(table, names, zone) if is_csv else _parquet(table)
            for table in tables_of(wanted, data)
        }
    if form is Form.SLACK:
        return {"": indented(content_of(wanted, data, names).message)}
    made = report_on(wanted, data)
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
    document_part: object = msgspec.Raw(document)
    if wanted.kind in _PARTS:
        parts, subject = _parts(document), wanted.subject
        compared, name = _parts(parts["compared"]), _PARTS[wanted.kind][0]
        document_part = {
            **{key: parts[key] for key in _ABOUT},
            **{key: _only(parts[key], subject) for key in _PARTS[wanted.kind]},
            "compared": {name: _only(compared[name], subject)},
        }
    return indented(document_part)


def indented(value: object) -> bytes:
    """JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _parts(json: bytes | msgspec.Raw) -> _Parts:
    """The parts of a document; none of them is decoded."""
    return msgspec.json.decode(json, type=_Parts)


def _only(part: msgspec.Raw, subject: str) -> _Parts:
    parts = _parts(part)
    return {subject: parts[subject]} if subject in parts else {}


# ── CSV and Parquet ──────────────────────────────────────────────────────────────────────────────


def tables_of(wanted: ReportRequest, data: ReportData) -> Iterator[Table]:
    """Every table of the views of what a report is on, whole."""
    # Overview has the beginnings of tables that other views have whole, so it comes last.
    overview, *others = VIEWS
    named = set[str]()
    for view in VIEWS_OF.get(wanted.kind, (*others, overview)):
        for table in data.page(view, wanted).tables:
            if table.name not in named:
                named.add(table.name)
                yield table


def _parquet(table: Table) -> bytes:
    """A change is a struct, an ID a text."""
    file = io.BytesIO()
    table.rows.with_columns(pl.col(ID).cast(pl.String)).write_parquet(file)
    return file.getvalue()
