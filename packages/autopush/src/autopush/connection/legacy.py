"""What a connection leaves behind: messages that were accepted and not acked.

Rule: they are in the message table their user has by now before its node is told to look for them.
"""

import asyncio

from autopush.protocol.actions import Farewell
from autopush.routing.nodes import Nodes
from autopush.store import PushStore
from autopush.store.messages import Messages, row_of
from autopush.store.rotation import follow


class Legacy:
    """Of one connection, opened at `connected_at` (ms), that used the table `messages`."""

    def __init__(
        self,
        store: PushStore,
        nodes: Nodes,
        messages: Messages,
        uaid: str,
        connected_at: int,
        farewell: Farewell,
    ) -> None:
        self._store = store
        self._nodes = nodes
        self._messages = messages
        self._uaid = uaid
        self._connected_at = connected_at
        self._unsaved = list(farewell.unsaved)
        self._rows = [*farewell.waiting, *map(row_of, farewell.unsaved)]

    async def hand_on(self, slots: asyncio.Semaphore) -> None:
        """Save what is in no storage, as many connections at once as there are slots, and tell the
        node that has the user.

        Raises what the store raises; to be repeated then.
        """
        async with slots:
            saves = (self._messages.save(lost) for lost in self._unsaved)
            outcomes = await asyncio.gather(*saves, return_exceptions=True)
        # Another try saves only what failed: the rest may have been delivered and acked by then.
        pairs = zip(self._unsaved, outcomes, strict=True)
        self._unsaved = [lost for lost, error in pairs if error]
        for error in filter(None, outcomes):
            raise error
        record = await self._store.users.get(self._uaid)
        if record is None:
            return
        await follow(self._store, record, self._rows, self._messages)
        if record.node_id is not None and record.connected_at != self._connected_at:
            await self._nodes.check(record.node_id, self._uaid)
