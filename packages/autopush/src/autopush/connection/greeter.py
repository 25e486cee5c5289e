"""Hello: who the user agent is, and the record of its connection.

Rule: a user agent stands in the registry before the router record names this node, and storage is
read after that, so that whoever looks for it meanwhile finds its place taken and nothing is missed.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from autopush.connection.acked import Acked
from autopush.connection.registry import Registry
from autopush.connection.user_agent import UserAgentConnection
from autopush.protocol.actions import Greeting
from autopush.protocol.rules import NORMAL_CLOSURE
from autopush.routing.nodes import Nodes
from autopush.store import PushStore, UserRecord
from autopush.store.rotation import end_move
from autopush.store.users import CONNECTING, RECORD_VERSION, WEBPUSH
from autopush.webpush.identifiers import new_uaid
from keytables import Throttled

TRIES: Final = 3


class Greeter:
    """Greets the user agents of one node."""

    def __init__(self, store: PushStore, nodes: Nodes, registry: Registry, acked: Acked) -> None:
        self._store = store
        self._acked = acked
        self._nodes = nodes
        self._registry = registry

    async def greet(self, connection: UserAgentConnection, uaid: str | None) -> Greeting:
        """Who says hello with that UAID; from now on it is connected here.

        :raises KeytablesError: the store cannot say
        """
        record = await self._known(uaid) if uaid else None
        seen: list[UserRecord] = []
        for _ in range(TRIES):
            if record is None:
                return self._newcomer(connection)
            self._take_place(connection, record.uaid)
            if not connection.here:  # it left: its successor's record is not ours to write
                break
            seen.append(record)
            connected_at = max(connection.connected_at, record.connected_at + 1)
            replaced = await self._store.users.connect(record, self._nodes.own_id, connected_at)
            if replaced is not None:
                # Where the reply to the first try got lost, `replaced` is what that try left.
                await self._end_duplicates([*seen, replaced])
                return await self._welcome(connection, replaced, connected_at)
            record = await self._known(record.uaid)
        raise Throttled("the user connects in too many places at once")

    async def _known(self, uaid: str) -> UserRecord | None:
        record = await self._store.users.get(uaid)
        if record is None:
            return None
        if record.router_type not in CONNECTING:
            return None
        if record.router_type != WEBPUSH or await self._store.messages_of(record) is None:
            await self._store.drop_user(record)
            return None
        return record

    def _newcomer(self, connection: UserAgentConnection) -> Greeting:
        self._registry.release(connection)
        connection.deferred = True
        connection.messages = self._store.current
        uaid = new_uaid()
        self._take_place(connection, uaid)
        return Greeting(uaid, connection.connected_at, new=True)

    async def _welcome(
        self, connection: UserAgentConnection, replaced: UserRecord, connected_at: int
    ) -> Greeting:
        messages = await self._store.messages_of(replaced)
        if messages is None:  # it was there a moment ago
            await self._store.drop_user(replaced)
            return self._newcomer(connection)
        connection.messages = messages
        acked = self._acked.of(replaced.uaid)
        await end_move(self._store, replaced, self._nodes.own_id, connected_at, acked)
        return Greeting(
            replaced.uaid,
            connected_at,
            new=False,
            reset=replaced.record_version < RECORD_VERSION,
            moves=self._store.is_behind(messages),
        )

    def _take_place(self, connection: UserAgentConnection, uaid: str) -> None:
        connection.session.uaid = uaid
        if not connection.here:
            return
        previous = self._registry.claim(uaid, connection)
        if previous is not None:
            previous.leave(NORMAL_CLOSURE)

    async def _end_duplicates(self, records: Iterable[UserRecord]) -> None:
        """Let the nodes on record finish with the user agent before storage is read here."""
        nodes = {record.node_id: record for record in records}
        await asyncio.gather(
            *(
                self._nodes.end_duplicate(node_id, record.uaid, record.connected_at)
                for node_id, record in nodes.items()
                if node_id is not None and node_id != self._nodes.own_id
            )
        )
