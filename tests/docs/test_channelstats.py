"""The pages on channelstats and its code agree.

Commands, settings and tables of reports are made from the code; these tests hold the rest: what is
there is explained, and what people typed names things that exist.
"""

import re
import shlex
import tomllib
from functools import cache
from pathlib import Path

import pytest
from docs._ext import pages

from channelstats.commands import COMMANDS, ListedCommand
from channelstats.commands.context import make_parser
from channelstats.pages.model import ALL_VIEWS
from channelstats.settings import OPTIONS, PREFIX, load
from channelstats.settings.sources import OTHER_VARIABLES
from support.paths import ROOT

PAGES = {path.stem: path for path in sorted((ROOT / "docs" / "channelstats").glob("*.md"))}
EVERYTHING = {
    **PAGES,
    "README": ROOT / "README.md",
    "CHANGELOG": ROOT / "CHANGELOG.md",
    "architecture": ROOT / "docs" / "architecture.md",
    "testing": ROOT / "docs" / "testing.md",
}
BLOCK = re.compile(r"^ *```(?P<kind>\w+)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


PARSERS = {command.name: make_parser(command) for command in COMMANDS}


@cache
def text_of(page: str) -> str:
    """A page with what is made from the code. That takes a while, and is left to the tests: each
    process that shares them imports this module.
    """
    text = EVERYTHING[page].read_text("utf-8")
    return pages.fill(text) if page in PAGES else text


def blocks(page: str, *kinds: str) -> list[str]:
    return [found["text"] for found in BLOCK.finditer(text_of(page)) if found["kind"] in kinds]


def spans(page: str) -> list[str]:
    """What stands in a line of text as code."""
    return SPAN.findall(BLOCK.sub("", text_of(page)))


def rows(page: str) -> list[str]:
    return [line for line in text_of(page).splitlines() if line.startswith("|")]


# ── what is in the code is in the pages ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_is_explained_outside_the_list_of_commands(command: ListedCommand) -> None:
    told = "\n".join(text_of(page) for page in PAGES if page != "commands")
    assert re.search(rf"(channelstats |`){command.name}\b", told)


@pytest.mark.parametrize("title", ALL_VIEWS.values())
def test_every_view_says_what_it_answers(title: str) -> None:
    assert [row for row in rows("dashboard") if row.startswith(f"| {title} |")]


# ── what people typed names things that exist ────────────────────────────────────────────────────

PROGRAM = re.compile(r"^(?:\S+=\S+ )*(?:sudo -u \S+ )?(?:\S*/)?channelstats (?P<words>.*)$")


def command_lines(page: str) -> list[str]:
    """What follows `channelstats` in every line that somebody may copy."""
    found = []
    for block in blocks(page, "console"):
        prompts = re.findall(r"^ *[$#] (.*)$", block, re.MULTILINE)
        found += [part.strip() for line in prompts for part in line.split("|")]
    for block in blocks(page, "ini", "text"):
        found += re.findall(r"^ExecStart=(.*)$", block, re.MULTILINE)
        found += re.findall(r"^(?:[\d*,/-]+ +){5}(.*)$", block, re.MULTILINE)
    return [match["words"] for line in found if (match := PROGRAM.match(line))]


@pytest.mark.parametrize("page", EVERYTHING)
def test_command_lines_that_pages_show_are_valid(page: str) -> None:
    for line in command_lines(page):
        name, *words = shlex.split(line)
        if name != "COMMAND":
            given = PARSERS[name].parse_args(words)  # leaves with an error at what is no flag
            load({**vars(given), "data": "/nonexistent"}, {})


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_flags_named_in_the_text_exist(page: str) -> None:
    """In `channelstats forget`, `sync --join`, `--quiet`."""
    flags = {
        name: {flag for action in parser._actions for flag in action.option_strings}
        for name, parser in PARSERS.items()
    }
    every = set().union(*flags.values())
    for span in spans(page):
        words = span.removeprefix("channelstats ").split()
        if span.startswith("channelstats "):
            assert words[0] in {*PARSERS, "COMMAND"}, span
        named = {word for word in words if re.fullmatch(r"--[a-z-]+", word)}
        assert named <= flags.get(words[0], every), span


@pytest.mark.parametrize("page", PAGES)
def test_settings_files_that_pages_show_are_valid(page: str, tmp_path: Path) -> None:
    shown = [*blocks(page, "toml"), *(span for span in spans(page) if re.match(r"\w+ = ", span))]
    for text in shown:
        tomllib.loads(text)
        file = tmp_path / "channelstats.toml"
        file.write_text(text, "utf-8")
        load({"config": str(file)}, {})


@pytest.mark.parametrize("page", EVERYTHING)
def test_variables_that_pages_name_exist(page: str) -> None:
    named = set(re.findall(rf"\b{PREFIX}[A-Z_]*[A-Z]\b", text_of(page)))
    assert named <= {*(setting.variable for setting in OPTIONS), *OTHER_VARIABLES}
