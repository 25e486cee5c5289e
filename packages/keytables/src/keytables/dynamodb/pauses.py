"""Pauses of somebody who has to ask again.

The one rule: they are random between nothing and a bound that doubles, and end at a deadline.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

from keytables.errors import KeytablesError

__all__ = ["Pauses"]

FIRST: Final = 0.05
"""Seconds; the bound of the first pause."""


class Pauses:
    """The pauses of one errand of ``patience`` seconds; ``cap`` bounds each of them."""

    def __init__(
        self,
        patience: float,
        *,
        cap: float = 1.0,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + patience
        self._bound, self._cap, self._random = FIRST, cap, random

    async def pause(self, too_late: KeytablesError) -> None:
        """Sleep; raises ``too_late`` instead when the deadline would pass."""
        seconds = self._random() * self._bound
        self._bound = min(self._cap, self._bound * 2)
        if self._loop.time() + seconds > self._deadline:
            raise too_late
        await asyncio.sleep(seconds)
