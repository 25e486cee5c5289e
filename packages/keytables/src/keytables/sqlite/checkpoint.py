"""Checkpoints: copying the write-ahead log into the database file.

Rule: writers wait for a checkpoint only when the log has grown far beyond its usual size.

A PASSIVE checkpoint in a thread of its own copies what is there but, while writers continue, never
reaches the end of the log, so the log cannot start over. When the log reaches ``limit`` pages, the
writer's thread therefore completes the checkpoint while it still holds the write lock: little is
left to copy then.
"""

import contextlib
import queue
import threading
from typing import Final

import apsw

__all__ = ["Checkpointer"]

_STEP: Final = 2_000
"""Pages (of 4 KiB) by which the log grows between two checkpoints."""

_LIMIT: Final = 16_000
"""Pages at which writers wait for the checkpoint."""


class Checkpointer:
    """Observes the log of ``writer`` and copies it with ``connection``."""

    __slots__ = (
        "_before",
        "_connection",
        "_due",
        "_limit",
        "_pages",
        "_requests",
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
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        writer.set_wal_hook(self._on_commit)
        self._thread = threading.Thread(target=self._run, name="keytables-checkpoint", daemon=True)
        self._thread.start()

    def after_commit(self) -> None:
        """Request or run a checkpoint if it is due. Called by the holder of the write lock."""
        pages, before = self._pages, self._before
        self._before = pages
        if pages < before:  # the log has started over
            self._due = self._step
        if pages < self._due:
            return
        self._due = pages + self._step
        if pages < self._limit:
            self._requests.put(True)
            return
        try:
            self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error:
            self._due = pages  # another checkpoint is running: retry at the next commit

    def stop(self) -> None:
        """Wait for a running checkpoint and end the thread. Blocks."""
        self._writer.set_wal_hook(None)
        self._requests.put(False)
        self._thread.join()

    def _on_commit(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _run(self) -> None:
        while self._requests.get():
            # Busy: another process runs one. A failing disk fails the next commit as well.
            with contextlib.suppress(apsw.Error):
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
