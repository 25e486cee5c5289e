"""Subscribing to notifications about new weekly reports: the key, and the subscriptions.

Rule: a subscription is only taken from a page of the dashboard itself: nobody else's page can send
JSON here without being asked for its origin, and that is checked as well.

    GET    /notifications/key            {"key": …}: what a page subscribes with
    POST   /notifications/subscriptions  a PushSubscription as JSON: 201, or 200 when it was known
    DELETE /notifications/subscriptions  {"endpoint": …}: 204, known or not
"""

import asyncio
from http import HTTPStatus

import msgspec
from aiohttp import hdrs, web

from channelstats.sending.announcing import newest_week
from channelstats.sending.endpoints import MAX_SUBSCRIPTIONS, endpoint_of, subscription_of
from channelstats.sending.push_sender import VapidKey, vapid_key
from channelstats.settings import Settings
from channelstats.settings.declaration import is_loopback
from channelstats.tables import Tables
from channelstats.web.auth import body_of, host_name, is_own
from channelstats.web.filters import BadQuery
from keytables import Clock


def routes(tables: Tables, settings: Settings, *, clock: Clock) -> list[web.RouteDef]:
    """The routes of this module; who may look at the dashboard is judged before them."""
    subscribing = _Subscribing(tables, settings, clock)
    place = "/notifications/subscriptions"
    return [
        web.get("/notifications/key", subscribing.key),
        web.post(place, subscribing.subscribe),
        web.delete(place, subscribing.unsubscribe),
    ]


class _Subscribing:
    def __init__(self, tables: Tables, settings: Settings, clock: Clock) -> None:
        self._tables, self._settings, self._clock = tables, settings, clock
        self._key: VapidKey | None = None

    async def key(self, _: web.Request) -> web.Response:
        headers = {hdrs.CACHE_CONTROL: "no-store"}
        return web.json_response({"key": await self._public_key()}, headers=headers)

    async def subscribe(self, request: web.Request) -> web.Response:
        body, hosts = await _body(request), self._settings.own_push_hosts
        try:
            given = subscription_of(body, from_here=is_here(request), own_hosts=hosts)
        except ValueError as error:
            raise BadQuery(str(error)) from None
        subscriptions = self._tables.subscriptions
        is_known = await subscriptions.knows(given.endpoint)
        if not is_known and len(await subscriptions.all()) >= MAX_SUBSCRIPTIONS:
            reason = f"there are {MAX_SUBSCRIPTIONS:,} subscriptions already"
            raise web.HTTPServiceUnavailable(reason=reason)
        week = await newest_week(self._tables, self._settings, self._clock)
        new = msgspec.structs.replace(
            given,
            vapid=await self._public_key(),
            created_at=int(self._clock()),
            announced="" if week is None else week.start.isoformat(),
        )
        status = HTTPStatus.CREATED if await subscriptions.add(new) else HTTPStatus.OK
        return web.json_response({"subscribed": True}, status=status)

    async def unsubscribe(self, request: web.Request) -> web.Response:
        body = await _body(request)
        try:
            endpoint = endpoint_of(body)
        except ValueError as error:
            raise BadQuery(str(error)) from None
        await self._tables.subscriptions.remove(endpoint)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _public_key(self) -> str:
        if self._key is None:
            self._key = await asyncio.to_thread(vapid_key, self._settings.folder)
        return self._key.public


async def _body(request: web.Request) -> bytes:
    if not is_own(request.headers):
        raise web.HTTPForbidden(reason="expected a page of this dashboard")
    return await body_of(request, "application/json")


def is_here(request: web.Request) -> bool:
    """Whether the page was opened on the machine that this program runs on."""
    peer = request.transport.get_extra_info("peername") if request.transport else None
    here = isinstance(peer, tuple) and is_loopback(str(peer[0]))
    return here and is_loopback(host_name(request.headers.get(hdrs.HOST, "")))
