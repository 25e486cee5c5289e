"""The table of metrics: exporters, dashboards and the documentation follow it.

Names and labels are those of the original or its successor where they have the metric. Tests fail
for a metric that is not recorded or not documented.
"""

from typing import Final

from .metrics import OTHER, Kind, Metric, Part
from .user_agent_names import BROWSER_FAMILIES, OS_FAMILIES

BRIDGES: Final = ("adm", "apns", "fcm", "gcm", "stub", OTHER)
"""Router types behind a bridge; those of other distributions are `OTHER`."""
PLATFORMS: Final = ("webpush", "simplepush", *BRIDGES)
NO_ROUTER: Final = "none"
"""The router of a push that was refused before its user was known."""
VAPID: Final = ("True", "False")
"""Whether the sender was identified, as the original spells it."""
_ERRNOS: Final = (
    "0 1 2 3 4 5 101 102 103 104 105 106 108 109 110 111 112 113 114 115 120 121 122 123 "
    "201 202 203 204 205 900 901 902 903 999"
)
ERRNOS: Final = tuple(_ERRNOS.split())
"""Of `webpush.errors`, which is above."""
REFUSED_CODES: Final = (
    "400",
    "401",
    "403",
    "404",
    "410",
    "413",
    "429",
    "500",
    "502",
    "503",
    OTHER,
)
BRIDGE_REASONS: Final = (
    "busy",
    "credentials",
    "critical",
    "failed",
    "misconfigured",
    "timeout",
    "too_large",
    "unreachable",
    "unregistered",
    OTHER,
)
"""Why a bridge did not take a message; `delivery/bridged.py` maps the errors."""
LIMITS: Final = (
    "account_connections",
    "accounts_required",
    "address_connections",
    "allowed_senders",
    "broadcasts",
    "buffered_bytes",
    "connection_rate",
    "connections",
    "endpoint_rate",
    "gone_rate",
    "hellos",
    "internal_connections",
    "log_check_rate",
    "message_rate",
    "new_user_agents",
    "receipt_rate",
    "receipt_reads",
    "receipt_waits",
    "registration_rate",
    "sender_rate",
    "stored_bytes",
    "stored_messages",
    "tcp_connections",
    "vapid_required",
)
"""Limits of the settings, named by what they limit."""
STORE_FAILURE_KINDS: Final = ("full", "damaged", "io", "busy", "refused", "unavailable")
"""`store/failures.py` maps the errors."""
DROP_CODES: Final = ("100", "101", "102", "103")
"""The original's codes of why a user is dropped."""
LATENCIES: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of buckets, in seconds."""

METRICS: Final[list[Metric]] = []
"""In the order of the documentation."""


def _counter(name: str, about: str, unit: str = "", /, **labels: tuple[str, ...]) -> Metric:
    return _add(Metric(name, Kind.COUNTER, about, labels, unit=unit))


def _gauge(name: str, about: str, unit: str = "", **labels: tuple[str, ...]) -> Metric:
    return _add(Metric(name, Kind.GAUGE, about, labels, unit=unit))


def _of_process(name: str, kind: Kind, about: str, unit: str = "") -> Metric:
    return _add(Metric(name, kind, about, unit=unit, per_worker=True))


def _histogram(
    name: str, about: str, unit: str, buckets: tuple[float, ...], **labels: tuple[str, ...]
) -> Metric:
    return _add(Metric(name, Kind.HISTOGRAM, about, labels, buckets, unit))


def _sum(name: str, about: str, *parts: Part) -> Metric:
    return _add(Metric(name, Kind.COUNTER, about, sums={"": parts}))


def _add(metric: Metric) -> Metric:
    METRICS.append(metric)
    return metric


# ── The service ───────────────────────────────────────────────────────────────────────────────────

WORKER_READY: Final = _gauge("worker.ready", "workers that serve")
WORKER_HEARTBEAT: Final = _of_process(
    "worker.heartbeat",
    Kind.GAUGE,
    "when the worker's event loop last ran, on the machine's monotonic clock",
    "seconds",
)
LOOP_LAG: Final = _of_process(
    "event_loop.lag",
    Kind.GAUGE,
    "how late the event loop was, at most, within the last five seconds",
    "seconds",
)
PROCESS_CPU: Final = _of_process("process.cpu", Kind.COUNTER, "CPU time used", "seconds")
PROCESS_MEMORY: Final = _of_process(
    "process.resident_memory", Kind.GAUGE, "memory in RAM, shared pages included", "bytes"
)
PROCESS_OPEN_FILES: Final = _of_process(
    "process.open_fds", Kind.GAUGE, "open file descriptors, sockets included"
)
PROCESS_MAX_FILES: Final = _of_process(
    "process.max_fds", Kind.GAUGE, "the limit on open file descriptors"
)

CERTIFICATE_LEFT: Final = _gauge(
    "certificate.left",
    "how long the certificate of the public ports is valid; 0 without TLS, and until the first one "
    "by ACME is issued",
    "seconds",
)

LOG_LOST: Final = _counter(
    "log.lost", "log lines that could not be written, or that Firehose did not take"
)

REQUEST_REFUSED: Final = _counter(
    "request.refused", "HTTP requests that were refused, by the errno of the answer", errno=ERRNOS
)
LIMIT_REFUSED: Final = _counter(
    "limit.refused", "requests, messages and connections refused by a limit", limit=LIMITS
)

# ── User agents: recorded by the connection node ──────────────────────────────────────────────────

CONNECTIONS: Final = _gauge("ua.connections", "WebSockets that are open, identified or not")

CONNECTIONS_UNRECORDED: Final = _gauge(
    "ua.connections.unrecorded",
    "connected user agents whose router record did not name their node when it was last checked: "
    "until then they got no messages",
)
UA_RECORD_RESTORED: Final = _counter(
    "ua.record.restored", "router records that were written again, as they did not name the node"
)

MEGAPHONE_OK: Final = _counter("megaphone.updater.ok", "requests for the broadcasts that succeeded")
POLL_ERRORS: Final = ("timeout", "connect", "io", "unknown")
MEGAPHONE_ERROR: Final = _counter(
    "megaphone.updater.error", "requests for the broadcasts that failed", reason=POLL_ERRORS
)
# Without the original's label `host`, whose values (of the Host header) clients choose.
_BASE: Final = {
    "ua_os_family": OS_FAMILIES,
    "ua_browser_family": BROWSER_FAMILIES,
    "use_webpush": ("True", "False"),
}
_SOURCE: Final = {"source": ("Direct", "Stored")}

UA_HELLO: Final = _counter(
    "ua.command.hello",
    "hellos answered with a UAID: the user agent had none, kept its own or got another",
    **_BASE,
    uaid=("new", "existing", "reassigned"),
)
UA_REGISTER: Final = _counter("ua.command.register", "channels registered", **_BASE)
UA_UNREGISTER: Final = _counter(
    "ua.command.unregister",
    "channels unregistered, by the code of the user agent; 200 if it sends none",
    **_BASE,
    code=("200", "201", "202", OTHER),
)
UA_ACK: Final = _counter("ua.command.ack", "ack messages, each of one or more versions", **_BASE)
UA_NACK: Final = _counter(
    "ua.command.nack",
    "notifications a user agent could not process, by its code; 0 is any other",
    code=("301", "302", "303", "0"),
)
UA_BELOW_FILTER: Final = _counter(
    "ua.notification.below_filter",
    "notifications not sent, as the user agent takes only a higher urgency: they wait in storage, "
    "or are discarded with a TTL of 0",
    urgency=("very-low", "low", "normal"),
)
UA_LIFESPAN: Final = _histogram(
    "ua.connection.lifespan",
    "how long user agents that said hello stayed connected",
    "seconds",
    (1.0, 10.0, 60.0, 300.0, 1800.0, 3600.0, 21_600.0, 86_400.0, 604_800.0),
    **_BASE,
)
UA_CHANNEL_COUNT: Final = _histogram(
    "ua.connection.channel_count",
    "channels of a known user when it connects",
    "",
    (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0),
)
UA_CONNECTION_CHECK: Final = _counter(
    "ua.connection.check",
    "clients that asked the registration API for their channels",
    os=OS_FAMILIES,
    browser=BROWSER_FAMILIES,
)
UA_ALREADY_CONNECTED: Final = _counter(
    "ua.already_connected",
    "hellos during which the user connected elsewhere, so that its record was read again",
)
UA_EXPIRATION: Final = _counter(
    "ua.expiration",
    "users dropped, so that they get a new UAID and subscribe again",
    reason=(
        "router_type_changed",
        "incomplete_record",
        "no_message_table",
        "not_seen",
        "old_record_version",
        "too_many_messages",
    ),
)
UA_NOTIFICATION_CHECK: Final = _counter(
    "ua.notification_check", "reads of stored messages because a node was notified of one"
)
UA_NOTIFICATION_SENT: Final = _counter(
    "ua.notification.sent",
    "notifications sent to user agents, at once or from storage",
    **_SOURCE,
    topic=("true", "false"),
    os=OS_FAMILIES,
)
UA_NOTIFICATION_TOPIC: Final = _sum(
    "ua.notification.topic",
    "notifications with a topic sent to user agents",
    Part(UA_NOTIFICATION_SENT, {"topic": "true"}),
)
UA_NOTIFICATION_ACKED: Final = _counter(
    "ua.notification.acked",
    "notifications that user agents acked; those with a TTL of 0 are not remembered, nor counted",
)
UA_NOTIFICATION_UNUSABLE: Final = _counter(
    "ua.notification.unusable",
    "those of them that the user agent could not use, by its code: 101, not decrypted; 102, not "
    "given to the page",
    code=("101", "102"),
)
UA_MESSAGE_DATA: Final = _counter(
    "ua.message_data",
    "bytes of body in the notifications sent to user agents, as base64url",
    "bytes",
    **_SOURCE,
)

# ── Application servers: recorded by the endpoint ─────────────────────────────────────────────────

REQUESTS_IN_FLIGHT: Final = _gauge(
    "request.in_flight", "requests to the endpoint in progress, looked at every five seconds"
)
NOTIFICATION_RECEIVED: Final = _counter(
    "notification.received", "pushes that application servers sent, accepted or not"
)
NOTIFICATION_SUCCESS: Final = _counter(
    "notification.message.success",
    "pushes that were accepted: delivered, stored, or discarded, as the TTL was 0 and the user "
    "agent not connected",
    destination=("Direct", "Stored", "Discarded"),
    router=PLATFORMS,
    vapid=VAPID,
)
NOTIFICATION_ERROR: Final = _counter(
    "notification.message.error",
    "pushes that were refused, by HTTP status; the router is `none` when it was not known yet",
    code=REFUSED_CODES,
    router=(NO_ROUTER, *PLATFORMS),
    vapid=VAPID,
)
NOTIFICATION_DATA: Final = _counter(
    "notification.message_data",
    "bytes of body in pushes that were delivered or stored",
    "bytes",
    destination=("Direct", "Stored"),
    platform=PLATFORMS,
)
NOTIFICATION_TIME: Final = _histogram(
    "notification.request_time",
    "time from a push to the response that accepts it",
    "seconds",
    LATENCIES,
)
NOTIFICATION_AUTH: Final = _counter(
    "notification.auth",
    "accepted pushes of identified senders, by the form of their VAPID credentials",
    vapid=("draft01", "draft02"),
    scheme=("bearer", "webpush", "vapid"),
)
MATRIX_RESULTS: Final = ("accepted", "rejected", "retry", "dropped")
MATRIX_NOTIFICATION: Final = _counter(
    "matrix.notification",
    "notifications of Matrix homeservers, for each device",
    result=MATRIX_RESULTS,
)
VAPID_DRAFT_1: Final = _sum(
    "updates.vapid.draft01",
    "those with the first draft of VAPID",
    Part(NOTIFICATION_AUTH, {"vapid": "draft01"}),
)
VAPID_DRAFT_2: Final = _sum(
    "updates.vapid.draft02",
    "those with VAPID as of RFC 8292",
    Part(NOTIFICATION_AUTH, {"vapid": "draft02"}),
)
ENCODING_AES128GCM: Final = _counter(
    "updates.notification.encoding.aes128gcm", "accepted pushes with a body encrypted so"
)
ENCODING_AESGCM: Final = _counter(
    "updates.notification.encoding.aesgcm", "accepted pushes with a body encrypted so"
)
ENCODING_AESGCM128: Final = _counter(
    "updates.notification.encoding.aesgcm128", "accepted pushes with a body encrypted so"
)
CLIENT_DELETED: Final = _counter(
    "updates.client.deleted", "messages whose user was deleted while they were stored"
)
DROP_USER: Final = _counter(
    "updates.drop_user",
    "users deleted by the endpoint: 100, the bridge does not know the device any more; 101, by the "
    "registration API; 102, the record names no message table; 103, its message table is gone",
    errno=DROP_CODES,
)

# ── Bridges ───────────────────────────────────────────────────────────────────────────────────────

BRIDGE_SENT: Final = _counter(
    "notification.bridge.sent", "messages that a bridge took", platform=BRIDGES
)
BRIDGE_ERROR: Final = _counter(
    "notification.bridge.error",
    "messages that a bridge did not take, or was not asked to",
    platform=BRIDGES,
    reason=BRIDGE_REASONS,
)

# ── Between nodes, and the store ──────────────────────────────────────────────────────────────────

HOST_GONE: Final = _counter(
    "updates.client.host_gone",
    "calls for a message to the node on record of its user agent that had no answer",
)
NODE_CONNECT_ERROR: Final = _counter(
    "error.node.connect", "calls to nodes that refused the connection, or have no address"
)
NODE_TIMEOUT: Final = _counter(
    "error.node.timeout", "calls to nodes without an answer, for any other cause"
)
MESSAGE_STORED: Final = _counter(
    "notification.message.stored", "messages written to the store", topic=("true", "false")
)
MESSAGE_RETRIEVED: Final = _counter(
    "notification.message.retrieved",
    "messages read from the store for a user agent",
    topic=("true", "false"),
)
MESSAGE_DELETED: Final = _counter(
    "notification.message.deleted",
    "messages deleted from the store: acked, or taken back by the sender",
)
MESSAGE_EXPIRED: Final = _counter(
    "notification.message.expired",
    "messages that the embedded store or PostgreSQL removed after their TTL, some minutes later; "
    "DynamoDB removes them by itself",
)
SAVE_TIME: Final = _histogram(
    "notification.storage.save_time",
    "time in which the store has written a message",
    "seconds",
    LATENCIES,
)
STORE_FAILURES: Final = _counter(
    "store.failures",
    "calls that the store failed to carry out, by kind: the disk is full, the file is damaged, an "
    "I/O error, overloaded or locked by another process, a right is missing, anything else",
    kind=STORE_FAILURE_KINDS,
)
STORE_CONNECTIONS: Final = _gauge("store.connections", "connections to PostgreSQL")
STORE_CONNECTION_WAITS: Final = _counter(
    "store.connection_waits", "reads that waited, as no connection to PostgreSQL was free"
)
STORE_ROUND_TRIPS: Final = _counter("store.round_trips", "statements sent to PostgreSQL")
STORE_COMMITS: Final = _counter("store.commits", "commits of writes in PostgreSQL")
STORE_WRITTEN: Final = _counter(
    "store.written", "items that these commits changed; several of them share one"
)
STORE_EXPIRED: Final = _counter(
    "store.expired", "expired items that were removed from the embedded store or PostgreSQL"
)

# ── Messages by their state ───────────────────────────────────────────────────────────────────────

STATES: Final = (
    "received",
    "stored",
    "retrieved",
    "transmitted",
    "accepted",
    "delivered",
    "errored",
    "expired",
)
"""Of a message, named as by the original's successor, in the order in which it passes them."""
MESSAGE_STATE: Final = _add(
    Metric(
        "notification.state",
        Kind.COUNTER,
        "messages that have reached a state, each sum of metrics of this table: received; stored; "
        "retrieved from the store; transmitted to a user agent; accepted by the provider of a "
        "bridge, which says no more; delivered, as the user agent has acked it; errored, as a user "
        "agent could not use it, or a bridge did not take it; expired",
        {"state": STATES},
        sums={
            "received": (Part(NOTIFICATION_RECEIVED),),
            "stored": (Part(MESSAGE_STORED),),
            "retrieved": (Part(MESSAGE_RETRIEVED),),
            "transmitted": (Part(UA_NOTIFICATION_SENT),),
            "accepted": (Part(BRIDGE_SENT),),
            "delivered": (Part(UA_NOTIFICATION_ACKED),),
            "errored": (Part(UA_NOTIFICATION_UNUSABLE), Part(UA_NACK), Part(BRIDGE_ERROR)),
            "expired": (
                Part(MESSAGE_EXPIRED),
                Part(NOTIFICATION_SUCCESS, {"destination": "Discarded"}),
            ),
        },
    )
)
