"""The record and the messages of one user, as they are stored and read."""

from autopush.store import PushStore, UserRecord
from autopush.store.messages import Messages
from autopush.webpush.notification import Notification
from support.clocks import ManualClock

UAID = "0123456789abcdef0123456789abcdef"
CHANNEL = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"


def message(
    clock: ManualClock,
    number: int,
    *,
    topic: str | None = None,
    ttl: int = 3600,
    urgency: str = "normal",
    channel: str = CHANNEL,
    uaid: str = UAID,
) -> Notification:
    """The message "version-NUMBER", taken so many microseconds after the clock's time."""
    time = int(clock() * 1e6) + number
    return Notification(
        uaid=uaid,
        channel_id=channel,
        version=f"version-{number}",
        ttl=ttl,
        timestamp=int(clock()),
        topic=topic,
        data="ZGF0YQ",
        headers={"encoding": "aes128gcm"},
        sort_time=None if topic else time,
        topic_order=time if topic else 0,
        urgency=urgency,
    )


async def record_of(store: PushStore, uaid: str = UAID) -> UserRecord:
    """The router record of a user that there is."""
    record = await store.users.get(uaid)
    assert record is not None
    return record


async def all_stored(messages: Messages) -> list[Notification]:
    """Of all pages."""
    found: list[Notification] = []
    last: str | None = None
    while True:
        page = await messages.read(UAID, last)
        found += [stored.notification for stored in page.messages]
        if page.last is None:
            return found
        last = page.last
