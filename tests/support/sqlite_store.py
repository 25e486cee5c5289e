"""A SQLite store as its tests see it: the connections of its engine, its lock, its file."""

import fcntl
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from keytables.sqlite import SqliteEngine

OpenSqlite = Callable[..., Awaitable[SqliteEngine]]
"""Opens an engine on the store of the test: each call as another process would."""


class Connections:
    """The connections of the engine that was opened first. Install ``add`` as a connection hook."""

    def __init__(self) -> None:
        self.opened: list[apsw.Connection] = []

    def add(self, connection: apsw.Connection) -> None:
        self.opened.append(connection)

    @property
    def writer(self) -> apsw.Connection:
        return self.opened[0]

    @property
    def reader(self) -> apsw.Connection:
        return self.opened[1]


@contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """Hold the lock of the writers, as another process does."""
    lock = os.open(f"{path}-turn", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(lock)


@contextmanager
def failing_commits(connection: apsw.Connection) -> Iterator[None]:
    """Turn every commit into a rollback."""
    connection.set_commit_hook(lambda: True)
    try:
        yield
    finally:
        connection.set_commit_hook(None)


def select(path: Path, sql: str) -> list[tuple[object, ...]]:
    """Read the file as another program does."""
    connection = apsw.Connection(str(path))
    try:
        return list(connection.execute(sql))
    finally:
        connection.close()
