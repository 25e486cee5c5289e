"""How the documentation is built: Sphinx, Markdown, no network."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from autopush.version import VERSION  # noqa: E402

project = "autopush"
author = "the autopush authors"
project_copyright = "the autopush authors; text under MPL-2.0"
version = release = VERSION

extensions = ["myst_parser", "docs._ext.generated"]
exclude_patterns = ["_build", "_ext"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 3
nitpicky = True

html_theme = "furo"
html_title = f"autopush {VERSION}"
html_static_path = ["_static"]
html_css_files = ["diagram.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
