import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from autopush import cli
from support import forked
from support.data_store import STORE_LINE, DataStore, Run
from support.event_loops import collect_what_is_left
from support.service import clean_environment

__all__ = ["collect_what_is_left"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataStore:
    """A data folder that the commands of the test find."""
    data = tmp_path / "data"
    data.mkdir()
    for name in os.environ.keys() - clean_environment().keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AUTOPUSH_DATA", str(data))
    monkeypatch.setenv("AUTOPUSH_LOG_OUTPUT", "none")
    monkeypatch.chdir(tmp_path)
    return DataStore(data)


@pytest.fixture
def run(store: DataStore, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command; what it prints is without the line that names the store."""

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(words)
        out, err = capfd.readouterr()
        return code, out, STORE_LINE.sub("", err)

    return run


@pytest.fixture
def installed(store: DataStore) -> Run:
    """Runs a program that the distribution installs, in a process of its own."""

    def run(program: str, *words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        if program == "autopush" and not stdin:
            forked_one = forked.run(words)
            return forked_one.returncode, forked_one.stdout, STORE_LINE.sub("", forked_one.stderr)
        path = Path(sysconfig.get_path("scripts"), program)
        ended = subprocess.run(
            [path, *words], input=stdin, capture_output=True, timeout=60, check=False
        )
        return ended.returncode, ended.stdout.decode(), STORE_LINE.sub("", ended.stderr.decode())

    return run
