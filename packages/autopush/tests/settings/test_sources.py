"""Settings from ini files, environment variables and flags, and how they are merged."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from autopush.settings import OPTIONS, Settings, StartupError
from autopush.settings.declaration import (
    NEVER_OPTIONS,
    OBSOLETE,
    VARIABLES,
    IniFile,
    reason_for_absence,
)
from autopush.settings.value_types import PUBLISHED_KEYS
from support.setting_sources import SettingSources

KEY = "Mghht5Ko9NLO4SPnxMb5vKuetGLJc743-6TUfE_je_A="
OTHER_KEY = "u5YfTbTTG8xyAtVLTxAUo4ReHgOLUGCh0vJGqZ5ZcIA="


def test_variables_without_prefix_that_other_programs_use_are_not_read(
    sources: SettingSources,
) -> None:
    loaded = sources.load({}, {"PORT": "1", "ENV": "x", "DEBUG": "*", "HOST": "::", "WORKERS": "9"})
    assert loaded == sources.load()


def test_defaults_are_the_documented_ones(sources: SettingSources) -> None:
    settings = sources.load().settings
    assert (settings.port, settings.port_of_endpoints, settings.router_port) == (8080, 8080, 8081)
    assert (settings.host, settings.workers) == ("127.0.0.1", 1)
    assert settings.data == sources.folder / "autopush"


def test_a_relative_xdg_folder_is_ignored(
    sources: SettingSources, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = sources.load({}, {"XDG_DATA_HOME": "relative"}).settings
    assert settings.data == tmp_path / ".local" / "share" / "autopush"


# ── Commands ──────────────────────────────────────────────────────────────────────────────────────


DAEMON_FILES = {
    "connection": (IniFile.SHARED, IniFile.CONNECTION),
    "endpoint": (IniFile.SHARED, IniFile.ENDPOINT),
}


@pytest.mark.parametrize(("command", "port"), [("connection", 1111), ("endpoint", 2222)])
def test_both_daemons_of_the_original_have_a_port_each(
    sources: SettingSources, command: str, port: int
) -> None:
    sources.write("weak", "port = 1111", IniFile.CONNECTION)
    sources.write("weak", "port = 2222", IniFile.ENDPOINT)
    files = DAEMON_FILES[command]
    assert sources.load(command=command, files=files).settings.port == port
    loaded = sources.load(None, {"PORT": "3333"}, command=command, files=files)
    assert loaded.settings.port == 3333
    loaded = sources.load({"port": ["4"]}, {"PORT": "3"}, command=command, files=files)
    assert loaded.settings.port == 4


def test_the_port_of_an_endpoint_is_8082_and_in_its_urls_unless_these_have_another(
    sources: SettingSources,
) -> None:
    settings = sources.load(command="endpoint").settings
    assert (settings.port, settings.port_of_endpoints) == (8082, 8082)
    settings = sources.load({"port": ["9000"]}, command="endpoint").settings
    assert (settings.port, settings.public_endpoint_url) == (9000, "http://127.0.0.1:9000")
    shared = {"ENDPOINT_PORT": "443", "ENDPOINT_SCHEME": "https", "ENDPOINT_HOSTNAME": "p.example"}
    settings = sources.load({}, shared, command="endpoint").settings
    assert (settings.port, settings.public_endpoint_url) == (8082, "https://p.example")
    assert settings.public_websocket_url == "ws://127.0.0.1:8080/"


def test_the_file_of_a_package_is_weaker_than_all_others_and_changes_no_default(
    sources: SettingSources,
) -> None:
    path = sources.folder / "autopush.ini"
    path.write_text("max_data = 1000\nport = 1111\n")
    sources.write("weak", "port = 2222", IniFile.CONNECTION)
    files = DAEMON_FILES["connection"]
    settings = sources.load(command="connection", files=files).settings
    assert (settings.max_data, settings.port) == (1000, 2222)
    path.write_text("max_data = many\n")
    assert sources.refusal().startswith(f"{path}:1: max_data: ")
    sources.load(command="send", files=())  # an ordinary user, who may not read it


def test_the_host_of_a_daemon_is_loopback_unless_the_originals_files_are_there(
    sources: SettingSources,
) -> None:
    (sources.folder / "autopush.ini").write_text("max_data = 1000\n")
    files = DAEMON_FILES["connection"]
    assert sources.load(command="connection", files=files).settings.host == "127.0.0.1"


@pytest.mark.parametrize("command", ["connection", "endpoint"])
def test_a_daemon_reads_only_its_own_file_and_the_shared_one(
    sources: SettingSources, command: str
) -> None:
    for file in IniFile:
        sources.write("weak", f"{file}_tablename = x\n", file)
    with pytest.raises(StartupError, match="autopush_shared"):
        sources.load(command=command, files=DAEMON_FILES[command])
    sources.write("weak", "max_data = 5000", IniFile.SHARED)
    with pytest.raises(StartupError, match=f"autopush_{command}"):
        sources.load(command=command, files=DAEMON_FILES[command])


def test_only_the_ports_a_command_listens_on_must_differ(sources: SettingSources) -> None:
    same = {"AUTOPUSH_PORT": "8082", "ROUTER_PORT": "8082"}
    assert sources.load({}, same, command="endpoint").settings.port == 8082
    refusal = "router_port and port are both 8082; each needs its own"
    assert sources.refusal({}, same, command="connection") == refusal
    assert sources.load({"port": ["8082"]}, command="connection").settings.port_of_endpoints == 8082


def test_the_internal_ports_of_further_workers_are_no_others_and_exist(
    sources: SettingSources,
) -> None:
    flags = {"workers": ["3"], "worker_router_port": ["8081"]}
    assert sources.refusal(flags) == (
        "worker_router_port and router_port are both 8081; each needs its own"
    )
    flags["worker_router_port"] = ["65535"]
    assert sources.refusal(flags) == "worker_router_port: 3 workers need a port above 65535"
    assert sources.load(flags | {"workers": ["2"]}).settings.worker_router_ports == range(
        65535, 65536
    )


def test_a_connection_node_must_know_the_port_of_endpoint_urls(sources: SettingSources) -> None:
    unknown = {"endpoint_port": ["0"]}
    assert "endpoint_port" in sources.refusal(unknown, command="connection")
    known = unknown | {"endpoint_url": ["https://p.example"]}
    assert sources.load(known, command="connection").settings.endpoint_port == 0


def test_without_a_home_folder_it_starts_where_no_data_folder_is_needed(
    sources: SettingSources, monkeypatch: pytest.MonkeyPatch
) -> None:
    def home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", home)
    environ = {"XDG_DATA_HOME": "", "AUTOPUSH_STORE": "dynamodb://", "CRYPTO_KEY": KEY}
    assert "name a folder with --data" in sources.refusal({}, environ)
    sources.load({}, environ, command="connection")


# ── Order of the sources ──────────────────────────────────────────────────────────────────────────


def test_a_later_source_replaces_an_earlier_one(sources: SettingSources) -> None:
    assert sources.load().settings.max_data == 4096
    sources.write("weak", "max_data = 1001")
    assert sources.load().settings.max_data == 1001
    sources.write("strong", "max_data = 1002")
    assert sources.load().settings.max_data == 1002
    sources.write("weak", "max_data = 1003", IniFile.CONNECTION)
    assert sources.load().settings.max_data == 1003
    sources.write("weak", "max_data = 1004", IniFile.ENDPOINT)
    assert sources.load().settings.max_data == 1004
    named = {IniFile.ENDPOINT: sources.write("elsewhere", "max_data = 1005")}
    assert sources.load(named=named).settings.max_data == 1005
    environ = {"MAX_DATA": "1006"}
    assert sources.load({}, environ, named).settings.max_data == 1006
    environ["AUTOPUSH_MAX_DATA"] = "1007"
    assert sources.load({}, environ, named).settings.max_data == 1007
    assert sources.load({"max_data": ["1008"]}, environ, named).settings.max_data == 1008


def test_the_place_of_each_given_option_is_kept(sources: SettingSources) -> None:
    def places(**variables: str) -> dict[str, str]:
        settings = sources.load({"port": ["1"]}, variables).settings
        return {name: source.of(name) for name, source in settings.sources.items()}

    assert places() == {"port": "--port"}
    sources.write("weak", "max_data = 1001\nmsg_limit = 5")
    strong = sources.write("strong", "\nmax_data = 1002")
    weak = strong.parent.parent / "weak" / strong.name
    assert places(MSG_LIMIT="6", DEBUG="") == {
        "max_data": f"{strong}:2: max_data",
        "msg_limit": "environment variable MSG_LIMIT",
        "port": "--port",
    }
    assert places()["msg_limit"] == f"{weak}:2: msg_limit"


def test_keys_of_a_stronger_source_replace_the_others_and_keep_their_order(
    sources: SettingSources,
) -> None:
    sources.write("weak", f"crypto_key = {KEY}\ncrypto_key = {OTHER_KEY}\n")
    assert sources.load().settings.crypto_key == (KEY, OTHER_KEY)
    loaded = sources.load({}, {"CRYPTO_KEY": f"[{OTHER_KEY}, '{KEY}']"})
    assert loaded.settings.crypto_key == (OTHER_KEY, KEY)
    loaded = sources.load({"crypto_key": [KEY, OTHER_KEY]}, {"CRYPTO_KEY": OTHER_KEY})
    assert loaded.settings.crypto_key == (KEY, OTHER_KEY)


@pytest.mark.parametrize("name", ["crypto_key", "auth_key"])
def test_a_key_may_be_the_whole_output_of_autokey(sources: SettingSources, name: str) -> None:
    for text in (f"Key = {KEY}", f"[Key = {KEY}]", f"Key = {KEY}, Key = {OTHER_KEY}"):
        keys = (KEY, OTHER_KEY) if OTHER_KEY in text else (KEY,)
        assert getattr(sources.load({name: [text]}).settings, name) == keys
        assert getattr(sources.load({}, {name.upper(): text}).settings, name) == keys
    sources.write("weak", f"{name} = Key = {KEY}\n")
    assert getattr(sources.load().settings, name) == (KEY,)


@pytest.mark.parametrize("nothing", ["", "  ", "[]", '[""]', '""', "''"])
@pytest.mark.parametrize("name", ["crypto_key", "auth_key"])
def test_an_empty_key_counts_as_not_given(sources: SettingSources, name: str, nothing: str) -> None:
    sources.write("weak", f"{name} = {KEY}")
    sources.write("strong", f"{name} = {nothing}")
    environ = {name.upper(): nothing, f"AUTOPUSH_{name.upper()}": nothing}
    loaded = sources.load({name: [nothing]}, environ)
    assert getattr(loaded.settings, name) == (KEY,)


@pytest.mark.parametrize("name", ["senderid_list", "client_certs", "apns_creds"])
def test_null_counts_as_not_given(sources: SettingSources, name: str) -> None:
    sources.write("weak", f"{name} = null")
    assert sources.load({}, {f"AUTOPUSH_{name.upper()}": "null"}) == sources.load()
    assert getattr(sources.load().settings, name) is None
    assert name not in sources.load().settings.sources


def test_an_empty_variable_counts_as_not_given(sources: SettingSources) -> None:
    sources.write("weak", "endpoint_hostname = a.example\nport = 99\nno_cors\n")
    environ = {option.env[0]: "" for option in OPTIONS} | {"ENDPOINT_HOSTNAME": ""}
    settings = sources.load({}, environ).settings
    assert (settings.endpoint_hostname, settings.port, settings.no_cors) == ("a.example", 99, True)


# ── Ini files ─────────────────────────────────────────────────────────────────────────────────────


def test_a_file_has_comments_bare_flags_lists_quotes_and_sections(sources: SettingSources) -> None:
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


def test_the_endpoints_own_port_is_the_endpoint_port(sources: SettingSources) -> None:
    sources.write("weak", "port = 1111", IniFile.CONNECTION)
    sources.write("weak", "port = 2222", IniFile.ENDPOINT)
    settings = sources.load().settings
    assert (settings.port, settings.endpoint_port) == (1111, 2222)


def test_options_keep_their_order_across_sections(sources: SettingSources) -> None:
    sources.write("weak", "[a]\nmax_data = 1\n[DEFAULT]\nmax_data = 2\n[a]\nmax_data = 3\n")
    assert sources.load().settings.max_data == 3


@pytest.mark.parametrize(
    ("text", "line", "refusal"),
    [
        ("# first\n\nmax_dta = 3\n", 3, "unknown option 'max_dta'; did you mean 'max_data'?"),
        ("[main]\n  maxdata=3 # x\n", 2, "unknown option 'maxdata'; did you mean 'max_data'?"),
        ("max_data = 1\n  prot = 2\n", 2, "unknown option 'prot'; did you mean 'port'?"),
        ("hostnme = x\n", 1, "unknown option 'hostnme'; did you mean 'hostname'?"),
        ("resolve_host\n", 1, "unknown option 'resolve_host'; did you mean 'resolve_hostname'?"),
        ("debug\nquux = 1\n", 2, "unknown option 'quux'"),
        ("port 8080\n", 1, "expected `option = value`; did you mean `port = PORT`?"),
        ("quux 1\n", 1, "expected `option = value`"),
        ("debug\n= 8080\n", 2, "expected `option = value`"),
        ("[main] port = 1\n", 1, "expected `option = value`"),
        ("port\n", 1, "port: expected `port = PORT`"),
        (f"{KEY}\n", 1, "unknown option"),
    ],
)
def test_a_line_that_is_no_option_stops_the_start_and_is_named(
    sources: SettingSources, text: str, line: int, refusal: str
) -> None:
    path = sources.write("weak", text)
    assert sources.refusal() == f"{path}:{line}: {refusal}"


def test_an_option_given_twice_in_a_file_is_a_warning(sources: SettingSources) -> None:
    path = sources.write("weak", "port = 1\nport = 2\n")
    loaded = sources.load()
    assert loaded.settings.port == 2
    assert loaded.warnings[0].startswith(f"{path}:2: port was given before")


def test_a_file_that_cannot_be_read_stops_the_start(sources: SettingSources) -> None:
    path = sources.folder / "weak" / IniFile.SHARED.file_name
    path.mkdir(parents=True)
    assert sources.refusal() == f"cannot read {path}: Is a directory"
    path.rmdir()
    path.write_bytes(b"\xff\xfe")
    assert sources.refusal() == f"cannot read {path}: it is not UTF-8 text"
    path.unlink()
    path.symlink_to(path)
    assert sources.refusal() == f"cannot read {path}: Too many levels of symbolic links"
    path.unlink()
    missing = sources.folder / "missing.ini"
    with pytest.raises(StartupError, match=r"missing\.ini: No such file"):
        sources.load(named={IniFile.SHARED: missing})


# ── Values that cannot be used ────────────────────────────────────────────────────────────────────

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
    ("hostname", "http://box"),
    ("hostname", "box:80"),
    ("hostname", "a" * 64 + ".example"),
    ("statsd_host", "a..example"),
    ("megaphone_api_url", "http://a..example/"),
    ("resolve_hostname", "perhaps"),
    ("request_timeout", "0"),
    ("open_handshake_timeout", "-1"),
    ("router_tablename", "a b"),
    ("log_level", "loud"),
]


@pytest.mark.parametrize(("name", "text"), BAD)
def test_a_bad_value_names_its_source_and_what_was_expected(
    sources: SettingSources, name: str, text: str
) -> None:
    option = next(option for option in OPTIONS if option.name == name)
    expected = f"expected {option.value_type.expected}, got {text!r}"
    if not option.value_type.is_flag:
        assert sources.refusal({name: [text]}) == f"{option.flag}: {expected}"
    variable = f"AUTOPUSH_{name.upper()}"
    assert sources.refusal({}, {variable: text}) == f"environment variable {variable}: {expected}"
    path = sources.write("weak", f"\n{name} = {text}\n")
    assert sources.refusal() == f"{path}:2: {name}: {expected}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mysql://x", "sqlite:///PATH, dynamodb://REGION"),
        ("autopush.sqlite", "sqlite:///PATH, dynamodb://REGION"),
        ("dynamodb://x?endpont=http://a:1", "did you mean endpoint?"),
        ("dynamodb://me:geheim@eu-west-1", ""),
    ],
)
def test_a_store_url_that_cannot_be_parsed_says_what_is_wrong(
    sources: SettingSources, text: str, why: str
) -> None:
    refusal = sources.refusal({"store": [text]})
    assert refusal.startswith("--store: ")
    assert why in refusal
    assert "geheim" not in refusal


@pytest.mark.parametrize("name", ["crypto_key", "auth_key"])
@pytest.mark.parametrize("secret", [KEY[:-1] + " x", "geheim ist das", "gehe\tim"])
def test_a_bad_secret_is_never_shown(sources: SettingSources, name: str, secret: str) -> None:
    sources.write("weak", f"{name} = {secret}")
    for text in (
        sources.refusal(),
        sources.refusal({name: [secret]}),
        sources.refusal({}, {name.upper(): secret}),
    ):
        assert secret[:4] not in text
        assert f"got {len(secret)} characters" in text


@pytest.mark.parametrize("published", sorted(PUBLISHED_KEYS))
@pytest.mark.parametrize("name", ["crypto_key", "auth_key"])
def test_a_published_key_is_refused_wherever_it_is_given(
    sources: SettingSources, name: str, published: str
) -> None:
    sources.write("weak", f"{name} = {KEY},{published}\n")
    refusals = [
        sources.refusal(),
        sources.refusal({name: [published]}),
        sources.refusal({}, {name.upper(): f"[{published}]"}),
    ]
    for refusal in refusals:
        assert "none of them published" in refusal
        assert published not in refusal


def test_a_token_that_no_header_can_have_is_refused_and_not_shown(sources: SettingSources) -> None:
    assert sources.refusal({"megaphone_api_token": ["gehéim"]}) == (
        "--megaphone-api-token: expected printable ASCII characters, got 6 characters"
    )


def lines_of_ini_files() -> st.SearchStrategy[str]:
    names = st.sampled_from(["port", "crypto_key", "env", "debug", "--max-data", "[x]", "#", ""])
    rest = st.text(st.sampled_from("= :\"'#;[]\t\n\r\v%a1"))
    return st.lists(st.tuples(names, rest).map("".join)).map("\n".join) | st.text()


@given(text=lines_of_ini_files())
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_in_a_file_is_read_or_refused_in_one_line(
    sources: SettingSources, text: str
) -> None:
    sources.read_or_refuse(sources.write("weak", text))


# ── Environment variables ─────────────────────────────────────────────────────────────────────────


def test_variables_of_the_original_are_known() -> None:
    known = {variable for variables in VARIABLES.values() for variable in variables}
    assert known >= {"SSL_KEY", "CLIENT_CERTS", "STATSD_HOST", "STREAM_NAME", "FCM_CREDS"}
    assert known >= {variable for option in OPTIONS for variable in option.bare_env}


@pytest.mark.parametrize("name", sorted(VARIABLES.keys() & OBSOLETE.keys()))
def test_the_variable_of_an_obsolete_option_is_a_warning_that_names_it(
    sources: SettingSources, name: str
) -> None:
    for variable in (*VARIABLES[name], f"AUTOPUSH_{name.upper()}"):
        loaded = sources.load({}, {variable: "geheim"})
        assert loaded.settings == Settings(data=loaded.settings.data)
        message = f"environment variable {variable} is ignored: {name} {reason_for_absence(name)}"
        assert loaded.warnings == (message,)
        assert sources.load({}, {variable: " "}).warnings == ()
        assert sources.load({}, {variable: "x"}, command="maintain").warnings == ()


def test_every_option_of_the_original_is_an_option_or_obsolete() -> None:
    assert VARIABLES.keys() <= {option.name for option in OPTIONS} | OBSOLETE.keys()


@pytest.mark.parametrize("name", sorted(NEVER_OPTIONS))
def test_a_name_of_the_documentation_that_never_was_an_option_says_what_to_write(
    sources: SettingSources, name: str
) -> None:
    path = sources.write("weak", f"\n{name} = geheim\n", IniFile.ENDPOINT)
    assert sources.refusal() == f"{path}:2: {name} is no option: {NEVER_OPTIONS[name]}"


@pytest.mark.parametrize("command", DAEMON_FILES)
def test_debug_is_read_by_the_daemons_of_the_original_only(
    sources: SettingSources, command: str
) -> None:
    assert sources.load({}, {"DEBUG": "1"}, command=command).settings.debug
    for other in ("serve", "maintain"):
        assert not sources.load({}, {"DEBUG": "1"}, command=other).settings.debug


def test_what_kubernetes_puts_into_a_port_variable_is_ignored(sources: SettingSources) -> None:
    loaded = sources.load({}, {"AUTOPUSH_PORT": "tcp://10.0.0.1:80", "AUTOPUSH_PORT_80_TCP": "x"})
    assert loaded.settings.port == 8080
    assert loaded.warnings == ("AUTOPUSH_PORT names a Kubernetes service, not a port: ignored",)


def test_a_misspelt_variable_is_a_warning(sources: SettingSources) -> None:
    loaded = sources.load({}, {"AUTOPUSH_MAXDATA": "1"})
    assert loaded.warnings == (
        "environment variable AUTOPUSH_MAXDATA is unknown; did you mean AUTOPUSH_MAX_DATA?",
    )


def test_allow_cors_keeps_its_inverted_meaning_with_a_warning(sources: SettingSources) -> None:
    loaded = sources.load({}, {"ALLOW_CORS": "1"})
    assert loaded.settings.no_cors
    assert "NO_CORS" in loaded.warnings[0]
