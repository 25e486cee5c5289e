"""The progress bar of commands that take long."""

import io
from pathlib import Path

import pytest

from support.data_store import STORE_LINE, DataStore, Run, uaid


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def listed(store: DataStore, tmp_path: Path) -> str:
    """A list of 30 user agents that are in the store."""
    store.add_users(range(30))
    path = tmp_path / "list"
    path.write_text("\n".join(uaid(number) for number in range(30)))
    return str(path)


@pytest.mark.parametrize("quiet", [False, True])
def test_on_a_terminal_a_bar_is_drawn_and_cleared_unless_quiet(
    run: Run, listed: str, monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    code, out, _ = run("delete-uaids", listed, *(["--quiet"] if quiet else []))
    assert code == 0
    assert out == ("" if quiet else "dropped 30 of 30; 0 had no record\n")
    drawn = STORE_LINE.sub("", terminal.getvalue())
    assert ("0/30" in drawn) is not quiet
    assert "\n" not in drawn
    assert drawn.rpartition("\r")[2].strip() == ""
    assert uaid(0) not in drawn


def test_elsewhere_nothing_is_drawn(run: Run, listed: str) -> None:
    assert run("delete-uaids", listed)[2] == ""
