"""Modules that say `BOTH_LOOPS = True` run their coroutine tests on uvloop, and in CI on asyncio;
those that say `VIRTUAL_TIME = True` wait for no real time. What the tests of a module leave open
fails it.
"""

from support.event_loops import collect_what_is_left, pytest_asyncio_loop_factories

__all__ = ["collect_what_is_left", "pytest_asyncio_loop_factories"]
