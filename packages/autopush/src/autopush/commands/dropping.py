"""Going through the steps of dropping user agents: shown, counted, and accounted for at the end.

Rule: however it ends, it says how many were dropped.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from autopush.commands.output import Output, complain
from autopush.store.maintenance import RemovalStep
from keytables import KeytablesError


async def go_through(
    steps: AsyncGenerator[RemovalStep, None], total: int, output: Output
) -> tuple[RemovalStep, bool]:
    """Take all steps; returns their sum, and whether that was all. If not, it was said why."""
    progress = output.progress(total)
    looked_at = dropped = 0
    failure: KeytablesError | None = None
    try:
        async with aclosing(steps):
            async for batch in steps:
                looked_at += batch.checked
                dropped += batch.dropped
                if progress is not None:
                    progress.add(batch.checked)
    except KeytablesError as error:
        failure = error
    except asyncio.CancelledError:
        if progress is not None:
            progress.clear()
        complain(f"{dropped:,} dropped so far")
        raise
    if progress is not None:
        progress.clear()
    if failure is not None:
        complain(f"{dropped:,} dropped, then: {failure}; run it again for the rest")
    return RemovalStep(looked_at, dropped), failure is None
