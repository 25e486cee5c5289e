"""A stored message: from notification to table item and back.

Rule: attribute names and types are the original's (`data` text, `headers` map, `ttl` and
`timestamp` seconds, `updateid` the message id, `expiry` epoch seconds); a row that cannot be read
is skipped, never delivered half.
"""

from autopush.protocol.effects import Row, StoredMessage
from autopush.webpush.message_id import parse_sort_key
from autopush.webpush.notification import Notification
from keytables import Item


def row_of(notification: Notification) -> Row:
    """Where the message is stored. A topic's row names the version it holds."""
    return Row(notification.sort_key, notification.version if notification.topic else None)


def item_of(user_key: str, notification: Notification) -> Item:
    """The item to put. Absent payload, absent attributes."""
    item: Item = {
        "uaid": user_key,
        "chidmessageid": notification.sort_key,
        "ttl": notification.ttl,
        "timestamp": notification.timestamp,
        "updateid": notification.version,
        "expiry": notification.timestamp + notification.ttl,
    }
    if notification.data:
        item["data"] = notification.data
        item["headers"] = dict(notification.headers or {})
    return item


def message_of(uaid: str, item: Item) -> StoredMessage | None:
    """The message of a row, None for a row that is none (foreign sort key, wrong types)."""
    sort_key, version = item.get("chidmessageid"), item.get("updateid")
    if not isinstance(sort_key, str):
        return None
    try:
        place = parse_sort_key(sort_key)
    except ValueError:
        return None
    version = place.version or version
    ttl, timestamp, data = item.get("ttl"), item.get("timestamp"), item.get("data")
    headers = item.get("headers")
    if not isinstance(version, str):
        return None
    notification = Notification(
        uaid=uaid,
        channel_id=place.channel_id,
        version=version,
        ttl=ttl if isinstance(ttl, int) else 0,
        timestamp=timestamp if isinstance(timestamp, int) else 0,
        topic=place.topic,
        data=data if isinstance(data, str) else None,
        headers={k: v for k, v in headers.items() if isinstance(v, str)}
        if isinstance(headers, dict)
        else None,
        sort_time=place.sort_time,
    )
    return StoredMessage(Row(sort_key, version if place.topic else None), notification)
