"""What the service knows of an endpoint, and whether a push would arrive: for `autopush diagnose`
and the console. No device token, credentials or message is in it.
"""

import re
from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from autopush.delivery.calls import Outcome
from autopush.store.inspection import UserInspection, UserTable
from autopush.store.users import CONNECTING, SIMPLEPUSH
from autopush.webpush.tokens import Endpoint
from autopush.webpush.urgency import NORMAL, is_below
from keytables import Item, Value

_ENDPOINT: Final = re.compile(
    r"(?P<kind>[a-z]?)push/(?:(?P<version>v\d+)/)?(?P<token>[^/]+)", re.ASCII
)


class EndpointUrl(NamedTuple):
    """`version` is None if the URL names none."""

    is_simplepush: bool
    version: str | None
    token: str


def parse_endpoint_url(text: str) -> EndpointUrl | None:
    """Accepts any host; None if the URL contains no endpoint."""
    match = _ENDPOINT.search(text.strip())
    if match is None:
        return None
    return EndpointUrl(match["kind"] == "s", match["version"], match["token"])


class Arrival(StrEnum):
    """When a push sent now reaches the user agent."""

    NOW = "now"
    LATER = "later"
    NEVER = "never"
    UNKNOWN = "unknown"


_STORED: Final = "A push is stored, and delivered when the user agent connects again"


class _RuleText(NamedTuple):
    title: str
    arrival: Arrival
    text: str


class Rule(Enum):
    """What decides: its name in `--json`, when the push arrives, and what becomes of it."""

    TOKEN_OF_OTHER_KEYS = _RuleText(
        "token of other keys",
        Arrival.NEVER,
        "A push is refused with 404, errno 102: the token is damaged, or was made with a key that "
        "is not among those used here.",
    )
    OTHER_VERSION = _RuleText(
        "token of another version",
        Arrival.NEVER,
        "A push is refused with 404, errno 102: the URL names {named}, and its token is that of a "
        "{held} endpoint.",
    )
    USER_GONE = _RuleText(
        "user gone",
        Arrival.NEVER,
        "A push is refused with 410, errno 103: the user agent has no record. It was dropped, and "
        "gets a new UAID and new subscriptions when it connects.",
    )
    RECORD_INCOMPLETE = _RuleText(
        "record incomplete",
        Arrival.NEVER,
        "A push is refused with 410, errno 103: the record lacks router_type or connected_at, so "
        "it counts as absent and is dropped when it is used.",
    )
    CRITICAL_FAILURE = _RuleText(
        "critical failure",
        Arrival.NEVER,
        "A push is refused with 410, errno 105: the bridge can never reach this device as it is "
        "registered ({failure}). It has to register again.",
    )
    BRIDGE_NOT_CONFIGURED = _RuleText(
        "bridge not configured",
        Arrival.NEVER,
        "A push is refused with 400, errno 108: the bridge {router_type} is not configured here. "
        "Its options are on the page Settings, under Bridges.",
    )
    BRIDGED = _RuleText(
        "passed to a bridge",
        Arrival.UNKNOWN,
        "A push is passed to the bridge {router_type} at once. Whether the device gets it is for "
        "the bridge to say: it is not stored here.",
    )
    OTHER_ROUTER_TYPE = _RuleText(
        "URL of another router type",
        Arrival.NEVER,
        "A push is refused with 400, errno 108: the URL is {one_or_none} of SimplePush, and the "
        "user agent is registered as {router_type}.",
    )
    TABLE_GONE = _RuleText(
        "message table gone",
        Arrival.NEVER,
        "A push is refused with 410, errno 106, and the user dropped: {why}. The user agent gets "
        "a new UAID and new subscriptions when it connects.",
    )
    CHANNEL_NOT_SUBSCRIBED = _RuleText(
        "channel not subscribed",
        Arrival.NEVER,
        "A push is refused with 410, errno 106: the user agent is not subscribed to this channel; "
        "it has unsubscribed, or its subscription was never saved.",
    )
    NODE_GONE = _RuleText(
        "node gone",
        Arrival.LATER,
        f"Nothing listens where the node on record was. {_STORED}. If that node runs, its router "
        "port is not reachable from here: a push is delivered as soon as it is.",
    )
    NODE_RESTARTED = _RuleText(
        "node restarted",
        Arrival.LATER,
        f"The node on record was restarted since. {_STORED}; the next push removes the node from "
        "the record.",
    )
    NODE_UNRESPONSIVE = _RuleText(
        "node does not answer",
        Arrival.LATER,
        "The node on record does not answer. A push is stored, and delivered when the node answers "
        "or the user agent connects to another one. Look at that node, at the network to its "
        "router port, and whether its crypto_key is the one that is used here.",
    )
    NOT_ON_ITS_NODE = _RuleText(
        "not connected to the node on record",
        Arrival.LATER,
        f"The node on record has no connection of the user agent (any more). {_STORED}; the next "
        "push removes the node from the record.",
    )
    NODE_CANNOT_TELL = _RuleText(
        "node does not say who is connected",
        Arrival.UNKNOWN,
        "The node on record works, but does not say whether the user agent is connected to it. If "
        "it is, a push is delivered at once; otherwise it is stored, and delivered when the user "
        "agent connects again.",
    )
    NOT_CONNECTED = _RuleText(
        "not connected", Arrival.LATER, f"The user agent is not connected. {_STORED}."
    )
    TAKES_HIGHER_URGENCY = _RuleText(
        "takes only a higher urgency",
        Arrival.LATER,
        "The user agent is connected and takes only urgent messages (min_urgency in its record). "
        "One of a lower urgency is stored, and delivered when it takes that again.",
    )
    CONNECTED = _RuleText(
        "connected", Arrival.NOW, "The user agent is connected. A push is delivered at once."
    )

    def __init__(self, title: str, arrival: Arrival, text: str) -> None:
        self.title = title
        self.arrival = arrival
        self.text = text


_NODE_RULES: Final = {
    None: Rule.NOT_CONNECTED,
    Outcome.DONE: Rule.CONNECTED,
    Outcome.STORED: Rule.TAKES_HIGHER_URGENCY,
    Outcome.ABSENT: Rule.NOT_ON_ITS_NODE,
    Outcome.GONE: Rule.NODE_RESTARTED,
    Outcome.REFUSED: Rule.NODE_GONE,
    Outcome.SILENT: Rule.NODE_UNRESPONSIVE,
    Outcome.BUSY: Rule.NODE_CANNOT_TELL,
}


class Facts(Struct, frozen=True, kw_only=True):
    """`node`: the answer of the node on record, if any; `bridges`: the configured router types."""

    url: EndpointUrl
    endpoint: Endpoint | None
    user: UserInspection | None = None
    node: Outcome | None = None
    bridges: frozenset[str] = frozenset()


class Verdict(NamedTuple):
    """What happens to a push; `text` explains it in a sentence or two."""

    rule: Rule
    text: str


def judge(facts: Facts) -> Verdict:
    """The first rule that applies, in the order in which a push is checked."""
    url, endpoint, user = facts.url, facts.endpoint, facts.user
    if endpoint is None:
        return _verdict(Rule.TOKEN_OF_OTHER_KEYS)
    held = "v1" if endpoint.key_hash is None else "v2"
    accepted = ("v1", None) if url.is_simplepush or held == "v1" else ("v2",)
    if url.version not in accepted or (url.is_simplepush and held == "v2"):
        return _verdict(Rule.OTHER_VERSION, named=url.version or "no version", held=held)
    if user is None:
        return _verdict(Rule.USER_GONE)
    record = user.record
    if record is None:
        return _verdict(Rule.RECORD_INCOMPLETE)
    router_type = record.router_type
    if router_type not in CONNECTING:
        if record.critical_failure is not None:
            return _verdict(Rule.CRITICAL_FAILURE, failure=record.critical_failure)
        is_configured = router_type in facts.bridges
        rule = Rule.BRIDGED if is_configured else Rule.BRIDGE_NOT_CONFIGURED
        return _verdict(rule, router_type=router_type)
    if url.is_simplepush is not (router_type == SIMPLEPUSH):
        one_or_none = "one" if url.is_simplepush else "none"
        return _verdict(Rule.OTHER_ROUTER_TYPE, one_or_none=one_or_none, router_type=router_type)
    if user.missing_table is not None and not url.is_simplepush:
        name = user.missing_table
        why = f"its message table {name} is gone" if name else "its record names no message table"
        return _verdict(Rule.TABLE_GONE, why=why)
    channels = user.tables[0].channels if user.tables else None
    if channels is not None and endpoint.channel_id not in channels:
        return _verdict(Rule.CHANNEL_NOT_SUBSCRIBED)
    if facts.node is Outcome.DONE and is_below(NORMAL, record.min_urgency):
        return _verdict(Rule.TAKES_HIGHER_URGENCY)
    return _verdict(_NODE_RULES[facts.node])


def _verdict(rule: Rule, **values: str) -> Verdict:
    return Verdict(rule, rule.text.format_map(values))


# ── For people and programs ──────────────────────────────────────────────────────────────────────

HEADLINES: Final = {
    Arrival.NOW: "A push would arrive",
    Arrival.LATER: "A push would arrive later",
    Arrival.NEVER: "A push would not arrive",
    Arrival.UNKNOWN: "A push would be passed on",
}


_PLAIN: Final = frozenset(
    (
        *("uaid", "router_type", "node_id", "connected_at", "last_connect", "current_month"),
        *("curmonth", "moved_from", "record_version", "critical_failure", "expiry", "min_urgency"),
        *("app_id", "rel_channel"),
    )
)
"""Attributes of a router record, also nested ones, whose values are shown."""


def shown_row(row: Item) -> dict[str, object]:
    """A router record with the values of `_PLAIN` only, since others may be secret."""
    return {name: _shown(name, value) for name, value in sorted(row.items())}


def _shown(name: str, value: Value) -> object:
    if isinstance(value, Mapping):
        return {member: _shown(member, inner) for member, inner in sorted(value.items())}
    if name in _PLAIN and isinstance(value, str | int | float):
        return value
    return f"<{len(value)} characters>" if isinstance(value, str) else f"<{type(value).__name__}>"


def to_document(facts: Facts, now: float) -> dict[str, object]:
    """The report as JSON; ages are in seconds."""
    rule, text = judge(facts)
    document: dict[str, object] = {
        "rule": rule.title,
        "arrives": rule.arrival.value,
        "explanation": text,
    }
    if facts.endpoint is None:
        return document
    endpoint, user = facts.endpoint, facts.user
    document |= {
        "uaid": endpoint.uaid,
        "channel": endpoint.channel_id,
        "key_hash": None if endpoint.key_hash is None else endpoint.key_hash.hex(),
        "record": None if user is None else shown_row(user.row),
        "node": None if facts.node is None else facts.node.name.lower(),
        "tables": [_table_document(table, now) for table in user.tables] if user else [],
        "missing_table": user.missing_table if user else None,
    }
    return document


def _table_document(table: UserTable, now: float) -> dict[str, object]:
    pending = table.pending
    ages = {
        name: None if at is None else max(0, int(now - at))
        for name, at in (("oldest", pending.oldest), ("newest", pending.newest))
    }
    return {
        "name": table.name,
        "channels": None if table.channels is None else sorted(table.channels),
        "pending": {
            "count": pending.count,
            "of_channel": pending.of_channel,
            "bytes": pending.size,
            **ages,
            "expired": pending.expired,
            "has_more": pending.has_more,
        },
    }
