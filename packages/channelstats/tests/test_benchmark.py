"""The benchmarks of channelstats in small: they run to their end and print ratios."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT
from support.soak import slow

SMALL = ["--people", "40", "--channels", "5", "--messages", "3000", "--days", "28"]


@pytest.mark.parametrize(
    ("module", "more", "printed"),
    [
        slow("bench.channelstats", ["--rounds", "1"], r"Medians of 1\."),
        slow(
            "bench.channelstats.long_cost",
            ["--view", "volume", "--days", "28"],
            r"28 days: volume, with [1-9]",
        ),
        slow("bench.channelstats.import_cost", [], r"ratio of the import to\n +\w"),
    ],
)
def test_it_prints_what_import_and_report_cost(
    tmp_path: Path, module: str, more: list[str], printed: str
) -> None:
    small = SMALL if "long_cost" not in module else [*SMALL[:2], *SMALL[4:]]
    command = [sys.executable, "-m", module, *small, *more, "--data-root", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(printed, done.stdout), done.stdout
    assert list(tmp_path.iterdir()) == []
