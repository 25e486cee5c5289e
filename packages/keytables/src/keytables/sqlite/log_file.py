"""The write-ahead log as a file: which of its transactions SQLite would read after a crash.

Rule: nothing is written. Frames that cannot be read because a power cut came while the last of them
were being written are no damage: their commit was not returned yet.

The format is that of https://sqlite.org/fileformat2.html#walformat. A header of 32 bytes has two
salts; then come frames of 24 bytes and a page. A frame belongs to the log if it has its salts: the
log starts over by changing them, and what is behind the last frame is left from before. The
checksum of a frame covers that of the frame before it, so SQLite takes the first that is wrong for
the end of the log, and everything behind it is lost. Here the checksum that is *written* in a frame
is used to go on behind it.
"""

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple

__all__ = ["LogState", "read_log"]

_HEADER_SIZE: Final = 32
_FRAME_HEADER: Final = struct.Struct(">6I")
_MAGIC: Final = 0x377F0682
"""Of a log whose checksums read words as little-endian; plus one for big-endian."""

_MASK: Final = 0xFFFFFFFF
_DEFAULT_PAGE_SIZE: Final = 4096


@dataclass(frozen=True, slots=True)
class LogState:
    """What a log holds, and what of it SQLite would not read.

    ``commits``, ``pages``: of all transactions in it. ``lost_commits``, ``lost_pages``: of those
    from the first damaged frame on. ``is_complete``: whether all of it was read.
    """

    commits: int = 0
    pages: int = 0
    lost_commits: int = 0
    lost_pages: int = 0
    is_header_damaged: bool = False
    is_complete: bool = True


class _Frame(NamedTuple):
    page: int
    is_commit: bool
    is_valid: bool
    """Its checksum follows from the one that is written in the frame before it."""


def read_log(path: str, *, is_late: Callable[[], bool] = lambda: False) -> LogState:
    """Read the log at ``path``, until ``is_late``. No file is an empty log. Raises OSError."""
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        return LogState()
    with file:
        return _read(file, is_late)


def _read(file: BinaryIO, is_late: Callable[[], bool]) -> LogState:
    header = file.read(_HEADER_SIZE)
    if len(header) < _HEADER_SIZE or not any(header):
        return LogState()  # nothing was committed
    magic, _version, page_size, _sequence, *salts, first, second = struct.unpack(">8I", header)
    order = ">" if magic & 1 else "<"
    words = f"{order}{(_HEADER_SIZE - 8) // 4}I"
    is_header_valid = magic & ~1 == _MAGIC and (first, second) == _checksum(
        struct.unpack(words, header[:-8]), 0, 0
    )
    if not is_header_valid:
        # The header is all that tells how the frames are to be read: what they say has to do.
        order, page_size = "<", _DEFAULT_PAGE_SIZE
        salts = list(_FRAME_HEADER.unpack(file.read(_FRAME_HEADER.size).ljust(24, b"\0"))[2:4])
        file.seek(_HEADER_SIZE)
    frames, is_complete = _frames(file, page_size, order, tuple(salts), (first, second), is_late)
    return _judge(frames, is_header_valid=is_header_valid, is_complete=is_complete)


def _frames(
    file: BinaryIO,
    page_size: int,
    order: str,
    salts: tuple[int, ...],
    seed: tuple[int, int],
    is_late: Callable[[], bool],
) -> tuple[list[_Frame | None], bool]:
    """Read the frames up to the last that has the salts; ``None`` for one that has not."""
    frames: list[_Frame | None] = []
    end = 0
    size = _FRAME_HEADER.size + page_size
    words = struct.Struct(f"{order}{page_size // 4}I")
    head = struct.Struct(f"{order}2I")
    while len(data := file.read(size)) == size:
        if is_late():
            return frames[:end], False
        page, pages, salt1, salt2, first, second = _FRAME_HEADER.unpack_from(data)
        if (salt1, salt2) != salts:
            frames.append(None)
        else:
            sums = _checksum(head.unpack_from(data), *seed)
            sums = _checksum(words.unpack_from(data, _FRAME_HEADER.size), *sums)
            frames.append(_Frame(page, bool(pages), sums == (first, second)))
            end = len(frames)
        seed = (first, second)
    return frames[:end], True


def _judge(frames: list[_Frame | None], *, is_header_valid: bool, is_complete: bool) -> LogState:
    commits = [n for n, frame in enumerate(frames) if frame is not None and frame.is_commit]
    read = _count_readable(frames) if is_header_valid else 0
    # Behind the last commit is what was not committed.
    committed = frames[: commits[-1] + 1] if commits else []
    lost = [n for n in commits if n >= read]
    if len(lost) == 1 and is_header_valid and _may_be_torn(frames[read : lost[0] + 1]):
        lost = []
    if not is_header_valid and len(commits) <= 1:  # the very first one may be torn as well
        lost = []
    lost_frames = committed[read:] if lost else []
    return LogState(
        commits=len(commits),
        pages=len({frame.page for frame in committed if frame is not None}),
        lost_commits=len(lost),
        lost_pages=len({frame.page for frame in lost_frames if frame is not None}),
        is_header_damaged=not is_header_valid and len(commits) > 1,
        is_complete=is_complete,
    )


def _count_readable(frames: list[_Frame | None]) -> int:
    """How many frames SQLite would read: up to the last commit before the first damaged one."""
    read = 0
    for number, frame in enumerate(frames, 1):
        if frame is None or not frame.is_valid:
            break
        if frame.is_commit:
            read = number
    return read


def _may_be_torn(last: list[_Frame | None]) -> bool:
    """Whether the last transaction may be one that was being written when the power was cut.

    Its frames reach the disk in any order, so some may be missing. A frame that is there, and whose
    follower fits it, while its own page does not, was written and is damaged.
    """
    return any(frame is None for frame in last) or not all(
        frame is not None and frame.is_valid for frame in last[-1:]
    )


def _checksum(words: tuple[int, ...], first: int, second: int) -> tuple[int, int]:
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _MASK
        second = (second + odd + first) & _MASK
    return first, second


def is_unclean(path: str) -> bool:
    """Whether the log at ``path`` was left by a process that did not close the store."""
    try:
        return os.stat(path).st_size > 0
    except FileNotFoundError:
        return False
