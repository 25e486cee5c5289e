"""What the runbook and the page of security name exists: commands, options, metrics."""

import re
from collections.abc import Iterator

import pytest

from autopush import cli
from autopush.telemetry.metric_table import LIMITS, METRICS
from support.page_examples import code_blocks, page

RUNBOOK, SECURITY = page("runbook"), page("security")


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
