"""Frames of HTTP/2 (RFC 9113, section 4), as far as `h2` does not get them."""

from collections.abc import Iterator
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

    def split(self, data: bytes) -> Iterator[bytes | int]:
        """Whole frames, as many as follow each other; for a GOAWAY the last stream it names.

        :raises FrameTooLargeError: a frame that is too long
        """
        self._buffer += data
        start = end = 0
        while len(self._buffer) - end >= _HEAD_LENGTH:
            length = int.from_bytes(self._buffer[end : end + 3], "big")
            if length > MAX_FRAME:
                raise FrameTooLargeError
            following = end + _HEAD_LENGTH + length
            if following > len(self._buffer):
                break
            if self._buffer[end + 3] == _GOAWAY and length >= 8:
                if end > start:
                    yield bytes(self._buffer[start:end])
                last = self._buffer[end + _HEAD_LENGTH : end + _HEAD_LENGTH + 4]
                yield int.from_bytes(last, "big") & 0x7FFF_FFFF
                start = following
            end = following
        whole = bytes(self._buffer[start:end])
        del self._buffer[:end]
        if whole:
            yield whole
