"""Host names as this machine resolves them."""

import ipaddress
import socket
from contextlib import suppress
from typing import Final

from autopush.settings.declaration import StartupError

LOOPBACK: Final = "127.0.0.1"
EVERY_INTERFACE: Final = "0.0.0.0"  # noqa: S104 - what the original listens on
ALL_INTERFACES: Final = frozenset({EVERY_INTERFACE, "::", "0:0:0:0:0:0:0:0"})
"""Addresses to listen on that stand for every address of the machine."""


def ipv4_address(host: str) -> str:
    """The first IPv4 address of a host; an address stays as it is. May wait for a name server.

    Raises:
        StartupError: it has none.
    """
    if _address(host) is not None:
        return host
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise StartupError(
            f"resolve_hostname: {host} has no IPv4 address that this machine knows; "
            "name one with hostname"
        ) from None
    return str(found[0][4][0])


def is_loopback(host: str) -> bool:
    """Whether this machine alone can reach the host under that name or address: one that resolves
    to 127.0.1.1, as a Debian machine's own name may, or to ::1. May wait for a name server.

    A name that cannot be resolved is not known to be one.
    """
    if (address := _address(host)) is not None:
        return address.is_loopback
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    addresses = [_address(str(entry[4][0])) for entry in found]
    return any(address is not None and address.is_loopback for address in addresses)


def literal_loopback(host: str) -> str:
    """The loopback address that the host is on every machine (`localhost`, RFC 6761 section 6.3);
    empty for any other, even one that this machine resolves to loopback.
    """
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return LOOPBACK
    address = _address(host)
    return str(address) if address is not None and address.is_loopback else ""


def own_address(host: str) -> str:
    """The address of that name which this machine has and other machines can reach; the first, as
    this machine resolves it, if there is one of IPv4 and one of IPv6. Empty if there is none, or
    if others may reach another one: there are several of a kind. May wait for a name server.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ""
    own: dict[str, int] = {}
    for family, kind, number, _, place in found:
        address = str(place[0])
        if is_loopback(address):
            continue
        with suppress(OSError), socket.socket(family, kind, number) as sock:
            sock.bind((address, 0, *place[2:]))
            own[address] = family
    is_clear = len(own) == len(set(own.values()))
    return next(iter(own), "") if is_clear else ""


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address with or without brackets and zone; None for a name."""
    try:
        return ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
