"""Routes notifications from the endpoint to user agents that connect to this service.

    connected to this worker?  → its session takes it
    took one a moment ago      → the same node takes it, with `bypass`
    otherwise router record    → the node on record takes it
    otherwise                  → stored; then the record is read again: the message is moved to the
                                 table it names by now, and its node reads storage

SimplePush versions are routed alike but stored in a table of their own; as they do not expire, they
count as messages with a TTL.

Rule: with `store-first` a message is committed, or acked by its user agent, before the sender is
answered. With `bypass` only a message that no session takes is stored. A TTL of 0 is never stored.
The second read of the record closes the race with a user agent that reconnects or changes tables
while its message is being stored.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from msgspec import Struct

from autopush.delivery.bridged import BridgedUser, Bridges
from autopush.delivery.calls import Outcome
from autopush.delivery.connected import ConnectedUser, Registry, is_acked
from autopush.delivery.peers import Nodes
from autopush.delivery.placement import Placement
from autopush.delivery.presence import notify_node
from autopush.limits import StoredLimits
from autopush.protocol.effects import NORMAL_CLOSURE, USER_RESET
from autopush.recently_used import RecentlyUsed
from autopush.store import PushStore, UserRecord
from autopush.store.messages import row_of
from autopush.store.rotation import channels_of_bridged_user, move_if_user_moved
from autopush.store.users import CONNECTING, SIMPLEPUSH, WEBPUSH
from autopush.store.versions import UserMessages
from autopush.telemetry import logs
from autopush.telemetry.metric_table import CLIENT_DELETED, DROP_USER, HOST_GONE, SAVE_TIME
from autopush.telemetry.metrics import Metrics
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.notification import Notification
from keytables import KeytablesError, TableNotFound, Unavailable

ACK_TIMEOUT: Final = 5.0
"""Seconds, from the delivery, to wait for the user agent's ack when the store has failed."""

MAX_CACHED: Final = 32_768
"""User agents; at least half stay cached. About 400 bytes each."""
CACHED_FOR: Final = 60.0
"""Seconds. Limits how long a dropped or moved user agent gets messages on its old connection when
its old node could not be called to close it.
"""

_log = logs.get(__name__)


class UserOnRecord(Struct, frozen=True):
    """A user not connected to this worker."""

    record: UserRecord
    messages: UserMessages

    @property
    def connected_at(self) -> int:
        """Milliseconds."""
        return self.record.connected_at


class CachedUser(Struct, frozen=True):
    """Was connected to another node a moment ago. `connected_at`: ms, as in the router record."""

    node_id: str
    connected_at: int
    expires: float


class NodeCache:
    """Which node took the last message for a user agent, so that the next one needs no read.

    An entry only decides where to ask first: the node takes a message only if the user agent is
    connected there and has subscribed to the channel (`Nodes.push_if_subscribed`). After any other
    answer the entry is removed and the store decides. A message that must be stored uses no entry,
    as the user's message table may have changed.
    """

    def __init__(
        self, *, max_users: int = MAX_CACHED, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._users = RecentlyUsed[CachedUser](max_users)
        self._monotonic = monotonic

    def __len__(self) -> int:
        return len(self._users)

    def add(self, record: UserRecord, node_id: str) -> None:
        """`record` must have just been read, and `node_id` have taken a message."""
        expires = self._monotonic() + CACHED_FOR
        self._users.keep(record.uaid, CachedUser(node_id, record.connected_at, expires))

    def find(self, uaid: str) -> CachedUser | None:
        user = self._users.find(uaid)
        if user is not None and self._monotonic() >= user.expires:
            self._users.forget(uaid)
            return None
        return user

    def remove(self, uaid: str) -> None:
        self._users.forget(uaid)


Recipient = ConnectedUser | UserOnRecord | CachedUser

FailedCall = tuple[CachedUser, Outcome]
"""A call to a cached node that did not deliver, and its outcome."""


Wake = Callable[[UserRecord], None]


@dataclass(eq=False)
class UserAgentRouter:
    """`wake`: called with the record of an unreachable user that has wake data. `limits`: of what
    is stored per user agent; None for no limit. `ack_timeout`: seconds from the delivery to wait
    for an ack when the store failed. `cache`: with `store-first` it is not used, as the record is
    read anyway.
    """

    store: PushStore
    registry: Registry
    nodes: Nodes
    placement: Placement
    bridges: Bridges
    metrics: Metrics
    _: KW_ONLY
    store_first: bool
    limits: StoredLimits | None = None
    wake: Wake | None = None
    ack_timeout: float = ACK_TIMEOUT
    cache: NodeCache = field(default_factory=NodeCache)

    def __post_init__(self) -> None:
        self._host_gone = self.metrics.counter(HOST_GONE)
        self._deleted = self.metrics.counter(CLIENT_DELETED)
        self._without_table = self.metrics.counter(DROP_USER, errno="102")
        self._table_gone = self.metrics.counter(DROP_USER, errno="103")
        self._save_time = self.metrics.histogram(SAVE_TIME)
        self._cache = None if self.store_first else self.cache

    async def find(self, uaid: str, channel_id: str) -> Recipient | BridgedUser:
        """Find the user of a subscription.

        :raises PushError: 410/103, no such user; 410/106, no such subscription; 400/108, a
            SimplePush user; as `Bridges.find`
        """
        user = self.registry.find(uaid)
        if user is not None and user.is_subscribed(channel_id):
            if user.messages.router_type != WEBPUSH:
                raise _wrong_url()
            return user
        if self._cache is not None and (cached := self._cache.find(uaid)) is not None:
            return cached
        return await self._find_by_record(uaid, channel_id)

    async def _find_by_record(self, uaid: str, channel_id: str) -> UserOnRecord | BridgedUser:
        record = await self._record(uaid)
        if record.router_type not in CONNECTING:
            user = self.bridges.find(record)
            known = await channels_of_bridged_user(self.store, record)
            if known is not None and channel_id not in known:
                raise self._unsubscribed()
            return user
        if record.router_type != WEBPUSH:
            raise _wrong_url()
        messages = await self.store.messages_of(record)
        if messages is None:
            raise await self._drop_user(record)
        try:
            channels = await messages.channels(uaid)
        except TableNotFound as error:
            raise await self._on_table_not_found(record, messages, error) from error
        if channel_id not in channels:
            raise self._unsubscribed()
        return UserOnRecord(record, messages)

    async def find_simplepush(self, uaid: str) -> Recipient:
        """Find the user of a SimplePush endpoint; every channel counts as subscribed.

        :raises PushError: 410/103, no such user; 400/108, not a SimplePush user
        """
        user = self.registry.find(uaid)
        if user is not None and user.is_recorded and user.messages is self.store.versions:
            return user
        record = await self._record(uaid)
        if record.router_type != SIMPLEPUSH:
            raise _wrong_url()
        return UserOnRecord(record, self.store.versions)

    async def _record(self, uaid: str) -> UserRecord:
        record = await self.store.users.get(uaid)
        if record is None:
            raise self._gone(Errno.EXPIRED_ENDPOINT, "UAID not found")
        return record

    async def route(self, recipient: Recipient, notification: Notification) -> Outcome:
        """Deliver or store.

        :raises PushError: 410/105, the user was dropped meanwhile; 410/106, its message table was;
            429/204, too much is stored for it; as `find`, for a cached user
        :raises KeytablesError: it could not be stored
        """
        # A message with a receipt counts as gone when it is neither stored nor acked.
        store_first = self.store_first or notification.has_receipt
        if (
            not store_first
            and not isinstance(recipient, (UserOnRecord, CachedUser))
            and recipient.has_acked_all
            and recipient.deliver(notification, None)
        ):
            return Outcome.DONE
        limits, failed = self.limits, None
        must_count = limits is not None and notification.ttl and not limits.charge(notification)
        if isinstance(recipient, CachedUser):
            if not must_count and not store_first:
                outcome = await self.nodes.push_if_subscribed(recipient.node_id, notification)
                if outcome is Outcome.DONE:
                    return outcome
                failed = recipient, outcome
            recipient = await self._find_again(notification)
        if must_count and limits is not None:
            await limits.charge_after_count(
                notification, recipient.messages, recipient.connected_at
            )
        messages = recipient.messages  # which may have changed while its rows were counted
        try:
            if isinstance(recipient, UserOnRecord):
                return await self._route_by_record(recipient, notification, failed, store_first)
            return await self._route_to_socket(recipient, messages, notification, store_first)
        except TableNotFound as error:
            if isinstance(recipient, UserOnRecord):
                record = recipient.record
            else:
                record = UserRecord(
                    notification.uaid,
                    messages.router_type,
                    recipient.connected_at,
                    current_month=messages.name,
                )
            raise await self._on_table_not_found(record, messages, error) from error

    async def _find_again(self, notification: Notification) -> UserOnRecord:
        uaid = notification.uaid
        if self._cache is not None:
            self._cache.remove(uaid)
        user = await self._find_by_record(uaid, notification.channel_id)
        if isinstance(user, BridgedUser):
            raise Unavailable("the user has changed its router type meanwhile")
        return user

    async def _route_to_socket(
        self,
        user: ConnectedUser,
        messages: UserMessages,
        notification: Notification,
        store_first: bool,
    ) -> Outcome:
        if not notification.ttl:
            delivered = user.deliver(notification, None)
            return Outcome.DONE if delivered else Outcome.DISCARDED
        if not store_first and user.deliver(notification, None):
            return Outcome.DONE
        # Submitted before delivery, so that the delete after an ack is queued behind this write.
        began = time.perf_counter()
        committed = asyncio.ensure_future(messages.store(notification))
        if committed.done():  # refused at once: the store is too busy
            await committed
        delivered = store_first and user.deliver(notification, row_of(notification))
        sent = user.in_flight(notification.version) if delivered else None
        try:
            await committed
        except KeytablesError:
            # After an error the sender would repeat, under a new id, what the user agent has.
            left = max(self.ack_timeout - (time.perf_counter() - began), 0.0)
            if sent is None or not await is_acked(user, notification.version, sent, left):
                raise
            return Outcome.DONE
        self._save_time.observe(time.perf_counter() - began)
        if delivered and (user.is_connected or (sent is not None and sent.is_acked)):
            return Outcome.DONE
        return await self._notify_node(notification, messages)

    async def _route_by_record(
        self,
        user: UserOnRecord,
        notification: Notification,
        failed: FailedCall | None,
        store_first: bool,
    ) -> Outcome:
        record, messages = user.record, user.messages
        if store_first and notification.ttl:
            await self._store_message(messages, notification)
            notification.stored = messages.name
            notification.unsettled = not await messages.is_settled(notification)
        node_id = self.placement.node_of(record)
        if node_id is not None:
            outcome = _outcome_of(failed, record)
            if outcome is None:
                outcome = await self.nodes.push(node_id, notification)
            if outcome is Outcome.DONE:
                if self._cache is not None and node_id != self.nodes.own_id:
                    self._cache.add(record, node_id)
                return Outcome.DONE
            await self._note_failure(outcome, record)
        if not notification.ttl:
            return Outcome.DISCARDED
        if not notification.stored:
            await self._store_message(messages, notification)
        return await self._notify_node(notification, messages)

    async def _notify_node(self, notification: Notification, messages: UserMessages) -> Outcome:
        """The second read of the record: move the message if needed, then notify or wake."""
        try:
            record = await self.store.users.get(notification.uaid)
        except KeytablesError:
            if self.store.is_superseded(messages):
                raise
            return Outcome.STORED
        if record is None:
            self._deleted.add()
            if messages.router_type == SIMPLEPUSH:  # versions never expire
                await messages.delete(notification.uaid, row_of(notification))
            raise self._gone(Errno.ENDPOINT_UNAVAILABLE, "Invalid UAID")
        await move_if_user_moved(self.store, record, [row_of(notification)], messages)
        node_id = self.placement.node_of(record)
        if node_id is not None:
            outcome = await notify_node(
                self.store, self.nodes, record, node_id, notification.urgency
            )
            if outcome in (Outcome.DONE, Outcome.STORED):
                return outcome
            await self._note_failure(outcome, record)
        if record.wake_data is not None and self.wake is not None:
            self.wake(record)
        return Outcome.STORED

    async def _store_message(self, messages: UserMessages, notification: Notification) -> None:
        began = time.perf_counter()
        await messages.store(notification)
        self._save_time.observe(time.perf_counter() - began)

    async def _note_failure(self, outcome: Outcome, record: UserRecord) -> None:
        """A node that is gone is cleared from the record."""
        if outcome.is_failure:
            self._host_gone.add()
        if not outcome.means_gone or record.node_id is None:
            return
        try:
            await self.store.users.clear_node(record)
        except KeytablesError as error:
            # The next message finds the same stale node and tries again.
            _log.warning("Node not cleared", error=type(error).__name__)

    def _unsubscribed(self) -> PushError | KeytablesError:
        return self._gone(Errno.INVALID_SUBSCRIPTION, "No such subscription")

    def _gone(self, errno: Errno, text: str) -> PushError | KeytablesError:
        if self.store.is_restoring:
            return Unavailable("the database has failed over: lost subscriptions are restored")
        return PushError(errno, text)

    async def _drop_user(self, record: UserRecord) -> PushError | KeytablesError:
        """Drop a user without a table if its record is unchanged; returns the error to raise."""
        if await self.store.drop_user(record):
            known = record.current_month is not None
            (self._table_gone if known else self._without_table).add()
            return PushError(Errno.INVALID_SUBSCRIPTION, "No such subscription")
        return Unavailable("the user has connected or changed tables meanwhile")

    async def _on_table_not_found(
        self, record: UserRecord, messages: UserMessages, error: TableNotFound
    ) -> PushError | KeytablesError:
        """If the missing table is the user's own, the user is dropped too."""
        if error.table != messages.name or not await self.store.is_gone(messages.name):
            return error
        user = self.registry.find(record.uaid)
        if user is not None and user.messages is messages:
            user.disconnect(NORMAL_CLOSURE, USER_RESET)
        return await self._drop_user(record)


def _outcome_of(failed: FailedCall | None, record: UserRecord) -> Outcome | None:
    """The outcome of the call just made, if the record names the same connection. A second call
    would count the failure twice, and see a node that is gone as unresponsive.
    """
    if failed is None:
        return None
    user, outcome = failed
    is_same = (user.node_id, user.connected_at) == (record.node_id, record.connected_at)
    return outcome if is_same and outcome is not Outcome.BUSY else None


def _wrong_url() -> PushError:
    # The user is not dropped here: a hello as the other type does that.
    return PushError(Errno.INVALID_ROUTER_TYPE, "Wrong URL for user")
