"""The options of keys, delivery, limits and timers. Times are seconds, sizes are bytes.

Rule: a key is declared secret, so that nothing shows it.
"""

from dataclasses import dataclass
from typing import Final

from .settings_kinds import (
    choice,
    fernet_keys,
    integer,
    positive_seconds,
    seconds,
    secret_texts,
    text_value,
)
from .settings_table import ENDPOINTS, EVERYONE, NODES, IniFile, option

KEYS: Final = "Keys"
DELIVERY: Final = "Delivery"
LIMITS: Final = "Limits"
TIMERS: Final = "Timers"


@dataclass(frozen=True, kw_only=True)
class DeliveryOptions:
    """Keys, delivery, limits and timers."""

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
        commands=ENDPOINTS,
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
        commands=EVERYONE,
    )

    direct_delivery: str = option(
        "",
        choice("store-first", "bypass"),
        DELIVERY,
        "store-first commits every message before it is answered; "
        "bypass hands messages for connected user agents on without storing them",
        default_text="store-first on the embedded store, bypass on DynamoDB",
        commands=ENDPOINTS,
    )
    max_data: int = option(
        4096,
        integer(1, 65536, "BYTES"),
        DELIVERY,
        "largest message body in bytes",
        bare_env=("MAX_DATA",),
        commands=ENDPOINTS,
    )
    max_notification_ttl: int = option(
        2_592_000,
        integer(1, metavar="SECONDS"),
        DELIVERY,
        "longest time in seconds a message is kept; a longer TTL is cut to it",
        file=IniFile.ENDPOINT,
        commands=ENDPOINTS,
    )
    msg_limit: int = option(
        100,
        integer(1),
        DELIVERY,
        "stored messages a user agent may fetch without acknowledging any before it is reset",
        bare_env=("MSG_LIMIT",),
        commands=NODES,
    )
    max_unacked: int = option(
        128,
        integer(1),
        DELIVERY,
        "notifications a user agent may leave unacknowledged before further ones are stored; "
        "1 is the strictest",
        file=IniFile.CONNECTION,
        commands=NODES,
    )

    max_connections: int = option(
        0,
        integer(0),
        LIMITS,
        "user agents connected to one worker at once; 0 sets no limit",
        bare_env=("MAX_CONNECTIONS",),
        file=IniFile.CONNECTION,
        commands=NODES,
    )
    max_requests: int = option(
        10_000,
        integer(1),
        LIMITS,
        "HTTP requests in progress in one worker before further ones are answered 503",
        file=IniFile.ENDPOINT,
        commands=ENDPOINTS,
    )

    hello_timeout: float = option(
        30.0,
        seconds,
        TIMERS,
        "time a new connection has for its hello; 0 waits for ever",
        bare_env=("HELLO_TIMEOUT",),
        file=IniFile.CONNECTION,
        commands=NODES,
    )
    auto_ping_interval: float = option(
        0.0,
        seconds,
        TIMERS,
        "time between the WebSocket pings the server sends; 0 sends none",
        bare_env=("AUTO_PING_INTERVAL",),
        file=IniFile.CONNECTION,
        commands=NODES,
    )
    auto_ping_timeout: float = option(
        4.0,
        positive_seconds,
        TIMERS,
        "time a user agent has to answer a ping before its connection is dropped",
        bare_env=("AUTO_PING_TIMEOUT",),
        file=IniFile.CONNECTION,
        commands=NODES,
    )
    close_handshake_timeout: float = option(
        10.0,
        seconds,
        TIMERS,
        "time a user agent has to answer a close frame before its connection is dropped; "
        "0 does not wait",
        bare_env=("CLOSE_HANDSHAKE_TIMEOUT",),
        file=IniFile.CONNECTION,
        commands=NODES,
    )
    connection_timeout: float = option(
        1.0,
        positive_seconds,
        TIMERS,
        "time to connect to another node",
        bare_env=("CONNECTION_TIMEOUT",),
    )
