"""The pages of the console, each with its JSON.

    GET  /console/            Now          GET  /console/now.json, now.events
    GET  /console/look-up     Look up      POST /console/look-up.json; to act on what it has found:
                                           POST /console/drop-user.json, delete-messages.json,
                                           test-push.json, test-push-state.json
    GET  /console/accounts    Accounts     GET  /console/accounts.json
                                           POST /console/accounts-change.json, -devices.json
    GET  /console/report      Report       POST /console/report.json
    GET  /console/log-in      the form     POST /console/log-in, log-out

A request has the cookie of a log-in, `Authorization: Bearer TOKEN`, for scripts, or comes over a
connection with a client certificate, which TLS has checked.

Rule: whatever changes something is a POST of a page of this origin (its `Origin` is the `Host`), or
has a bearer token, which no other site can make a browser send.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from html import escape
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qs

import orjson

from autopush.api import responses
from autopush.api.app import common_name
from autopush.api.event_stream import HEADERS, EventStream
from autopush.clock import until_next
from autopush.console.audit import AuditLog
from autopush.console.following import FollowedPushes
from autopush.console.lookup import LookUp, LookUpError
from autopush.console.overview import Overview
from autopush.console.report import Report, ReportError
from autopush.console.session import ACT, COOKIE, LIFETIME, ConsoleSessions
from autopush.console.users import ACTIONS, AccountPages
from autopush.hosts import origin_of
from autopush.net.client_limits import ConnectionLimits
from autopush.net.http_messages import Answer, Request, Response, Upgrade
from autopush.shown import shown
from autopush.store.accounts import NAME, AccountError
from autopush.telemetry import logs
from autopush.version import VERSION
from autopush.webpush.identifiers import canonical_uuid
from keytables import KeytablesError

MAX_STREAMS: Final = 32
"""Pages that are kept up to date at once."""
UPDATE_INTERVAL: Final = 1.0
MAX_FIELDS: Final = 16
LONGEST_STREAM: Final = 3600.0
"""Seconds after which a page has to show again that it may see."""
TITLES: Final = {"": "Now", "look-up": "Look up", "accounts": "Accounts", "report": "Report"}
"""Pages in the order of the menu, by the last part of their path."""

_STATIC: Final = (files("autopush.console") / "static", files("autopush.api") / "static")
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_SHARED_FILES: Final = ("style.css", "icon.svg")
"""Those of the start page that the console has too."""
_HTML: Final = "text/html; charset=utf-8"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)

_log = logs.get(__name__)

Page = Callable[[Request, str], Coroutine[Any, Any, Answer]]
"""Answers a request of that role."""


class ConsoleRefusal(Exception):  # noqa: N818 - an answer
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Console:
    """`connection_limits`: of the port, from which a stream takes its connection."""

    def __init__(
        self,
        sessions: ConsoleSessions,
        overview: Overview,
        look_up: LookUp,
        followed: FollowedPushes,
        accounts: AccountPages,
        report: Report,
        audit: AuditLog,
        connection_limits: ConnectionLimits,
    ) -> None:
        self._sessions, self._overview, self._audit = sessions, overview, audit
        self._users, self._followed = look_up, followed
        self._accounts, self._report = accounts, report
        self._limits = connection_limits
        self._streams: set[EventStream] = set()
        self._updates: asyncio.Task[None] | None = None
        self._is_closed = False
        self._files = dict(_static_files())
        frame = _read("frame.html")
        self._pages = {
            path: _fill(frame, path, _read(f"{title.lower().replace(' ', '-')}.html"))
            for path, title in TITLES.items()
        }
        self._log_in_page = _read("log-in.html")
        self._json: dict[tuple[str, str], Page] = {
            ("GET", "now.json"): self._now,
            ("GET", "now.events"): self._now_events,
            ("POST", "report.json"): self._make_report,
            ("GET", "accounts.json"): self._list_accounts,
            ("POST", "accounts-change.json"): self._change_account,
            ("POST", "accounts-devices.json"): self._count_devices,
            ("POST", "look-up.json"): self._look_up,
            ("POST", "drop-user.json"): self._drop_user,
            ("POST", "delete-messages.json"): self._delete_messages,
            ("POST", "test-push.json"): self._send_test_push,
            ("POST", "test-push-state.json"): self._follow_test_push,
        }

    async def __call__(self, request: Request) -> Answer:
        path = request.path.removeprefix("/console").removeprefix("/")
        if not request.path.startswith("/console/"):
            return _redirect("/console/")
        try:
            answer = await self._answer(request, path)
        except ConsoleRefusal as refusal:
            answer = responses.json(refusal.status, {"error": str(refusal)})
        except LookUpError as error:
            answer = responses.json(404, {"error": str(error)})
        except AccountError as error:
            answer = responses.json(400, {"error": str(error)})
        except ReportError as error:
            answer = responses.json(500, {"error": str(error)})
        except KeytablesError as error:
            refused = responses.storage_refusal(error)
            answer = responses.json(refused.status, {"error": refused.message})
        if isinstance(answer, Response):
            answer.headers = (*answer.headers, *_HEADERS)
        return answer

    async def _answer(self, request: Request, path: str) -> Answer:
        method = "GET" if request.method == "HEAD" else request.method
        if method == "GET" and (file := self._files.get(path)) is not None:
            return Response(200, file[0], (), file[1])
        if path == "log-in":
            return self._log_in(request) if method == "POST" else self._log_in_form("")
        if path == "log-out" and method == "POST":
            self._check_origin(request)
            return _redirect("/console/log-in", _cookie("", 0, request))
        role = self._role(request)
        if method == "GET" and path in self._pages:
            if not role:
                return _redirect("/console/log-in")
            by = "certificate" if request.certificate else "token"
            text = self._pages[path].replace("{{role}}", role).replace("{{by}}", by)
            return Response(200, text.encode(), (), _HTML)
        if not role:
            raise ConsoleRefusal(401, "Log in at /console/log-in, or send a bearer token")
        if (page := self._json.get((method, path))) is None:
            known = {each for _, each in self._json}
            if path in known:
                raise ConsoleRefusal(405, f"{path} is not for {method}")
            raise ConsoleRefusal(404, "The console has no such page")
        return await page(request, role)

    # ── who comes ────────────────────────────────────────────────────────────────────────────────

    def _role(self, request: Request) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            role = self._sessions.tokens.role_of(token.strip())
            if not role and self._sessions.wait_before_attempt(request.client_address):
                raise ConsoleRefusal(429, "Too many wrong tokens; wait a minute")
            return role
        if request.method not in ("GET", "HEAD"):
            self._check_origin(request)
        if request.certificate:
            return ACT
        cookies = SimpleCookie()
        try:
            cookies.load(request.headers.get("cookie", ""))
        except CookieError:
            return ""
        return self._sessions.role_of(cookies[COOKIE].value) if COOKIE in cookies else ""

    def _check_origin(self, request: Request) -> None:
        """:raises ConsoleRefusal: 403, no page of this origin has sent it"""
        try:
            origin = origin_of(request.headers.get("origin", "")).partition("://")[2]
            host = origin_of(f"http://{request.headers.get('host', '')}").partition("://")[2]
        except ValueError:
            origin, host = "", " "
        if origin != host:
            raise ConsoleRefusal(
                403, "Origin and Host differ: a proxy before the console has to keep the Host"
            )

    def _log_in(self, request: Request) -> Response:
        self._check_origin(request)
        if self._sessions.wait_before_attempt(request.client_address):
            return self._log_in_form("Too many attempts; wait a minute.", 429)
        cookie = self._sessions.open(_field(request, "token"))
        if not cookie:
            _log.warning("Wrong token at the console", remote_ip=request.client_address)
            return self._log_in_form("That is not the token.", 403)
        role = cookie.partition(".")[0]
        self._record(request, role, "log-in")
        return _redirect("/console/", _cookie(cookie, LIFETIME, request))

    def _log_in_form(self, problem: str, status: int = 200) -> Response:
        text = self._log_in_page.replace("{{problem}}", escape(problem))
        if not self._sessions.tokens.hashes():
            text = text.replace('id="no-token" hidden', 'id="no-token"')
        return Response(status, text.encode(), (), _HTML)

    # ── Now ──────────────────────────────────────────────────────────────────────────────────────

    async def _now(self, _request: Request, _role: str) -> Answer:
        history = {"history": self._overview.history.document()}
        return responses.json(200, await self._overview.document() | history)

    async def _now_events(self, request: Request, _role: str) -> Answer:
        if request.method == "HEAD":
            return Response(200)
        if len(self._streams) >= MAX_STREAMS or self._is_closed:
            raise ConsoleRefusal(503, f"{MAX_STREAMS} pages are open, which is the most")

        def stream(key: str) -> EventStream:
            made = EventStream(self._follow, lambda: self._lost(made, key))
            self._streams.add(made)
            return made

        return Upgrade(HEADERS, stream, status=200)

    def _lost(self, stream: EventStream, key: str) -> None:
        self._streams.discard(stream)
        self._limits.release(key)
        if not self._streams and self._updates is not None:
            self._updates.cancel()
            self._updates = None

    async def _follow(self, stream: EventStream) -> None:
        """Begin with all there is; what changes comes to all pages at once."""
        stream.write(b"retry: 1000\n" + _event("history", self._overview.history.document()))
        stream.write(_event("now", await self._overview.document()))
        if self._updates is None or self._updates.done():
            self._updates = asyncio.get_running_loop().create_task(self._update())
        await asyncio.sleep(LONGEST_STREAM)
        stream.close()

    async def _update(self) -> None:
        """One document a second for all who look."""
        loop, samples = asyncio.get_running_loop(), self._overview.history.samples
        newest = samples[-1] if samples else None
        while True:
            await asyncio.sleep(until_next(UPDATE_INTERVAL, loop.time()))
            event = _event("now", await self._overview.document())
            if samples and samples[-1] is not newest:
                newest = samples[-1]
                event += _event("sample", list(newest))
            for stream in list(self._streams):
                stream.write(event)

    # ── Look up ──────────────────────────────────────────────────────────────────────────────────

    async def _look_up(self, request: Request, _role: str) -> Answer:
        return responses.json(200, await self._users.find(_field(request, "text")))

    async def _drop_user(self, request: Request, role: str) -> Answer:
        uaid = await self._user_to_change(request, role, "drop-user")
        await self._users.drop(uaid)
        return responses.json(200, {"dropped": True})

    async def _delete_messages(self, request: Request, role: str) -> Answer:
        uaid = await self._user_to_change(request, role, "delete-messages")
        return responses.json(200, {"deleted": await self._users.delete_messages(uaid)})

    async def _send_test_push(self, request: Request, role: str) -> Answer:
        channel = canonical_uuid(_field(request, "channel"))
        if channel is None:
            raise LookUpError("channel: expected the ID of a subscription")
        uaid = await self._user_to_change(request, role, "test-push")
        return responses.json(200, await self._followed.send(uaid, channel))

    async def _follow_test_push(self, request: Request, _role: str) -> Answer:
        return responses.json(200, await self._followed.state(_field(request, "message")))

    async def _user_to_change(self, request: Request, role: str, action: str) -> str:
        _check_may_act(role)
        uaid = (await self._users.record(_field(request, "uaid"))).uaid
        self._record(request, role, action, user=self._users.shown(uaid))
        return uaid

    # ── Accounts ─────────────────────────────────────────────────────────────────────────────────

    async def _list_accounts(self, _request: Request, _role: str) -> Answer:
        return responses.json(200, await self._accounts.document())

    async def _count_devices(self, _request: Request, _role: str) -> Answer:
        return responses.json(200, {"devices": await self._accounts.accounts.devices()})

    async def _change_account(self, request: Request, role: str) -> Answer:
        _check_may_act(role)
        action, name = _field(request, "action"), _field(request, "name")
        if action not in ACTIONS or NAME.fullmatch(name) is None:
            raise AccountError(
                f"action: one of {', '.join(ACTIONS)}; name: 1 to 64 of A-Z a-z 0-9 . _ @ -"
            )
        fields = {each: _field(request, each) for each in ("connections", "days")}
        given = {each: text[:10] for each, text in fields.items() if text}
        self._record(request, role, f"user {action}", name=name, **given)
        return responses.json(200, await self._accounts.change(action, name, fields))

    async def _make_report(self, _request: Request, _role: str) -> Answer:
        return responses.json(200, {"report": await self._report.text()})

    def _record(self, request: Request, role: str, action: str, **fields: object) -> None:
        """Before a change: who makes it.

        :raises ConsoleRefusal: 500, the line could not be written
        """
        who = [role, request.client_address]
        if request.certificate:
            who.insert(
                1, f"certificate of {shown(common_name(request.certificate), is_public=True)}"
            )
        try:
            self._audit.add(action, by=f"console, {', '.join(who)}", **fields)
        except OSError as error:
            problem = f"Nothing was changed: the audit log cannot be written ({error.strerror})"
            raise ConsoleRefusal(500, problem) from None

    def close(self) -> None:
        """End all streams: their pages come back, to the next version if there is one."""
        self._is_closed = True
        self._report.close()
        for stream in list(self._streams):
            stream.close()


def _check_may_act(role: str) -> None:
    """:raises ConsoleRefusal: 403, it may only look"""
    if role != ACT:
        raise ConsoleRefusal(403, "This token may only look")


def _field(request: Request, name: str) -> str:
    """A field of a form, "" without it."""
    try:
        fields = parse_qs(request.body.decode("utf-8", "replace"), max_num_fields=MAX_FIELDS)
    except ValueError:
        return ""
    return fields.get(name, [""])[0].strip()


def _event(name: str, document: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(document))


def _redirect(to: str, *headers: tuple[str, str]) -> Response:
    return Response(303, headers=(("Location", to), *headers))


def _cookie(value: str, seconds: int, request: Request) -> tuple[str, str]:
    secure = "; Secure" if request.headers.get("origin", "").startswith("https:") else ""
    attributes = f"HttpOnly; SameSite=Strict; Path=/console; Max-Age={seconds}{secure}"
    return "Set-Cookie", f"{COOKIE}={value}; {attributes}"


def _read(name: str) -> str:
    return (_STATIC[0] / name).read_text("utf-8")


def _static_files() -> Mapping[str, tuple[bytes, str]]:
    static_files = {}
    for folder in _STATIC:
        for file in folder.iterdir():
            kind = _TYPES.get(file.name.rpartition(".")[2])
            if kind and (folder is _STATIC[0] or file.name in _SHARED_FILES):
                static_files[f"static/{file.name}"] = file.read_bytes(), kind
    return static_files


def _fill(frame: str, path: str, content: str) -> str:
    links = (
        f'<a href="/console/{each}"{" aria-current=page" if each == path else ""}>{title}</a>'
        for each, title in TITLES.items()
    )
    for name, text in (
        ("title", TITLES[path]),
        ("menu", "\n".join(links)),
        ("content", content),
        ("version", escape(VERSION)),
    ):
        frame = frame.replace(f"{{{{{name}}}}}", text)
    return frame
