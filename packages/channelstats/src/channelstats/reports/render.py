"""Every report in every form, by their names.

Rule: what is asked for and what is known go in, files come out; nothing else is read or written.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from channelstats.render.names import Directory
from channelstats.reports import data_tables, selection
from channelstats.reports.anonymous import Pseudonyms, anonymous
from channelstats.reports.channel_report import channel_report
from channelstats.reports.data_files import csv_files, parquet_files
from channelstats.reports.document import Document
from channelstats.reports.html_page import html_of
from channelstats.reports.model import Report
from channelstats.reports.slack_messages import messages_of
from channelstats.reports.suppression import suppressed
from channelstats.reports.text import text_of
from channelstats.reports.user_report import user_report
from channelstats.reports.view import View, as_mapping, view
from channelstats.reports.workspace_report import workspace_report
from channelstats.stats.values import Json


class Kind(StrEnum):
    GLOBAL = "global"
    BRIEF = "brief"
    CHANNEL = "channel"
    USER = "user"


class Form(StrEnum):
    TEXT = "text"
    HTML = "html"
    JSON = "json"
    SLACK = "slack"
    CSV = "csv"
    PARQUET = "parquet"


class Wanted(msgspec.Struct, frozen=True):
    """A report: of which kind and, for a channel or a user, on which ID. Whoever joins
    ``optin_channel`` gets reports on themselves; in ``help_channel`` people may ask.
    """

    kind: Kind
    subject: str = ""
    optin_channel: str = ""
    help_channel: str = ""


Files = dict[str, bytes]
"""Contents by name. A form of one file has one name, ""; of several, the names in their folder."""


class Subject(msgspec.Struct, frozen=True):
    """What a report is rendered from."""

    wanted: Wanted
    document: Mapping[str, Json]
    directory: Directory


def render(
    wanted: Wanted,
    document: Mapping[str, Json],
    directory: Directory,
    form: Form,
    *,
    names: Pseudonyms | None = None,
    smallest_group: int = 1,
) -> tuple[str, Files]:
    """The name of a report and its files. With ``names`` everything is under pseudonyms; groups of
    fewer posters than ``smallest_group`` are left out.
    """
    of = prepared(wanted, document, directory, names=names, smallest_group=smallest_group)
    return report_of(of).name, _FORMS[form](of)


def prepared(
    wanted: Wanted,
    document: Mapping[str, Json],
    directory: Directory,
    *,
    names: Pseudonyms | None = None,
    smallest_group: int = 1,
) -> Subject:
    """What a report is rendered from, as far as it may be seen; see `render`."""
    if smallest_group > 1:
        document = suppressed(document, smallest_group)
    if names is not None:
        document, directory = anonymous(document, directory, names)
        subject = wanted.subject and names.identifier(wanted.subject)
        wanted = Wanted(wanted.kind, subject)
    return Subject(wanted, document, directory)


def report_of(of: Subject) -> Report:
    """The report in no form yet."""
    return report_on(of.wanted, view(of.document), of.directory)


def report_on(wanted: Wanted, seen: View, directory: Directory) -> Report:
    """The same, for whoever makes many of one document."""
    if wanted.kind is Kind.CHANNEL:
        return channel_report(seen, directory, wanted.subject, wanted.help_channel)
    if wanted.kind is Kind.USER:
        return user_report(
            seen, directory, wanted.subject, wanted.optin_channel, wanted.help_channel
        )
    return workspace_report(seen, directory, brief=wanted.kind is Kind.BRIEF)


def _part(of: Subject) -> Mapping[str, Json]:
    if of.wanted.kind is Kind.CHANNEL:
        return selection.of_channel(of.document, of.wanted.subject)
    if of.wanted.kind is Kind.USER:
        return selection.of_user(of.document, of.wanted.subject)
    return of.document


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=_text), indent=2) + b"\n"


def _text(part: object) -> object:
    """What is in JSON already; what becomes another mapping only now."""
    assert isinstance(part, Mapping)
    return part.json if isinstance(part, Document) else dict(part)


def _frames(of: Subject) -> dict[str, data_tables.Frame]:
    tables = {Kind.CHANNEL: data_tables.CHANNEL, Kind.USER: data_tables.USER}
    part = _part(of)
    if part is not of.document:
        compared = {**as_mapping(of.document["compared"]), **as_mapping(part["compared"])}
        part = {**of.document, **part, "compared": compared}
    seen = view(part)
    return {
        table.name: table.frame(seen, of.directory)
        for table in tables.get(of.wanted.kind, data_tables.WORKSPACE)
    }


_FORMS: Final[Mapping[Form, Callable[[Subject], Files]]] = {
    Form.TEXT: lambda of: {"": text_of(report_of(of), of.directory).encode()},
    Form.HTML: lambda of: {"": html_of(report_of(of), of.directory).encode()},
    Form.JSON: lambda of: {"": _json(_part(of))},
    Form.SLACK: lambda of: {"": _json({"messages": messages_of(report_of(of), of.directory)})},
    Form.CSV: lambda of: csv_files(_frames(of)),
    Form.PARQUET: lambda of: parquet_files(_frames(of)),
}
