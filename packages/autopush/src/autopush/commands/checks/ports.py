"""The ports of this machine: free for the service, or in use by it."""

import asyncio
import errno
import json
import socket
from collections.abc import Mapping, Sequence
from typing import Final

from autopush.commands.checks import Finding, PortUse, Subject, fail, ok, warn
from autopush.commands.checks.probe import ProbeFailed, fetch
from autopush.settings import Settings
from autopush.settings.addresses import ALL_INTERFACES
from autopush.settings.value_types import join_url
from autopush.version import VERSION

_LOOPBACK: Final = "127.0.0.1"
_LOOPBACKS: Final = {"0.0.0.0": _LOOPBACK, "::": "::1", "0:0:0:0:0:0:0:0": "::1"}  # noqa: S104
"""Where a port that listens on every interface is reached."""
_SILENT: Final = ("proxied", "memory")
"""Purposes that cannot be asked which program it is: before the first request a proxy says who the
client is; the other is for debugging alone.
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


async def look_at_ports(settings: Settings) -> dict[str, PortUse]:
    """Who listens on each port of the command, by purpose."""
    purposes = [name for name, option in settings.listeners.items() if getattr(settings, option)]
    uses = await asyncio.gather(*(_look_at(settings, purpose) for purpose in purposes))
    found = dict(zip(purposes, uses, strict=True))
    is_running = PortUse.OURS in uses or PortUse.OTHER_VERSION in uses
    for purpose in _SILENT:
        if is_running and found.get(purpose) is PortUse.OTHER:
            found[purpose] = PortUse.OURS
    return found


async def check_ports(subject: Subject) -> Sequence[Finding]:
    """Every port is free, or the service listens there."""
    findings = []
    for purpose, option in subject.settings.listeners.items():
        use = subject.ports.get(purpose)
        shown = f"{option} {getattr(subject.settings, option)}: {use}"
        if use is None:
            findings.append(ok(f"{option} 0: any free port"))
        elif use in (PortUse.FREE, PortUse.OURS):
            findings.append(ok(shown))
        else:
            advice = _ADVICE[use].format(flag=option.replace("_", "-"))
            level = warn if use is PortUse.OTHER_VERSION else fail
            findings.append(level(shown, advice))
    return [*findings, *_check_node_address(subject.settings)]


def _check_node_address(settings: Settings) -> Sequence[Finding]:
    """Other nodes can reach the internal port, and the public cannot."""
    findings = []
    if settings.has_sockets and settings.in_cluster and settings.node_is_local:
        found = f"nodes on other machines cannot reach {settings.node_url(settings.router_port)}"
        advice = "Set router_hostname or hostname, and router_host to listen there"
        findings.append(warn(found, advice))
    if settings.has_sockets and settings.router_address in ALL_INTERFACES:
        found = f"router_port {settings.router_port} listens on every interface"
        findings.append(warn(found, "Set router_host to the address that nodes call"))
    return findings


async def _look_at(settings: Settings, purpose: str) -> PortUse:
    port = getattr(settings, settings.listeners[purpose])
    host = {"memory": _LOOPBACK, "router": settings.router_address}.get(purpose, settings.host)
    try:
        use = _try_to_bind(host, port)
    except (OSError, UnicodeError):
        return PortUse.NO_ADDRESS
    if use is not PortUse.OTHER or purpose in _SILENT:
        return use
    key = settings.router_ssl_key if purpose == "router" else settings.ssl_key
    scheme = "https" if key and purpose != "metrics" else "http"
    url = join_url(scheme, _LOOPBACKS.get(host, host), port, "/status")
    try:
        answer = await fetch(url, verify=False)
    except ProbeFailed:
        return PortUse.OTHER
    version = service_version(answer.body)
    if not version:
        return PortUse.OTHER
    return PortUse.OURS if version == VERSION else PortUse.OTHER_VERSION


def service_version(body: bytes) -> str:
    """The version that `/status` of this service, or of the original, answers; else empty."""
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(document, Mapping) or document.get("status") != "OK":
        return ""
    version = document.get("version")
    return version if isinstance(version, str) else ""


def _try_to_bind(host: str, port: int) -> PortUse:
    """Bind it without listening. Raises OSError where the host has no address."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(address)
        except OSError as error:
            return _REFUSALS.get(error.errno or 0, PortUse.OTHER)
    return PortUse.FREE
