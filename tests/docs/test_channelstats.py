"""The pages on channelstats and its code agree.

Commands, settings and tables of reports are made from the code; these tests hold the rest: what is
there is explained, and what people typed names things that exist.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from docs._ext import pages

from channelstats.commands import COMMANDS, ListedCommand, doctor, send
from channelstats.commands.context import make_parser
from channelstats.days import Calendar
from channelstats.render.data import json_of
from channelstats.render.names import Directory
from channelstats.render.reports import Form
from channelstats.settings import OPTIONS, PREFIX, load
from channelstats.settings.sources import OTHER_VARIABLES
from channelstats.stats import Options, Period
from channelstats.tables.items import HASH_KEYS, MESSAGE_INDEXES
from channelstats.tables.message_row import MessageRow, item_of
from channelstats.views.model import ALL_VIEWS, Choice, Kind, Page
from channelstats.web import filters
from support.channelstats.house import EXAMPLE, MODERN, UTC, decoded, house
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


async def test_every_key_of_a_report_is_in_the_page_on_the_document(tmp_path: Path) -> None:
    async with house(tmp_path) as opened:
        await opened.take_in(EXAMPLE, MODERN)
        made = await opened.report(Period(date(2024, 3, 10), 7, UTC), Options(MODERN))
    found = decoded(made)
    for key in (*found, *keys_below(found)):
        assert re.search(rf"`{re.escape(key)}`", text_of("document")), key


def keys_below(document: Any) -> Iterator[str]:
    """The names in a report that are no IDs, no dates and no numbers."""
    yield from document["statistics"]
    yield from document["new_statistics"]
    yield from document["new_statistics"]["retention"]
    yield from document["new_statistics"]["huddles"]
    yield from document["new_statistics"]["first_reply"]
    for of in ("user_stats", "enriched_user", "channel_stats", "enriched_channel"):
        yield from next(iter(document[of].values()))
    compared = document["compared"]
    yield from compared
    for of in ("channels", "users"):
        one = next(iter(compared[of].values()))
        yield from one
    yield from compared["users"][next(iter(compared["users"]))]["people"]


@pytest.mark.parametrize("title", ALL_VIEWS.values())
def test_every_view_says_what_it_answers(title: str) -> None:
    assert [row for row in rows("dashboard") if row.startswith(f"| {title} |")]


def attributes_of_a_message() -> set[str]:
    values = {"ts": "1700000000.000100"}
    for field in msgspec.structs.fields(MessageRow):
        values.setdefault(field.name, {str: "x", int: 1, bool: True}[field.type])  # type: ignore[arg-type]
    return set(item_of(MessageRow(**values), Calendar(UTC))) - {"cid_ts"}  # type: ignore[arg-type]


def keys_of_an_exported_view() -> Iterator[str]:
    today = date(2024, 3, 16)
    view = Page("people", ("People",), Choice(today, today), (today, today))
    yield from json.loads(json_of(view, Directory()))
    yield from Kind


SCOPES = (*doctor.NEEDED_SCOPES.values(), *doctor.USEFUL_SCOPES.values())


@pytest.mark.parametrize(
    ("page", "heading", "names"),
    [
        ("data", "## A message", attributes_of_a_message()),
        ("data", "", {*HASH_KEYS.values(), *(index.name for index in MESSAGE_INDEXES)}),
        ("dashboard", "## Numbers for programs", {*keys_of_an_exported_view()}),
        ("dashboard", "## Filters", {*filters.NAMES}),
        ("getting-started", "", {*Form}),
        ("slack", "", {*send.DESTINATIONS}),
        ("slack", "## Scopes", {scope for purpose in SCOPES for scope, _ in purpose}),
    ],
)
def test_a_section_names_all_of_its_subject(page: str, heading: str, names: set[str]) -> None:
    text = text_of(page)
    section = text.partition(heading)[2].partition("\n## ")[0] if heading else text
    assert {name for name in names if f"`{name}`" not in section} == set()


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


# ── what is said when something is wrong ─────────────────────────────────────────────────────────
