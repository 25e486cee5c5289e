"""The status pages: which touch the store and how often, and what they say of a failing store."""

import json
from typing import Any

import pytest

from autopush.dockerflow import Dockerflow
from autopush.net.http_messages import Request, Response
from autopush.version import VERSION
from keytables import TableNotFound, Throttled, Unavailable
from support.connection_harness import Harness

HEALTH = pytest.mark.parametrize("path", ["/health", "/__heartbeat__"])
OK = {"status": "OK"}


async def ask(harness: Harness, path: str, method: str = "GET") -> Response | None:
    pages = Dockerflow(harness.store, lambda: len(harness.registry.sockets))
    harness.engine.calls.clear()
    return await pages.respond(Request(method, path, "", {}, "::1"))


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


async def test_health_is_ok_again_when_the_store_is(harness: Harness) -> None:
    harness.engine.fail("get router", Unavailable("gone"))
    await document(harness, "/health", 503)
    await document(harness, "/health", 200)


async def test_version_says_what_runs(harness: Harness) -> None:
    answered = await document(harness, "/__version__")
    assert answered.keys() == {"source", "version", "commit", "build"}
    assert answered["version"] == VERSION


async def test_the_load_balancer_gets_an_empty_200(harness: Harness) -> None:
    response = await ask(harness, "/__lbheartbeat__")
    assert response is not None
    assert (response.status, response.body) == (200, b"")


@pytest.mark.parametrize("path", ["/status", "/__version__", "/__lbheartbeat__"])
async def test_only_health_touches_the_store(harness: Harness, path: str) -> None:
    await ask(harness, path)
    assert harness.engine.calls == []


@HEALTH
async def test_health_asks_each_table_once_and_writes_nothing(harness: Harness, path: str) -> None:
    await ask(harness, path)
    assert harness.engine.calls == ["get router", "get message", "get storage"]


@pytest.mark.parametrize("path", ["/health", "/status"])
async def test_head_gets_the_status_of_get(harness: Harness, path: str) -> None:
    response = await ask(harness, path, "HEAD")
    assert response is not None
    assert response.status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_other_methods_have_no_page(harness: Harness, method: str) -> None:
    assert await ask(harness, "/status", method) is None


@pytest.mark.parametrize("path", ["/", "/status/", "/healthy", "/__error__", ""])
async def test_other_paths_have_no_page(harness: Harness, path: str) -> None:
    assert await ask(harness, path) is None
