"""Messages as a store keeps them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from autopush.webpush.notification import Notification


class Row(NamedTuple):
    """`update_id`: set where the row may be replaced (topics): delete only that version."""

    sort_key: str
    update_id: str | None


class StoredMessage(Struct, frozen=True):
    row: Row
    notification: Notification


class StoredPage(Struct, frozen=True):
    """Some of a user's stored messages, in the order of delivery."""

    messages: Sequence[StoredMessage]
    last: str | None
    """The sort key to continue after; None on the last page."""
    channels: frozenset[str] | None = None
    """All subscriptions: with the first page, and with one that has a message for a channel which
    the user agent is not known to have; then they were read after the page. Else None.
    """
    read_to: int = 0
    """The read pointer of the original (µs), with the first page."""
    urgencies: frozenset[str] = frozenset()
    """What messages of this user may have other than normal, with the first page."""


class AnyChannel(tuple[str, ...]):
    """Contains every channel: the server does not know a SimplePush user's subscriptions."""

    __slots__ = ()

    def __contains__(self, channel_id: object) -> bool:
        return True


ANY_CHANNEL: Final = AnyChannel()
