"""Frames of HTTP/2 (RFC 9113, section 4), as far as `h2` does not get them."""

from typing import Final

from h2.exceptions import FrameTooLargeError

MAX_FRAME: Final = 16_384
"""Bytes of a frame without its head; no client here allows its server more."""

_HEAD_LENGTH: Final = 9
_GOAWAY: Final = 7


class FrameSplitter:
    """Takes the GOAWAY frames out of what a server sends.

    For `h2` a GOAWAY ends the connection at once. RFC 9113, 6.8, lets the streams up to its last
    one be finished; without that a response under way would be lost.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._start = 0  # of what was not returned yet

    def feed(self, data: bytes) -> None:
        """Add what was received."""
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    def next(self) -> bytes | int | None:
        """The next whole frame; for a GOAWAY the last stream it names; None: there is none yet.

        :raises FrameTooLargeError: a frame that is too long
        """
        start, buffer = self._start, self._buffer
        if len(buffer) - start < _HEAD_LENGTH:
            return None
        length = int.from_bytes(buffer[start : start + 3], "big")
        if length > MAX_FRAME:
            raise FrameTooLargeError
        end = start + _HEAD_LENGTH + length
        if end > len(buffer):
            return None
        self._start = end
        if buffer[start + 3] == _GOAWAY and length >= 8:
            last = buffer[start + _HEAD_LENGTH : start + _HEAD_LENGTH + 4]
            return int.from_bytes(last, "big") & 0x7FFF_FFFF
        return bytes(buffer[start:end])
