"""What is to be done, in words; marking one item of it or several at once, and saying so on the
next page.

    POST /marks   `item`, for each of several; `as` what they are marked; `person` whom they are
                  assigned to, "" for nobody; `to` the page to go on with. Who accepts JSON gets 204
                  in place of a page.

Rule: all of a request is checked before any of it is stored.
"""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from aiohttp import web

from channelstats.lookup import Names
from channelstats.metrics.table import Kind
from channelstats.pages.annotations import ASSIGNED_BY, ASSIGNEE, MARKED
from channelstats.pages.model import Page
from channelstats.pages.queue import ITEM, QUEUE, Action, is_item, is_question
from channelstats.render.names import Directory
from channelstats.tables.marks import MarkState
from channelstats.web.filters import BadQuery
from channelstats.web.http import accepts_json, fields_of, local, see_other, set_cookie
from channelstats.web.service import DashboardService

COOKIE: Final = "channelstats-marked"
"""By which the next page says what became of items."""

_MINUTE: Final = 60
_LARGEST_COOKIE: Final = 3_500
"""Characters. Browsers drop one of more than 4096 bytes."""

LISTED: Final = "listed"
"""Said of an item that was marked: it is listed again."""

NOTHING_CHECKED: Final = "nothing"

SAID: Final[Mapping[str, str]] = {
    MarkState.DONE: "Done",
    MarkState.SNOOZED: "Left out for a week",
    MarkState.NOT_A_QUESTION: "Marked as no question",
    MarkState.ASSIGNED: "Assigned",
    LISTED: "Listed again",
    NOTHING_CHECKED: "Nothing is checked",
}
"""What has become of items, as a page says it."""

_ABOUT_CHANNEL: Final = (Action.HELP, Action.REVIVE)
_ABOUT_MESSAGE: Final = (Action.ANSWER,)

Visitor: TypeAlias = Callable[[web.Request, Names], str]


class Said(NamedTuple):
    """What has just become of items: a key of `SAID`, "" for nothing."""

    mark: str = ""
    items: Sequence[str] = ()

    @property
    def has_undo(self) -> bool:
        """Whether the items can be listed again."""
        return bool(self.items) and self.mark not in (MarkState.ASSIGNED, LISTED)


class ItemsOfPage:
    """What is to be done on a page, and what of it was marked, in words."""

    def __init__(self, view: Page, directory: Directory) -> None:
        self._directory = directory
        self.rows: dict[str, dict[str, Any]] = {
            row[ITEM]: row
            for table in view.tables
            if table.name in (QUEUE, MARKED) and ITEM in table.rows.columns
            for row in table.rows.iter_rows(named=True)
        }

    def is_marked(self, item: str) -> bool:
        """Whether somebody marked this item of what is to be done."""
        return "state" in self.rows[item]

    def label(self, item: str) -> str:
        """What is to be done: `Answer Freya in #hiring`."""
        row = self.rows[item]
        action, person = row["action"], self._directory.person(row["person"])
        channel = self._directory.called(row["channel"], Kind.CHANNEL)
        if action in _ABOUT_MESSAGE:
            return f"{action} {person} in {channel}"
        return f"{action} {channel if action in _ABOUT_CHANNEL else person}"

    def assignee(self, item: str) -> str:
        """The ID of whom an item is assigned to, "" for nobody."""
        return self.rows[item].get(ASSIGNEE) or ""

    def assigned(self, item: str) -> str:
        """Whom an item is assigned to, and by whom, in words; "" for nobody."""
        if not (assignee := self.assignee(item)):
            return ""
        by = self.rows[item][ASSIGNED_BY]
        name = self._directory.person(assignee)
        return f"{name}, by {self._directory.person(by)}" if by and by != assignee else name

    def said(self, said: Said) -> str:
        """What has just become of items, in a sentence; "" for nothing."""
        mark, items = said
        if not items:
            return f"{SAID[mark]}." if mark else ""
        what = f"{len(items)} items" if len(items) > 1 else "an item"
        if len(items) == 1 and items[0] in self.rows:
            what = self.label(items[0])
        return f"{SAID[mark]}: {what}."


class Marking:
    """``visitor`` tells who sent a request, by ID, "" where that is not known."""

    def __init__(self, service: DashboardService, visitor: Visitor) -> None:
        self._service, self._visitor = service, visitor

    async def mark(self, request: web.Request) -> web.Response:
        fields = await fields_of(request)
        form, items = dict(fields), [text for name, text in fields if name == "item"]
        said = form.get("as", "")
        if items:
            await self._store(request, items, said, form.get("person", ""))
        elif said in SAID:
            said = NOTHING_CHECKED
        if accepts_json(request):
            return web.Response(status=HTTPStatus.NO_CONTENT)
        listed = ",".join(quote(item, safe="") for item in items)
        text = f"{said}/{listed if len(listed) <= _LARGEST_COOKIE else ''}"
        return set_cookie(see_other(local(form.get("to", "/"))), request, COOKIE, text, _MINUTE)

    async def _store(
        self, request: web.Request, items: Sequence[str], said: str, assignee: str
    ) -> None:
        """Mark, assign or list again.

        :raises BadQuery: that cannot be said of one of the items
        """
        if not all(map(is_item, items)):
            raise BadQuery("item: expected the key of something to be done")
        if said not in (*MarkState, LISTED):
            raise BadQuery(f"as: expected one of {', '.join([*MarkState, LISTED])}")
        if said == MarkState.NOT_A_QUESTION and not all(map(is_question, items)):
            raise BadQuery("as: only questions can be marked as not a question")
        names = await self._service.names(await self._service.snapshot())
        if said == MarkState.ASSIGNED and assignee not in ("", *names.team):
            raise BadQuery("person: expected somebody of the team, or nobody")
        marks, now, by = (
            self._service.tables.marks,
            int(self._service.clock()),
            self._visitor(request, names),
        )
        for item in items:
            if said == LISTED:
                await marks.remove(item)
            elif said == MarkState.ASSIGNED:
                await marks.assign(item, assignee, now, by)
            else:
                await marks.put(item, MarkState(said), now, by)


def said_of(request: web.Request) -> Said:
    """What the page before has done, as its cookie says."""
    said, _, listed = request.cookies.get(COOKIE, "").partition("/")
    if said not in SAID:
        return Said()
    items = [unquote(item) for item in listed.split(",") if item]
    return Said(said, items)
