"""Who may look at the dashboard: the middleware before every page, and the login.

Rule: without a token only this machine may, by a name of this machine and straight, not through a
proxy; a page of somebody else that had its own name point here (DNS rebinding) bears that name.
With a token whoever has it may, from anywhere; what is not let in learns nothing but how to log in.

A person may have a token of their own, which is made of that one: so it is known who is logged in.

A browser keeps not the token but the key of a session, of which only a digest is kept here; each
login has its own, and logging out ends it. Tokens are compared in constant time, and one in an
address goes from there at once, right or wrong.

Rule: wrong tokens are counted by address, and all of them together. Those in addresses are counted
apart from those of the form: any page can have a browser send them, and must not lock out whoever
types the token in.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from enum import Enum, auto
from http import HTTPStatus
from pathlib import Path
from secrets import token_urlsafe
from typing import Final, TypeAlias
from urllib.parse import urlencode, urlsplit

from aiohttp import hdrs, web

from channelstats.files import write_file
from channelstats.identifiers import is_user_id
from channelstats.settings import is_loopback
from channelstats.web.http import (
    form_of,
    local,
    message_page,
    page,
    rendered,
    see_other,
    set_cookie,
)
from keytables import Clock

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

SHORTEST_TOKEN: Final = 12
COOKIE: Final = "channelstats"
COOKIE_SECONDS: Final = 30 * 86_400
MAX_FAILURES: Final = 10
"""Wrong tokens that an address may send in a minute."""

MAX_GUESSES: Final = 100
"""Wrong tokens that all addresses together may send in a minute."""

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
_OPEN: Final = ("/login", "/health", "/static/", "/mail/stop")
"""Where nothing about the workspace is shown."""

_FORWARDED: Final = (
    *("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"),
    *("X-Real-IP", "CF-Connecting-IP", "True-Client-IP"),
)
_READS: Final = ("GET", "HEAD")
_OWN: Final = ("same-origin", "none")
_MINUTE: Final = 60.0
_ADDRESSES: Final = 1_000
_LONGEST_TOKEN: Final = 1_000
_KEY_BYTES: Final = 32
_TOKEN_DIGITS: Final = 40
_SESSIONS: Final = 10_000
_log: Final = logging.getLogger("channelstats.web")

# ── tokens and addresses, by values alone ────────────────────────────────────────────────────────


class Verdict(Enum):
    LET_IN = auto()
    LOG_IN = auto()
    OTHER_NAME = auto()
    THROUGH_PROXY = auto()


class TooManyFailures(Exception):  # noqa: N818 - named for what happened
    """Wrong tokens came too fast; even the right one has to wait."""


class Sessions:
    """Who is logged in: digests of the keys that browsers keep, until when (seconds since the
    epoch). Who it is stands in the key alone, so nobody has to be forgotten here. With a ``path``
    they outlive this process. They are of one ``token``: another one ends all.
    """

    def __init__(self, token: str, clock: Clock, path: Path | None = None) -> None:
        self._of, self._clock, self._path = _digest(f"channelstats dashboard {token}"), clock, path
        self._until: dict[str, int] = {}
        with suppress(OSError, ValueError, AttributeError):
            if path is not None:
                kept = json.loads(path.read_bytes())
                if kept.get("of") == self._of:
                    self._until = {str(key): int(at) for key, at in kept["until"].items()}

    def begin(self, person: str = "") -> str:
        """A new session, of a person where that is known; return its key."""
        key, now = token_urlsafe(_KEY_BYTES), int(self._clock())
        key = f"{person}.{key}" if person else key
        self._until = {digest: at for digest, at in self._until.items() if at > now}
        while len(self._until) >= _SESSIONS:
            del self._until[next(iter(self._until))]
        self._until[_digest(key)] = now + COOKIE_SECONDS
        return key

    def end(self, key: str) -> None:
        self._until.pop(_digest(key), None)

    def knows(self, key: str) -> bool:
        return self._until.get(_digest(key), 0) > self._clock()

    def person(self, key: str) -> str:
        """The ID of whose session this is, "" where that is not known."""
        person, dot, _ = key.partition(".")
        return person if dot and self.knows(key) else ""

    def save(self) -> None:
        """Write them to the file, which only its owner can read. Blocks."""
        if self._path is not None:
            text = json.dumps({"of": self._of, "until": self._until})
            write_file(self._path.parent, self._path.name, text.encode())


def personal_token(token: str, uid: str) -> str:
    """The token by which a person logs in, made of that of the dashboard."""
    made = hmac.new(token.encode(), f"channelstats login {uid}".encode(), hashlib.sha256)
    return f"{uid}.{made.hexdigest()[:_TOKEN_DIGITS]}"


class Way(Enum):
    """How a token came."""

    FORM = auto()
    ADDRESS = auto()


class Authenticator:
    """``token`` is what a visitor has to show; None where only this machine is served. ``sessions``
    are those of the token.
    """

    def __init__(self, token: str | None, clock: Clock, sessions: Sessions | None = None) -> None:
        self._token, self._clock = token, clock
        self._failures: OrderedDict[tuple[Way, str], deque[float]] = OrderedDict()
        self._guesses = {way: deque[float](maxlen=MAX_GUESSES) for way in Way}
        self.sessions = sessions or Sessions(token or "", clock)

    @property
    def asks(self) -> bool:
        """Whether visitors have to log in."""
        return self._token is not None

    def person(self, token: str) -> str:
        """The ID of the person whose right token this is; "" for that of the dashboard."""
        return "" if token == self._token else person_of(token)

    def judge(self, headers: Mapping[str, str], cookie: str) -> Verdict:
        """What becomes of a request. ``headers`` are found whatever their case."""
        if self._token is not None:
            return Verdict.LET_IN if self.sessions.knows(cookie) else Verdict.LOG_IN
        if not is_loopback(host_name(headers.get("Host", ""))):
            return Verdict.OTHER_NAME
        if is_forwarded(headers):
            return Verdict.THROUGH_PROXY
        return Verdict.LET_IN

    def is_right(self, token: str, address: str, way: Way = Way.FORM) -> bool:
        """Whether that is the token, or a person's; ``address`` is whence it came.

        :raises TooManyFailures: too many were wrong
        """
        group, now = (way, _group(address)), self._clock()
        failures = self._failures.get(group, deque(maxlen=MAX_FAILURES))
        for times, most in ((failures, MAX_FAILURES), (self._guesses[way], MAX_GUESSES)):
            if sum(at > now - _MINUTE for at in times) >= most:
                raise TooManyFailures
        if self._token is not None:
            uid = person_of(token)
            right = (self._token, *([personal_token(self._token, uid)] if uid else []))
            if any(hmac.compare_digest(token.encode(), one.encode()) for one in right):
                return True
        failures.append(now)
        self._guesses[way].append(now)
        self._failures[group] = failures
        self._failures.move_to_end(group)
        while len(self._failures) > _ADDRESSES:
            self._failures.popitem(last=False)
        return False


def person_of(token: str) -> str:
    """The ID of the person whose token this is, "" for that of the dashboard."""
    uid, dot, _ = token.partition(".")
    return uid if dot and is_user_id(uid) else ""


def is_own(headers: Mapping[str, str]) -> bool:
    """Whether what changes something was sent by a page of the dashboard, or by no page at all."""
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in _OWN
    here = headers.get("Host")
    return headers.get("Origin") in (None, f"http://{here}", f"https://{here}")


def is_forwarded(headers: Mapping[str, str]) -> bool:
    """Whether a proxy says that it passes a request on."""
    return any(name in headers for name in _FORWARDED)


def host_name(header: str) -> str:
    """The name in a Host header, without the port: of `[::1]:8090` `::1`."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _group(address: str) -> str:
    """Addresses of one owner: of IPv6 a whole /64."""
    try:
        owner = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(owner) if owner.version == 4 else str(ipaddress.ip_network((int(owner), 64), False))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


class AuthMiddleware:
    def __init__(self, guard: Authenticator) -> None:
        self._guard, self._saving = guard, asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/login", self.show),
            web.post("/login", self.log_in),
            web.post("/logout", self.log_out),
        ]

    @web.middleware
    async def pass_through(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The middleware around everything else."""
        answer = await self._refused(request) or await handler(request)
        for name, value in _HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    async def _refused(self, request: web.Request) -> web.Response | None:
        """The answer to a request that is not let in; None to any other."""
        verdict = self._guard.judge(request.headers, request.cookies.get(COOKIE, ""))
        if verdict is Verdict.OTHER_NAME:
            name = host_name(request.headers.get(hdrs.HOST, "")) or "no name"
            return _refusal(
                HTTPStatus.MISDIRECTED_REQUEST,
                "Not available under this name",
                f"Without a token this dashboard answers at localhost and 127.0.0.1 only, not at"
                f" {name[:100]}. To use another name, start it with a token in"
                " CHANNELSTATS_SERVE_TOKEN.",
            )
        if verdict is Verdict.THROUGH_PROXY:
            return _refusal(
                HTTPStatus.FORBIDDEN,
                "Not available through a proxy",
                "This request came through a proxy, so anybody may have sent it. Behind a proxy"
                " the dashboard needs a token in CHANNELSTATS_SERVE_TOKEN.",
            )
        if request.method not in _READS and not is_own(request.headers):
            text = "This request came from another website."
            return _refusal(HTTPStatus.FORBIDDEN, "Refused", text, back="/")
        if "token" in request.query and request.method in _READS:
            return await self._with_token(request)
        if verdict is Verdict.LOG_IN and not request.path.startswith(_OPEN):
            return self._asked(request)
        return None

    def _asked(self, request: web.Request) -> web.Response:
        """To the login; for programs a refusal in their form."""
        if request.path.endswith((".json", ".csv")) or request.method not in _READS:
            text = "log in at /login, or send the cookie that it gives"
            return web.json_response({"error": text}, status=HTTPStatus.UNAUTHORIZED)
        return see_other(f"/login?{urlencode({'to': request.path_qs})}")

    async def _with_token(self, request: web.Request) -> web.Response:
        to = local(str(request.rel_url.without_query_params("token")))
        if not self._guard.asks:
            return see_other(to)
        token = request.query["token"]
        wrong = self._tried(token, request, Way.ADDRESS)
        return see_other("/login") if wrong else await self._let_in(request, to, token)

    # ── login ────────────────────────────────────────────────────────────────────────────────────

    async def show(self, request: web.Request) -> web.Response:
        if not self._guard.asks:
            return see_other("/")
        return _login_page("", local(request.query.get("to", "/")))

    async def log_in(self, request: web.Request) -> web.Response:
        form = await form_of(request)
        goal = local(form.get("to", "/"))
        token = form.get("token", "")
        wrong = self._tried(token, request, Way.FORM)
        if wrong:
            return _login_page(wrong, goal, HTTPStatus.FORBIDDEN)
        return await self._let_in(request, goal, token)

    async def log_out(self, request: web.Request) -> web.Response:
        self._guard.sessions.end(request.cookies.get(COOKIE, ""))
        await self._save_sessions()
        answer = see_other("/login")
        answer.del_cookie(COOKIE, path="/")
        return answer

    def _tried(self, token: str, request: web.Request, way: Way) -> str:
        """What is wrong with a token; "" when it is right."""
        if len(token) > _LONGEST_TOKEN or not token.isascii():
            return "That is not a token."
        try:
            is_right = self._guard.is_right(token.strip(), request.remote or "", way)
        except TooManyFailures:
            return "Too many wrong tokens were sent. Try again in a minute."
        return "" if is_right else "That token is wrong."

    async def _let_in(self, request: web.Request, to: str, token: str) -> web.Response:
        key = self._guard.sessions.begin(self._guard.person(token.strip()))
        await self._save_sessions()
        return set_cookie(see_other(to), request, COOKIE, key, COOKIE_SECONDS)

    async def _save_sessions(self) -> None:
        try:
            async with self._saving:
                await asyncio.to_thread(self._guard.sessions.save)
        except OSError:
            _log.warning("sessions cannot be kept: a restart ends them", exc_info=True)


def _login_page(wrong: str, to: str, status: int = HTTPStatus.OK) -> web.Response:
    return page(rendered("login.html", wrong=wrong, to=to), status)


def _refusal(status: HTTPStatus, title: str, text: str, back: str = "") -> web.Response:
    return page(message_page(title, text, back=back), status)
