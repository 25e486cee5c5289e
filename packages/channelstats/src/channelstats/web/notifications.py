"""Subscribing to notifications about new weekly reports: the key, and the subscriptions.

Rule: a subscription is only taken from a page of the dashboard itself: nobody else's page can send
JSON here without being asked for its origin, and that is checked as well.

    GET    /notifications/key            {"key": …}: what a page subscribes with
    POST   /notifications/subscriptions  a PushSubscription as JSON: 201, or 200 when it was known
    DELETE /notifications/subscriptions  {"endpoint": …}: 204, known or not
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import hdrs, web

from channelstats.notifications import Announcer, newest_week
from channelstats.notifications.endpoints import (
    MAX_SUBSCRIPTIONS,
    endpoint_of,
    subscription_of,
)
from channelstats.notifications.push_sender import VapidKey, vapid_key
from channelstats.settings import Settings
from channelstats.tables import Tables
from channelstats.web.access import host_name, is_own, is_this_machine
from keytables import Clock

LARGEST: Final = 8192
"""Bytes of a request."""

PATIENCE: Final = 10
"""Seconds for the body of a request."""


def routes(tables: Tables, settings: Settings, *, clock: Clock) -> list[web.RouteDef]:
    """The routes of this module; who may look at the dashboard is judged before them."""
    subscribing = _Subscribing(tables, settings, clock)
    place = "/notifications/subscriptions"
    return [
        web.get("/notifications/key", subscribing.key),
        web.post(place, subscribing.subscribe),
        web.delete(place, subscribing.unsubscribe),
    ]


def announcing(
    tables: Tables, settings: Settings, *, clock: Clock
) -> Callable[[web.Application], AsyncIterator[None]]:
    """For `cleanup_ctx`: new weeks are announced as long as the dashboard runs."""
    announcer = Announcer(tables, settings, clock=clock)

    async def context(_: web.Application) -> AsyncIterator[None]:
        async with announcer.running():
            yield

    return context


class _Refused(Exception):  # noqa: N818 - named for what happened
    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Subscribing:
    def __init__(self, tables: Tables, settings: Settings, clock: Clock) -> None:
        self._tables, self._settings, self._clock = tables, settings, clock
        self._key: VapidKey | None = None

    async def key(self, _: web.Request) -> web.Response:
        return _json({"key": await self._public_key()})

    async def subscribe(self, request: web.Request) -> web.Response:
        try:
            body = await _body(request)
            given = subscription_of(
                body, from_here=is_here(request), own_hosts=self._settings.own_push_hosts
            )
            subscriptions = self._tables.subscriptions
            is_known = await subscriptions.knows(given.endpoint)
            if not is_known and await subscriptions.at_least(MAX_SUBSCRIPTIONS):
                raise _Refused(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"there are {MAX_SUBSCRIPTIONS:,} subscriptions already",
                )
        except (_Refused, ValueError) as error:
            return _refusal(error)
        week = await newest_week(self._tables, self._settings, self._clock)
        new = msgspec.structs.replace(
            given,
            vapid=await self._public_key(),
            created_at=int(self._clock()),
            announced="" if week is None else week.start.isoformat(),
        )
        added = await subscriptions.add(new)
        return _json({"subscribed": True}, HTTPStatus.CREATED if added else HTTPStatus.OK)

    async def unsubscribe(self, request: web.Request) -> web.Response:
        try:
            endpoint = endpoint_of(await _body(request))
        except (_Refused, ValueError) as error:
            return _refusal(error)
        await self._tables.subscriptions.remove(endpoint)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _public_key(self) -> str:
        if self._key is None:
            self._key = await asyncio.to_thread(vapid_key, self._settings.folder)
        return self._key.public


async def _body(request: web.Request) -> bytes:
    if not is_own(request.headers):
        raise _Refused(HTTPStatus.FORBIDDEN, "expected a page of this dashboard")
    if request.content_type != "application/json":
        raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
    if request.content_length is None:
        raise _Refused(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
    if request.content_length > LARGEST:
        raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {LARGEST} bytes")
    try:
        async with asyncio.timeout(PATIENCE):
            return await request.read()
    except TimeoutError:
        raise _Refused(HTTPStatus.REQUEST_TIMEOUT, "the request did not come") from None


def is_here(request: web.Request) -> bool:
    """Whether the page was opened on the machine that this program runs on."""
    peer = request.transport.get_extra_info("peername") if request.transport else None
    here = isinstance(peer, tuple) and is_this_machine(str(peer[0]))
    return here and is_this_machine(host_name(request.headers.get(hdrs.HOST, "")))


def _refusal(error: _Refused | ValueError) -> web.Response:
    status = error.status if isinstance(error, _Refused) else HTTPStatus.BAD_REQUEST
    return _json({"error": str(error)}, status)


def _json(document: object, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(document),
        status=status,
        content_type="application/json",
        headers={hdrs.CACHE_CONTROL: "no-store"},
    )
