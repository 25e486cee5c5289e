import argparse
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from autopush import cli
from autopush.commands import COMMANDS, CommandLine
from autopush.settings import OPTIONS, Settings, StartupError
from autopush.settings.declaration import DAEMONS, IniFile
from autopush.settings.value_types import is_fernet_key
from autopush.telemetry import logs
from autopush.version import VERSION

KEY = "Mghht5Ko9NLO4SPnxMb5vKuetGLJc743-6TUfE_je_A="
DASHED_KEY = "-JVPy4ZwF4Yz_JdvXTL8hRcwIhv742vC60Tg5Ycrvw8="


class Service(ModuleType):
    """Replaces the service; records the settings it is started with."""

    def __init__(self) -> None:
        super().__init__("autopush.service.startup")
        self.started: list[Settings] = []
        self.on_run: Callable[[], int] = lambda: 0

    def run(self, settings: Settings, _read: Callable[[], Settings]) -> int:
        self.started.append(settings)
        logs.get("service").info("running")
        return self.on_run()


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    replacement = Service()
    monkeypatch.setattr("autopush.service.startup", replacement, raising=False)
    monkeypatch.setitem(sys.modules, "autopush.service.startup", replacement)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AUTOPUSH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AUTOPUSH_LOG_OUTPUT", str(tmp_path / "log"))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    yield replacement
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def test_serve_runs_the_service_with_the_settings_and_returns_its_exit_code(
    service: Service, tmp_path: Path
) -> None:
    service.on_run = lambda: 7
    words = ["serve", "-p", "0", "-e=1", "-r2", "--max_data=5000", "--debug", "--cors"]
    words += ["--crypto-key", KEY, "--crypto_key", DASHED_KEY]
    assert cli.main(words) == 7
    (settings,) = service.started
    assert (settings.port, settings.endpoint_port, settings.router_port) == (0, 1, 2)
    assert (settings.max_data, settings.debug, settings.no_cors) == (5000, True, False)
    assert settings.crypto_key == (KEY, DASHED_KEY)
    assert settings.data == tmp_path / "data"
    assert json.loads((tmp_path / "log").read_text())["Fields"]["message"] == "running"


def test_a_flag_can_switch_off_what_the_environment_switched_on(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOPUSH_DEBUG", "1")
    monkeypatch.setenv("NO_CORS", "1")
    assert cli.main(["serve", "--no-debug", "--cors", "--no-human-logs"]) == 0
    (settings,) = service.started
    assert (settings.debug, settings.no_cors, settings.human_logs) == (False, False, False)


def test_an_empty_key_on_the_command_line_counts_as_not_given(service: Service) -> None:
    assert cli.main(["serve", "--crypto-key", "", "--auth-key="]) == 0
    assert service.started[0].crypto_key == ()


def test_ini_files_are_found_and_named(service: Service, tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "autopush_shared.ini").write_text("msg_limit = 1\nmax_data = 1\n")
    (tmp_path / ".autopush_shared.ini").write_text("msg_limit = 2\n")
    (tmp_path / "mine.ini").write_text("port = 99\nexternal_router\n")
    assert cli.main(["serve", "--config-endpoint", "mine.ini"]) == 0
    (settings,) = service.started
    assert (settings.msg_limit, settings.max_data, settings.endpoint_port) == (2, 1, 99)
    first = json.loads((tmp_path / "log").read_text().splitlines()[0])
    assert first["Fields"]["message"].startswith("mine.ini:2: ")


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--port", "abc"],
        ["serve", "--port=8081"],
        ["serve", "--config-shared", "missing.ini"],
        ["serve", "--log-output", "missing/folder/log"],
    ],
)
def test_settings_that_cannot_be_used_are_one_line_and_exit_code_3(
    service: Service, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert cli.main(words) == 3
    assert service.started == []
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("autopush: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "library", "extra"),
    [("sentry_dsn", "sentry_sdk", "sentry"), ("firehose_stream_name", "botocore", "firehose")],
)
def test_a_log_output_whose_library_is_missing_is_one_line_that_says_what_to_install(
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str,
    library: str,
    extra: str,
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setenv(f"AUTOPUSH_{option.upper()}", "http://key@127.0.0.1/7")
    assert cli.main(["serve"]) == 3
    assert service.started == []
    assert capsys.readouterr().err == (
        f"autopush: environment variable AUTOPUSH_{option.upper()} needs {library}: "
        f"pip install 'autopush-server[{extra}]', or in a checkout: make extras\n"
    )


@pytest.mark.parametrize(
    ("dsn", "where"),
    [
        ("geheim", "--sentry-dsn: expected https://KEY@HOST/PROJECT, got 6 characters"),
        ("https://geheim@sentry.example/project", "--sentry-dsn: expected https://KEY@HOST"),
        ("https://geheim@[/1", "--sentry-dsn: its value"),  # for the SDK to refuse
    ],
)
def test_a_malformed_dsn_is_one_line_that_does_not_show_it(
    service: Service, capsys: pytest.CaptureFixture[str], dsn: str, where: str
) -> None:
    assert cli.main(["serve", "--sentry-dsn", dsn]) == 3
    err = capsys.readouterr().err
    assert err.startswith(f"autopush: {where}")
    assert "geheim" not in err


def test_log_lines_name_the_hostname_that_is_given(service: Service, tmp_path: Path) -> None:
    assert cli.main(["serve", "--hostname", "push-1.example"]) == 0
    assert cli.main(["serve"]) == 0
    lines = (tmp_path / "log").read_text().splitlines()
    names = [json.loads(line)["Hostname"] for line in lines if '"running"' in line]
    assert names == ["push-1.example", socket.gethostname()]


def test_so_many_log_lines_may_wait_as_the_option_says(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured: dict[str, object] = {}
    monkeypatch.setattr(logs, "configure", lambda **options: configured.update(options))
    assert cli.main(["serve", "--log-queue", "7"]) == 0
    assert configured["capacity"] == 7


def test_a_service_that_cannot_start_is_one_line_and_exit_code_3(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise StartupError("port 8080 is in use")

    service.on_run = fail
    assert cli.main(["serve"]) == 3
    assert capsys.readouterr().err == "autopush: port 8080 is in use\n"


def test_an_interrupted_start_prints_nothing(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> int:
        raise KeyboardInterrupt

    service.on_run = interrupt
    assert cli.main(["serve"]) == 130
    assert capsys.readouterr().err == ""


def test_an_unknown_flag_is_refused_with_the_closest_one(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", "--prot=1"]) == 2
    assert capsys.readouterr().err.endswith("unknown flag --prot; did you mean --port?\n")


@pytest.mark.parametrize(
    "words",
    [
        ["serve", KEY],
        ["serve", DASHED_KEY],
        ["serve", f"--authkey={KEY}"],
        ["serve", "--debug", KEY, "off"],
        ["serve", KEY, "off"],
        ["serve", f"--crypto-key={KEY}", "off"],
    ],
)
def test_a_key_in_the_wrong_place_is_not_shown(
    service: Service, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert cli.main(words) == 2
    assert KEY[2:] not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (
            ["--no-table-rotation", "false"],
            "--no-table-rotation takes no value, got 'false'; its opposite is --table-rotation",
        ),
        (["--no_debug", "1"], "--no-debug takes no value, got '1'; its opposite is --debug"),
        (["--debug", "geheim"], "--debug takes no value, got one of 6 characters; its opposite is"),
        (["--port", "1", "off"], "unexpected argument: 'off'"),
        (["--port=1", "off"], "unexpected argument after --port: 'off'"),
    ],
)
def test_an_argument_too_many_is_named(
    service: Service, capsys: pytest.CaptureFixture[str], words: list[str], refusal: str
) -> None:
    assert cli.main(["serve", *words]) == 2
    assert f"autopush serve: error: {refusal}" in capsys.readouterr().err


def test_flags_are_not_abbreviated(service: Service) -> None:
    assert cli.main(["serve", "--endpoint-p", "1"]) == 2


@pytest.mark.parametrize("command", DAEMONS)
def test_help_has_every_option_of_the_command_with_its_default_and_variables(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert cli.main([command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for option in OPTIONS:
        # Long names may be broken at their hyphens, so they are compared without spaces.
        variables = ",".join(option.variables(command))
        about = f"{option.help}[default:{option.default_shown}][env:{variables}]"
        has_it = about.replace(" ", "") in text.replace(" ", "")
        assert has_it == (command in option.commands), option.name
        assert not has_it or option.group in text


@pytest.mark.parametrize("words", [[], ["--port", "7"], ["-p7", "--debug"]])
def test_without_a_command_it_is_a_connection_node(service: Service, words: list[str]) -> None:
    assert cli.main(words) == 0
    (settings,) = service.started
    assert settings.command == "connection"
    assert settings.port == (7 if words else 8080)


def test_autoendpoint_is_the_endpoint_command(service: Service) -> None:
    assert cli.autoendpoint(["-p", "9000"]) == 0
    (settings,) = service.started
    assert (settings.command, settings.port) == ("endpoint", 9000)


def test_each_daemon_reads_the_files_of_the_original(service: Service, tmp_path: Path) -> None:
    for file in IniFile:
        (tmp_path / f".{file.file_name}").write_text(
            f"endpoint_hostname = {file}.example\nport = {len(file)}\n"
        )
    ports = {}
    for command in DAEMONS:
        assert cli.main([command]) == 0
        settings = service.started[-1]
        ports[command] = (settings.port, settings.port_of_endpoints)
        last = "endpoint" if command == "serve" else command
        assert settings.endpoint_hostname == f"{last}.example"
    assert ports == {"serve": (10, 8), "connection": (10, 8082), "endpoint": (8, 8)}


@pytest.mark.parametrize("words", [["--help"], ["-h"]])
def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^ +{command.name}\b", out, re.MULTILINE)


@pytest.mark.parametrize("words", [["--version"], ["serve", "--version"]])
def test_version(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert cli.main(words) == 0
    assert capsys.readouterr().out == f"autopush {VERSION}\n"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            ["connection", "--max-requests=1"],
            "an option of `autopush serve` and `autopush endpoint`, not of `autopush connection`",
        ),
        (["--cors"], "--cors is an option of `autopush serve` and `autopush endpoint`"),
        (["endpoint", "-r", "1"], "-r is an option of `autopush serve` and `autopush connection`"),
        (["--port", "1", "serve"], "the command comes first: autopush serve [options]"),
        (["serve", "endpoint"], "the command comes first: autopush endpoint [options]"),
        (["connection", "--config-endpoint", "x"], "unknown flag --config-endpoint"),
        (["serve", "--external-router"], "--external-router is obsolete and does nothing"),
        (["endpoint", "--gcm-apikey", "x"], "--gcm-apikey is no option: the key is written as"),
    ],
)
def test_what_belongs_to_another_command_is_refused_with_a_hint(
    service: Service, capsys: pytest.CaptureFixture[str], words: list[str], hint: str
) -> None:
    assert cli.main(words) == 2
    assert hint in capsys.readouterr().err.splitlines()[-1]
    assert service.started == []


def test_a_command_can_have_arguments_and_flags_that_are_no_settings(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, str, bool]] = []

    def hello(settings: Settings, arguments: argparse.Namespace) -> int:
        given.append((settings.command, arguments.whom, arguments.loud))
        return 5

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("whom")
        parser.add_argument("--loud", action="store_true")

    module = ModuleType("autopush.commands.maintain")
    monkeypatch.setattr(
        module, "COMMANDS", {"maintain": CommandLine(hello, add_arguments)}, raising=False
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert cli.main(["maintain", "you", "--loud", "--store", ""]) == 5
    assert given == [("maintain", "you", True)]
    assert cli.main(["maintain", "you", "--workers", "2"]) == 2


def test_autokey_prints_a_new_key_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    keys = set()
    for _ in range(2):
        assert cli.autokey([]) == 0
        name, _, key = capsys.readouterr().out.rstrip("\n").partition(" = ")
        assert name == "Key"
        assert is_fernet_key(key)
        keys.add(key)
    assert len(keys) == 2


def test_workers_are_forked_from_a_process_without_threads(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(logs, "start_background", lambda: started.append("thread"))
    assert cli.main(["serve", "--workers", "2"]) == 0
    assert started == []
    assert cli.main(["serve", "--workers", "1"]) == 0
    assert started == ["thread"]


def test_help_does_not_load_the_service() -> None:
    program = (
        "import sys; from autopush.cli import main; main(['serve', '--help']);"
        "sys.exit('autopush.service' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
