"""The table of options, and what `Settings` computes from them."""

import itertools
import json
import socket
import typing
from dataclasses import fields
from types import UnionType
from typing import Any, Union

import pytest

from autopush.settings import OPTIONS, Option, Settings, StartupError
from autopush.settings.declaration import ALL_COMMANDS, DAEMONS, OBSOLETE, SHELL_TOOLS
from autopush.settings.value_types import BOOLEAN
from keytables.stores import parse_store
from support.cases import cases
from support.senders import Sender
from support.setting_sources import SettingSources

HINTS = typing.get_type_hints(Settings)
DEFAULTS = Settings()
KEY = "Mghht5Ko9NLO4SPnxMb5vKuetGLJc743-6TUfE_je_A="


# ── The table ─────────────────────────────────────────────────────────────────────────────────────


def test_every_option_has_help_a_default_and_commands() -> None:
    for option in OPTIONS:
        assert len(option.help) > 15, option
        assert not option.help.endswith("."), option
        assert option.value_type.expected, option
        assert option.group, option
        assert option.default_text or option.default not in ("", None, ()), option
        assert set(option.commands) <= {*ALL_COMMANDS, *SHELL_TOOLS}, option
        assert set(option.commands) & set(DAEMONS), option


def runtime_types(hint: object) -> tuple[type, ...]:
    """The classes of the values that a field may have."""
    members = typing.get_args(hint) if typing.get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(typing.get_origin(member) or member for member in members)


SAMPLES = {
    "HOST": "push.example.org",
    "PORT": "1234",
    "NUMBER": "7",
    "UNITS": "7",
    "TEXT": "words",
    "DIR": "/srv/autopush",
    "BYTES": "5630",
    "SECONDS": "90",
    "NAME": "router_2",
    "KEY": KEY,
    "NETWORK": "10.0.0.0/8",
    "RATE": "7/min",
    "SENDER": "mailto:ops@example.org",
    "PUBLIC_KEY": Sender().key_text,
    "BOOLEAN": "true",
    "URL": "https://p.example",
    "DOMAIN": "push.example.org",
    "EMAIL": "admin@example.org",
    "DSN": "https://key:secret@sentry.example/team/1",
    "JSON": '{"one": {"number": 1}}',
}
FINGERPRINT = ":".join(["0A"] * 32)
SAMPLES_BY_NAME = {
    "max_buffered_bytes": "1048576",
    "websocket_url": "wss://p.example",
    "store": "dynamodb://eu-west-1",
    "client_certs": f'{{"one": ["{FINGERPRINT}"]}}',
}


@cases("option", OPTIONS)
def test_every_source_sets_every_option_to_a_value_of_the_fields_type(
    sources: SettingSources, option: Option
) -> None:
    metavar = option.value_type.metavar
    text = SAMPLES_BY_NAME.get(option.name) or SAMPLES.get(metavar) or metavar.rpartition("|")[2]
    needed = {"SSL_KEY": "key.pem"} if option.name == "client_certs" else {}
    given = [sources.load({option.name: [text]}, needed)]
    given += [sources.load({}, needed | {variable: text}) for variable in option.env]
    path = sources.write("weak", f"{option.name} = {text}\n")
    given.append(sources.load({}, needed))
    path.unlink()
    path = sources.write_toml("weak", f"{option.name} = {json.dumps(text)}\n")
    given.append(sources.load({}, needed))
    path.unlink()
    hint = HINTS[option.name]
    for loaded in given:
        value = getattr(loaded.settings, option.name)
        assert value != getattr(DEFAULTS, option.name)
        if typing.get_origin(hint) is tuple:
            assert value == (text,)
        else:
            assert isinstance(value, runtime_types(hint))


def test_no_two_options_share_a_name() -> None:
    off_flags = [option.off_flag for option in OPTIONS if option.value_type is BOOLEAN]
    for names in (
        [option.flag for option in OPTIONS] + off_flags,
        [option.short for option in OPTIONS if option.short],
        [variable for option in OPTIONS for variable in option.env],
    ):
        assert len(names) == len(set(names))
    assert not OBSOLETE.keys() & {option.name for option in OPTIONS}


def test_the_options_of_a_group_stand_together() -> None:
    titles = [title for title, _ in itertools.groupby(OPTIONS, key=lambda option: option.group)]
    assert len(titles) == len(set(titles))


@cases("command", ALL_COMMANDS)
def test_every_command_can_choose_the_store_and_the_log_output(command: str) -> None:
    names = {option.name for option in OPTIONS if command in option.commands}
    assert {"store", "data", "router_tablename", "key_hash", "log_output"} <= names


def test_errors_are_explained_by_the_endpoint_unless_there_is_another_page() -> None:
    assert Settings(endpoint_url="https://p.example").errors_page == "https://p.example/errors"
    docs = "https://docs.example/errors.html"
    assert Settings(endpoint_url="https://p.example", errors_url=docs).errors_page == docs


def test_secrets_are_not_in_the_repr() -> None:
    shown = repr(Settings(crypto_key=(KEY,), auth_key=(KEY,), key_hash="geheim"))
    assert KEY not in shown
    assert "geheim" not in shown


def test_every_field_that_is_a_key_is_declared_secret() -> None:
    for field in fields(Settings):
        if "key" in field.name and "collapsekey" not in field.name and "ssl" not in field.name:
            assert not field.repr, field.name


# ── Trusted proxies ───────────────────────────────────────────────────────────────────────────────


def test_a_proxy_on_the_same_machine_is_trusted_unless_others_or_none_are_named(
    sources: SettingSources,
) -> None:
    def trusted(*texts: str) -> tuple[str, ...]:
        return sources.load({"trusted_proxies": list(texts)}).settings.trusted_networks

    assert trusted() == ("127.0.0.0/8", "::1/128")
    assert trusted("none") == ()
    assert trusted("10.0.0.0/8, 2001:db8::/32", "192.0.2.1") == (
        "10.0.0.0/8",
        "2001:db8::/32",
        "192.0.2.1",
    )


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/33", "proxy.example", "::/129", "10/8"])
def test_what_is_no_network_is_refused(sources: SettingSources, text: str) -> None:
    with pytest.raises(StartupError, match=f"expected networks such as .*, got '{text}'"):
        sources.load({"trusted_proxies": [text]})


# ── Public URLs ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def hostname(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "box")


@pytest.mark.usefixtures("hostname")
@pytest.mark.parametrize(
    ("settings", "address"),
    [
        (Settings(), "http://127.0.0.1:8080"),
        (Settings(endpoint_port=80), "http://127.0.0.1"),
        (Settings(endpoint_scheme="https", endpoint_port=443), "https://127.0.0.1"),
        (Settings(endpoint_scheme="https", endpoint_port=80), "https://127.0.0.1:80"),
        (Settings(endpoint_hostname="Push.Example.ORG"), "http://push.example.org:8080"),
        (Settings(host="0.0.0.0"), "http://box:8080"),
        (Settings(host="::"), "http://box:8080"),
        (Settings(host="::1"), "http://[::1]:8080"),
        (Settings(endpoint_url="https://p.example/x", endpoint_port=1), "https://p.example/x"),
        (Settings(ssl_key="key.pem"), "https://127.0.0.1:8080"),
        (Settings(ssl_key="key.pem", endpoint_scheme="http"), "http://127.0.0.1:8080"),
        (Settings(ssl_key="key.pem", endpoint_url="http://p.example"), "http://p.example"),
    ],
)
def test_the_endpoint_url_is_canonical(settings: Settings, address: str) -> None:
    assert settings.public_endpoint_url == address


def test_a_given_endpoint_url_becomes_canonical(sources: SettingSources) -> None:
    settings = sources.load({"endpoint_url": ["https://PUSH.example.org:443/"]}).settings
    assert settings.public_endpoint_url == "https://push.example.org"


@pytest.mark.parametrize("option", ["hostname", "endpoint_hostname", "router_hostname", "host"])
def test_a_given_host_becomes_canonical(sources: SettingSources, option: str) -> None:
    for given, canonical in (("[0:0:0:0:0:0:0:1]", "::1"), ("Push.Example.", "push.example")):
        settings = sources.load({option: [given]}).settings
        assert getattr(settings, option) == canonical


@pytest.mark.usefixtures("hostname")
@pytest.mark.parametrize(
    ("flags", "public"),
    [
        ({}, "ws://127.0.0.1:8080/"),
        ({"host": ["0.0.0.0"], "port": ["80"]}, "ws://box/"),
        ({"websocket_url": ["wss://p.example:443"]}, "wss://p.example/"),
        ({"websocket_url": ["ws://p/x"]}, "ws://p/x"),
        ({"ssl_key": ["key.pem"]}, "wss://127.0.0.1:8080/"),
        ({"ssl_key": ["key.pem"], "port": ["443"]}, "wss://127.0.0.1/"),
        ({"ssl_key": ["key.pem"], "websocket_url": ["ws://p"]}, "ws://p/"),
    ],
)
def test_the_websocket_url_is_canonical_and_has_a_path(
    sources: SettingSources, flags: dict[str, list[str]], public: str
) -> None:
    assert sources.load(flags).settings.public_websocket_url == public


@cases(
    ("settings", "seconds"),
    [
        (Settings(), 0),
        (Settings(endpoint_scheme="https"), 31_536_000),
        (Settings(endpoint_url="https://p.example"), 31_536_000),
        (Settings(ssl_key="key.pem"), 31_536_000),
        (Settings(ssl_key="key.pem", endpoint_scheme="http"), 0),
        (Settings(endpoint_scheme="https", sts_max_age=0), 0),
        (Settings(sts_max_age=5), 5),
    ],
)
def test_strict_transport_security_is_for_https_unless_configured(
    settings: Settings, seconds: int
) -> None:
    assert settings.hsts_max_age == seconds


@pytest.mark.parametrize(
    ("given", "interval"),
    [
        ({}, 0),
        ({"megaphone_api_url": "http://source.example"}, 300),
        ({"megaphone_api_url": "http://source.example", "auto_ping_interval": 0.0}, 0),
        ({"megaphone_api_url": "http://source.example", "auto_ping_interval": 60.0}, 60),
        ({"auto_ping_interval": 60.0}, 60),
    ],
)
def test_the_server_pings_if_there_are_broadcasts_unless_configured(
    given: dict[str, Any], interval: float
) -> None:
    assert Settings(**given).ping_interval == interval


def test_bound_ports_replace_the_configured_ones() -> None:
    settings = Settings(port=0, endpoint_port=0, router_port=0)
    bound = settings.with_ports(port=1, endpoint_port=2, router_port=3)
    assert (bound.public_endpoint_url, bound.public_websocket_url) == (
        "http://127.0.0.1:2",
        "ws://127.0.0.1:1/",
    )


# ── Store ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("flags", "url"),
    [
        ({"data": ["/srv/a b"]}, "sqlite:///srv/a%20b/autopush.sqlite"),
        ({"store": ["sqlite:///srv/x.sqlite"]}, "sqlite:///srv/x.sqlite"),
        ({"aws_ddb_endpoint": ["http://a:1"]}, "dynamodb://?endpoint=http://a:1"),
        (
            {"store": ["dynamodb://eu-west-1"], "aws_ddb_endpoint": ["http://a:1"]},
            "dynamodb://eu-west-1?endpoint=http://a:1",
        ),
        (
            {"store": ["dynamodb://x?prefix=a"], "aws_ddb_endpoint": ["http://a:1"]},
            "dynamodb://x?prefix=a&endpoint=http://a:1",
        ),
        (
            {"store": ["dynamodb://x?endpoint=http://b:2"], "aws_ddb_endpoint": ["http://a:1"]},
            "dynamodb://x?endpoint=http://b:2",
        ),
        (
            {"store": ["sqlite:///srv/x.sqlite"], "aws_ddb_endpoint": ["http://a:1"]},
            "sqlite:///srv/x.sqlite",
        ),
    ],
)
def test_the_store_is_the_named_one_else_the_local_dynamodb_else_in_the_data_folder(
    sources: SettingSources, flags: dict[str, list[str]], url: str
) -> None:
    settings = sources.load(flags).settings
    assert settings.store_url == url
    assert settings.is_embedded == url.startswith("sqlite:")
    parse_store(url)


@cases(
    ("settings", "store_first", "rotates"),
    [
        (Settings(), True, False),
        (Settings(store="dynamodb://"), False, True),
        (Settings(direct_delivery="bypass", no_table_rotation=False), False, True),
        (Settings(direct_delivery="store-first", no_table_rotation=True), True, False),
        (
            Settings(store="dynamodb://", direct_delivery="bypass", no_table_rotation=False),
            False,
            True,
        ),
        (
            Settings(store="dynamodb://", direct_delivery="store-first", no_table_rotation=True),
            True,
            False,
        ),
    ],
)
def test_delivery_and_table_rotation_follow_from_the_store_unless_configured(
    settings: Settings, store_first: bool, rotates: bool
) -> None:
    assert (settings.store_first, settings.rotates) == (store_first, rotates)


@cases(
    ("settings", "table", "units"),
    [
        (Settings(), "router", None),
        (Settings(message_read_throughput=10), "message", (10, 5)),
        (Settings(message_read_throughput=10), "router", (5, 5)),
        (Settings(message_read_throughput=10), "storage", (5, 5)),
        (Settings(capacity="provisioned"), "router", (5, 5)),
        (Settings(capacity="on-demand", router_read_throughput=9), "router", None),
    ],
)
def test_a_throughput_means_provisioned_units_unless_the_capacity_is_on_demand(
    settings: Settings, table: str, units: tuple[int, int] | None
) -> None:
    assert settings.units(table) == units


@cases(
    ("settings", "needed"),
    [
        (Settings(), True),
        (Settings(store="dynamodb://"), True),
        (Settings(store="dynamodb://", crypto_key=(KEY,)), True),
        (Settings(store="dynamodb://", crypto_key=(KEY,), auth_key=(KEY,)), False),
        (Settings(store="dynamodb://", crypto_key=(KEY,), command="connection"), False),
        (Settings(store="dynamodb://", crypto_key=(KEY,), command="endpoint"), True),
        (Settings(store="sqlite:///x", crypto_key=(KEY,), command="connection"), False),
        (Settings(crypto_key=(KEY,), auth_key=(KEY,)), True),
    ],
)
def test_the_data_folder_is_needed_for_the_embedded_store_and_for_keys_that_are_not_configured(
    settings: Settings, needed: bool
) -> None:
    assert settings.needs_data_folder == needed


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        (Settings(), "info"),
        (Settings(debug=True), "debug"),
        (Settings(debug=True, log_level="error"), "error"),
    ],
)
def test_debug_lowers_the_log_level_unless_one_is_configured(
    settings: Settings, level: str
) -> None:
    assert settings.effective_log_level == level


@pytest.mark.parametrize(
    ("settings", "port", "url"),
    [
        (Settings(), 8081, "http://127.0.0.1:8081"),
        (Settings(host="::1"), 80, "http://[::1]:80"),
        (Settings(router_hostname="Node1.example"), 1, "http://node1.example:1"),
    ],
)
def test_the_url_of_a_node_always_names_its_port(settings: Settings, port: int, url: str) -> None:
    assert settings.node_url(port) == url
