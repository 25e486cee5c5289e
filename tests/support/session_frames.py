"""Frames and messages for tests of a session alone."""

import json
from collections.abc import Sequence

from autopush.protocol.actions import Action, Row, Send, StoredMessage
from autopush.webpush.notification import Notification

UAID = "0123456789abcdef0123456789abcdef"
CHANNEL = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
NOW = 1_800_000_000.0
MICROSECONDS = 1_000_000


def frame(**members: object) -> bytes:
    return json.dumps(members).encode()


def sent(actions: Sequence[Action]) -> list[dict[str, object]]:
    """The messages to the user agent among these actions."""
    return [json.loads(action.payload) for action in actions if isinstance(action, Send)]


def message(number: int, *, channel: str = CHANNEL, ttl: int = 60) -> Notification:
    return Notification(
        uaid=UAID,
        channel_id=channel,
        version=f"version-{number}",
        ttl=ttl,
        timestamp=int(NOW),
        sort_time=int(NOW) * MICROSECONDS + number,
    )


def stored(number: int, *, channel: str = CHANNEL, ttl: int = 60) -> StoredMessage:
    notification = message(number, channel=channel, ttl=ttl)
    return StoredMessage(Row(notification.sort_key, None), notification)


def ack(*numbers: int, channel: str = CHANNEL) -> bytes:
    updates = [{"channelID": channel, "version": f"version-{number}"} for number in numbers]
    return frame(messageType="ack", updates=updates)
