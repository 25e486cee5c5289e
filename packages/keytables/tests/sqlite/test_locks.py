"""Locks between processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from keytables.sqlite.layout import lock_holders, lock_holding_pids
from keytables.sqlite.locks import FairLock, FileLock, UsageLock


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store")


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs the kernel's list of locks")
def test_who_releases_the_fair_lock_cannot_acquire_it_before_one_who_waits(path: str) -> None:
    busy, patient = FairLock(path), FairLock(path)
    changed, release, ask = (threading.Semaphore(0) for _ in range(3))
    rounds = 30

    def wait() -> None:
        for _ in range(rounds):
            ask.acquire()
            patient.acquire()
            changed.release()
            release.acquire()
            patient.release()
            changed.release()

    waiting = threading.Thread(target=wait)
    assert busy.try_acquire()
    waiting.start()
    for _ in range(rounds):
        ask.release()
        while not _waits_for_a_lock(path):
            time.sleep(0.0005)
        busy.release()
        # However fast, and whether or not the other one has woken by now:
        assert not busy.try_acquire()
        changed.acquire()
        release.release()
        changed.acquire()
        assert busy.try_acquire()
    waiting.join()


def _waits_for_a_lock(path: str) -> bool:
    """Whether the kernel lists a process that waits for the lock."""
    inode = os.stat(f"{path}-turn").st_ino
    with open("/proc/locks") as locks:
        return any("->" in line and f":{inode} " in line for line in locks)


def test_the_lock_of_a_killed_process_is_released(path: str) -> None:
    program = (
        "import signal, sys; from keytables.sqlite.locks import FairLock;"
        "lock = FairLock(sys.argv[1]); lock.acquire();"
        "print('acquired', flush=True); signal.pause()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "acquired\n"
        lock = FairLock(path)
        assert not lock.try_acquire()
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert lock.try_acquire()


def test_only_one_holds_the_file_lock(path: str) -> None:
    first, second = FileLock(path), FileLock(path)
    assert first.try_acquire()
    assert not first.try_acquire()
    assert not second.try_acquire()
    second.release()  # it does not hold the lock
    assert not second.try_acquire()
    first.release()
    assert second.try_acquire()
    assert not first.try_acquire()


def test_many_may_share_the_usage_lock_and_none_of_them_excludes(path: str) -> None:
    first, second, third = UsageLock(path), UsageLock(path), UsageLock(path)
    assert first.try_share()
    assert second.try_share()
    assert not third.try_exclude()
    first.close()
    assert not third.try_exclude()
    second.close()
    assert third.try_exclude()
    late = UsageLock(path)
    assert not late.try_share()
    late.close()
    third.close()


def test_a_mark_outlives_the_process_that_set_it(path: str) -> None:
    lock = UsageLock(path)
    assert not lock.is_marked()
    lock.mark()
    lock.close()
    lock = UsageLock(path)
    assert lock.is_marked()
    lock.clear_mark()
    assert not lock.is_marked()
    lock.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who may give files away")
def test_a_lock_file_that_root_creates_belongs_to_the_owner_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    os.chown(folder, 1234, 1234)
    lock = UsageLock(f"{folder}/store")
    try:
        created = (folder / "store-open").stat()
        assert (created.st_uid, created.st_gid) == (1234, 1234)
    finally:
        lock.close()


# --- who has a store open -------------------------------------------------------------------------

LOCKING = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs the kernel's list of locks")
@pytest.mark.parametrize("file", ["-open", "-1of2-turn"])
def test_whoever_locks_a_file_of_the_store_is_named(path: str, file: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LOCKING, f"{path}{file}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as locking:
        assert locking.stdout is not None
        assert locking.stdout.readline() == b"locked\n"
        assert lock_holding_pids(path) == [locking.pid]
        [name] = lock_holders(path)
        assert name.endswith(f"(pid {locking.pid})")
        locking.communicate(b"")
    assert lock_holders(path) == []


def test_locks_of_this_process_are_not_named(path: str) -> None:
    lock = FileLock(f"{path}-open")
    assert lock.try_acquire()
    assert lock_holders(path) == []
    lock.release()
