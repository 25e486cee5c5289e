"""The event loops that coroutine tests run on.

A conftest imports the hook: modules below it that say `BOTH_LOOPS = True` then run their coroutine
tests on asyncio and on uvloop.
"""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

Factories = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Factories:
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
        "asyncio": asyncio.new_event_loop
    }
    assert isinstance(item, pytest.Function)
    if getattr(item.module, "BOTH_LOOPS", False):
        factories["uvloop"] = uvloop.new_event_loop
    return factories
