"""The public URLs as the outside reaches them, and the clocks of what answers there."""

import base64
import secrets
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

from autopush.commands.checks import FEW_DAYS, Finding, Subject, fail, ok, warn
from autopush.commands.checks.ports import service_version
from autopush.commands.checks.probe import ProbeAnswer, ProbeFailed, fetch
from autopush.net.frames import accept_key
from autopush.settings import Settings
from autopush.settings.addresses import is_loopback
from autopush.version import VERSION
from keytables.stores import DynamoUrl, parse_store

DAY: Final = 86_400.0
MAX_SKEW: Final = 30.0
"""Seconds that a clock may be off: senders choose the expiry of VAPID tokens by theirs."""
NOTED_SKEW: Final = 5.0
"""Seconds from which nodes disagree about TTLs."""
STATUS: Final = "/status"

BEHIND_A_PROXY: Final = "Check the DNS name, the firewall and the proxy in front of the service"


async def check_endpoint_url(subject: Subject) -> Sequence[Finding]:
    """This service answers at the URL that endpoints begin with."""
    url = subject.settings.public_endpoint_url
    findings = _check_host(url, "application servers", "endpoint_url")
    try:
        answer = await fetch(url + STATUS)
    except ProbeFailed as failure:
        return [*findings, _unanswered(subject, url, failure)]
    version = service_version(answer.body)
    if answer.status != 200 or not version:
        found = f"{url}{STATUS} is answered {answer.status}, and not by this service"
        findings.append(fail(found, BEHIND_A_PROXY))
    elif version != VERSION:
        found = f"{url} is version {version}, and {VERSION} is installed"
        findings.append(warn(found, "Restart the service after an upgrade"))
    else:
        findings.append(ok(f"{url} is this service"))
    return [*findings, *_check_expiry(answer, subject)]


async def check_websocket_url(subject: Subject) -> Sequence[Finding]:
    """A WebSocket can be opened at the URL that user agents connect to, and is closed again."""
    settings = subject.settings
    if not settings.has_sockets and not settings.websocket_url:
        return [ok("not checked: connection nodes are elsewhere, and websocket_url is not given")]
    url = settings.public_websocket_url
    findings = _check_host(url, "user agents", "websocket_url")
    key = base64.b64encode(secrets.token_bytes(16)).decode("ascii")
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
    }
    try:
        answer = await fetch(url, headers)
    except ProbeFailed as failure:
        return [*findings, _unanswered(subject, url, failure)]
    if answer.status != 101 or answer.headers.get("sec-websocket-accept") != accept_key(key):
        found = f"{url} answers {answer.status}: no WebSocket is opened"
        advice = "Have the proxy pass on the headers Upgrade and Connection (HTTP/1.1)"
        findings.append(fail(found, advice))
    else:
        findings.append(ok(f"{url} opens a WebSocket"))
    return [*findings, *_check_expiry(answer, subject)]


def _check_host(url: str, clients: str, option: str) -> list[Finding]:
    parts = urlsplit(url)
    if is_loopback(parts.hostname or ""):
        return [warn(f"{url} reaches this machine only", f"Set {option} for {clients} elsewhere")]
    if parts.scheme in ("http", "ws"):
        advice = "Use TLS: a proxy in front of the service, or ssl_key and ssl_cert"
        return [warn(f"{url} is not encrypted, and browsers refuse it", advice)]
    return []


def _unanswered(subject: Subject, url: str, failure: ProbeFailed) -> Finding:
    if failure.refused and not subject.is_running:
        return warn(f"{url}: {failure}", "Run the doctor again while the service runs")
    return fail(f"{url}: {failure}", BEHIND_A_PROXY)


def _check_expiry(answer: ProbeAnswer, subject: Subject) -> list[Finding]:
    if answer.expires is None:
        return []
    days = int((answer.expires - subject.clock()) // DAY)
    shown = f"its certificate is valid for {days} days"
    return [warn(shown, "Renew it") if days < FEW_DAYS else ok(shown)]


# ── Clock ─────────────────────────────────────────────────────────────────────────────────────────


async def check_clock(subject: Subject) -> Sequence[Finding]:
    """The clock agrees with those of the public URL and of the database."""
    findings = []
    for name, url in clock_urls(subject.settings).items():
        try:
            answer = await fetch(url)
            there = parsedate_to_datetime(answer.headers["date"]).timestamp()
        except (ProbeFailed, KeyError, ValueError):
            continue
        findings.append(judge_clock(name, subject.clock() - there))
    if findings:
        return findings
    return [warn("not compared: no other clock answered", "See whether NTP is in use")]


def clock_urls(settings: Settings) -> dict[str, str]:
    """Where a Date header is asked for: the public URL, and the database."""
    urls = {"the public URL": settings.public_endpoint_url + STATUS}
    place = parse_store(settings.store_url)
    if isinstance(place, DynamoUrl):
        region = place.region or "us-east-1"
        server = (place.endpoint or "").partition(",")[0]
        urls["the database"] = server or f"https://dynamodb.{region}.amazonaws.com/"
    return urls


def judge_clock(name: str, ahead: float) -> Finding:
    """What it means to be so many seconds ahead of another clock, whose times are whole seconds."""
    if abs(ahead) < NOTED_SKEW:
        return ok(f"within {NOTED_SKEW:g} s of that of {name}")
    way = "ahead of" if ahead > 0 else "behind"
    found = f"{abs(ahead):,.0f} s {way} that of {name}"
    if abs(ahead) <= MAX_SKEW:
        return warn(found, "Use NTP on all machines: nodes disagree about expired messages")
    return fail(found, "Use NTP: tokens of application servers are refused as expired or too new")
