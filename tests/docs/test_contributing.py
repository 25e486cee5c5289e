"""The worked examples of the page on contributing work as printed, on a copy of the source."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.paths import ROOT

PAGE = (ROOT / "docs" / "contributing.md").read_text("utf-8")
COPIED = ("bench", "deploy", "docs", "packages", "tests")
COPIED_FILES = ("CHANGELOG.md", "LICENSE", "Makefile", "README.md", "conftest.py", "pyproject.toml")
EXAMPLES = {
    "A new route": "test_robots_are_asked_to_stay_away",
    "A new option": "test_robots_are_allowed_by_an_option",
}
"""The sections, in the order of the page, and the test that each adds first."""


class Change(NamedTuple):
    """A passage of a file, and what takes its place."""

    path: str
    old: str
    new: str


def section(title: str) -> str:
    """The text under a heading."""
    return PAGE.partition(f"\n### {title}\n")[2].partition("\n### ")[0]


def steps(text: str) -> Iterator[list[Change]]:
    """The changes of each diff block: `+++ FILE`, then passages that begin with `@@`."""
    for block in re.findall(r"^```diff\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        changes = []
        for of_file in re.split(r"^\+\+\+ ", block, flags=re.MULTILINE)[1:]:
            path, *passages = re.split(r"\n?^@@\n", of_file, flags=re.MULTILINE)
            for passage in passages:
                lines = [line or " " for line in passage.rstrip("\n").split("\n")]
                old, new = (
                    "".join(f"{line[1:]}\n" for line in lines if line[0] in kept)
                    for kept in (" -", " +")
                )
                changes.append(Change(path, old, new))
        yield changes


def apply(changes: list[Change], root: Path) -> None:
    for path, old, new in changes:
        text = (root / path).read_text("utf-8")
        assert text.count(old) == 1, f"the passage is not once in {path}:\n{old}"
        (root / path).write_text(text.replace(old, new), "utf-8")


def run(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        check=False,
        cwd=root,
        # What tests need that a copy does not have is missing there, also in CI.
        env={
            name: value
            for name, value in os.environ.items()
            if name != "CI" and not name.startswith("PYTEST_")
        },
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "_build", "*.egg-info")
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name in COPIED_FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_worked_examples_can_be_followed(copy: Path) -> None:
    named = ""
    for title, test in EXAMPLES.items():
        first, *others = steps(section(title))
        apply(first, copy)
        web = "packages/autopush/tests/api"
        failing = run(copy, "pytest", "-q", web, "-k", test)
        assert failing.returncode == pytest.ExitCode.TESTS_FAILED, failing.stdout
        for changes in others:
            apply(changes, copy)
        [now] = re.findall(r"^\$ make test PYTEST_ARGS='(.*)'$", section(title), re.MULTILINE)
        assert set(now.split()) >= set(named.split())
        named = now
    # Once, with both of them: the second one names all that the first one does.
    passing = run(copy, "pytest", "-q", *named.split())
    assert passing.returncode == pytest.ExitCode.OK, passing.stdout
    for command in (["ruff", "check", "."], ["ruff", "format", "--check", "."]):
        checked = run(copy, *command)
        assert checked.returncode == 0, checked.stdout


@pytest.mark.slow
def test_a_route_that_the_pages_leave_out_is_noticed(copy: Path) -> None:
    test, route, *_pages = steps(section("A new route"))
    apply([*test, *route], copy)
    undocumented = run(copy, "pytest", "-q", "tests/docs/test_docs.py", "-k", "route")
    assert undocumented.returncode == pytest.ExitCode.TESTS_FAILED
    assert "/robots.txt" in undocumented.stdout
