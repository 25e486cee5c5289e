"""`channelstats demo`: a made-up workspace, apart from everything real."""

import asyncio
import json
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from zipfile import ZipFile

import pytest

from channelstats.commands import NOT_DONE, demo
from channelstats.commands.context import CommandContext
from channelstats.settings import Settings
from support.channelstats.called import Capture, called, stored
from support.channelstats.house import NOW
from support.channelstats.process import PATIENCE, READY, environment, is_listening, waiting_request
from support.soak import slow_after

SMALL = ("--people", "12", "--channels", "3", "--messages", "60", "--days", "9")


class Dashboard:
    """In place of the real one: what it was given, and what lay in its folder."""

    def __init__(self) -> None:
        self.settings: list[Settings] = []
        self.files: list[set[str]] = []

    async def serve(
        self, context: CommandContext, on_ready: Callable[[str], object], **_: object
    ) -> None:
        self.settings.append(context.settings)
        self.files.append(await asyncio.to_thread(self.look, context.settings.folder))
        on_ready("http://127.0.0.1:1/")

    def look(self, folder: Path) -> set[str]:
        return {path.name for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def dashboard(monkeypatch: pytest.MonkeyPatch) -> Dashboard:
    made = Dashboard()
    monkeypatch.setattr(demo, "serve_dashboard", made.serve)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    return made


def run(*flags: str) -> int:
    return called("demo", *SMALL, *flags, now=NOW)


# ── the folder ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", slow_after(1, (signal.SIGTERM, signal.SIGINT)))
def test_it_is_gone_after_the_second_signal_too(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "channelstats", "demo", "--no-browser", *SMALL],
        stdout=subprocess.PIPE,
        text=True,
        env={**environment(), "TMPDIR": str(tmp_path)},
    ) as process:
        try:
            assert process.stdout is not None
            host = urlsplit(process.stdout.readline().removeprefix(READY).strip()).netloc
            assert len(list(tmp_path.iterdir())) == 1
            with waiting_request(host):
                process.send_signal(number)
                while is_listening(host):
                    pass
                process.send_signal(number)
                assert process.wait(PATIENCE) == -number
        finally:
            process.kill()
    assert list(tmp_path.iterdir()) == []


def test_it_is_made_shown_and_gone_and_touches_nothing_of_a_real_workspace(
    dashboard: Dashboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHANNELSTATS_DATA", str(tmp_path / "real"))
    monkeypatch.setenv("CHANNELSTATS_STORE", f"sqlite:///{tmp_path}/real.sqlite")
    monkeypatch.setenv("CHANNELSTATS_SLACK_NAME", "real")
    monkeypatch.setenv("CHANNELSTATS_PORT", "9999")
    monkeypatch.setenv("CHANNELSTATS_WEEK_START", "monday")
    assert run() == 0
    (settings,), (files,) = dashboard.settings, dashboard.files
    assert (settings.store, settings.slack_name, settings.port) == ("", "", 0)
    assert settings.week_start == "monday"
    assert "channelstats.sqlite" in files
    assert "export.zip" not in files
    assert not settings.folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_in_a_folder_that_is_named_it_stays_and_is_shown_again(
    dashboard: Dashboard, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    assert run("--data", str(folder), "--port", "8099") == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    messages = stored(folder=folder)
    assert len(messages) == 60
    before = (folder / "channelstats.sqlite").stat().st_mtime_ns
    assert called("demo", *SMALL, "--data", str(folder), now=NOW + 86_400 * 30) == 0
    assert (folder / "channelstats.sqlite").stat().st_mtime_ns == before
    assert [settings.port for settings in dashboard.settings] == [8099, 0]
    assert max(str(item["date"]) for item in messages.values()) <= "2024-03-20"


def test_one_that_was_interrupted_is_completed(
    dashboard: Dashboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "kept"
    with monkeypatch.context() as patch:
        patch.setattr(demo, "import_archive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run("--data", str(folder))
    assert dashboard.settings == []
    assert called("demo", *SMALL, "--data", str(folder), now=NOW + 86_400 * 30) == 0
    dates = [str(item["date"]) for item in stored(folder=folder).values()]
    assert len(dates) == 60
    assert max(dates) <= "2024-03-20"  # what was begun, not what would be made by now


def test_a_folder_with_something_else_is_refused(
    dashboard: Dashboard, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "channelstats.sqlite").write_bytes(b"real")
    assert run("--data", str(tmp_path)) == 3
    assert "not a demo's; name another folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["channelstats.sqlite"]
    kept = tmp_path / "kept"
    assert run("--data", str(kept)) == 0
    assert run("--data", str(kept), "--seed", "2") == 3
    assert "holds another demo" in capsys.readouterr().err
    (kept / demo.KEPT).write_bytes(b"{")
    assert run("--data", str(kept)) == 3
    assert demo.KEPT in capsys.readouterr().err
    assert len(dashboard.settings) == 1


# ── the export ──────────────────────────────────────────────────────────────────────────────────


def test_as_an_export_it_is_a_file_and_no_more(
    dashboard: Dashboard, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "made.zip"
    assert run("--export", str(path)) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["made.zip"]
    with ZipFile(path) as archive:
        assert len(json.loads(archive.read("users.json"))) == 12
        assert len(json.loads(archive.read("channels.json"))) == 3
    assert dashboard.settings == []
    assert capsys.readouterr().err == f"{path}: 60 made-up messages\n"
    assert called("import-export", str(path), now=NOW) == 0


def test_what_is_there_is_not_replaced(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "made"
    path.mkdir()
    assert run("--export", str(path)) == 3
    assert "exists already" in capsys.readouterr().err
    assert list(path.iterdir()) == []


@pytest.mark.parametrize("name", ["made.zip", "made"])
def test_an_export_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        if path.suffix:
            path.write_bytes(b"half")
        else:
            path.mkdir()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(demo, "write_export", full)
    assert run("--export", str(tmp_path / name)) == 3
    assert list(tmp_path.iterdir()) == []


# ── the browser ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("screen", "flags", "opened"),
    [("DISPLAY", (), True), ("DISPLAY", ("--no-browser",), False), ("NOTHING", (), False)],
)
def test_a_browser_is_opened_where_there_is_a_screen(
    monkeypatch: pytest.MonkeyPatch, screen: str, flags: tuple[str, ...], opened: bool
) -> None:
    seen = threading.Event()
    monkeypatch.setattr("webbrowser.open", lambda _: seen.set())
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv(screen, ":0")
    assert run(*flags) == 0
    for thread in threading.enumerate():
        if thread.name == demo.BROWSER:
            thread.join(10)
    assert seen.is_set() is opened


def test_a_port_that_is_in_use_is_said_before_anything_is_made_up(
    tmp_path: Path, capfd: Capture, dashboard: Dashboard
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        data = tmp_path / "demo"
        assert called("demo", *SMALL, "--port", port, "--data", str(data), now=NOW) == NOT_DONE
    found = capfd.readouterr()
    assert f"port {port} of 127.0.0.1 is in use: give another one with --port" in found.err
    assert "made" not in found.err
    assert not data.exists()
    assert dashboard.settings == []
