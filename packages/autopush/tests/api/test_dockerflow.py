"""The status pages: which touch the store and how often, what they say of a store that fails, and
of the workers.
"""

import asyncio
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from autopush.api.status_pages import MAX_VERSION_FILE, Dockerflow, version_page
from autopush.net.http_messages import Request, Response
from autopush.store import PushStore
from autopush.telemetry.metric_table import CONNECTIONS, REQUESTS_IN_FLIGHT
from autopush.telemetry.metrics import SharedMetrics
from autopush.telemetry.process import LAG_INTERVAL, MISSING_AFTER, ProcessMetrics
from autopush.version import VERSION
from keytables import TableNotFound, Throttled, Unavailable
from support.connection_harness import Harness
from support.gated_engine import GatedEngine
from support.recorded import new_metrics

HEALTH = pytest.mark.parametrize("path", ["/health", "/__heartbeat__"])
OK = {"status": "OK"}


async def get(pages: Dockerflow, path: str, method: str = "GET") -> Response | None:
    return await pages.respond(Request(method, path, "", {}, "::1"))


async def ask(harness: Harness, path: str, method: str = "GET") -> Response | None:
    pages = harness.status_pages()
    harness.engine.calls.clear()
    return await get(pages, path, method)


async def health(pages: Dockerflow) -> tuple[int, dict[str, Any]]:
    """The status and the document of `/health`."""
    response = await get(pages, "/health")
    assert response is not None
    return response.status, json.loads(response.body)


async def document(harness: Harness, path: str, status: int = 200) -> dict[str, Any]:
    response = await ask(harness, path)
    assert response is not None
    assert response.status == status
    assert response.content_type == "application/json"
    answered: dict[str, Any] = json.loads(response.body)
    return answered


async def test_status_is_exactly_ok_and_the_version(harness: Harness) -> None:
    assert await document(harness, "/status") == {"status": "OK", "version": VERSION}


@HEALTH
async def test_health_names_every_table_and_the_number_of_clients(
    harness: Harness, path: str
) -> None:
    harness.connect()
    harness.connect()
    assert await document(harness, path) == {
        "status": "OK",
        "version": VERSION,
        "clients": 2,
        "router": OK,
        "storage": OK,
        "workers": {"status": "OK", "ready": 1, "expected": 1},
    }


@HEALTH
@pytest.mark.parametrize("error", [Throttled("full"), Unavailable("gone")], ids=["full", "gone"])
@pytest.mark.parametrize(
    ("call", "table", "other"),
    [
        ("get router", "router", "storage"),
        ("get message", "storage", "router"),
        ("get storage", "storage", "router"),
    ],
)
async def test_health_is_503_and_names_the_table_that_fails(
    harness: Harness, path: str, error: Exception, call: str, table: str, other: str
) -> None:
    harness.engine.fail(call, error)
    answered = await document(harness, path, 503)
    assert answered["status"] == "NOT OK"
    assert answered[table] == {"status": "NOT OK", "error": "Server error"}
    assert answered[other] == OK


async def test_a_missing_table_is_said_to_be_missing(harness: Harness) -> None:
    harness.engine.fail("get router", TableNotFound("router"))
    answered = await document(harness, "/health", 503)
    assert answered["router"] == {"status": "NOT OK", "error": "Nonexistent table"}


async def test_an_unexpected_error_is_an_internal_error_and_logged(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.engine.fail("get router", RuntimeError("a defect"))
    answered = await document(harness, "/health", 503)
    assert answered["router"] == {"status": "NOT OK", "error": "Internal error"}
    assert "a defect" in caplog.text


async def test_a_store_that_does_not_answer_is_not_ok_after_a_bounded_time(
    harness: Harness,
) -> None:
    never = asyncio.Event()

    async def before(_number: int, what: str) -> None:
        if what == "get router":
            await never.wait()

    gated = GatedEngine(harness.engine)
    gated.before = before
    harness.store = await PushStore.open(
        gated, harness.store.plan, key_hash="", clock=harness.clock
    )
    pages = harness.status_pages(store_timeout=0.05)
    gated.start_counting()
    answers = await asyncio.gather(health(pages), health(pages), health(pages))
    for status, answered in answers:
        assert status == 503
        assert answered["router"] == {"status": "NOT OK", "error": "No answer"}
    assert gated.calls.count("get router") == 1, "requests that wait share one read"


# ── workers ──────────────────────────────────────────────────────────────────────────────────────


class Workers:
    """Three workers of one service, each with its heartbeat."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        first = new_metrics(3)
        self.shared: SharedMetrics = first.shared
        self.metrics = [first, self.shared.of_worker(1), self.shared.of_worker(2)]
        self.pages = [
            Dockerflow(harness.store, self.shared, clock=harness.loop.time) for _ in self.metrics
        ]
        self.running = [
            ProcessMetrics(each, harness.loop.loop, [], monotonic=harness.loop.time)
            for each in self.metrics
        ]

    def start(self) -> None:
        for each in self.running:
            each.start()
            each.set_ready(True)

    async def said(self) -> dict[str, Any]:
        """What each of them says, which must be the same."""
        first, *others = [await health(pages) for pages in self.pages]
        assert [first, first] == others
        status, answered = first
        assert status == (200 if answered["status"] == "OK" else 503)
        return answered


@pytest.fixture
def workers(harness: Harness) -> Workers:
    return Workers(harness)


def in_service(ready: int) -> dict[str, object]:
    return {"status": "OK" if ready == 3 else "NOT OK", "ready": ready, "expected": 3}


async def test_every_worker_says_whether_all_serve(workers: Workers) -> None:
    assert (await workers.said())["workers"] == in_service(0)
    workers.start()
    answered = await workers.said()
    assert (answered["status"], answered["workers"]) == ("OK", in_service(3))
    workers.running[1].set_ready(False)
    answered = await workers.said()
    assert (answered["status"], answered["workers"]) == ("NOT OK", in_service(2))


async def test_workers_that_beat_stay_in_service(workers: Workers) -> None:
    workers.start()
    for _ in range(40):
        await workers.harness.pass_time(LAG_INTERVAL)
        assert (await workers.said())["status"] == "OK"


async def test_a_worker_that_misses_its_heartbeats_is_missing_until_the_next_one(
    workers: Workers,
) -> None:
    workers.start()
    stuck = workers.running[2]
    timer = stuck._timer
    assert timer is not None
    timer.cancel()
    await workers.harness.pass_time(MISSING_AFTER - 0.5)
    assert (await workers.said())["workers"] == in_service(3)
    await workers.harness.pass_time(1)
    assert (await workers.said())["workers"] == in_service(2)
    stuck._tick()
    assert (await workers.said())["workers"] == in_service(3)


async def test_a_worker_that_ended_is_missing_at_once_and_its_clients_are_not_counted(
    workers: Workers,
) -> None:
    workers.start()
    for number, metrics in enumerate(workers.metrics, 1):
        metrics.gauge(CONNECTIONS).set(10**number)
    assert (await workers.said())["clients"] == 1110
    workers.shared.clear_gauges(1)
    answered = await workers.said()
    assert (answered["clients"], answered["workers"]) == (1010, in_service(2))


async def test_an_endpoint_lists_its_bridges_and_counts_requests_in_progress(
    harness: Harness,
) -> None:
    harness.metrics.gauge(REQUESTS_IN_FLIGHT).set(7)
    pages = harness.status_pages(routers={"apns": True, "fcm": False})
    _, answered = await health(pages)
    assert answered["routers"] == {"apns": True, "fcm": False}
    assert answered["request_count"] == 7


# ── version, load balancer ───────────────────────────────────────────────────────────────────────


async def test_version_says_what_runs(harness: Harness) -> None:
    answered = await document(harness, "/__version__")
    assert answered.keys() == {"source", "version", "commit", "build"}
    assert answered["version"] == VERSION


def test_version_is_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "version.json"
    deployed = {
        "source": "https://git.example/push",
        "version": "7",
        "commit": "c0ffee",
        "build": "",
    }
    file.write_text(json.dumps(deployed))
    page = version_page(file)
    assert (page.status, page.content_type) == (200, "application/json")
    assert json.loads(page.body) == deployed


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"\xff", b'{"version":"' + b"1" * MAX_VERSION_FILE + b'"}'],
    ids=["empty", "cut off", "a list", "not UTF-8", "too long"],
)
def test_a_version_file_that_is_no_object_is_a_500_and_logged(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "version.json"
    file.write_bytes(content)
    assert version_page(file).status == 500
    assert vars(caplog.records[0])["fields"]["reason"] == "not a JSON object"


def test_a_version_file_that_cannot_be_read_is_a_500_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "version.json").mkdir()
    assert version_page(tmp_path / "version.json").status == 500
    assert vars(caplog.records[0])["fields"]["reason"] == os.strerror(errno.EISDIR)


async def test_the_load_balancer_gets_an_empty_200(harness: Harness) -> None:
    response = await ask(harness, "/__lbheartbeat__")
    assert response is not None
    assert (response.status, response.body) == (200, b"")


@pytest.mark.parametrize("path", ["/status", "/__version__", "/__lbheartbeat__"])
async def test_only_health_touches_the_store(harness: Harness, path: str) -> None:
    await ask(harness, path)
    assert harness.engine.calls == []


@HEALTH
async def test_health_reads_each_table_once_and_writes_one_row(harness: Harness, path: str) -> None:
    await ask(harness, path)
    assert harness.engine.calls == ["get router", "get message", "get storage", "put message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_other_methods_have_no_page(harness: Harness, method: str) -> None:
    assert await ask(harness, "/status", method) is None


@pytest.mark.parametrize("path", ["/", "/status/", "/healthy", "/__error__", ""])
async def test_other_paths_have_no_page(harness: Harness, path: str) -> None:
    assert await ask(harness, path) is None
