"""One pass over what is stored for a user agent: topics first, then the rest by storing time.

Rule: the next page is read only when everything sent from this one is acked, and a row is never
read twice in one pass, so a pass always ends. Rows are deleted when acked. A read pointer, which
the predecessor moved instead of deleting, is honoured where a table has one and never written:
deleting needs no clocks that agree.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from autopush.protocol.actions import Action, Batch, Forget, ReadStored, Row, Send
from autopush.protocol.in_flight import InFlight, Sent, track
from autopush.webpush.identifiers import TIMESTAMPED_ROWS, sort_key_after


class Page(NamedTuple):
    """What became of a page: what is on its way now, and what to do.

    `too_many`: more would be unacked than is allowed.
    """

    in_flight: InFlight
    actions: list[Action]
    too_many: bool = False


class Drain:
    """The state of a running pass; an idle session has none."""

    __slots__ = ("_after", "_over", "_pointer", "_settled", "reading", "waiting")

    def __init__(self) -> None:
        self._after: str | None = None
        self._over = False
        self._pointer = 0
        self._settled: set[str] = set()
        self.reading = False
        self.waiting = 0
        """Messages of the current page that were sent and are not acked."""

    def next_page(self) -> ReadStored | None:
        """The next read, or None when the pass is over."""
        if self._over:
            return None
        self.reading = True
        return ReadStored(self._after)

    def read_again(self) -> ReadStored | None:
        """The read that failed; what was settled before it is not in the store by now."""
        self._settled.clear()
        return self.next_page()

    def page_read(self, batch: Batch) -> AbstractSet[str]:
        """Take note of where the page ended; returns the versions settled while it was read."""
        self.reading = False
        self._pointer = max(self._pointer, batch.read_to)
        self._over = batch.last is None
        self._after = batch.last
        if batch.last is not None and batch.last >= TIMESTAMPED_ROWS:
            self._after = max(batch.last, sort_key_after(self._pointer))
        settled, self._settled = self._settled, set()
        return settled

    def send(
        self,
        batch: Batch,
        in_flight: InFlight,
        channels: Collection[str],
        now: float,
        limit: int,
    ) -> Page:
        """Send what is alive on the page, for one of the channels and not on its way or read
        already; of `limit` messages, further ones are too many.
        """
        settled = self.page_read(batch)
        actions: list[Action] = []
        dead: list[Row] = []
        for stored in batch.messages:
            row, notification = stored.row, stored.notification
            version, channel_id = notification.version, notification.channel_id
            known = in_flight.get(version)
            if known is not None:
                # From now on its ack deletes this row.
                known.row, known.notification = row, None
                continue
            if version in settled or self.is_read(notification.sort_time):
                continue
            if channel_id not in channels or notification.expired(now):
                dead.append(row)
                continue
            if self.waiting >= limit:
                return Page(in_flight, actions, too_many=True)
            in_flight = track(in_flight, version, Sent(channel_id, None, row, drained=True))
            self.waiting += 1
            actions.append(Send(notification.to_client()))
        if dead:
            actions.append(Forget(dead))
        return Page(in_flight, actions)

    def settled(self, version: str, *, of_page: bool) -> None:
        """A message was acked or forgotten; `of_page`: this pass had sent it.

        A read under way may still find its row.
        """
        if of_page:
            self.waiting -= 1
        if self.reading:
            self._settled.add(version)

    def is_read(self, sort_time: int | None) -> bool:
        """Whether the read pointer of the table lies behind a message of that time (µs)."""
        return sort_time is not None and sort_time <= self._pointer
