# ruff: noqa: RUF009 - a group's `option` is `dataclasses.field` with its own metadata
"""The table of options, which is also the typed settings object.

An option is one field of `Settings`: its annotation is its type, its group's `option` says the
rest. Files, environment variables, flags, `--help`, the sample files and the page of the
documentation follow from it. Times are seconds, sizes are bytes. Defaults that depend on other
options are computed here.
"""

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, Self
from urllib.parse import quote, urlsplit

from autopush.hosts import join_url, url_host
from autopush.settings.addresses import (
    ALL_INTERFACES,
    LOOPBACK,
    ipv4_address,
    is_loopback,
    literal_loopback,
    own_address,
)
from autopush.settings.declaration import (
    ALL_COMMANDS,
    DAEMONS,
    ENDPOINTS,
    NODES,
    SHELL_TOOLS,
    Group,
    IniFile,
    Source,
    declared_options,
)
from autopush.settings.value_types import (
    NO_NETWORK,
    UNIX,
    DomainNames,
    FernetKeys,
    Fingerprints,
    HeaderText,
    HostName,
    HttpUrl,
    ListenHost,
    Networks,
    Objects,
    OptionalPort,
    OptionalRate,
    OptionalSeconds,
    Port,
    PositiveSeconds,
    Rate,
    Seconds,
    SecretTexts,
    Senders,
    SentryDsn,
    StoreUrl,
    TableName,
    base64_text,
    choice,
    email_address,
    url,
    whole_number,
    without_password,
)

ADDRESSES: Final = Group("Addresses and processes")
PUBLIC: Final = Group("Public URLs")
TLS: Final = Group("TLS")
KEYS: Final = Group("Keys")
DELIVERY: Final = Group("Delivery")
LIMITS: Final = Group("Limits", reloads=True)
SIMPLEPUSH: Final = Group("SimplePush")
BRIDGES: Final = Group("Bridges", (*ENDPOINTS, "diagnose"), reloads=True)
TIMERS: Final = Group("Timers", NODES)
BROADCASTS: Final = Group("Broadcasts", NODES, reloads=True)
STORAGE: Final = Group("Storage", ALL_COMMANDS)
METRICS: Final = Group("Metrics")
LOGS: Final = Group("Logs", (*ALL_COMMANDS, *SHELL_TOOLS))

PUBLIC_PORT: Final = 8080
ENDPOINT_PORT: Final = 8082
CONSOLE_PORT: Final = 8083
HTTPS_PORT: Final = 443
HTTP_PORT: Final = 80
LETS_ENCRYPT: Final = "https://acme-v02.api.letsencrypt.org/directory"
ONE_YEAR: Final = 31_536_000
BROADCAST_INTERVAL: Final = 300.0
"""Default of `auto_ping_interval` with broadcasts."""
STORE_FILE: Final = "autopush.sqlite"
DEFAULT_UNITS: Final = 5
"""Read or write units of a provisioned table without an option for them."""
NO_FOLDER: Final = Path("/nonexistent")
"""The data folder if none is given and there is no home folder."""

_REACHABLE: Final = "the hostname"
_KEPT: Final = "created at the first start and kept in the data folder"
LOOPBACK_NETWORKS: Final = ("127.0.0.0/8", "::1/128")

_ABOUT_AN_OPTION: Final = re.compile(r"([a-z_]+)(?=: | needs )")
_OPTIONAL_LISTENERS: Final = {
    "proxied": "proxy_protocol_port",
    "metrics": "metrics_port",
    "memory": "memusage_port",
}
"""Purpose → the option without whose value nothing listens."""

Units = Annotated[int | None, whole_number(1, 1_000_000, "UNITS")]
Count = Annotated[int, whole_number(0)]
PositiveCount = Annotated[int, whole_number(1)]
ByteCount = Annotated[int, whole_number(0, metavar="BYTES")]
MessageTtl = Annotated[int, whole_number(1, metavar="SECONDS")]
BridgeTtl = Annotated[int, whole_number(0, 2_419_200, "SECONDS")]
Delivery = Annotated[str, choice("store-first", "bypass")]
HttpScheme = Annotated[str, choice("http", "https")]
LogLevel = Annotated[str, choice("debug", "info", "warning", "error", "critical")]


def default_data_folder(environ: Mapping[str, str]) -> Path:
    """`$XDG_DATA_HOME/autopush`, or `~/.local/share/autopush`; else `NO_FOLDER`."""
    # The XDG base directory specification says to ignore a relative path.
    base = Path(environ.get("XDG_DATA_HOME", ""))
    if base.is_absolute():
        return base / "autopush"
    try:
        return Path.home() / ".local" / "share" / "autopush"
    except RuntimeError:
        return NO_FOLDER


def _throughput(table: str, way: str) -> int | None:
    return STORAGE.option(
        None,
        f"{way} units of a {table} table that is created with provisioned capacity",
        default_text=f"{DEFAULT_UNITS}",
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    command: str = "serve"
    sources: Mapping[str, Source] = field(default_factory=dict, repr=False, compare=False)
    """The strongest place of each given option; for a list its first line."""

    host: ListenHost = ADDRESSES.option(
        LOOPBACK,
        "address the ports listen on; 0.0.0.0 for every interface, :: for every interface with "
        "IPv6 too; unix:/PATH for a socket in place of the public port, behind a proxy on this "
        "machine",
        default_text=f"{LOOPBACK}; with `autopush connection` and `autopush endpoint` every "
        "interface, if an ini file of the original is read",
    )
    hostname: HostName = ADDRESSES.option(
        "",
        "name of this machine in the URLs that are made from its address; the default of "
        "endpoint_hostname and router_hostname",
        default_text="the host, or the machine's name when it listens on every interface",
        effective=lambda settings: settings.reachable_host,
    )
    resolve_hostname: bool = ADDRESSES.option(
        False, "announce the IPv4 address of the hostname in its place"
    )
    port: Port = ADDRESSES.option(
        PUBLIC_PORT,
        "public port: for the WebSockets of user agents, and for the HTTP requests of application "
        "servers; 0 takes any free port",
        default_text=f"{PUBLIC_PORT}, with `autopush endpoint` {ENDPOINT_PORT}",
        file=IniFile.CONNECTION,
        short="-p",
        daemon_env="PORT",
    )
    endpoint_port: OptionalPort = ADDRESSES.option(
        None,
        "port in the endpoint URLs; with `autopush serve` a second public port, for the requests "
        "of application servers alone, where 0 takes any free port",
        default_text=f"the public port; with `autopush connection` {ENDPOINT_PORT}",
        effective=lambda settings: settings.port_of_endpoints,
        short="-e",
    )
    router_port: Port = ADDRESSES.of(*NODES).option(
        8081,
        "internal port between nodes, which must not be public; 0 takes any free port",
        short="-r",
    )
    worker_router_port: Port = ADDRESSES.of(*NODES).option(
        0,
        "internal port of the second worker; each further worker has the port after that of the "
        "one before it",
        default_text="any free port for each",
    )
    router_host: HostName = ADDRESSES.of(*NODES).option(
        "",
        "address the internal port listens on, where host is to be another one",
        default_text="the host; where that is every interface, the address of router_hostname, and "
        f"{LOOPBACK} with `autopush serve` on the embedded store",
        effective=lambda settings: settings.router_address,
    )
    router_hostname: HostName = ADDRESSES.of(*NODES).option(
        "",
        "name under which other nodes reach the internal port",
        default_text="router_host if given, else the hostname",
        effective=lambda settings: settings.node_name,
    )
    router_scheme: HttpScheme = ADDRESSES.of(*NODES).option(
        "",
        "scheme under which other nodes reach the internal port",
        default_text="https with router_ssl_key, else http",
        effective=lambda settings: settings.node_scheme,
    )
    proxy_protocol_port: OptionalPort = ADDRESSES.of(*ENDPOINTS).option(
        None,
        "another port of the endpoint, for a load balancer that speaks the PROXY protocol: it says "
        "before each connection who the client is; only the load balancer may reach it",
    )
    trusted_proxies: Networks = ADDRESSES.option(
        (),
        "reverse proxies whose X-Forwarded-For says who the client is; may be given several times",
        default_text=", ".join(LOOPBACK_NETWORKS) + ": a proxy on the same machine",
        effective=lambda settings: settings.trusted_networks,
        reloads=True,
    )
    metrics_port: OptionalPort = ADDRESSES.option(
        None,
        "port for /metrics and the status pages, which must not be public; nodes answer them on "
        "the internal port too",
    )
    memusage_port: OptionalPort = ADDRESSES.option(
        None, "port, of this machine only, for /_memusage: what the memory is used for"
    )
    console: bool = ADDRESSES.of(*DAEMONS).option(
        False,
        "pages for operators at /console of the internal port or of console_port; `autopush "
        "console-token` makes the token to log in with",
    )
    console_port: OptionalPort = ADDRESSES.of(*DAEMONS).option(
        None,
        "port for the console alone, in place of the internal port; 0 takes any free port",
        default_text=f"the internal port; {CONSOLE_PORT} with console_host, console_ssl_key or "
        "`autopush endpoint`",
    )
    console_host: HostName = ADDRESSES.of(*DAEMONS).option(
        "",
        "address the console_port listens on; where others reach it, give it a certificate too",
        default_text=LOOPBACK,
        effective=lambda settings: settings.console_address,
    )
    workers: Annotated[int, whole_number(1, 1024)] = ADDRESSES.option(
        1, "processes that share the public ports"
    )
    watchdog_timeout: Seconds = ADDRESSES.option(
        10.0,
        "time without a sign of life after which one of several workers is killed and started "
        "again; 0 kills none",
    )
    upgrade_drain: Seconds = ADDRESSES.option(
        60.0,
        "time over which an upgrade spreads the closing of the WebSockets that cannot be handed "
        "over to the next version",
    )
    env: str = ADDRESSES.of(*NODES).option(
        "development", "name of the environment, sent to user agents in the hello reply"
    )

    endpoint_scheme: HttpScheme = PUBLIC.option(
        "",
        "scheme of the endpoint URLs",
        default_text="https with domain or ssl_key, else http",
        effective=lambda settings: settings.public_scheme,
    )
    endpoint_hostname: HostName = PUBLIC.option(
        "",
        "host name in the endpoint URLs",
        default_text=f"the first domain, else {_REACHABLE}",
        effective=lambda settings: settings.endpoint_hostname or settings.public_host,
    )
    endpoint_url: HttpUrl = PUBLIC.option(
        "",
        "start of the endpoint URLs as the outside sees it, for use behind a proxy; "
        "overrides scheme, host and port",
        default_text="follows from endpoint_scheme, endpoint_hostname and endpoint_port",
        effective=lambda settings: settings.public_endpoint_url,
    )
    websocket_url: Annotated[str, url("ws", "wss")] = PUBLIC.option(
        "",
        "WebSocket URL as the outside sees it, for use behind a proxy; shown on the start page",
        default_text="that of the endpoint URLs; with two public ports it follows from ssl_key, "
        f"host and port, which with `autopush endpoint` is {PUBLIC_PORT}",
        effective=lambda settings: settings.public_websocket_url,
    )
    errors_url: HttpUrl = PUBLIC.option(
        "",
        "page that explains errors, to which more_info of every refusal leads; fragments such as "
        "#errno-102 are added",
        default_text="/errors of the endpoint",
        effective=lambda settings: settings.errors_page,
    )
    no_cors: bool = PUBLIC.of(*ENDPOINTS).option(
        False, "do not let web pages of other origins call the endpoints"
    )
    sts_max_age: Annotated[int | None, whole_number(0)] = PUBLIC.of(*ENDPOINTS).option(
        None,
        "max-age of the Strict-Transport-Security header in seconds; 0 sends none",
        default_text=f"{ONE_YEAR} when the endpoint URLs are https, else 0",
        effective=lambda settings: settings.hsts_max_age,
    )

    domain: DomainNames = TLS.of("serve").option(
        (),
        "name under which the service is reached, for which it gets and renews a certificate by "
        "ACME; may be given several times",
        default_text="none: the certificate is that of ssl_cert",
    )
    acme_email: Annotated[str, email_address()] = TLS.of("serve").option(
        "", "address for the account at the directory", default_text="none is given"
    )
    acme_directory: Annotated[str, url("https")] = TLS.of("serve").option(
        LETS_ENCRYPT,
        "URL of the directory that issues the certificate; its terms are agreed to",
    )
    acme_ca: str = TLS.of("serve").option(
        "",
        "PEM file with the CA of the directory's own certificate",
        default_text="the public CAs",
    )
    acme_eab_kid: HeaderText = TLS.of("serve").option(
        "", "key ID of an account at the directory that was made before (external account binding)"
    )
    acme_eab_key: Annotated[str, base64_text()] = TLS.of("serve").option(
        "", "MAC key that belongs to acme_eab_kid, in base64url", secret=True
    )
    http_port: OptionalPort = TLS.of("serve").option(
        None,
        "port that answers the directory, which asks port 80 of each domain, and redirects "
        "everything else to https",
        default_text="80 with domain",
    )
    ssl_key: str = TLS.option(
        "",
        "PEM file with the private key of ssl_cert; with both the public ports speak TLS",
        default_text="none: without domain the public ports do not speak TLS",
    )
    ssl_cert: str = TLS.option(
        "", "PEM file with the certificate of the public ports, and those that lead to its CA"
    )
    ssl_dh_param: str = TLS.option(
        "",
        "PEM file with Diffie-Hellman parameters, for TLS 1.2 with old clients",
        default_text="none: such clients use elliptic curves",
    )
    router_ssl_key: str = TLS.of(*NODES).option(
        "",
        "PEM file with the private key of router_ssl_cert; with both the internal port speaks TLS",
        default_text="none: the internal port does not speak TLS",
    )
    router_ssl_cert: str = TLS.of(*NODES).option(
        "", "PEM file with the certificate of the internal port"
    )
    router_ssl_ca: str = TLS.of(*DAEMONS, "diagnose").option(
        "",
        "PEM file with the CAs, or the very certificates, of nodes that are called over https",
        default_text="the CAs of the system",
    )
    console_ssl_key: str = TLS.option(
        "",
        "PEM file with the private key of console_ssl_cert; with both the console_port speaks TLS",
        default_text="none: the console_port does not speak TLS",
    )
    console_ssl_cert: str = TLS.option("", "PEM file with the certificate of the console_port")
    console_client_ca: str = TLS.option(
        "",
        "PEM file with the CA of operators: whoever has a certificate of it may act in the console "
        "without a token",
        default_text="none: everybody needs a token",
    )
    client_certs: Fingerprints = TLS.of(*ENDPOINTS).option(
        None,
        "clients that may use the endpoint, each with the SHA-256 fingerprints of its "
        'certificates: {"NAME": ["AA:BB:…"]}; needs ssl_key',
        default_text="everybody",
        reloads_if_set=True,
    )

    crypto_key: FernetKeys = KEYS.of(*DAEMONS, "diagnose", "keys").option(
        (),
        "key that encrypts endpoint URLs and message ids; may be given several times, newest first",
        default_text=_KEPT,
        secret=True,
    )
    auth_key: SecretTexts = KEYS.of(*ENDPOINTS).option(
        (),
        "key that signs the secrets of the registration API; "
        "may be given several times, newest first",
        default_text=_KEPT,
        secret=True,
    )
    key_hash: str = KEYS.of(*ALL_COMMANDS).option(
        "",
        "key that hashes UAIDs before they are stored and logged; "
        "changing it makes all records unreadable",
        default_text="UAIDs are stored as they are",
        secret=True,
    )

    direct_delivery: Delivery = DELIVERY.of(*ENDPOINTS).option(
        "",
        "store-first commits every message before it is answered; "
        "bypass passes messages to connected user agents without storing them",
        default_text="store-first, but bypass on DynamoDB",
        effective=lambda settings: "store-first" if settings.store_first else "bypass",
    )
    receipts: bool = DELIVERY.of(*ALL_COMMANDS).option(
        False,
        "give receipts to application servers that ask for them; such messages are always stored",
    )
    max_data: Annotated[int, whole_number(1, 65536, "BYTES")] = DELIVERY.of(*ENDPOINTS).option(
        4096, "largest message body in bytes"
    )
    max_notification_ttl: MessageTtl = DELIVERY.of(*ENDPOINTS).option(
        2_592_000,
        "longest time in seconds a message is kept; a longer TTL is lowered to it",
        reloads=True,
    )
    no_matrix_gateway: bool = DELIVERY.of(*ENDPOINTS).option(
        False,
        "do not push for Matrix homeservers; nor does a service that requires VAPID",
        reloads=True,
    )
    msg_limit: PositiveCount = DELIVERY.of(*NODES).option(
        100,
        "stored messages a user agent may fetch without acknowledging any before it is reset",
        reloads=True,
    )
    max_unacked: PositiveCount = DELIVERY.of(*NODES).option(
        128,
        "notifications a user agent may leave unacknowledged before further ones are stored; "
        "1 is the strictest",
        reloads=True,
    )
    unacked_timeout: PositiveSeconds = DELIVERY.of(*NODES).option(
        30.0,
        "seconds after which a stored message that is not acknowledged no longer holds back the "
        "next ones; it stays stored and is sent again after the next hello",
        reloads=True,
    )

    max_connections: Count = LIMITS.of(*NODES).option(
        0, "user agents connected to one worker at once; 0 sets no limit"
    )
    max_requests: PositiveCount = LIMITS.of(*ENDPOINTS).option(
        10_000, "HTTP requests in progress in one worker before further ones are answered 503"
    )
    max_tcp_connections: Count = LIMITS.option(
        0,
        "connections of clients to one worker at once, on all its public ports together; 0 takes "
        "what the limit on open files leaves",
    )
    max_connections_per_address: Count = LIMITS.option(
        2000,
        "connections of one address to one worker at once, of an IPv6 network of 64 bits; none of "
        "a trusted proxy; 0 sets no limit",
    )
    connection_rate: OptionalRate = LIMITS.of(*NODES).option(
        Rate(6000, "min"),
        "connections that one address opens to the WebSocket port of one worker, of an IPv6 "
        "network of 64 bits; none of a trusted proxy",
    )
    max_buffered_bytes: Annotated[int, whole_number(1_048_576, metavar="BYTES")] = LIMITS.option(
        67_108_864,
        "bytes of unfinished requests and WebSocket messages that one worker holds; beyond it the "
        "connections that send them are closed",
    )
    send_buffer: Annotated[int, whole_number(4096, 16_777_216, "BYTES")] = LIMITS.option(
        131_072,
        "bytes that the system keeps for a client that does not read",
        reloads=False,
    )
    new_user_agents_rate: OptionalRate = LIMITS.of(*DAEMONS).option(
        Rate(1000, "h"),
        "new user agents of one address, of an IPv6 network of 64 bits; none of a trusted proxy",
    )
    message_rate: OptionalRate = LIMITS.of(*NODES).option(
        Rate(6000, "min"),
        "messages of one user agent, without those that acknowledge what was sent to it; ten times "
        "as many for those of one address together",
    )
    registration_rate: OptionalRate = LIMITS.of(*DAEMONS).option(
        Rate(2000, "h"),
        "channels that one user agent registers and unregisters, and changes of the urgency it "
        "takes; ten times as many for those of one address together",
    )
    max_broadcasts: PositiveCount = LIMITS.of(*NODES).option(
        100, "broadcasts that one message of a user agent may name, and that it may subscribe to"
    )
    max_stored_messages: Count = LIMITS.of(*ENDPOINTS).option(
        10_000, "messages that are stored for one user agent at once; 0 sets no limit"
    )
    max_stored_bytes: ByteCount = LIMITS.of(*ENDPOINTS).option(
        16_777_216,
        "bytes of the messages that are stored for one user agent at once; 0 sets no limit",
    )
    endpoint_rate: OptionalRate = LIMITS.of(*ENDPOINTS).option(
        Rate(3000, "min"), "messages to one endpoint URL"
    )
    sender_rate: OptionalRate = LIMITS.of(*ENDPOINTS).option(
        None, "messages of one application server, as its VAPID key identifies it"
    )
    gone_rate: OptionalRate = LIMITS.of(*ENDPOINTS).option(
        Rate(100, "h"),
        "messages of one application server to endpoints that it was told do not exist; above it "
        "answers are delayed, above twice as many refused",
    )
    accounts_required: bool = LIMITS.option(
        False,
        "admit only user agents whose WebSocket URL ends with the token of a user "
        "(`autopush user add`)",
        reloads=False,
    )
    receipt_rate: OptionalRate = LIMITS.of(*ENDPOINTS).option(
        Rate(600, "min"),
        "messages with a receipt of one application server, as its VAPID key identifies it, or to "
        "one endpoint URL without one; further ones get none",
    )
    vapid_required: bool = LIMITS.of(*ENDPOINTS).option(
        False, "refuse messages without VAPID credentials, also to endpoints of version 1"
    )
    allowed_senders: Senders = LIMITS.of(*ENDPOINTS).option(
        (),
        "application servers that alone may send, each with its public VAPID key or the sub of its "
        "tokens; may be given several times",
        default_text="everybody",
    )
    log_check_rate: OptionalRate = LIMITS.option(
        Rate(10, "min"), "requests to each of the pages that log an error for a test"
    )

    hello_timeout: Seconds = TIMERS.option(
        30.0,
        "time a new connection has for its hello; 0 sets no limit",
        reloads=True,
    )
    auto_ping_interval: OptionalSeconds = TIMERS.option(
        None,
        "time between the WebSocket pings the server sends, which broadcasts are sent in place of; "
        "0 sends none",
        default_text="300 with megaphone_api_url, otherwise 0",
        effective=lambda settings: settings.ping_interval,
        reloads=True,
    )
    auto_ping_timeout: PositiveSeconds = TIMERS.option(
        4.0,
        "time a user agent has to answer a ping before its connection is dropped",
        reloads=True,
    )
    close_handshake_timeout: Seconds = TIMERS.option(
        10.0,
        "time a user agent has to answer a close frame before its connection is dropped; "
        "0 does not wait",
        reloads=True,
    )
    connection_timeout: PositiveSeconds = TIMERS.of(*DAEMONS, "diagnose").option(
        1.0, "time to connect to another node"
    )

    request_timeout: PositiveSeconds = TIMERS.of(*DAEMONS, "diagnose").option(
        3.0, "time in which another node has to answer"
    )
    record_check_interval: Seconds = TIMERS.option(
        300.0,
        "time in which a connection node checks the router record of each connected user agent: "
        "the longest time for which one can be without messages because another node took its node "
        "for gone; 0 never checks",
    )
    open_handshake_timeout: PositiveSeconds = TIMERS.of(*DAEMONS).option(
        10.0, "time for the TLS handshake, and then for the whole head of a request"
    )

    megaphone_api_url: HttpUrl = BROADCASTS.option(
        "",
        "URL of the broadcasts and their versions, as JSON; they are pushed to the user agents "
        "that subscribe to them",
        default_text="none: there are no broadcasts",
    )
    megaphone_api_token: HeaderText = BROADCASTS.option(
        "", "sent to that URL as the header Authorization", default_text="none is sent", secret=True
    )
    megaphone_poll_interval: PositiveSeconds = BROADCASTS.option(
        30.0, "time between two requests for the broadcasts"
    )

    disable_simplepush: bool = SIMPLEPUSH.of(*NODES).option(
        False,
        "refuse user agents that speak SimplePush, which do not say use_webpush in their hello",
    )
    wake_timeout: Seconds = SIMPLEPUSH.option(
        0.0,
        "time without a message after which a device is disconnected that sent where it can be "
        "woken; 0 sets no limit, and wakes none",
    )
    wake_pem: str = SIMPLEPUSH.of(*ENDPOINTS).option(
        "",
        "PEM file with the certificate and key for the server that wakes devices",
        default_text="none: no device is woken",
    )
    wake_server: HttpUrl = SIMPLEPUSH.of(*ENDPOINTS).option(
        "", "URL of the server that wakes devices"
    )

    apns_creds: Objects = BRIDGES.option(
        None,
        "credentials of Apple's push service: release channels, each with its certificate or key",
        secret=True,
        bridge="apns",
    )
    stub_router: bool = BRIDGES.option(
        False,
        "a bridge for tests, of the router type stub, that delivers to nobody: the device token "
        "says how each message ends",
        bridge="stub",
    )
    routers: Objects = BRIDGES.option(
        None,
        "routers of other distributions: their names, each with its configuration",
        secret=True,
    )
    fcm_creds: Objects = BRIDGES.option(
        None,
        "applications on Android: their ids, each with projectid and auth, the file of a service "
        "account or its JSON; puts the bridge to FCM into service",
        secret=True,
        bridge="fcm",
    )
    fcm_ttl: BridgeTtl = BRIDGES.option(
        60, "shortest time in seconds that FCM is to keep a message"
    )
    fcm_dryrun: bool = BRIDGES.option(False, "have FCM check messages without delivering them")
    fcm_version: Annotated[int, whole_number(0, 1, "1|0")] = BRIDGES.option(
        1, "API of FCM: 1 is HTTP v1; 0 is the legacy API, which Google has switched off"
    )
    fcm_priority: Annotated[str, choice("high", "normal")] = BRIDGES.option(
        "high",
        "priority on Android of messages whose Urgency is normal or absent; normal ones may wait "
        "until the device is used",
    )
    fcm_endpoint: HttpUrl = BRIDGES.option(
        "https://fcm.googleapis.com", "base URL of FCM, to be changed in tests only"
    )
    fcm_auth: str = BRIDGES.option(
        "",
        "server key of FCM's legacy API, which Google has shut down; with fcm_senderid it switches "
        "that API on",
        bridge="fcm",
        secret=True,
    )
    fcm_senderid: str = BRIDGES.option(
        "",
        "sender ID that fcm_auth belongs to, which is the app ID of its registrations",
        bridge="fcm",
    )
    fcm_collapsekey: str = BRIDGES.option(
        "",
        "collapse key of all messages to FCM's legacy API: of those that wait for a device, it "
        "gets only the last",
        default_text="none is sent",
    )
    senderid_list: Objects = BRIDGES.option(
        None,
        "sender IDs of GCM, which Google has shut down, each with its API key: "
        '{"ID": {"auth": "KEY"}}',
        default_text="none, GCM is off",
        bridge="gcm",
        secret=True,
    )
    gcm_endpoint: Annotated[str, url("http", "https", assumed="https")] = BRIDGES.option(
        "https://gcm-http.googleapis.com/gcm/send",
        "URL that messages for GCM are sent to; without a scheme it is https",
    )
    gcm_ttl: BridgeTtl = BRIDGES.option(
        60, "shortest time in seconds that GCM is to keep a message; a lower TTL is raised to it"
    )
    gcm_dryrun: bool = BRIDGES.option(
        False, "have GCM check messages, but not deliver them to devices"
    )
    gcm_collapsekey: str = BRIDGES.option(
        "",
        "collapse key of all messages to GCM: of those that wait for a device, it gets only the "
        "last",
        default_text="none is sent",
    )
    adm_creds: Objects = BRIDGES.option(
        None,
        "security profiles of Amazon Device Messaging: "
        '{"NAME": {"client_id": "ID", "client_secret": "SECRET"}}',
        default_text="none, ADM is off",
        bridge="adm",
        secret=True,
    )
    adm_endpoint: HttpUrl = BRIDGES.option(
        "https://api.amazon.com",
        "start of the URLs of Amazon: /auth/O2/token and /messaging/registrations follow",
    )

    data: Path = STORAGE.of(*ALL_COMMANDS, "keys", "audit", "console-token").option(
        NO_FOLDER,
        "folder of the embedded store and of the keys created at the first start",
        default_text="$XDG_DATA_HOME/autopush, or ~/.local/share/autopush",
    )
    store: StoreUrl = STORAGE.of(*ALL_COMMANDS, "keys").option(
        "",
        "where the tables are: sqlite:///PATH; dynamodb://REGION with ?endpoint=URL for another "
        "server than that of AWS and &prefix=TEXT for the names of the tables; or "
        "postgresql://USER@HOST/DATABASE?schema=NAME",
        default_text=f"the embedded store, {STORE_FILE} in the data folder",
        effective=lambda settings: without_password(settings.store_url),
    )
    min_free_space: ByteCount = STORAGE.of(*DAEMONS).option(
        67_108_864,
        "bytes that stay free on the disk of the embedded store: with less, new messages are "
        "refused, while everything else goes on; 0 refuses none",
    )
    store_check_timeout: Seconds = STORAGE.of(*DAEMONS).option(
        10.0,
        "time that the check of an embedded store may take which was not closed; 0 checks nothing",
    )
    maintenance: bool | None = STORAGE.of(*NODES).option(
        None,
        "let the service itself slowly delete data of user agents unseen for months, as "
        "`autopush maintain` does",
        default_text="on, but off on DynamoDB",
        effective=lambda settings: settings.maintains,
    )
    aws_ddb_endpoint: HttpUrl = STORAGE.of(*ALL_COMMANDS, "keys").option(
        "",
        "address of a local DynamoDB; without the option store it means a store there",
        default_text="that of the region",
    )
    no_aws: bool = STORAGE.of(*ALL_COMMANDS, "keys").option(
        False,
        "never ask the machine's metadata address (169.254.169.254), not even for credentials",
    )
    router_tablename: TableName = STORAGE.of(*ALL_COMMANDS, "keys").option(
        "router", "table of the user agents"
    )
    storage_tablename: TableName = STORAGE.option("storage", "table of SimplePush versions")
    message_tablename: TableName = STORAGE.option(
        "message", "first part of the names of the message tables"
    )
    receipt_tablename: TableName = STORAGE.option(
        "receipt", "table of receipts, which is created with the option `receipts`"
    )
    no_table_rotation: bool | None = STORAGE.option(
        None,
        "keep one message table, instead of creating one each month",
        default_text="on, but off on DynamoDB",
        effective=lambda settings: not settings.rotates,
    )
    capacity: Annotated[str, choice("on-demand", "provisioned")] = STORAGE.option(
        "",
        "how DynamoDB is to bill a table that is created: by request, or by provisioned units",
        default_text="on-demand, or provisioned when a throughput is given",
    )
    router_read_throughput: Units = _throughput("router", "read")
    router_write_throughput: Units = _throughput("router", "write")
    storage_read_throughput: Units = _throughput("storage", "read")
    storage_write_throughput: Units = _throughput("storage", "write")
    message_read_throughput: Units = _throughput("message", "read")
    message_write_throughput: Units = _throughput("message", "write")

    log_level: LogLevel = LOGS.option(
        "",
        "lowest level that is logged",
        default_text="info, or debug with the option debug",
        effective=lambda settings: settings.effective_log_level,
        reloads=True,
    )
    log_output: str = LOGS.option(
        "stdout", "stdout, stderr, none, or the name of a file to append to"
    )
    human_logs: bool | None = LOGS.option(
        None,
        "log text for people instead of JSON lines",
        default_text="on when the output is a terminal",
    )
    debug: bool = LOGS.option(
        False,
        "log everything, unless log_level says otherwise",
        daemon_env="DEBUG",
        reloads=True,
    )
    log_queue: Annotated[int, whole_number(1, 10_000_000)] = LOGS.option(
        20_000, "log lines that may wait for a slow output before further ones are dropped"
    )
    ami_id: str = LOGS.option("", "image of this machine, for the log lines of requests")
    sentry_dsn: SentryDsn = LOGS.of(*DAEMONS).option(
        "",
        "project of Sentry that errors with a traceback are sent to",
        default_text="none: nothing is sent",
        secret=True,
    )
    firehose_stream_name: str = LOGS.of(*DAEMONS).option(
        "",
        "delivery stream of Amazon Data Firehose that log lines are sent to as well",
        default_text="none: nothing is sent",
    )

    statsd_host: HostName = METRICS.option(
        "",
        "host of a statsd server that metrics are sent to; `none` sends nothing",
        default_text="none; localhost with `autopush connection` and `autopush endpoint`",
        effective=lambda settings: settings.statsd_server or "none",
    )
    statsd_port: Annotated[int, whole_number(1, 65535, "PORT")] = METRICS.option(
        8125, "UDP port of the statsd server"
    )
    datadog_api_key: str = METRICS.option(
        "",
        "API key of Datadog, which metrics are then sent to in place of statsd",
        default_text="none: nothing is sent",
        secret=True,
    )
    datadog_app_key: str = METRICS.option(
        "", "application key of Datadog, which sending does not need", secret=True
    )
    datadog_url: HttpUrl = METRICS.option(
        "https://api.datadoghq.com",
        "API of the Datadog site that the key belongs to, such as https://api.datadoghq.eu",
    )
    datadog_flush_interval: PositiveSeconds = METRICS.option(
        10.0, "time between two requests to Datadog"
    )

    # ── What follows from the options ─────────────────────────────────────────────────────────────

    def located(self, problem: str) -> str:
        """The text of a StartupError; `Source.of` replaces an option name at its start."""
        match = _ABOUT_AN_OPTION.match(problem)
        source = match and self.sources.get(match[1])
        return source.of(match[1]) + problem[match.end(1) :] if match and source else problem

    @property
    def has_sockets(self) -> bool:
        """Whether user agents connect to this process."""
        return self.command in NODES

    @property
    def has_endpoint(self) -> bool:
        """Whether application servers send to this process."""
        return self.command in ENDPOINTS

    @property
    def has_matrix_gateway(self) -> bool:
        """Homeservers have no VAPID key, so none may send where one is required."""
        return not (self.no_matrix_gateway or self.vapid_required or self.allowed_senders)

    @property
    def has_one_address(self) -> bool:
        """Whether one public port takes WebSockets and HTTP requests."""
        is_whole = self.has_sockets and self.has_endpoint
        return (is_whole or bool(self.domain)) and self.endpoint_port is None

    @property
    def listeners(self) -> dict[str, str]:
        """Purpose of each port this process listens on → its option. The port of the endpoint takes
        WebSockets too, unless there is one for them.
        """
        purposes: dict[str, str] = {}
        if self.has_sockets and not self.has_one_address:
            purposes["websocket"] = "port"
        if self.has_endpoint:
            purposes["endpoint"] = "endpoint_port" if "websocket" in purposes else "port"
        if self.has_sockets:
            purposes["router"] = "router_port"
        if self.domain:
            purposes["http"] = "http_port"
        if self.console and self.console_port is not None:
            purposes["console"] = "console_port"
        optional = _OPTIONAL_LISTENERS.items()
        return purposes | {
            purpose: option for purpose, option in optional if getattr(self, option) is not None
        }

    @property
    def has_tls(self) -> bool:
        """Whether the public ports speak TLS."""
        return bool(self.domain or self.ssl_key)

    @property
    def is_supervised(self) -> bool:
        """Whether the main process serves nobody itself: there are several workers, or a process
        for the certificate.
        """
        return self.workers > 1 or bool(self.domain)

    @property
    def https_port(self) -> int:
        """The port of the URLs that port 80 redirects to."""
        return urlsplit(self.public_endpoint_url).port or HTTPS_PORT

    @property
    def public_host(self) -> str:
        """The host of the public URLs, where no other one is given."""
        return self.domain[0] if self.domain else self.reachable_host

    @property
    def worker_router_ports(self) -> Sequence[int]:
        """The internal ports of all workers but the first; 0 is any free port."""
        first, number = self.worker_router_port, self.workers - 1
        return range(first, first + number) if first else [0] * number

    @property
    def trusted_networks(self) -> tuple[str, ...]:
        """`trusted_proxies` with its default, without `none`."""
        networks = self.trusted_proxies or LOOPBACK_NETWORKS
        return tuple(network for network in networks if network != NO_NETWORK)

    @property
    def public_endpoint_url(self) -> str:
        """Start of every endpoint URL: canonical, no slash at the end."""
        host = self.endpoint_hostname or self.public_host
        return self.endpoint_url or join_url(self.public_scheme, host, self.port_of_endpoints)

    @property
    def port_of_endpoints(self) -> int:
        """`endpoint_port` with its default."""
        is_own = self.has_endpoint or self.domain
        return self.endpoint_port or (self.port if is_own else ENDPOINT_PORT)

    @property
    def public_scheme(self) -> str:
        return self.endpoint_scheme or ("https" if self.has_tls else "http")

    @property
    def public_websocket_url(self) -> str:
        """Where user agents connect: canonical, always with a path."""
        address = self.websocket_url
        if not address and self.has_one_address:
            address = self.public_endpoint_url.replace("http", "ws", 1)
        elif not address:
            port = self.port if self.has_sockets else PUBLIC_PORT
            address = join_url("wss" if self.has_tls else "ws", self.public_host, port)
        return address if address.count("/") > 2 else address + "/"

    @property
    def errors_page(self) -> str:
        return self.errors_url or f"{self.public_endpoint_url}/errors"

    @property
    def unix_socket(self) -> str:
        """The path of the socket in place of the public port; empty if that is one of TCP."""
        return self.host.removeprefix(UNIX) if self.host.startswith(UNIX) else ""

    @property
    def tcp_host(self) -> str:
        """Where the ports listen that are not a Unix socket."""
        return LOOPBACK if self.unix_socket else self.host

    @property
    def on_every_interface(self) -> bool:
        return self.host in ALL_INTERFACES

    @cached_property
    def router_address(self) -> str:
        """`router_host` with its default: `host`, or if that is every interface, the address at
        which other nodes reach this one; every interface if there is no such address.
        """
        if self.router_host or not self.on_every_interface:
            return self.router_host or self.tcp_host
        if self.is_only_node:
            return LOOPBACK
        # Other machines cannot reach "localhost": listening elsewhere would only expose it.
        name = self.node_name
        return literal_loopback(name) or own_address(name) or self.host

    @property
    def is_only_node(self) -> bool:
        """Whether, by the settings, only the workers of this machine call each other."""
        return not (self.in_cluster or self.router_hostname)

    @property
    def router_is_everywhere(self) -> bool:
        """Whether the internal port listens on every interface without a `router_host`."""
        return not self.router_host and self.router_address in ALL_INTERFACES

    @cached_property
    def reachable_host(self) -> str:
        """`hostname` with its default; with `resolve_hostname`, its IPv4 address.

        :raises StartupError: it is to be resolved and has no IPv4 address
        """
        own = socket.gethostname() if self.on_every_interface else self.tcp_host
        host = self.hostname or own
        return ipv4_address(host) if self.resolve_hostname else host

    @property
    def node_name(self) -> str:
        """`router_hostname` with its default."""
        if self.router_hostname:
            return self.router_hostname
        if self.router_host and self.router_host not in ALL_INTERFACES and not self.hostname:
            return self.router_host
        if self.is_only_node and self.on_every_interface and not self.router_host:
            return LOOPBACK
        return self.reachable_host

    @property
    def console_address(self) -> str:
        """`console_host` with its default."""
        return self.console_host or LOOPBACK

    @property
    def console_url(self) -> str:
        """Where an operator on this machine finds the console."""
        if self.console_port is None:
            return f"{self.node_url(self.router_port)}/console/"
        scheme = "https" if self.console_ssl_key else "http"
        is_open = self.console_address in ALL_INTERFACES
        host = self.reachable_host if is_open else self.console_address
        return f"{join_url(scheme, host, self.console_port)}/console/"

    @property
    def own_names(self) -> frozenset[str]:
        """All names of this node that are known from the settings and the machine."""
        urls = (self.public_endpoint_url, self.public_websocket_url)
        hosts = {urlsplit(url).hostname or "" for url in urls}
        return frozenset(
            {
                *(self.reachable_host, self.node_name, self.console_address),
                *(socket.gethostname(), *hosts, *self.domain),
            }
        )

    @property
    def node_host(self) -> str:
        return url_host(self.node_name)

    @property
    def in_cluster(self) -> bool:
        """Whether there may be nodes on other machines."""
        return self.command == "connection" or not self.is_embedded

    @property
    def node_is_local(self) -> bool:
        """Whether this node's internal URL is loopback, so that other machines cannot reach it."""
        return is_loopback(self.node_name)

    def node_url(self, port: int) -> str:
        """The internal URL of the worker with that router port, which is always included."""
        return f"{self.node_scheme}://{self.node_host}:{port}"

    @property
    def node_scheme(self) -> str:
        return self.router_scheme or ("https" if self.router_ssl_key else "http")

    @property
    def ping_interval(self) -> float:
        """`auto_ping_interval` with its default: broadcasts are sent when a ping is due."""
        if self.auto_ping_interval is not None:
            return self.auto_ping_interval
        return BROADCAST_INTERVAL if self.megaphone_api_url else 0.0

    def has_broadcasts_of(self, other: "Settings") -> bool:
        """Whether broadcasts are read from the same source in the same way."""
        return all(
            getattr(self, option.name) == getattr(other, option.name)
            for option in OPTIONS
            if option.name.startswith("megaphone_")
        )

    @property
    def hsts_max_age(self) -> int:
        """`sts_max_age` with its default; 0 sends no header."""
        if self.sts_max_age is not None:
            return self.sts_max_age
        return ONE_YEAR if self.public_endpoint_url.startswith("https:") else 0

    @property
    def store_url(self) -> str:
        endpoint = self.aws_ddb_endpoint
        if endpoint and not self.store:
            return f"dynamodb://?endpoint={endpoint}"
        if endpoint and self.store.startswith("dynamodb:") and "endpoint=" not in self.store:
            return f"{self.store}{'&' if '?' in self.store else '?'}endpoint={endpoint}"
        return self.store or f"sqlite://{quote(str(self.data.absolute() / STORE_FILE))}"

    @property
    def is_embedded(self) -> bool:
        """Whether the store is a file of this machine."""
        return self.store_url.startswith("sqlite:")

    @property
    def store_file(self) -> str | None:
        """The file of an embedded store; None for any other."""
        from keytables.stores import SqliteUrl, parse_store  # noqa: PLC0415 - for fast `--help`

        place = parse_store(self.store_url)
        return place.path if isinstance(place, SqliteUrl) else None

    @property
    def is_on_dynamodb(self) -> bool:
        return self.store_url.startswith("dynamodb:")

    @property
    def store_is_in_data_folder(self) -> bool:
        return not self.store and self.is_embedded

    @property
    def store_place(self) -> str:
        """The store for log lines and messages."""
        if self.store_is_in_data_folder:
            return f"{self.data / STORE_FILE}"
        return without_password(self.store_url)

    @property
    def needs_data_folder(self) -> bool:
        """Whether the store, a key, a certificate or a token is kept in the data folder."""
        keys_given = self.crypto_key and (self.auth_key or not self.has_endpoint)
        return self.store_is_in_data_folder or not keys_given or bool(self.domain) or self.console

    @property
    def store_first(self) -> bool:
        return self.direct_delivery == "store-first" or (
            not self.direct_delivery and not self.is_on_dynamodb
        )

    @property
    def rotates(self) -> bool:
        """Whether each month has its own message table."""
        if self.no_table_rotation is None:
            return self.is_on_dynamodb
        return not self.no_table_rotation

    @property
    def maintains(self) -> bool:
        return not self.is_on_dynamodb if self.maintenance is None else self.maintenance

    def units(self, table: str) -> tuple[int, int] | None:
        """Read and write units of `router`, `storage` or `message`; None means on demand."""
        given = [getattr(self, row.name) for row in OPTIONS if row.name.endswith("_throughput")]
        if self.capacity == "on-demand" or not (self.capacity or any(given)):
            return None
        read, write = (getattr(self, f"{table}_{way}_throughput") for way in ("read", "write"))
        return read or DEFAULT_UNITS, write or DEFAULT_UNITS

    @property
    def statsd_server(self) -> str:
        """`statsd_host` with its default; empty for none."""
        host = self.statsd_host or ("none" if self.command == "serve" else "localhost")
        return "" if host == "none" else host

    @property
    def effective_log_level(self) -> str:
        return self.log_level or ("debug" if self.debug else "info")

    def with_ports(self, **ports: int) -> Self:
        """These settings with the bound ports in place of 0."""
        return replace(self, **ports)  # type: ignore[arg-type]  # names of ports only


OPTIONS: Final = declared_options(Settings)
"""In the order of help and documentation."""
