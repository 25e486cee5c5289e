"""Which addresses a machine announces, and which of them only itself can reach."""

import socket
from dataclasses import replace

import pytest

from autopush.settings import Settings, StartupError, addresses, options
from autopush.settings.addresses import ipv4_address, is_loopback, own_address
from autopush.settings.declaration import IniFile
from support.cases import cases
from support.setting_sources import SettingSources

KNOWN = {"box": ["192.0.2.7", "2001:db8::7"], "debian": ["127.0.1.1"], "six": ["2001:db8::6"]}


@pytest.fixture(autouse=True)
def name_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Knows the hosts of `KNOWN`; the machine's own name is `box`."""

    def getaddrinfo(host: str, port: object, family: int = 0, *_: object, **__: object) -> object:
        found = [
            address
            for address in KNOWN.get(host, [])
            if family != socket.AF_INET or ":" not in address
        ]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(family, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "gethostname", lambda: "box")


@cases(
    ("host", "only_itself"),
    [
        *(("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True)),
        *(("debian", True), ("box", False), ("192.0.2.7", False), ("unknown", False)),
        *(("fe80::1%eth0", False), ("a" * 64 + ".example", False)),
    ],
)
def test_a_loopback_address_or_a_name_of_one_is_recognised(host: str, only_itself: bool) -> None:
    assert is_loopback(host) is only_itself


def test_a_name_is_resolved_to_its_ipv4_address_and_an_address_stays() -> None:
    assert ipv4_address("box") == "192.0.2.7"
    assert ipv4_address("192.0.2.9") == "192.0.2.9"
    assert ipv4_address("::1") == "::1"


@pytest.mark.parametrize("host", ["unknown", "six"])
def test_a_hostname_without_ipv4_address_stops_the_start(
    sources: SettingSources, host: str
) -> None:
    with pytest.raises(StartupError, match=host):
        ipv4_address(host)
    refusal = sources.refusal({"hostname": [host], "resolve_hostname": ["true"]})
    assert refusal.startswith(f"resolve_hostname: {host} has no IPv4 address")
    # A tool announces nothing, so it does not ask the name server.
    flags = {"HOSTNAME": host, "AUTOPUSH_RESOLVE_HOSTNAME": "1", "LOCAL_HOSTNAME": host}
    assert sources.load({}, flags, command="maintain").settings.resolve_hostname


@cases(
    ("settings", "host"),
    [
        (Settings(), "127.0.0.1"),
        (Settings(command="connection", host="0.0.0.0"), "box"),
        (Settings(store="dynamodb://", host="::"), "box"),
        (Settings(hostname="Push.example"), "push.example"),
        (Settings(command="connection", host="0.0.0.0", hostname="other"), "other"),
        (Settings(command="connection", host="0.0.0.0", resolve_hostname=True), "192.0.2.7"),
        (Settings(hostname="box", resolve_hostname=True), "192.0.2.7"),
    ],
)
def test_the_hostname_is_in_every_url_unless_one_has_its_own(settings: Settings, host: str) -> None:
    assert settings.public_endpoint_url == f"http://{host}:{settings.port_of_endpoints}"
    assert settings.public_websocket_url == f"ws://{host}:8080/"
    assert settings.node_url(8081) == f"http://{host}:8081"


def test_the_only_node_on_every_interface_has_its_hostname_in_public_urls_alone() -> None:
    settings = Settings(host="0.0.0.0")
    assert settings.public_endpoint_url == "http://box:8080"
    assert settings.public_websocket_url == "ws://box:8080/"
    assert settings.node_url(8081) == "http://127.0.0.1:8081"


def test_endpoint_hostname_and_router_hostname_override_the_hostname() -> None:
    settings = Settings(hostname="box", router_hostname="node", endpoint_hostname="push")
    assert settings.node_url(1) == "http://node:1"
    assert settings.public_endpoint_url == "http://push:8080"
    assert settings.public_websocket_url == "ws://push:8080/"
    with_two_ports = replace(settings, endpoint_port=8082)
    assert with_two_ports.public_endpoint_url == "http://push:8082"
    assert with_two_ports.public_websocket_url == "ws://box:8080/"


@cases(
    ("settings", "local"),
    [
        (Settings(), True),
        (Settings(hostname="debian"), True),
        (Settings(hostname="box"), False),
        (Settings(host="0.0.0.0"), True),
        (Settings(store="dynamodb://", host="0.0.0.0"), False),
        (Settings(hostname="box", router_hostname="localhost.example"), False),
        (Settings(hostname="box", router_hostname="::1"), True),
    ],
)
def test_a_node_is_local_when_its_url_means_another_machine_elsewhere(
    settings: Settings, local: bool
) -> None:
    assert settings.node_is_local is local


@cases(
    ("settings", "listens", "called"),
    [
        (Settings(), "127.0.0.1", "127.0.0.1"),
        (Settings(host="192.0.2.9"), "192.0.2.9", "192.0.2.9"),
        (Settings(host="0.0.0.0"), "127.0.0.1", "127.0.0.1"),
        (Settings(host="::", hostname="box"), "127.0.0.1", "127.0.0.1"),
        (Settings(host="0.0.0.0", router_host="::1"), "::1", "[::1]"),
        (Settings(host="0.0.0.0", router_host="0.0.0.0"), "0.0.0.0", "box"),
        (Settings(host="0.0.0.0", router_host="192.0.2.8", hostname="box"), "192.0.2.8", "box"),
        (Settings(command="connection", host="0.0.0.0"), "198.51.100.3", "box"),
        (Settings(store="dynamodb://", host="::"), "198.51.100.3", "box"),
        (Settings(router_hostname="node", host="0.0.0.0"), "198.51.100.3", "node"),
        (Settings(router_hostname="gone", host="0.0.0.0"), "0.0.0.0", "gone"),
        (Settings(router_hostname="node", host="192.0.2.9"), "192.0.2.9", "node"),
        (Settings(router_hostname="node", router_host="192.0.2.9"), "192.0.2.9", "node"),
        (Settings(router_hostname="localhost", host="0.0.0.0"), "127.0.0.1", "localhost"),
        (Settings(router_hostname="127.0.0.1", host="0.0.0.0"), "127.0.0.1", "127.0.0.1"),
        (Settings(router_hostname="[::1]", host="::"), "::1", "[::1]"),
        (Settings(hostname="localhost", store="dynamodb://", host="::"), "127.0.0.1", "localhost"),
        (Settings(router_hostname="debian", host="0.0.0.0"), "0.0.0.0", "debian"),
    ],
)
def test_the_internal_port_is_not_on_every_interface_only_because_the_others_are(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, listens: str, called: str
) -> None:
    own = {"box": "198.51.100.3", "node": "198.51.100.3"}
    monkeypatch.setattr(options, "own_address", lambda name: own.get(name, ""))
    assert settings.router_address == listens
    assert settings.node_host == called
    everywhere = settings.router_hostname in ("gone", "debian")
    assert settings.router_is_everywhere is everywhere


def test_an_own_address_is_one_that_this_machine_has_and_others_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def getaddrinfo(*_: object, **__: object) -> list[object]:
        kind = socket.SOCK_STREAM
        of_others, of_this = "192.0.2.77", "127.0.0.1"
        return [
            (socket.AF_INET, kind, 6, "", (address, 0))
            for address in ("127.0.1.1", of_others, of_this)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert own_address("node") == ""
    only = ["127.0.1.1"]
    monkeypatch.setattr(addresses, "is_loopback", lambda address: address in only)
    assert own_address("node") == "127.0.0.1"
    only.clear()
    assert own_address("node") == "", "others may reach either"


def test_a_name_that_nobody_knows_is_no_own_address() -> None:
    assert own_address("no.such.name.invalid") == ""
    assert own_address("a" * 64) == ""


# ── Where it listens ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", IniFile)
@pytest.mark.parametrize("command", ["connection", "endpoint"])
def test_with_an_ini_file_of_the_original_its_daemons_listen_on_every_interface(
    sources: SettingSources, command: str, file: IniFile
) -> None:
    path = sources.write("weak", "max_data = 4096\n", file)
    files = (IniFile.SHARED, IniFile(command))
    expected = "0.0.0.0" if file in files else "127.0.0.1"
    assert sources.load(command=command, files=files).settings.host == expected
    for command_of_ours in ("serve", "maintain"):
        assert sources.load(command=command_of_ours).settings.host == "127.0.0.1"
    path.write_text("host = 192.0.2.7\n")
    if file in files:
        assert sources.load(command=command, files=files).settings.host == "192.0.2.7"


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_a_file_of_the_original_with_a_local_name_keeps_metrics_from_everybody(
    sources: SettingSources, name: str
) -> None:
    sources.write("weak", f"router_hostname = {name}\n", IniFile.CONNECTION)
    settings = sources.load(command="connection").settings
    assert (settings.host, settings.router_address) == ("0.0.0.0", "127.0.0.1")


@pytest.mark.parametrize("command", ["connection", "endpoint"])
def test_without_one_they_listen_on_loopback_also_with_a_toml_file(
    sources: SettingSources, command: str
) -> None:
    assert sources.load(command=command).settings.host == "127.0.0.1"
    sources.write_toml("weak", "max_data = 4096\n")
    assert sources.load(command=command).settings.host == "127.0.0.1"
    sources.write("weak", "max_data = 4096\n")
    sources.write_toml("weak", 'host = "::1"\n')
    assert sources.load(command=command).settings.host == "::1"
