"""Modules that say `BOTH_LOOPS = True` run their coroutine tests on asyncio and on uvloop."""

from support.event_loops import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
