"""`channelstats serve`, as a process."""

import json
import shutil
import signal
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest

from support.channelstats.process import (
    PATIENCE,
    READY,
    Folder,
    environment,
    is_listening,
    waiting_request,
)
from support.soak import slow_after

TOKEN = "correct-horse-battery"


@pytest.fixture
def folder(taken_in: Path, tmp_path: Path) -> Folder:
    return Folder(shutil.copytree(taken_in, tmp_path / "data"))


@contextmanager
def serving(
    folder: Folder, *words: str, **variables: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The dashboard on a free port: its address and its process, which may have ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "channelstats", "serve", "--port", "0", *words, *folder.settings],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment(), **variables},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line.startswith(READY), process.stderr.read()
        yield line.removeprefix(READY).strip(), process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)


def told(process: subprocess.Popen[str]) -> str:
    """What an ended process wrote."""
    out, err = process.communicate(timeout=PATIENCE)
    return out + err


def fetched(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("number", slow_after(1, (signal.SIGTERM, signal.SIGINT)))
def test_it_says_where_it_is_and_ends_when_told_to(folder: Folder, number: signal.Signals) -> None:
    with serving(folder) as (url, process):
        assert url.startswith("http://127.0.0.1:")
        status, text = fetched(f"{url}volume.json?to=2024-03-16&from=2024-03-10")
        assert status == 200
        assert json.loads(text)["tiles"]["words"]["cur"] == 40
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert told(process) == ""


@pytest.mark.parametrize("number", slow_after(1, (signal.SIGTERM, signal.SIGINT)))
def test_the_second_signal_ends_it_at_once(folder: Folder, number: signal.Signals) -> None:
    with serving(folder) as (url, process):
        host = urlsplit(url).netloc
        with waiting_request(host):
            process.send_signal(number)
            while is_listening(host):
                pass
            process.send_signal(number)
            assert process.wait(PATIENCE) == -number


def test_on_another_address_a_token_is_made_and_kept(folder: Folder) -> None:
    words = ("--host", "0.0.0.0")
    people = "people.json?from=2024-03-10&to=2024-03-16"
    with serving(folder, *words) as (url, process):
        kept = folder.path / "serve.token"
        token = kept.read_text().strip()
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert len(token) >= 32
        assert "Log in" in fetched(url)[1]
        assert fetched(f"{url}volume.json")[0] == 401
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(f"{url}{people}&token={token}", timeout=PATIENCE) as answer:
            assert answer.url == f"{url}{people}"
            assert answer.status == 200
            shown = answer.read().decode()
        process.terminate()
        process.wait(PATIENCE)
        log = told(process)
        assert token not in log
        assert f"log in at {url} with the token in {kept}" in log
    with serving(folder, *words) as (url, _):
        assert kept.read_text().strip() == token
        with opener.open(f"{url}{people}&token={token}", timeout=PATIENCE) as answer:
            assert answer.read().decode() == shown


def test_a_given_token_is_demanded_on_loopback_too(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(folder, CHANNELSTATS_SERVE_TOKEN=TOKEN) as (url, process):
        assert fetched(f"{url}volume.json")[0] == 401
        process.terminate()
        process.wait(PATIENCE)
        assert TOKEN not in told(process)
    assert not (folder.path / "serve.token").exists()
    monkeypatch.setenv("CHANNELSTATS_SERVE_TOKEN", "short")
    assert "CHANNELSTATS_SERVE_TOKEN: expected 12 or more" in folder.run("serve", code=3)


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        (TOKEN, 0o644, "others can read this token"),
        ("short", 0o600, "serve.token: expected a token"),
    ],
)
def test_a_kept_token_that_cannot_be_used_is_refused(
    folder: Folder, text: str, mode: int, says: str
) -> None:
    kept = folder.path / "serve.token"
    kept.write_text(text)
    kept.chmod(mode)
    said = folder.run("serve", "--host", "0.0.0.0", code=3)
    assert says in said
    assert text not in said


def test_without_an_import_it_says_what_to_do(tmp_path: Path) -> None:
    with serving(Folder(tmp_path / "none")) as (url, process):
        assert "channelstats import-export" in fetched(url)[1]
        process.terminate()
        process.wait(PATIENCE)
        assert "there is no data in" in told(process)
