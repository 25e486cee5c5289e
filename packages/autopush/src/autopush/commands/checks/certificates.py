"""The files of TLS: they can be read, belong together, are valid, and name the host."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from autopush.commands.checks import FEW_DAYS, Finding, Subject, fail, ok, warn
from autopush.net.tls import ClientTls, ServerTls, TlsFileError
from autopush.settings import Settings

CORRECT: Final = "Correct the file, or the option that names it"
RENEW: Final = "Renew the certificate, then send SIGHUP to the service"


async def check_tls(subject: Subject) -> Sequence[Finding]:
    """Every configured pair of key and certificate, and the CAs of other nodes."""
    settings, now = subject.settings, subject.clock()
    findings = list(_check_pair(settings, "ssl", _public_host(settings), now))
    if settings.has_sockets:
        host = settings.node_host.strip("[]")
        findings += _check_pair(settings, "router_ssl", host, now)
    if settings.router_ssl_ca:
        try:
            ClientTls(settings.router_ssl_ca)
        except TlsFileError as error:
            findings.append(fail(f"router_ssl_ca: {error}", CORRECT))
        else:
            findings.append(ok("router_ssl_ca can be read"))
    return findings or [ok("not configured: the ports do not speak TLS")]


def _public_host(settings: Settings) -> str:
    url = settings.public_endpoint_url if settings.has_endpoint else settings.public_websocket_url
    return urlsplit(url).hostname or ""


def _check_pair(settings: Settings, prefix: str, host: str, now: float) -> Iterator[Finding]:
    names = (f"{prefix}_key", f"{prefix}_cert")
    key, certificate = (getattr(settings, name) for name in names)
    if not key and not certificate:
        return
    if not key or not certificate:
        given, missing = names if key else names[::-1]
        yield fail(f"{given} is given without {missing}", f"Set {missing} too")
        return
    try:
        tls = ServerTls(certificate, key, settings.ssl_dh_param if prefix == "ssl" else "")
    except TlsFileError as error:
        yield fail(f"{prefix}: {error}", CORRECT)
        return
    days = (tls.expires - datetime.fromtimestamp(now, UTC)).days
    if days < 0:
        yield fail(f"{names[1]} has expired on {tls.expires:%Y-%m-%d}", RENEW)
    elif days < FEW_DAYS:
        yield warn(f"{names[1]} is valid for {days} days", RENEW)
    else:
        yield ok(f"{names[1]} is valid for {days} days")
    for warning in tls.warnings(now) if days >= 0 else ():
        yield warn(warning, "The service starts, and logs this")
    if not any(is_for(name, host) for name in tls.names):
        advice = "Set endpoint_url, websocket_url or hostname to a name of the certificate"
        yield fail(f"{names[1]} is not for {host}", advice)


def is_for(name: str, host: str) -> bool:
    """Whether a certificate's name is that of the host (RFC 9525: `*` is one label)."""
    name, host = name.lower(), host.lower()
    return name in (host, "*." + host.partition(".")[2])
