"""Random faults of the nodes of a cluster, from a seed: the same seed gives the same faults.

Rule: until the finale one connection node and one endpoint node are always without a fault; two
faults may overlap; at the end every node runs again.
"""

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from support.chaos_cluster import Cluster, Daemon
from support.chaos_ledger import ChaosLedger, Fault
from support.soak import times

AT_ONCE = 2
SHORTEST, LONGEST = 0.5, 7.0
"""Seconds that a fault lasts."""
PAUSE = times(4, 10)
"""Longest time from the start of one fault to that of the next, in seconds. User agents reconnect
at the speed of the database, here some hundreds in a second.
"""
FINALE = 8.0


class Cable(Protocol):
    """A host whose link can be set down and up."""

    def cut(self) -> None: ...

    def mend(self) -> None: ...

    def rebuild(self) -> None: ...


class Faults:
    """`cables`: the hosts that can be cut off, by the name of the node on them."""

    def __init__(
        self, cluster: Cluster, ledger: ChaosLedger, cables: Mapping[str, Cable], seed: int
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._cables = cables
        self._random = random.Random(seed)
        self._faulty: set[Daemon] = set()
        self._acts: dict[str, Callable[[Daemon, float], Awaitable[None]]] = {
            "kill": self._kill,
            "stop": self._stop,
            "restart": self._restart,
        }
        if cables:
            self._acts["cut"] = self._cut
            self._acts["crash"] = self._crash

    async def run(self, seconds: float) -> None:
        """Inject faults for so many seconds; returns when the last one is over."""
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            while time.monotonic() < end - SHORTEST:
                await asyncio.sleep(self._random.uniform(0.2, PAUSE))
                left = end - time.monotonic()
                duration = self._random.uniform(SHORTEST, LONGEST)
                kind = self._random.choice(list(self._acts))
                place = self._random.random()
                if left > SHORTEST and len(self._faulty) < AT_ONCE:
                    choice = self._candidates()
                    target = choice[int(place * len(choice))]
                    group.create_task(self._fault(kind, target, min(duration, left)))

    async def finale(self) -> None:
        """All connection nodes are stopped, and an endpoint node that would notify them later of
        what was stored meanwhile is killed.
        """
        async with asyncio.TaskGroup() as group:
            for node in self._cluster.connections:
                group.create_task(self._fault("stop", node, FINALE))
            await asyncio.sleep(FINALE - 1)
            group.create_task(self._fault("kill", self._cluster.endpoints[0], SHORTEST))

    def _candidates(self) -> list[Daemon]:
        found: list[Daemon] = []
        for kind in (self._cluster.connections, self._cluster.endpoints):
            healthy = [node for node in kind if node not in self._faulty]
            if len(healthy) > 1:
                found += healthy
        return found

    async def _fault(self, kind: str, target: Daemon, seconds: float) -> None:
        fault = Fault(kind, target.name, time.monotonic())
        self._ledger.faults.append(fault)
        self._faulty.add(target)
        await self._acts[kind](target, seconds)
        self._faulty.remove(target)
        fault.ended = time.monotonic()

    async def _kill(self, target: Daemon, seconds: float) -> None:
        await target.end(signal.SIGKILL)
        await asyncio.sleep(seconds)
        await target.start()

    async def _stop(self, target: Daemon, seconds: float) -> None:
        target.send(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            target.send(signal.SIGCONT)

    async def _restart(self, target: Daemon, seconds: float) -> None:
        assert await target.end(signal.SIGTERM) == 0, f"{target.name} did not stop in order"
        await target.start()

    async def _cut(self, target: Daemon, seconds: float) -> None:
        cable = self._cables[target.name]
        cable.cut()
        try:
            await asyncio.sleep(seconds)
        finally:
            cable.mend()

    async def _crash(self, target: Daemon, seconds: float) -> None:
        """The machine is lost with what its sockets held, and is started again later."""
        cable = self._cables[target.name]
        cable.cut()
        await target.end(signal.SIGKILL)
        await asyncio.sleep(seconds)
        cable.rebuild()
        await target.start()
