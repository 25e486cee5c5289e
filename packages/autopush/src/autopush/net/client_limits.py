"""Clients of the public ports: who they are, how many connections they may have, and how many bytes
of incomplete requests and messages.

    `TrustedProxies`     the client's address, where reverse proxies stand before the service
    `ConnectionLimits`   TCP connections of one worker: in all, and of one client address
    `BufferedBytes`      bytes received of what is not complete yet, of all clients together
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, Protocol

# ── Who the client is ─────────────────────────────────────────────────────────────────────────────

MAX_KEYS: Final = 4096
"""Addresses whose limit keys are remembered."""
MAX_PROXIES: Final = 16
"""Entries of X-Forwarded-For that are read; of a longer chain the last of them is the client."""


class TrustedProxies:
    """The networks whose machines are trusted. `networks`: such as "10.0.0.0/8" or "::1".

    Each proxy appends to X-Forwarded-For the address that it was contacted from; what stands before
    that may be made up by the client. So the client is the first address from the right, beginning
    with the peer of the connection, that is no trusted proxy's.
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(map(ip_network, networks))
        # Parsing an address costs more than all else that is done to count a connection.
        self._limit_key = lru_cache(MAX_KEYS)(self._new_limit_key)

    def client(self, peer: str, forwarded_for: str) -> str:
        """The client's address, for a request of `peer` with that header.

        An entry that is no address ends the search, at the one behind it.
        """
        client = peer
        for entry in reversed(forwarded_for.rsplit(",", MAX_PROXIES)):
            if not self._trusts(_parse(client)):
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
        return self._limit_key(address)

    def _new_limit_key(self, address: str) -> str:
        parsed = _parse(address)
        if parsed is None or self._trusts(parsed):
            return ""
        if isinstance(parsed, IPv4Address):
            return str(parsed)
        return str(IPv6Address(int(parsed) >> 64 << 64)) + "/64"

    def _trusts(self, address: IPv4Address | IPv6Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


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


# ── How many connections ──────────────────────────────────────────────────────────────────────────

TOO_MANY: Final = "too many connections"
TOO_MANY_OF_ADDRESS: Final = "too many connections of one address"


class ConnectionRefused(Exception):  # noqa: N818 - not an error of this program
    """A limit is reached; `status` and the text are for the client."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status: Final = status
        self.reason: Final = reason


class HasIdleConnections(Protocol):
    """A server that can close connections whose client is idle."""

    @property
    def connections(self) -> int:
        """How many connections could be such."""

    def close_idle(self) -> bool:
        """Close one of them; False: there is none."""


class ConnectionLimits:
    """The connections of one worker. A limit of 0 is none.

    A connection counts from `count` to `release`, whatever it is for meanwhile: a TLS handshake,
    HTTP requests, a WebSocket. At the limit of all connections an idle one gives way to the new
    one; if there is none, the new one is refused.

    The key by which it counts is that of `TrustedProxies.limit_key`: "" is not limited by address.

    `on_refused(limit, address)`: a connection was refused; `limit` is "tcp_connections",
    "address_connections", or "connections" of one server alone.
    """

    def __init__(
        self,
        proxies: TrustedProxies | None = None,
        *,
        max_connections: int = 0,
        max_per_address: int = 0,
        on_refused: Callable[[str, str], object] | None = None,
    ) -> None:
        self._proxies = proxies or TrustedProxies(())
        self._max = max_connections
        self._max_per_address = max_per_address
        self._on_refused = on_refused
        self._by_key: dict[str, int] = {}
        self._servers: list[HasIdleConnections] = []
        self.open = 0
        """How many connections there are."""

    @property
    def addresses(self) -> int:
        """How many client addresses have connections that count."""
        return len(self._by_key)

    def add_server(self, server: HasIdleConnections) -> None:
        """Let connections of this server give way to new ones."""
        self._servers.append(server)

    def count(self, address: str) -> str:
        """Count a new connection; returns its key. `address`: "" while it is not known.

        :raises ConnectionRefused: there are too many
        """
        key = self._proxies.limit_key(address)
        self._check_address(key, address)
        if self._max and self.open >= self._max and not self._close_idle():
            raise self.refusal("tcp_connections", address)
        self.open += 1
        self._add(key)
        return key

    def recount(self, key: str, address: str) -> str:
        """Let a connection count by another address, now that its client is known; returns its new
        key.

        :raises ConnectionRefused: that address has too many; the connection counts as before
        """
        new = self._proxies.limit_key(address)
        if new != key:
            self._check_address(new, address)
            self._remove(key)
            self._add(new)
        return new

    def release(self, key: str) -> None:
        """A connection has ended."""
        self.open -= 1
        self._remove(key)

    def refusal(self, limit: str, address: str) -> ConnectionRefused:
        """Report that a limit refuses a connection; returns the error to raise."""
        if self._on_refused is not None:
            self._on_refused(limit, address)
        if limit == "address_connections":
            return ConnectionRefused(429, TOO_MANY_OF_ADDRESS)
        return ConnectionRefused(503, TOO_MANY)

    def _check_address(self, key: str, address: str) -> None:
        limit = self._max_per_address
        if limit and self._by_key.get(key, 0) >= limit:
            raise self.refusal("address_connections", address)

    def _add(self, key: str) -> None:
        if key and self._max_per_address:
            self._by_key[key] = self._by_key.get(key, 0) + 1

    def _remove(self, key: str) -> None:
        if key and self._max_per_address:
            left = self._by_key[key] - 1
            if left:
                self._by_key[key] = left
            else:
                del self._by_key[key]

    def _close_idle(self) -> bool:
        """Close an idle connection, preferably of the server that has most connections."""
        servers = sorted(self._servers, key=lambda server: server.connections, reverse=True)
        return any(server.close_idle() for server in servers)


# ── How many bytes ────────────────────────────────────────────────────────────────────────────────

TOO_MUCH: Final = "too much is incomplete, of all clients together"


class HoldsBytes(Protocol):
    """A connection with bytes of an incomplete request or message."""

    def give_up(self) -> None:
        """Drop these bytes and close the connection."""


class BufferedBytes:
    """What the connections of one worker have received of incomplete requests and messages.

    What one client may leave incomplete is bounded by the parsers, all together are bounded here:
    beyond `limit` bytes (0: no limit) the connection whose message has been incomplete for longest
    is closed, until the rest is within it. An honest client's is complete after a few round trips;
    whoever wants to keep others out has to send as many bytes again in that time, over and over.

    `on_given_up`: a connection was closed for that.
    """

    def __init__(self, limit: int = 0, on_given_up: Callable[[], object] | None = None) -> None:
        self._limit = limit
        self._on_given_up = on_given_up
        self._held: OrderedDict[HoldsBytes, int] = OrderedDict()
        self.total = 0
        """Bytes."""

    def hold(self, connection: HoldsBytes, size: int) -> None:
        """A connection holds that many bytes now, 0 when its message is complete.

        This may have connections closed, also this one.
        """
        if not size:
            self.total -= self._held.pop(connection, 0)
            return
        self.total += size - self._held.get(connection, 0)
        self._held[connection] = size
        while self._limit and self.total > self._limit:
            oldest, held = self._held.popitem(last=False)
            self.total -= held
            if self._on_given_up is not None:
                self._on_given_up()
            oldest.give_up()
