"""A SimplePush notification: a channel has a new version, a number.

Rule: only the newest version of a channel counts, as only the newest message of a topic does, and
it never expires. So it passes through everything as a notification whose topic is the same for all.
"""

from collections.abc import Sequence
from typing import Final, Self

import orjson

from autopush.webpush.notification import Notification

MAX_VERSION: Final = 2**63 - 1
_FOREVER: Final = 2**62


class VersionUpdate(Notification, gc=False, kw_only=True):
    """A notification whose ``version`` is that of its channel, as :func:`version_text` writes it.

    ``data`` is any text, for a user agent that is connected; it is never stored.
    """

    ttl: int = _FOREVER
    topic: str | None = "version"

    @classmethod
    def of(cls, uaid: str, channel_id: str, number: int, data: str | None = None) -> Self:
        """The update of that channel to version ``number``."""
        return cls(
            uaid=uaid, channel_id=channel_id, version=version_text(channel_id, number), data=data
        )

    @property
    def sort_key(self) -> str:
        """The sort key of its row in the table of versions."""
        return self.channel_id

    def expired(self, now: float) -> bool:  # noqa: ARG002 - as in the base class
        return False

    def to_client(self) -> bytes:
        """The WebSocket message, JSON, with this update only."""
        return updates_message([self])

    def to_node(self) -> bytes:
        """The body of ``PUT /push/{uaid}`` on the node that holds the user agent, JSON."""
        body = _members(self) | {"data": self.data}
        if self.stored is not None:
            body["stored"] = self.stored
        return orjson.dumps(body)


def version_text(channel_id: str, number: int) -> str:
    """A version of a channel as text: unique among all channels of a user."""
    return f"{channel_id}:{number}"


def number_of(version: str) -> int:
    """The number in the text of a version."""
    return int(version.rpartition(":")[2])


def updates_message(updates: Sequence[Notification]) -> bytes:
    """The WebSocket message with these updates, JSON."""
    members = [
        _members(update) if update.data is None else _members(update) | {"data": update.data}
        for update in updates
    ]
    return orjson.dumps({"messageType": "notification", "updates": members})


def _members(update: Notification) -> dict[str, object]:
    return {"channelID": update.channel_id, "version": number_of(update.version)}
