"""Stores that a process did not close, and stores with damage."""

from contextlib import closing
from pathlib import Path

import apsw

from support import forked

PAGE_SIZE = 4096

_LEAVING = """
import asyncio, os, time
from keytables.stores import open_engine
from autopush.store.tables import router_table
async def leave():
    engine = await open_engine("sqlite://{store}", clock=time.time)
    table = await engine.ensure_table(router_table("router"))
    for number in range(20):
        await table.put({"uaid": "%032x" % number, "router_type": "webpush", "connected_at": 1})
    os._exit(0)
asyncio.run(leave())
"""


def leave_unclosed(store: Path) -> None:
    """Write some user agents in a process that then ends without closing the store."""
    program = _LEAVING.replace("{store}", str(store))
    assert forked.run(program=program).returncode == 0
    assert log_of(store).stat().st_size > 0


def log_of(store: Path) -> Path:
    return store.with_name(f"{store.name}-wal")


def damage_table(store: Path, table: str) -> None:
    """Overwrite the first page of a table, in the file and not in the log."""
    with closing(apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        query = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name LIKE ? || '~%'"
        page = connection.execute(query, (table,)).get
    with store.open("r+b") as file:
        file.seek((page - 1) * PAGE_SIZE)
        file.write(b"\xa5" * PAGE_SIZE)


def damage_log(store: Path) -> None:
    """Change one bit in the middle of the log."""
    with log_of(store).open("r+b") as file:
        middle = log_of(store).stat().st_size // 2
        file.seek(middle)
        [byte] = file.read(1)
        file.seek(middle)
        file.write(bytes([byte ^ 1]))


def damage_pages_with(store: Path, text: str) -> None:
    """Overwrite every page of the file that holds this text."""
    with store.open("r+b") as file:
        content = file.read()
        for start in range(0, len(content), PAGE_SIZE):
            if text.encode() in content[start : start + PAGE_SIZE]:
                file.seek(start)
                file.write(b"\xa5" * PAGE_SIZE)
