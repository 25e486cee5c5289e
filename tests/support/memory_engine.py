"""The engine in memory, which records its calls and makes some of them fail."""

import time

from autopush.testing import memory_engine
from autopush.testing.memory_engine import MemoryTable, copied
from keytables import Clock, KeytablesError

__all__ = ["MemoryEngine", "MemoryTable", "copied"]


class MemoryEngine(memory_engine.MemoryEngine):
    def __init__(self, clock: Clock = time.time) -> None:
        super().__init__(clock)
        self.calls: list[str] = []
        self.failures: list[KeytablesError] = []
        """Each fails one of the next calls."""
        self.jump = 0.0
        self.ahead = 0.0
        """Seconds by which its clock is ahead of everybody's."""
        self.lost_commits = 0
        """How often commits were lost in a failover."""

    @property
    def clock_jump(self) -> float:
        return self.jump

    @property
    def failovers(self) -> int:
        return self.lost_commits

    async def clock_difference(self, clock: Clock) -> float:
        return self.ahead

    def called(self, what: str) -> None:
        self.calls.append(what)
        if self.failures:
            raise self.failures.pop(0)
        super().called(what)
