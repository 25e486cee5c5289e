"""Every bridge is complete: its option, its section in the page on bridges, its tests."""

import re

from docs._ext import pages

from autopush.settings import OPTIONS
from support.paths import PACKAGES, ROOT

PAGE = (ROOT / "docs" / "bridges.md").read_text("utf-8")
TESTS = PACKAGES / "autopush" / "tests" / "bridges"
HEADINGS = [heading.lower() for heading in re.findall(r"^##+ (.+)$", PAGE, re.MULTILINE)]


def test_the_options_put_every_module_with_a_bridge_into_service_and_no_other() -> None:
    assert {row.bridge for row in OPTIONS if row.bridge} == set(pages.bridge_modules())


def test_every_bridge_has_a_summary_a_section_and_tests() -> None:
    incomplete = {
        bridge
        for bridge, summary in pages.bridge_modules().items()
        if not summary
        or not any(re.search(rf"\b{bridge}\b", heading) for heading in HEADINGS)
        or not list(TESTS.glob(f"test_{bridge}*.py"))
    }
    assert incomplete == set()


def test_every_option_of_bridges_is_in_the_page() -> None:
    rows = [row.name for row in OPTIONS if row.group == "Bridges"]
    assert rows
    assert [name for name in rows if f"`{name}`" not in PAGE] == []
