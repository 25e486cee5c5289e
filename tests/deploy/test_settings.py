"""Whatever the files of `deploy/` and its page say to the service, the service understands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from autopush import cli
from autopush.commands import COMMANDS
from autopush.webpush.tokens import new_key
from support.cases import cases
from support.paths import ROOT

DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
TEXTS = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in FILES}
TEXTS["docs/deployment.md"] = (ROOT / "docs" / "deployment.md").read_text("utf-8")

BY_NAME = {command.name: command for command in COMMANDS}


def words_of(text: str) -> Iterator[list[str]]:
    """Every command line of autopush in a text, without its program; also those in brackets."""
    for line in text.splitlines():
        if match := re.search(r'\["autopush"(?:, "[^"]*")*\]', line):
            yield yaml.safe_load(match[0])[1:]
        elif match := re.match(r"(?:ExecStart=|\s*\$ (?:sudo )?)(?:\S*/)?autopush (.*)", line):
            yield shlex.split(match[1].partition(" | ")[0])


OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")
LINES = [
    (name, words)
    for name, text in {**TEXTS, "docs/operations.md": OPERATIONS}.items()
    for words in words_of(text)
]


@cases(("name", "words"), LINES)
def test_every_command_line_is_understood(name: str, words: list[str]) -> None:
    values = [re.sub(r"^%i$", "8080", word) for word in words]
    _, unknown = cli.make_parser(BY_NAME[values[0]]).parse_known_args(values[1:])
    assert unknown == []


def tables() -> Iterator[tuple[str, str]]:
    """Every text that is to be an autopush.toml: of a ConfigMap, or in a comment of a recipe."""
    for name, text in TEXTS.items():
        if name.endswith(".yaml"):
            for document in yaml.load_all(text, Loader=yaml.CSafeLoader):
                if document.get("kind") == "ConfigMap":
                    yield name, document["data"]["autopush.toml"]
        lines = re.findall(r"^# +([a-z_]+ = \".*\")$", text, re.MULTILINE)
        if lines:
            yield name, "\n".join(lines)


TABLES = list(tables())


@pytest.mark.parametrize(("name", "text"), TABLES)
@pytest.mark.parametrize("command", ["serve", "connection", "endpoint"])
def test_settings_are_accepted(
    name: str, text: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "autopush.toml"
    file.write_text(text)
    assert cli.main(["settings", "--for", command, "--config", str(file)]) == 0
    shown = capsys.readouterr().out
    assert re.search(
        rf"^endpoint_url +https://push\.example\.org +{file}:\d+$", shown, re.MULTILINE
    )


@pytest.mark.parametrize("command", ["connection", "endpoint"])
def test_the_ini_files_are_accepted(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_LOCAL_DYNAMODB", "http://dynamodb:8000")
    words = ["settings", "--for", command]
    for name in ("shared", command):
        words += [f"--config-{name}", str(DEPLOY / "config" / f"autopush_{name}.ini")]
    assert cli.main(words) == 0
    out, err = capsys.readouterr()
    assert "autopush_shared.ini:" in out
    assert f"autopush_{command}.ini:" in out
    assert err == ""


@pytest.mark.parametrize(
    "name", ["compose.yaml", "compose.dynamodb.yaml", "compose.postgresql.yaml"]
)
def test_the_variables_of_the_containers_are_accepted(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = yaml.safe_load((DEPLOY / name).read_text("utf-8"))
    for service in document["services"].values():
        if service["image"] != "autopush":
            continue
        with monkeypatch.context() as patch:
            for variable, text in service["environment"].items():
                # As compose does where the variable is not set; a key has no default.
                default = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
                patch.setenv(variable, new_key() if default.startswith("$") else default)
            command = service.get("command", ["autopush", "serve"])[1]
            assert cli.main(["settings", "--for", command]) == 0
            assert capsys.readouterr().err == ""
