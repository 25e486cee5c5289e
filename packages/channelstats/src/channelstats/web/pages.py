"""Pages: of a view, of the start, of the login, and of what went wrong.

Rule: a page is made on the server and whole without a script; it needs nothing from elsewhere.
"""

from datetime import date
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from channelstats.render.html import environment
from channelstats.stats.period import History, Period
from channelstats.views.goals import Bound
from channelstats.views.model import VIEWS, Kind, View
from channelstats.web.filters import PRESETS, Now, Query
from channelstats.web.names import Names
from channelstats.web.table_pages import TableQuery
from channelstats.web.view_context import ViewContext

_OFFERED: Final = 60
"""People offered to choose from before anything is typed."""


class Visit(msgspec.Struct, frozen=True):
    """One visit to the dashboard: ``asked`` in IDs that may be shown; ``me`` is who the visitor
    said to be, by such an ID, or ""; ``logged_in`` with a token.
    """

    asked: Query
    names: Names
    now: Now
    zone: ZoneInfo
    workspace: str
    me: str = ""
    logged_in: bool = False
    goals: tuple[Bound, ...] = ()

    @property
    def mine(self) -> str:
        return self.names.directory.person(self.me) if self.me else ""


def view_page(view: View, visit: Visit, table: TableQuery = TableQuery()) -> str:  # noqa: B008
    """The page of a view; ``table`` says which rows of a table.

    :raises BadQuery: there is no such table, column or page
    """
    names, asked = visit.names, visit.asked
    person = names.directory.person(asked.person) if asked.person else ""
    return _render(
        "view.html",
        show=ViewContext(view, asked, names.directory, visit.zone, table, visit.goals),
        view=view,
        visit=visit,
        presets=PRESETS,
        channels=names.listed_channels(view.small_channels),
        person=names.finder(asked.person, person)[0] if person else "",
        people=_offered(view, names),
        span=_span(asked.first, asked.last),
        before=_span(*view.before),
        is_compared=_is_known(view, visit),
        known=_known(visit.now.history),
    )


def start_page(visit: Visit, folder: str) -> str:
    """The page of a store without messages: what to do."""
    return _render("start.html", visit=visit, folder=folder)


def message_page(title: str, text: str, *, back: str = "/") -> str:
    """A page that says what went wrong, and leads back."""
    return _render("message.html", title=title, text=text, back=back)


def login_page(wrong: str, to: str) -> str:
    return _render("login.html", wrong=wrong, to=to)


def _render(name: str, **values: object) -> str:
    return environment("channelstats.web").get_template(name).render(views=VIEWS, **values)


def _offered(view: View, names: Names) -> list[tuple[str, str]]:
    """People of the view: what means each, and their names."""
    found = dict.fromkeys(
        str(row[at])
        for table in view.tables
        for at, column in enumerate(table.columns)
        if column.kind is Kind.PERSON
        for row in table.rows[:_OFFERED]
    )
    shown = list(found)[:_OFFERED]
    return [names.finder(uid, names.directory.person(uid)) for uid in shown]


def _is_known(view: View, visit: Visit) -> bool:
    """Whether all messages of the period and of the one before are known."""
    choice = view.choice
    period = Period(choice.first, (choice.last - choice.first).days + 1, visit.zone)
    return all(visit.now.history.covers(of) for of in (period, period.previous))


def _known(history: History) -> str:
    """The dates that messages are known of: from 2024-01-07 to 2024-03-16."""
    ends = {"from": history.first, "to": history.last}
    return " ".join(f"{word} {day}" for word, day in ends.items() if day is not None)


def _span(first: date, last: date) -> str:
    year = "" if first.year == last.year else f" {first.year}"
    return f"{first:%a} {first.day} {first:%b}{year} to {last:%a} {last.day} {last:%b} {last.year}"
