"""Clients of the public ports: their addresses, and limits of their connections and of the bytes of
incomplete requests and messages.

    `TrustedProxies`     the client's address behind reverse proxies
    `ConnectionLimits`   TCP connections of one worker, in total and per client address
    `BufferedBytes`      bytes of what is incomplete, all clients together
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, Protocol

# ── Who the client is ─────────────────────────────────────────────────────────────────────────────

MAX_KEYS: Final = 4096
"""Addresses in the cache of limit keys."""
MAX_PROXIES: Final = 16
"""Entries of X-Forwarded-For that are read; in a longer chain the last one read is the client."""


class TrustedProxies:
    """Trusted reverse proxies, as networks such as "10.0.0.0/8" or "::1".

    Each proxy appends to X-Forwarded-For the address that contacted it; the client may have forged
    the entries before. So the client is the first address from the right, starting with the
    connection's peer, that is not a trusted proxy. At the other end of a Unix socket is one: it has
    no address, "".
    """

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self.set(networks)

    def set(self, networks: Iterable[str]) -> None:
        self._networks = tuple(map(ip_network, networks))
        # Parsing an address costs more than the rest of counting a connection.
        self._limit_key = lru_cache(MAX_KEYS)(self._new_limit_key)

    def client(self, peer: str, forwarded_for: str) -> str:
        """The client's address; an entry that is not an address ends the search."""
        client = peer
        for entry in reversed(forwarded_for.rsplit(",", MAX_PROXIES)):
            if not (self._trusts(_parse(client)) or (not client and self._networks)):
                break
            address = _parse(entry)
            if address is None:
                break
            client = str(address)
        return client

    def limit_key(self, address: str) -> str:
        """The key for limits per address: the address itself, or the /64 of an IPv6 address, since
        one client may use the whole /64.

        Empty (not limited) for a trusted proxy, which stands for many clients, and for anything
        that is not an address, such as the "" of a Unix socket.
        """
        return self._limit_key(address)

    def page_key(self, address: str) -> str:
        """As `limit_key`, for what a web page of another origin has sent: then a browser is at that
        address, and no proxy.
        """
        key = self._limit_key(address)
        return key or (str(parsed) if (parsed := _parse(address)) is not None else "")

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
    """The IPv4 form of an IPv4-mapped address (::ffff:192.0.2.1); others unchanged."""
    return address[7:] if address.startswith("::ffff:") and "." in address else address


def _parse(entry: str) -> IPv4Address | IPv6Address | None:
    """An address, without the port that some proxies add and without its zone."""
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
TOO_MANY_NEW_OF_ADDRESS: Final = "too many new connections of one address"


class ConnectionRefused(Exception):  # noqa: N818 - not an error of this program
    """A limit is reached; `status` and `reason` are for the client."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status: Final = status
        self.reason: Final = reason


class HasIdleConnections(Protocol):
    """A server that can close idle connections."""

    @property
    def connections(self) -> int:
        """How many may be idle."""

    def close_idle(self) -> bool:
        """Close one idle connection; False if there is none."""


class ConnectionLimits:
    """Counts the connections of one worker. A limit of 0 means no limit.

    A connection counts from `count` to `release`: during the TLS handshake, HTTP requests and a
    WebSocket. At `max_connections` an idle connection is closed for the new one; if there is none,
    the new one is refused.

    Keys are those of `TrustedProxies.limit_key`; "" is not limited by address. `on_refused(limit,
    address)` is called for each refusal; `limit` is "tcp_connections", "address_connections",
    "connection_rate", or "connections" for the limit of one server.
    """

    def __init__(
        self,
        proxies: TrustedProxies | None = None,
        *,
        max_connections: int = 0,
        max_per_address: int = 0,
        on_refused: Callable[[str, str], object] | None = None,
    ) -> None:
        self._proxies = proxies or TrustedProxies()
        self.max_connections = max_connections
        self.max_per_address = max_per_address
        self._on_refused = on_refused
        self._by_key: dict[str, int] = {}
        self._servers: list[HasIdleConnections] = []
        self.open = 0  # connections now

    @property
    def addresses(self) -> int:
        """Client addresses (keys) with open connections."""
        return len(self._by_key)

    def add_server(self, server: HasIdleConnections) -> None:
        """Let idle connections of this server be closed for new ones."""
        self._servers.append(server)

    def key(self, address: str, *, from_page: bool = False) -> str:
        """`from_page`: see `TrustedProxies.page_key`."""
        return (self._proxies.page_key if from_page else self._proxies.limit_key)(address)

    def count(self, address: str) -> str:
        """Count a new connection and return its key. `address`: "" while unknown.

        :raises ConnectionRefused: there are too many
        """
        key = self._proxies.limit_key(address)
        self._check_address(key, address)
        most = self.max_connections
        if most and self.open >= most and not self._close_idle():
            raise self.refusal("tcp_connections", address)
        self.open += 1
        self._add(key)
        return key

    def recount(self, key: str, address: str, *, from_page: bool = False) -> str:
        """Count a connection by its client's address, once known; return the new key. `from_page`:
        as of `key`.

        :raises ConnectionRefused: that address has too many; the connection counts as before
        """
        new = self.key(address, from_page=from_page)
        if new != key:
            self._check_address(new, address)
            self._remove(key)
            self._add(new)
        return new

    def take_over(self, key: str) -> None:
        """Count a connection that another worker has counted under that key, whatever the limits:
        it is open.
        """
        self.open += 1
        self._add(key)

    def release(self, key: str) -> None:
        self.open -= 1
        self._remove(key)

    def refusal(self, limit: str, address: str) -> ConnectionRefused:
        """Call `on_refused`; return the error to raise."""
        if self._on_refused is not None:
            self._on_refused(limit, address)
        if limit == "address_connections":
            return ConnectionRefused(429, TOO_MANY_OF_ADDRESS)
        if limit == "connection_rate":
            return ConnectionRefused(429, TOO_MANY_NEW_OF_ADDRESS)
        return ConnectionRefused(503, TOO_MANY)

    def _check_address(self, key: str, address: str) -> None:
        limit = self.max_per_address
        if limit and self._by_key.get(key, 0) >= limit:
            raise self.refusal("address_connections", address)

    def _add(self, key: str) -> None:
        if key:  # without a limit too: there may be one later
            self._by_key[key] = self._by_key.get(key, 0) + 1

    def _remove(self, key: str) -> None:
        if key:
            left = self._by_key[key] - 1
            if left:
                self._by_key[key] = left
            else:
                del self._by_key[key]

    def _close_idle(self) -> bool:
        # The server with most connections gives one up first.
        servers = sorted(self._servers, key=lambda server: server.connections, reverse=True)
        return any(server.close_idle() for server in servers)


# ── How many bytes ────────────────────────────────────────────────────────────────────────────────

TOO_MUCH: Final = "too much is incomplete, of all clients together"


class HoldsBytes(Protocol):
    """A connection with bytes of an incomplete request or message."""

    def give_up(self) -> None:
        """Drop these bytes and close the connection."""


class BufferedBytes:
    """Bytes that one worker has received of incomplete requests and messages.

    The parsers limit each client; this limits the total. Beyond `limit` bytes (0: no limit) the
    connection whose message has been incomplete longest is closed, until the rest fits. An honest
    client completes a message within a few round trips; to keep others out, an attacker must send
    as many bytes again in that time, over and over.

    `on_given_up` is called for each connection closed.
    """

    def __init__(self, limit: int = 0, on_given_up: Callable[[], object] | None = None) -> None:
        self.limit = limit
        self._on_given_up = on_given_up
        self._held: OrderedDict[HoldsBytes, int] = OrderedDict()
        self.total = 0  # bytes

    def hold(self, connection: HoldsBytes, size: int) -> None:
        """Record that a connection holds `size` bytes, 0 once its message is complete.

        May close connections, this one included.
        """
        if not size:
            self.total -= self._held.pop(connection, 0)
            return
        self.total += size - self._held.get(connection, 0)
        self._held[connection] = size
        while self.limit and self.total > self.limit:
            oldest, held = self._held.popitem(last=False)
            self.total -= held
            if self._on_given_up is not None:
                self._on_given_up()
            oldest.give_up()
