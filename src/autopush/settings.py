"""The settings of the service: the table of options, which is also the typed value all read.

Rule: an option exists here once; nothing else spells a default or reads the environment.
`autopush.settings_sources.load` fills it from files, environment and flags.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from socket import gethostname
from typing import Final, Literal, Self, cast

from .settings_table import (
    IniFile,
    Option,
    boolean,
    choice,
    computed_option,
    fernet_keys,
    folder,
    host_name,
    integer,
    join_url,
    option,
    port_number,
    positive_seconds,
    seconds,
    secret_texts,
    table_name,
    text_value,
    url,
)

ADDRESSES: Final = "Addresses and processes"
PUBLIC: Final = "Public URLs"
KEYS: Final = "Keys"
DELIVERY: Final = "Delivery"
LIMITS: Final = "Limits"
TIMERS: Final = "Timers"
STORAGE: Final = "Storage"
LOGS: Final = "Logs"

DirectDelivery = Literal["store-first", "bypass"]
ONE_YEAR: Final = 31_536_000
ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::", "0:0:0:0:0:0:0:0"})  # noqa: S104


class StartupError(Exception):
    """The service cannot start; the text is one line for the operator and holds no secret."""


def default_data_folder(environ: Mapping[str, str] | None = None) -> Path:
    """`$XDG_DATA_HOME/autopush`, or `~/.local/share/autopush`.

    Raises:
        StartupError: there is no home folder to be found.
    """
    # The XDG base directory specification says to ignore a relative path.
    base = Path((os.environ if environ is None else environ).get("XDG_DATA_HOME", ""))
    if base.is_absolute():
        return base / "autopush"
    try:
        return Path.home() / ".local" / "share" / "autopush"
    except RuntimeError:
        raise StartupError("no home folder to keep data in; name a folder with --data") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the service was told. Times are seconds, sizes are bytes."""

    host: str = option(
        "127.0.0.1",
        host_name,
        ADDRESSES,
        "address the ports listen on; 0.0.0.0 or :: for every interface",
    )
    port: int = option(
        8080,
        port_number,
        ADDRESSES,
        "WebSocket port for user agents; 0 takes any free port",
        short="-p",
        file=IniFile.CONNECTION,
    )
    endpoint_port: int = option(
        8082,
        port_number,
        ADDRESSES,
        "HTTP port for application servers; 0 takes any free port",
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
    )
    router_hostname: str = option(
        "",
        host_name,
        ADDRESSES,
        "name under which other nodes reach the internal port",
        default_text="the host, or the machine's name when it listens on every interface",
        bare_env=("ROUTER_HOSTNAME",),
        file=IniFile.CONNECTION,
    )
    workers: int = option(1, integer(1, 1024), ADDRESSES, "processes that share the public ports")
    env: str = option(
        "development",
        text_value,
        ADDRESSES,
        "name of the environment, told to user agents in the hello reply",
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
        default_text="made from host and port",
    )
    no_cors: bool = option(
        False,
        boolean,
        PUBLIC,
        "do not let web pages of other origins call the endpoints",
        bare_env=("NO_CORS", "ALLOW_CORS"),
        file=IniFile.ENDPOINT,
    )
    sts_max_age: int | None = option(
        None,
        integer(0),
        PUBLIC,
        "max-age of the Strict-Transport-Security header in seconds; 0 sends none",
        default_text=f"{ONE_YEAR} when the endpoint URLs are https, else 0",
        bare_env=("STS_MAX_AGE",),
    )

    crypto_key: tuple[str, ...] = option(
        (),
        fernet_keys,
        KEYS,
        "key that seals endpoint URLs and message ids; may be given several times, newest first",
        default_text="made at the first start and kept in the data folder",
        bare_env=("CRYPTO_KEY",),
        secret=True,
    )
    auth_key: tuple[str, ...] = option(
        (),
        secret_texts,
        KEYS,
        "key that signs the secrets of the registration API; "
        "may be given several times, newest first",
        default_text="made at the first start and kept in the data folder",
        bare_env=("AUTH_KEY",),
        secret=True,
        file=IniFile.ENDPOINT,
    )
    key_hash: str = option(
        "",
        text_value,
        KEYS,
        "key that hashes UAIDs before they are stored and logged; "
        "changing it makes all records unreadable",
        default_text="UAIDs are stored as they are",
        bare_env=("KEY_HASH",),
        secret=True,
    )

    direct_delivery: DirectDelivery = option(  # noqa: RUF009
        "store-first",
        choice("store-first", "bypass"),
        DELIVERY,
        "store-first commits every message before it is answered; "
        "bypass hands messages for connected user agents on without storing them",
    )
    max_data: int = option(
        4096,
        integer(1, 65536, "BYTES"),
        DELIVERY,
        "largest message body in bytes",
        bare_env=("MAX_DATA",),
    )
    max_notification_ttl: int = option(
        2_592_000,
        integer(1, metavar="SECONDS"),
        DELIVERY,
        "longest time in seconds a message is kept; a longer TTL is cut to it",
        file=IniFile.ENDPOINT,
    )
    msg_limit: int = option(
        100,
        integer(1),
        DELIVERY,
        "stored messages a user agent may fetch without acknowledging any before it is reset",
        bare_env=("MSG_LIMIT",),
    )
    max_unacked: int = option(
        128,
        integer(1),
        DELIVERY,
        "notifications a user agent may leave unacknowledged before further ones are stored; "
        "1 is the strictest",
        file=IniFile.CONNECTION,
    )

    max_connections: int = option(
        0,
        integer(0),
        LIMITS,
        "user agents connected to one worker at once; 0 sets no limit",
        bare_env=("MAX_CONNECTIONS",),
        file=IniFile.CONNECTION,
    )
    max_requests: int = option(
        10_000,
        integer(1),
        LIMITS,
        "HTTP requests in progress in one worker before further ones are answered 503",
        file=IniFile.ENDPOINT,
    )

    hello_timeout: float = option(
        30.0,
        seconds,
        TIMERS,
        "time a new connection has for its hello; 0 waits for ever",
        bare_env=("HELLO_TIMEOUT",),
        file=IniFile.CONNECTION,
    )
    auto_ping_interval: float = option(
        0.0,
        seconds,
        TIMERS,
        "time between the WebSocket pings the server sends; 0 sends none",
        bare_env=("AUTO_PING_INTERVAL",),
        file=IniFile.CONNECTION,
    )
    auto_ping_timeout: float = option(
        4.0,
        positive_seconds,
        TIMERS,
        "time a user agent has to answer a ping before its connection is dropped",
        bare_env=("AUTO_PING_TIMEOUT",),
        file=IniFile.CONNECTION,
    )
    close_handshake_timeout: float = option(
        10.0,
        seconds,
        TIMERS,
        "time a user agent has to answer a close frame before its connection is dropped; "
        "0 does not wait",
        bare_env=("CLOSE_HANDSHAKE_TIMEOUT",),
        file=IniFile.CONNECTION,
    )
    connection_timeout: float = option(
        1.0,
        positive_seconds,
        TIMERS,
        "time to connect to another node",
        bare_env=("CONNECTION_TIMEOUT",),
    )

    data: Path = computed_option(  # noqa: RUF009
        default_data_folder,
        folder,
        STORAGE,
        "folder of the embedded store and of the keys made at the first start",
        default_text="$XDG_DATA_HOME/autopush, or ~/.local/share/autopush",
    )
    router_tablename: str = option(
        "router", table_name, STORAGE, "table of the user agents", bare_env=("ROUTER_TABLENAME",)
    )
    message_tablename: str = option(
        "message",
        table_name,
        STORAGE,
        "how the names of the message tables begin",
        bare_env=("MESSAGE_TABLENAME",),
    )

    log_level: str = option(
        "",
        choice("debug", "info", "warning", "error", "critical"),
        LOGS,
        "lowest level that is logged",
        default_text="info, or debug with the option debug",
        bare_env=("LOG_LEVEL",),
    )
    log_output: str = option(
        "stdout",
        text_value,
        LOGS,
        "stdout, stderr, none, or the name of a file to append to",
        bare_env=("LOG_OUTPUT",),
    )
    human_logs: bool | None = option(
        None,
        boolean,
        LOGS,
        "log text for people instead of JSON lines",
        default_text="on when the output is a terminal",
        bare_env=("HUMAN_LOGS",),
    )
    debug: bool = option(False, boolean, LOGS, "log everything, unless log_level says otherwise")

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
        address = self.websocket_url or join_url("ws", self.reachable_host, self.port)
        return address if address.count("/") > 2 else address + "/"

    @property
    def node_host(self) -> str:
        """The host part of this node's internal URL."""
        return self.router_hostname or self.reachable_host

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

    @property
    def effective_log_level(self) -> str:
        return self.log_level or ("debug" if self.debug else "info")

    def with_ports(self, *, port: int, endpoint_port: int, router_port: int) -> Self:
        """The same settings with the ports that were really bound, for when some were 0."""
        return replace(self, port=port, endpoint_port=endpoint_port, router_port=router_port)


def _declared() -> tuple[Option, ...]:
    rows = []
    for declared in fields(Settings):
        row = cast(Option, declared.metadata["option"])
        rows.append(replace(row, name=declared.name))
    return tuple(rows)


OPTIONS: Final = _declared()
"""The table, in the order in which help and reference show it."""
