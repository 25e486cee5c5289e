"""Options that exclude, need or outdo each other."""

from pathlib import Path

import pytest

from autopush.settings import OPTIONS
from autopush.settings.combinations import NEEDED
from autopush.settings.declaration import IniFile
from support.setting_sources import SettingSources

FINGERPRINT = ":".join(["0A"] * 32)
CHANGED = {
    "acme_directory": "https://acme.example",
    "acme_eab_key": "AAAA",
    "acme_email": "ann@push.example",
    "console_port": "8000",
    "datadog_flush_interval": "5",
    "fcm_priority": "normal",
    "fcm_ttl": "90",
    "http_port": "8000",
    "gcm_ttl": "90",
    "megaphone_poll_interval": "5",
    "wake_server": "https://wake.example",
}
GIVEN = {
    "acme_eab_key": "AAAA",
    "console": "true",
    "domain": "push.example",
    "senderid_list": '{"1": {"auth": "k"}}',
    "fcm_creds": '{"1": {"projectid": "p", "auth": "f"}}',
    "megaphone_api_url": "https://megaphone.example",
    "wake_timeout": "4",
}
BY_NAME = {option.name: option for option in OPTIONS}


@pytest.mark.parametrize(
    ("other", "refusal"),
    [
        ({}, "endpoint_url must name the public URL"),
        ({"endpoint_url": "https://p.example", "endpoint_port": "0"}, "leave endpoint_port out"),
        ({"endpoint_url": "https://p.example", "ssl_key": "k"}, "leave ssl_key out"),
    ],
)
def test_what_a_unix_socket_needs_and_what_it_excludes(
    sources: SettingSources, other: dict[str, str], refusal: str
) -> None:
    given = {name: [text] for name, text in {"host": "unix:/run/p.sock", **other}.items()}
    assert refusal in sources.refusal(given)


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_an_option_that_does_nothing_without_another_is_a_warning(
    sources: SettingSources, name: str
) -> None:
    option = BY_NAME[name]
    text = CHANGED.get(name, "true" if option.value_type.is_flag else "x")
    path = sources.write("weak", f"\n{name} = {text}\n")
    expected = f"{path}:2: {name}: does nothing without {' or '.join(NEEDED[name])}"
    assert sources.load().warnings == (expected,)
    for other in NEEDED[name]:
        path.write_text(f"{name} = {text}\n{other} = {GIVEN.get(other, 'x')}\n")
        assert expected.partition(":")[2] not in str(sources.load().warnings)
        assert not [words for words in sources.load().warnings if f" {name}: " in words]


def test_an_option_that_states_its_default_or_belongs_to_another_command_is_no_warning(
    sources: SettingSources,
) -> None:
    sources.write("weak", "gcm_ttl = 60\nfcm_dryrun = off\n")
    assert sources.load().warnings == ()
    sources.write("weak", "gcm_ttl = 90\ndata = /srv/autopush\n")
    assert sources.load(command="connection").warnings == ()
    assert len(sources.load(command="endpoint").warnings) == 1


def test_capacity_of_tables_does_nothing_with_the_embedded_store(sources: SettingSources) -> None:
    path = sources.write("weak", "router_read_throughput = 50\n")
    warning = f"{path}:1: router_read_throughput: does nothing with the embedded store"
    assert sources.load().warnings == (warning,)
    assert sources.load({}, {"AWS_LOCAL_DYNAMODB": "http://127.0.0.1:8000"}).warnings == ()


@pytest.mark.parametrize(
    ("lines", "warned"),
    [
        ("'127.0.0.1'\nrouter_hostname = '192.0.2.7'", True),
        ("'127.0.0.1'\nrouter_hostname = '192.0.2.7'\nrouter_scheme = 'https'", False),
        ("'192.0.2.7'\nrouter_hostname = '192.0.2.7'", False),
        ("'127.0.0.1'", False),
    ],
)
def test_an_internal_port_where_nodes_do_not_look_for_it_is_a_warning(
    sources: SettingSources, lines: str, warned: bool
) -> None:
    path = sources.write_toml("weak", f"router_host = {lines}\n")
    expected = f"{path}:1: router_host: nodes that call 192.0.2.7 do not reach 127.0.0.1"
    assert sources.load(command="connection").warnings == ((expected,) if warned else ())
    assert sources.load(command="serve").warnings == ()


def test_client_certificates_without_tls_are_refused_and_named(sources: SettingSources) -> None:
    path = sources.write("weak", f'client_certs = {{"one": ["{FINGERPRINT}"]}}\n')
    refusal = f"{path}:1: client_certs: client certificates need TLS: ssl_key and ssl_cert"
    assert sources.refusal() == sources.refusal(command="endpoint") == refusal
    assert sources.load(command="connection").settings.client_certs
    assert sources.load({}, {"SSL_KEY": "k", "SSL_CERT": "c"}).settings.client_certs


# ── A domain ──────────────────────────────────────────────────────────────────────────────────────


def test_a_domain_decides_ports_address_and_urls(sources: SettingSources) -> None:
    sources.write("weak", "domain = Push.Example, b.example\n")
    settings = sources.load().settings
    assert settings.on_every_interface
    assert (settings.port, settings.http_port, settings.is_supervised) == (443, 80, True)
    assert settings.public_endpoint_url == "https://push.example"
    assert settings.public_websocket_url == "wss://push.example/"
    assert settings.own_names >= {"push.example", "b.example"}
    assert settings.needs_data_folder
    given = {"host": ["127.0.0.1"], "port": ["8443"], "http_port": ["8000"]}
    changed = sources.load(given).settings
    assert changed.public_endpoint_url == "https://push.example:8443"
    assert (changed.host, changed.https_port, changed.http_port) == ("127.0.0.1", 8443, 8000)
    behind = sources.load(given | {"endpoint_url": ["https://push.example"]}).settings
    assert (behind.public_websocket_url, behind.https_port) == ("wss://push.example/", 443)
    tool = sources.load(command="user").settings
    assert tool.public_websocket_url == "wss://push.example/"


@pytest.mark.parametrize("other", ["ssl_cert", "ssl_key"])
def test_a_domain_and_files_exclude_each_other(sources: SettingSources, other: str) -> None:
    path = sources.write("weak", f"domain = push.example\n{other} = x.pem\n")
    refusal = sources.refusal()
    assert refusal.startswith(f"{path}:1: domain: with it the service gets its own certificate")
    assert other in refusal


def test_only_serve_gets_a_certificate(sources: SettingSources) -> None:
    sources.write("weak", "domain = push.example\n")
    for command in ("connection", "endpoint"):
        assert "only `autopush serve`" in sources.refusal(command=command)


# ── Where the original kept its tables ────────────────────────────────────────────────────────────


@pytest.fixture
def boto(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The `boto.cfg` of the original's docker-compose file, mounted at its place."""
    path = tmp_path / "boto.cfg"
    path.write_text("[Boto]\nis_secure = False\nproxy_port = 8000\nproxy = dynamodb\n")
    monkeypatch.setattr("autopush.settings.combinations.BOTO_FILES", (str(path),))
    return path


@pytest.mark.parametrize("command", ["connection", "endpoint"])
def test_a_file_of_the_original_that_names_no_store_is_a_warning(
    sources: SettingSources, command: str
) -> None:
    path = sources.write("weak", "router_tablename = prod_router\n", IniFile.SHARED)
    (warning,) = sources.load(command=command).warnings
    assert warning.startswith(f"{path} is a file of the original, which keeps its tables in Dyn")
    assert warning.endswith("For DynamoDB set store = dynamodb://REGION")
    assert sources.load(command="serve").warnings == ()
    for given in ({"data": ["/srv"]}, {"store": ["dynamodb://"]}):
        assert sources.load(given, command=command).warnings == ()
    environ = {"AWS_LOCAL_DYNAMODB": "http://127.0.0.1:8000"}
    assert sources.load({}, environ, command=command).warnings == ()


@pytest.mark.parametrize("flags", [{}, {"store": ["dynamodb://us-east-1"]}])
def test_a_database_named_in_a_boto_file_is_a_warning(
    sources: SettingSources,
    boto: Path,
    flags: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (warning,) = sources.load(flags, command="connection").warnings
    assert warning.startswith(f"{boto}: the address of a local DynamoDB is not read there")
    assert "aws_ddb_endpoint" in warning
    assert sources.load(flags, {"BOTO_CONFIG": str(boto)}, command="serve").warnings == ()
    for given in ({"aws_ddb_endpoint": ["http://127.0.0.1:1"]}, {"data": ["/srv/autopush"]}):
        assert sources.load(given, command="connection").warnings == ()
    boto.write_bytes(b"\xff")
    assert sources.load(flags, command="connection").warnings == ()
    monkeypatch.setattr("autopush.settings.combinations.BOTO_FILES", (str(boto.parent),))
    assert sources.load(flags, command="connection").warnings == ()
    monkeypatch.setattr("autopush.settings.combinations.BOTO_FILES", (str(boto),))
    boto.write_text("[Credentials]\naws_access_key_id = x\n")
    assert sources.load(flags, command="connection").warnings == ()
