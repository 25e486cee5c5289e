"""A clock that tests set, and pauses that they end."""

import asyncio


class ManualClock:
    """Seconds since the epoch; changes only when a test sets it."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Pauses:
    """Pauses that last until the test goes on."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.begun = asyncio.Event()
        self._over = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.begun.set()
        await self._over.wait()
        self._over.clear()

    async def go_on(self) -> None:
        """End this pause, and wait for the next one."""
        await self.begun.wait()
        self.begun.clear()
        self._over.set()
        await self.begun.wait()

    async def end(self) -> None:
        await self.begun.wait()
        self._over.set()
