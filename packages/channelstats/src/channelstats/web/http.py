"""Forms that come and pages that go: what every handler does with a request and an answer."""

import asyncio
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import hdrs, web

from channelstats.render.html import environment

_FORM: Final = "application/x-www-form-urlencoded"
_PLAIN: Final = "identity"
_BODY_PATIENCE: Final = 10.0
"""Seconds that the body of a request may take."""

_LOCAL: Final = re.compile(r"/(?!/)[!-\[\]-~]*")
"""A path with a query: ASCII without blanks and without what browsers take for a slash."""

# ── what comes ───────────────────────────────────────────────────────────────────────────────────


async def body_of(request: web.Request, kind: str) -> bytes:
    """The body of a request that has to be of that kind.

    :raises web.HTTPException: it is of another one, is too large, or does not come
    """
    if request.content_type != kind:
        raise web.HTTPUnsupportedMediaType(reason=f"expected {kind}")
    if request.headers.get(hdrs.CONTENT_ENCODING, _PLAIN).lower() != _PLAIN:
        raise web.HTTPUnsupportedMediaType(reason="expected a body that is not compressed")
    try:
        async with asyncio.timeout(_BODY_PATIENCE):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    except web.RequestPayloadError:
        raise web.HTTPBadRequest(reason="the body is not whole") from None


async def fields_of(request: web.Request) -> list[tuple[str, str]]:
    """The fields of a form that was sent, those that are not empty.

    :raises web.HTTPException: it is no form, is too large, or does not come
    """
    return parse_qsl((await body_of(request, _FORM)).decode(errors="replace"))


async def form_of(request: web.Request) -> dict[str, str]:
    """The same; of several with one name, the last."""
    return dict(await fields_of(request))


def accepts_json(request: web.Request) -> bool:
    """Whether a script asks, which shows the answer itself."""
    return "application/json" in request.headers.get(hdrs.ACCEPT, "")


def local(to: str) -> str:
    """A place on this dashboard; what leads elsewhere leads to its start."""
    return to if _LOCAL.fullmatch(to) else "/"


def origin(request: web.Request) -> str:
    """The beginning of the dashboard's addresses, as the browser has it; of a proxy before us."""
    is_secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
    return str(request.url.with_scheme("https" if is_secure else "http").origin())


# ── what goes ────────────────────────────────────────────────────────────────────────────────────


def rendered(template: str, **values: object) -> str:
    """A page of a template of the dashboard."""
    return environment("channelstats.web").get_template(template).render(**values)


def message_page(title: str, text: str, *, back: str = "/") -> str:
    """A page that says what went wrong or was done, and leads back."""
    return rendered("message.html", title=title, text=text, back=back)


def page(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(
        text=text, status=status, content_type="text/html", charset="utf-8", headers=headers
    )


def see_other(to: str) -> web.Response:
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={hdrs.LOCATION: to})


def set_cookie(
    answer: web.Response, request: web.Request, name: str, value: str, seconds: int
) -> web.Response:
    """Have a cookie kept that no script sees, nor another website makes a browser send; over https,
    to us or to a proxy before us, one for https alone.
    """
    secure = origin(request).startswith("https:")
    answer.set_cookie(
        name, value, max_age=seconds, path="/", httponly=True, samesite="Strict", secure=secure
    )
    return answer
