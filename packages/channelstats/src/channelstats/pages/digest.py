"""A report in a few sentences, the channels or people with the most, and five things to do. A whole
report is too long for a channel that people talk in.

Rule: it says nothing that the dashboard does not say of the same days.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from channelstats.facts.facts import REACTED, REPLIED
from channelstats.metrics.table import Kind, Link, Table
from channelstats.pages.channels import channel_table
from channelstats.pages.components import message_cells
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import TO_DO, ChoiceError, Line, Page, Span, Text
from channelstats.pages.people import people_table
from channelstats.pages.queue import Action
from channelstats.pages.reports import ReportData, ReportKind, ReportRequest, sheet
from channelstats.pages.summary import summary

MOST: Final = 5
"""Things to do."""
_NAMED: Final = 3
"""Channels or people in one sentence."""

_COUNTED: Final = {REPLIED: ("reply", "replies"), REACTED: ("reaction", "reactions")}


def digest_of(wanted: ReportRequest, data: ReportData) -> Page:
    """The sentences, what there is to do, and whom to ask; ``data`` serves for many."""
    is_own = wanted.kind is ReportKind.USER
    try:
        request = data.request(wanted)
    except ChoiceError as error:
        lines: tuple[Line, ...] = ((f"{error}.",),)
    else:
        lines = (*summary(request, is_own=is_own), *_most(request), *_most_noticed(request))
        if not is_own and (to_do := tuple(_to_do(wanted, data))):
            lines = (*lines, ("To do:",), *to_do)
    return sheet(wanted, data, Text(lines))


def _most(request: ViewRequest) -> Iterator[Line]:
    """Where most was written, or in a channel by whom."""
    if not request.scope.now.messages.height:
        return
    if not request.choice.channel:
        yield from _listed("Most messages are in ", channel_table(request, _NAMED), Kind.CHANNEL)
    elif request.names_people:
        yield from _listed("Most messages are by ", people_table(request, _NAMED), Kind.PERSON)


def _listed(said: str, table: Table, kind: Kind) -> Iterator[Line]:
    """The first rows, each as a name and its number: #general (24 messages)."""
    parts: list[str | Span] = []
    for name, messages in table.rows.select(str(kind), "messages").iter_rows():
        number = Span(messages, Kind.COUNT, "message")
        parts += (", " if parts else "", Span(name, kind), " (", number, ")")
    if parts:
        yield (said, *parts, ".")


def _most_noticed(request: ViewRequest) -> Iterator[Line]:
    """The messages with the most replies and the most reactions."""
    message = message_cells("slack_cid", "ts", "thread_ts")
    for count, (one, many) in _COUNTED.items():
        most = request.listable(request.scope.now.top(count)).head(1)
        rows = most.select("count", "slack_cid", message=message).collect()
        for number, cid, place in rows.iter_rows():
            link = Link(message=place, text=f"{number:,} {one if number == 1 else many}")
            where = Span(cid, Kind.CHANNEL)
            yield ("Most ", many, " to one message: ", Span(link, Kind.MESSAGE), " in ", where, ".")


def _to_do(wanted: ReportRequest, data: ReportData) -> Iterator[Line]:
    """What is to be done first, in all or in a channel."""
    rows = data.page(TO_DO, wanted).tables[0].rows
    for row in rows.head(MOST).iter_rows(named=True):
        sign, text = _SIGNS[Action(row["action"])]
        where = Span(row["channel"], Kind.CHANNEL)
        link = Span(Link(message=row.get("message", ""), text=text), Kind.MESSAGE)
        # A mention would notify, before everybody, the person whom others are to help.
        who: Line = (Span(row["person"], Kind.PERSON, notify=False), " in ", where)
        about = (where,) if row["action"] in _OF_CHANNELS else who
        signed = (Span(sign, Kind.EMOJI), f" {row['action']} ")
        yield (*signed, *about, " (", link, f"): {row['reason']}")


_SIGNS: Final[Mapping[Action, tuple[str, str]]] = {
    Action.ANSWER: ("eyes", "the question"),
    Action.WELCOME: ("wave", "their message"),
    Action.WRITE: ("handshake", "the last message"),
    Action.HELP: ("sos", "the last answer"),
    Action.REVIVE: ("hourglass", "the last message"),
    Action.SAY_HELLO: ("seedling", "when they joined"),
}
"""An emoji, and what the message is."""

_OF_CHANNELS: Final = frozenset({Action.HELP, Action.REVIVE})
