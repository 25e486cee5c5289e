"""How long a suite runs: short in `make test`, in full in `make slow`, long in `make soak`."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

SOAK = bool(os.environ.get("AUTOPUSH_SOAK"))


def times(short: int, long: int) -> int:
    """How many rounds or examples: `short`, or `long` in a soak."""
    return long if SOAK else short


def slow(*values: object, name: str | None = None) -> Any:
    """Parameters of a test that are left to `make slow`."""
    return pytest.param(*values, id=name, marks=pytest.mark.slow)


def slow_after(quick: int, values: Iterable[object]) -> list[object]:
    """Parameters of a test: `make test` runs the first `quick` of them, `make slow` the others."""
    return [value if at < quick else slow(value) for at, value in enumerate(values)]
