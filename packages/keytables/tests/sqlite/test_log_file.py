"""Damage in the middle of a log is found; what a power cut leaves is none."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from keytables.sqlite.log_file import LogState, read_log

FRAME = 24 + 4096
COMMITS = 20


@pytest.fixture
def log(path: Path) -> bytearray:
    """The log of ``COMMITS`` transactions, the first of which creates the table."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (x)")
    for _ in range(COMMITS - 1):
        connection.execute("INSERT INTO t VALUES (randomblob(9000))")
    content = bytearray(Path(f"{path}-wal").read_bytes())
    path.with_name("before").write_bytes(path.read_bytes())
    connection.close()
    return content


def state_of(path: Path, log: bytes | bytearray) -> LogState:
    copy = path.with_name("copy-wal")
    copy.write_bytes(log)
    return read_log(str(copy))


def readable(path: Path, log: bytes | bytearray) -> int:
    """How many transactions SQLite itself reads."""
    copy = path.with_name("copy")
    copy.write_bytes(path.with_name("before").read_bytes())
    path.with_name("copy-wal").write_bytes(log)
    connection = apsw.Connection(str(copy))
    try:
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
        return int(connection.execute("SELECT count(*) FROM t").get) + 1 if tables else 0
    finally:
        connection.close()


def frames(log: bytes | bytearray) -> int:
    return (len(log) - 32) // FRAME


def flip(frame: int, offset: int) -> Callable[[bytearray], None]:
    def change(log: bytearray) -> None:
        log[32 + (frame % frames(log)) * FRAME + offset] ^= 4

    return change


def test_a_whole_log_loses_nothing(path: Path, log: bytearray) -> None:
    state = state_of(path, log)
    assert (state.commits, state.lost_commits, state.lost_pages) == (COMMITS, 0, 0)
    assert state.pages > COMMITS
    assert not state.is_header_damaged
    assert state.is_complete


@pytest.mark.parametrize("offset", [500, 4000, 2, 20])
def test_a_flipped_bit_loses_what_is_behind_it(path: Path, log: bytearray, offset: int) -> None:
    flip(30, offset)(log)
    state = state_of(path, log)
    assert state.commits == COMMITS
    assert state.commits - state.lost_commits == readable(path, log)
    assert 5 < state.lost_commits < COMMITS
    assert state.lost_pages >= state.lost_commits


def test_a_flipped_bit_in_the_salts_of_a_frame_is_damage(path: Path, log: bytearray) -> None:
    flip(30, 9)(log)
    assert state_of(path, log).lost_commits > 5


def test_a_flipped_bit_in_the_last_transaction_loses_it(path: Path, log: bytearray) -> None:
    flip(-2, 500)(log)
    assert state_of(path, log).lost_commits == 1


@pytest.mark.parametrize("offset", [1, 6, 11, 13, 18, 27])
def test_a_flipped_bit_in_the_head_loses_everything(
    path: Path, log: bytearray, offset: int
) -> None:
    log[offset] ^= 1
    state = state_of(path, log)
    assert state.is_header_damaged
    assert state.lost_commits == state.commits == COMMITS


def cut(log: bytearray) -> None:
    del log[-3000:]


def missing(log: bytearray) -> None:
    log[-2 * FRAME : -FRAME] = bytes(FRAME)


def torn(log: bytearray) -> None:
    log[-2000:] = bytes(2000)


def allocated(log: bytearray) -> None:
    log.extend(bytes(100_000))


def left_from_before(log: bytearray) -> None:
    old = bytearray(log[32 : 32 + 3 * FRAME])
    for begin in range(0, len(old), FRAME):
        old[begin + 8 : begin + 12] = b"olds"
    log.extend(old)


@pytest.mark.parametrize("leave", [cut, missing, torn, allocated, left_from_before])
def test_what_a_power_cut_leaves_is_no_damage(
    path: Path, log: bytearray, leave: Callable[[bytearray], None]
) -> None:
    leave(log)
    state = state_of(path, log)
    assert (state.lost_commits, state.is_header_damaged) == (0, False)


@pytest.mark.parametrize("content", [b"", b"short", bytes(100_000)])
def test_a_log_without_a_transaction_loses_none(path: Path, content: bytes) -> None:
    assert state_of(path, content) == LogState()
    assert read_log(str(path.with_name("missing"))) == LogState()


def test_reading_ends_when_it_is_late(path: Path, log: bytearray) -> None:
    copy = path.with_name("copy-wal")
    copy.write_bytes(log)
    assert not read_log(str(copy), is_late=lambda: True).is_complete
