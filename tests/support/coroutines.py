"""Coroutines that have to finish without waiting for anything."""

from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def at_once(coro: Coroutine[Any, Any, T]) -> T:
    """The value of a coroutine; fails if it has to wait."""
    try:
        coro.send(None)
    except StopIteration as finished:
        value: T = finished.value
        return value
    coro.close()
    pytest.fail("it had to wait")
