"""Turns among writers."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from keytables.sqlite.locks import Claim, Turns


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def test_one_at_a_time(path: str) -> None:
    first, second = Turns(path), Turns(path)
    assert first.try_take()
    assert not second.try_take()
    first.give()
    assert second.try_take()
    assert not first.try_take()


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs the kernel's list of locks")
def test_who_has_just_given_the_turn_cannot_take_it_before_who_waits(path: str) -> None:
    busy, patient = Turns(path), Turns(path)
    turns, leave, ask = (threading.Semaphore(0) for _ in range(3))
    rounds = 30

    def wait() -> None:
        for _ in range(rounds):
            ask.acquire()
            patient.take()
            turns.release()
            leave.acquire()
            patient.give()
            turns.release()

    waiting = threading.Thread(target=wait)
    assert busy.try_take()
    waiting.start()
    for _ in range(rounds):
        ask.release()
        while not _waits_for_a_lock(path):
            time.sleep(0.0005)
        busy.give()
        # However fast, and whether or not the other one has woken by now:
        assert not busy.try_take()
        turns.acquire()
        leave.release()
        turns.acquire()
        assert busy.try_take()
    waiting.join()


def _waits_for_a_lock(path: str) -> bool:
    """Whether the kernel knows of someone who waits for the turn."""
    inode = os.stat(f"{path}-turn").st_ino
    with open("/proc/locks") as locks:
        return any("->" in line and f":{inode} " in line for line in locks)


def test_a_killed_process_loses_its_turn(path: str) -> None:
    program = (
        "import sys, time; from keytables.sqlite.locks import Turns; t = Turns(sys.argv[1]);"
        "t.take(); print('taken', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "taken\n"
        turns = Turns(path)
        assert not turns.try_take()
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert turns.try_take()


def test_closing_lets_go(path: str) -> None:
    first, second = Turns(path), Turns(path)
    assert first.try_take()
    first.close()
    assert second.try_take()


def test_a_claim_is_had_by_one_until_it_is_given(path: str) -> None:
    first, second = Claim(path), Claim(path)
    assert first.try_take()
    assert not first.try_take()
    assert not second.try_take()
    second.give()  # it has none
    assert not second.try_take()
    first.give()
    assert second.try_take()
    assert not first.try_take()
