"""The servers a client speaks to: one, or the nodes of an Alternator cluster in turn.

The rule: a node that fails is left out for a while, but never the last one; the list comes from the
cluster itself, and an answer that names nobody changes nothing.

Source: ScyllaDB, "Alternator: load balancing" (``GET /localnodes`` answers with a JSON list of the
addresses of the live nodes of the data centre).
"""

import asyncio
import ipaddress
from collections.abc import Callable
from typing import Final

import msgspec

from keytables.dynamodb.connection import Lost, NotSent
from keytables.dynamodb.pool import Pool

__all__ = ["Cluster", "Nodes"]

REFRESH: Final = 10.0
"""Seconds between two askings for the list."""
LEFT_OUT: Final = 5.0
"""Seconds for which a node that failed is left out."""
ASK: Final = 1.5
"""Seconds for one asking."""
MAX_NODES: Final = 1000

_read = msgspec.json.Decoder(list[str]).decode


class Nodes:
    """One server, or the same by any of its addresses."""

    def __init__(self, contact: Pool) -> None:
        self._contact = contact

    def next(self) -> Pool:
        """The server for the next try."""
        return self._contact

    def failed(self, pool: Pool) -> None:
        """It could not be reached, or went away."""

    def close(self) -> None:
        """End all connections."""
        self._contact.close()


class Cluster(Nodes):
    """The nodes of a cluster in turn. ``connect`` makes the pool for an address."""

    def __init__(self, contact: Pool, *, authority: str, connect: Callable[[str], Pool]) -> None:
        super().__init__(contact)
        self._connect = connect
        self._question = f"GET /localnodes HTTP/1.1\r\nhost: {authority}\r\n\r\n".encode()
        self._loop = asyncio.get_running_loop()
        self._pools: dict[str, Pool] = {}  # by address
        self._turn: list[Pool] = [contact]  # those not left out
        self._at = 0
        self._back: dict[Pool, asyncio.TimerHandle] = {}  # those left out
        self._task: asyncio.Task[None] | None = None

    @property
    def addresses(self) -> list[str]:
        """The nodes known."""
        return sorted(self._pools)

    def next(self) -> Pool:
        self._at += 1
        return self._turn[self._at % len(self._turn)]

    def failed(self, pool: Pool) -> None:
        if pool not in self._back and pool in self._turn:
            self._back[pool] = self._loop.call_later(LEFT_OUT, self._again, pool)
            self._arrange()

    async def begin(self) -> None:
        """Ask for the list, and from now on every so often."""
        await self._refresh()
        self._task = self._loop.create_task(self._keep())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        for handle in self._back.values():
            handle.cancel()
        for pool in self._pools.values():
            pool.close()
        super().close()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(REFRESH)
            await self._refresh()

    async def _refresh(self) -> None:
        for pool in (self.next(), self.next(), self._contact):
            addresses = await self._ask(pool)
            if addresses:
                self._take(addresses)
                return

    async def _ask(self, pool: Pool) -> set[str]:
        try:
            connection = pool.take() or await pool.wait(ASK)
            answer = await connection.exchange(self._question, ASK)
        except (NotSent, Lost):
            return set()
        if answer.status != 200:
            return set()
        try:
            named = _read(answer.body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return set()
        return {address for address in named[:MAX_NODES] if _is_address(address)}

    def _take(self, addresses: set[str]) -> None:
        for address in self._pools.keys() - addresses:
            gone = self._pools.pop(address)
            if handle := self._back.pop(gone, None):
                handle.cancel()
            gone.retire()
        for address in sorted(addresses - self._pools.keys()):
            self._pools[address] = self._connect(address)
        self._arrange()

    def _again(self, pool: Pool) -> None:
        del self._back[pool]
        self._arrange()

    def _arrange(self) -> None:
        pools = list(self._pools.values()) or [self._contact]
        self._turn = [pool for pool in pools if pool not in self._back] or pools


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
