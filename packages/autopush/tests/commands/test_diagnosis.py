"""What would become of a push: each rule, and that the first one a push meets decides."""

import pytest
from msgspec.structs import replace

from autopush.commands.diagnosis import (
    Arrival,
    EndpointUrl,
    Facts,
    Rule,
    judge,
    parse_endpoint_url,
)
from autopush.delivery.peers import NodeAnswer
from autopush.store.inspection import PendingMessages, UserInspection, UserTable
from autopush.store.users import UserRecord
from autopush.webpush.endpoint_token import Endpoint

UAID = "5f0c7a1e93b84d268c410e2b7d9a6f35"
CHANNEL = "11111111-2222-3333-4444-555555555555"
URL = EndpointUrl(False, "v1", "token")
ENDPOINT = Endpoint(UAID, CHANNEL)
RESTRICTED = Endpoint(UAID, CHANNEL, bytes(32))
RECORD = UserRecord(UAID, "webpush", 1, current_month="message")
TABLE = UserTable("message", frozenset((CHANNEL,)), PendingMessages())
USER = UserInspection({}, RECORD, (TABLE,))
FACTS = Facts(url=URL, endpoint=ENDPOINT, user=USER)
PHONE = replace(RECORD, router_type="fcm", router_data={"token": "t"})
DEVICE = UserInspection({}, PHONE)
BRIDGED = replace(FACTS, user=DEVICE, bridges=frozenset(("fcm",)))
SIMPLEPUSH = UserInspection(
    {},
    replace(RECORD, router_type="simplepush", current_month=None),
    (UserTable("storage", None, PendingMessages()),),
)


def of_user(**changes: object) -> Facts:
    return replace(FACTS, user=replace(USER, **changes))


@pytest.mark.parametrize(
    ("facts", "rule", "words"),
    [
        (replace(FACTS, endpoint=None), Rule.TOKEN_OF_OTHER_KEYS, "404, errno 102"),
        (
            replace(FACTS, url=URL._replace(version="v2")),
            Rule.OTHER_VERSION,
            "the URL names v2, and its token is that of a v1 endpoint",
        ),
        (replace(FACTS, user=None), Rule.USER_GONE, "410, errno 103"),
        (of_user(record=None), Rule.RECORD_INCOMPLETE, "410, errno 103"),
        (
            replace(BRIDGED, user=UserInspection({}, replace(PHONE, critical_failure="no app id"))),
            Rule.CRITICAL_FAILURE,
            "410, errno 105: the bridge can never reach this device as it is registered (no app",
        ),
        (
            replace(BRIDGED, bridges=frozenset(("apns",))),
            Rule.BRIDGE_NOT_CONFIGURED,
            "400, errno 108: the bridge fcm is not configured here",
        ),
        (BRIDGED, Rule.BRIDGED, "passed to the bridge fcm"),
        (
            replace(FACTS, url=URL._replace(is_simplepush=True)),
            Rule.OTHER_ROUTER_TYPE,
            "the URL is one of SimplePush, and the user agent is registered as webpush",
        ),
        (
            replace(FACTS, user=SIMPLEPUSH),
            Rule.OTHER_ROUTER_TYPE,
            "the URL is none of SimplePush, and the user agent is registered as simplepush",
        ),
        (
            of_user(tables=(), missing_table="message_2026_08"),
            Rule.TABLE_GONE,
            "410, errno 106, and the user dropped: its message table message_2026_08 is gone",
        ),
        (
            of_user(tables=(), missing_table=""),
            Rule.TABLE_GONE,
            "its record names no message table",
        ),
        (
            of_user(tables=(UserTable("message", frozenset(("x",)), PendingMessages()),)),
            Rule.CHANNEL_NOT_SUBSCRIBED,
            "410, errno 106",
        ),
        (FACTS, Rule.NOT_CONNECTED, "is stored, and delivered when the user agent connects again"),
        (replace(FACTS, node=NodeAnswer.DONE), Rule.CONNECTED, "delivered at once"),
        (replace(FACTS, node=NodeAnswer.ABSENT), Rule.NOT_ON_ITS_NODE, "has no connection"),
        (replace(FACTS, node=NodeAnswer.UNREACHABLE), Rule.NODE_GONE, "Nothing listens"),
        (
            replace(FACTS, node=NodeAnswer.UNRESPONSIVE),
            Rule.NODE_UNRESPONSIVE,
            "does not answer",
        ),
        (replace(FACTS, node=NodeAnswer.BUSY), Rule.NODE_CANNOT_TELL, "does not say"),
    ],
)  # fmt: skip
def test_a_push_meets_the_rule_that_applies(facts: Facts, rule: Rule, words: str) -> None:
    verdict = judge(facts)
    assert verdict.rule is rule
    assert words in verdict.text


def test_every_answer_of_a_node_has_a_rule() -> None:
    rules = {judge(replace(FACTS, node=answer)).rule for answer in (None, *NodeAnswer)}
    assert len(rules) == len(NodeAnswer) + 1
    assert Arrival.NEVER not in {rule.arrival for rule in rules}


def test_users_of_simplepush_and_of_bridges_have_no_subscriptions_that_could_be_missing() -> None:
    facts = replace(FACTS, user=SIMPLEPUSH, url=URL._replace(is_simplepush=True))
    assert judge(facts).rule is Rule.NOT_CONNECTED
    gone = replace(SIMPLEPUSH, tables=(), missing_table="storage")
    assert judge(replace(facts, user=gone)).rule is Rule.NOT_CONNECTED
    assert judge(replace(BRIDGED, user=replace(DEVICE, missing_table=""))).rule is Rule.BRIDGED


@pytest.mark.parametrize(
    ("version", "endpoint", "is_simplepush", "fits"),
    [
        ("v1", ENDPOINT, False, True),
        (None, ENDPOINT, False, True),
        ("v2", RESTRICTED, False, True),
        ("v1", ENDPOINT, True, True),
        ("v1", RESTRICTED, False, False),
        (None, RESTRICTED, False, False),
        ("v2", ENDPOINT, False, False),
        ("v3", ENDPOINT, False, False),
        ("v3", RESTRICTED, False, False),
        ("v2", RESTRICTED, True, False),
    ],
)
def test_a_token_is_accepted_with_its_own_version_only(
    version: str | None, endpoint: Endpoint, is_simplepush: bool, fits: bool
) -> None:
    url = EndpointUrl(is_simplepush, version, "token")
    user = SIMPLEPUSH if is_simplepush else USER
    verdict = judge(replace(FACTS, url=url, endpoint=endpoint, user=user))
    assert (verdict.rule is Rule.OTHER_VERSION) is not fits


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("https://push.example/wpush/v2/abc", EndpointUrl(False, "v2", "abc")),
        ("https://other.example:8/base/wpush/v1/a-_b\n", EndpointUrl(False, "v1", "a-_b")),
        ("/push/abc", EndpointUrl(False, None, "abc")),
        ("http://a/spush/v1/abc/", EndpointUrl(True, "v1", "abc")),
        ("wpush/v12/abc", EndpointUrl(False, "v12", "abc")),
        ("http://a/m/abc", None),
        ("http://a/wpush/", None),
        ("", None),
    ],
)
def test_the_endpoint_is_found_in_a_url_of_any_host(text: str, found: EndpointUrl | None) -> None:
    assert parse_endpoint_url(text) == found
