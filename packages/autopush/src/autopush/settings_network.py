"""The options of addresses and URLs: where the service listens, and how the outside reaches it.

Rule: a URL that others compare with theirs is canonical: lower-case host, no default port, no
slash at the end.
"""

from dataclasses import dataclass
from socket import gethostname
from typing import Final

from .settings_kinds import (
    boolean,
    choice,
    host_name,
    in_url,
    integer,
    join_url,
    port_number,
    text_value,
    url,
)
from .settings_table import ENDPOINTS, NODES, IniFile, option

ADDRESSES: Final = "Addresses and processes"
PUBLIC: Final = "Public URLs"

WEBSOCKET_PORT: Final = 8080
ENDPOINT_PORT: Final = 8082
ONE_YEAR: Final = 31_536_000
ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::", "0:0:0:0:0:0:0:0"})  # noqa: S104


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """Addresses, processes and URLs."""

    command: str = "serve"
    """What was started: a name of a command."""

    host: str = option(
        "127.0.0.1",
        host_name,
        ADDRESSES,
        "address the ports listen on; 0.0.0.0 or :: for every interface",
    )
    port: int = option(
        WEBSOCKET_PORT,
        port_number,
        ADDRESSES,
        "public port: for the WebSockets of user agents, and with `autopush endpoint` for the HTTP "
        "requests of application servers; 0 takes any free port",
        default_text=f"{WEBSOCKET_PORT}, with `autopush endpoint` {ENDPOINT_PORT}",
        short="-p",
        file=IniFile.CONNECTION,
        daemon_env=("PORT",),
    )
    endpoint_port: int = option(
        ENDPOINT_PORT,
        port_number,
        ADDRESSES,
        "port in the endpoint URLs; with `autopush serve` also the HTTP port for application "
        "servers, where 0 takes any free port",
        default_text=f"{ENDPOINT_PORT}, with `autopush endpoint` its own port",
        short="-e",
        bare_env=("ENDPOINT_PORT",),
    )
    router_port: int = option(
        8081,
        port_number,
        ADDRESSES,
        "internal port between nodes, never to be made public; 0 takes any free port",
        short="-r",
        bare_env=("ROUTER_PORT",),
        file=IniFile.CONNECTION,
        commands=NODES,
    )
    router_hostname: str = option(
        "",
        host_name,
        ADDRESSES,
        "name under which other nodes reach the internal port",
        default_text="the host, or the machine's name when it listens on every interface",
        bare_env=("ROUTER_HOSTNAME",),
        file=IniFile.CONNECTION,
        commands=NODES,
    )
    workers: int = option(1, integer(1, 1024), ADDRESSES, "processes that share the public ports")
    env: str = option(
        "development",
        text_value,
        ADDRESSES,
        "name of the environment, told to user agents in the hello reply",
        commands=NODES,
    )

    endpoint_scheme: str = option(
        "http",
        choice("http", "https"),
        PUBLIC,
        "scheme of the endpoint URLs",
        bare_env=("ENDPOINT_SCHEME",),
    )
    endpoint_hostname: str = option(
        "",
        host_name,
        PUBLIC,
        "host name in the endpoint URLs",
        default_text="the host, or the machine's name when it listens on every interface",
        bare_env=("ENDPOINT_HOSTNAME",),
    )
    endpoint_url: str = option(
        "",
        url("http", "https"),
        PUBLIC,
        "start of the endpoint URLs as the outside sees it, for use behind a proxy; "
        "overrides scheme, host and port",
        default_text="made from endpoint_scheme, endpoint_hostname and endpoint_port",
    )
    websocket_url: str = option(
        "",
        url("ws", "wss"),
        PUBLIC,
        "WebSocket URL as the outside sees it, for use behind a proxy; shown on the start page",
        default_text=f"made from host and port; with `autopush endpoint` from {WEBSOCKET_PORT}",
    )
    no_cors: bool = option(
        False,
        boolean,
        PUBLIC,
        "do not let web pages of other origins call the endpoints",
        bare_env=("NO_CORS", "ALLOW_CORS"),
        file=IniFile.ENDPOINT,
        commands=ENDPOINTS,
    )
    sts_max_age: int | None = option(
        None,
        integer(0),
        PUBLIC,
        "max-age of the Strict-Transport-Security header in seconds; 0 sends none",
        default_text=f"{ONE_YEAR} when the endpoint URLs are https, else 0",
        bare_env=("STS_MAX_AGE",),
        commands=ENDPOINTS,
    )

    @property
    def has_sockets(self) -> bool:
        """Whether user agents connect to this process."""
        return self.command in NODES

    @property
    def has_endpoint(self) -> bool:
        """Whether application servers send to this process."""
        return self.command in ENDPOINTS

    @property
    def public_endpoint_url(self) -> str:
        """Start of every endpoint URL: canonical, no slash at the end."""
        if self.endpoint_url:
            return self.endpoint_url
        host = self.endpoint_hostname or self.reachable_host
        return join_url(self.endpoint_scheme, host, self.endpoint_port)

    @property
    def public_websocket_url(self) -> str:
        """Where user agents connect: canonical, always with a path."""
        port = self.port if self.has_sockets else WEBSOCKET_PORT
        address = self.websocket_url or join_url("ws", self.reachable_host, port)
        return address if address.count("/") > 2 else address + "/"

    @property
    def node_host(self) -> str:
        """The host part of this node's internal URL."""
        return in_url(self.router_hostname or self.reachable_host)

    def node_url(self, port: int) -> str:
        """The internal URL of the worker with that router port, which it always names."""
        return f"http://{self.node_host}:{port}"

    @property
    def reachable_host(self) -> str:
        """The host, or the machine's name when it listens on every interface."""
        return gethostname() if self.host in ANY_ADDRESS else self.host

    @property
    def hsts_max_age(self) -> int:
        """`sts_max_age` with its default worked out; 0 sends no header."""
        if self.sts_max_age is not None:
            return self.sts_max_age
        return ONE_YEAR if self.public_endpoint_url.startswith("https:") else 0
