"""The stored messages of a user agent, page by page: topics first, then the rest by storing time.

If its messages differ in urgency and fill more than a page, there is a pass over all pages for each
urgency, the highest first. What is below the filter of the user agent is not sent and stays.

The next page is read when everything sent from this one is acked, or overdue after
`unacked_timeout`. What is overdue stays stored, and is sent again after the next hello. While there
is any, `max_unacked` holds for stored messages too: a page with more is read again for the rest. No
other row is read twice in one pass, so a pass always ends. A read pointer, which the original moved
instead of deleting rows, is honoured but never written.

Rule: a row is deleted as unsubscribed only against a list of subscriptions read later: a page's own
list may lack a channel that was registered while the page was read.
"""

import sys
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from autopush.protocol.effects import ReadStored
from autopush.webpush.identifiers import TIMESTAMPED_ROWS, sort_key_after
from autopush.webpush.notification import Notification
from autopush.webpush.stored import Row, StoredMessage, StoredPage
from autopush.webpush.urgency import LEVELS, LOWEST, NORMAL

NONE_LEFT: Final = -1
"""Below all levels of urgency."""


class Unacked(Struct):
    """A notification that was sent and not acked.

    `notification`: kept only while it is not stored. `row`: where it is stored. `of_page`: it was
    read from storage. `watchers`: called when it is acked, or never will be. `is_overdue`: no page
    waits for its ack any more.
    """

    channel_id: str
    notification: Notification | None
    row: Row | None
    of_page: bool
    is_acked: bool = False
    watchers: list[Callable[[], None]] | None = None
    is_overdue: bool = False

    def end(self) -> None:
        """It was acked, or its session or channel has ended."""
        watchers, self.watchers = self.watchers or (), None
        for watcher in watchers:
            watcher()


class Drain(Struct):
    """The state of a read of all that is stored; a session that reads nothing has none."""

    _after: str | None = None
    """The sort key after which the next page begins; None for the first page."""
    _over: bool = False
    """Whether the last page of this pass was read."""
    _is_mixed: bool = False
    """Whether the messages may differ in urgency."""
    _least: int = LEVELS[LOWEST]
    """The lowest level of urgency that this pass sends."""
    _left: int = NONE_LEFT
    """The highest level that was found and is left to the next pass."""
    _pointer: int = 0
    """The read pointer of the original (µs): what is not after it was read there."""
    _completed: set[str] = set()
    """Versions acked or unsubscribed while a page is read: the page may still have them."""
    _changed: dict[str, bool] = {}
    """Channels registered (True) or unregistered (False) while a page is read."""
    reading: bool = False
    """Whether a page is being read."""
    waiting: int = 0
    """Messages of the current page that are neither acked nor overdue."""
    too_many: bool = False
    """Whether more messages are stored than one user agent may have."""

    @property
    def has_more(self) -> bool:
        """Whether there is a page after the current one."""
        return not self._over or self._left != NONE_LEFT

    def next_page(self) -> ReadStored | None:
        """None when all passes are over."""
        if not self.has_more:
            return None
        if self._over:
            self._least, self._left = self._left, NONE_LEFT
            self._over, self._after = False, None
        self.reading = True
        return ReadStored(self._after)

    def retry_read(self) -> ReadStored | None:
        """Repeat a failed read; what was completed before it is no longer in the store."""
        self._completed.clear()
        self._changed.clear()
        return self.next_page()

    def channel_changed(self, channel_id: str, *, is_subscribed: bool) -> None:
        """A register or unregister was carried out; a page being read may predate it."""
        if self.reading:
            self._changed[channel_id] = is_subscribed

    def channels_read(self, listed: Collection[str]) -> tuple[str, ...]:
        """The page's list of subscriptions, with the changes made while it was read."""
        changed, self._changed = self._changed, {}
        kept = [channel_id for channel_id in listed if changed.get(channel_id, True)]
        return (*kept, *(added for added, yes in changed.items() if yes and added not in listed))

    def page_read(self, page: StoredPage) -> AbstractSet[str]:
        """Note where the page ended; returns the versions completed while it was read."""
        self.reading = False
        self._pointer = max(self._pointer, page.read_to)
        self._over = page.last is None
        self._after = page.last
        if page.last is not None and page.last >= TIMESTAMPED_ROWS:
            self._after = max(page.last, sort_key_after(self._pointer))
        completed, self._completed = self._completed, set()
        return completed

    def send(
        self,
        page: StoredPage,
        unacked: dict[str, Unacked],
        channels: Collection[str],
        now: float,
        limit: int,
        min_urgency: str = LOWEST,
        room: int = sys.maxsize,
    ) -> tuple[list[Notification], list[Row]]:
        """Returns the live messages for these channels, which are added to `unacked`, and the rows
        of the rest, to delete. More than `limit` messages are too many. A row of an unknown channel
        is kept unsent, unless the page brought the list; and one below `min_urgency`. If there are
        more live messages than `room`, the page is the next one again.
        """
        before = self._after
        completed = self.page_read(page)
        if page.urgencies and not self._is_mixed:  # the first page of the first pass
            self._is_mixed = True
            if page.last is not None:
                self._least = max(LEVELS[each] for each in (*page.urgencies, NORMAL))
        wanted = LEVELS[min_urgency]
        least = max(wanted, self._least)
        sending: list[Notification] = []
        dead: list[Row] = []
        for stored in sorted(page.messages, key=_urgency) if self._is_mixed else page.messages:
            row, notification = stored.row, stored.notification
            version, channel_id = notification.version, notification.channel_id
            sent = unacked.get(version)
            if sent is not None:
                # From now on its ack deletes this row.
                sent.row, sent.notification = row, None
                continue
            if version in completed or self.is_read(notification.sort_time):
                continue
            is_dead = notification.expired(now)
            if is_dead or channel_id not in channels:
                if is_dead or page.channels is not None:
                    dead.append(row)
                continue
            level = LEVELS[notification.urgency]
            if level < least:
                if level >= wanted:
                    self._left = max(self._left, level)
                continue
            if self.waiting >= limit:
                self.too_many = True
                return sending, []
            if len(sending) >= room:
                self._after, self._over = before, False
                break
            unacked[version] = Unacked(channel_id, None, row, of_page=True)
            self.waiting += 1
            sending.append(notification)
        return sending, dead

    def complete(self, version: str, sent: Unacked) -> None:
        """A message was acked or its channel unsubscribed; a read under way may still find it."""
        if sent.of_page and not sent.is_overdue:
            self.waiting -= 1
        if self.reading:
            self._completed.add(version)

    def stop_waiting(self, unacked: Mapping[str, Unacked]) -> None:
        """What is unacked of the current page holds back the next one no longer."""
        self.waiting = 0
        for sent in unacked.values():
            sent.is_overdue = sent.of_page

    def is_read(self, sort_time: int | None) -> bool:
        """Whether that time (µs) is not after the table's read pointer."""
        return sort_time is not None and sort_time <= self._pointer


def _urgency(stored: StoredMessage) -> int:
    """Sorts the most urgent first."""
    return -LEVELS[stored.notification.urgency]
