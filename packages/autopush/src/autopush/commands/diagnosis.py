"""What would become of a push to an endpoint: the rules, in the order in which a push meets them.

Pure: what the store and the node say is found out before (`autopush.commands.diagnose`).
"""

import re
from enum import Enum, StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from autopush.delivery.peers import NodeAnswer
from autopush.store.inspection import UserInspection
from autopush.store.users import CONNECTING, SIMPLEPUSH
from autopush.webpush.endpoint_token import Endpoint

_ENDPOINT: Final = re.compile(
    r"(?P<kind>[a-z]?)push/(?:(?P<version>v\d+)/)?(?P<token>[^/]+)", re.ASCII
)


class EndpointUrl(NamedTuple):
    """An endpoint URL taken apart; `version` is None where the URL names none."""

    is_simplepush: bool
    version: str | None
    token: str


def parse_endpoint_url(text: str) -> EndpointUrl | None:
    """The endpoint in a URL of any host, None when there is none."""
    found = _ENDPOINT.search(text.strip())
    if found is None:
        return None
    return EndpointUrl(found["kind"] == "s", found["version"], found["token"])


class Arrival(StrEnum):
    """When a push that is sent now gets to the user agent."""

    NOW = "now"
    LATER = "later"
    NEVER = "never"
    UNKNOWN = "unknown"


class Rule(Enum):
    """What decides; each with the name that `--json` prints, and when the push arrives."""

    TOKEN_OF_OTHER_KEYS = ("token of other keys", Arrival.NEVER)
    OTHER_VERSION = ("token of another version", Arrival.NEVER)
    USER_GONE = ("user gone", Arrival.NEVER)
    RECORD_INCOMPLETE = ("record incomplete", Arrival.NEVER)
    CRITICAL_FAILURE = ("critical failure", Arrival.NEVER)
    BRIDGE_NOT_CONFIGURED = ("bridge not configured", Arrival.NEVER)
    BRIDGED = ("passed to a bridge", Arrival.UNKNOWN)
    OTHER_ROUTER_TYPE = ("URL of another router type", Arrival.NEVER)
    TABLE_GONE = ("message table gone", Arrival.NEVER)
    CHANNEL_NOT_SUBSCRIBED = ("channel not subscribed", Arrival.NEVER)
    NODE_GONE = ("node gone", Arrival.LATER)
    NODE_UNRESPONSIVE = ("node does not answer", Arrival.LATER)
    NOT_ON_ITS_NODE = ("not connected to the node on record", Arrival.LATER)
    NODE_CANNOT_TELL = ("node does not say who is connected", Arrival.UNKNOWN)
    NOT_CONNECTED = ("not connected", Arrival.LATER)
    CONNECTED = ("connected", Arrival.NOW)

    def __init__(self, title: str, arrival: Arrival) -> None:
        self.title = title
        self.arrival = arrival


class Facts(Struct, frozen=True, kw_only=True):
    """What is known of an endpoint. `node`: what the node on record answered, if there is one;
    `bridges`: the router types of the bridges that are configured.
    """

    url: EndpointUrl
    endpoint: Endpoint | None
    user: UserInspection | None = None
    node: NodeAnswer | None = None
    bridges: frozenset[str] = frozenset()


class Verdict(NamedTuple):
    """What would become of a push, and why, in a sentence or two."""

    rule: Rule
    text: str


_STORED: Final = "A push is stored, and delivered when the user agent connects again"
_NODE_RULES: Final = {
    None: (Rule.NOT_CONNECTED, f"The user agent is not connected. {_STORED}."),
    NodeAnswer.DONE: (Rule.CONNECTED, "The user agent is connected. A push is delivered at once."),
    NodeAnswer.ABSENT: (
        Rule.NOT_ON_ITS_NODE,
        (
            f"The node on record has no connection of the user agent (any more). {_STORED}; the "
            "next push removes the node from the record."
        ),
    ),
    NodeAnswer.UNREACHABLE: (
        Rule.NODE_GONE,
        (
            f"Nothing listens where the node on record was, or the node was restarted. {_STORED}; "
            "the next push removes the node from the record. If that node runs, its router port is "
            "not reachable from here."
        ),
    ),
    NodeAnswer.UNRESPONSIVE: (
        Rule.NODE_UNRESPONSIVE,
        (
            "The node on record does not answer. A push is stored, and delivered when the node "
            "answers or the user agent connects to another one. Look at that node, at the network "
            "to its router port, and whether its crypto_key is the one that is used here."
        ),
    ),
    NodeAnswer.BUSY: (
        Rule.NODE_CANNOT_TELL,
        (
            "The node on record works, but does not say whether the user agent is connected to it. "
            "If it is, a push is delivered at once; otherwise it is stored, and delivered when the "
            "user agent connects again."
        ),
    ),
}


def judge(facts: Facts) -> Verdict:
    """The first rule that applies, as a push would meet it."""
    if facts.endpoint is None:
        return Verdict(
            Rule.TOKEN_OF_OTHER_KEYS,
            "A push is refused with 404, errno 102: the token is damaged, or was made with a key "
            "that is not among those used here.",
        )
    if not _is_of_version(facts.url, facts.endpoint):
        named = facts.url.version or "no version"
        held = "v1" if facts.endpoint.key_hash is None else "v2"
        return Verdict(
            Rule.OTHER_VERSION,
            f"A push is refused with 404, errno 102: the URL names {named}, and its token is that "
            f"of a {held} endpoint.",
        )
    user = facts.user
    if user is None:
        return Verdict(
            Rule.USER_GONE,
            "A push is refused with 410, errno 103: the user agent has no record. It was dropped, "
            "and gets a new UAID and new subscriptions when it connects.",
        )
    if user.record is None:
        return Verdict(
            Rule.RECORD_INCOMPLETE,
            "A push is refused with 410, errno 103: the record lacks router_type or connected_at, "
            "so it counts as absent and is dropped when it is used.",
        )
    if user.record.router_type not in CONNECTING:
        return _judge_bridged(user, facts.bridges)
    if facts.url.is_simplepush is not (user.record.router_type == SIMPLEPUSH):
        return Verdict(
            Rule.OTHER_ROUTER_TYPE,
            "A push is refused with 400, errno 108: the URL is "
            f"{'one' if facts.url.is_simplepush else 'none'} of SimplePush, and the user agent is "
            f"registered as {user.record.router_type}.",
        )
    return _judge_connecting(facts, user)


def _is_of_version(url: EndpointUrl, endpoint: Endpoint) -> bool:
    if url.version == "v2" and not url.is_simplepush:
        return endpoint.key_hash is not None
    return url.version in ("v1", None) and endpoint.key_hash is None


def _judge_bridged(user: UserInspection, bridges: frozenset[str]) -> Verdict:
    assert user.record is not None
    record = user.record
    if record.critical_failure is not None:
        return Verdict(
            Rule.CRITICAL_FAILURE,
            "A push is refused with 410, errno 105: the bridge can never reach this device as it "
            f"is registered ({record.critical_failure}). It has to register again.",
        )
    if record.router_type not in bridges:
        return Verdict(
            Rule.BRIDGE_NOT_CONFIGURED,
            f"A push is refused with 400, errno 108: the bridge {record.router_type} is not "
            "configured here. Its options are on the page Settings, under Bridges.",
        )
    return Verdict(
        Rule.BRIDGED,
        f"A push is passed to the bridge {record.router_type} at once. Whether the device gets it "
        "is for the bridge to say: it is not stored here.",
    )


def _judge_connecting(facts: Facts, user: UserInspection) -> Verdict:
    assert facts.endpoint is not None
    if user.missing_table is not None and not facts.url.is_simplepush:
        what = (
            f"its message table {user.missing_table} is gone"
            if user.missing_table
            else ("its record names no message table")
        )
        return Verdict(
            Rule.TABLE_GONE,
            f"A push is refused with 410, errno 106, and the user dropped: {what}. The user agent "
            "gets a new UAID and new subscriptions when it connects.",
        )
    channels = user.tables[0].channels if user.tables else None
    if channels is not None and facts.endpoint.channel_id not in channels:
        return Verdict(
            Rule.CHANNEL_NOT_SUBSCRIBED,
            "A push is refused with 410, errno 106: the user agent is not subscribed to this "
            "channel; it has unsubscribed, or its subscription was never saved.",
        )
    return Verdict(*_NODE_RULES[facts.node])
