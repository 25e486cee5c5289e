"""What was made for one request and may serve the next.

Rule: of one key there is never more than one making at a time; what was kept is bounded, and so is
what waits. Whoever waits too long gets `Busy`; the making goes on and serves whoever asks again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_WAITING: Final = 16
"""Keys that are being made or wait for it."""


class Busy(Exception):  # noqa: N818 - named for what happened
    """It is not ready yet; asking again in a while helps."""


class SingleFlightCache(Generic[K, V]):
    """Results are kept that weigh ``most`` together, and the newest whatever it weighs. ``at_once``
    are made at a time; nobody waits longer than ``patience`` seconds.
    """

    def __init__(
        self,
        most: int,
        *,
        weigh: Callable[[V], int] = lambda _: 1,
        at_once: int = 1,
        patience: float = 20.0,
    ) -> None:
        self._most, self._weigh, self._patience = most, weigh, patience
        self._weight = 0
        self._places = asyncio.Semaphore(at_once)
        self._made: OrderedDict[K, V] = OrderedDict()
        self._making: dict[K, asyncio.Task[V]] = {}

    async def get(self, key: K, make: Callable[[], Coroutine[None, None, V]]) -> V:
        """What was made for a key, or will be.

        :raises Busy: it takes too long, or too much is being made
        """
        if key in self._made:
            self._made.move_to_end(key)
            return self._made[key]
        if key not in self._making:
            if len(self._making) >= _WAITING:
                raise Busy
            self._making[key] = asyncio.create_task(self._make(key, make))
        try:
            # Whoever goes away takes nothing from the others.
            return await asyncio.wait_for(asyncio.shield(self._making[key]), self._patience)
        except TimeoutError:
            raise Busy from None

    async def close(self) -> None:
        """Give up what is being made."""
        making = list(self._making.values())
        for task in making:
            task.cancel()
        await asyncio.gather(*making, return_exceptions=True)

    async def _make(self, key: K, make: Callable[[], Coroutine[None, None, V]]) -> V:
        try:
            async with self._places:
                made = await make()
            self._made[key] = made
            self._weight += self._weigh(made)
            while self._weight > self._most and len(self._made) > 1:
                _, oldest = self._made.popitem(last=False)
                self._weight -= self._weigh(oldest)
            return made
        finally:
            del self._making[key]
