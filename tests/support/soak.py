"""How long a suite runs: short by default, long with `make soak`."""

import os

SOAK = bool(os.environ.get("AUTOPUSH_SOAK"))


def times(short: int, long: int) -> int:
    """How many rounds or examples: `short`, or `long` in a soak."""
    return long if SOAK else short
