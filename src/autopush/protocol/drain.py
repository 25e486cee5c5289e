"""One pass over what is stored for a user agent: topics first, then the rest by time.

Rule: the next page is read only when everything sent from this one is acked, and a row is never
read twice in one pass, so a pass always ends. Rows are deleted when acked; the read pointer only
spares later reads the way there.
"""

from typing import Final

from autopush.protocol.actions import Batch, ReadStored

TIMESTAMPED_START: Final = "01;"


class Drain:
    """The state of a running pass; an idle session has none."""

    __slots__ = ("_after", "_pages_left", "_pointer", "_topics", "highest", "reading", "waiting")

    def __init__(self) -> None:
        self._topics = True
        self._after: str | None = None
        self._pages_left = True
        self._pointer: int | None = None
        self.highest = 0
        """Sort time (µs) of the newest timestamped message this pass has sent."""
        self.reading = False
        self.waiting = 0
        """Messages of the current page that were sent and are not acked."""

    def next_page(self) -> ReadStored | None:
        """The next read, or None when the pass is over."""
        if not self._pages_left:
            if not self._topics:
                return None
            self._topics, self._pages_left = False, True
            pointer = self._pointer
            self._after = TIMESTAMPED_START if pointer is None else f"02:{pointer}:z"
        self.reading = True
        return ReadStored(self._topics, self._after)

    def page_read(self, batch: Batch) -> None:
        """Take note of where the page ended."""
        self.reading = False
        self._pages_left = batch.last is not None
        self._after = batch.last
        if batch.read_to is not None:
            self._pointer = batch.read_to

    def move_pointer(self) -> int | None:
        """Where the read pointer may stand now that all was acked, None when it stands there
        already.
        """
        if self.highest <= (self._pointer or 0):
            return None
        self._pointer = self.highest
        return self.highest
