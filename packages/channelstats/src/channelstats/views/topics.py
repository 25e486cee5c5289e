"""What is talked about: the words and links that rise in a week against the eight before.

Rule: what is compared is how many people use a word, as a share of all who wrote: nobody makes a
topic by repeating it, and a week of which little was read is still comparable.
"""

import math
from collections.abc import Mapping
from datetime import date
from typing import Final, NamedTuple

import polars as pl

from channelstats.days import DAY, period_text
from channelstats.tables.topics import WeekTopics
from channelstats.views import figures
from channelstats.views.components import table
from channelstats.views.figures import Figure
from channelstats.views.loading import TOPIC_WEEKS, ViewRequest
from channelstats.views.model import Page, Section, Table

SHOWN: Final = 20
"""Words, and as many links."""

_WEEK: Final = 7 * DAY
_MARGIN: Final = 2.0
"""Standard deviations that a number of people has to be above what is usual."""

_LEAD: Final = "Words and links that more people used in one week than in the eight weeks before."


class Rising(NamedTuple):
    """How many people used a term, and how many would, if it were used as in the weeks before."""

    term: str
    used_by: int
    usual: float


def rising(weeks: Mapping[date, WeekTopics], week: date, smallest: int = 1) -> list[Rising]:
    """What rises in a week against those before that are known, the most surprising first; nothing
    that fewer people used than the ``smallest`` group.
    """
    now = weeks.get(week)
    before = [of for start, of in weeks.items() if start < week and of.people]
    if now is None or not before:
        return []
    found = []
    for term, people in now.terms.items():
        # Where it is not kept, fewer people used it than are ever counted.
        shares = (of.terms.get(term, 0) / of.people for of in before)
        usual = sum(shares) / len(before) * now.people
        if people >= smallest and people > usual + _MARGIN * math.sqrt(usual + 1):
            found.append(Rising(term, people, usual))
    return sorted(found, key=lambda of: (-_surprise(of), of.term))


def _surprise(of: Rising) -> float:
    return (of.used_by - of.usual) / math.sqrt(of.usual + 1)


def view(request: ViewRequest) -> Page:
    week = request.data.topic_week
    why_not = _why_not(request, week)
    found = [] if why_not else rising(request.data.topics, week, request.smallest_group)
    about = "" if why_not else f"The week of {period_text(week, week + _WEEK - DAY)}."
    words, links = topic_tables(found, about)
    return request.page(
        _LEAD,
        Section.of(words, empty=why_not or "No word was used by clearly more people than before."),
        Section.of(links, empty=why_not or "No link was used by clearly more people than before."),
        notes=(why_not,) if why_not else (),
        compares=False,  # with the eight weeks before, whatever the period is
    )


def topic_tables(found: list[Rising], about: str = "") -> tuple[Table, Table]:
    """Words, and links: those have a dot in their host. ``about`` says of which week."""
    words, links = (
        [of for of in found if ("." in of.term) is is_link][:SHOWN] for is_link in (False, True)
    )
    return (
        _table("words", "Words that rise", figures.WORD, words, about),
        _table("links", "Links that rise", figures.LINK, links, about),
    )


def topic_frame(found: list[Rising]) -> pl.DataFrame:
    schema = {"term": pl.String, "used_by": pl.Int64, "usual": pl.Float64}
    return pl.DataFrame(found, schema, orient="row")


def _table(name: str, title: str, term: Figure, found: list[Rising], about: str) -> Table:
    return table(
        name,
        title,
        topic_frame(found),
        {"term": term},
        bar="used_by",
        line="{}|: {} people|, usually {}",
        about=about,
    )


def topics_section(found: list[Rising]) -> Section | None:
    """The same in a report; None where there is nothing."""
    parts = tuple(of for of in topic_tables(found) if of.rows.height)
    return Section("What is talked about", parts, beyond=True, rule_after=True) if parts else None


def _why_not(request: ViewRequest, week: date) -> str:
    """Why no words are compared; "" where they are."""
    data, choice = request.data, request.choice
    if not data.options.topics:
        return "Words are not counted here (count_topics = false)."
    if data.inputs.hides_times:
        return "Words are not shown under pseudonyms: they may tell who wrote them."
    if choice.channel or choice.person:
        return "Words are counted of the whole workspace: choose no channel and no person."
    if week not in data.topics:
        return "Words of this week were not counted: each import counts the newest 13 weeks."
    if len(data.topics) == 1:
        return f"None of the {TOPIC_WEEKS} weeks before was counted, so nothing can be compared."
    return ""
