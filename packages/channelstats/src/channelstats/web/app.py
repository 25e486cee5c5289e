"""The dashboard as an application: its addresses, and what each answers.

Rule: an address says all of what is looked at; the same address without `.json` or `.csv` is the
page of the same numbers.

    /  /<view>            pages; /volume, /hours, ... see `channelstats.views.model.VIEWS`;
                          ?table=&sort=&find=&page= see `channelstats.web.table_pages`
    /<view>.json          the whole view
    /<view>.csv?table=    one of its tables
    /report               the report of the week that the choice ends in
    /names.json?like=    people whose name has that in it
    /me                   POST: who the visitor is
    /health               whether the dashboard and its store answer
    /login /logout        where a token is asked for
    /notifications/...    see `channelstats.web.notifications`
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import hdrs, web

from channelstats import lookup
from channelstats.lookup import NotFound
from channelstats.render.data import csv_of, json_of
from channelstats.settings import Settings
from channelstats.tables import Tables
from channelstats.views.model import VIEWS, Choice, ChoiceError, View
from channelstats.web import notifications, static_files
from channelstats.web.access import Authenticator
from channelstats.web.auth import AuthMiddleware, Handler, form_of, is_secure, local, page
from channelstats.web.filters import BadQuery, Now, asked
from channelstats.web.names import Names
from channelstats.web.pages import Visit, message_page, start_page, view_page
from channelstats.web.service import DashboardService, FirstImport, StoreSnapshot
from channelstats.web.single_flight import Busy
from channelstats.web.table_pages import PARAMETERS, table_query
from keytables import Clock, KeytablesError

ME: Final = "channelstats-me"
"""The cookie that keeps who the visitor is."""

_YEAR: Final = 365 * 86_400
_LARGEST: Final = 16_384
"""Bytes of what may be sent here."""

_REPORT_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""A report is one file, with its style in it, and has no script."""

_HEALTH_PATIENCE: Final = 5.0
_AGAIN: Final = "3"
"""Seconds after which a page that is not ready yet asks again."""

_IMPORTED: Final = "10"
"""The same, while the first import is going on."""

_log: Final = logging.getLogger("channelstats.web")


class State(msgspec.Struct, frozen=True):
    """What the dashboard stands on. ``anonymous``: under pseudonyms, as ``service`` are."""

    tables: Tables
    settings: Settings
    clock: Clock
    guard: Authenticator
    service: DashboardService
    anonymous: bool = False


class Dashboard:
    """The handlers."""

    def __init__(self, state: State) -> None:
        self._state, self._service = state, state.service

    def routes(self) -> list[web.RouteDef]:
        views = "|".join(VIEWS)
        return [
            web.get("/", self.page),
            web.get(f"/{{view:{views}}}", self.page),
            web.get(f"/{{view:{views}}}.json", self.json),
            web.get(f"/{{view:{views}}}.csv", self.csv),
            web.get("/report", self.report),
            web.get("/names.json", self.people),
            web.post("/me", self.set_me),
            web.get("/health", self.health),
        ]

    # ── pages and twins ──────────────────────────────────────────────────────────────────────────

    async def page(self, request: web.Request) -> web.Response:
        requested = await self._requested(request, *PARAMETERS)
        table = table_query(request.query)
        if requested.snapshot.is_empty:
            folder = self._state.settings.store or str(self._state.settings.folder)
            return page(await asyncio.to_thread(start_page, requested.visit, folder))
        view = await self._view(request, requested)
        return page(await asyncio.to_thread(view_page, view, requested.visit, table))

    async def json(self, request: web.Request) -> web.Response:
        requested = await self._requested(request)
        view = await self._view(request, requested)
        body = await asyncio.to_thread(json_of, view, requested.visit.names.directory)
        return web.Response(body=body, content_type="application/json", charset="utf-8")

    async def csv(self, request: web.Request) -> web.Response:
        requested = await self._requested(request, "table")
        view = await self._view(request, requested)
        wanted = request.query.get("table", "")
        found = [table for table in view.tables if table.name == wanted]
        if not found:
            names = ", ".join(table.name for table in view.tables)
            raise BadQuery(f"table: expected one of {names}")
        body = await asyncio.to_thread(csv_of, found[0], requested.visit.names.directory)
        name = f"{view.name}-{wanted}-{view.choice.first}-{view.choice.last}.csv"
        return web.Response(
            body=body,
            content_type="text/csv",
            charset="utf-8",
            headers={hdrs.CONTENT_DISPOSITION: f'attachment; filename="{name}"'},
        )

    async def report(self, request: web.Request) -> web.Response:
        requested = await self._requested(request)
        text = await self._service.report(requested.choice, requested.snapshot)
        return page(text, headers={"Content-Security-Policy": _REPORT_POLICY})

    async def people(self, request: web.Request) -> web.Response:
        snapshot = await self._service.snapshot()
        names = await self._service.names(snapshot)
        found = await asyncio.to_thread(names.like, request.query.get("like", "")[:100])
        return web.json_response([{"value": value, "name": name} for value, name in found])

    async def set_me(self, request: web.Request) -> web.Response:
        form = await form_of(request)
        goal, person = local(form.get("to", "/")), form.get("person", "")
        answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={hdrs.LOCATION: goal})
        names = await self._service.names(await self._service.snapshot())
        if person in names.directory.people:
            answer.set_cookie(
                ME,
                person,
                max_age=_YEAR,
                httponly=True,
                samesite="Strict",
                secure=is_secure(request),
            )
        else:
            answer.del_cookie(ME)
        return answer

    async def health(self, _: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(_HEALTH_PATIENCE):
                await self._state.tables.messages.is_empty()
        except (KeytablesError, TimeoutError):
            status = HTTPStatus.SERVICE_UNAVAILABLE
            return web.json_response({"status": "store does not answer"}, status=status)
        return web.json_response({"status": "ok"})

    # ── what is asked for ────────────────────────────────────────────────────────────────────────

    async def _requested(self, request: web.Request, *also: str) -> "_RequestedView":
        snapshot = await self._service.snapshot()
        names = await self._service.names(snapshot)
        settings = self._state.settings
        now = Now(self._service.today, snapshot.history, settings.first_weekday)
        found = asked(list(request.query.items()), now, also)
        channel = await self._channel(names, found.channel)
        person = await asyncio.to_thread(names.find_person, found.person) if found.person else ""
        shown = msgspec.structs.replace(found, channel=channel, person=person)
        me = request.cookies.get(ME, "")
        visit = Visit(
            asked=shown,
            names=names,
            now=now,
            zone=self._state.tables.zone,
            workspace="" if self._state.anonymous else settings.slack_name,
            me=me if me in names.directory.people else "",
            logged_in=self._state.guard.asks,
            goals=settings.goal_bounds,
        )
        return _RequestedView(visit, Choice(found.first, found.last, channel, person), snapshot)

    async def _channel(self, names: Names, called: str) -> str:
        if not called:
            return ""
        found = names.find_channel(called)
        if found is not None:
            return found
        found = await lookup.channel_id(self._state.tables, called)  # a previous name
        if found not in names.channels:
            raise NotFound(f"there is no channel {called!r}")
        return found

    async def _view(self, request: web.Request, requested: "_RequestedView") -> View:
        name = request.match_info.get("view", next(iter(VIEWS)))
        return await self._service.view(name, requested.choice, requested.snapshot)


class _RequestedView(msgspec.Struct, frozen=True):
    """A visit, and what it looks at."""

    visit: Visit
    choice: Choice
    snapshot: StoreSnapshot


@web.middleware
async def _what_went_wrong(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Says it in the form that was asked for; what nobody foresaw is logged."""
    try:
        return await handler(request)
    except (BadQuery, ChoiceError) as error:
        return _wrong(request, HTTPStatus.BAD_REQUEST, "This cannot be shown", str(error))
    except NotFound as error:
        return _wrong(request, HTTPStatus.NOT_FOUND, "Not found", str(error))
    except web.HTTPNotFound:
        return _wrong(
            request, HTTPStatus.NOT_FOUND, "Not found", "There is nothing at this address."
        )
    except web.HTTPException as error:
        return _wrong(request, error.status, error.reason, error.reason)
    except Busy:
        text = "The numbers are being calculated. This page reloads by itself."
        return _later(request, "One moment", text, _AGAIN)
    except FirstImport:
        text = "The numbers appear when it is done. This page reloads by itself."
        return _later(request, "The first import is running", text, _IMPORTED)
    except (KeytablesError, TimeoutError):
        _log.warning("the store does not answer", exc_info=True)
        text = "The store does not answer. Try again in a moment."
        return _wrong(request, HTTPStatus.SERVICE_UNAVAILABLE, "No answer from the store", text)
    except Exception:  # noqa: BLE001 - whoever asked gets an answer
        _log.exception("%s failed", request.path)
        text = "Something went wrong; see the log of the dashboard."
        return _wrong(request, HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error", text)


def _later(request: web.Request, title: str, text: str, seconds: str) -> web.Response:
    """A page that asks again."""
    answer = _wrong(request, HTTPStatus.SERVICE_UNAVAILABLE, title, text)
    answer.headers[hdrs.RETRY_AFTER] = answer.headers["Refresh"] = seconds
    return answer


def _wrong(request: web.Request, status: int, title: str, text: str) -> web.Response:
    if request.path.endswith((".json", ".csv")):
        return web.json_response({"error": text}, status=status)
    return page(message_page(title, text), status)


def make_app(state: State) -> web.Application:
    """The application; it closes ``state.service`` at its end."""
    gate = AuthMiddleware(state.guard)
    app = web.Application(
        middlewares=[gate.pass_through, _what_went_wrong], client_max_size=_LARGEST
    )
    app.add_routes(gate.routes())
    app.add_routes(Dashboard(state).routes())
    app.add_routes(static_files.routes())
    app.add_routes(notifications.routes(state.tables, state.settings, clock=state.clock))
    app.cleanup_ctx.append(
        notifications.announcing(state.tables, state.settings, clock=state.clock)
    )

    async def service(_: web.Application) -> AsyncIterator[None]:
        yield
        await state.service.close()

    app.cleanup_ctx.append(service)
    return app
