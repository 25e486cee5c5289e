"""Copies the write-ahead log into the database file while writers go on."""

import queue
import threading
from typing import Final

import apsw

from keytables.failures import FailureReports
from keytables.sqlite.database import translate

_STEP: Final = 2_000
"""Pages (of 4 KiB) by which the log grows between two checkpoints."""

_LIMIT: Final = 16_000
"""Pages of the log at which writers wait for the checkpoint."""


class Checkpointer:
    """Observes the log of ``writer`` and copies it with ``connection``.

    A PASSIVE checkpoint in a thread of its own copies what is there but, while writers continue,
    never reaches the end of the log, so the log cannot start over. When the log reaches ``limit``
    pages, the writer's thread therefore completes the checkpoint while it still holds the write
    lock: little is left to copy then. After a failure the log grows, and commits go on.
    """

    def __init__(
        self,
        writer: apsw.Connection,
        connection: apsw.Connection,
        failures: FailureReports,
        *,
        step: int = _STEP,
        limit: int = _LIMIT,
    ) -> None:
        self._writer, self._connection, self._failures = writer, connection, failures
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
        if not self.complete():
            self._due = pages  # another checkpoint is running: retry at the next commit

    def complete(self) -> bool:
        """Copy all of the log, unless readers need it; return whether that was possible. Called by
        the holder of the write lock. Blocks.
        """
        return self._checkpoint(self._writer)

    def stop(self) -> None:
        self._writer.set_wal_hook(None)
        self._requests.put(False)
        self._thread.join()

    def _on_commit(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def _run(self) -> None:
        while self._requests.get():
            self._checkpoint(self._connection)

    def _checkpoint(self, connection: apsw.Connection) -> bool:
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except (apsw.BusyError, apsw.LockedError):
            return False  # another process runs one
        except apsw.Error as error:
            self._failures.report_from_thread(translate(error, errno=connection.system_errno))
            return False
        return True
