"""What routing needs to know of user agents connected to this very worker.

Rule: these are the only two shapes through which routing sees a connection; the connection node
provides them.
"""

from typing import Protocol

from autopush.protocol.actions import Row
from autopush.store.messages import Messages
from autopush.webpush.notification import Notification


class ConnectedUser(Protocol):
    """A user agent on a socket of this worker."""

    @property
    def connected_at(self) -> int:
        """Milliseconds, as in the router record."""

    @property
    def messages(self) -> Messages:
        """The user's message table."""

    @property
    def here(self) -> bool:
        """Whether the connection still stands."""

    def is_subscribed(self, channel_id: str) -> bool:
        """Whether the channel is known to be subscribed; False also while that is not known yet."""

    def deliver(self, notification: Notification, row: Row | None) -> bool:
        """Send now, or say False: busy, and storage will be looked at later.

        `row` is where it is stored, if it is.
        """

    async def hand_over(self, notification: Notification, row: Row | None) -> bool:
        """As `deliver`, for a message another worker has: one that is acked by now is not sent.

        `notification.stored` names the table that has `row`. When that is not the user's table, the
        answer is False.
        """

    def check_storage(self) -> bool:
        """Look for stored messages. True when that starts now, False when it has to wait."""

    def leave(self, code: int, reason: str = "") -> None:
        """End the connection; what is unacked is handed on."""


class LocalUsers(Protocol):
    """All user agents connected to this worker."""

    def find(self, uaid: str) -> ConnectedUser | None:
        """The connection of that user agent."""
