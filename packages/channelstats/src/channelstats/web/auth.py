"""The middleware before every page: whose request is let in, the login, and headers of answers.

Rule: what is not let in learns nothing but how to log in. A token in an address goes from there at
once, right or wrong.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, urlencode

from aiohttp import hdrs, web

from channelstats.web.access import (
    COOKIE,
    COOKIE_SECONDS,
    Authenticator,
    TooManyFailures,
    Verdict,
    host_name,
    is_own,
)
from channelstats.web.pages import login_page, message_page

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    hdrs.CACHE_CONTROL: "no-store",
    hdrs.SERVER: "channelstats",
}
_OPEN: Final = ("/login", "/health", "/static/")
"""Where nothing about the workspace is shown."""

_READS: Final = ("GET", "HEAD")
_LONGEST_TOKEN: Final = 1_000
_FORM: Final = "application/x-www-form-urlencoded"
_FORM_PATIENCE: Final = 10.0
"""Seconds that the body of a form may take."""

_LOCAL: Final = re.compile(r"/(?!/)[!-\[\]-~]*")
"""A path with a query: ASCII without blanks and without what browsers take for a slash."""


def page(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(
        text=text, status=status, content_type="text/html", charset="utf-8", headers=headers
    )


class AuthMiddleware:
    """See the module."""

    def __init__(self, guard: Authenticator) -> None:
        self._guard = guard

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/login", self.show),
            web.post("/login", self.log_in),
            web.post("/logout", self.log_out),
        ]

    @web.middleware
    async def pass_through(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The middleware around everything else."""
        answer = await self._passed(request, handler)
        for name, value in _HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    async def _passed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        verdict = self._guard.judge(request.headers, request.cookies.get(COOKIE, ""))
        if verdict is Verdict.OTHER_NAME:
            name = host_name(request.headers.get(hdrs.HOST, "")) or "no name"
            return page(
                message_page(
                    "Not available under this name",
                    f"Without a token this dashboard answers at localhost and 127.0.0.1 only, not"
                    f" at {name[:100]}. To use another name, start it with a token in"
                    " CHANNELSTATS_SERVE_TOKEN.",
                    back="",
                ),
                HTTPStatus.MISDIRECTED_REQUEST,
            )
        if verdict is Verdict.THROUGH_PROXY:
            return page(
                message_page(
                    "Not available through a proxy",
                    "This request came through a proxy, so anybody may have sent it. Behind a proxy"
                    " the dashboard needs a token in CHANNELSTATS_SERVE_TOKEN.",
                    back="",
                ),
                HTTPStatus.FORBIDDEN,
            )
        if request.method not in _READS and not is_own(request.headers):
            return page(
                message_page("Refused", "This request came from another website."),
                HTTPStatus.FORBIDDEN,
            )
        if "token" in request.query and request.method in _READS:
            return self._with_token(request)
        if verdict is Verdict.LOG_IN and not request.path.startswith(_OPEN):
            return self._asked(request)
        return await handler(request)

    # ── login ────────────────────────────────────────────────────────────────────────────────────

    async def show(self, request: web.Request) -> web.Response:
        if not self._guard.asks:
            return _see_other("/")
        return page(login_page("", local(request.query.get("to", "/"))))

    async def log_in(self, request: web.Request) -> web.Response:
        form = await form_of(request)
        goal = local(form.get("to", "/"))
        wrong = self._tried(form.get("token", ""), request)
        if wrong:
            return page(login_page(wrong, goal), HTTPStatus.FORBIDDEN)
        return self._let_in(request, goal)

    async def log_out(self, _: web.Request) -> web.Response:
        answer = _see_other("/login")
        answer.del_cookie(COOKIE, path="/")
        return answer

    def _asked(self, request: web.Request) -> web.Response:
        """To the login; for programs a refusal in their form."""
        if request.path.endswith((".json", ".csv")) or request.method not in _READS:
            text = "log in at /login, or send the cookie that it gives"
            return web.json_response({"error": text}, status=HTTPStatus.UNAUTHORIZED)
        return _see_other(f"/login?{urlencode({'to': request.path_qs})}")

    def _with_token(self, request: web.Request) -> web.Response:
        token = request.query["token"]
        to = str(request.rel_url.without_query_params("token"))
        if not self._guard.asks:
            return _see_other(local(to))
        wrong = self._tried(token, request)
        return self._let_in(request, local(to)) if not wrong else _see_other("/login")

    def _tried(self, token: str, request: web.Request) -> str:
        """What is wrong with a token; "" when it is right."""
        if len(token) > _LONGEST_TOKEN or not token.isascii():
            return "That is not a token."
        try:
            if self._guard.is_right(token.strip(), request.remote or ""):
                return ""
        except TooManyFailures:
            return "Too many wrong tokens were sent from your address. Try again in a minute."
        return "That token is wrong."

    def _let_in(self, request: web.Request, to: str) -> web.Response:
        answer = _see_other(to)
        answer.set_cookie(
            COOKIE,
            self._guard.cookie,
            max_age=COOKIE_SECONDS,
            path="/",
            httponly=True,
            samesite="Strict",
            secure=is_secure(request),
        )
        return answer


def is_secure(request: web.Request) -> bool:
    """Whether the browser speaks https, to us or to a proxy before us."""
    return request.secure or request.headers.get("X-Forwarded-Proto") == "https"


def local(to: str) -> str:
    """A place on this dashboard; what leads elsewhere leads to its start."""
    return to if _LOCAL.fullmatch(to) else "/"


async def form_of(request: web.Request) -> dict[str, str]:
    """The fields of a form that was sent; of several with one name, the last.

    :raises web.HTTPException: it is no form, is too large, or does not come
    """
    if request.content_type != _FORM:
        raise web.HTTPUnsupportedMediaType
    try:
        async with asyncio.timeout(_FORM_PATIENCE):
            body = await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    return dict(parse_qsl(body.decode(errors="replace")))


def _see_other(to: str) -> web.Response:
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={hdrs.LOCATION: to})
