"""Every option of the original, in its ini files and as its environment variables."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import pytest

from autopush.settings import Settings
from autopush.settings.declaration import OBSOLETE, VARIABLES, IniFile
from support.setting_sources import SettingSources

KEY = "Mghht5Ko9NLO4SPnxMb5vKuetGLJc743-6TUfE_je_A="
OTHER_KEY = "u5YfTbTTG8xyAtVLTxAUo4ReHgOLUGCh0vJGqZ5ZcIA="
FINGERPRINT = ":".join(["0A"] * 32)
GONE: Final = object()
"""The expected value of an option that is accepted, does nothing, and is named in a warning."""


class Row(NamedTuple):
    """An option as the original documents it: `variable` is empty where it has none."""

    option: str
    variable: str
    text: str
    value: object


SHARED = (
    Row("debug", "DEBUG", "true", True),
    Row("log_level", "LOG_LEVEL", "error", "error"),
    Row("log_output", "LOG_OUTPUT", "none", "none"),
    Row("firehose_stream_name", "STREAM_NAME", "stream", "stream"),
    Row("crypto_key", "CRYPTO_KEY", f"[{KEY}, {OTHER_KEY}]", (KEY, OTHER_KEY)),
    Row("key_hash", "KEY_HASH", "a key", "a key"),
    Row("datadog_api_key", "DATADOG_API_KEY", "api", "api"),
    Row("datadog_app_key", "DATADOG_APP_KEY", "app", "app"),
    Row("datadog_flush_interval", "DATADOG_FLUSH_INTERVAL", "20", 20.0),
    Row("hostname", "LOCAL_HOSTNAME", "push1.example", "push1.example"),
    Row("resolve_hostname", "RESOLVE_HOSTNAME", "true", True),
    Row("statsd_host", "STATSD_HOST", "statsd.example", "statsd.example"),
    Row("statsd_port", "STATSD_PORT", "8126", 8126),
    Row("ssl_key", "SSL_KEY", "/etc/key.pem", "/etc/key.pem"),
    Row("ssl_cert", "SSL_CERT", "/etc/cert.pem", "/etc/cert.pem"),
    Row("ssl_dh_param", "SSL_DH_PARAM", "/etc/dh.pem", "/etc/dh.pem"),
    Row("router_tablename", "ROUTER_TABLENAME", "prod_router", "prod_router"),
    Row("storage_tablename", "STORAGE_TABLENAME", "prod_storage", "prod_storage"),
    Row("message_tablename", "MESSAGE_TABLENAME", "prod_message", "prod_message"),
    Row("router_read_throughput", "ROUTER_READ_THROUGHPUT", "10", 10),
    Row("router_write_throughput", "ROUTER_WRITE_THROUGHPUT", "11", 11),
    Row("storage_read_throughput", "STORAGE_READ_THROUGHPUT", "12", 12),
    Row("storage_write_throughput", "STORAGE_WRITE_THROUGHPUT", "13", 13),
    Row("message_read_throughput", "MESSAGE_READ_THROUGHPUT", "14", 14),
    Row("message_write_throughput", "MESSAGE_WRITE_THROUGHPUT", "15", 15),
    Row("connection_timeout", "CONNECTION_TIMEOUT", "2", 2.0),
    Row("max_data", "MAX_DATA", "5630", 5630),
    Row("env", "AUTOPUSH_ENV", "production", "production"),
    Row("endpoint_scheme", "ENDPOINT_SCHEME", "https", "https"),
    Row("endpoint_hostname", "ENDPOINT_HOSTNAME", "p.example", "p.example"),
    Row("endpoint_port", "ENDPOINT_PORT", "443", 443),
    Row("human_logs", "HUMAN_LOGS", "true", True),
    Row("no_aws", "NO_AWS", "true", True),
    Row("msg_limit", "MSG_LIMIT", "200", 200),
    Row("memusage_port", "MEMUSAGE_PORT", "8083", 8083),
    Row("use_cryptography", "USE_CRYPTOGRAPHY", "true", GONE),
    Row("sts_max_age", "STS_MAX_AGE", "300", 300),
    Row("_no_sslcontext_cache", "_NO_SSLCONTEXT_CACHE", "true", GONE),
    Row("aws_ddb_endpoint", "AWS_LOCAL_DYNAMODB", "http://127.0.0.1:8000", "http://127.0.0.1:8000"),
    Row("no_table_rotation", "NO_TABLE_ROTATION", "true", True),
    Row("disable_simplepush", "DISABLE_SIMPLEPUSH", "true", True),
    Row("gcm_enabled", "GCM_ENABLED", "true", GONE),
    Row("gcm_ttl", "GCM_TTL", "120", 120),
    Row("gcm_dryrun", "GCM_DRYRUN", "true", True),
    Row("gcm_collapsekey", "GCM_COLLAPSEKEY", "simplepush", "simplepush"),
    Row("senderid_list", "SENDERID_LIST", '{"1": {"auth": "k"}}', {"1": {"auth": "k"}}),
    Row("gcm_endpoint", "GCM_ENDPOINT", "gcm.example/gcm/send", "https://gcm.example/gcm/send"),
    Row("fcm_enabled", "FCM_ENABLED", "true", GONE),
    Row("fcm_ttl", "FCM_TTL", "120", 120),
    Row("fcm_dryrun", "FCM_DRYRUN", "true", True),
    Row("fcm_collapsekey", "FCM_COLLAPSEKEY", "simplepush", "simplepush"),
    Row("fcm_auth", "", "server-key", "server-key"),
    Row("fcm_senderid", "", "1234", "1234"),
    Row("fcm_creds", "FCM_CREDS", '{"1": {"projectid": "p"}}', {"1": {"projectid": "p"}}),
    Row("fcm_version", "FCM_VERSION", "0", 0),
    Row("apns_creds", "APNS_CREDS", '{"rel": {"cert": "c"}}', {"rel": {"cert": "c"}}),
    Row("adm_creds", "ADM_CREDS", '{"p": {"client_id": "i"}}', {"p": {"client_id": "i"}}),
    Row("wake_timeout", "WAKE_TIMEOUT", "4", 4.0),
    Row("wake_pem", "WAKE_PEM", "/etc/wake.pem", "/etc/wake.pem"),
    Row("wake_server", "WAKE_SERVER", "http://wake.example", "http://wake.example"),
    *(
        Row(option, "", "x", GONE)
        for option in (
            *("external_router", "max_message_size", "s3_bucket", "senderid_expry"),
            *("proxy_protocol", "apns_enabled", "apns_sandbox", "apns_cert_file", "apns_key_file"),
            *("fcm_project_id", "fcm_service_cred_path"),
        )
    ),
)

CONNECTION = (
    Row("port", "PORT", "8090", 8090),
    Row("router_hostname", "ROUTER_HOSTNAME", "node1.example", "node1.example"),
    Row("router_port", "ROUTER_PORT", "8091", 8091),
    Row("router_ssl_key", "ROUTER_SSL_KEY", "/etc/key.pem", "/etc/key.pem"),
    Row("router_ssl_cert", "ROUTER_SSL_CERT", "/etc/cert.pem", "/etc/cert.pem"),
    Row("auto_ping_interval", "AUTO_PING_INTERVAL", "300", 300.0),
    Row("auto_ping_timeout", "AUTO_PING_TIMEOUT", "10", 10.0),
    Row("max_connections", "MAX_CONNECTIONS", "250000", 250_000),
    Row("close_handshake_timeout", "CLOSE_HANDSHAKE_TIMEOUT", "5", 5.0),
    Row("hello_timeout", "HELLO_TIMEOUT", "20", 20.0),
    Row("megaphone_api_url", "MEGAPHONE_API_URL", "https://m.example/v1", "https://m.example/v1"),
    Row("megaphone_api_token", "MEGAPHONE_API_TOKEN", "Bearer x", "Bearer x"),
    Row("megaphone_poll_interval", "MEGAPHONE_POLL_INTERVAL", "60", 60.0),
)

ENDPOINT = (
    Row("port", "PORT", "8092", 8092),
    Row("no_cors", "ALLOW_CORS", "true", True),
    Row("auth_key", "AUTH_KEY", f"[{KEY}, {OTHER_KEY}]", (KEY, OTHER_KEY)),
    Row(
        "client_certs",
        "CLIENT_CERTS",
        f'{{"client": ["{FINGERPRINT}"]}}',
        {"client": (FINGERPRINT,)},
    ),
    Row("proxy_protocol_port", "PROXY_PROTOCOL_PORT", "8093", 8093),
)

TABLES = {IniFile.SHARED: SHARED, IniFile.CONNECTION: CONNECTION, IniFile.ENDPOINT: ENDPOINT}
COMMANDS = {
    IniFile.SHARED: ("connection", "endpoint"),
    IniFile.CONNECTION: ("connection",),
    IniFile.ENDPOINT: ("endpoint",),
}


CASES = [(file, command) for file, commands in COMMANDS.items() for command in commands]
"""Each file with each of the original's daemons that reads it."""


@pytest.fixture(autouse=True)
def resolvable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name has an address."""
    monkeypatch.setattr("autopush.settings.options.ipv4_address", lambda _: "192.0.2.7")


@pytest.mark.parametrize(("file", "command"), CASES)
def test_each_option_of_the_original_takes_effect_or_is_named(
    sources: SettingSources, file: IniFile, command: str
) -> None:
    files = (IniFile.SHARED, IniFile(command))
    for row in TABLES[file]:
        path = sources.write("weak", f"\n{row.option} = {row.text}\n", file)
        loaded = sources.load({}, needed(row), command=command, files=files)
        if row.value is GONE:
            start = f"{path}:2: {row.option} "
            assert [words.startswith(start) for words in loaded.warnings].count(True) == 1, row
            assert not hasattr(loaded.settings, row.option), row
        else:
            assert getattr(loaded.settings, row.option) == row.value, row
            assert row.value != getattr(Settings(command=command), row.option), row
            assert loaded.settings.sources[row.option].place == f"{path}:2", row


@pytest.mark.parametrize(("file", "command"), CASES)
def test_each_variable_of_the_original_takes_effect_or_is_named(
    sources: SettingSources, file: IniFile, command: str
) -> None:
    for row in (row for row in TABLES[file] if row.variable):
        loaded = sources.load({}, {**needed(row), row.variable: row.text}, command=command)
        if row.value is GONE:
            ignored = f"variable {row.variable} is ignored"
            assert any(ignored in words for words in loaded.warnings), row
        else:
            assert getattr(loaded.settings, row.option) == row.value, row
            assert loaded.settings.sources[row.option].place == row.variable, row


def needed(row: Row) -> dict[str, str]:
    return {"SSL_KEY": "key.pem"} if row.option == "client_certs" else {}


def test_no_option_of_the_original_is_left_out_here() -> None:
    rows = [row for table in TABLES.values() for row in table]
    assert VARIABLES.keys() - {"sentry_dsn"} <= {row.option for row in rows if row.variable}
    assert OBSOLETE.keys() <= {row.option for row in rows}


# ── Recipes of its documentation ──────────────────────────────────────────────────────────────────


class Recipe(NamedTuple):
    """Lines of files and variables, and what becomes of them: `refused` is part of the message."""

    files: Mapping[IniFile, str]
    environ: Mapping[str, str] = MappingProxyType({})
    settings: Mapping[str, object] = MappingProxyType({})
    warned: tuple[str, ...] = ()
    refused: str = ""


RECIPES = {
    "docker-compose": Recipe({}, {"CRYPTO_KEY": KEY}, {"crypto_key": (KEY,)}),
    "docker-compose with an empty key": Recipe(
        {IniFile.SHARED: f"crypto_key = {KEY}"}, {"CRYPTO_KEY": ""}, {"crypto_key": (KEY,)}
    ),
    "local DynamoDB": Recipe(
        {},
        {"AWS_LOCAL_DYNAMODB": "http://dynamodb:8000", "CRYPTO_KEY": KEY},
        {"store_url": "dynamodb://?endpoint=http://dynamodb:8000"},
    ),
    "a comment, disabled options and a value": Recipe(
        {IniFile.SHARED: "# A comment\n;debug\n;max_data=4096\nmax_data=5630\n"},
        settings={"max_data": 5630, "debug": False},
    ),
    "GCM of 1.33": Recipe(
        {
            IniFile.SHARED: 'gcm_enabled\nsenderid_list = {"1": {"auth": "k"}}\n'
            "gcm_ttl = 60\ngcm_dryrun = 0\ngcm_collapsekey = simplepush\n"
        },
        settings={"senderid_list": {"1": {"auth": "k"}}, "gcm_collapsekey": "simplepush"},
        warned=("gcm_enabled is obsolete and does nothing; see senderid_list",),
    ),
    "FCM of 1.33": Recipe(
        {IniFile.SHARED: "fcm_enabled\nfcm_auth = server-key\nfcm_senderid = 1\n"},
        settings={"fcm_auth": "server-key", "fcm_senderid": "1"},
        warned=("fcm_enabled is obsolete and does nothing; see fcm_creds",),
    ),
    "bad JSON": Recipe(
        {IniFile.SHARED: "senderid_list = {1: secret}"}, refused="senderid_list: not JSON"
    ),
    "server key and service account": Recipe(
        {IniFile.SHARED: 'fcm_auth = k\nfcm_senderid = 1\nfcm_creds = {"1": {"projectid": "p"}}\n'},
        settings={"fcm_auth": "k"},
        warned=("fcm_auth: does nothing with fcm_creds, unless fcm_version is 0",),
    ),
    "one certificate for two clients": Recipe(
        {IniFile.ENDPOINT: f'client_certs = {{"a": ["{FINGERPRINT}"], "b": ["{FINGERPRINT}"]}}'},
        refused="'a' and 'b' have the same fingerprint",
    ),
}


@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_of_the_original_works_or_is_refused_by_name(
    sources: SettingSources, name: str
) -> None:
    recipe = RECIPES[name]
    for file, text in recipe.files.items():
        sources.write("weak", text, file)
    if recipe.refused:
        refusal = sources.refusal({}, recipe.environ, command="endpoint")
        assert recipe.refused in refusal
        assert "secret" not in refusal
        return
    loaded = sources.load({}, recipe.environ, command="endpoint")
    for option, value in recipe.settings.items():
        assert getattr(loaded.settings, option) == value
    for words in recipe.warned:
        assert any(words in warning for warning in loaded.warnings), loaded.warnings
