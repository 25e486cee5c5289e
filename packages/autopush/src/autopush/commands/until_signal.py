"""Running a command on an event loop until it is done or told to stop.

Rule: SIGINT and SIGTERM end it at its next wait, wherever that is; a second one ends its leaving.
"""

import asyncio
import signal
from collections.abc import Coroutine

import uvloop

from autopush.commands.output import complain


def run(work: Coroutine[object, object, int]) -> int:
    """The exit code of `work`, or 128 and the number of the signal that ended it."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_until_signal(work))


async def _until_signal(work: Coroutine[object, object, int]) -> int:
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    stopped_by = 0

    def stop(number: int) -> None:
        nonlocal stopped_by
        stopped_by = number
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        complain("stopped; run it again for the rest")
        return 128 + stopped_by
