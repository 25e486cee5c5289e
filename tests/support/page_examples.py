"""The examples in the pages of the documentation."""

import re
from textwrap import dedent

from support.paths import ROOT


def page(name: str) -> str:
    """The text of a page, as it was written."""
    return (ROOT / "docs" / f"{name}.md").read_text("utf-8")


def code_blocks(text: str, language: str) -> list[str]:
    """What is in the fences of that language, in order, without the indentation of the fence."""
    fences = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)
    return [dedent(block) if indent else block for indent, block in fences]
