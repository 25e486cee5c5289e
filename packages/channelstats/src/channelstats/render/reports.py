"""Every report in every form, by their names.

Rule: what is asked for and what is known go in, files come out; nothing else is read or written.
"""

from enum import StrEnum

from channelstats.privacy import Pseudonyms
from channelstats.render.data import Files, csv_files, indented, json_of_report, parquet_files
from channelstats.render.html import html_of
from channelstats.render.names import Directory
from channelstats.render.report_tables import frames_of
from channelstats.render.slack import messages_of
from channelstats.render.text import text_of
from channelstats.views.report_data import ReportData
from channelstats.views.reports import Wanted, report_on


class Form(StrEnum):
    TEXT = "text"
    HTML = "html"
    JSON = "json"
    SLACK = "slack"
    CSV = "csv"
    PARQUET = "parquet"


def render(wanted: Wanted, of: ReportData, known: Directory, form: Form) -> Files:
    """The files of a report."""
    if form is Form.JSON:
        return {"": json_of_report(of.document, wanted)}
    names = shown_names(of, known)
    if form is Form.CSV:
        return csv_files(frames_of(wanted, of, names))
    if form is Form.PARQUET:
        return parquet_files(frames_of(wanted, of, names))
    made = report_on(wanted, of)
    if form is Form.SLACK:
        return {"": indented({"messages": messages_of(made, names)})}
    text = html_of(made, names) if form is Form.HTML else text_of(made, names)
    return {"": text.encode()}


def shown_names(of: ReportData, known: Directory) -> Directory:
    """The names of IDs as they are shown: the ones known, or pseudonyms."""
    return known if of.hidden is None else Directory.of_hidden(of.hidden)


def shown_subject(wanted: Wanted, names: Pseudonyms | None) -> Wanted:
    """The same report by the ID that is shown. Under pseudonyms it names no channel of its own."""
    if names is None:
        return wanted
    return Wanted(wanted.kind, names.identifier(wanted.subject))
