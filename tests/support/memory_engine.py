"""The engine in memory, which records its calls, and fails or is interrupted at chosen ones."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable

from autopush.testing import memory_engine
from autopush.testing.memory_engine import MemoryTable, copied
from keytables import Capacity, Clock, KeytablesError, Table

__all__ = ["MemoryEngine", "MemoryTable", "copied"]


class MemoryEngine(memory_engine.MemoryEngine):
    """A call is named by its kind and its table, for example "put message"; those of no table are
    "ensure_table" and "table_names".
    """

    def __init__(self, clock: Clock = time.time) -> None:
        super().__init__(clock)
        self.calls: list[str] = []
        self.failures: list[KeytablesError] = []
        """Each fails one of the next calls."""
        self.jump = 0.0
        self.ahead = 0.0
        """Seconds by which its clock is ahead of everybody's."""
        self.on_call: Callable[[str], None] | None = None
        """Called with the name of each call; what it raises is the error of the call."""
        self.errors: defaultdict[str, list[Exception | None]] = defaultdict(list)
        self.interruptions: defaultdict[str, list[Callable[[], object]]] = defaultdict(list)
        self.lists = 0
        """How often the tables were listed."""
        self.closings = 0
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

    def fail(self, what: str, *errors: Exception | None) -> None:
        """Fail the next calls of that kind, one exception each; None lets one succeed."""
        self.errors[what] += errors

    def before(self, what: str, *callbacks: Callable[[], object]) -> None:
        """Call one of these just before each of the next calls of that kind."""
        self.interruptions[what] += callbacks

    async def ensure_table(self, table: Table, *, capacity: Capacity | None = None) -> MemoryTable:
        self._interrupt("ensure_table")
        return await super().ensure_table(table, capacity=capacity)

    async def table_names(self) -> list[str]:
        self.lists += 1
        self._interrupt("table_names")
        await asyncio.sleep(0)
        return await super().table_names()

    async def close(self) -> None:
        self.closings += 1
        await super().close()

    def called(self, what: str) -> None:
        self.calls.append(what)
        if self.failures:
            raise self.failures.pop(0)
        super().called(what)
        self._interrupt(what)

    def _interrupt(self, what: str) -> None:
        if self.on_call is not None:
            self.on_call(what)
        if self.interruptions[what]:
            self.interruptions[what].pop(0)()
        error = self.errors[what].pop(0) if self.errors[what] else None
        if error is not None:
            raise type(error)(*error.args)  # a fresh one: it will hold on to frames
