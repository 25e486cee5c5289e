"""What is to be done first, and the whole lists: people to welcome or to contact, channels that
fell silent, and messages to answer.

Rule: each row leads to the message that it is about.
"""

from typing import Final

import polars as pl

from channelstats.facts.facts import newest
from channelstats.metrics import registry
from channelstats.metrics.table import Table
from channelstats.pages import queue
from channelstats.pages.components import date_cells, message_cells, table
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Page, Section
from channelstats.pages.team import team_section

_TOO_EARLY: Final = "Not known: too few days before this period were read."

MOST_UNANSWERED: Final = 10_000
"""Unanswered messages in the list. Of long periods there can be millions."""


def view(request: ViewRequest) -> Page:
    first, silent = [], []
    if not request.scope.person:
        first = [queue.queue(queue.items(request))]
        nothing = _if_known_before(request, "No channel fell silent.")
        silent = [Section.of(_silent(request), empty=nothing)]
    return request.page(
        "What to do first, and everybody to welcome or to contact, channels that fell silent,"
        " and messages to answer.",
        *first,
        newcomer_section(request),
        Section.of(
            _never_posted(request),
            empty=_if_known(request, "Everybody who joined in this period has posted."),
        ),
        Section.of(
            _lapsed(request),
            empty=_if_known_before(request, "Everybody who posted before posted again."),
        ),
        *silent,
        *team_section(request),
        # The longest of them.
        Section.of(_unanswered(request), empty="Every message got a reply or a reaction."),
        notes=_notes(request),
    )


def _unanswered(request: ViewRequest) -> Table:
    every = queue.unanswered(request)
    listed = newest(every, MOST_UNANSWERED)
    rows = listed.select(
        message=message_cells("slack_cid", "ts"),
        channel="slack_cid",
        person="slack_uid",
        date=date_cells(listed, request.scope.now.period.zone),
    )
    about = "Messages, not replies, that nobody else replied or reacted to; the newest first."
    if listed.height < every.height:
        about += f" These are the newest {listed.height:,} of {every.height:,}."
    return table("unanswered", "Unanswered messages", rows, about=about)


def newcomer_section(request: ViewRequest, *without: str) -> Section:
    """Who is to be welcomed; ``without`` are columns that are left out."""
    about = "Their first message is in this period. Those whom nobody answered yet come first."
    rows = newcomer_rows(queue.newcomers(request))
    first = {"message": registry.FIRST_MESSAGE}
    newcomers = table("newcomers", "Newcomers to welcome", rows, first, about=about)
    nobody = _if_known(request, "Nobody posted for the first time.")
    return Section.of(newcomers.without(*without), empty=nobody)


def newcomer_rows(newcomers: pl.DataFrame) -> pl.DataFrame:
    """Who is new, as rows of a table."""
    return newcomers.select(
        person="slack_uid",
        message=message_cells("slack_cid", "ts"),
        channel="slack_cid",
        messages="messages",
        answered="answered",
    )


def _if_known(request: ViewRequest, nobody: str) -> str:
    """That there is nobody, where it can be told who is new."""
    now = request.scope.now
    return nobody if now.knows_newcomers else _TOO_EARLY


def _if_known_before(request: ViewRequest, nobody: str) -> str:
    """The same of who and what was there in the period before."""
    scope = request.scope
    return nobody if scope.now.history.covers(scope.before.period) else _TOO_EARLY


def _never_posted(request: ViewRequest) -> Table:
    rows = queue.never_posted(request).select(
        person="slack_uid",
        message=message_cells("slack_cid", "ts"),
        channel="slack_cid",
        channels="channels",
    )
    about = (
        "They joined their first channel in this period, as far as Slack posted a message about it,"
        " and have posted nothing anywhere; the newest first."
    )
    called = {"message": registry.WHEN_JOINED, "channels": registry.CHANNELS_JOINED}
    return table("never_posted", "Joined and never posted", rows, called, about=about)


def _lapsed(request: ViewRequest) -> Table:
    rows = queue.lapsed(request).select(
        person="slack_uid",
        messages_before="messages",
        message=message_cells("slack_cid", "ts", "thread_ts"),
        channel="slack_cid",
        account=pl.when("deactivated").then(pl.lit("deactivated")).otherwise(pl.lit("")),
    )
    about = (
        "They wrote in the period before, and nothing in this one; the most messages first, and"
        " accounts that were deactivated last."
    )
    last = {"message": registry.LAST_MESSAGE}
    return table("lapsed", "People who stopped posting", rows, last, about=about)


def _silent(request: ViewRequest) -> Table:
    silent = queue.silent_channels(request)
    rows = silent.select(
        channel="slack_cid",
        message=message_cells("slack_cid", "ts", "thread_ts"),
        person="slack_uid",
        date=date_cells(silent, request.scope.now.period.zone),
        members="members",
    )
    called = {"message": registry.LAST_MESSAGE, "person": registry.BY}
    about = "Channels with messages before this period and none in it, unless they are archived."
    return table("silent", "Channels gone silent", rows, called, about=about)


def _notes(request: ViewRequest) -> tuple[str, ...]:
    notes = []
    now = request.scope.now
    if not now.history.knows_newcomers(now.period):
        but = ", but for those who joined the workspace since" if now.facts.people.joined else ""
        notes.append(
            f"Messages are known from {now.history.first} on, not long enough before this period to"
            f" tell who is new{but}."
        )
    if not now.history.covers(request.scope.before.period):
        notes.append(
            "Messages of the period before are not all known, so people may be missing here."
        )
    return tuple(notes)
