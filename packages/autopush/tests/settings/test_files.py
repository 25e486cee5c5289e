"""TOML files. Ini files are tested with the sources."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from autopush.settings import OPTIONS, Settings, StartupError
from autopush.settings.declaration import ALL_COMMANDS, SHELL_TOOLS, IniFile
from autopush.settings.files import read_text, toml_entries
from support.setting_sources import SettingSources

KEY = "Mghht5Ko9NLO4SPnxMb5vKuetGLJc743-6TUfE_je_A="
CREDENTIALS = {"app": {"projectid": "p", "auth": "/srv/account.json"}}


def test_a_toml_file_has_numbers_texts_booleans_lists_and_tables(sources: SettingSources) -> None:
    sources.write_toml(
        "weak",
        f"""\ufeff# a comment
max-data = 5_630
msg_limit = "7"
no_cors = true
debug = false
env = 'a # b'
hello_timeout = 2.5
endpoint_url = "https://push.example.org:443/"
auth_key = [
  "{KEY}",  # the newer one
  "plain",
]

[fcm_creds.app]
projectid = "p"
auth = "/srv/account.json"
""",
    )
    settings = sources.load().settings
    assert (settings.max_data, settings.msg_limit, settings.hello_timeout) == (5630, 7, 2.5)
    assert (settings.no_cors, settings.debug, settings.env) == (True, False, "a # b")
    assert settings.endpoint_url == "https://push.example.org"
    assert settings.auth_key == (KEY, "plain")
    assert settings.fcm_creds == CREDENTIALS


@pytest.mark.parametrize(
    "text",
    [
        'fcm_creds.app = {projectid = "p", auth = "/srv/account.json"}',
        'fcm_creds = {app = {projectid = "p", auth = "/srv/account.json"}}',
        """fcm_creds = '{"app": {"projectid": "p", "auth": "/srv/account.json"}}'""",
        '[fcm_creds]\napp.projectid = "p"\napp.auth = "/srv/account.json"\n',
    ],
)
def test_an_option_of_json_is_a_table_in_every_notation_or_a_text(
    sources: SettingSources, text: str
) -> None:
    sources.write_toml("weak", text)
    assert sources.load().settings.fcm_creds == CREDENTIALS


def test_a_toml_file_is_stronger_than_ini_files_and_weaker_than_the_environment(
    sources: SettingSources,
) -> None:
    sources.write("strong", "max_data = 1001", IniFile.ENDPOINT)
    sources.write_toml("weak", "max_data = 1002")
    assert sources.load().settings.max_data == 1002
    sources.write_toml("strong", "max_data = 1003")
    assert sources.load().settings.max_data == 1003
    named = sources.folder / "mine.toml"
    named.write_text("max_data = 1004")
    assert sources.load(toml=named).settings.max_data == 1004
    environ = {"MAX_DATA": "1005"}
    assert sources.load({}, environ, toml=named).settings.max_data == 1005
    assert sources.load({"max_data": ["1006"]}, environ, toml=named).settings.max_data == 1006


@pytest.mark.parametrize("command", [*ALL_COMMANDS, *SHELL_TOOLS])
def test_every_command_reads_it_and_port_is_its_own_port(
    sources: SettingSources, command: str
) -> None:
    sources.write_toml("weak", "port = 1111")
    assert sources.load(command=command).settings.port == 1111


def test_a_named_toml_file_must_exist(sources: SettingSources) -> None:
    with pytest.raises(StartupError, match=r"missing\.toml: No such file"):
        sources.load(toml=sources.folder / "missing.toml")


def test_empty_values_count_as_not_given(sources: SettingSources) -> None:
    sources.write("weak", f"crypto_key = {KEY}\nenv = x")
    sources.write_toml("weak", 'crypto_key = []\nauth_key = [""]\nenv = ""\nfcm_creds = ""\n')
    settings = sources.load().settings
    assert settings == Settings(data=settings.data, crypto_key=(KEY,), env="x")


@pytest.mark.parametrize(
    ("text", "line", "refusal"),
    [
        ("\n\nmax_dta = 3", 3, "unknown option 'max_dta'; did you mean 'max_data'?"),
        ("max_data = 4\n[fcm_cred.app]\n", 2, "unknown table 'fcm_cred'; did you mean 'fcm_creds'"),
        (
            "[paths]\nport = 1\n",
            1,
            "unknown table 'paths'; options are written before the first table",
        ),
        ("port = 99999", 1, "port: expected a whole number from 0 to 65535, got '99999'"),
        ("env = '''\na\n'''\nport = 0.5", 4, "port: expected a whole number from 0 to 65535, got"),
        ("port = [\n1]", 1, "port: expected a whole number from 0 to 65535, got an array"),
        ("[port]\na = 1", 1, "port: expected a whole number from 0 to 65535, got a table"),
        ("\nenv = 2020-01-01", 2, "env: expected a text, got a date"),
        ("auth_key = [1]", 1, "auth_key: expected keys without spaces"),
        ("fcm_creds = [1]", 1, "fcm_creds: expected a JSON object, got an array"),
        ("debug = true\n[fcm_creds]\napp = 1", 2, "fcm_creds: the value of 'app' is not a JSON"),
        ("fcm_creds.app.x = 99999999999999999999999", 1, "fcm_creds: a number or a text in it"),
        (
            "port = 1\nhost = push.example",
            2,
            "not TOML: invalid value; a text is written in quotes",
        ),
        ("port 8080", 1, "not TOML: expected '=' after a key in a key/value pair"),
        ("port = 1\n\nport = 2", 3, "not TOML: an option or a table is given twice"),
        ("[fcm_creds.a]\n[fcm_creds.a]", 2, "not TOML: an option or a table is given twice"),
        ("port = 1\nenv = '''", 2, "not TOML: "),
    ],
)
def test_what_is_wrong_in_a_toml_file_stops_the_start_and_its_line_is_named(
    sources: SettingSources, text: str, line: int, refusal: str
) -> None:
    path = sources.write_toml("weak", text)
    assert sources.refusal().startswith(f"{path}:{line}: {refusal}")


def test_an_obsolete_option_is_a_warning_in_a_toml_file_too(sources: SettingSources) -> None:
    path = sources.write_toml("weak", "\nexternal_router = true")
    assert sources.load().warnings == (f"{path}:2: external_router is obsolete and does nothing",)


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f'"{KEY}" = 1',
        f"{KEY[:-1]} = 1",
        f"{KEY[:-1]} = 1\n{KEY[:-1]} = 2",
        f"a = {{{KEY[:-1]} = 1, {KEY[:-1]} = 2}}",
        f"[{KEY[:-1]}]\n[{KEY[:-1]}]",
        f"crypto_key = {KEY}",
        f"[{KEY[:-1]}]",
    ],
)
def test_a_secret_in_the_wrong_place_is_not_shown(sources: SettingSources, text: str) -> None:
    sources.write_toml("weak", text)
    assert KEY[2:12] not in sources.refusal()


def test_the_lines_of_all_kinds_of_statements_are_found() -> None:
    text = '# x\na = 1\n\nb = [\n  1,\n]\nc.d = """\n[e]\n"""\n[f.g]\na = 2\n[[h]]\n'
    text = text.replace("\n", "\r\n") + "\"i j\" . k = 3\r\n   [ 'l' ]\r\n"
    lines = {entry.name: entry.line for entry in toml_entries("x", text)}
    assert lines == {"a": 2, "b": 4, "c": 7, "f": 10, "h": 12, "l": 14}


def toml_files() -> st.SearchStrategy[str]:
    names = st.sampled_from(
        ["port", "crypto_key", "env", "debug", "fcm_creds", "[x]", "#", "", '"']
    )
    rest = st.text(st.sampled_from("= :\"'#;[]{},.\t\n\r1a"))
    return st.lists(st.tuples(names, rest).map("".join)).map("\n".join) | st.text()


@given(text=toml_files())
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_in_a_toml_file_is_read_or_refused_in_one_line(
    sources: SettingSources, text: str
) -> None:
    sources.read_or_refuse(sources.write_toml("weak", text))


@given(
    values=st.dictionaries(
        st.sampled_from([o.name for o in OPTIONS if o.value_type.metavar == "TEXT"]),
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip),
    )
)
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_text_is_read_as_it_is(sources: SettingSources, values: dict[str, str]) -> None:
    lines = [f"{name} = {json.dumps(text, ensure_ascii=False)}" for name, text in values.items()]
    sources.write_toml("weak", "\n".join(lines))
    settings = sources.load().settings
    assert {name: getattr(settings, name) for name in values} == {
        name: text.strip() for name, text in values.items()
    }


# ── whose files root obeys ──────────────────────────────────────────────────────────────────────

SOMEBODY = 12345


def _give(path: Path, what: str) -> None:
    target = Path("other").absolute()
    if what.endswith("link"):
        path.rename(target)
        path.symlink_to(target)
    match what:
        case "the file":
            os.chown(path, SOMEBODY, 0)
        case "the link":
            os.chown(path, SOMEBODY, 0, follow_symlinks=False)
        case "the target of the link":
            os.chown(target, SOMEBODY, 0)
        case "the folder":
            os.chown(path.parent, SOMEBODY, 0)
        case "a group may write":
            os.chown(path, 0, SOMEBODY)
            path.chmod(0o664)
        case "everybody may write":
            path.chmod(0o646)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(
    ("name", "what"),
    [
        *(
            (name, what)
            for name in ("./.autopush.toml", "configs/autopush.toml")
            for what in ("the file", "the link", "the target of the link", "a group may write")
        ),
        ("./.autopush.toml", "everybody may write"),
        ("configs/autopush.toml", "the folder"),
    ],
)
def test_root_obeys_a_file_of_the_working_directory_only_if_nobody_else_may_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("configs").mkdir()
    Path(name).write_text("port = 9000\n")
    assert read_text(name, must_exist=False, is_named=False)
    _give(Path(name), what)
    with pytest.raises(StartupError, match=r"(belongs to the user 12345|by others), and this runs"):
        read_text(name, must_exist=False, is_named=False)
    assert read_text(name, must_exist=True), "named on the command line"
    monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)
    assert read_text(name, must_exist=False, is_named=False)
