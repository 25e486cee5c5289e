"""Reading the channels of an export beside storing them: in a thread, or where it is large in a
process of its own, without which a large import takes up to 1.8 times as long.

Rule: pure reading; it needs nothing but the export. The process ends with the one that started it,
however that ends.
"""

import asyncio
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Final, TypeAlias

import msgspec

from channelstats.ingest.merging import merge_messages
from channelstats.ingest.rows import EVERYBODY, Origin, People, take_rows, users_of_messages
from channelstats.processes import become_child
from channelstats.slack.export import Export, ExportChannel, Problem, left_out
from channelstats.slack.objects import ProfileBeside, workspace_of
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
    are no replies. ``workspaces``: to which ones how many of its files are linked. ``teams`` are
    those of authors, where their messages say so.
    """

    messages: int
    encoded: list[bytes]
    authors: list[User]
    problems: list[Problem]
    oldest: str = ""
    newest: str = ""
    newest_top: str = "0"
    workspaces: Mapping[str, int] = {}
    teams: Mapping[str, str] = {}

    def pieces(self) -> Iterator[list[MessageRow]]:
        while self.encoded:
            yield _decode(self.encoded.pop(0))


class ReaderProcess:
    """`read_channel` in a process of its own."""

    def __init__(self, path: str, ids: Mapping[str, str]) -> None:
        # A pool of processes has semaphores, which outlive it if it is killed: with a warning.
        spawning = get_context("spawn")
        self._pipe, other = spawning.Pipe()
        arguments = other, path, ids
        self._process = spawning.Process(target=_read_channels, args=arguments, daemon=True)
        self._process.start()
        other.close()

    def read(self, channel: ExportChannel, origin: Origin, is_new: bool) -> ChannelContent:
        """:raises ReaderEnded: the process is gone"""
        content: ChannelContent
        try:
            self._pipe.send((channel, origin, is_new))
            content, error = self._pipe.recv()
        except (EOFError, ConnectionError):
            message = "the process that reads the export has ended; import it again to go on"
            raise ReaderEnded(message) from None
        if error is not None:
            raise error
        return content

    def close(self) -> None:
        self._pipe.close()
        self._process.join()


BeginReading: TypeAlias = Callable[[ExportChannel, Origin, bool], "asyncio.Future[ChannelContent]"]
"""Begins to read a channel, after those begun before; the arguments are those of `read_channel`."""


@asynccontextmanager
async def channel_reader(
    export: Export, size: int, ids: Mapping[str, str] | None = None
) -> AsyncIterator[BeginReading]:
    """What reads channels of so many bytes in all, in a thread or a process of its own; for ``ids``
    see `ids_of_people`.

    :raises ReaderEnded: the process is gone
    """
    executor, closing = ThreadPoolExecutor(1), ExitStack()
    read: Callable[[ExportChannel, Origin, bool], ChannelContent]
    if size < LARGE:
        read = partial(read_channel, export, people=People(ids or {}))
    else:
        process = ReaderProcess(export.path, ids or {})
        closing.callback(process.close)
        read = process.read
    closing.callback(executor.shutdown, cancel_futures=True)  # first, as it may be reading

    def begin(
        channel: ExportChannel, origin: Origin, is_new: bool
    ) -> "asyncio.Future[ChannelContent]":
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(executor, read, channel, origin, is_new)
        # Channels are read ahead: once one has failed, nobody waits for those after it.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future

    try:
        yield begin
    finally:
        await asyncio.to_thread(closing.close)


def read_channel(
    export: Export,
    channel: ExportChannel,
    origin: Origin,
    is_new: bool,
    people: People = EVERYBODY,
) -> ChannelContent:
    """Read the files of a channel. Where nothing of it is stored, it ``is_new``: the rows are those
    to store, in the order of time; else they are as they are in the files.
    """
    rows: list[MessageRow] = []
    profiles: dict[str, ProfileBeside] = {}
    problems: list[Problem] = []
    workspaces = Counter[str]()
    for place, messages in export.messages(channel):
        problems += left_out(place, take_rows(messages, origin, rows, profiles, people))
        for message in messages:
            if message.files or message.file:
                files = (*(message.files or ()), message.file)
                workspaces.update(name for file in files if file and (name := workspace_of(file)))
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
        teams={uid: profile.team for uid, profile in profiles.items() if profile.team},
    )


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[MessageRow]).decode


# ── the process ──────────────────────────────────────────────────────────────────────────────────


def _read_channels(pipe: "Connection[Any, Any]", path: str, ids: Mapping[str, str]) -> None:
    """Open the export, and read what is asked for until the other end is closed."""
    become_child()
    export = Export.open(path)
    export.problems()  # the process that started this one has reported them
    people = People(ids)
    with suppress(EOFError, ConnectionError):
        while True:
            channel, origin, is_new = pipe.recv()
            content, failure = None, None
            try:
                content = read_channel(export, channel, origin, is_new, people)
            except Exception as error:  # noqa: BLE001 - it is raised where the channel was asked for
                error.add_note(traceback.format_exc())
                failure = error
            pipe.send((content, failure))
