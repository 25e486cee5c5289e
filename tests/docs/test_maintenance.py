"""The pages on maintenance and operations agree with the commands."""

import argparse
import re

from autopush.commands import COMMANDS, Command
from autopush.delivery.diagnosis import Rule
from support.cases import cases
from support.paths import ROOT

PAGE = (ROOT / "docs" / "maintenance.md").read_text("utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")
MOVING = (ROOT / "docs" / "moving-over.md").read_text("utf-8")
TESTS = (ROOT / "docs" / "test-your-code.md").read_text("utf-8")
USERS = (ROOT / "docs" / "users.md").read_text("utf-8")
CONSOLE = (ROOT / "docs" / "console.md").read_text("utf-8")
PAGES = {
    **dict.fromkeys(("backup", "restore", "check", "upgrade"), OPERATIONS),
    "store": MOVING,
    "test-service": TESTS,
    "user": USERS,
    **dict.fromkeys(("console-token", "audit"), CONSOLE),
}
"""Of the commands that are not on the page on maintenance."""


def maintain_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    [maintain] = [command for command in COMMANDS if command.name == "maintain"]
    maintain.line().add_arguments(parser)
    return parser


@cases(("name", "default"), vars(maintain_parser().parse_args([])).items())
def test_every_flag_is_explained_with_its_default(name: str, default: object) -> None:
    flag = "--" + name.replace("_", "-")
    mentions = [line for line in PAGE.splitlines() if re.search(rf"`{flag}\b", line)]
    mentions += [line for line in PAGE.splitlines() if f"autopush maintain {flag}" in line]
    assert mentions
    if isinstance(default, int) and not isinstance(default, bool):
        text = "\n".join(mentions)
        assert re.search(rf"\| {default} \||\({default}\b", text), text


@cases(
    "command",
    [command for command in COMMANDS if command.module != "daemons" and not command.of_commands],
)
def test_every_command_is_shown_and_its_flags_are_explained(command: Command) -> None:
    page = PAGES.get(command.name, PAGE)
    assert re.search(rf"\$ (sudo (-u autopush )?)?autopush {command.name} ", page)
    parser = argparse.ArgumentParser(add_help=False)
    command.line().add_arguments(parser)
    for flag in parser._option_string_actions:
        assert re.search(rf"`(autopush [a-z ]+)?{flag}\b", page), flag


@cases("rule", Rule)
def test_every_rule_of_a_diagnosis_is_explained(rule: Rule) -> None:
    [row] = [line for line in PAGE.splitlines() if line.startswith(f"| {rule.title} |")]
    assert len(row.split("|")) == 5
