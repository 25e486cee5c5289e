"""Checks of the doctor: ports, public URLs, the clock, and the providers of bridges."""

import asyncio
import base64
import errno
import json
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

from autopush.bridges.discovery import load_routers
from autopush.commands.checks import DAY, FEW_DAYS, Finding, PortUse, Subject, fail, ok, warn
from autopush.delivery.bridge_contract import RouterError
from autopush.hosts import join_url
from autopush.net.frames import accept_key
from autopush.net.http_client import HttpClient, HttpError, HttpResponse, client_tls
from autopush.net.tcp import DialRefused, DialUnknown
from autopush.service.listeners import resolve
from autopush.settings import Settings, StartupError
from autopush.settings.addresses import ALL_INTERFACES, LOOPBACK, is_loopback
from autopush.version import VERSION
from autopush.webpush.errors import Errno
from keytables.stores import DynamoUrl, parse_store

# ── One request ───────────────────────────────────────────────────────────────────────────────────

TIMEOUT: Final = 4.0
"""Seconds for the whole request."""


class ProbeFailed(Exception):  # noqa: N818 - named for what happened
    """No response; the text says why."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused
        """Nothing listens there."""


async def fetch(
    url: str, headers: Mapping[str, str] | None = None, *, verify: bool = True
) -> HttpResponse:
    """GET an http, https, ws or wss URL. `verify`: check the server's certificate.

    :raises ProbeFailed: no HTTP response within `TIMEOUT`
    """
    url = url.replace("ws", "http", 1) if url.startswith("ws") else url
    tls = client_tls(verify=verify) if url.startswith("https:") else None
    sent = {"Accept": "application/json", "Connection": "close", **(headers or {})}
    try:
        async with HttpClient(tls) as client, asyncio.timeout(TIMEOUT):
            return await client.request("GET", url, [*sent.items()])
    except TimeoutError:
        raise ProbeFailed(f"no answer within {TIMEOUT:g} s") from None
    except HttpError as error:
        cause = error.__cause__
        refused = isinstance(cause, DialRefused) and not isinstance(cause, DialUnknown)
        raise ProbeFailed(str(error), refused=refused) from None


def certificate_expiry(response: HttpResponse) -> float | None:
    """Expiry of the server's certificate (epoch seconds); None unless one was verified."""
    ends = (response.certificate or {}).get("notAfter")
    return ssl.cert_time_to_seconds(ends) if isinstance(ends, str) else None


# ── The ports ─────────────────────────────────────────────────────────────────────────────────────

_LOOPBACKS: Final = {"0.0.0.0": LOOPBACK, "::": "::1", "0:0:0:0:0:0:0:0": "::1"}  # noqa: S104
"""Where to reach a port that listens on every interface."""
_SILENT: Final = ("http", "proxied", "memory")
"""Ports that cannot be asked for `/status`: one redirects, one expects a PROXY header, one is for
debugging.
"""
_REFUSALS: Final = {
    errno.EADDRINUSE: PortUse.OTHER,
    errno.EACCES: PortUse.FORBIDDEN,
    errno.EADDRNOTAVAIL: PortUse.NO_ADDRESS,
}
_ADVICE: Final = {
    PortUse.OTHER: "End the program that listens there, or choose another port with --{flag}",
    PortUse.FORBIDDEN: "Give the service CAP_NET_BIND_SERVICE, or choose a port above 1023",
    PortUse.NO_ADDRESS: "Set host to an address of this machine",
    PortUse.OTHER_VERSION: f"Restart the service: {VERSION} is installed",
}


async def find_port_uses(settings: Settings) -> dict[str, PortUse]:
    """Who listens on each port of the command, by purpose."""
    purposes = [
        name
        for name, option in settings.listeners.items()
        if getattr(settings, option) and not (settings.unix_socket and option == "port")
    ]
    uses = await asyncio.gather(*(_port_use(settings, purpose) for purpose in purposes))
    port_uses = dict(zip(purposes, uses, strict=True))
    is_running = PortUse.OURS in uses or PortUse.OTHER_VERSION in uses
    for purpose in _SILENT:
        if is_running and port_uses.get(purpose) is PortUse.OTHER:
            port_uses[purpose] = PortUse.OURS
    return port_uses


def check_ports(subject: Subject) -> Iterator[Finding]:
    """Ports are free or used by the service."""
    settings = subject.settings
    for purpose, option in settings.listeners.items():
        if settings.unix_socket and option == "port":
            yield ok(f"{settings.host} in place of the public port")
            continue
        use = subject.ports.get(purpose)
        text = f"{option} {getattr(settings, option)}: {use}"
        if use is None:
            yield ok(f"{option} 0: any free port")
        elif use in (PortUse.FREE, PortUse.OURS):
            yield ok(text)
        else:
            advice = _ADVICE[use].format(flag=option.replace("_", "-"))
            level = warn if use is PortUse.OTHER_VERSION else fail
            yield level(text, advice)
    if settings.has_sockets and subject.ports.get("router") is not PortUse.OURS:
        for port in filter(None, settings.worker_router_ports):
            use = _try_to_bind(settings.router_address, port)
            if use is not PortUse.FREE:
                advice = _ADVICE[use].format(flag="worker-router-port")
                yield fail(f"worker_router_port {port}: {use}", advice)
    if settings.has_sockets and settings.router_host in ALL_INTERFACES:
        problem = f"router_port {settings.router_port} listens on every interface"
        yield warn(problem, "Set router_host to the address that nodes call")


async def _port_use(settings: Settings, purpose: str) -> PortUse:
    port = getattr(settings, settings.listeners[purpose])
    use = _try_to_bind(_host(settings, purpose), port)
    if use is not PortUse.OTHER or purpose in _SILENT:
        return use
    try:
        answer = await fetch(port_url(settings, purpose, STATUS), verify=False)
    except ProbeFailed:
        return PortUse.OTHER
    version = service_version(answer.body)
    if not version:
        return PortUse.OTHER
    return PortUse.OURS if version == VERSION else PortUse.OTHER_VERSION


def port_url(settings: Settings, purpose: str, path: str) -> str:
    """Of a page on a port of this machine."""
    host = _host(settings, purpose)
    has_tls = settings.router_ssl_key if purpose == "router" else settings.has_tls
    scheme = "https" if has_tls and purpose != "metrics" else "http"
    port = getattr(settings, settings.listeners[purpose])
    return join_url(scheme, _LOOPBACKS.get(host, host), port, path)


def _host(settings: Settings, purpose: str) -> str:
    others = {"memory": LOOPBACK, "router": settings.router_address}
    return others.get(purpose, settings.tcp_host)


def service_version(body: bytes) -> str:
    """The version in a `/status` response of this service or the original; else empty."""
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(document, Mapping) or document.get("status") != "OK":
        return ""
    version = document.get("version")
    return version if isinstance(version, str) else ""


def _try_to_bind(host: str, port: int) -> PortUse:
    try:
        family, kind, protocol, address = resolve(host, port)
        sock = socket.socket(family, kind, protocol)
    except (OSError, StartupError):
        return PortUse.NO_ADDRESS
    with sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(address)
        except OSError as error:
            return _REFUSALS.get(error.errno or 0, PortUse.OTHER)
    return PortUse.FREE


# ── The public URLs ───────────────────────────────────────────────────────────────────────────────

MAX_SKEW: Final = 30.0
"""Seconds a clock may be off: senders set the expiry of VAPID tokens by theirs."""
NOTED_SKEW: Final = 5.0
"""Seconds from which there is a warning, since nodes disagree about TTLs."""
STATUS: Final = "/status"

BEHIND_A_PROXY: Final = "Check the DNS name, the firewall and the proxy in front of the service"


async def check_endpoint_url(subject: Subject) -> AsyncIterator[Finding]:
    """This service answers at the public endpoint URL."""
    url = subject.settings.public_endpoint_url

    def judge(answer: HttpResponse) -> Finding:
        version = service_version(answer.body)
        if answer.status != 200 or not version:
            problem = f"{url}{STATUS} is answered {answer.status}, and not by this service"
            return fail(problem, BEHIND_A_PROXY)
        if version != VERSION:
            problem = f"{url} is version {version}, and {VERSION} is installed"
            return warn(problem, "Restart the service after an upgrade")
        return ok(f"{url} is this service")

    for finding in _check_host(url, "application servers", "endpoint_url"):
        yield finding
    for finding in await _ask(subject, url, fetch(url + STATUS), judge):
        yield finding


async def check_websocket_url(subject: Subject) -> AsyncIterator[Finding]:
    """A WebSocket can be opened at the public URL."""
    settings = subject.settings
    if not settings.has_sockets and not settings.websocket_url:
        yield ok("not checked: connection nodes are elsewhere, and websocket_url is not given")
        return
    url = settings.public_websocket_url
    key = base64.b64encode(secrets.token_bytes(16)).decode("ascii")
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
    }

    def judge(answer: HttpResponse) -> Finding:
        if _asks_for_token(answer):  # which it does when a whole upgrade has come through
            text = f"{url} admits users with a token only (status {answer.status})"
            advice = "Run the doctor with the settings of the service: accounts_required"
            return ok(text) if settings.accounts_required else warn(text, advice)
        if answer.status != 101 or answer.headers.get("sec-websocket-accept") != accept_key(key):
            problem = f"{url} answers {answer.status}: no WebSocket is opened"
            return fail(
                problem, "Have the proxy pass on the headers Upgrade and Connection (HTTP/1.1)"
            )
        return ok(f"{url} opens a WebSocket")

    for finding in _check_host(url, "user agents", "websocket_url"):
        yield finding
    for finding in await _ask(subject, url, fetch(url, headers), judge):
        yield finding


async def _ask(
    subject: Subject,
    url: str,
    request: Awaitable[HttpResponse],
    judge: Callable[[HttpResponse], Finding],
) -> list[Finding]:
    """What the answer of a public URL says of the service, and of its certificate."""
    try:
        answer = await request
    except ProbeFailed as failure:
        if failure.refused and not subject.is_running:
            return [warn(f"{url}: {failure}", "Run the doctor again while the service runs")]
        return [fail(f"{url}: {failure}", BEHIND_A_PROXY)]
    findings = [judge(answer)]
    if (expires := certificate_expiry(answer)) is not None:
        days = int((expires - subject.clock()) // DAY)
        validity = f"its certificate is valid for {days} days"
        findings.append(warn(validity, "Renew it") if days < FEW_DAYS else ok(validity))
    return findings


def _asks_for_token(answer: HttpResponse) -> bool:
    """Whether the service refused a WebSocket only because it has no token of a user."""
    try:
        document = json.loads(answer.body)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("errno") == Errno.ACCOUNT_REQUIRED


def _check_host(url: str, clients: str, option: str) -> Iterator[Finding]:
    parts = urlsplit(url)
    if is_loopback(parts.hostname or ""):
        yield warn(f"{url} reaches this machine only", f"Set {option} for {clients} elsewhere")
    elif parts.scheme in ("http", "ws"):
        advice = "Use TLS: domain, a proxy in front of the service, or ssl_key and ssl_cert"
        yield warn(f"{url} is not encrypted, and browsers refuse it", advice)


async def check_clock(subject: Subject) -> AsyncIterator[Finding]:
    """The clock agrees with the Date headers of the public URL and the database."""
    compared = False
    for name, url in clock_urls(subject.settings).items():
        try:
            answer = await fetch(url)
            there = parsedate_to_datetime(answer.headers["date"]).timestamp()
        except (ProbeFailed, KeyError, ValueError):
            continue
        compared = True
        yield judge_clock(name, subject.clock() - there)
    if not compared:
        yield warn("not compared: no other clock answered", "See whether NTP is in use")


def clock_urls(settings: Settings) -> dict[str, str]:
    urls = {"the public URL": settings.public_endpoint_url + STATUS}
    place = parse_store(settings.store_url)
    if isinstance(place, DynamoUrl):
        region = place.region or "us-east-1"
        server = (place.endpoint or "").partition(",")[0]
        urls["the database"] = server or f"https://dynamodb.{region}.amazonaws.com/"
    return urls


def judge_clock(name: str, ahead: float) -> Finding:
    """`ahead`: seconds ahead of the other clock, which is known in whole seconds."""
    if abs(ahead) < NOTED_SKEW:
        return ok(f"within {NOTED_SKEW:g} s of that of {name}")
    way = "ahead of" if ahead > 0 else "behind"
    skew = f"{abs(ahead):,.0f} s {way} that of {name}"
    if abs(ahead) <= MAX_SKEW:
        return warn(skew, "Use NTP on all machines: nodes disagree about expired messages")
    return fail(skew, "Use NTP: tokens of application servers are refused as expired or too new")


# ── Bridges ───────────────────────────────────────────────────────────────────────────────────────


async def check_credentials(subject: Subject) -> AsyncIterator[Finding]:
    """With `--live`, providers issue access tokens; nothing is sent to a device."""
    if not subject.is_live or not subject.settings.has_endpoint:
        yield ok("not asked whether they accept the credentials: --live does")
        return
    for name, router in sorted(load_routers(subject.settings, subject.clock).items()):
        try:
            accepted = await router.try_credentials()
        except RouterError as error:
            yield fail(f"{name}: {error.message}", "See the page of bridges")
        else:
            which = f"gave access tokens for {', '.join(accepted)}"
            yield ok(f"{name}: {which if accepted else 'can only be tried by sending a message'}")
        finally:
            await router.close()
