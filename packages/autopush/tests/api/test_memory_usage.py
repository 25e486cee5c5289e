"""The report on memory: its parts, and how they are left out."""

import gc
import weakref

import pytest

from autopush.api.memory_usage import memory_usage
from autopush.net.http_messages import Request


async def report(query: str = "") -> str:
    response = await memory_usage(Request("GET", "/_memusage", query, {}, "127.0.0.1"))
    assert response.status == 200
    assert (response.content_type or "").startswith("text/plain")
    return response.body.decode()


async def test_it_has_usage_mappings_allocator_collector_and_objects() -> None:
    text = await report()
    assert "ru_maxrss=" in text
    assert "RSS" in text
    assert "<malloc " in text
    assert "collections" in text
    assert "function " in text
    total = next(line for line in text.splitlines() if line.strip().startswith("total"))
    assert int(total.split()[2]) > 1000


@pytest.mark.parametrize(
    ("query", "absent"),
    [
        ("objgraph=false", ["function "]),
        ("dump_rpy_heap=false", ["collections"]),
        ("objgraph=false&dump_rpy_heap=false", ["function ", "collections"]),
    ],
)
async def test_parts_are_left_out_on_request(query: str, absent: list[str]) -> None:
    text = await report(query)
    assert "ru_maxrss=" in text
    for words in absent:
        assert words not in text


async def test_what_is_garbage_when_it_is_asked_for_can_be_collected_afterwards() -> None:
    class Node:
        pass

    node = Node()
    node.__dict__["itself"] = node
    found = weakref.ref(node)
    del node
    await report()
    gc.collect()
    assert found() is None


async def test_nothing_else_is_on_its_port() -> None:
    for method, path in (("GET", "/"), ("POST", "/_memusage")):
        assert (await memory_usage(Request(method, path, "", {}, "::1"))).status == 404
