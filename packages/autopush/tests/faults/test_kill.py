"""kill -9 and stops in the middle of traffic: what was answered 201 reaches its user agent, and
nothing that was acked comes again.
"""

import asyncio
import itertools
import os
import re
import signal
from functools import partial
from pathlib import Path

import apsw
import pytest

from support.load_ledger import LoadLedger
from support.mixed_load import MixedLoad
from support.service import Service, service
from support.soak import SOAK, slow, times

USERS, PER_SECOND, SEED = 6, 80, 4
TIMEOUT = 60
PART = re.compile(r"autopush\.sqlite(-\d+of\d+)?")
"""The names of the files of an embedded store that hold rows."""


def embedded_messages(data: Path) -> bytes | None:
    """All that is in the message tables of the embedded store; reading needs some space too."""
    files = [each for each in data.iterdir() if PART.fullmatch(each.name)]
    parts = [messages_in(each) for each in files]
    found = [part for part in parts if part is not None]
    return b"".join(found) if len(found) == len(parts) else None


def messages_in(file: Path) -> bytes | None:
    connection = apsw.Connection(str(file), apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(5000)
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'message%'"
        found = [name for (name,) in connection.execute(tables)]
        rows = [row for name in found for row in connection.execute(f'SELECT b FROM "{name}"')]
        return b"".join(content for (content,) in rows)
    except (apsw.IOError, apsw.BusyError, apsw.FullError, apsw.CantOpenError):
        return None
    finally:
        connection.close()


async def with_load(running: Service, rounds: int, kill: "Killer") -> LoadLedger:
    load, over = MixedLoad(USERS, [running], SEED), asyncio.Event()
    ledger, read = load.ledger, partial(embedded_messages, running.data)
    watching = asyncio.create_task(ledger.acks.watch_store(read, ledger.accepted, 0.5))
    async with load.running():
        async with asyncio.TaskGroup() as group:
            group.create_task(load.push(PER_SECOND, over))
            for number in range(rounds):
                async with asyncio.timeout(TIMEOUT):
                    await ledger.grows_by(40)
                    # As often as all user agents together, since the last kill of all.
                    while kill.is_of_all and ledger.connects < USERS * (number + 1):
                        await ledger.grows_by(1)
                await kill(running, number)
            async with asyncio.timeout(TIMEOUT):
                await ledger.grows_by(20)
            over.set()
        await load.complete()
    await ledger.acks.look(read, ledger.accepted)
    assert not watching.done()
    watching.cancel()
    return ledger


class Killer:
    """Kills, and waits until what was killed is back."""

    is_of_all = False
    """Otherwise a killed worker may have held no user agent at all."""

    async def __call__(self, running: Service, number: int) -> None:
        raise NotImplementedError


class KillWorker(Killer):
    """The workers alternately; the supervisor starts each again."""

    async def __call__(self, running: Service, number: int) -> None:
        workers = running.workers
        os.kill(workers[number % len(workers)], signal.SIGKILL)


class FreezeWriter(Killer):
    """A worker stops for good while it holds the right to write to a part of the store."""

    async def __call__(self, running: Service, number: int) -> None:
        turns = {file.stat().st_ino for file in running.data.rglob("*-turn")}
        async with asyncio.timeout(TIMEOUT):
            for victim in itertools.cycle(running.workers):  # some may have no users
                os.kill(victim, signal.SIGSTOP)
                if _holds_lock(victim, turns):
                    break
                os.kill(victim, signal.SIGCONT)
                await asyncio.sleep(0.001)  # it has to write again
        await running.logged("A worker is frozen and is killed", number + 1)
        assert any(f"{victim}" in line for line in running.output if "is frozen" in line)


def _holds_lock(pid: int, inodes: set[int]) -> bool:
    """Whether that process has a lock on one of these files; one that waits is marked with ->."""
    return any(
        words[4] == str(pid) and int(words[5].rpartition(":")[2]) in inodes
        for words in map(str.split, Path("/proc/locks").read_text().splitlines())
        if words[1] == "FLOCK"
    )


class StopService(Killer):
    """The whole service, in order."""

    is_of_all = True

    async def __call__(self, running: Service, number: int) -> None:
        assert await running.stop() == 0
        await running.start()


class KillService(Killer):
    """The whole service, started again as an operator would."""

    is_of_all = True

    async def __call__(self, running: Service, number: int) -> None:
        await running.kill()
        await running.start()


OFTEN = (times(10, 200), times(3, 50))
"""Kills of a worker, and of the service."""
FEWEST_OFTEN = [
    slow(KillWorker(), 2, OFTEN[0], name="a worker of 2, often"),
    slow(KillService(), 1, OFTEN[1], name="the whole service of 1, often"),
]
"""What `make test` has with fewer kills."""


@pytest.mark.timeout(times(400, 1800))
@pytest.mark.parametrize(
    ("killer", "workers", "rounds"),
    [
        pytest.param(KillWorker(), 2, 4, id="a worker of 2"),
        slow(KillWorker(), 4, OFTEN[0], name="a worker of 4, often"),
        slow(StopService(), 1, 2, name="a service of 1 that is stopped"),
        slow(StopService(), 2, 2, name="a service of 2 that is stopped"),
        slow(FreezeWriter(), 2, 2, name="a frozen writer of 2"),
        slow(FreezeWriter(), 4, 2, name="a frozen writer of 4"),
        pytest.param(KillService(), 1, 2, id="the whole service of 1"),
        slow(KillService(), 2, OFTEN[1], name="the whole service of 2, often"),
        slow(KillService(), 4, OFTEN[1], name="the whole service of 4, often"),
        *(FEWEST_OFTEN if SOAK else ()),
    ],
)
async def test_what_was_answered_201_is_delivered_though_processes_end(
    tmp_path: Path, killer: Killer, workers: int, rounds: int
) -> None:
    options = ("--workers", str(workers), "--watchdog-timeout", "2", "--no-human-logs")
    async with service(tmp_path, *options) as running:
        ledger = await with_load(running, rounds, killer)
    print(f"{rounds} kills:\n{ledger.report()}")
    ledger.judge()
    assert ledger.connects >= USERS * (rounds + 1) or not killer.is_of_all
