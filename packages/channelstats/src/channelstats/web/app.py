"""The dashboard as an application: its addresses, and what each answers.

Rule: an address says all of what is looked at; the same address without `.json` or `.csv` is the
page of the same numbers.

    /  /<view>            pages; /volume, /hours, ... see `channelstats.pages.model.VIEWS`, and
                          /person?person=, /channel?channel=&compare=, /messages?only=;
                          ?table=&sort=&find=&page= see `channelstats.web.table_pages`
    /<view>.json          the whole view
    /<view>.csv?table=    one of its tables, else the main one
    /report               the report of the week that the choice ends in
    /names.json?like=     people whose name has that in it
    /me                   POST: who the visitor is
    /marks                POST: see `channelstats.web.marking`
    /health               whether the dashboard and its store answer
    /login /logout        where a token is asked for
    /static/...           style, scripts, icons
    /notifications/... /mail/stop   see `channelstats.web.subscribing`
"""

import asyncio
import hashlib
import logging
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import hdrs, web

from channelstats import lookup, render
from channelstats.facts.periods import Now
from channelstats.lookup import Names, NotFound
from channelstats.pages.model import (
    ALL_VIEWS,
    CHANNEL,
    GROUP,
    LISTED_IN,
    MESSAGES,
    OVERVIEW,
    PROFILES,
    TO_DO,
    Choice,
    ChoiceError,
    Page,
)
from channelstats.pages.overview import CHARTS
from channelstats.pages.queue import queued_messages
from channelstats.processes import running
from channelstats.render.data import csv_of, json_of
from channelstats.sending.announcing import Announcer
from channelstats.sending.mail import MailServer
from channelstats.web.auth import COOKIE as SESSION
from channelstats.web.auth import (
    Authenticator,
    AuthMiddleware,
    Handler,
)
from channelstats.web.filters import COMPARE, ONLY, BadQuery, Query, asked
from channelstats.web.http import (
    accepts_json,
    form_of,
    local,
    message_page,
    page,
    rendered,
    see_other,
    set_cookie,
)
from channelstats.web.marking import COOKIE, Marking, said_of
from channelstats.web.pages import CHART, MINE, Visit, view_page
from channelstats.web.service import Busy, DashboardService, FirstImport, StoreSnapshot
from channelstats.web.subscribing import Subscribing
from channelstats.web.table_pages import PARAMETERS, table_query
from keytables import KeytablesError

_OWN: Final = {
    OVERVIEW: (CHART,),
    TO_DO: (MINE,),
    CHANNEL: (COMPARE,),
    MESSAGES: (ONLY,),
    GROUP: (ONLY,),
}
"""Parameters that some views alone have."""

ME: Final = "channelstats-me"
"""The cookie that keeps who the visitor is."""

_YEAR: Final = 365 * 86_400
LARGEST: Final = 16_384
"""Bytes of what may be sent here."""

_REPORT_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""A report is one file, with its style in it, and has no script."""

_HEALTH_PATIENCE: Final = 5.0
_STATIC: Final = Path(__file__).with_name("static")
_REPORT_STYLE: Final = Path(render.__file__).with_name("templates")
_FILES: Final = {
    "/static/look.css": "text/css; charset=utf-8",
    "/static/dashboard.css": "text/css; charset=utf-8",
    "/static/dashboard.js": "text/javascript; charset=utf-8",
    "/static/todo.js": "text/javascript; charset=utf-8",
    "/static/icon.svg": "image/svg+xml; charset=utf-8",
    "/notifications/notify.js": "text/javascript; charset=utf-8",
    "/notifications/icon.png": "image/png",
    "/worker.js": "text/javascript; charset=utf-8",
}
"""The service worker is at the root, as it serves every page."""

_log: Final = logging.getLogger("channelstats.web")


class Dashboard:
    """The handlers."""

    def __init__(self, service: DashboardService, guard: Authenticator) -> None:
        self._service, self._guard = service, guard

    def routes(self) -> list[web.RouteDef]:
        views = "|".join(ALL_VIEWS)
        return [
            web.get("/", self.page),
            web.get(f"/{{view:{views}}}", self.page),
            web.get(f"/{{view:{views}}}.json", self.json),
            web.get(f"/{{view:{views}}}.csv", self.csv),
            web.get("/report", self.report),
            web.get("/names.json", self.people),
            web.post("/me", self.set_me),
            web.post("/marks", Marking(self._service, self._known).mark),
            web.get("/health", self.health),
            *Subscribing(self._service, asks=self._guard.asks).routes(),
            *(web.get(path, _file) for path in _FILES),
        ]

    # ── pages and exports ────────────────────────────────────────────────────────────────────────

    async def page(self, request: web.Request) -> web.Response:
        visit, snapshot = await self._requested(request, *PARAMETERS)
        table = table_query(request.query)
        name = _view_name(request)
        if name in PROFILES and not request.query.get(name, "").strip():
            return see_other(f"/{LISTED_IN[name]}{visit.asked.query(compare=())}")
        if snapshot.is_empty:
            settings = self._service.settings
            folder = settings.store or str(settings.folder)
            return page(rendered("start.html", folder=folder))
        view = await self._view(request, visit, snapshot)
        visit = msgspec.structs.replace(visit, said=said_of(request))
        if self._service.texts is not None:
            reading = partial(self._service.texts.first_lines, queued_messages(view))
            lines = await asyncio.to_thread(reading, visit.names.directory)
            visit = msgspec.structs.replace(visit, lines=lines)
        answer = page(await asyncio.to_thread(view_page, view, visit, table))
        if COOKIE in request.cookies:
            answer.del_cookie(COOKIE, path="/")
        return answer

    async def json(self, request: web.Request) -> web.Response:
        visit, snapshot = await self._requested(request)
        view = await self._view(request, visit, snapshot)
        body = await asyncio.to_thread(json_of, view, visit.names.directory)
        return web.Response(body=body, content_type="application/json", charset="utf-8")

    async def csv(self, request: web.Request) -> web.Response:
        visit, snapshot = await self._requested(request, "table")
        view = await self._view(request, visit, snapshot)
        tables = {table.name: table for table in view.tables}
        # Without one it is the first that has more than the numbers of a chart.
        alone = (section.tables[0].name for section in view.sections if section.chart is None)
        wanted = request.query.get("table", "") or next(alone, next(iter(tables)))
        if wanted not in tables:
            raise BadQuery(f"table: expected one of {', '.join(tables)}")
        body = await asyncio.to_thread(csv_of, tables[wanted], visit.names.directory, visit.zone)
        name = f"{view.name}-{wanted}-{view.choice.first}-{view.choice.last}.csv"
        headers = {hdrs.CONTENT_DISPOSITION: f'attachment; filename="{name}"'}
        return web.Response(body=body, content_type="text/csv", charset="utf-8", headers=headers)

    async def report(self, request: web.Request) -> web.Response:
        visit, snapshot = await self._requested(request)
        text = await self._service.report(visit.asked.choice, snapshot)
        return page(text, headers={"Content-Security-Policy": _REPORT_POLICY})

    async def people(self, request: web.Request) -> web.Response:
        names = await self._service.names(await self._service.snapshot())
        alike = await asyncio.to_thread(names.like, request.query.get("like", "")[:100])
        return web.json_response([{"value": value, "name": name} for value, name in alike])

    async def set_me(self, request: web.Request) -> web.Response:
        form = await form_of(request)
        answer, person = see_other(local(form.get("to", "/"))), form.get("person", "")
        names = await self._service.names(await self._service.snapshot())
        if person in names.directory.people:
            return set_cookie(answer, request, ME, person, _YEAR)
        answer.del_cookie(ME)
        return answer

    async def health(self, _: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(_HEALTH_PATIENCE):
                await self._service.tables.messages.is_empty()
        except (KeytablesError, TimeoutError):
            status = HTTPStatus.SERVICE_UNAVAILABLE
            return web.json_response({"status": "store does not answer"}, status=status)
        return web.json_response({"status": "ok"})

    # ── what is asked for ────────────────────────────────────────────────────────────────────────

    async def _requested(self, request: web.Request, *also: str) -> tuple[Visit, StoreSnapshot]:
        service = self._service
        snapshot = await service.snapshot()
        names = await service.names(snapshot)
        now = Now(service.today, snapshot.history, service.settings.first_weekday)
        to_newest = request.path.startswith(f"/{TO_DO}")
        also += _OWN.get(_view_name(request), ())
        query = asked(list(request.query.items()), now, also, to_newest=to_newest)
        query = msgspec.structs.replace(query, choice=await self._found(names, query))
        mine, me = request.query.get(MINE, ""), self._known(request, names)
        if (chart := request.query.get(CHART, "")) not in ("", *CHARTS):
            raise BadQuery(f"{CHART}: expected one of {', '.join(CHARTS)}")
        if mine not in ("", "yes"):
            raise BadQuery(f"{MINE}: expected yes")
        if mine and not me:
            raise BadQuery(f"{MINE}: expected of somebody who said who they are (This is me)")
        visit = Visit(
            asked=query,
            names=names,
            now=now,
            zone=service.tables.zone,
            workspace=names.directory.slack_name,
            me=me,
            logged_in=self._guard.asks,
            is_named=bool(self._logged_in(request)),
            has_links=not service.is_made_up,
            goals=service.settings.goals,
            mine=bool(mine),
            chart=chart,
        )
        return visit, snapshot

    def _known(self, request: web.Request, names: Names) -> str:
        """Who is logged in, or who the visitor said to be, if that is somebody; "" otherwise."""
        me = self._logged_in(request) or request.cookies.get(ME, "")
        return me if me in names.directory.people else ""

    def _logged_in(self, request: web.Request) -> str:
        """Who is logged in by a token of their own, "" where that is not known."""
        return self._guard.sessions.person(request.cookies.get(SESSION, ""))

    async def _found(self, names: Names, query: Query) -> Choice:
        """The choice of a query in IDs."""
        choice, group = query.choice, tuple[str, ...]()
        if query.group:
            group = await asyncio.to_thread(names.find_channels, query.group)
        channel = await self._channel(names, choice.channel)
        others = [await self._channel(names, called) for called in choice.compare]
        person = await asyncio.to_thread(names.find_person, choice.person) if choice.person else ""
        return msgspec.structs.replace(
            choice,
            channel=channel,
            person=person,
            compare=tuple(dict.fromkeys(cid for cid in others if cid != channel)),
            group=group,
        )

    async def _channel(self, names: Names, called: str) -> str:
        if not called:
            return ""
        cid = names.find_channel(called)
        if cid is None:
            cid = await lookup.channel_id(self._service.tables, called)  # a previous name
        if cid not in names.channels:
            raise NotFound(f"there is no channel {called!r}")
        return cid

    async def _view(self, request: web.Request, visit: Visit, snapshot: StoreSnapshot) -> Page:
        assignee = visit.me if visit.mine else ""
        return await self._service.view(_view_name(request), visit.asked.choice, snapshot, assignee)


def _view_name(request: web.Request) -> str:
    return request.match_info.get("view", OVERVIEW)


async def _file(request: web.Request) -> web.Response:
    """A file of the pages. A browser asks each time whether its copy is still the same, so a
    service worker never grows old.
    """
    name = request.path.rpartition("/")[2]
    folder = _REPORT_STYLE if name == "look.css" else _STATIC
    content = (folder / name).read_bytes()
    # By the content alone: two releases may give a file the same time and size.
    tag = hashlib.sha256(content).hexdigest()[:16]
    headers = {hdrs.CACHE_CONTROL: "no-cache", hdrs.ETAG: f'"{tag}"'}
    if any(known.value in (tag, "*") for known in request.if_none_match or ()):
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    headers[hdrs.CONTENT_TYPE] = _FILES[request.path]
    return web.Response(body=content, headers=headers)


@web.middleware
async def error_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Says it in the form that was asked for; what nobody foresaw is logged."""
    try:
        return await handler(request)
    except (BadQuery, ChoiceError) as error:
        return _wrong(request, HTTPStatus.BAD_REQUEST, "This cannot be shown", str(error))
    except NotFound as error:
        return _wrong(request, HTTPStatus.NOT_FOUND, "Not found", str(error))
    except web.HTTPNotFound as error:
        return _wrong(request, error.status, "Not found", "There is nothing at this address.")
    except web.HTTPException as error:
        return _wrong(request, error.status, error.reason, error.reason)
    except Busy:
        text = "The numbers are being calculated. This page reloads by itself."
        return _wrong(request, HTTPStatus.SERVICE_UNAVAILABLE, "One moment", text, again=3)
    except FirstImport:
        title = "The first import is running"
        text = "The numbers appear when it is done. This page reloads by itself."
        return _wrong(request, HTTPStatus.SERVICE_UNAVAILABLE, title, text, again=10)
    except (KeytablesError, TimeoutError):
        _log.warning("the store does not answer", exc_info=True)
        text = "The store does not answer. Try again in a moment."
        return _wrong(request, HTTPStatus.SERVICE_UNAVAILABLE, "No answer from the store", text)
    except Exception:  # noqa: BLE001 - whoever asked gets an answer
        _log.exception("%s failed", request.path)
        text = "Something went wrong; see the log of the dashboard."
        return _wrong(request, HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error", text)


def _wrong(
    request: web.Request, status: int, title: str, text: str, *, again: int = 0
) -> web.Response:
    """``again``: the page asks again after so many seconds."""
    headers = dict.fromkeys((hdrs.RETRY_AFTER, "Refresh"), str(again)) if again else None
    is_of_script = request.path.startswith("/notifications/") or accepts_json(request)
    if request.path.endswith((".json", ".csv")) or is_of_script:
        return web.json_response({"error": text}, status=status, headers=headers)
    return page(message_page(title, text), status, headers)


def make_app(
    service: DashboardService, guard: Authenticator, mail_server: MailServer | None = None
) -> web.Application:
    """The application. New weeks are announced as long as it runs; at its end it closes
    ``service``.
    """
    gate = AuthMiddleware(guard)
    app = web.Application(
        middlewares=[gate.pass_through, error_middleware], client_max_size=LARGEST
    )
    app.add_routes(gate.routes())
    app.add_routes(Dashboard(service, guard).routes())
    announcer = Announcer(
        service.tables, service.settings, clock=service.clock, mail_server=mail_server
    )
    app.cleanup_ctx.append(lambda _: running(announcer.run()))

    async def close(_: web.Application) -> None:
        await service.close()

    app.on_cleanup.append(close)
    return app
