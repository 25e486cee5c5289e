"""The servers of a database: their addresses, and which of them gets the next request.

DynamoDB and most servers of its protocol have one address. The nodes of a ScyllaDB cluster
(Alternator) have one each: requests go to them in rotation.

Rule: a host that fails is skipped until it answers again, but never all of them.
"""

import contextlib
import ipaddress
import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from keytables.dynamodb.pool import ConnectionPool
from keytables.dynamodb.signing import Credentials, Signer
from keytables.engine import Clock
from keytables.retries import CircuitBreaker

__all__ = ["Endpoint", "Host", "HostRotation", "parse_endpoint", "parse_endpoints"]

RETRY_INTERVAL: Final = 5.0
"""Seconds between two attempts at a host that fails."""

DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_HOST: Final = re.compile(r"[a-z0-9._:-]+")


class Endpoint(msgspec.Struct, frozen=True):
    """The address of a server."""

    host: str
    port: int
    tls: bool

    @property
    def authority(self) -> str:
        """The value of the Host header: without the port if that is the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = DEFAULT_PORTS["https" if self.tls else "http"]
        return host if self.port == default else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine, by its name."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")


def parse_endpoints(urls: str) -> list[Endpoint]:
    """Read one URL, or those of several hosts, separated by commas. Raises ValueError."""
    return list(dict.fromkeys(map(parse_endpoint, urls.split(","))))


def parse_endpoint(url: str) -> Endpoint:
    """Read ``http://HOST:PORT`` or ``https://HOST:PORT``. Raises ValueError for anything else."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        port = DEFAULT_PORTS.get(parts.scheme, 0)
        if parts.port is not None and port:
            port = parts.port
        host = parts.hostname or ""
        bare = not (parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc)
        if port and bare and _HOST.fullmatch(host):
            return Endpoint(host, port, parts.scheme == "https")
    shown = "one with a user or password" if "@" in url else repr(url)
    raise ValueError(f"an endpoint is written http://HOST:PORT or https://HOST:PORT, not {shown}")


class Host:
    """One server: its connections, and the signer of the requests to it. ``now``: loop time."""

    __slots__ = ("circuit", "endpoint", "pool", "region", "signer")

    def __init__(
        self,
        endpoint: Endpoint,
        pool: ConnectionPool,
        *,
        region: str,
        credentials: Credentials,
        now: Clock,
    ) -> None:
        self.endpoint, self.pool, self.region = endpoint, pool, region
        self.circuit = CircuitBreaker(open_for=RETRY_INTERVAL, now=now)
        self.sign_with(credentials)

    def sign_with(self, credentials: Credentials, *, skew: float = 0.0) -> None:
        """Sign requests from now on with these credentials, by a clock that is ahead of ours."""
        self.signer = Signer(
            credentials, region=self.region, authority=self.endpoint.authority, skew=skew
        )


class HostRotation:
    """The hosts of one database, in rotation."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts
        self._position = 0

    def next(self) -> Host:
        """Return the host for the next attempt: any of them where all fail."""
        hosts = self.hosts
        if len(hosts) == 1:
            return hosts[0]
        for _ in hosts:
            host = self._advance()
            if not host.circuit.begin_call():
                return host
        return self._advance()

    def close(self) -> None:
        """Close all connections."""
        for host in self.hosts:
            host.pool.close()

    def _advance(self) -> Host:
        self._position = (self._position + 1) % len(self.hosts)
        return self.hosts[self._position]
