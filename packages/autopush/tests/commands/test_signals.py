"""Commands that are signalled to stop, as processes of their own."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.data_store import STORE_LINE, DataStore, Run
from support.soak import slow

DEADLINE = 60


@contextmanager
def started(*words: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", "autopush.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("number", "code"), [slow(signal.SIGINT, 130), (signal.SIGTERM, 143), slow(signal.SIGKILL, -9)]
)
def test_a_stopped_run_prints_how_many_it_dropped_and_the_next_one_does_the_rest(
    store: DataStore, run: Run, number: int, code: int
) -> None:
    store.add_users(range(50))
    with started("maintain", "--hours-only", "--rate", "1", "--batch-size", "1") as process:
        while len(store.users()) == 50:
            assert process.poll() is None
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == code
    assert "users:" not in out
    left = len(store.users())
    assert 0 < left < 50
    if code > 0:
        dropped = re.fullmatch(
            r"autopush: (\d+) dropped so far\nautopush: stopped; run it again for the rest\n",
            STORE_LINE.sub("", err),
        )
        assert dropped is not None
        assert 50 - left - int(dropped[1]) in (0, 1)  # the last one may have been on its way
    code, out, _ = run("maintain", "--hours-only")
    assert code == 0
    assert f"users: dropped {left} " in out
    assert store.users() == store.subscribed() == set()
