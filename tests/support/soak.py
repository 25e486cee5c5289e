"""How long a suite runs: short in `make test`, in full in `make slow`, long in `make soak`."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

SOAK, CI = (bool(os.environ.get(name)) for name in ("AUTOPUSH_SOAK", "CI"))
NUMBERS_OF_WORKERS = (1, 2, 4) if SOAK else (1, 2)
"""One that has no sibling, two, and in a soak more."""


def times(short: int, long: int) -> int:
    """How many rounds or examples: `short`, or `long` in a soak."""
    return long if SOAK else short


def examples(number: int, soaked: int) -> int:
    """How many examples a property tries: `number` in CI, half of them for a newcomer."""
    return soaked if SOAK else number if CI else number // 2


def slow(*values: object, name: str | None = None) -> Any:
    """Parameters of a test that are left to `make slow`."""
    return pytest.param(*values, id=name, marks=pytest.mark.slow)


def slow_after(quick: int, values: Iterable[object]) -> list[object]:
    """Parameters of a test: `make test` runs the first `quick` of them, `make slow` the others."""
    return [value if at < quick else slow(value) for at, value in enumerate(values)]


def each_number_of_workers(
    *quick: int, beyond: Iterable[int] = NUMBERS_OF_WORKERS
) -> pytest.MarkDecorator:
    """Runs a test with these numbers of `workers`, and in `make slow` with those `beyond`."""
    marks = {number: () if number in quick else pytest.mark.slow for number in (*quick, *beyond)}
    return pytest.mark.parametrize(
        "workers",
        [
            pytest.param(number, id=f"workers {number}", marks=mark)
            for number, mark in sorted(marks.items())
        ],
    )
