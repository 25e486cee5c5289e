"""The user agents connected to this worker, as the router and the node see them."""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final, Protocol

from autopush.clock import Clock
from autopush.protocol.drain import Unacked
from autopush.store.versions import UserMessages
from autopush.webpush.notification import Notification
from autopush.webpush.stored import Row
from autopush.webpush.urgency import HIGHEST

ACKS_KEPT: Final = 60.0
"""Seconds; a call from another node times out after three."""
MAX_ACKS_KEPT: Final = 50_000


class ConnectedUser(Protocol):
    """A user agent on a socket of this worker."""

    uaid: str | None
    """None before its hello."""
    messages: UserMessages
    """The user's message table; for SimplePush, the versions."""
    is_recorded: bool
    """Whether the user is in the router table; a new one is not until its first register."""
    is_on_record: bool
    """Whether the router record names this connection, see `Placement.needs_record`."""
    secret_hash: str
    """Of the secret that its user agent has to send, "" for none."""
    account: str
    """The identity of the account that it counts for, "" for none."""

    @property
    def connected_at(self) -> int:
        """Milliseconds, as in the router record."""

    @property
    def min_urgency(self) -> str:
        """Of messages that are sent to it."""

    @property
    def is_connected(self) -> bool:
        """Whether the session has not ended."""

    @property
    def is_active(self) -> bool:
        """Whether its hello was answered, and no request of it waits for the store."""

    @property
    def channels(self) -> frozenset[str]:
        """The subscriptions that are known."""

    def is_subscribed(self, channel_id: str) -> bool:
        """Also False while the subscriptions are not known yet."""

    @property
    def has_acked_all(self) -> bool:
        """Whether no message is unacked and no stored one left."""

    def deliver(self, notification: Notification, row: Row | None) -> bool:
        """Send now; False when busy or below `min_urgency`: storage is read later. `row`: where it
        is stored, or None.
        """

    def in_flight(self, version: str) -> Unacked | None:
        """The message of that version, if it was sent and is not acked yet."""

    async def deliver_from_peer(self, notification: Notification, row: Row | None) -> bool:
        """As `deliver`, for a message of another worker: one that is acked by now is not sent.

        Also False if `notification.stored`, the table that has `row`, is not the user's table.
        """

    def check_storage(self, urgency: str = HIGHEST) -> bool:
        """Read the stored messages; False when that has to wait. `urgency`: of the message that was
        stored, which waits if it is below `min_urgency`.
        """

    def schedule_table_change(self) -> None:
        """Change to this month's message table at a random time in the next half hour."""

    def disconnect(self, code: int, reason: str = "") -> None:
        """End the connection with a close frame; what is unacked is saved."""

    def abort(self) -> None:
        """Drop the socket at once."""


async def is_acked(user: ConnectedUser, version: str, sent: Unacked, seconds: float) -> bool:
    """Wait up to `seconds` for the ack of a delivered message; False once the session ends."""
    if not sent.is_acked and user.in_flight(version) is sent:
        ended = asyncio.Event()
        sent.watchers = [*(sent.watchers or ()), ended.set]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended.wait()
    return sent.is_acked


class AckedRows:
    """Rows acked on this worker: those that may still be in the store, and those of the last
    minute.

    A node that hands over a stored message cannot know whether the user agent has read and acked it
    from the store meanwhile: this does, without a read. It also detects rows that the store still
    returns after their ack.
    """

    def __init__(self, clock: Clock, *, max_kept: int = MAX_ACKS_KEPT) -> None:
        self._clock = clock
        self._max_kept = max_kept
        self._undeleted: dict[str, set[Row]] = {}
        self._times: dict[tuple[str, Row], float] = {}
        self._forgotten = float("-inf")
        self._waiting: dict[str, asyncio.Future[None]] = {}

    def add(self, uaid: str, rows: Iterable[Row], *, may_recur: bool = False) -> None:
        """`may_recur`: the same rows may be stored again, so forget them once they are deleted."""
        undeleted = self._undeleted.get(uaid)
        if undeleted is None:
            self._undeleted[uaid] = set(rows)
        else:
            undeleted.update(rows)
        if may_recur:
            return
        now, times = self._clock(), self._times
        for row in rows:
            times[uaid, row] = now
        while times:
            oldest = next(iter(times))
            if len(times) <= self._max_kept and times[oldest] > now - ACKS_KEPT:
                break
            self._forgotten = max(self._forgotten, times.pop(oldest))

    def on_deleted(self, uaid: str, rows: Iterable[Row]) -> None:
        undeleted = self._undeleted.get(uaid)
        if undeleted is None:
            return
        undeleted.difference_update(rows)
        if not undeleted:
            del self._undeleted[uaid]
            if uaid in self._waiting:
                self._waiting.pop(uaid).set_result(None)

    def undeleted(self, uaid: str) -> frozenset[Row]:
        """Call this before reading the store, as a delete may take effect in between."""
        return frozenset(self._undeleted.get(uaid, ()))

    def has_undeleted(self, uaid: str) -> bool:
        """While true, the router record keeps this node, so that the next one waits for it."""
        return uaid in self._undeleted

    def was_acked(self, uaid: str, row: Row) -> bool:
        """Whether the row was acked in the last minute, or acked and not deleted yet."""
        return (uaid, row) in self._times or row in self._undeleted.get(uaid, ())

    def knows_all_since(self, then: float) -> bool:
        """Whether `was_acked` is complete since that time (epoch seconds)."""
        return self._forgotten < then

    def forget(self) -> None:
        """Some rows were acked in another process: of the time before now not all is known."""
        self._forgotten = max(self._forgotten, self._clock())

    async def all_deleted(self, uaid: str, seconds: float) -> None:
        """Wait at most `seconds`."""
        if uaid in self._undeleted:
            if uaid not in self._waiting:
                self._waiting[uaid] = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._waiting[uaid]], timeout=seconds)


class Registry:
    """All open sockets of this worker, and the user agents on them. `clock`: epoch seconds.

    Rule: only the connection that an entry points to removes it, so that a late close never removes
    its successor.
    """

    def __init__(self, clock: Clock) -> None:
        self._users: dict[str, ConnectedUser] = {}
        # The keys of a dict take half the memory of a set.
        self.sockets: dict[ConnectedUser, None] = {}
        self.acked = AckedRows(clock)

    def find(self, uaid: str) -> ConnectedUser | None:
        return self._users.get(uaid)

    def claim(self, uaid: str, connection: ConnectedUser) -> ConnectedUser | None:
        """Returns the user agent's previous connection, if it was another one."""
        previous = self._users.get(uaid)
        self._users[uaid] = connection
        return previous if previous is not connection else None

    def release(self, connection: ConnectedUser) -> None:
        uaid = connection.uaid
        if uaid is not None and self._users.get(uaid) is connection:
            del self._users[uaid]
