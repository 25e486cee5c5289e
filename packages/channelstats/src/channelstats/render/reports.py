"""Every report in every form, by their names.

Rule: what is asked for and what is known go in, files come out; nothing else is read or written.
"""

from enum import StrEnum

from channelstats.privacy.pseudonyms import Pseudonyms
from channelstats.render.data import Files, csv_files, indented, json_of_report, parquet_files
from channelstats.render.html import html_of
from channelstats.render.names import Directory
from channelstats.render.report_tables import frames_of
from channelstats.render.slack import messages_of
from channelstats.render.text import text_of
from channelstats.stats.document import report
from channelstats.views.report_data import ReportData
from channelstats.views.reports import Wanted, report_on


class Form(StrEnum):
    TEXT = "text"
    HTML = "html"
    JSON = "json"
    SLACK = "slack"
    CSV = "csv"
    PARQUET = "parquet"


def render(
    wanted: Wanted, of: ReportData, known: Directory, form: Form, *, document: bytes = b""
) -> tuple[str, Files]:
    """The name of a report and its files. ``document`` is that of the period, where it is stored;
    it is made for JSON where it is not given.
    """
    names = shown_names(of, known)
    made = report_on(wanted, of)
    if form is Form.JSON:
        return made.name, {"": json_of_report(document or document_of(of), wanted)}
    if form is Form.CSV:
        return made.name, csv_files(frames_of(wanted, of, names))
    if form is Form.PARQUET:
        return made.name, parquet_files(frames_of(wanted, of, names))
    if form is Form.SLACK:
        return made.name, {"": indented({"messages": messages_of(made, names)})}
    text = html_of(made, names) if form is Form.HTML else text_of(made, names)
    return made.name, {"": text.encode()}


def shown_names(of: ReportData, known: Directory) -> Directory:
    """The names of IDs as they are shown: the ones known, or pseudonyms."""
    return known if of.hidden is None else Directory.of_hidden(of.hidden)


def shown_subject(wanted: Wanted, names: Pseudonyms | None) -> Wanted:
    """The same report by the ID that is shown. Under pseudonyms it names no channel of its own."""
    if names is None:
        return wanted
    return Wanted(wanted.kind, names.identifier(wanted.subject))


def document_of(of: ReportData) -> bytes:
    """The document of the period, as far as it may be shown."""
    data = of.data
    return report(
        data.inputs,
        data.period,
        data.options,
        generated_at=of.made_at,
        smallest_group=of.smallest_group,
    )
