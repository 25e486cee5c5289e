"""Checks of storage owed to nodes that were silent when they should have been told.

Rule: a check is asked for again until the node answers or is gone, so that a stored message never
waits for a node that was only slow, stopped or cut off. A node that stays silent costs one question
at a time, however many checks it is owed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final

from autopush.routing.node_answer import NodeAnswer
from autopush.telemetry import logs

ASK_AGAIN: Final = 1.0
"""Seconds between two questions to a silent node."""
ASKED_AT_ONCE: Final = 256
MAX_OWED: Final = 100_000
OWED_FOR: Final = 3600.0
"""Seconds. By then every user agent has found out by itself whether its node is gone (Firefox pings
every half hour), and whoever connects again reads storage.
"""

Ask = Callable[[str, str], Awaitable[NodeAnswer]]

_log = logs.get(__name__)


class OwedChecks:
    """By node and UAID. `ask(node_id, uaid)` asks once."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._owed: dict[str, dict[str, None]] = {}
        self._collecting: dict[str, asyncio.Task[None]] = {}
        self._full = False

    def __len__(self) -> int:
        """How many checks are owed; those that are being asked for do not count."""
        return sum(map(len, self._owed.values()))

    def add(self, node_id: str, uaid: str) -> None:
        """Ask for this check again, a second from now."""
        if len(self) >= MAX_OWED:
            if not self._full:
                _log.warning("Too many checks are owed: stored messages may come late")
            self._full = True
            return
        self._full = False
        self._owed.setdefault(node_id, {})[uaid] = None
        if node_id not in self._collecting:
            _log.info("A node is silent", node=node_id)
            self._collecting[node_id] = asyncio.ensure_future(self._collect(node_id))

    async def finished(self, seconds: float) -> None:
        """Wait until none is owed, for at most so long."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._collecting and (left := deadline - loop.time()) > 0:
            await asyncio.wait(self._collecting.values(), timeout=left)

    def close(self) -> None:
        """Forget them all."""
        for task in self._collecting.values():
            task.cancel()
        self._collecting.clear()
        self._owed.clear()

    async def _collect(self, node_id: str) -> None:
        loop = asyncio.get_running_loop()
        owed = self._owed[node_id]
        began, heard, count = loop.time(), loop.time(), 1
        answers: list[NodeAnswer] = []
        while owed and loop.time() < heard + OWED_FOR:
            if count == 1:
                await asyncio.sleep(ASK_AGAIN)
            asked = list(islice(owed, count))
            for uaid in asked:  # what is owed anew from here on stays owed
                del owed[uaid]
            answers = await asyncio.gather(*(self._ask(node_id, uaid) for uaid in asked))
            if NodeAnswer.UNREACHABLE in answers:
                # Nobody is connected there any more; whoever connects again reads storage.
                break
            silent = [
                uaid
                for uaid, answer in zip(asked, answers, strict=True)
                if answer is NodeAnswer.SILENT
            ]
            owed.update(dict.fromkeys(silent))
            if not silent:
                heard = loop.time()
            count = 1 if silent else ASKED_AT_ONCE
        del self._owed[node_id], self._collecting[node_id]
        last = answers[0].name.lower() if answers else "none"
        _log.info("A node was silent", node=node_id, answer=last, seconds=loop.time() - began)
