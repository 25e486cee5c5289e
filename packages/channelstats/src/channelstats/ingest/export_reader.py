"""Reading an export beside storing it: in a process of its own if it is large, else in a thread.

Rule: what was asked for is answered in the order of the questions, and no more is read ahead than
the buffer takes. The process does nothing but read: it ends with whoever asked, however that ends.

Between the two go frames: four bytes of length, then MessagePack.
"""

import asyncio
import os
import sys
from abc import ABC, abstractmethod
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import BinaryIO, Final

import msgspec

from channelstats.ingest.export_pieces import Piece, pieces
from channelstats.ingest.message_row import Origin
from channelstats.slack.archive import Limits
from channelstats.slack.export import ChannelKind, Export, ExportChannel

LARGE: Final = 32 << 20
"""Bytes of JSON from which on it is worth to start a process."""

_BUFFER: Final = 16 << 20
_LENGTH: Final = 4
_PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from channelstats.ingest.export_reader import answer; "
    "answer(sys.stdin.buffer, sys.stdout.buffer)"
)


class ReaderEnded(OSError):  # noqa: N818 - named for what happened
    """The process that reads the export ended before its time."""


class Ask(msgspec.Struct, array_like=True):
    """Please read the channel that the messages are of; ``alone``: see `pieces`."""

    origin: Origin
    alone: bool


class _Job(msgspec.Struct, array_like=True):
    """The export: its path, as bytes, and the limits it was opened with."""

    path: bytes
    limits: Limits


class Reader(ABC):
    """Answers questions in their order."""

    @abstractmethod
    async def ask(self, question: Ask) -> None:
        """Have it read."""

    @abstractmethod
    def answer(self) -> AsyncGenerator[Piece, None]:
        """The pieces of the channel that was asked for first and not answered yet.

        :raises ReaderEnded: the process is gone
        """


@asynccontextmanager
async def reader_of(export: Export, size: int) -> AsyncIterator[Reader]:
    """A reader for channels of so many bytes in all."""
    if size < LARGE:
        yield _Here(export)
        return
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-c",
        _PROGRAM,
        *sys.path,
        stdin=PIPE,
        stdout=PIPE,
        limit=_BUFFER,
        start_new_session=True,  # what ends us at the keyboard is for us to see
    )
    try:
        reader = _Aside(process)
        await reader.send(_job(export))
        yield reader
    finally:
        with suppress(ProcessLookupError):  # it has ended already
            process.kill()
        await process.communicate()  # what it wrote and nobody read keeps its pipe open


class _Here(Reader):
    """In a thread; a channel at a time."""

    def __init__(self, export: Export) -> None:
        self._answering = _Answering(export)
        self._asked: deque[Ask] = deque()

    async def ask(self, question: Ask) -> None:
        self._asked.append(question)

    async def answer(self) -> AsyncGenerator[Piece, None]:
        ask = self._asked.popleft()
        for piece in await asyncio.to_thread(lambda: list(self._answering.pieces(ask))):
            yield piece


class _Aside(Reader):
    """In another process."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._questions, self._answers = process.stdin, process.stdout
        self._decode = msgspec.msgpack.Decoder(Piece).decode

    async def send(self, content: msgspec.Struct) -> None:
        try:
            self._questions.write(_frame(content))
            await self._questions.drain()
        except ConnectionError:
            raise _ended() from None

    async def ask(self, question: Ask) -> None:
        await self.send(question)

    async def answer(self) -> AsyncGenerator[Piece, None]:
        is_last = False
        while not is_last:
            try:
                length = await self._answers.readexactly(_LENGTH)
                data = await self._answers.readexactly(int.from_bytes(length, "big"))
            except asyncio.IncompleteReadError:
                raise _ended() from None
            piece = self._decode(data)
            is_last = piece.is_last
            yield piece


def _ended() -> ReaderEnded:
    return ReaderEnded("the process that reads the export has ended; import it again to go on")


class _Answering:
    """Finds the channels of an export by their IDs."""

    def __init__(self, export: Export) -> None:
        self._export = export
        self._channels: dict[str, ExportChannel] = {}

    def pieces(self, ask: Ask) -> Iterator[Piece]:
        if not self._channels:
            found = self._export.channels(frozenset(ChannelKind))
            self._channels = {channel.about.id: channel for channel in found}
            self._export.problems()  # told by whoever asks
        channel = self._channels[ask.origin.slack_cid]
        return pieces(self._export, channel, ask.origin, alone=ask.alone)


def _job(export: Export) -> _Job:
    return _Job(os.fsencode(export.path), export.limits)


def _frame(content: msgspec.Struct) -> bytes:
    data = msgspec.msgpack.encode(content)
    return len(data).to_bytes(_LENGTH, "big") + data


# ── the process ──────────────────────────────────────────────────────────────────────────────────


def answer(questions: BinaryIO, answers: BinaryIO) -> None:
    """Open the export that is named first, and answer until there are no more questions."""
    job = msgspec.msgpack.decode(_next(questions), type=_Job)
    export = Export.open(os.fsdecode(job.path), job.limits)
    answering, decode = _Answering(export), msgspec.msgpack.Decoder(Ask).decode
    try:
        while question := _next(questions):
            for piece in answering.pieces(decode(question)):
                answers.write(_frame(piece))
                answers.flush()
    except BrokenPipeError:
        os._exit(0)  # nobody is there to read what is left
    finally:
        export.close()


def _next(questions: BinaryIO) -> bytes:
    """The next frame; empty at the end."""
    return questions.read(int.from_bytes(questions.read(_LENGTH), "big"))
