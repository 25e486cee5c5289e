"""Marking what is to be done, one item or several at once, and saying so on the next page.

    POST /marks   `item`, for each of several; `as` what they are marked; `person` whom they are
                  assigned to, "" for nobody; `to` the page to go on with. Who accepts JSON gets 204
                  in place of a page.

Rule: all of a request is checked before any of it is stored.
"""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

from aiohttp import web

from channelstats.lookup import Names
from channelstats.pages.queue import is_item, is_question
from channelstats.tables.marks import MarkState
from channelstats.web.auth import accepts_json, fields_of, local, see_other, set_cookie
from channelstats.web.filters import BadQuery
from channelstats.web.pages import LISTED, NOTHING_CHECKED, SAID, Said
from channelstats.web.service import DashboardService

COOKIE: Final = "channelstats-marked"
"""By which the next page says what became of items."""

_MINUTE: Final = 60
_LARGEST_COOKIE: Final = 3_500
"""Characters. Browsers drop one of more than 4096 bytes."""

Visitor: TypeAlias = Callable[[web.Request, Names], str]


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
