"""Moving the write-ahead log into the file.

The one rule: writers wait for it only when the log has grown far beyond its usual size.

A checkpoint beside running writers (SQLite's PASSIVE mode, in a thread of its own) moves what is
there but, while writers go on, never catches up, and the log cannot start over. When the log
reaches ``limit`` pages, the writer's thread therefore finishes the job while it still has the turn:
little is left to move then.
"""

import contextlib
import queue
import threading
from typing import Final

import apsw

__all__ = ["Checkpointer"]

_STEP: Final = 2_000
"""Pages (of 4 KiB) the log grows by between two checkpoints."""

_LIMIT: Final = 16_000
"""Pages at which writers wait for the checkpoint."""


class Checkpointer:
    """Watches the log of ``writer`` and moves it with ``connection``."""

    __slots__ = (
        "_asked",
        "_before",
        "_connection",
        "_due",
        "_limit",
        "_pages",
        "_step",
        "_thread",
        "_writer",
    )

    def __init__(
        self,
        writer: apsw.Connection,
        connection: apsw.Connection,
        *,
        step: int = _STEP,
        limit: int = _LIMIT,
    ) -> None:
        self._writer, self._connection = writer, connection
        self._step, self._limit = step, limit
        self._pages = self._before = 0
        self._due = step
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        writer.set_wal_hook(self._grown)
        self._thread = threading.Thread(target=self._run, name="keytables-checkpoint", daemon=True)
        self._thread.start()

    def after_commit(self) -> None:
        """Start or make a checkpoint if it is due. In the writer's thread, during its turn."""
        pages, before = self._pages, self._before
        self._before = pages
        if pages < before:  # the log has started over
            self._due = self._step
        if pages < self._due:
            return
        self._due = pages + self._step
        if pages < self._limit:
            self._asked.put(True)
            return
        try:
            self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error:
            self._due = pages  # another one is running: try at the next commit

    def stop(self) -> None:
        """Wait for a running checkpoint and end. Blocks."""
        self._writer.set_wal_hook(None)
        self._asked.put(False)
        self._thread.join()

    def _grown(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _run(self) -> None:
        while self._asked.get():
            # Busy: another process is at it. A failing disk shows at the next commit as well.
            with contextlib.suppress(apsw.Error):
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
