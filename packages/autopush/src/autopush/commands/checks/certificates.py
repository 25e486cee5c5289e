"""The files of TLS: they can be read, belong together, are valid, and name the public host."""

import os
import ssl
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509

from autopush.commands.checks import Finding, Subject, fail, ok, warn
from autopush.settings import Settings

FEW_DAYS: Final = 14
"""Days before the end of a certificate from which it is a warning."""
_OTHERS: Final = 0o077


async def check_tls(subject: Subject) -> Sequence[Finding]:
    """Every configured pair of key and certificate."""
    settings = subject.settings
    findings = list(_check_pair(settings, "", _public_host(settings), subject.clock()))
    if settings.has_sockets:
        host = settings.node_host.strip("[]")
        findings += _check_pair(settings, "router_", host, subject.clock())
    return findings or [ok("not configured: the ports do not speak TLS")]


def _public_host(settings: Settings) -> str:
    url = settings.public_endpoint_url if settings.has_endpoint else settings.public_websocket_url
    return urlsplit(url).hostname or ""


def _check_pair(settings: Settings, prefix: str, host: str, now: float) -> Iterator[Finding]:
    names = (f"{prefix}ssl_key", f"{prefix}ssl_cert")
    key, certificate = (getattr(settings, name) for name in names)
    if not key and not certificate:
        return
    if not key or not certificate:
        given, missing = names if key else names[::-1]
        yield fail(f"{given} is given without {missing}", f"Set {missing} too")
        return
    for name, path in zip(names, (key, certificate), strict=True):
        if not os.access(path, os.R_OK):
            why = "may not be read by this user" if os.path.exists(path) else "does not exist"
            yield fail(f"{name}: {path} {why}", "Correct the path, or its mode and owner")
            return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_refuse)
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or "they cannot be read"
        found = f"{names[0]} and {names[1]} do not belong together or are no PEM files ({reason})"
        yield fail(found, "Put the key of the first certificate into the key file, not encrypted")
        return
    if (mode := Path(key).stat().st_mode & 0o777) & _OTHERS & ~0o040:
        yield warn(f"{key} is open to other users (mode {mode:o})", f"chmod 600 {key}")
    yield from _check_certificate(names[1], Path(certificate).read_bytes(), host, now)


def _refuse() -> str:
    """The password of a key: there is nobody to be asked for it."""
    raise ValueError("encrypted")


def _check_certificate(name: str, pem: bytes, host: str, now: float) -> Iterator[Finding]:
    first, *chain = x509.load_pem_x509_certificates(pem)
    today = datetime.fromtimestamp(now, UTC)
    days = (first.not_valid_after_utc - today).days
    if today < first.not_valid_before_utc:
        yield fail(f"{name} is not valid before {first.not_valid_before_utc:%Y-%m-%d}", "Wait")
    elif days < 0:
        ended = f"{first.not_valid_after_utc:%Y-%m-%d}"
        yield fail(f"{name} has expired on {ended}", "Renew it, then send SIGHUP")
    elif days < FEW_DAYS:
        yield warn(f"{name} is valid for {days} days", "Renew it, then send SIGHUP")
    else:
        yield ok(f"{name} is valid for {days} days, with {len(chain)} of its CAs")
    if not names_host(first, host):
        advice = "Set endpoint_url, websocket_url or hostname to a name of the certificate"
        yield fail(f"{name} is not for {host}", advice)


def names_host(certificate: x509.Certificate, host: str) -> bool:
    """Whether a certificate is for that host name or address (RFC 9525: `*` is one label)."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    if host in (str(address) for address in names.get_values_for_type(x509.IPAddress)):
        return True
    wildcard = "*." + host.partition(".")[2]
    dns = {name.lower() for name in names.get_values_for_type(x509.DNSName)}
    return not dns.isdisjoint((host.lower(), wildcard.lower()))
