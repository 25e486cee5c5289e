"""Turns among writers."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tablestore.sqlite.locks import Turns


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


def test_who_has_just_given_the_turn_cannot_take_it_before_who_waits(path: str) -> None:
    busy, patient, probe = Turns(path), Turns(path), Turns(path)
    has_turn, done = threading.Event(), threading.Event()

    def wait() -> None:
        patient.take()
        has_turn.set()
        done.wait(10)
        patient.give()

    assert busy.try_take()
    waiting = threading.Thread(target=wait)
    waiting.start()
    while _queue_is_free(probe):  # until the other one stands in the queue
        pass
    busy.give()
    # However fast, and whether or not the other one has woken by now:
    assert not busy.try_take()
    assert has_turn.wait(10)
    done.set()
    waiting.join()
    assert busy.try_take()


def _queue_is_free(turns: Turns) -> bool:
    import fcntl

    try:
        fcntl.flock(turns._queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(turns._queue, fcntl.LOCK_UN)
    return True


def test_a_killed_process_loses_its_turn(path: str) -> None:
    program = (
        "import sys, time; from tablestore.sqlite.locks import Turns; t = Turns(sys.argv[1]);"
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
