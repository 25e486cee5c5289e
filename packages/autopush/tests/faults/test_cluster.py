"""Nodes over PostgreSQL under load: the database is killed and fails over, a node is killed, and
what was answered 201 reaches its user agent.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from support.cluster import ServiceCluster
from support.load_ledger import Fault
from support.mixed_load import MixedLoad
from support.postgres_servers import ReplicatedPostgres

USERS, PER_SECOND, SEED = 50, 60, 4
PATIENCE = 120


def stored_messages(database: ReplicatedPostgres) -> bytes | None:
    """All that is in the message table; None while it cannot be read."""
    try:
        return database.primary.execute("SELECT encode(item, 'escape') FROM t.message").encode()
    except RuntimeError:
        return None


async def kill_node(cluster: ServiceCluster) -> None:
    """Returns when it serves again."""
    node = cluster.connections[0]
    await node.kill()
    await node.start()


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_nothing_accepted_is_lost_on_postgresql_and_its_outages_close_nobody(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        database = ReplicatedPostgres()
        stack.push_async_callback(asyncio.to_thread, database.remove)
        await asyncio.to_thread(database.start)
        cluster = ServiceCluster(
            tmp_path,
            f"{database.url}&schema=t",
            connections=2,
            endpoints=2,
            options=["--workers", "2"],
            variables={"AUTOPUSH_DIRECT_DELIVERY": "store-first"},
        )
        stack.push_async_callback(cluster.stop)
        await cluster.start()
        load = MixedLoad(USERS, cluster.nodes, SEED)
        ledger, over = load.ledger, asyncio.Event()
        acts: dict[str, Callable[[], Awaitable[None]]] = {
            "restart": partial(asyncio.to_thread, database.restart, 1.0),
            "failover": partial(asyncio.to_thread, database.fail_over),
            "kill": partial(kill_node, cluster),
        }
        read = partial(stored_messages, database)
        watching = asyncio.create_task(ledger.acks.watch_store(read, ledger.accepted, 0.5))
        stack.callback(watching.cancel)
        load.stay()
        async with load.running():
            async with asyncio.TaskGroup() as group:
                group.create_task(load.push(PER_SECOND, over))
                for kind, act in acts.items():
                    await load.all_connected(PATIENCE)
                    before, began = ledger.connects, time.monotonic()
                    await act()
                    ledger.faults.append(Fault(kind, began, time.monotonic()))
                    async with asyncio.timeout(PATIENCE):
                        await ledger.grows_by(PER_SECOND)
                    assert kind == "kill" or ledger.connects == before
                over.set()
            await load.complete()
            await ledger.acks.look(read, ledger.accepted)
        print(ledger.report())
        assert not watching.done()
    ledger.judge()
    assert ledger.late == set()
