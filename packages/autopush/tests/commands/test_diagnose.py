"""`autopush diagnose URL`, as an operator runs it."""

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from autopush import cli
from autopush.keys import save_keys, service_keys
from autopush.store.tables import message_table, router_table, storage_table
from autopush.webpush.endpoint_token import EndpointTokens, key_hash
from autopush.webpush.identifiers import CHANNELS_ROW
from autopush.webpush.keyring import KeyRing, new_key
from keytables import Engine, Item, Value
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


def test_as_an_installed_program(store: DataStore, installed: Run, url: str) -> None:
    store.add_users(range(1, 2))
    code, out, err = installed("autopush", "diagnose", url)
    assert (code, err) == (0, "")
    assert out.startswith(f"UAID: {UAID}\n")
    assert installed("autopush", "diagnose", "x")[::2] == (1, "autopush: Not a valid endpoint\n")


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
        ({"node_id": "nonsense"}, "node gone"),
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


def test_a_node_where_nothing_listens(store: DataStore, run: Run, url: str) -> None:
    store.add_users(range(1, 2))
    node = node_at(unused_port())
    change_record(store, node_id=node)
    code, out, _ = run("diagnose", url)
    assert code == 0
    assert f"\nNode {node}: it is gone: nothing listens there, or another process\n" in out
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
    assert err == f"autopush: there is no store at {store.data}/autopush.sqlite\n"
    assert list(store.data.iterdir()) == []
    store.make_tables("router")
    _, _, err = run("diagnose", "https://push.example/wpush/v1/abc")
    assert err.startswith(f"autopush: there is no {store.data}/keys/crypto_key: name the data fold")


def test_a_missing_store_is_an_error_and_is_not_created(
    store: DataStore, run: Run, url: str
) -> None:
    code, out, err = run("diagnose", url)
    assert (code, out) == (3, "")
    assert err == f"autopush: there is no store at {store.data}/autopush.sqlite\n"
    store.make_tables("message")
    assert "there is no table router in the store" in run("diagnose", url)[2]
    assert store.tables() == ["message"]
