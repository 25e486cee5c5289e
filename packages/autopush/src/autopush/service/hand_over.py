"""An upgrade, as each worker sees it: it hands all it has to its successor, the worker in its place
in the next version. `upgrade` has the main processes, which start the next version.

    this version                                   the next version
    main process  ── listening sockets ─────────▶  main process     serves as soon as it is ready
                  ◀── "ready" ───────────────────
    worker        ── each connection ───────────▶  its successor    goes on with session and socket
      │             with its state (`moving`)        │
      │           ◀── calls about user agents ──▶    │              each answers for both, as they
      │               (`delivery.versions`)          │              have one node ID
      │
      └─ calls siblings through its successor ──▶  their successors (`Nodes.is_relayed`)

In the worker, at once:

    ports         accept no more; idle HTTP connections are closed over the time of the drain
    placement     this worker owns all users: the others are ending too
    strangers     whom the next version does not admit are closed
    connections   are moved; busy ones are tried again for `HAND_OVER_TIMEOUT`, and what cannot
                  move (TLS of our own) is closed over the time of the drain

Rule: this worker ends only after its predecessor, which knows the next version through it alone.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

from autopush.delivery.connected import ConnectedUser
from autopush.delivery.moving import Move, Movers
from autopush.delivery.node import CLOSES, ConnectionNode
from autopush.delivery.peers import Nodes
from autopush.delivery.placement import Placement
from autopush.delivery.user_agent import UserAgentConnection
from autopush.net.siblings import (
    FRAMES,
    PREDECESSOR,
    SILENT_AFTER,
    SUCCESSOR,
    Port,
    SiblingError,
    Siblings,
)
from autopush.protocol.effects import GOING_AWAY, STOPPING
from autopush.telemetry import logs

AT_ONCE: Final = 16
"""Connections that are sent to the next version in one turn of the loop."""
HAND_OVER_TIMEOUT: Final = 10.0
"""Seconds after the first attempts in which connections that are busy are tried again."""
RETRY_AFTER: Final = 0.1
STRANGER: Final = frozenset({401, 403})
"""Answers to one who has no account, or none that exists."""
ADMISSION_TIMEOUT: Final = 5.0
"""Seconds."""

ADMISSION: Final = Port[str, int]("admission", str, int)
"""Where the next version is asked about an account, and answers with a status."""

_log = logs.get(__name__)


def answer_admission(node: ConnectionNode, account: str) -> int:
    """The status with which this version refuses user agents of an account, or 200."""
    refusal = node.refuse_hello(account, "")
    return 200 if refusal is None else refusal.status


@dataclass(eq=False)
class HandOver:
    """What a worker hands to its successor. `node`, `movers`: None without WebSockets."""

    siblings: Siblings
    placement: Placement
    nodes: Nodes
    node: ConnectionNode | None
    movers: Movers | None

    async def run(
        self,
        seconds: float,
        stop_accepting: Callable[[], None],
        close_idle: Callable[[float], Awaitable[None]],
    ) -> None:
        """`seconds`: of the drain. `stop_accepting`, `close_idle`: of the ports."""
        stop_accepting()
        self.placement.own_all()
        self.nodes.is_relayed = True
        steps = [close_idle(seconds)]
        if self.node is not None:
            steps.append(self._hand_over_node(self.node, seconds))
        if any(index >= 0 for index in self.siblings):
            # Others may learn of it later, and pass requests on until then.
            steps.append(asyncio.sleep(SILENT_AFTER))
        if (predecessor := self.siblings.get(PREDECESSOR)) is not None:
            steps.append(predecessor.wait_until_ended(seconds + HAND_OVER_TIMEOUT))
        await asyncio.gather(*steps)

    async def _hand_over_node(self, node: ConnectionNode, seconds: float) -> None:
        """Move all connections to the next version; close in so many seconds what cannot move. No
        hello is answered here any more.
        """
        sockets = cast(Mapping[UserAgentConnection, None], node.registry.sockets)
        if self.movers is not None and SUCCESSOR in self.siblings:
            node.is_handing_over = True
            # A stranger that is handed over before the answer is closed by the next version.
            await asyncio.gather(
                self._close_strangers(node), self._move_connections(self.movers, sockets)
            )
        for user in list(sockets):
            if user.uaid is None:  # it has to say its hello to the next version
                user.disconnect(GOING_AWAY, STOPPING)
        await node.drain(seconds, self._end)

    async def _end(self, user: ConnectedUser) -> None:
        connection = cast(UserAgentConnection, user)
        if self.movers is None or await self.movers.move(SUCCESSOR, connection) is not Move.DONE:
            connection.disconnect(GOING_AWAY, STOPPING)

    async def _close_strangers(self, node: ConnectionNode) -> None:
        """Close what the next version does not admit, also what cannot be handed over to it."""
        by_account = defaultdict[str, list[ConnectedUser]](list)
        for each in node.registry.sockets:
            by_account[cast(UserAgentConnection, each).client.account].append(each)
        for account, connections in by_account.items():
            status = await self._ask_admission(account)
            if status is None:
                return
            for number, connection in enumerate(connections if status in STRANGER else (), 1):
                connection.disconnect(*CLOSES[status])
                if number % AT_ONCE == 0:
                    await asyncio.sleep(0)

    async def _ask_admission(self, account: str) -> int | None:
        """What the next version says to an account; None if it says nothing."""
        successor = self.siblings[SUCCESSOR]
        with suppress(TimeoutError):  # an older version does not answer
            async with asyncio.timeout(ADMISSION_TIMEOUT):
                while not successor.is_foreign:
                    try:
                        return await successor.call(ADMISSION, account)
                    except SiblingError:  # it was not heard yet, or stands still
                        await asyncio.sleep(RETRY_AFTER)
        return None

    async def _move_connections(
        self, movers: Movers, connections: Mapping[UserAgentConnection, None]
    ) -> None:
        """`connections`: of the node, among which others may still arrive."""
        loop = asyncio.get_running_loop()
        end, immovable = None, set[UserAgentConnection]()
        while waiting := [each for each in connections if each not in immovable]:
            if self.siblings[SUCCESSOR].is_foreign:
                _log.warning(
                    "The next version takes over no connections, since it knows another format",
                    frames=FRAMES,
                    connections=len(waiting),
                )
                return
            for first in range(0, len(waiting), AT_ONCE):
                batch = waiting[first : first + AT_ONCE]
                moves = await asyncio.gather(*(movers.move(SUCCESSOR, each) for each in batch))
                immovable.update(
                    each for each, move in zip(batch, moves, strict=True) if move is Move.NEVER
                )
            now = loop.time()
            if end is None:
                end = now + HAND_OVER_TIMEOUT
            if now + RETRY_AFTER > end:
                return
            await asyncio.sleep(RETRY_AFTER)
