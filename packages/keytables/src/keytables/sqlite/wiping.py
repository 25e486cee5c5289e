"""Leaving nothing of what was deleted in the files of a store.

Rule: an engine that was opened to wipe overwrites each row that it deletes. But where rows move
between pages, copies of them stay in the unused part of pages; only rewriting the file removes
those. The log has old pages as well, so it ends up empty.
"""

import os
from contextlib import closing
from time import monotonic, sleep
from typing import Final

import apsw

from keytables.errors import Unavailable
from keytables.sqlite.database import check_sqlite, open_usage_lock, translated
from keytables.sqlite.layout import store_files
from keytables.sqlite.locks import FairLock

_TIMEOUT: Final = 30.0
"""Seconds to wait for writers, and for those that read an older state."""

_PAUSE: Final = 0.01


def wipe_store(path: str | os.PathLike[str], *, timeout: float = _TIMEOUT) -> None:
    """Rewrite each file of the store at ``path``, without what was deleted. Blocks.

    Others may have it open, and wait for as long as that takes. It needs free space for twice the
    largest file.
    Raises Unavailable: it cannot be done, or others kept a file in use for ``timeout`` seconds.
    """
    path = os.fspath(path)
    check_sqlite()
    with translated(f"cannot write {path} anew"), closing(open_usage_lock(path)):
        for file in store_files(path):
            _wipe(file, timeout)


def _wipe(file: str, timeout: float) -> None:
    deadline = monotonic() + timeout
    with closing(FairLock(file)) as lock, closing(apsw.Connection(file)) as connection:
        connection.set_busy_timeout(int(timeout * 1000))
        while not lock.try_acquire():
            if monotonic() > deadline:
                raise Unavailable(f"other processes kept {file} locked")
            sleep(_PAUSE)
        try:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("VACUUM")
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            lock.release()
