"""The Dockerfile of the image, as its tests read it."""

import re

from support.paths import ROOT


def instructions() -> list[tuple[str, str]]:
    """Those of the Dockerfile: the word, and the rest with continued lines joined."""
    text = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    found = [line.partition(" ") for line in text.splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in found]
