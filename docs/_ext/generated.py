"""The Sphinx extension that puts the parts made from the code into the pages.

Nothing is written to the source tree: a page is filled while Sphinx reads it.
"""

from collections.abc import Sequence

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from .pages import PLACEHOLDER, fill


def fill_page(_: Sphinx, _page: str, source: list[str]) -> None:
    source[0] = fill(source[0])


def always_read(
    _: Sphinx, env: BuildEnvironment, _added: set[str], _changed: set[str], _removed: set[str]
) -> Sequence[str]:
    """Pages with placeholders change with the code, which Sphinx does not watch."""
    return [
        page
        for page in env.found_docs
        if PLACEHOLDER.search(env.doc2path(page).read_text(encoding="utf-8"))
    ]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", fill_page)
    app.connect("env-get-outdated", always_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
