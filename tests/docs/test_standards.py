"""The tables of tests: each line of the standards names tests that exist, or says why there is
none; so does each incident.
"""

import re
from typing import NamedTuple

import pytest

from support.cases import cases
from support.paths import PACKAGES, ROOT

PAGE = (ROOT / "docs" / "standards.md").read_text("utf-8")
SECTIONS = {
    standard: sections.split()
    for standard, sections in {
        "RFC 8030": "4 4.1 5 5.1 5.2 5.3 5.4 6 6.1 6.2 6.3 7.2 7.3 7.3.1 8 8.2 8.3 8.4 8.5",
        "RFC 8291": "4",
        "RFC 8292": "2 2.1 3 3.2 4.1 4.2 5",
    }.items()
}
"""The sections that ask something of a push service."""


class Line(NamedTuple):
    requirement: str
    section: str
    here: str
    tests: tuple[str, ...]


def lines(standard: str) -> list[Line]:
    table = PAGE.partition(f"\n## {standard}\n")[2].partition("\n## ")[0]
    found = []
    for row in re.findall(r"^\| (?!requirement )(.*) \|$", table, re.MULTILINE):
        requirement, section, here, tests = re.split(r" ?\| ", f"{row} ")
        found.append(Line(requirement, section, here, tuple(re.findall(r"`([^`]+)`", tests))))
    return found


LINES = [(standard, line) for standard in SECTIONS for line in lines(standard)]


@pytest.fixture(scope="module")
def test_names() -> frozenset[str]:
    modules = [*ROOT.glob("tests/**/test_*.py"), *PACKAGES.glob("*/tests/**/test_*.py")]
    # To parse 450 modules for this would take seconds.
    definition = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)
    return frozenset(
        name for module in modules for name in definition.findall(module.read_text("utf-8"))
    )


@cases(("standard", "line"), LINES)
def test_a_line_names_its_tests_or_says_why_there_is_none(
    standard: str, line: Line, test_names: frozenset[str]
) -> None:
    assert line.section in SECTIONS[standard]
    assert set(line.tests) <= test_names, "no such test"
    assert bool(line.tests) is not line.here.startswith("**no**: "), line


@pytest.mark.parametrize("standard", SECTIONS)
def test_every_section_has_lines_in_its_order(standard: str) -> None:
    order = [line.section for line in lines(standard)]
    assert list(dict.fromkeys(order)) == SECTIONS[standard]


def test_every_incident_of_others_has_tests(test_names: frozenset[str]) -> None:
    page = (ROOT / "docs" / "testing.md").read_text("utf-8")
    table = page.partition("\n## Incidents of others\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!incident )(.*) \| (.*) \|$", table, re.MULTILINE)
    assert len(rows) >= 5
    for incident, tests in rows:
        named = re.findall(r"`(test_\w+)`", tests)
        assert named, incident
        assert set(named) <= test_names, incident
