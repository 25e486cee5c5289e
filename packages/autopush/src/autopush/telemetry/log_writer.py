"""Puts finished log lines into a file, a pipe or a terminal.

Rule: writing never holds up the one who logs. Lines wait in a bounded queue for a thread of their
own; when the reader at the other end stalls and the queue is full, lines are counted and dropped.
"""

import os
import select
import stat
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

CAPACITY: Final = 20_000
REPORT_EVERY: Final = 10.0
"""Seconds between two reports of lost lines."""

_PIPE_BATCH: Final = 4096
"""Bytes POSIX writes to a pipe in one piece (PIPE_BUF): workers that share one do not mix lines."""
_FILE_BATCH: Final = 65_536


class LogWriter:
    """Writes to a file descriptor: at once until `start`, from then on in a thread.

    `lost_line` renders the report that some lines (their number) were lost.
    """

    __slots__ = (
        "_batch",
        "_clock",
        "_descriptor",
        "_lost",
        "_lost_line",
        "_owned",
        "_queue",
        "_reported",
        "_reported_at",
        "_room",
        "_thread",
    )

    def __init__(
        self,
        descriptor: int,
        lost_line: Callable[[int], bytes],
        *,
        owned: bool = False,
        capacity: int = CAPACITY,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._descriptor = descriptor
        self._owned = owned
        self._lost_line = lost_line
        self._room = capacity
        self._clock = monotonic
        self._queue: SimpleQueue[bytes | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lost = 0
        self._reported = 0
        self._reported_at = -REPORT_EVERY
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._batch = _FILE_BATCH if is_file else _PIPE_BATCH

    @property
    def lost(self) -> int:
        """Lines dropped so far."""
        return self._lost

    @property
    def in_background(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        """Write in a thread from now on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
            self._thread.start()

    def write(self, line: bytes) -> None:
        """Take a line, with its line end; never blocks and never raises."""
        if self._thread is None:
            self._write_now(line)
        elif self._queue.qsize() < self._room:
            self._queue.put(line)
        else:
            self._lost += 1

    def flush(self, timeout: float) -> bool:
        """Wait until everything taken so far is written; False when that took too long."""
        if self._thread is None:
            return True
        done = threading.Event()
        self._queue.put(done)
        return done.wait(timeout)

    def close(self, timeout: float) -> None:
        """Write what is left, for at most `timeout` seconds, and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join(timeout)
            if thread.is_alive():
                return  # it still uses the descriptor
        if self._owned:
            os.close(self._descriptor)
            self._owned = False

    def _write_now(self, line: bytes) -> None:
        # Without a thread, a pipe that nobody reads costs the line, not the process. A pipe that
        # polls as writable takes PIPE_BUF bytes without blocking.
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        if not any(event & select.POLLOUT for _, event in poll.poll(0)):
            self._lost += 1
            return
        self._report()
        self._write_lines([line])

    def _run(self) -> None:
        queue = self._queue
        while True:
            entry = queue.get()
            lines: list[bytes] = []
            size = 0
            while isinstance(entry, bytes):
                if size + len(entry) > self._batch and lines:
                    self._write_lines(lines)
                    lines, size = [], 0
                lines.append(entry)
                size += len(entry)
                try:
                    entry = queue.get_nowait()
                except Empty:
                    break
            if lines:
                self._write_lines(lines)
            if entry is None:
                self._report(last=True)
                return
            self._report()
            if isinstance(entry, threading.Event):
                entry.set()

    def _report(self, *, last: bool = False) -> None:
        lost = self._lost - self._reported
        if lost and (last or self._clock() - self._reported_at >= REPORT_EVERY):
            self._reported_at = self._clock()
            if self._put(self._lost_line(lost)):
                self._reported += lost

    def _write_lines(self, lines: list[bytes]) -> None:
        if not self._put(b"".join(lines)):
            self._lost += len(lines)

    def _put(self, data: bytes) -> bool:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                # Somebody made the shared descriptor non-blocking: wait as a blocking one would.
                select.select([], [self._descriptor], [])
            except OSError:
                return False  # a full disk or a closed pipe: nowhere left to say so
        return True
