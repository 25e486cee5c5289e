"""The internal port: authentic calls, and pages for anyone."""

import logging

import pytest

from autopush.api.node_ports import NodePort
from autopush.api.responses import ErrorResponses
from autopush.api.status_pages import InternalPages
from autopush.net.http_messages import Request, Response
from autopush.net.node_auth import (
    ANY_INSTANCE,
    REQUEST_HEADER,
    RESPONSE_HEADER,
    CallerSession,
    Sessions,
    instance_url,
)
from support.connection_harness import ERRORS, UAID, Harness
from support.node_server import INSTANCE, KEYS, response_of

BASE = instance_url("", INSTANCE)


@pytest.fixture
def port(harness: Harness) -> NodePort:
    errors = ErrorResponses(ERRORS)
    pages = InternalPages(harness.status_pages(), harness.metrics.shared, errors)
    return NodePort(
        harness.parts.answering,
        harness.nodes,
        harness.parts.placement,
        Sessions(KEYS, INSTANCE),
        pages,
        errors,
    )


async def send(
    port: NodePort, method: str, path: str, body: bytes = b"", signature: str = ""
) -> Response:
    headers = {REQUEST_HEADER: signature} if signature else {}
    return await response_of(port(Request(method, path, "", headers, "192.0.2.7", body=body)))


async def opened(port: NodePort, base: str = BASE) -> CallerSession:
    session = CallerSession(KEYS, base)
    path, signature = session.opening()
    response = await send(port, "GET", path, signature=signature)
    session.opened(response.status, response.body, dict(response.headers)[RESPONSE_HEADER])
    return session


@pytest.mark.parametrize("path", ["/status", "/health", "/__heartbeat__", "/__lbheartbeat__"])
async def test_the_status_pages_are_there_for_anyone(port: NodePort, path: str) -> None:
    assert (await send(port, "GET", path)).status == 200


@pytest.mark.parametrize("path", ["/", "/i", "/other"])
async def test_another_path_is_404(port: NodePort, path: str) -> None:
    assert (await send(port, "GET", path)).status == 404


@pytest.mark.parametrize("prefix", ["", BASE, "/i/another"])
async def test_a_stranger_can_neither_inject_a_notification_nor_end_a_connection(
    port: NodePort, harness: Harness, prefix: str
) -> None:
    agent = await harness.subscribed()
    message = harness.message(agent.uaid).to_node()
    connected_at = agent.connection.connected_at
    for method, path, body in (
        ("PUT", f"{prefix}/push/{agent.uaid}", message),
        ("PUT", f"{prefix}/notif/{agent.uaid}", b""),
        ("GET", f"{prefix}/notif/{agent.uaid}", b""),
        ("DELETE", f"{prefix}/notif/{agent.uaid}/{connected_at}", b""),
        ("GET", f"{prefix}/session", b""),
    ):
        response = await send(port, method, path, body)
        if path == "/session":
            assert response.status == 404
        else:
            assert response.status == 401
            assert ("WWW-Authenticate", "autopush-node") in response.headers
    assert agent.received() == []
    assert agent.connection.is_connected


async def test_an_authentic_call_is_carried_out_and_its_response_is_authentic(
    port: NodePort, harness: Harness
) -> None:
    agent = await harness.subscribed()
    session, message = await opened(port), harness.message(agent.uaid)
    for uaid, status in ((agent.uaid, 200), (UAID[::-1], 404)):
        path, body = f"{BASE}/push/{uaid}", message.to_node()
        number, signature = session.sign("PUT", path, body)
        response = await send(port, "PUT", path, body, signature)
        assert response.status == status
        proof = dict(response.headers)[RESPONSE_HEADER]
        assert session.is_authentic(number, status, response.body, proof)
    assert agent.versions() == [message.version]


async def test_who_asks_any_instance_is_answered_by_the_worker_that_is_there(
    port: NodePort, harness: Harness
) -> None:
    agent = await harness.subscribed()
    anyone = instance_url("", ANY_INSTANCE)
    session = await opened(port, anyone)
    for uaid, status in ((agent.uaid, 200), (UAID[::-1], 404)):
        path = f"{anyone}/notif/{uaid}"
        _, signature = session.sign("GET", path, b"")
        assert (await send(port, "GET", path, b"", signature)).status == status
    another = CallerSession(KEYS, instance_url("", "another"))
    path, signature = another.opening()
    assert (await send(port, "GET", path, b"", signature)).status == 404


async def test_a_recorded_call_is_carried_out_once(port: NodePort, harness: Harness) -> None:
    agent = await harness.subscribed()
    session, body = await opened(port), harness.message(agent.uaid).to_node()
    path = f"{BASE}/push/{agent.uaid}"
    _, signature = session.sign("PUT", path, body)
    assert (await send(port, "PUT", path, body, signature)).status == 200
    agent.received()
    assert (await send(port, "PUT", path, body, signature)).status == 401
    assert agent.received() == []


async def test_refused_calls_are_one_log_line_for_each_reason(
    port: NodePort, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            await send(port, "PUT", f"/push/{UAID}")
            path, signature = CallerSession((b"another key",), BASE).opening()
            await send(port, "GET", path, signature=signature)
    assert [record.getMessage() for record in caplog.records] == [
        "A call on the internal port was refused"
    ] * 2
    reasons = [record.__dict__["fields"]["reason"] for record in caplog.records]
    assert reasons == ["without a signature", "no crypto_key in common"]
    assert UAID not in caplog.text
