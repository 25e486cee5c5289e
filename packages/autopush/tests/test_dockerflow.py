"""The status pages: who may ask what how often, and what a failing store looks like."""

import json
from typing import Any

import pytest

from autopush.dockerflow import Dockerflow
from autopush.net.http_messages import Request, Response
from autopush.version import VERSION
from keytables import TableNotFound, Throttled, Unavailable
from support.connection_house import House

HEALTH = pytest.mark.parametrize("path", ["/health", "/__heartbeat__"])
OK = {"status": "OK"}


@pytest.fixture
async def house() -> House:
    return await House.open()


async def ask(house: House, path: str, method: str = "GET") -> Response | None:
    pages = Dockerflow(house.store, lambda: len(house.registry.sockets))
    house.engine.calls.clear()
    return await pages.respond(Request(method, path, "", {}, "::1"))


async def document(house: House, path: str, status: int = 200) -> dict[str, Any]:
    response = await ask(house, path)
    assert response is not None
    assert response.status == status
    assert response.content_type == "application/json"
    answered: dict[str, Any] = json.loads(response.body)
    return answered


async def test_status_is_exactly_ok_and_the_version(house: House) -> None:
    assert await document(house, "/status") == {"status": "OK", "version": VERSION}


@HEALTH
async def test_health_names_every_table_and_the_number_of_clients(house: House, path: str) -> None:
    house.connect()
    house.connect()
    assert await document(house, path) == {
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
    [("get router", "router", "storage"), ("get message", "storage", "router")],
)
async def test_health_is_503_and_names_the_table_that_fails(
    house: House, path: str, error: Exception, call: str, table: str, other: str
) -> None:
    house.engine.fail(call, error)
    answered = await document(house, path, 503)
    assert answered["status"] == "NOT OK"
    assert answered[table] == {"status": "NOT OK", "error": "Server error"}
    assert answered[other] == OK


async def test_a_missing_table_is_said_to_be_missing(house: House) -> None:
    house.engine.fail("get router", TableNotFound("router"))
    answered = await document(house, "/health", 503)
    assert answered["router"] == {"status": "NOT OK", "error": "Nonexistent table"}


async def test_health_is_ok_again_when_the_store_is(house: House) -> None:
    house.engine.fail("get router", Unavailable("gone"))
    await document(house, "/health", 503)
    await document(house, "/health", 200)


async def test_version_says_what_runs(house: House) -> None:
    answered = await document(house, "/__version__")
    assert answered.keys() == {"source", "version", "commit", "build"}
    assert answered["version"] == VERSION


async def test_the_load_balancer_gets_an_empty_200(house: House) -> None:
    response = await ask(house, "/__lbheartbeat__")
    assert response is not None
    assert (response.status, response.body) == (200, b"")


@pytest.mark.parametrize("path", ["/status", "/__version__", "/__lbheartbeat__"])
async def test_only_health_touches_the_store(house: House, path: str) -> None:
    await ask(house, path)
    assert house.engine.calls == []


@HEALTH
async def test_health_asks_each_table_once_and_writes_nothing(house: House, path: str) -> None:
    await ask(house, path)
    assert house.engine.calls == ["get router", "get message"]


@pytest.mark.parametrize("path", ["/health", "/status"])
async def test_head_gets_the_status_of_get(house: House, path: str) -> None:
    response = await ask(house, path, "HEAD")
    assert response is not None
    assert response.status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_other_methods_have_no_page(house: House, method: str) -> None:
    assert await ask(house, "/status", method) is None


@pytest.mark.parametrize("path", ["/", "/status/", "/healthy", "/__error__", ""])
async def test_other_paths_have_no_page(house: House, path: str) -> None:
    assert await ask(house, path) is None
