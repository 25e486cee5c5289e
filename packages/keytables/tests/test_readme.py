"""The example of the README runs."""

import os
import re
import sys
from pathlib import Path

from support.paths import PYTHONPATH
from support.tools import run_captured

README = Path(__file__).parents[1] / "README.md"


def test_the_example_of_the_readme_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    found = re.search(r"```python\n(?P<program>.*?)```\n.*?```text\n(?P<output>.*?)```", text, re.S)
    assert found is not None
    result = run_captured(
        [sys.executable, "-W", "error", "-c", found["program"]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )
    assert result.stderr == ""
    assert result.stdout == found["output"]
    assert (tmp_path / "example.sqlite").exists()
