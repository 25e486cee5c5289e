"""A report in a few sentences: what changed, and three things to do. A whole report is too long for
a channel that people talk in.

Rule: it says nothing that the whole report or the view To do does not say.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import polars as pl

from channelstats.stats.messages import REACTED, REPLIED
from channelstats.views import figures
from channelstats.views.components import message_cells
from channelstats.views.figures import Figure
from channelstats.views.model import Kind, Line, Link, Page, Span, Text
from channelstats.views.queue import Action
from channelstats.views.report_data import MOVED, SIZES, ReportData
from channelstats.views.reports import (
    ReportKind,
    ReportRequest,
    page_of,
    silence_note,
    why_you_get_this,
)
from channelstats.views.sections import coverage_note, help_section

TO_DO: Final = 3
_NAMED: Final = 3
"""Channels or people in one sentence."""

_COUNTED: Final = {REPLIED: ("reply", "replies"), REACTED: ("reaction", "reactions")}
_RECEIVED: Final[Mapping[str, str]] = {
    "thread_responders": "Replies in your threads: ",
    "reactions_from": "Reactions to your messages: ",
}


def digest_of(wanted: ReportRequest, of: ReportData) -> Page:
    """The sentences, what there is to do, and whom to ask; ``of`` serves for many."""
    is_own, why = wanted.kind is ReportKind.USER, tuple[str | Span, ...]()
    note = coverage_note(of)
    if is_own:
        lines, why = _on_user(of, wanted.subject), why_you_get_this(wanted.optin_channel, of)
    elif wanted.kind is not ReportKind.CHANNEL:
        lines = _on_workspace(of)
    elif of.of_channel("figures", wanted.subject).height:
        lines = _on_channel(of, wanted.subject)
    else:
        lines, note = iter([(silence_note(of, wanted.subject),)]), ()
    parts = [Text(tuple(lines)), *note]
    if to_do := () if is_own else tuple(_to_do(of, wanted.subject)):
        parts.append(Text((("To do:",), *to_do)))
    if asking := help_section(why, wanted.help_channel, of):
        parts += asking.parts
    return page_of(wanted, of, tuple(parts), dashboard_url=wanted.dashboard_url)


# ── sentences ────────────────────────────────────────────────────────────────────────────────────


def _on_workspace(of: ReportData) -> Iterator[Line]:
    def compared(figure: Figure, label: str = "") -> Span:
        return Span(of.compared(figure), figure.kind, label)

    members: Line = ()
    if of.now.volume.members:
        members = (", ", compared(figures.POSTING), " of the members")
    yield (compared(figures.POSTERS, "person"), " posted", *members, ".")
    words = compared(figures.WORDS, "word")
    yield ("They wrote ", compared(figures.MESSAGES, "message"), " with ", words, ".")
    if largest := _listed(of.channels, "slack_cid", Kind.CHANNEL, "percent", Kind.PERCENT):
        yield ("Most words are in ", *largest, ".")
    waited: Line = ()
    if of.now.waits.height:
        waited = ("Half of the first replies came within ", compared(figures.FIRST_REPLY), "; ")
    unanswered = compared(figures.UNANSWERED, "message")
    yield (*waited, unanswered, " got neither a reply nor a reaction.")
    if figures.FIRST_TIME.measure(of.now) is not None:
        yield (compared(figures.FIRST_TIME, "person"), " posted for the first time.")
    yield from _most_noticed(of.top)


def _on_channel(of: ReportData, cid: str) -> Iterator[Line]:
    row = of.of_channel("figures", cid).row(0, named=True)
    people, messages, words = (
        Span(row[name], Kind.COUNT, label)
        for name, label in (("posters", "person"), ("messages", "message"), ("words", "word"))
    )
    yield (people, " wrote ", messages, " with ", words, ".")
    yield ("That is ", Span(row["share_rounded"], Kind.PERCENT), " of all words.")
    authors = of.of_channel("people", cid)
    most = _listed(authors, "slack_uid", Kind.PERSON, "words", Kind.COUNT, "word")
    yield ("Most words are by ", *most, ".")
    _, joins, leaves = (row[name] for name in MOVED)
    if joins["cur"] or leaves["cur"]:
        joined, left = Span(joins, Kind.COUNT, "person"), Span(leaves, Kind.COUNT)
        yield (joined, " joined, ", left, " left.")
    yield from _most_noticed(lambda count: of.of_channel(count, cid))


def _on_user(of: ReportData, uid: str) -> Iterator[Line]:
    row = next(of.of_person("figures", uid).iter_rows(named=True), None)
    if row is None or not row["m"]:
        yield ("You wrote nothing in this period.",)
    else:
        messages, words = Span(row["messages"], Kind.COUNT, "message"), row["words"]
        yield ("You wrote ", messages, " with ", Span(words, Kind.COUNT, "word"), ".")
        rank, share = Span(row["rank"], Kind.ORDINAL), Span(row["percent_of_words"], Kind.PERCENT)
        posters = f" of {of.now.volume.posters:,} who posted, with "
        yield ("By words you are the ", rank, posters, share, " of all words.")
    places = of.of_person("channels", uid)
    if places.height:
        most = _listed(places, "channel", Kind.CHANNEL, "words", Kind.COUNT, "word")
        yield ("Most of it is in ", *most, ".")
    for groups in of.of_person("groups", uid).iter_rows(named=True):
        for name, what in _RECEIVED.items():
            total, people = (groups[f"{name}_{size}"] for size in SIZES)
            if total["cur"]:
                who = Span(people, Kind.COUNT, "person")
                yield (what, Span(total, Kind.COUNT), ", by ", who, ".")
    yield from _most_noticed(lambda count: of.of_person(count, uid))


def _listed(
    rows: pl.DataFrame, column: str, kind: Kind, number: str, written: Kind, label: str = ""
) -> Line:
    """The first rows, each as a name and its number without its change: #general (60.0%)."""
    found: list[str | Span] = []
    for name, value in rows.select(column, number).head(_NAMED).iter_rows():
        of = value["cur"] if isinstance(value, dict) else value
        found += (", " if found else "", Span(name, kind), " (", Span(of, written, label), ")")
    return tuple(found)


def _most_noticed(top: Callable[[str], pl.DataFrame]) -> Iterator[Line]:
    """The messages with the most replies and the most reactions."""
    message = message_cells("slack_cid", "ts", "thread_ts")
    for count, (one, many) in _COUNTED.items():
        most = top(count).head(1).select("count", "slack_cid", message=message)
        for number, cid, place in most.iter_rows():
            link = Link(message=place, text=f"{number:,} {one if number == 1 else many}")
            where = Span(cid, Kind.CHANNEL)
            yield ("Most ", many, " to one message: ", Span(link, Kind.MESSAGE), " in ", where, ".")


# ── to do ────────────────────────────────────────────────────────────────────────────────────────


def _to_do(of: ReportData, cid: str) -> Iterator[Line]:
    """What is to be done first, in all or in a channel; nothing where a channel has too few posters
    to be chosen there.
    """
    if cid and not of.groups.shows(cid):
        return
    rows = of.to_do.filter(channel=cid) if cid else of.to_do
    for row in rows.head(TO_DO).iter_rows(named=True):
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
