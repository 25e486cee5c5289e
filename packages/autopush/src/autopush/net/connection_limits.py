"""How many TCP connections a worker has on its public ports: in all, and of one client address.

Rule: a connection counts from `admit` to `release`, whatever it is for meanwhile: a TLS handshake,
HTTP requests, a WebSocket. Nobody waits until there is room: at the limit of all connections, one
whose client has been waited for gives way to the new one, and if there is none the new one is
refused. So whoever opens connections and leaves them does not keep others out.

A connection counts by the key that `admit` or `recount` returned; "" is that of an address which is
not limited (`TrustedProxies.limit_key`).
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from autopush.net.client_address import TrustedProxies

TOO_MANY: Final = "too many connections"
TOO_MANY_OF_ADDRESS: Final = "too many connections of one address"

OnRefused = Callable[[str, str], object]


class ConnectionRefused(Exception):  # noqa: N818 - not an error of this program
    """A limit is reached; `status` and the text are for the client."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status: Final = status
        self.reason: Final = reason


class HasIdleConnections(Protocol):
    """A server that can close connections whose client has been waited for."""

    @property
    def connections(self) -> int:
        """How many connections could be such."""

    def close_idle(self) -> bool:
        """Close one of them; False: there is none."""


class ConnectionLimits:
    """The connections of one worker. A limit of 0 is none.

    `on_refused(limit, address)`: a connection was refused; `limit` is "tcp_connections",
    "address_connections", or "connections" of one server alone.
    """

    __slots__ = (
        "_by_address",
        "_max",
        "_max_per_address",
        "_on_refused",
        "_proxies",
        "_servers",
        "open",
    )

    def __init__(
        self,
        proxies: TrustedProxies | None = None,
        *,
        max_connections: int = 0,
        max_per_address: int = 0,
        on_refused: OnRefused | None = None,
    ) -> None:
        self._proxies = proxies or TrustedProxies(())
        self._max = max_connections
        self._max_per_address = max_per_address
        self._on_refused = on_refused
        self._by_address: dict[str, int] = {}
        self._servers: list[HasIdleConnections] = []
        self.open = 0
        """How many connections there are."""

    @property
    def addresses(self) -> int:
        """How many client addresses have connections that count."""
        return len(self._by_address)

    def add_server(self, server: HasIdleConnections) -> None:
        """Let connections of this server give way to new ones."""
        self._servers.append(server)

    def admit(self, address: str) -> str:
        """Count a new connection; returns its key. `address`: "" while it is not known.

        :raises ConnectionRefused: there are too many
        """
        key = self._proxies.limit_key(address)
        self._check_address(key, address)
        if self._max and self.open >= self._max and not self._make_room():
            raise self.refusal("tcp_connections", address)
        self.open += 1
        self._count(key)
        return key

    def recount(self, key: str, address: str) -> str:
        """Let a connection count by another address, now that its client is known; returns its new
        key.

        :raises ConnectionRefused: that address has too many; the connection counts as before
        """
        new = self._proxies.limit_key(address)
        if new != key:
            self._check_address(new, address)
            self._uncount(key)
            self._count(new)
        return new

    def release(self, key: str) -> None:
        """A connection has ended."""
        self.open -= 1
        self._uncount(key)

    def refusal(self, limit: str, address: str) -> ConnectionRefused:
        """Report that a limit refuses a connection; returns the error to raise."""
        if self._on_refused is not None:
            self._on_refused(limit, address)
        if limit == "address_connections":
            return ConnectionRefused(429, TOO_MANY_OF_ADDRESS)
        return ConnectionRefused(503, TOO_MANY)

    def _check_address(self, key: str, address: str) -> None:
        limit = self._max_per_address
        if key and limit and self._by_address.get(key, 0) >= limit:
            raise self.refusal("address_connections", address)

    def _count(self, key: str) -> None:
        if key and self._max_per_address:
            self._by_address[key] = self._by_address.get(key, 0) + 1

    def _uncount(self, key: str) -> None:
        if key and self._max_per_address:
            left = self._by_address[key] - 1
            if left:
                self._by_address[key] = left
            else:
                del self._by_address[key]

    def _make_room(self) -> bool:
        """Close a connection, preferably of the server that has most of them."""
        servers: Iterable[HasIdleConnections] = sorted(
            self._servers, key=lambda server: server.connections, reverse=True
        )
        return any(server.close_idle() for server in servers)
