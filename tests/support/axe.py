"""axe: what of a page keeps somebody from using it, for a real browser."""

from support.chromium import Page
from support.paths import TOOLS
from support.tools import give_up

AXE = TOOLS / "dynalite/node_modules/axe-core/axe.min.js"


def need_axe() -> None:
    """Without it the test is skipped, and fails where CI is `true`."""
    if not AXE.exists():
        give_up("needs axe-core (install npm, then make servers)")


async def violations(page: Page) -> list[str]:
    """The rule and the element of each."""
    need_axe()
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text("utf-8"))
    found = await page.evaluate(
        """axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations
          .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 120)}`)))"""
    )
    return list(found)
