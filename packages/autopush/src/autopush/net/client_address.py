"""Who the client of a request is when it came through reverse proxies.

Each of them appends to `X-Forwarded-For` the address that it was contacted from; what stands before
that may be made up by the client.

Rule: an entry is believed only where a trusted proxy has appended it. So the client is the first
address from the right, beginning with the peer of the connection, that is no trusted proxy's.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

MAX_PROXIES: Final = 16
"""Entries that are looked at; of a longer chain the last of them counts as the client."""


class TrustedProxies:
    """The networks whose machines are believed. `networks`: such as "10.0.0.0/8" or "::1"."""

    __slots__ = ("_networks",)

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(map(ip_network, networks))

    def client(self, peer: str, forwarded_for: str) -> str:
        """The client's address, for a request of `peer` with that header.

        An entry that is no address ends the search, at the one behind it.
        """
        client = peer
        for entry in reversed(forwarded_for.rsplit(",", MAX_PROXIES)):
            if not self._trusts(client):
                break
            address = _parse(entry)
            if address is None:
                break
            client = str(address)
        return client

    def limit_key(self, address: str) -> str:
        """What `address` counts as where addresses are limited: itself, or the /64 of an IPv6 one,
        since a single client has as many of these as it likes.

        Empty for the address of a trusted proxy, as it stands for many clients, and for what is no
        address, such as the "" of a Unix socket: these are not limited.
        """
        parsed = _parse(address)
        if parsed is None or any(parsed in network for network in self._networks):
            return ""
        if isinstance(parsed, IPv4Address):
            return str(parsed)
        return str(IPv6Address(int(parsed) >> 64 << 64)) + "/64"

    def _trusts(self, address: str) -> bool:
        parsed = _parse(address)
        return parsed is not None and any(parsed in network for network in self._networks)


def unmapped(address: str) -> str:
    """An IPv4 address as such, also where a socket of IPv6 has it as ::ffff:192.0.2.1."""
    return address[7:] if address.startswith("::ffff:") and "." in address else address


def _parse(entry: str) -> IPv4Address | IPv6Address | None:
    """An address, with a port or without, as some proxies write it. Its zone is left out."""
    text = entry.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
