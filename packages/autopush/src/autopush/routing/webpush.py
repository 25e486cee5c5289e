"""The way of a Web Push message from the endpoint to its user agent.

    connected to this worker?  → its session takes it
    otherwise router record    → the node on record takes it
    otherwise                  → stored; then the record is read again: the message
                                 is put into the table that is on it by now, and the
                                 node reads storage

Rule: with `store-first` a message is committed before it is answered, in any case; with `bypass`
only a message that no session takes is stored. A TTL of 0 never touches storage. The second read of
the record closes the race with a user agent that reconnects, or changes to the table of another
month, while its message is being stored.
"""

import asyncio
from enum import Enum

from msgspec import Struct

from autopush.protocol.rules import NORMAL_CLOSURE
from autopush.routing.bridged import BridgedUser, Bridges
from autopush.routing.connected import ConnectedUser, Registry
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


class DeliveryResult(Enum):
    """What became of a message."""

    DELIVERED = "the user agent or its node has it"
    STORED = "it waits in storage"
    DISCARDED = "the user agent is not connected and the TTL is 0"


class UserOnRecord(Struct, frozen=True):
    """A user that is not connected to this worker: its router record and its message table."""

    record: UserRecord
    messages: Messages


Recipient = ConnectedUser | UserOnRecord
"""A user that this router serves."""


class WebPushRouter:
    """Finds recipients and routes messages to them."""

    def __init__(
        self,
        store: PushStore,
        registry: Registry,
        nodes: Nodes,
        bridges: Bridges,
        *,
        store_first: bool,
    ) -> None:
        self._store = store
        self._registry = registry
        self._nodes = nodes
        self._bridges = bridges
        self._store_first = store_first

    async def find(self, uaid: str, channel_id: str) -> Recipient | BridgedUser:
        """The user a subscription belongs to. Of a user behind a bridge the channel is not checked:
        the application on the device knows its channels.

        :raises PushError: 410/103, no such user; 410/106, no such subscription
        """
        user = self._registry.find(uaid)
        if user is not None and user.is_subscribed(channel_id):
            return user
        record = await self._store.users.get(uaid)
        if record is None:
            raise PushError(Errno.EXPIRED_ENDPOINT, "UAID not found")
        if record.router_type not in CONNECTING:
            return self._bridges.find(record)
        messages = await self._store.messages_of(record)
        if record.router_type != WEBPUSH or messages is None:
            raise await self._drop_user(record)
        try:
            channels = await messages.channels(uaid)
        except TableNotFound as error:
            raise await self._on_table_not_found(record, messages, error) from error
        if channel_id not in channels:
            raise PushError(Errno.INVALID_SUBSCRIPTION, "No such subscription")
        return UserOnRecord(record, messages)

    async def route(self, recipient: Recipient, notification: Notification) -> DeliveryResult:
        """Deliver or store.

        :raises PushError: 410/105, the user was dropped meanwhile; 410/106, its message table was
        :raises KeytablesError: it could not be stored
        """
        messages = recipient.messages
        try:
            if isinstance(recipient, UserOnRecord):
                return await self._route_by_record(recipient, notification)
            return await self._route_to_socket(recipient, messages, notification)
        except TableNotFound as error:
            if isinstance(recipient, UserOnRecord):
                record = recipient.record
            else:
                record = UserRecord(
                    notification.uaid,
                    WEBPUSH,
                    recipient.connected_at,
                    current_month=messages.name,
                )
            raise await self._on_table_not_found(record, messages, error) from error

    async def _route_to_socket(
        self, user: ConnectedUser, messages: Messages, notification: Notification
    ) -> DeliveryResult:
        if not notification.ttl:
            delivered = user.deliver(notification, None)
            return DeliveryResult.DELIVERED if delivered else DeliveryResult.DISCARDED
        if not self._store_first and user.deliver(notification, None):
            return DeliveryResult.DELIVERED
        # Submitted first and delivered at once: the ack's delete is queued behind this write.
        committed = asyncio.ensure_future(messages.store(notification))
        if committed.done():  # refused at once: the store is too busy
            await committed
        delivered = self._store_first and user.deliver(notification, row_of(notification))
        await committed
        if delivered and user.is_connected:
            return DeliveryResult.DELIVERED
        return await self._notify_node(notification, messages)

    async def _route_by_record(
        self, user: UserOnRecord, notification: Notification
    ) -> DeliveryResult:
        record, messages = user.record, user.messages
        row = None
        if self._store_first and notification.ttl:
            await messages.store(notification)
            notification.stored = messages.name
            row = row_of(notification)
        if record.node_id is not None:
            answer = await self._nodes.push(record.node_id, notification, row)
            if answer is NodeAnswer.DONE:
                return DeliveryResult.DELIVERED
            if answer.means_gone:
                await self._clear_node(record)
        if not notification.ttl:
            return DeliveryResult.DISCARDED
        if row is None:
            await messages.store(notification)
        return await self._notify_node(notification, messages)

    async def _notify_node(self, notification: Notification, messages: Messages) -> DeliveryResult:
        """The message is stored: whichever node has the user agent by now has to read it. If the
        user has changed to another table meanwhile, the message is carried there.
        """
        try:
            record = await self._store.users.get(notification.uaid)
        except KeytablesError:
            if self._store.is_superseded(messages):
                raise
            return DeliveryResult.STORED
        if record is None:
            raise PushError(Errno.ENDPOINT_UNAVAILABLE, "Invalid UAID")
        await follow(self._store, record, [row_of(notification)], messages)
        if record.node_id is None:
            return DeliveryResult.STORED
        answer = await self._nodes.check(record.node_id, notification.uaid)
        if answer.means_gone:
            await self._clear_node(record)
        done = answer is NodeAnswer.DONE
        return DeliveryResult.DELIVERED if done else DeliveryResult.STORED

    async def _clear_node(self, record: UserRecord) -> None:
        try:
            await self._store.users.clear_node(record)
        except KeytablesError as error:
            # The next message finds the same stale node and tries again.
            _log.warning("Node not cleared", error=type(error).__name__)

    async def _drop_user(self, record: UserRecord) -> PushError | KeytablesError:
        """Drop a user without a message table, unless its record has changed; returns what the
        sender is answered.
        """
        if await self._store.drop_user(record):
            return PushError(Errno.INVALID_SUBSCRIPTION, "No such subscription")
        return Unavailable("the user has connected or changed tables meanwhile")

    async def _on_table_not_found(
        self, record: UserRecord, messages: Messages, error: TableNotFound
    ) -> PushError | KeytablesError:
        """If the missing table is the user's message table, the user is gone with it."""
        if error.table != messages.name or not await self._store.is_gone(messages.name):
            return error
        user = self._registry.find(record.uaid)
        if user is not None and user.messages is messages:
            user.disconnect(NORMAL_CLOSURE)
        return await self._drop_user(record)
