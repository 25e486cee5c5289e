"""Faults of the machine under load: a disk that is full or fails, a clock that was set; also all at
once with kills, stops and restarts. What was answered 201 arrives, and nothing that was acked comes
again.
"""

import asyncio
import json
import os
import secrets
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import pytest

from support.cluster import CREDENTIALS
from support.dynamo_servers import ministack
from support.fault_proxy import FaultProxy
from support.load_ledger import LoadLedger
from support.machine_faults import MachineFaults
from support.mixed_load import MixedLoad
from support.service import Service
from support.service_chaos import WATCHDOG, ServiceChaos
from support.small_disk import small_disk
from support.soak import times

SECONDS = int(os.environ.get("CHAOS_SECONDS", times(20, 3600)))
USERS = int(os.environ.get("CHAOS_USERS", times(30, 200)))
PER_SECOND = int(os.environ.get("CHAOS_RATE", times(80, 100)))
SEED = int(os.environ.get("CHAOS_SEED", "4"))
COMPLETE = 90
"""Seconds after the faults in which everything must arrive: what failed often in the background is
repeated after up to a minute.
"""
LATE = 15
"""Seconds after which all user agents connect again."""
TIMEOUT = SECONDS + 120 + 2 * COMPLETE
DISK, MIN_FREE = 128 << 20, 32 << 20
SETTLE_PAUSE = 0.5
OPTIONS = ["--workers", "2", "--watchdog-timeout", str(WATCHDOG), "--no-human-logs"]


def embedded_messages(data: Path) -> bytes:
    """All that is in the message tables of the embedded store."""
    connection = apsw.Connection(str(data / "autopush.sqlite"), apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(5000)
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'message%'"
        found = [name for (name,) in connection.execute(tables)]
        rows = [row for name in found for row in connection.execute(f'SELECT b FROM "{name}"')]
        return b"".join(content for (content,) in rows)
    finally:
        connection.close()


def dynamodb_messages(url: str, prefix: str) -> bytes:
    """The same of a server that speaks DynamoDB's protocol, which checks no credentials."""

    def call(operation: str, **body: object) -> bytes:
        headers = {
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": "AWS4-HMAC-SHA256 Credential=made-up/20200101/us-east-1/dynamodb/",
        }
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            content: bytes = response.read()
        return content

    content, start = b"", None
    while True:
        body: dict[str, object] = {"TableName": f"{prefix}message"}
        page = call("Scan", **body if start is None else {**body, "ExclusiveStartKey": start})
        content += page
        start = json.loads(page).get("LastEvaluatedKey")
        if start is None:
            return content


@asynccontextmanager
async def service_on_faulty_machine(
    data: Path, machine: MachineFaults, *options: str, **variables: str
) -> AsyncIterator[Service]:
    """Two workers; at the end they must stop in order."""
    running = Service(data, [*OPTIONS, *options], {**machine.variables, **variables})
    await running.start()
    try:
        yield running
    finally:
        machine.heal()
        code = await running.stop()
    assert code == 0, "".join(running.output[-20:])


async def complete(load: MixedLoad) -> None:
    """Wait until all that must arrive has arrived, after the faults."""
    ledger = load.ledger
    load.stay()
    await load.all_connected(COMPLETE)
    if not await ledger.complete(LATE):
        overdue = ledger.missing
        load.reconnect()
        await ledger.complete(COMPLETE)
        ledger.late = overdue - ledger.missing


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


async def all_at_once(
    service: Service, machine: MachineFaults, read: Callable[[], bytes], **where: Any
) -> LoadLedger:
    """The ledger of a service under load and all faults, when what must arrive has arrived."""
    load = MixedLoad(USERS, service.websocket_port, service.endpoint, SEED)
    ledger, over = load.ledger, asyncio.Event()
    chaos = ServiceChaos(service, machine, ledger, SEED, **where)
    watching = asyncio.create_task(ledger.watch_store(read, SETTLE_PAUSE))
    try:
        async with load.running():
            async with asyncio.TaskGroup() as group:
                group.create_task(load.push(PER_SECOND, over))
                await chaos.run(SECONDS)
                over.set()
            await complete(load)
    finally:
        print(f"\n{USERS:,} user agents, {PER_SECOND} messages a second, seed {SEED}:")
        print(ledger.report())
        print(f"injected: {dict(machine.injected)}")
        print(f"failed starts: {chaos.failed_starts}")
        print(log_summary(service))
        watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert watching.cancelled()
    return ledger


def judge(ledger: LoadLedger) -> None:
    assert ledger.missing == set()
    assert ledger.acked_again == []
    assert ledger.forgotten == []
    assert {status.partition("/")[0] for status in ledger.answers} <= {"201", "410", "503", "none"}
    assert ledger.settled > len(ledger.acks) / 2


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
async def test_all_faults_at_once_lose_nothing_on_the_embedded_store(tmp_path: Path) -> None:
    machine = MachineFaults(tmp_path)
    with small_disk(tmp_path / "disk", DISK) as disk:
        data = disk / "data"
        options = ["--min-free-space", str(MIN_FREE)]
        async with service_on_faulty_machine(data, machine, *options) as service:
            read = partial(embedded_messages, data)
            ledger = await all_at_once(service, machine, read, disk=disk)
    judge(ledger)


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
async def test_all_faults_at_once_lose_nothing_on_dynamodb(tmp_path: Path) -> None:
    machine, database = MachineFaults(tmp_path), ministack()
    port = urlsplit(database).port
    assert port is not None
    prefix = f"t{secrets.token_hex(6)}_"
    async with FaultProxy(port) as proxy:
        store = f"dynamodb://us-east-1?endpoint={proxy.url}&prefix={prefix}"
        options = ["--store", store, "--direct-delivery", "store-first"]
        variables = {**CREDENTIALS, "AUTOPUSH_NO_AWS": "true"}
        async with service_on_faulty_machine(
            tmp_path / "data", machine, *options, **variables
        ) as service:
            read = partial(dynamodb_messages, database, prefix)
            ledger = await all_at_once(service, machine, read, proxy=proxy)
    judge(ledger)
