"""Who is told of new weekly reports: browsers that subscribe on a page, and the end of mail.

    GET    /notifications/key            {"key": …}: what a page subscribes with
    POST   /notifications/subscriptions  a PushSubscription as JSON: 201, or 200 when it was known
    DELETE /notifications/subscriptions  {"endpoint": …}: 204, known or not
    GET    /mail/stop                    asks; the link of a mail, which is signed
    POST   /mail/stop                    ends the mail to its address

Rule: a subscription is only taken from a page of the dashboard itself: nobody else's page can send
JSON here without being asked for its origin, and that is checked as well.
"""

import asyncio
from http import HTTPStatus

import msgspec
from aiohttp import hdrs, web

from channelstats.sending.announcing import subscribed
from channelstats.sending.mail import STOP_PATH, is_signed, stop_secret
from channelstats.sending.web_push import (
    MAX_SUBSCRIPTIONS,
    VapidKey,
    endpoint_of,
    subscription_of,
    vapid_key,
)
from channelstats.web.auth import is_own
from channelstats.web.filters import BadQuery
from channelstats.web.http import body_of, message_page, page, rendered
from channelstats.web.service import DashboardService


class Subscribing:
    """``asks``: visitors have to log in, so that they may be anywhere."""

    def __init__(self, service: DashboardService, *, asks: bool) -> None:
        self._service, self._asks = service, asks
        self._key: VapidKey | None = None

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/notifications/key", self.key),
            web.post("/notifications/subscriptions", self.subscribe),
            web.delete("/notifications/subscriptions", self.unsubscribe),
            web.get(f"/{STOP_PATH}", self.ask_to_stop),
            web.post(f"/{STOP_PATH}", self.stop_mail),
        ]

    async def key(self, _: web.Request) -> web.Response:
        headers = {hdrs.CACHE_CONTROL: "no-store"}
        return web.json_response({"key": await self._public_key()}, headers=headers)

    async def subscribe(self, request: web.Request) -> web.Response:
        service, body = self._service, await _json_of(request)
        hosts = service.settings.push_hosts
        try:
            # Where nobody logs in only this machine is served: see `channelstats.web.auth`.
            given = subscription_of(body, from_here=not self._asks, own_hosts=hosts)
        except ValueError as error:
            raise BadQuery(str(error)) from None
        subscriptions = service.tables.subscriptions
        is_known = await subscriptions.knows(given.endpoint)
        if not is_known and len(await subscriptions.all()) >= MAX_SUBSCRIPTIONS:
            reason = f"there are {MAX_SUBSCRIPTIONS:,} subscriptions already"
            raise web.HTTPServiceUnavailable(reason=reason)
        new = await subscribed(given, service.tables, service.settings, service.clock)
        new = msgspec.structs.replace(new, vapid=await self._public_key())
        status = HTTPStatus.CREATED if await subscriptions.add(new) else HTTPStatus.OK
        return web.json_response({"subscribed": True}, status=status)

    async def unsubscribe(self, request: web.Request) -> web.Response:
        body = await _json_of(request)
        try:
            endpoint = endpoint_of(body)
        except ValueError as error:
            raise BadQuery(str(error)) from None
        await self._service.tables.subscriptions.remove(endpoint)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _public_key(self) -> str:
        if self._key is None:
            self._key = await asyncio.to_thread(vapid_key, self._service.settings.folder)
        return self._key.public

    # ── mail ─────────────────────────────────────────────────────────────────────────────────────

    async def ask_to_stop(self, request: web.Request) -> web.Response:
        """The page of a link in a mail. Programs that look through mail follow it, so it changes
        nothing.
        """
        await self._signed_id(request)
        return page(rendered("stop.html", query=request.rel_url.query_string))

    async def stop_mail(self, request: web.Request) -> web.Response:
        """End the mail to an address: by the button of that page, or by a mail program."""
        await self._service.tables.subscriptions.remove_id(await self._signed_id(request))
        return page(message_page("No more mails", "This address gets no more mails.", back=""))

    async def _signed_id(self, request: web.Request) -> str:
        key, signature = (request.query.get(name, "") for name in ("of", "sign"))
        secret = await asyncio.to_thread(stop_secret, self._service.settings.folder)
        if not is_signed(key, signature, secret):
            raise BadQuery("This is no whole link from a mail of this dashboard.")
        return key


async def _json_of(request: web.Request) -> bytes:
    if not is_own(request.headers):
        raise web.HTTPForbidden(reason="expected a page of this dashboard")
    return await body_of(request, "application/json")
