"""The TOML examples of the documentation are files that the service accepts."""

import re
import tomllib
from pathlib import Path

import pytest

from autopush import cli
from autopush.settings.value_types import is_fernet_key
from support.cases import cases
from support.paths import ROOT

EXAMPLES = [
    (path.name, text)
    for path in sorted((ROOT / "docs").glob("*.md"))
    for text in re.findall(r"```toml\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
]


@pytest.mark.parametrize(("page", "text"), EXAMPLES)
def test_a_toml_example_is_accepted(
    page: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "autopush.toml"
    file.write_text(text)
    cli.main(["settings", "--config", str(file)])  # 3: the files that it names are not here
    shown, errors = capsys.readouterr()
    assert shown.startswith("# autopush serve: "), errors
    for name in tomllib.loads(text):
        assert re.search(rf"^{name} .*{re.escape(str(file))}:\d+$", shown, re.MULTILINE), name


@cases(
    "path",
    [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "deploy").glob("**/*")),
    ],
)
def test_no_example_has_a_key_that_the_service_would_accept(path: Path) -> None:
    if path.is_file():
        words = re.findall(r"[A-Za-z0-9_=-]{40,}", path.read_text("utf-8"))
        assert not [word for word in words if is_fernet_key(word)]


def test_the_settings_that_the_page_shows_are_those_that_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    [listing] = re.findall(r"\$ MAX_DATA=5630 autopush ([^\n]*\n.*?)```", page, re.DOTALL)
    command, *lines = listing.splitlines()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MAX_DATA", "5630")
    Path(".autopush.toml").write_text("port = 9000\n")
    assert cli.main(command.split()) == 0
    assert {*lines} - {"…"} <= {*capsys.readouterr().out.splitlines()}
