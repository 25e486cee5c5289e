"""What a running service logs about its user agents, in both forms."""

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from support.application_server import ApplicationServer
from support.service import Service, running_service
from support.user_agent import UserAgent

FIREFOX = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10.13; rv:61.0) Gecko/20100101 Firefox/61.0"


@pytest.fixture(scope="module", params=["store-first", "bypass"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    options = ("--direct-delivery", request.param)
    with running_service(tmp_path_factory.mktemp("log"), *options) as service:
        yield service


async def fields(running: Service, event: str, uaid: str, times: int = 1) -> list[dict[str, Any]]:
    """The fields of the lines of that event about one user agent, once there are so many."""
    about = sha256(uaid.encode()).hexdigest()
    await running.logged(f'"message":"{event}","level":"info","uaid_hash":"{about}"', times)
    found = [json.loads(line)["Fields"] for line in running.output if f'"{event}"' in line]
    return [each for each in found if each["uaid_hash"] == about]


async def test_a_session_with_everything_leaves_its_lines_and_no_secret(
    running: Service, sender: ApplicationServer
) -> None:
    agent = await UserAgent.connect(running.websocket, FIREFOX)
    await agent.hello()
    channel, endpoint = await agent.register()
    other, _ = await agent.register()
    first, second = [(await sender.push(endpoint, b"secret")).message_id for _ in range(2)]
    notifications = await agent.receive(2)
    await agent.ack(notifications[:1])
    await agent.send(messageType="nack", version=second, code=302)
    await agent.unregister(other)
    await agent.close()

    [line] = await fields(running, "Session", agent.uaid)
    assert line["connection_time"] > 0
    expected = {
        "uaid_reset": False,
        "existing_uaid": False,
        "connection_type": "webpush",
        "host": running.websocket.removeprefix("ws://").rstrip("/"),
        "ua_name": "Firefox",
        "ua_category": "desktop",
        "ua_os_family": "Mac OS X",
        "ua_os_ver": "10.13",
        "ua_browser_family": "Firefox",
        "ua_browser_ver": "61.0",
        "direct_acked": 1,
        "direct_storage": 1,
        "stored_retrieved": 0,
        "stored_acked": 0,
        "nacks": 1,
        "registers": 2,
        "unregisters": 1,
        "disconnect_reason": "closed by the client",
        "close_code": 1000,
    }
    assert {name: line[name] for name in expected} == expected
    registered = await fields(running, "Register", agent.uaid, 2)
    assert [each["channel_id"] for each in registered] == [channel, other]
    [unregistered] = await fields(running, "Unregister", agent.uaid)
    assert (unregistered["channel_id"], unregistered["code"]) == (other, 200)
    [nack] = await fields(running, "Nack", agent.uaid)
    assert (nack["channel_id"], nack["code"]) == (channel, 302)

    again = await UserAgent.connect(running.websocket, FIREFOX)
    await again.hello(agent.uaid)
    await again.receive(1, ack=True)
    await again.drop_connection()
    _, line = await fields(running, "Session", agent.uaid, 2)
    assert line["existing_uaid"] is True
    assert (line["stored_retrieved"], line["stored_acked"]) == (1, 1)
    assert line["disconnect_reason"] == "connection lost"

    output = "".join(running.output)
    for secret in (agent.uaid, endpoint.rpartition("/")[2], first.rstrip("="), second.rstrip("=")):
        assert secret not in output


async def test_a_service_that_stops_has_logged_every_session(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    service = Service(tmp_path_factory.mktemp("stop"), ["--human-logs", "--workers", "2"])
    await service.start()
    agents = [await service.connect() for _ in range(20)]
    assert await service.stop() == 0
    lines = [line for line in service.output if " Session uaid_hash=" in line]
    assert len(lines) == len(agents)
    assert all("disconnect_reason='going away' close_code=1001" in line for line in lines)
    for agent in agents:
        await agent.close()
