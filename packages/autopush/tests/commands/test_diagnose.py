"""`autopush diagnose`: what is printed, and the rules that decide what becomes of a push."""

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from autopush import cli
from autopush.delivery.calls import Outcome
from autopush.delivery.diagnosis import Arrival, EndpointUrl, Facts, Rule, judge, parse_endpoint_url
from autopush.keys import save_keys, service_keys
from autopush.store.inspection import PendingMessages, UserInspection, UserTable
from autopush.store.tables import message_table, router_table, storage_table
from autopush.store.users import UserRecord
from autopush.webpush.identifiers import CHANNELS_ROW
from autopush.webpush.tokens import Endpoint, EndpointTokens, KeyRing, key_hash, new_key
from keytables import Engine, Item, Value
from support.cases import cases
from support.data_store import CHANNEL, DataStore, Run, uaid
from support.node_server import node_at
from support.service import service
from support.sockets import unused_port

UAID = uaid(1)
DEVICE_TOKEN = "a-secret-device-token"


@pytest.fixture
def tokens(store: DataStore) -> EndpointTokens:
    """Endpoints under the keys of the data folder."""
    return EndpointTokens(
        KeyRing(save_keys(service_keys((), (), store.data)).crypto), "https://push.example"
    )


@pytest.fixture
def url(tokens: EndpointTokens) -> str:
    """The endpoint of the user agent that has number 1."""
    return tokens.url(UAID, CHANNEL, None)


def change_record(store: DataStore, **attributes: Value) -> None:
    async def change(engine: Engine) -> None:
        table = await engine.open_table(router_table("router"))
        await table.put((await table.get((UAID,)) or {}) | attributes)

    store.use(change)


def last_lines(out: str) -> tuple[str, str]:
    heading, explanation = out.splitlines()[-2:]
    return heading, explanation


def document(answer: tuple[int, str, str]) -> Mapping[str, object]:
    code, out, err = answer
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


# ── What is printed ──────────────────────────────────────────────────────────────────────────────


def test_record_channels_and_what_waits_are_printed(store: DataStore, run: Run, url: str) -> None:
    store.add_users(range(1, 2))

    async def add(engine: Engine) -> None:
        table = await engine.open_table(message_table("message"))
        for number, hours in enumerate((3, 2)):
            row: Item = {
                "uaid": UAID,
                "chidmessageid": f"02:170000000000000{number}:{CHANNEL}",
                "ttl": 90_000,
                "timestamp": int(time.time()) - hours * 3600 - 60,
                "updateid": f"version-{number}",
                "data": "c2VjcmV0",
                "headers": {"encoding": "aes128gcm"},
            }
            await table.put(row)

    store.use(add)
    code, out, err = run("diagnose", url)
    assert (code, err) == (0, "")
    head, _, rest = out.partition("\n\n")
    assert head.splitlines() == [f"UAID: {UAID}", f"CHID: {CHANNEL.replace('-', '')}"]
    assert rest.startswith("Router record:\n{'connected_at': 1,\n 'current_month': 'message',\n")
    assert "Channels in message table message: 1\n" in rest
    assert f"  {CHANNEL} (this endpoint)\n" in rest
    assert "Pending: 2, of this channel 2, 12 bytes, stored 3 h to 2 h ago\n" in rest
    assert last_lines(out)[0] == "A push would arrive later: not connected"
    assert "c2VjcmV0" not in out


def test_the_key_hash_of_a_restricted_endpoint_is_printed(
    store: DataStore, run: Run, tokens: EndpointTokens
) -> None:
    store.add_users(range(1, 2))
    restricted = tokens.url(UAID, CHANNEL, b"key")
    code, out, _ = run("diagnose", restricted.replace("push.example", "elsewhere.example"))
    assert code == 0
    assert f"\nKey hash: {key_hash(b'key').hex()}\n" in out
    assert last_lines(out)[0] == "A push would arrive later: not connected"


def test_tokens_and_credentials_of_a_device_are_not_printed(
    store: DataStore, run: Run, url: str
) -> None:
    store.add_users(range(1, 2))
    secrets: dict[str, Value] = {
        "token": DEVICE_TOKEN,
        "app_id": "my-app",
        "creds": {"auth": DEVICE_TOKEN, "deep": {"list": frozenset((DEVICE_TOKEN,))}},
        "pin": 4711,
    }
    change_record(
        store,
        router_type="fcm",
        router_data=secrets,
        wake_data={"ip": "10.1.2.3"},
        new_attribute=DEVICE_TOKEN,
    )
    for words in ((), ("--json",)):
        code, out, _ = run("diagnose", url, *words)
        assert code == 0
        for secret in (DEVICE_TOKEN, "4711", "10.1.2.3"):
            assert secret not in out
        assert f"<{len(DEVICE_TOKEN)} characters>" in out
        assert "my-app" in out


def test_json_has_everything(store: DataStore, run: Run, url: str) -> None:
    store.add_users(range(1, 2))
    found = document(run("diagnose", "--json", url))
    assert found["rule"] == "not connected"
    assert found["arrives"] == "later"
    assert (found["uaid"], found["channel"], found["key_hash"]) == (UAID, CHANNEL, None)
    assert isinstance(found["record"], dict)
    assert found["record"]["router_type"] == "webpush"
    pending = {"count": 0, "of_channel": 0, "bytes": 0, "oldest": None, "newest": None}
    pending |= {"expired": 0, "has_more": False}
    assert found["tables"] == [{"name": "message", "channels": [CHANNEL], "pending": pending}]


def test_many_channels_are_cut_short_but_not_this_one(store: DataStore, run: Run, url: str) -> None:
    store.add_users(range(1, 2))
    chids = frozenset(f"00000000-0000-0000-0000-{number:012}" for number in range(80)) | {CHANNEL}

    async def add(engine: Engine) -> None:
        table = await engine.open_table(message_table("message"))
        await table.put({"uaid": UAID, "chidmessageid": CHANNELS_ROW, "chids": chids})

    store.use(add)
    out = run("diagnose", url)[1]
    assert f": 81\n  {CHANNEL} (this endpoint)\n  00000000-" in out
    assert "\n  and 31 more\n" in out
    tables = document(run("diagnose", "--json", url))["tables"]
    assert isinstance(tables, list)
    assert len(tables[0]["channels"]) == 81


# ── What the original says ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["nonsense", "https://push.example/m/abc", ""])
def test_what_is_no_endpoint_is_refused_before_the_store_is_opened(run: Run, text: str) -> None:
    assert run("diagnose", text) == (1, "", "autopush: Not a valid endpoint\n")


def test_a_token_of_other_keys_is_an_invalid_token(store: DataStore, run: Run, url: str) -> None:
    code, out, err = run("diagnose", url, "--crypto-key", new_key())
    assert (code, err) == (1, "autopush: Invalid Token\n")
    assert out.startswith("Token could not be deciphered: ")
    assert out.endswith(" Are you using the correct configuration or platform?\n")
    code, out, _ = run("diagnose", "--json", url[:-4])
    assert code == 1
    assert json.loads(out)["rule"] == "token of other keys"


def test_a_user_without_record_is_not_found(store: DataStore, run: Run, url: str) -> None:
    store.add_users(range(2, 3))
    code, out, err = run("diagnose", url)
    assert (code, err) == (1, "autopush: Not Found\n")
    assert "\nItem Missing from database: " in out
    assert last_lines(out)[0] == "A push would not arrive: user gone"


def test_the_script_of_the_original_does_the_same(
    store: DataStore, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    store.add_users(range(1, 2))
    assert cli.endpoint_diagnostic([url]) == 0
    assert capfd.readouterr().out.startswith(f"UAID: {UAID}\n")
    assert cli.endpoint_diagnostic(["nonsense"]) == 1


# ── Why a push would not arrive ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("attributes", "rule"),
    [
        ({"router_type": 5}, "record incomplete"),
        ({"current_month": "message_2020_01"}, "message table gone"),
        ({"router_type": "simplepush"}, "URL of another router type"),
        ({"router_type": "fcm"}, "bridge not configured"),
        ({"router_type": "stub", "critical_failure": "no app"}, "critical failure"),
        ({"router_type": "stub"}, "passed to a bridge"),
        ({"node_id": "nonsense"}, "node restarted"),
    ],
)
def test_the_record_decides(
    store: DataStore, run: Run, url: str, attributes: dict[str, Value], rule: str
) -> None:
    store.add_users(range(1, 2))
    change_record(store, **attributes)
    assert document(run("diagnose", "--json", "--stub-router", url))["rule"] == rule


def test_a_channel_that_is_not_subscribed(
    store: DataStore, run: Run, tokens: EndpointTokens
) -> None:
    store.add_users(range(1, 2))
    other = tokens.url(UAID, CHANNEL.replace("1", "9"), None)
    code, out, _ = run("diagnose", other)
    assert code == 0
    assert last_lines(out)[0] == "A push would not arrive: channel not subscribed"
    assert "(this endpoint)" not in out


def test_a_node_where_nothing_listens(store: DataStore, run: Run, url: str) -> None:
    store.add_users(range(1, 2))
    node = node_at(unused_port())
    change_record(store, node_id=node)
    code, out, _ = run("diagnose", url)
    assert code == 0
    assert f"\nNode {node}: nothing listens there now" in out
    assert last_lines(out)[0] == "A push would arrive later: node gone"


async def test_a_running_service_says_whether_the_user_agent_is_connected(
    store: DataStore, installed: Run, tmp_path: Path
) -> None:
    async with service(store.data) as running:

        async def diagnose(url: str) -> Mapping[str, object]:
            return document(
                await asyncio.to_thread(installed, "autopush", "diagnose", "--json", url)
            )

        agent = await running.connect()
        _, url = await agent.register()
        found = await diagnose(url)
        assert (found["rule"], found["arrives"]) == ("connected", "now")
        await agent.close()
        found = await diagnose(url)
        assert found["rule"] in ("not connected to the node on record", "not connected")
        assert found["arrives"] == "later"
        assert running.errors == []


# ── Errors at the start ──────────────────────────────────────────────────────────────────────────


def test_without_keys_there_is_nothing_to_read_a_token_with(store: DataStore, run: Run) -> None:
    code, out, err = run("diagnose", "https://push.example/wpush/v1/abc")
    assert (code, out) == (3, "")
    assert err.startswith(f"autopush: there is no store at {store.data}/autopush.sqlite: ")
    assert list(store.data.iterdir()) == []
    store.make_tables("router")
    _, _, err = run("diagnose", "https://push.example/wpush/v1/abc")
    assert err.startswith(f"autopush: there is no {store.data}/keys/crypto_key: name the data fold")


def test_a_missing_store_is_an_error_and_is_not_created(
    store: DataStore, run: Run, url: str
) -> None:
    code, out, err = run("diagnose", url)
    assert (code, out) == (3, "")
    assert err.startswith(f"autopush: there is no store at {store.data}/autopush.sqlite: ")
    store.make_tables("message")
    assert "there is no table router in the store" in run("diagnose", url)[2]
    assert store.tables() == ["message"]


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


@cases(
    ("facts", "rule", "words"),
    [
        (replace(FACTS, endpoint=None), Rule.TOKEN_OF_OTHER_KEYS, ""),
        (
            replace(FACTS, url=URL._replace(version="v2")),
            Rule.OTHER_VERSION,
            "the URL names v2, and its token is that of a v1 endpoint",
        ),
        (replace(FACTS, user=None), Rule.USER_GONE, ""),
        (of_user(record=None), Rule.RECORD_INCOMPLETE, ""),
        (
            replace(BRIDGED, user=UserInspection({}, replace(PHONE, critical_failure="no app id"))),
            Rule.CRITICAL_FAILURE,
            "(no app id)",
        ),
        (
            replace(BRIDGED, bridges=frozenset(("apns",))),
            Rule.BRIDGE_NOT_CONFIGURED,
            "the bridge fcm is not configured here",
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
            "its message table message_2026_08 is gone",
        ),
        (of_user(tables=(), missing_table=""), Rule.TABLE_GONE, "names no message table"),
        (
            of_user(tables=(UserTable("message", frozenset(("x",)), PendingMessages()),)),
            Rule.CHANNEL_NOT_SUBSCRIBED,
            "",
        ),
        (FACTS, Rule.NOT_CONNECTED, ""),
        (replace(FACTS, node=Outcome.DONE), Rule.CONNECTED, ""),
        (replace(FACTS, node=Outcome.ABSENT), Rule.NOT_ON_ITS_NODE, ""),
        (replace(FACTS, node=Outcome.GONE), Rule.NODE_RESTARTED, ""),
        (replace(FACTS, node=Outcome.REFUSED), Rule.NODE_GONE, ""),
        (replace(FACTS, node=Outcome.SILENT), Rule.NODE_UNRESPONSIVE, ""),
        (replace(FACTS, node=Outcome.BUSY), Rule.NODE_CANNOT_TELL, ""),
        (
            replace(of_user(record=replace(RECORD, min_urgency="high")), node=Outcome.DONE),
            Rule.TAKES_HIGHER_URGENCY,
            "",
        ),
        (
            replace(of_user(record=replace(RECORD, min_urgency="low")), node=Outcome.DONE),
            Rule.CONNECTED,
            "",
        ),
    ],
)
def test_a_push_meets_the_rule_that_applies(facts: Facts, rule: Rule, words: str) -> None:
    verdict = judge(facts)
    assert verdict.rule is rule
    assert words in verdict.text
    assert "{" not in verdict.text


def test_every_answer_of_a_node_has_a_rule() -> None:
    outcomes = {None, *Outcome} - {Outcome.DISCARDED}
    rules = {judge(replace(FACTS, node=outcome)).rule for outcome in outcomes}
    assert len(rules) == len(outcomes)
    assert Arrival.NEVER not in {rule.arrival for rule in rules}


@cases(
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


@cases(
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


def test_an_endpoint_of_simplepush(store: DataStore, run: Run, url: str) -> None:
    store.add_users(range(1, 2))
    change_record(store, router_type="simplepush")

    async def add(engine: Engine) -> None:
        table = await engine.ensure_table(storage_table("storage"))
        await table.put({"uaid": UAID, "chid": CHANNEL, "version": 7})

    store.use(add)
    code, out, _ = run("diagnose", url.replace("/wpush/", "/spush/"))
    assert code == 0
    assert "\nVersions in table storage:\nPending: 1, of this channel 1\n" in out
    assert last_lines(out)[0] == "A push would arrive later: not connected"


def test_users_of_simplepush_and_of_bridges_have_no_subscriptions_that_could_be_missing() -> None:
    facts = replace(FACTS, user=SIMPLEPUSH, url=URL._replace(is_simplepush=True))
    assert judge(facts).rule is Rule.NOT_CONNECTED
    gone = replace(SIMPLEPUSH, tables=(), missing_table="storage")
    assert judge(replace(facts, user=gone)).rule is Rule.NOT_CONNECTED
    assert judge(replace(BRIDGED, user=replace(DEVICE, missing_table=""))).rule is Rule.BRIDGED
