"""One pass over what is stored for a user agent: topics first, then the rest by storing time.

Rule: the next page is read only when everything sent from this one is acked, and a row is never
read twice in one pass, so a pass always ends. Rows are deleted when acked; the read pointer only
spares later reads the way there.
"""

from autopush.protocol.actions import Batch, ReadStored


class Drain:
    """The state of a running pass; an idle session has none."""

    __slots__ = ("_after", "_over", "highest", "pointer", "reading", "waiting")

    def __init__(self) -> None:
        self._after: str | None = None
        self._over = False
        self.pointer = 0
        """The read pointer of the table (µs): timestamped rows up to here were acked long ago."""
        self.highest = 0
        """Sort time (µs) of the newest timestamped message this pass has sent."""
        self.reading = False
        self.waiting = 0
        """Messages of the current page that were sent and are not acked."""

    def next_page(self) -> ReadStored | None:
        """The next read, or None when the pass is over."""
        if self._over:
            return None
        self.reading = True
        return ReadStored(self._after)

    def page_read(self, batch: Batch) -> None:
        """Take note of where the page ended."""
        self.reading = False
        self.pointer = max(self.pointer, batch.read_to)
        self._over = batch.last is None
        self._after = batch.last
        if batch.last is not None and batch.last >= "02:":
            self._after = max(batch.last, f"02:{self.pointer}:z")

    def move_pointer(self) -> int | None:
        """Where the read pointer may stand now that all was acked, None when it stands there."""
        if self.highest <= self.pointer:
            return None
        self.pointer = self.highest
        return self.highest
