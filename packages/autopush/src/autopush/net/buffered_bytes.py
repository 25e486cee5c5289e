"""The bytes that clients have sent of requests and messages which are not complete.

Rule: what one client may leave incomplete is bounded by the parsers, what all of them may together
is bounded here. Beyond it the message that has been incomplete for longest is given up, until the
rest is within the limit. An honest client's is complete after a few round trips; so whoever wants
to keep others out would have to send as many bytes again in that time, over and over.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

TOO_MUCH: Final = "too much is incomplete, of all clients together"


class Buffering(Protocol):
    """A connection with bytes of an incomplete message."""

    def give_up(self) -> None:
        """Drop these bytes and close the connection."""


class BufferedBytes:
    """What the connections of one worker hold. `limit`: bytes; 0 is none.

    `on_given_up`: a connection is closed since the limit was passed.
    """

    __slots__ = ("_held", "_limit", "_on_given_up", "total")

    def __init__(self, limit: int = 0, on_given_up: Callable[[], object] | None = None) -> None:
        self._limit = limit
        self._on_given_up = on_given_up
        self._held: OrderedDict[Buffering, int] = OrderedDict()
        self.total = 0
        """Bytes."""

    def hold(self, connection: Buffering, size: int) -> None:
        """A connection holds that many bytes now, 0 when its message is complete.

        This may have connections closed, also this one.
        """
        if size:
            self.total += size - self._held.get(connection, 0)
            self._held[connection] = size
            while self._limit and self.total > self._limit:
                oldest, held = self._held.popitem(last=False)
                self.total -= held
                if self._on_given_up is not None:
                    self._on_given_up()
                oldest.give_up()
        else:
            self.total -= self._held.pop(connection, 0)
