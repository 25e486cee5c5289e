"""Faults of the machine: a disk that fails, under load, and a clock that was set."""

import asyncio
import errno
import itertools
import json
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.application_server import application_server
from support.injected.sitecustomize import OPERATIONS, SWEEP_INTERVAL
from support.machine_faults import MachineFaults
from support.mixed_load import COMPLETE, MixedLoad
from support.service import Service
from support.small_disk import small_disk
from support.soak import NUMBERS_OF_WORKERS, SOAK, each_number_of_workers, times

USERS, PER_SECOND, SEED = times(30, 200), times(80, 100), 4
TIMEOUT = times(130, 1320) + 2 * COMPLETE
DISK, MIN_FREE = 128 << 20, 32 << 20
DISK_ERRORS = (errno.EIO, errno.ENOSPC)
FAILING = 1.0 if SOAK else 0.3
"""Seconds in which calls of one operation fail."""
HEALED = 30
"""Seconds after a fault in which messages must be accepted again."""
ACCEPTED_AGAIN = times(20, PER_SECOND)
"""How many messages must be accepted then."""
CERTAIN = {"write log EIO", "write log ENOSPC", "sync log EIO"}
"""Failures that every commit meets; other files are read and written rarely."""
DAY = 86_400
OPTIONS = ["--watchdog-timeout", "2", "--no-human-logs"]


@asynccontextmanager
async def service_on_faulty_machine(
    data: Path, machine: MachineFaults, workers: int, *options: str, **variables: str
) -> AsyncIterator[Service]:
    """At the end the workers must stop in order."""
    options = ("--workers", str(workers), *OPTIONS, *options)
    running = Service(data, options, {**machine.variables, **variables})
    await running.start()
    try:
        yield running
    finally:
        machine.heal()
        code = await running.stop()
    assert code == 0, "".join(running.output[-20:])


@asynccontextmanager
async def service_on_small_disk(
    folder: Path, machine: MachineFaults, workers: int, *options: str, size: int = DISK
) -> AsyncIterator[tuple[Service, Path]]:
    """A service on the embedded store, and the disk of that, of ``size`` bytes."""
    with small_disk(folder / "disk", size) as disk:
        options = ("--min-free-space", str(MIN_FREE), *options)
        async with service_on_faulty_machine(disk / "data", machine, workers, *options) as service:
            yield service, disk


def log_summary(service: Service) -> str:
    """What was logged at level warning and above, each once with its count."""
    counts: Counter[str] = Counter()
    for line in service.output:
        if line.startswith("{"):
            record = json.loads(line)
            if record["Severity"] <= 4:
                error = str(record["Fields"].get("exception", "")).strip().rpartition("\n")[2]
                counts[f"{record['Fields']['message']} {error}".strip()[:150]] += 1
        elif "Traceback" in line or "Error" in line:
            counts[line.strip()[:150]] += 1
    return "\n".join(f"  logged {count} times: {line}" for line, count in counts.most_common())


@each_number_of_workers()
@pytest.mark.timeout(TIMEOUT)
async def test_after_any_error_of_the_disk_messages_are_accepted_again(
    tmp_path: Path, workers: int
) -> None:
    machine = MachineFaults(tmp_path)
    async with service_on_small_disk(tmp_path, machine, workers) as (service, _):
        load = MixedLoad(USERS, [service], SEED)
        ledger, over = load.ledger, asyncio.Event()
        async with load.running():
            async with asyncio.TaskGroup() as group:
                group.create_task(load.push(PER_SECOND, over))
                for operation, number in itertools.product(OPERATIONS, DISK_ERRORS):
                    before = ledger.refused
                    failure = f"{operation} {errno.errorcode[number]}"
                    machine.fail(operation, number)
                    await asyncio.sleep(FAILING)
                    async with asyncio.timeout(HEALED):
                        while failure in CERTAIN and not machine.injected[failure]:  # noqa: ASYNC110
                            await asyncio.sleep(0.05)  # other processes write it
                    machine.fail(operation, 0)
                    refused, began = dict(ledger.refused - before), time.monotonic()
                    async with asyncio.timeout(HEALED):
                        await ledger.grows_by(ACCEPTED_AGAIN)
                    seconds = time.monotonic() - began
                    print(f"{failure}: refused {refused},", end=" ")
                    print(f"then {ACCEPTED_AGAIN} accepted in {seconds:.1f} s")
                over.set()
            await load.complete()
        print(ledger.report())
        print(f"injected: {dict(machine.injected)}")
        print(log_summary(service))
    assert ledger.missing == set()
    assert ledger.forgotten == []
    assert machine.injected.keys() >= CERTAIN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "kill"), [*((number, False) for number in NUMBERS_OF_WORKERS), (2, True)]
)
async def test_a_clock_a_month_ahead_deletes_nothing_that_is_stored(
    tmp_path: Path, workers: int, kill: bool
) -> None:
    """It is set back before the service believes it; a service that is started with it does.

    `kill`: a worker is, and another one starts meanwhile.
    """
    machine = MachineFaults(tmp_path)
    async with (
        service_on_small_disk(tmp_path, machine, workers) as (service, _),
        application_server(reconnecting=True) as server,
    ):
        agent = await service.connect()
        _, endpoint = await agent.register()
        await agent.close()
        stored = {(await server.push(endpoint, ttl=7 * DAY)).message_id for _ in range(50)}
        machine.clock_offset = 31 * DAY
        await service.logged("The clock was set")
        if kill:
            os.kill(service.workers[0], signal.SIGKILL)
            await service.logged("A worker ended and is restarted")
        await asyncio.sleep(4 * SWEEP_INTERVAL)
        meanwhile = await service.connect(agent.uaid)
        assert meanwhile.uaid == agent.uaid
        await meanwhile.silence()
        await meanwhile.close()
        stored.add((await server.push(endpoint, ttl=7 * DAY)).message_id)
        machine.clock_offset = 0.0
        again = await service.connect(agent.uaid)
        got = {each["version"] for each in await again.receive(len(stored), ack=True)}
        assert got == stored
        await again.close()
