"""The user agents connected to this worker, as routing and the connection node see them."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

from autopush.protocol.drain import Unacked
from autopush.protocol.effects import Row
from autopush.store.messages import UserMessages
from autopush.webpush.notification import Notification


class ConnectedUser(Protocol):
    """A user agent on a socket of this worker."""

    uaid: str | None
    """Its UAID; None before its hello."""
    messages: UserMessages
    """The user's message table, or the versions."""
    is_recorded: bool
    """Whether the user is in the router table; a new one is not before its first register."""

    @property
    def connected_at(self) -> int:
        """Milliseconds, as in the router record."""

    @property
    def is_connected(self) -> bool:
        """Whether the session has not ended."""

    def is_subscribed(self, channel_id: str) -> bool:
        """Whether the channel is known to be subscribed; False also while that is not known yet."""

    @property
    def has_acked_all(self) -> bool:
        """Whether it has acked all messages, those included that were stored."""

    def deliver(self, notification: Notification, row: Row | None) -> bool:
        """Send now, or return False: busy, and storage will be read later.

        `row` is where it is stored, if it is.
        """

    def in_flight(self, version: str) -> Unacked | None:
        """The message of that version, if it was sent and is not acked yet."""

    async def deliver_from_peer(self, notification: Notification, row: Row | None) -> bool:
        """As `deliver`, for a message of another worker: one that is acked by now is not sent.

        `notification.stored` names the table that has `row`. When that is not the user's table, the
        result is False.
        """

    def check_storage(self) -> bool:
        """Read the stored messages. True when that starts now, False when it has to wait."""

    def schedule_table_change(self) -> None:
        """Change to this month's message table some time in the next half hour."""

    def disconnect(self, code: int, reason: str = "") -> None:
        """End the connection with a close frame; what is unacked is saved."""

    def abort(self) -> None:
        """Drop the socket at once."""


async def is_acked(user: ConnectedUser, version: str, sent: Unacked, seconds: float) -> bool:
    """Whether the user agent acks a message that `deliver` has sent, within so many seconds; False
    as soon as its session ends without.
    """
    if not sent.is_acked and user.in_flight(version) is sent:
        ended = asyncio.Event()
        sent.watchers = [*(sent.watchers or ()), ended.set]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended.wait()
    return sent.is_acked


class Registry:
    """All open sockets of this worker, and which user agent is on which of them.

    Rule: the entry of a user agent is removed only by the connection it points to, so that a late
    close never removes its successor.
    """

    def __init__(self) -> None:
        self._users: dict[str, ConnectedUser] = {}
        # The keys of a dict take half the memory of a set.
        self.sockets: dict[ConnectedUser, None] = {}
        self.has_undeleted_acks: Callable[[str], bool] = lambda _: False
        """Whether the store still has messages that this user agent has acked on this worker.

        Rule: meanwhile the router record names this node, so that the next one waits for it.
        """

    def find(self, uaid: str) -> ConnectedUser | None:
        """The connection of that user agent."""
        return self._users.get(uaid)

    def claim(self, uaid: str, connection: ConnectedUser) -> ConnectedUser | None:
        """Make this the user agent's connection; returns another one that it had."""
        previous = self._users.get(uaid)
        self._users[uaid] = connection
        return previous if previous is not connection else None

    def release(self, connection: ConnectedUser) -> None:
        """Remove the user agent's entry if it is this connection."""
        uaid = connection.uaid
        if uaid is not None and self._users.get(uaid) is connection:
            del self._users[uaid]
