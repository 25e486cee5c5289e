"""Reading the channels of an export beside storing them: in a thread, or where it is large in a
process of its own, without which a large import takes up to 1.8 times as long.

Rule: pure reading; it needs nothing but the export. The process ends with the one that started it,
however that ends.
"""

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager
from functools import partial
from multiprocessing import get_context, parent_process
from typing import Final, TypeAlias

import msgspec

from channelstats.ingest.merging import merge_messages
from channelstats.ingest.rows import Origin, take_rows, users_of_messages
from channelstats.slack.archive import Limits
from channelstats.slack.export import Export, ExportChannel, Problem, left_out
from channelstats.slack.objects import Named, workspace_of
from channelstats.tables.directory import User
from channelstats.tables.message_row import MessageRow

LARGE: Final = 32 << 20
"""Bytes of JSON from which on it is worth to start a process."""

ROWS: Final = 8_000
"""Rows of a piece."""


class ReaderEnded(OSError):  # noqa: N818 - named for what happened
    """The process that reads the export ended before its time."""


class ChannelContent(msgspec.Struct, frozen=True):
    """The messages of one channel, so many, with their ``authors`` as far as the messages tell,
    and what was wrong. Their rows are in pieces that are encoded until their turn comes, and
    let go then: they come once. Timestamps: the oldest, the newest, and the newest of those that
    are no replies. ``workspaces``: to which ones how many of its files are linked.
    """

    messages: int
    encoded: list[bytes]
    authors: list[User]
    problems: list[Problem]
    oldest: str = ""
    newest: str = ""
    newest_top: str = "0"
    workspaces: Mapping[str, int] = {}

    def pieces(self) -> Iterator[list[MessageRow]]:
        while self.encoded:
            yield _decode(self.encoded.pop(0))


ReadChannel: TypeAlias = Callable[[ExportChannel, Origin, bool], "asyncio.Future[ChannelContent]"]
"""Begins to read a channel. With the third argument, where nothing of it is stored, the rows are
those to store, in the order of time; else they are as they are in the files.
"""


@asynccontextmanager
async def channel_reader(export: Export, size: int) -> AsyncIterator[ReadChannel]:
    """What reads channels of so many bytes in all, one after the other.

    :raises ReaderEnded: the process is gone
    """
    executor: Executor
    read: Callable[[ExportChannel, Origin, bool], ChannelContent]
    if size < LARGE:
        executor, read = ThreadPoolExecutor(1), partial(read_channel, export)
    else:
        begin, place = get_context("spawn"), (export.path, export.limits)
        executor, read = ProcessPoolExecutor(1, begin, _open, place), _read_here
    loop = asyncio.get_running_loop()
    try:
        yield lambda *asked: loop.run_in_executor(executor, read, *asked)
    except BrokenProcessPool:
        message = "the process that reads the export has ended; import it again to go on"
        raise ReaderEnded(message) from None
    finally:
        await asyncio.to_thread(executor.shutdown, cancel_futures=True)


def read_channel(
    export: Export, channel: ExportChannel, origin: Origin, is_new: bool
) -> ChannelContent:
    """Read the files of a channel; see `ReadChannel`."""
    rows: list[MessageRow] = []
    profiles: dict[str, Named] = {}
    problems: list[Problem] = []
    workspaces = Counter[str]()
    for place, messages in export.messages(channel):
        problems += left_out(place, take_rows(messages, origin, rows, profiles))
        for message in messages:
            if message.files or message.file:
                files = (*(message.files or ()), message.file)
                workspaces.update(name for one in files if one and (name := workspace_of(one)))
    if is_new:
        rows = [row for row, _ in merge_messages({}, rows)]
    times = [row.ts for row in rows]
    return ChannelContent(
        len(rows),
        [_encode(rows[begin : begin + ROWS]) for begin in range(0, len(rows), ROWS)],
        users_of_messages(rows, profiles),
        [*export.problems(), *problems],
        oldest=min(times, default=""),
        newest=max(times, default=""),
        newest_top=max((row.ts for row in rows if not row.is_reply), default="0"),
        workspaces=workspaces,
    )


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[MessageRow]).decode


# ── the process ──────────────────────────────────────────────────────────────────────────────────

_opened: list[Export] = []


def _open(path: str, limits: Limits) -> None:
    """Open the export, and have the process end with the one that started it."""
    for number in (signal.SIGINT, signal.SIGTERM):  # what ends the other is for that alone
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    export = Export.open(path, limits)
    export.problems()  # whoever started the process has reported them
    _opened.append(export)


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _read_here(channel: ExportChannel, origin: Origin, is_new: bool) -> ChannelContent:
    return read_channel(_opened[0], channel, origin, is_new)
