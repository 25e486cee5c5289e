"""`autopush doctor`: the command, its output, and what it does when a check does not end."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from autopush.commands import doctor
from autopush.commands.checks import Check, Finding, Level, Subject, fail, ok, warn
from autopush.commands.doctor import CHECKS, examine
from autopush.settings import Settings, StartupError
from autopush.settings.declaration import Source
from support.data_store import Run
from support.service import STARTUP_FAILED

KEY = "Mghht5Ko9NLO4SPnxMb5vKuetGLJc743-6TUfE_je_A="
NODE = ("--port", "0", "--router-port", "0")


def well(_: Subject) -> Iterator[Finding]:
    yield ok("it works")


async def broken(_: Subject) -> AsyncIterator[Finding]:
    yield ok("a part works")
    yield warn("slow", "Wait")
    yield fail("broken", "Repair it")


async def endless(_: Subject) -> AsyncIterator[Finding]:
    yield ok("it begins")
    await asyncio.Event().wait()


def forbidden(_: Subject) -> Iterator[Finding]:
    raise PermissionError(13, "Permission denied", "/proc/secret")


def stops(_: Subject) -> Iterator[Finding]:
    raise StartupError("port: it is odd")


def use(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> None:
    monkeypatch.setattr(doctor, "CHECKS", checks)


def test_nothing_fails_on_a_machine_that_has_what_is_needed(run: Run) -> None:
    code, output, errors = run("doctor", *NODE)
    assert (code, errors) == (0, "")
    lines = output.splitlines()
    assert lines[-1].startswith("0 failed, ")
    names = [line[6 : 6 + doctor._WIDTH].strip() for line in lines[:-1]]
    assert list(dict.fromkeys(names)) == [check.name for check in CHECKS]


def test_it_leaves_nothing_behind(run: Run, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    run("doctor", *NODE)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("daemon", "flags"),
    [
        ("serve", NODE),
        # Nobody listens there; on the usual port a service may.
        ("connection", (*NODE, "--endpoint-url", "http://127.0.0.1:1")),
        ("endpoint", ("--port", "0")),
    ],
)
def test_json_has_the_same_findings(run: Run, daemon: str, flags: tuple[str, ...]) -> None:
    code, text, _ = run("doctor", "--for", daemon, *flags)
    json_code, output, errors = run("doctor", "--for", daemon, "--json", *flags)
    document = json.loads(output)
    assert (code, json_code, errors) == (0, 0, "")
    assert (document["command"], document["ok"]) == (daemon, True)
    for finding in document["findings"]:
        assert finding.keys() == {"check", "level", "found", "advice"}
        if finding["check"] not in ("clock", "disk", "capacity"):
            assert finding["found"] in text


def test_settings_that_stop_the_start_are_a_failure(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f'prot = 1\nkey_hash = "{KEY}"\n')
    code, output, _ = run("doctor", "--config", str(path))
    line, total = output.splitlines()
    expected = f"FAIL  settings       {path}:1: unknown option 'prot'; did you mean 'port'?"
    assert (code, total) == (1, "1 failed, 0 to look at")
    assert line.startswith(expected)
    assert KEY not in output
    code, output, _ = run("doctor", "--json", "--config", str(path))
    document = json.loads(output)
    assert (code, document["ok"], len(document["findings"])) == (1, False, 1)
    assert run("maintain", "--config", str(path))[0] == STARTUP_FAILED


def test_what_the_start_would_warn_about_is_a_warning(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GCM_ENABLED", "1")
    code, output, _ = run("doctor", *NODE)
    assert code == 0
    assert "WARN  settings       environment variable GCM_ENABLED is ignored: gcm_enabled" in output


def test_a_failure_has_exit_code_1_and_says_what_to_do(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, Check("one", well), Check("two", broken))
    code, output, _ = run("doctor")
    assert code == 1
    assert output.splitlines() == [
        "OK    one            it works",
        "OK    two            a part works",
        "WARN  two            slow. Wait",
        "FAIL  two            broken. Repair it",
        "1 failed, 1 to look at",
    ]
    use(monkeypatch, Check("one", well))
    assert run("doctor")[0] == 0


async def test_a_check_that_does_not_end_or_may_not_read_fails_and_the_others_go_on() -> None:
    sources = {"port": Source("file", "x.toml:3")}
    examined = Subject(Settings(port=0, sources=sources), lambda: 0.0)
    checks = (
        Check("a", endless, timeout=0.01),
        Check("b", forbidden),
        Check("c", stops, "Make it even"),
        Check("d", well),
    )
    lines = [line async for line in examine(examined, checks)]
    assert [(line.check, line.finding.level, str(line.finding)) for line in lines] == [
        ("a", Level.OK, "it begins"),
        ("a", Level.FAIL, "no result within 0.01 s. See what of it does not answer"),
        ("b", Level.FAIL, "/proc/secret: Permission denied. See its mode"),
        ("c", Level.FAIL, "x.toml:3: port: it is odd. Make it even"),
        ("d", Level.OK, "it works"),
    ]


def test_no_secret_is_printed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {
        "CRYPTO_KEY": KEY,
        "AUTH_KEY": "geheim-auth",
        "KEY_HASH": "geheim-hash",
        "SENDERID_LIST": '{"1": {"auth": "geheim-gcm"}}',
        "FCM_CREDS": '{"1": {"projectid": "p", "auth": "geheim-fcm"}}',
        "SENTRY_DSN": "https://geheim-dsn@sentry.example/1",
        "MEGAPHONE_API_TOKEN": "geheim-token",
        "DATADOG_API_KEY": "geheim-datadog",
    }
    for name, text in secrets.items():
        monkeypatch.setenv(name, text)
    for flags in ((), ("--json",)):
        _, output, errors = run("doctor", *NODE, *flags)
        for text in (KEY, "geheim-auth", "geheim-hash", "geheim-gcm", "geheim-dsn"):
            assert text not in output + errors
        assert "geheim-token" not in output + errors
        assert "geheim-datadog" not in output + errors
