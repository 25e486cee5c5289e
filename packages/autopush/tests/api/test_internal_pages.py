"""The pages on ports that are not public: `/metrics`, for the whole service, and status pages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from autopush.api.responses import ErrorResponses
from autopush.api.status_pages import Dockerflow, InternalPages
from autopush.net import timers
from autopush.net.http_messages import Request
from autopush.service.app import Worker
from autopush.store import PushStore, TablePlan
from autopush.telemetry.metric_table import METRICS, NOTIFICATION_RECEIVED
from autopush.telemetry.metrics import SharedMetrics
from support.clocks import ManualClock
from support.connection_harness import ERRORS, Harness
from support.endpoint_harness import refusal
from support.memory_engine import MemoryEngine
from support.service_context import service_context

RECEIVED = "autopush_notification_received_total"


def pages(harness: Harness) -> InternalPages:
    return InternalPages(
        Dockerflow(harness.store, harness.metrics.shared),
        harness.metrics.shared,
        ErrorResponses(ERRORS),
    )


def request(path: str, method: str = "GET") -> Request:
    return Request(method, path, "", {}, "::1")


async def test_the_metrics_can_be_read_by_prometheus(harness: Harness) -> None:
    harness.metrics.counter(NOTIFICATION_RECEIVED).add(7)
    response = await pages(harness)(request("/metrics"))
    assert response.status == 200
    assert str(response.content_type).startswith("text/plain; version=")
    families = list(text_string_to_metric_families(response.body.decode()))
    assert len(families) == len(METRICS)
    values = {sample.name: sample.value for family in families for sample in family.samples}
    assert values[RECEIVED] == 7


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/"), ("GET", "/metrics/"), ("POST", "/metrics"), ("PUT", "/x")]
)
async def test_everything_else_is_not_found(harness: Harness, method: str, path: str) -> None:
    assert await pages(harness).respond(request(path, method)) is None
    assert refusal(await pages(harness)(request(path, method))) == (404, 102)


async def test_others_get_their_turn_while_the_metrics_are_rendered(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "MAX_STEPS", 1)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.ensure_future(count_turns())
    response = await pages(harness)(request("/metrics"))
    others.cancel()
    assert response.status == 200
    assert turns >= len(METRICS)


# ── Ports ────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def service(
    folder: Path, command: str = "serve", workers: int = 1
) -> AsyncIterator[tuple[SharedMetrics, list[dict[str, int]]]]:
    """A service's metrics, and the ports of each of its workers by purpose."""
    clock = ManualClock()
    engine = MemoryEngine(clock)
    context = service_context(folder, command, workers, metrics_port=0)
    shared, sockets = context.metrics, context.sockets
    running = []
    for index in range(workers):
        store = await PushStore.open(engine, TablePlan(), key_hash="", clock=clock)
        worker = Worker(context, index, shared.of_worker(index), store, clock)
        await worker.start()
        running.append(worker)
    yield (
        shared,
        [{name: sock.getsockname()[1] for name, sock in each.items()} for each in sockets],
    )
    for worker in running:
        await worker.stop()


async def get(port: int, path: str) -> httpx.Response:
    async with httpx.AsyncClient(verify=False) as client:
        return await client.get(f"http://127.0.0.1:{port}{path}")


async def test_the_internal_port_serves_them_and_the_public_port_does_not(tmp_path: Path) -> None:
    async with service(tmp_path) as (_, [ports]):
        assert RECEIVED in (await get(ports["router"], "/metrics")).text
        assert (await get(ports["endpoint"], "/metrics")).status_code == 404
