"""What the runbook and the page of security name exists: lines, commands, options, metrics."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from autopush import cli
from autopush.settings import OPTIONS
from autopush.settings.options import LIMITS as LIMIT_OPTIONS
from autopush.telemetry.metric_table import LIMITS, METRICS
from support.cases import cases
from support.page_examples import code_blocks, page
from support.paths import PACKAGES

RUNBOOK, SECURITY = page("runbook"), page("security")
OPERATIONS = page("operations")
SOURCES = PACKAGES / "autopush" / "src" / "autopush"

_LINE = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR) (?P<module>[\w.]+): (?P<event>.*?)(?P<fields>(?: \w+=.*)?)$"
)
OF_OTHERS = ("autopush.service: ", "FAIL  ")
"""How lines of systemd and of the doctor begin."""


def lines(text: str) -> Iterator[str]:
    for block in code_blocks(text, "text"):
        yield from block.splitlines()


LOG_LINES = [
    found for line in [*lines(RUNBOOK), *lines(OPERATIONS)] if (found := _LINE.match(line))
]


@cache
def texts(path: str) -> frozenset[str]:
    """The text constants of a module, or of all modules."""
    files = [SOURCES / path] if path else SOURCES.rglob("*.py")
    return frozenset(
        node.value
        for file in files
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@cases("line", LOG_LINES)
def test_a_line_of_the_log_is_one_that_its_module_writes(line: re.Match[str]) -> None:
    module = line["module"].replace(".", "/")
    if module == "request":
        module = "api/request_log"
    assert line["event"] in texts(f"{module}.py")


@cases("line", LOG_LINES)
def test_the_fields_of_a_line_are_those_that_its_module_writes(line: re.Match[str]) -> None:
    names = set(re.findall(r" (\w+)=", re.sub(r"'[^']*'|\"[^\"]*\"", "", line["fields"])))
    module = line["module"].replace(".", "/")
    source = (SOURCES / f"{'api/request_log' if module == 'request' else module}.py").read_text()
    if "RepeatLimiter" in source:
        names.discard("suppressed")  # which it adds
    missing = {name for name in names if not re.search(rf"\b{name}\b", source)}
    assert not missing


def test_what_a_start_prints_is_in_the_code() -> None:
    printed = [line for line in lines(RUNBOOK) if line.startswith("autopush: ")]
    assert printed
    for line in printed:
        assert any(len(text) > 20 and text.strip() in line for text in texts("")), line


@cases("event", re.findall(r"^\| `([A-Z][^`]*)`", RUNBOOK, re.MULTILINE))
def test_an_event_of_the_first_table_is_in_the_code(event: str) -> None:
    words = event.partition(" kind=")[0]
    assert any(text.startswith(words) for text in texts("")), event


def commands() -> Iterator[tuple[str, list[str]]]:
    for text in (RUNBOOK, SECURITY):
        for block in code_blocks(text, "console"):
            for line in re.findall(r"^\$ (?:sudo )?autopush (.*)$", block, re.MULTILINE):
                command, *words = line.partition("|")[0].split()
                yield command, words


@pytest.mark.parametrize(("command", "words"), list(commands()), ids=str)
def test_a_command_exists_with_its_flags(
    command: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, "--help"]) == 0
    known = capsys.readouterr().out
    for word in words:
        if word.startswith("--"):
            assert re.search(rf"{re.escape(word)}\b", known), word


def test_all_metrics_that_are_named_exist() -> None:
    known = {f"autopush_{metric.name.replace('.', '_')}" for metric in METRICS}
    for name in re.findall(r"\bautopush_[a-z_]+", RUNBOOK):
        assert name.removesuffix("_total") in known, name


def test_every_limit_has_a_row_on_both_pages() -> None:
    rows = [line for line in RUNBOOK.splitlines() if line.startswith("| `")]
    labels = [row.rpartition("| ")[2] for row in SECURITY.splitlines() if row.startswith("| ")]
    for limit in LIMITS:
        assert any(f"`{limit}`" in label for label in labels), limit
        assert limit == "broadcasts" or any(f"`{limit}`" in row for row in rows), limit


def test_every_option_of_limits_is_on_the_page_of_security() -> None:
    limits = [option.name for option in OPTIONS if option.group == LIMIT_OPTIONS.title]
    assert limits
    for name in [*limits, "min_free_space"]:
        assert f"`{name}`" in SECURITY, name
