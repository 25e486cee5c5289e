"""`autopush settings`."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autopush import cli
from autopush.service import startup
from autopush.settings import OPTIONS, Option, Settings
from autopush.settings.declaration import DAEMONS, IniFile
from autopush.settings.reference import render_sample, render_toml_sample
from support.cases import cases
from support.certificates import self_signed

KEY = "Mghht5Ko9NLO4SPnxMb5vKuetGLJc743-6TUfE_je_A="
Show = Callable[..., str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    return tmp_path


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    def run(*words: str) -> str:
        assert cli.main(["settings", *words]) == 0
        return capsys.readouterr().out

    return run


def row(text: str, name: str) -> tuple[str, str]:
    """Value and source of an option."""
    [line] = [line for line in text.splitlines() if line.split(" ")[0] == name]
    value, source = re.split(r"  +", line.removeprefix(name).strip())
    return value, source


def options(show: Show, *words: str) -> dict[str, dict[str, Any]]:
    document = json.loads(show("--json", *words))
    members = document["options"]
    assert isinstance(members, dict)
    return members


@pytest.mark.parametrize("daemon", DAEMONS)
def test_it_prints_every_option_of_the_command_and_no_other(show: Show, daemon: str) -> None:
    mine = [option.name for option in OPTIONS if daemon in option.commands]
    assert list(options(show, "--for", daemon)) == mine
    text = show("--for", daemon)
    assert [line.split(" ")[0] for line in text.splitlines() if line[:1] not in ("", "#")] == mine
    assert text.startswith(f"# autopush {daemon}: 0 of {len(mine)} options are set\n")


def test_each_value_has_its_source(
    show: Show, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".autopush_shared.ini").write_text("\nmax_data = 1001\nmsg_limit = 2\n")
    (folder / ".autopush.toml").write_text("workers = 3\nno_cors = true\n")
    monkeypatch.setenv("MSG_LIMIT", "4")
    text = show("--port", "9000", "--no-debug")
    assert row(text, "max_data") == ("1001", "./.autopush_shared.ini:2")
    assert row(text, "msg_limit") == ("4", "MSG_LIMIT")
    assert row(text, "workers") == ("3", "./.autopush.toml:1")
    assert row(text, "no_cors") == ("on", "./.autopush.toml:2")
    assert row(text, "port") == ("9000", "--port")
    assert row(text, "debug") == ("off", "--debug")
    assert row(text, "router_port") == ("8081", "default")
    given = options(show, "--port", "9000")
    assert given["port"] == {"value": 9000, "source": "flag", "place": "--port"}
    assert given["msg_limit"] == {"value": 4, "source": "environment", "place": "MSG_LIMIT"}
    place = "./.autopush_shared.ini:2"
    assert given["max_data"] == {"value": 1001, "source": "file", "place": place}
    assert given["router_port"] == {"value": 8081, "source": "default", "place": None}


def test_a_computed_default_is_shown_as_what_it_comes_to(show: Show, folder: Path) -> None:
    text = show("--endpoint-scheme=https", "--endpoint-hostname=p.example", "--port=1")
    assert row(text, "endpoint_url") == ("https://p.example:1", "default")
    assert row(text, "websocket_url") == ("wss://p.example:1/", "default")
    assert row(text, "sts_max_age") == ("31536000", "default")
    assert row(text, "data") == (str(folder / "share" / "autopush"), "default")
    assert row(text, "direct_delivery") == ("store-first", "default")
    endpoint = options(show, "--for", "endpoint", "--store", "dynamodb://")
    assert endpoint["direct_delivery"]["value"] == "bypass"
    assert endpoint["no_table_rotation"]["value"] is False
    assert (endpoint["port"]["value"], endpoint["endpoint_port"]["value"]) == (8082, 8082)


def test_a_default_that_is_not_known_yet_is_said_in_words(show: Show) -> None:
    key = next(option for option in OPTIONS if option.name == "crypto_key")
    assert row(show(), "crypto_key") == (f"({key.default_text})", "default")
    shown = options(show)["crypto_key"]
    assert (shown["value"], shown["default"]) == (None, key.default_text)


@cases("option", [option for option in OPTIONS if option.effective])
def test_what_a_computed_default_comes_to_is_a_value(option: Option) -> None:
    assert option.default_text
    assert option.effective is not None
    assert option.effective(Settings(data=Path("/x"))) not in (None, "")


def test_no_secret_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    for option in OPTIONS:
        if option.secret:
            secret = {
                "JSON": '{"app": {"auth": "geheim"}}',
                "DSN": "https://geheim@sentry.example/1",
            }
            lines.append(f"{option.name} = {secret.get(option.value_type.metavar, KEY)}")
    (folder / ".autopush_shared.ini").write_text("\n".join(lines))
    for words in ([], ["--json"], ["--for", "endpoint"]):
        assert cli.main(["settings", *words]) == 3  # since no bridge starts with it
        text, errors = capsys.readouterr()
        assert KEY not in text + errors
        assert "geheim" not in text + errors
        assert "(secret)" in text


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["--for", "endpoint", "--router-port", "1"], "--router-port is not an option of"),
        (["--for", "endpoint", "--config-connection", "x"], "--config-connection is not a flag of"),
        (["--port", "x"], "--port: expected a whole number from 0 to 65535, got 'x'"),
        (["--port", "8081"], "router_port and port are both 8081"),
        (["--sample", "--json"], "--sample writes every option"),
        (["--sample", "--for", "serve"], "--sample writes every option"),
        (["--format", "ini"], "--format is for --sample"),
    ],
)
def test_what_would_stop_the_start_or_makes_no_sense_is_exit_code_3(
    capsys: pytest.CaptureFixture[str], words: list[str], refusal: str
) -> None:
    assert cli.main(["settings", *words]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"autopush: {refusal}")


def test_warnings_go_to_standard_error_and_no_log_is_opened(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / ".autopush.toml").write_text("external_router = 1\n")
    assert cli.main(["settings", "--json", "--log-output", str(folder / "log")]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["options"]["log_output"]["value"] == str(folder / "log")
    assert "external_router is obsolete" in err
    assert not (folder / "log").exists()


def test_a_reader_that_closes_early_is_no_error() -> None:
    program = "import sys; from autopush.cli import main; sys.exit(main(['settings']))"
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        ended = subprocess.run(
            [sys.executable, "-c", program], stdout=closed, stderr=subprocess.PIPE, check=False
        )
    assert (ended.returncode, ended.stderr) == (0, b"")


# ── Sample files ──────────────────────────────────────────────────────────────────────────────────

SAMPLES = {file.file_name: render_sample(file) for file in IniFile}
SAMPLES["autopush.toml"] = render_toml_sample()


def test_samples_are_printed_all_or_those_of_one_format(show: Show) -> None:
    assert show("--sample") == "\n".join(SAMPLES.values())
    assert show("--sample", "--format", "toml") == SAMPLES["autopush.toml"]
    assert "autopush.toml" not in show("--sample", "--format", "ini")


def test_a_printed_toml_sample_can_be_edited_and_used(show: Show, folder: Path) -> None:
    text = show("--sample", "--format", "toml").replace("\n#port = ", "\nport = 9000 # ")
    assert tomllib.loads(text) == {"port": 9000}
    (folder / "mine.toml").write_text(text)
    assert row(show("--config", "mine.toml"), "port")[0] == "9000"


def test_samples_are_written_into_a_folder_and_overwrite_nothing(
    show: Show, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    target = folder / "new" / "samples"
    out = show("--sample", str(target))
    assert out.splitlines() == [f"wrote {target / name}" for name in SAMPLES]
    assert {path.name: path.read_text() for path in target.iterdir()} == SAMPLES
    (target / "autopush_shared.ini").unlink()
    (target / "autopush.toml").write_text("mine")
    assert cli.main(["settings", "--sample", str(target)]) == 3
    assert "exists; nothing was written" in capsys.readouterr().err
    assert (target / "autopush.toml").read_text() == "mine"
    assert not (target / "autopush_shared.ini").exists()


def test_a_folder_that_cannot_be_written_is_one_line(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "file").write_text("")
    assert cli.main(["settings", "--sample", str(folder / "file" / "x")]) == 3
    err = capsys.readouterr().err
    assert err.startswith("autopush: cannot write ")
    assert err.count("\n") == 1


def test_samples_are_written_also_when_the_settings_are_wrong(show: Show, folder: Path) -> None:
    (folder / ".autopush.toml").write_text("port = 'x'")
    assert show("--sample", "--format", "toml") == SAMPLES["autopush.toml"]


# ── What would stop the start ─────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files by what is in them; `NAMES` in the tests are replaced by their paths."""
    folder = tmp_path_factory.mktemp("files")
    pem = self_signed(folder / "server.pem")
    other = self_signed(folder / "other.pem")
    (folder / "empty.pem").touch()
    (folder / "app.json").write_text('{"project_info": {}, "client": []}')
    names = {"PAIR": pem, "OTHER": other, "EMPTY": folder / "empty.pem"}
    names |= {"APP": folder / "app.json"}
    return {name: str(path) for name, path in names.items()}


PROBLEMS: list[tuple[dict[str, str], str]] = [
    ({"ssl_dh_param": "EMPTY", "ssl_cert": "PAIR", "ssl_key": "PAIR"}, "ssl_dh_param: EMPTY: no "),
    ({"ssl_key": "PAIR"}, "ssl_key needs ssl_cert"),
    ({"router_ssl_key": "PAIR"}, "router_ssl_key needs router_ssl_cert"),
    ({"router_ssl_ca": "EMPTY"}, "router_ssl_ca: EMPTY: no "),
    (
        {"router_scheme": "http", "router_ssl_cert": "PAIR", "router_ssl_key": "PAIR"},
        "router_scheme: it is http, but with router_ssl_key the port is https",
    ),
    ({"ssl_cert": "OTHER", "ssl_key": "PAIR"}, "ssl_key: PAIR: not the key of the first cert"),
    (
        {"fcm_creds": '{"a": {"projectid": "p", "auth": "APP"}}'},
        "fcm_creds: a: its key APP is a google-services.json",
    ),
    ({"log_output": "/no/such/log"}, "log_output: cannot log to /no/such/log: /no/such does "),
    ({"host": "192.0.2.1"}, "host: cannot listen on 192.0.2.1: Cannot assign requested addr"),
    ({"data": "PAIR"}, "data: PAIR is not a folder"),
]
"""One of each check, and of TLS what no other test of a start has."""


@pytest.mark.parametrize(
    ("place", "options", "problem"),
    [
        *(("flag", *each) for each in PROBLEMS),
        *((place, *PROBLEMS[0]) for place in ("toml", "ini", "environment")),
    ],
)
def test_what_stops_the_start_is_named_with_its_place_by_settings_and_the_start(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    files: dict[str, str],
    options: dict[str, str],
    problem: str,
    place: str,
) -> None:
    monkeypatch.setattr(startup, "run", lambda _: 0)
    for word, path in files.items():
        problem = problem.replace(word, path)
        options = {name: text.replace(word, path) for name, text in options.items()}
    option = next(name for name in (*options, "ssl_key") if problem.startswith(name))
    words = []
    at = f"environment variable AUTOPUSH_{option.upper()}"
    if place == "flag":
        words = [f"--{name.replace('_', '-')}={text}" for name, text in options.items()]
        at = f"--{option.replace('_', '-')}"
    elif place == "environment":
        for name, text in options.items():
            monkeypatch.setenv(f"AUTOPUSH_{name.upper()}", text)
    else:
        quote = "'" if place == "toml" else ""
        lines = [f"{name} = {quote}{text}{quote}\n" for name, text in options.items()]
        name = {"toml": ".autopush.toml", "ini": ".autopush_shared.ini"}[place]
        (folder / name).write_text("# the first line\n" + "".join(lines))
        at = f"./{name}:{2 + list(options).index(option)}: {option}"
    line = f"autopush: {at}{problem.removeprefix(option)}"
    assert cli.main(["settings", *words]) == 3
    shown, errors = capsys.readouterr()
    assert errors.startswith(line)
    assert errors.count("\n") == 1
    assert row(shown, "port") == ("8080", "default")
    assert cli.main(["serve", *words]) == 3
    assert capsys.readouterr().err == errors


def test_all_that_stops_the_start_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--log-output", "/no/log", "--ssl-key", "x", "--host", "192.0.2.1"]
    assert cli.main(["settings", "--json", *words]) == 3
    shown, errors = capsys.readouterr()
    assert json.loads(shown)["options"]["host"]["value"] == "192.0.2.1"
    assert [line.split()[1].rstrip(":") for line in errors.splitlines()] == [
        "--log-output",
        "--ssl-key",
        "--host",
    ]


def test_a_store_is_shown_without_its_password(show: Show) -> None:
    words = ("--store", "postgresql://u:hidden@host/d?sslpassword=hidden&schema=push")
    for form in ((), ("--json",)):
        shown = show(*words, *form)
        assert "postgresql://u@host/d?sslpassword=…&schema=push" in shown.replace("\\u2026", "…")
        assert "hidden" not in shown
