import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush import settings_network
from autopush.settings import OPTIONS, Settings, StartupError
from autopush.settings_kinds import boolean
from autopush.settings_reference import render_reference, render_sample
from autopush.settings_sources import OBSOLETE, Loaded, load
from autopush.settings_table import DAEMONS, EVERYONE, IniFile, Option
from keytables.stores import parse_store

KEY = "HJVPy4ZwF4Yz_JdvXTL8hRcwIhv742vC60Tg5Ycrvw8="
OTHER_KEY = "u5YfTbTTG8xyAtVLTxAUo4ReHgOLUGCh0vJGqZ5ZcIA="


class Sources:
    """Loads settings from a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, place: str, text: str, file: IniFile = IniFile.SHARED) -> Path:
        path = self.folder / place / file.file_name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def load(
        self,
        flags: Mapping[str, Sequence[str]] | None = None,
        environ: Mapping[str, str] | None = None,
        named: Mapping[IniFile, str] | None = None,
        command: str = "serve",
        files: Sequence[IniFile] = tuple(IniFile),
    ) -> Loaded:
        places = (f"{self.folder}/weak/{{}}", f"{self.folder}/strong/{{}}")
        environ = {"XDG_DATA_HOME": str(self.folder), **(environ or {})}
        return load(
            flags or {}, environ, command=command, named_files=named, files=files, places=places
        )

    def refused(
        self,
        flags: Mapping[str, Sequence[str]] | None = None,
        environ: Mapping[str, str] | None = None,
        command: str = "serve",
    ) -> str:
        with pytest.raises(StartupError) as caught:
            self.load(flags, environ, command=command)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        return str(caught.value)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


# The table


def test_every_option_says_what_it_is_for() -> None:
    for option in OPTIONS:
        assert len(option.help) > 15, option.name
        assert not option.help.endswith("."), option.name
        assert option.kind.expected
        assert option.group
        assert option.default_text or option.default not in ("", None, ()), option.name


def test_every_default_has_the_type_of_its_field() -> None:
    hints = typing.get_type_hints(Settings)
    for option in OPTIONS:
        hint = hints[option.name]
        default = getattr(Settings(), option.name)
        if typing.get_origin(hint) is tuple:
            assert default == ()
        else:
            assert isinstance(default, hint), option.name


SAMPLES: dict[str, str] = {
    "HOST": "push.example.org",
    "PORT": "1234",
    "NUMBER": "7",
    "UNITS": "7",
    "TEXT": "words",
    "DIR": "/srv/autopush",
    "BYTES": "5630",
    "SECONDS": "60",
    "NAME": "router_2",
    "KEY": KEY,
    "BOOLEAN": "true",
}


def sample_of(name: str) -> str:
    option = next(option for option in OPTIONS if option.name == name)
    if option.kind.metavar == "URL":
        others = {"websocket_url": "wss://p.example", "store": "dynamodb://eu-west-1"}
        return others.get(name, "https://p.example")
    return SAMPLES.get(option.kind.metavar) or option.kind.metavar.rpartition("|")[2]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_source_reaches_every_option_with_a_value_of_the_fields_type(
    sources: Sources, option: Option
) -> None:
    text = sample_of(option.name)
    given = [sources.load({option.name: [text]})]
    given += [sources.load({}, {variable: text}) for variable in option.env]
    sources.write("weak", f"{option.name} = {text}\n")
    given.append(sources.load())
    hint = typing.get_type_hints(Settings)[option.name]
    for loaded in given:
        value = getattr(loaded.settings, option.name)
        assert value != getattr(Settings(), option.name)
        if typing.get_origin(hint) is tuple:
            assert value == (text,)
        else:
            assert isinstance(value, hint)


def test_no_two_options_share_a_name() -> None:
    for names in (
        [option.flag for option in OPTIONS] + [o.off_flag for o in OPTIONS if o.kind is boolean],
        [option.short for option in OPTIONS if option.short],
        [variable for option in OPTIONS for variable in option.env],
    ):
        assert len(names) == len(set(names))
    assert not OBSOLETE & {option.name for option in OPTIONS}


def test_bare_port_and_env_and_debug_variables_are_left_to_others(sources: Sources) -> None:
    loaded = sources.load({}, {"PORT": "1", "ENV": "x", "DEBUG": "*", "HOST": "::", "WORKERS": "9"})
    assert loaded == sources.load()


def test_defaults_are_the_documented_ones(sources: Sources) -> None:
    settings = sources.load().settings
    assert (settings.port, settings.endpoint_port, settings.router_port) == (8080, 8082, 8081)
    assert (settings.host, settings.workers) == ("127.0.0.1", 1)
    assert settings.data == sources.folder / "autopush"


def test_a_relative_xdg_folder_is_ignored(
    sources: Sources, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = sources.load({}, {"XDG_DATA_HOME": "relative"}).settings
    assert settings.data == tmp_path / ".local" / "share" / "autopush"


# What each daemon makes of them


DAEMONS_FILES = {
    "connection": (IniFile.SHARED, IniFile.CONNECTION),
    "endpoint": (IniFile.SHARED, IniFile.ENDPOINT),
}


def test_every_option_has_a_command_and_every_command_says_where_to_log_and_to_store() -> None:
    for option in OPTIONS:
        assert set(option.commands) <= set(EVERYONE)
        assert set(option.commands) & set(DAEMONS)
    for command in EVERYONE:
        names = {option.name for option in OPTIONS if command in option.commands}
        assert {"store", "data", "router_tablename", "key_hash", "log_output"} <= names


def test_both_daemons_of_the_original_have_a_port_each(sources: Sources) -> None:
    sources.write("weak", "port = 1111", IniFile.CONNECTION)
    sources.write("weak", "port = 2222", IniFile.ENDPOINT)
    for command, port in (("connection", 1111), ("endpoint", 2222)):
        files = DAEMONS_FILES[command]
        assert sources.load(command=command, files=files).settings.port == port
        given = sources.load(None, {"PORT": "3333"}, command=command, files=files).settings
        assert given.port == 3333
        given = sources.load({"port": ["4"]}, {"PORT": "3"}, command=command, files=files).settings
        assert given.port == 4


def test_the_port_of_an_endpoint_is_8082_and_in_its_urls_unless_these_have_another(
    sources: Sources,
) -> None:
    settings = sources.load(command="endpoint").settings
    assert (settings.port, settings.endpoint_port) == (8082, 8082)
    settings = sources.load({"port": ["9000"]}, command="endpoint").settings
    assert (settings.port, settings.public_endpoint_url) == (9000, "http://127.0.0.1:9000")
    shared = {"ENDPOINT_PORT": "443", "ENDPOINT_SCHEME": "https", "ENDPOINT_HOSTNAME": "p.example"}
    settings = sources.load({}, shared, command="endpoint").settings
    assert (settings.port, settings.public_endpoint_url) == (8082, "https://p.example")
    assert settings.public_websocket_url == "ws://127.0.0.1:8080/"


def test_a_daemon_reads_only_its_own_file_and_the_shared_one(sources: Sources) -> None:
    for file in IniFile:
        sources.write("weak", f"{file}_tablename = x\n", file)
    for command, files in DAEMONS_FILES.items():
        with pytest.raises(StartupError, match="autopush_shared"):
            sources.load(command=command, files=files)
    sources.write("weak", "max_data = 5000", IniFile.SHARED)
    for command, files in DAEMONS_FILES.items():
        with pytest.raises(StartupError, match=f"autopush_{command}"):
            sources.load(command=command, files=files)


def test_only_the_ports_a_command_listens_on_must_differ(sources: Sources) -> None:
    same = {"port": ["8082"], "router_port": ["8082"]}
    assert sources.load(same, command="endpoint").settings.port == 8082
    refusal = "router_port and port are both 8082; each needs its own"
    assert sources.refused(same, command="connection") == refusal
    assert sources.load({"port": ["8082"]}, command="connection").settings.endpoint_port == 8082


def test_a_connection_node_must_know_the_port_of_endpoint_urls(sources: Sources) -> None:
    unknown = {"endpoint_port": ["0"]}
    assert "endpoint_port" in sources.refused(unknown, command="connection")
    known = unknown | {"endpoint_url": ["https://p.example"]}
    assert sources.load(known, command="connection").settings.endpoint_port == 0


# Store


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
def test_the_store_is_what_was_named_else_where_the_endpoint_is_else_in_the_data_folder(
    sources: Sources, flags: dict[str, list[str]], url: str
) -> None:
    settings = sources.load(flags).settings
    assert settings.store_url == url
    assert settings.is_embedded == url.startswith("sqlite:")
    parse_store(url)


def test_a_store_that_cannot_be_understood_says_why_and_what_was_expected(
    sources: Sources,
) -> None:
    for text, why in (
        ("mysql://x", "sqlite:///PATH or dynamodb://REGION"),
        ("autopush.sqlite", "sqlite:///PATH or dynamodb://REGION"),
        ("dynamodb://x?endpont=http://a:1", "did you mean endpoint?"),
    ):
        refusal = sources.refused({"store": [text]})
        assert refusal.startswith("--store: ")
        assert why in refusal
        assert "\n" not in refusal
    assert "geheim" not in sources.refused({"store": ["dynamodb://me:geheim@eu-west-1"]})


def test_what_a_user_is_owed_and_months_follow_from_the_store_unless_told() -> None:
    embedded, dynamodb = Settings(), Settings(store="dynamodb://")
    assert (embedded.store_first, embedded.rotates) == (True, False)
    assert (dynamodb.store_first, dynamodb.rotates) == (False, True)
    for store in ("", "dynamodb://"):
        assert Settings(store=store, direct_delivery="store-first").store_first
        assert not Settings(store=store, direct_delivery="bypass").store_first
        assert Settings(store=store, no_table_rotation=False).rotates
        assert not Settings(store=store, no_table_rotation=True).rotates


def test_a_throughput_means_provisioned_units_unless_the_capacity_says_otherwise() -> None:
    assert Settings().units("router") is None
    some = Settings(message_read_throughput=10)
    assert some.units("message") == (10, 5)
    assert some.units("router") == some.units("storage") == (5, 5)
    assert Settings(capacity="provisioned").units("router") == (5, 5)
    assert Settings(capacity="on-demand", router_read_throughput=9).units("router") is None


@pytest.mark.parametrize(
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
def test_the_data_folder_is_needed_for_the_store_and_for_keys_that_were_not_given(
    settings: Settings, needed: bool
) -> None:
    assert settings.needs_data_folder == needed


def test_where_no_data_folder_is_needed_none_must_be_found(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", homeless)
    environ = {"XDG_DATA_HOME": "", "AUTOPUSH_STORE": "dynamodb://", "CRYPTO_KEY": KEY}
    with pytest.raises(StartupError, match="name a folder with --data"):
        sources.load({}, environ)
    sources.load({}, environ, command="connection")


# Order of the sources


def test_a_later_source_replaces_an_earlier_one(sources: Sources) -> None:
    assert sources.load().settings.max_data == 4096
    sources.write("weak", "max_data = 1001")
    assert sources.load().settings.max_data == 1001
    sources.write("strong", "max_data = 1002")
    assert sources.load().settings.max_data == 1002
    sources.write("weak", "max_data = 1003", IniFile.CONNECTION)
    assert sources.load().settings.max_data == 1003
    sources.write("weak", "max_data = 1004", IniFile.ENDPOINT)
    assert sources.load().settings.max_data == 1004
    named = {IniFile.ENDPOINT: str(sources.write("elsewhere", "max_data = 1005"))}
    assert sources.load(named=named).settings.max_data == 1005
    environ = {"MAX_DATA": "1006"}
    assert sources.load({}, environ, named).settings.max_data == 1006
    environ["AUTOPUSH_MAX_DATA"] = "1007"
    assert sources.load({}, environ, named).settings.max_data == 1007
    assert sources.load({"max_data": ["1008"]}, environ, named).settings.max_data == 1008


def test_keys_of_a_stronger_source_replace_the_others_and_keep_their_order(
    sources: Sources,
) -> None:
    sources.write("weak", f"crypto_key = {KEY}\ncrypto_key = {OTHER_KEY}\n")
    assert sources.load().settings.crypto_key == (KEY, OTHER_KEY)
    loaded = sources.load({}, {"CRYPTO_KEY": f"[{OTHER_KEY}, '{KEY}']"})
    assert loaded.settings.crypto_key == (OTHER_KEY, KEY)
    loaded = sources.load({"crypto_key": [KEY, OTHER_KEY]}, {"CRYPTO_KEY": OTHER_KEY})
    assert loaded.settings.crypto_key == (KEY, OTHER_KEY)


@pytest.mark.parametrize("nothing", ["", "  ", "[]", '[""]', '""', "''"])
@pytest.mark.parametrize("name", ["crypto_key", "auth_key"])
def test_an_empty_key_counts_as_not_given(sources: Sources, name: str, nothing: str) -> None:
    sources.write("weak", f"{name} = {KEY}")
    sources.write("strong", f"{name} = {nothing}")
    environ = {name.upper(): nothing, f"AUTOPUSH_{name.upper()}": nothing}
    loaded = sources.load({name: [nothing]}, environ)
    assert getattr(loaded.settings, name) == (KEY,)


def test_an_empty_variable_hides_nothing(sources: Sources) -> None:
    sources.write("weak", "endpoint_hostname = a.example\nport = 99\nno_cors\n")
    environ = {option.env[0]: "" for option in OPTIONS} | {"ENDPOINT_HOSTNAME": ""}
    settings = sources.load({}, environ).settings
    assert (settings.endpoint_hostname, settings.port, settings.no_cors) == ("a.example", 99, True)


# Ini files


def test_a_file_has_comments_bare_flags_lists_quotes_and_sections(sources: Sources) -> None:
    sources.write(
        "weak",
        f"""\ufeff# a comment
; another
[autopush]
  max_data=5630   # bytes
--msg-limit = 7 ; of the seed's flags
no_cors
debug = off # for now
env = "a # b ; c"
endpoint_url: https://push.example.org:443/
auth_key = [ "{KEY}", plain ]
hello_timeout = .5
""",
    )
    settings = sources.load().settings
    assert (settings.max_data, settings.msg_limit) == (5630, 7)
    assert (settings.no_cors, settings.debug) == (True, False)
    assert settings.env == "a # b ; c"
    assert settings.endpoint_url == "https://push.example.org"
    assert settings.auth_key == (KEY, "plain")
    assert settings.hello_timeout == 0.5


def test_the_endpoints_own_port_is_the_endpoint_port(sources: Sources) -> None:
    sources.write("weak", "port = 1111", IniFile.CONNECTION)
    sources.write("weak", "port = 2222", IniFile.ENDPOINT)
    settings = sources.load().settings
    assert (settings.port, settings.endpoint_port) == (1111, 2222)


def test_an_unknown_option_stops_the_start_with_line_and_closest_name(sources: Sources) -> None:
    path = sources.write("weak", "# first\n\nmax_dta = 3\n")
    assert sources.refused() == f"{path}:3: unknown option 'max_dta'; did you mean 'max_data'?"
    path = sources.write("weak", "statsd_host = localhost\n")
    assert sources.refused().startswith(f"{path}:1: unknown option 'statsd_host'")


def test_a_line_that_is_not_an_option_stops_the_start(sources: Sources) -> None:
    path = sources.write("weak", "port 8080\n")
    assert sources.refused() == f"{path}:1: expected `option = value`"
    path = sources.write("weak", "port\n")
    assert sources.refused() == f"{path}:1: port needs a value: port = PORT"


def test_an_obsolete_option_is_a_warning(sources: Sources) -> None:
    path = sources.write("weak", "external_router\nwake_timeout = 3\n")
    loaded = sources.load()
    assert loaded.settings == Settings(data=loaded.settings.data)
    assert [warning.split(": ")[0] for warning in loaded.warnings] == [f"{path}:1", f"{path}:2"]


def test_an_option_given_twice_in_a_file_is_a_warning(sources: Sources) -> None:
    path = sources.write("weak", "port = 1\nport = 2\n")
    loaded = sources.load()
    assert loaded.settings.port == 2
    assert loaded.warnings[0].startswith(f"{path}:2: port was given before")


def test_a_file_that_cannot_be_read_stops_the_start(sources: Sources) -> None:
    path = sources.folder / "weak" / IniFile.SHARED.file_name
    path.mkdir(parents=True)
    assert sources.refused() == f"cannot read {path}: Is a directory"
    path.rmdir()
    path.write_bytes(b"\xff\xfe")
    assert sources.refused() == f"cannot read {path}: it is not UTF-8 text"
    path.unlink()
    missing = str(sources.folder / "missing.ini")
    with pytest.raises(StartupError, match=r"missing\.ini: No such file"):
        sources.load(named={IniFile.SHARED: missing})


# Values that cannot be used

BAD = [
    ("port", "65536"),
    ("port", "-1"),
    ("port", "1_000"),
    ("port", "\u0663"),
    ("workers", "0"),
    ("max_data", "4k"),
    ("hello_timeout", "nan"),
    ("hello_timeout", "1e400"),
    ("connection_timeout", "0"),
    ("direct_delivery", "maybe"),
    ("debug", "perhaps"),
    ("endpoint_url", "push.example.org"),
    ("endpoint_url", "https://user@push.example.org"),
    ("endpoint_url", "https://push.example.org/?a"),
    ("endpoint_url", "https://push.example.org:99999"),
    ("websocket_url", "https://push.example.org"),
    ("endpoint_hostname", "https://push.example.org"),
    ("endpoint_hostname", "push.example.org:443"),
    ("router_tablename", "a b"),
    ("log_level", "loud"),
]


@pytest.mark.parametrize(("name", "text"), BAD)
def test_a_bad_value_names_its_source_and_what_was_expected(
    sources: Sources, name: str, text: str
) -> None:
    option = next(option for option in OPTIONS if option.name == name)
    expected = f"expected {option.kind.expected}, got {text!r}"
    assert sources.refused({name: [text]}) == f"{option.flag}: {expected}"
    variable = f"AUTOPUSH_{name.upper()}"
    assert sources.refused({}, {variable: text}) == f"environment variable {variable}: {expected}"
    path = sources.write("weak", f"\n{name} = {text}\n")
    assert sources.refused() == f"{path}:2: {name}: {expected}"


@pytest.mark.parametrize("name", ["crypto_key", "auth_key"])
@pytest.mark.parametrize("secret", [KEY[:-1] + " x", "geheim ist das", "gehe\tim"])
def test_a_bad_secret_is_never_shown(sources: Sources, name: str, secret: str) -> None:
    sources.write("weak", f"{name} = {secret}")
    for text in (
        sources.refused(),
        sources.refused({name: [secret]}),
        sources.refused({}, {name.upper(): secret}),
    ):
        assert secret[:4] not in text
        assert f"got {len(secret)} characters" in text


def test_a_key_that_lost_its_name_is_not_shown(sources: Sources) -> None:
    path = sources.write("weak", f"{KEY}\n")
    assert sources.refused() == f"{path}:1: unknown option"


def test_settings_do_not_show_their_secrets() -> None:
    shown = repr(Settings(crypto_key=(KEY,), auth_key=(KEY,), key_hash="geheim"))
    assert KEY not in shown
    assert "geheim" not in shown


def test_every_field_that_is_a_key_is_declared_secret() -> None:
    for field in fields(Settings):
        if "key" in field.name:
            assert not field.repr, field.name


def test_two_listeners_on_one_port_are_refused(sources: Sources) -> None:
    assert sources.refused({"port": ["8082"]}) == (
        "endpoint_port and port are both 8082; each needs its own"
    )
    free = {name: ["0"] for name in ("port", "endpoint_port", "router_port")}
    assert sources.load(free).settings.port == 0


def test_what_kubernetes_puts_into_a_port_variable_is_ignored(sources: Sources) -> None:
    loaded = sources.load({}, {"AUTOPUSH_PORT": "tcp://10.0.0.1:80", "AUTOPUSH_PORT_80_TCP": "x"})
    assert loaded.settings.port == 8080
    assert loaded.warnings == ("AUTOPUSH_PORT names a Kubernetes service, not a port: ignored",)


def test_a_misspelt_variable_is_a_warning(sources: Sources) -> None:
    loaded = sources.load({}, {"AUTOPUSH_MAXDATA": "1"})
    assert loaded.warnings == (
        "environment variable AUTOPUSH_MAXDATA is unknown; did you mean AUTOPUSH_MAX_DATA?",
    )


def test_allow_cors_keeps_its_inverted_meaning_with_a_warning(sources: Sources) -> None:
    loaded = sources.load({}, {"ALLOW_CORS": "1"})
    assert loaded.settings.no_cors
    assert "NO_CORS" in loaded.warnings[0]


@given(st.text())
def test_any_text_in_a_file_is_read_or_refused_in_one_line(text: str) -> None:
    from autopush.settings_sources import _ini_lines

    refusal = ""
    try:
        names = [name for _, name, _ in _ini_lines("f", text)]
    except StartupError as error:
        refusal, names = str(error), []
    assert all(name.isidentifier() for name in names)
    assert "\n" not in refusal


# What follows from the settings


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        (Settings(), "http://127.0.0.1:8082"),
        (Settings(endpoint_port=80), "http://127.0.0.1"),
        (Settings(endpoint_scheme="https", endpoint_port=443), "https://127.0.0.1"),
        (Settings(endpoint_scheme="https", endpoint_port=80), "https://127.0.0.1:80"),
        (Settings(endpoint_hostname="Push.Example.ORG"), "http://push.example.org:8082"),
        (Settings(host="0.0.0.0"), "http://box:8082"),
        (Settings(host="::"), "http://box:8082"),
        (Settings(host="::1"), "http://[::1]:8082"),
        (Settings(endpoint_url="https://p.example/x", endpoint_port=1), "https://p.example/x"),
    ],
)
def test_the_endpoint_url_is_canonical(
    settings: Settings, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_network, "gethostname", lambda: "box")
    assert settings.public_endpoint_url == address


@pytest.mark.parametrize(
    ("given_url", "canonical"),
    [
        ("https://push.example.org:443/", "https://push.example.org"),
        ("http://PUSH.example.org:80", "http://push.example.org"),
        ("https://push.example.org:8443//", "https://push.example.org:8443"),
        ("https://push.example.org/a/", "https://push.example.org/a"),
        ("http://[::1]:80/", "http://[::1]"),
    ],
)
def test_a_given_endpoint_url_becomes_canonical(
    sources: Sources, given_url: str, canonical: str
) -> None:
    settings = sources.load({"endpoint_url": [given_url]}).settings
    assert settings.public_endpoint_url == canonical


def test_the_websocket_url_has_a_path(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_network, "gethostname", lambda: "box")
    assert Settings().public_websocket_url == "ws://127.0.0.1:8080/"
    assert Settings(host="0.0.0.0", port=80).public_websocket_url == "ws://box/"
    for text, public in [("wss://p.example:443", "wss://p.example/"), ("ws://p/x", "ws://p/x")]:
        settings = sources.load({"websocket_url": [text]}).settings
        assert settings.public_websocket_url == public


def test_the_url_of_a_node_names_its_port_whatever_it_is() -> None:
    assert Settings().node_url(8081) == "http://127.0.0.1:8081"
    assert Settings(host="::1").node_url(80) == "http://[::1]:80"
    assert Settings(router_hostname="Node1.example").node_url(1) == "http://node1.example:1"


def test_strict_transport_security_is_for_https_only() -> None:
    assert Settings().hsts_max_age == 0
    assert Settings(endpoint_scheme="https").hsts_max_age == 31_536_000
    assert Settings(endpoint_url="https://p.example").hsts_max_age == 31_536_000
    assert Settings(endpoint_scheme="https", sts_max_age=0).hsts_max_age == 0
    assert Settings(sts_max_age=5).hsts_max_age == 5


def test_debug_lowers_the_log_level_unless_one_is_given() -> None:
    assert Settings().effective_log_level == "info"
    assert Settings(debug=True).effective_log_level == "debug"
    assert Settings(debug=True, log_level="error").effective_log_level == "error"


def test_bound_ports_replace_the_asked_for_ones() -> None:
    settings = Settings(port=0, endpoint_port=0, router_port=0)
    bound = settings.with_ports(port=1, endpoint_port=2, router_port=3)
    assert (bound.public_endpoint_url, bound.public_websocket_url) == (
        "http://127.0.0.1:2",
        "ws://127.0.0.1:1/",
    )


# Written out


def test_the_reference_has_a_row_for_every_option() -> None:
    lines = render_reference().splitlines()
    for option in OPTIONS:
        row = next(line for line in lines if line.startswith(f"| `{option.name}` |"))
        assert option.flag in row
        assert all(f"`{variable}`" in row for variable in option.env)
        assert row.replace(r"\|", "").count("|") == 6


def test_every_option_is_in_one_sample_file_and_the_samples_change_nothing(
    sources: Sources,
) -> None:
    samples = {file: render_sample(file) for file in IniFile}
    for option in OPTIONS:
        homes = {file for file, text in samples.items() if f"\n#{option.name} = " in text}
        both = {IniFile.CONNECTION, IniFile.ENDPOINT}
        assert homes == (both if option.name == "port" else {option.file})
    for file, text in samples.items():
        sources.write("weak", text, file)
    assert sources.load() == Loaded(Settings(data=sources.folder / "autopush"), ())


def test_a_sample_with_the_comment_signs_taken_off_states_the_defaults(sources: Sources) -> None:
    for file in IniFile:
        worded = {o.name for o in OPTIONS if o.default_text}
        lines = [
            line[1:]
            for line in render_sample(file).splitlines()
            if line[:1] == "#" and line[1:2].isalpha() and line[1:].split(" =")[0] not in worded
        ]
        sources.write("weak", "\n".join(lines), file)
    assert sources.load().settings == Settings(data=sources.folder / "autopush")
