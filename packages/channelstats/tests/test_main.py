"""Where the program begins."""

import subprocess
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

import channelstats
from channelstats.__main__ import INTERRUPTED, main


class Interrupted(MetaPathFinder):
    """Ctrl-C while a module is looked for."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "channelstats.cli":
            raise KeyboardInterrupt
        return None


def test_ctrl_c_while_it_begins_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "channelstats.cli", raising=False)
    monkeypatch.delattr(channelstats, "cli", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    assert main() == INTERRUPTED
    assert capfd.readouterr().err == "channelstats: interrupted; run it again to go on\n"


def test_nothing_of_ours_is_imported_before_that() -> None:
    code = "import sys, channelstats.__main__; print(*sorted(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = [name for name in ended.stdout.split() if name.startswith("channelstats")]
    assert ours == ["channelstats", "channelstats.__main__"]
