"""The way of a Web Push message from the endpoint to its user agent.

    connected to this worker?  → its session takes it
    otherwise router record    → the node on record takes it
    otherwise                  → stored; then the record is read again: the message
                                 goes to the table that is on it by now, and the node
                                 is told to look

Rule: with `store-first` a message is committed before it is answered, whoever takes it; with
`bypass` only what nobody takes is stored. A TTL of 0 never touches storage. The second look at the
record closes the race with a user agent that reconnects, or moves to the table of another month,
while its message is being stored.
"""

import asyncio
from enum import Enum

from msgspec import Struct

from autopush.protocol.rules import NORMAL_CLOSURE
from autopush.routing.local import ConnectedUser, LocalUsers
from autopush.routing.nodes import NodeAnswer, Nodes
from autopush.store import PushStore, UserRecord
from autopush.store.messages import Messages, row_of
from autopush.store.rotation import follow
from autopush.store.users import CONNECTING, WEBPUSH
from autopush.telemetry import logs
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.notification import Notification
from keytables import KeytablesError, TableNotFound, Unavailable

_log = logs.get(__name__)


class Outcome(Enum):
    """What became of a message."""

    DELIVERED = "Direct"
    STORED = "Stored"
    DISCARDED = "nobody there and a TTL of 0"


class Recipient(Struct, frozen=True):
    """Whom a message is for: a connected user agent, or the record of one that is not."""

    messages: Messages
    user: ConnectedUser | None = None
    record: UserRecord | None = None


class WebPushRouter:
    """Finds recipients and routes to them."""

    def __init__(
        self, store: PushStore, local: LocalUsers, nodes: Nodes, *, store_first: bool
    ) -> None:
        self._store = store
        self._local = local
        self._nodes = nodes
        self._store_first = store_first

    async def find(self, uaid: str, channel_id: str) -> Recipient:
        """The user a subscription belongs to.

        :raises PushError: 410/103, no such user; 410/106, no such subscription
        """
        user = self._local.find(uaid)
        if user is not None and user.is_subscribed(channel_id):
            return Recipient(user.messages, user)
        record = await self._store.users.get(uaid)
        if record is None:
            raise PushError(Errno.EXPIRED_ENDPOINT, "UAID not found")
        if record.router_type not in CONNECTING:
            raise PushError(Errno.INVALID_ROUTER_TYPE, "Wrong URL for user")
        messages = await self._store.messages_of(record)
        if record.router_type != WEBPUSH or messages is None:
            raise await self._unknown(record)
        try:
            channels = await messages.channels(uaid)
        except TableNotFound as error:
            raise await self._without_table(record, messages, error) from error
        if channel_id not in channels:
            raise PushError(Errno.INVALID_SUBSCRIPTION, "No such subscription")
        return Recipient(messages, record=record)

    async def route(self, recipient: Recipient, notification: Notification) -> Outcome:
        """Deliver or store.

        :raises PushError: 410/105, the user vanished meanwhile; 410/106, its message table did
        :raises KeytablesError: it could not be stored
        """
        try:
            if recipient.user is not None:
                return await self._to_connected(recipient.user, notification)
            if recipient.record is not None:
                return await self._to_record(recipient.record, recipient.messages, notification)
        except TableNotFound as error:
            record, messages = recipient.record, recipient.messages
            if record is None:
                user, uaid = recipient.user, notification.uaid
                connected_at = user.connected_at if user else 0
                record = UserRecord(uaid, WEBPUSH, connected_at, current_month=messages.name)
            raise await self._without_table(record, messages, error) from error
        raise TypeError("a recipient is connected or on record")

    async def _unknown(self, record: UserRecord) -> PushError | KeytablesError:
        """Its user has no messages that could be found: drop it, unless that is no longer so."""
        if await self._store.drop_user(record):
            return PushError(Errno.INVALID_SUBSCRIPTION, "No such subscription")
        return Unavailable("the user has connected or moved meanwhile")

    async def _without_table(
        self, record: UserRecord, messages: Messages, error: TableNotFound
    ) -> PushError | KeytablesError:
        """A table was not found. If it is the user's message table, the user is gone with it."""
        if error.table != messages.name or not await self._store.is_gone(messages.name):
            return error
        user = self._local.find(record.uaid)
        if user is not None and user.messages is messages:
            user.leave(NORMAL_CLOSURE)
        return await self._unknown(record)

    async def _to_connected(self, user: ConnectedUser, notification: Notification) -> Outcome:
        if not notification.ttl:
            return Outcome.DELIVERED if user.deliver(notification, None) else Outcome.DISCARDED
        if not self._store_first and user.deliver(notification, None):
            return Outcome.DELIVERED
        # Submitted first and delivered at once: the ack's delete is queued behind this write.
        messages = user.messages
        committed = asyncio.ensure_future(messages.store(notification))
        if committed.done():  # refused at once: the store has too much to do
            await committed
        delivered = self._store_first and user.deliver(notification, row_of(notification))
        await committed
        if delivered and user.here:
            return Outcome.DELIVERED
        return await self._tell_node(notification, messages)

    async def _to_record(
        self, record: UserRecord, messages: Messages, notification: Notification
    ) -> Outcome:
        row = None
        if self._store_first and notification.ttl:
            await messages.store(notification)
            notification.stored = messages.name
            row = row_of(notification)
        if record.node_id is not None:
            answer = await self._nodes.push(record.node_id, notification, row)
            if answer is NodeAnswer.DONE:
                return Outcome.DELIVERED
            if answer.means_gone:
                await self._clear_node(record)
        if not notification.ttl:
            return Outcome.DISCARDED
        if row is None:
            await messages.store(notification)
        return await self._tell_node(notification, messages)

    async def _tell_node(self, notification: Notification, messages: Messages) -> Outcome:
        """The message is stored: whichever node has the user agent by now shall look. If the user
        was moved to another table meanwhile, the message goes after it.
        """
        try:
            record = await self._store.users.get(notification.uaid)
        except KeytablesError:
            if self._store.is_superseded(messages):
                raise
            return Outcome.STORED
        if record is None:
            raise PushError(Errno.ENDPOINT_UNAVAILABLE, "Invalid UAID")
        await follow(self._store, record, [row_of(notification)], messages)
        if record.node_id is None:
            return Outcome.STORED
        answer = await self._nodes.check(record.node_id, notification.uaid)
        if answer.means_gone:
            await self._clear_node(record)
        return Outcome.DELIVERED if answer is NodeAnswer.DONE else Outcome.STORED

    async def _clear_node(self, record: UserRecord) -> None:
        try:
            await self._store.users.clear_node(record)
        except KeytablesError as error:
            # The next message finds the same stale node and tries again.
            _log.warning("Node not cleared", error=type(error).__name__)
