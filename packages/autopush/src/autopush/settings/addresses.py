"""Host names as this machine resolves them."""

import ipaddress
import socket
from contextlib import suppress
from typing import Final

from autopush.settings.declaration import StartupError

LOOPBACK: Final = "127.0.0.1"
EVERY_INTERFACE: Final = "0.0.0.0"  # noqa: S104 - what the original listens on
ALL_INTERFACES: Final = frozenset({EVERY_INTERFACE, "::", "0:0:0:0:0:0:0:0"})
"""Listen addresses that mean every interface."""


def ipv4_address(host: str) -> str:
    """The first IPv4 address of a host; an IP address is returned unchanged. May block on DNS.

    :raises StartupError: the host has none
    """
    if _address(host) is not None:
        return host
    try:
        entries = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise StartupError(
            f"resolve_hostname: {host} has no IPv4 address that this machine knows; "
            "name one with hostname"
        ) from None
    return str(entries[0][4][0])


def is_loopback(host: str) -> bool:
    """Whether a host is or resolves to loopback, as a Debian machine's own name may.

    False for a name that cannot be resolved. May block on DNS.
    """
    if (address := _address(host)) is not None:
        return address.is_loopback
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    addresses = [_address(str(entry[4][0])) for entry in entries]
    return any(address is not None and address.is_loopback for address in addresses)


def literal_loopback(host: str) -> str:
    """The loopback address that a host means on every machine (`localhost`: RFC 6761, section 6.3);
    empty for others, even if this machine resolves them to loopback.
    """
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return LOOPBACK
    address = _address(host)
    return str(address) if address is not None and address.is_loopback else ""


def own_address(host: str) -> str:
    """The address of this machine, not loopback, that a name resolves to; the first if there is one
    of IPv4 and one of IPv6. Empty if there is none or several of a family: others may reach another
    one. May block on DNS.
    """
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ""
    own: dict[str, int] = {}
    for family, kind, number, _, place in entries:
        address = str(place[0])
        if is_loopback(address):
            continue
        with suppress(OSError), socket.socket(family, kind, number) as sock:
            sock.bind((address, 0, *place[2:]))
            own[address] = family
    is_clear = len(own) == len(set(own.values()))
    return next(iter(own), "") if is_clear else ""


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address, also in brackets or with a zone; None for a name."""
    try:
        return ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return None
