"""What a release has beside its packages, and the lines that install its wheels."""

import filecmp
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from support.packaged import RELEASE, in_release, run
from support.paths import ROOT

pytestmark = [in_release, pytest.mark.slow, pytest.mark.timeout(600)]
DIST = ROOT / (RELEASE or "")
PAGE = (ROOT / "docs/getting-started.md").read_text("utf-8")
LINES = re.findall(r"^\$ ((?:uv tool|pipx) install .*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_documentation_installs_the_wheels(line: str, tmp_path: Path) -> None:
    program, *words = shlex.split(line)
    places = ("UV_TOOL_DIR", "PIPX_HOME", "UV_TOOL_BIN_DIR", "PIPX_BIN_DIR")
    variables = {name: str(tmp_path / ("bin" if "BIN" in name else "tools")) for name in places}
    installer = Path(sys.executable).with_name(program)  # of requirements/release.txt
    run([installer, *words], cwd=DIST, variables=variables)
    assert run([tmp_path / "bin/autopush", "--version"]).startswith("autopush 2.")
    assert run([tmp_path / "bin/autokey"]).startswith("Key = ")


def test_the_sums_are_those_of_all_files() -> None:
    checked = run(["sha256sum", "--check", "SHA256SUMS"], cwd=DIST)
    assert len(checked.splitlines()) == len([*DIST.iterdir()]) - 1


def test_the_bill_of_materials_names_wheels_and_packages_of_debian() -> None:
    [path] = DIST.glob("*_sbom.json")
    document = json.loads(path.read_text())
    urls = {component["purl"].partition("@")[0] for component in document["components"]}
    assert (document["bomFormat"], document["metadata"]["component"]["name"]) == (
        "CycloneDX",
        "autopush",
    )
    assert {"pkg:pypi/cryptography", "pkg:pypi/keytables", "pkg:deb/debian/libssl3"} <= urls


def test_the_notes_are_the_part_of_the_changelog() -> None:
    notes = (DIST / "RELEASE_NOTES.md").read_text("utf-8")
    assert notes.strip() in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert not re.search("^## ", notes, re.MULTILINE)


def test_a_second_build_gives_the_same_files(tmp_path: Path) -> None:
    run([sys.executable, "packaging/release.py", "bundle", str(tmp_path / "again")], cwd=ROOT)

    def differing(comparison: "filecmp.dircmp[str]") -> list[str]:
        found = [*comparison.left_only, *comparison.right_only, *comparison.funny_files]
        _, mismatch, errors = filecmp.cmpfiles(
            comparison.left, comparison.right, comparison.common_files, shallow=False
        )
        found += [*mismatch, *errors]
        return found + [name for each in comparison.subdirs.values() for name in differing(each)]

    first = ROOT / ".tools/release/bundle"
    assert differing(filecmp.dircmp(first, tmp_path / "again", ignore=[])) == []
