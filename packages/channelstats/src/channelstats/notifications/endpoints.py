"""Which addresses messages may be sent to.

Rule: an endpoint comes from a stranger's browser, and this program sends to it from inside the
operator's network. So it leads out of there, with three exceptions that somebody here decided on:

    https, a name or address that is open to the whole Internet   always
    http or https on this machine's loopback                      from a page that was opened on it
    https, a host that the operator named (`push_hosts`)          always

What a name stands for is judged at the time of sending, on the very addresses that are connected
to; redirections are not followed.
"""

import re
import socket
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

LONGEST: Final = 2048
"""Characters of an endpoint. Those of the large push services have 200 to 600."""

_CHARACTERS: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_LOOPBACK_NAME: Final = "localhost"
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
"""Addresses of IPv4 for those who have IPv6 alone (RFC 6052)."""
_TUNNELS: Final = (IPv6Network("2002::/16"), IPv6Network("2001::/32"))
"""6to4 and Teredo: an address of IPv4 inside, which may be anybody's."""


def check_endpoint(endpoint: str, *, from_here: bool, own_hosts: Collection[str] = ()) -> None:
    """See the module. ``from_here``: its page was opened on this machine's loopback.

    :raises ValueError: nothing is sent there; says what was expected
    """
    if len(endpoint) > LONGEST or not _CHARACTERS.fullmatch(endpoint):
        raise ValueError(f"endpoint: expected an address of at most {LONGEST} plain characters")
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("endpoint: expected an address") from None
    if parts.username is not None or parts.fragment or not _NAME.fullmatch(host) or port == 0:
        raise ValueError("endpoint: expected https, a host and a path")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError("endpoint: expected https")
    if parts.scheme not in ("http", "https"):
        raise ValueError("endpoint: expected https")
    if is_loopback(host):
        if not from_here:
            raise ValueError("endpoint: a push service on loopback serves this machine alone")
    elif (address := _address(host)) is not None and host not in own_hosts and not is_open(address):
        raise ValueError("endpoint: expected an address that is open to the Internet")


def is_loopback(host: str) -> bool:
    """Whether this name or address is this machine by itself."""
    address = _address(host)
    return host == _LOOPBACK_NAME if address is None else address.is_loopback


def is_open(address: IPv4Address | IPv6Address) -> bool:
    """Whether it belongs to the whole Internet, and to no network of somebody's own."""
    judged = address
    if isinstance(address, IPv6Address):
        if any(address in network for network in _TUNNELS):
            return False
        judged = address.ipv4_mapped or address
        if address in _TRANSLATED:
            judged = IPv4Address(address.packed[-4:])
    return judged.is_global and not judged.is_multicast


class GuardedResolver(AbstractResolver):
    """What a host stands for, without what nothing may be sent to."""

    def __init__(
        self, own_hosts: Collection[str] = (), behind: AbstractResolver | None = None
    ) -> None:
        self._own_hosts = own_hosts
        self._behind = behind or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._behind.resolve(host, port, family)
        fit = [result for result in found if self._may_send(host, ip_address(result["host"]))]
        if not fit:
            raise OSError("the host is in a network of somebody's own")
        return fit

    async def close(self) -> None:
        await self._behind.close()

    def _may_send(self, host: str, address: IPv4Address | IPv6Address) -> bool:
        if host == _LOOPBACK_NAME:
            return address.is_loopback
        return host in self._own_hosts or is_open(address)


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
