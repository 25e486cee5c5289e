"""Delivery where it is hard: user agents that do not read, and a service that ends in traffic."""

import asyncio
import contextlib
import json
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import WebSocketException

from support import wire
from support.application_server import ApplicationServer
from support.raw_client import raw_client
from support.service import Service, running_service
from support.traffic import Subscriber, TrafficLedger, send_for_ever

pytestmark = pytest.mark.slow

WORKERS_AND_MODES = [("1", "bypass"), ("2", "store-first")]
"""Each number of workers and each mode once."""


@pytest.fixture(scope="module", params=["store-first", "bypass"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("edges")
    with running_service(data, "--direct-delivery", request.param) as service:
        yield service


async def test_messages_a_user_agent_does_not_read_are_delivered_later(
    running: Service, sender: ApplicationServer
) -> None:
    async with raw_client(running.websocket_port) as client:
        uaid = await client.hello()
        channel = str(uuid.uuid4())
        register = {"messageType": "register", "channelID": channel}
        client.send(wire.text(json.dumps(register).encode()))
        endpoint = json.loads((await client.frame())[1])["pushEndpoint"]
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        body = bytes(4096)
        answers = await asyncio.gather(*(sender.push(endpoint, body) for _ in range(120)))
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        waiting = {answer.message_id for answer in answers}
        got: Counter[str] = Counter()
        while waiting - got.keys():
            message = json.loads((await client.frame())[1])
            got[message["version"]] += 1
            update = {"channelID": channel, "version": message["version"]}
            client.send(wire.text(json.dumps({"messageType": "ack", "updates": [update]}).encode()))
    assert got == Counter(waiting)
    assert uaid


@pytest.mark.parametrize(("workers", "mode"), WORKERS_AND_MODES)
async def test_sigterm_in_traffic_says_going_away_and_loses_nothing(
    tmp_path: Path, mode: str, workers: str
) -> None:
    service = Service(tmp_path, ["--direct-delivery", mode, "--workers", workers])
    await service.start()
    ledger = TrafficLedger()
    subscribers = [Subscriber(service, ledger) for _ in range(4)]
    for subscriber in subscribers:
        await subscriber.subscribe()
    idle = [await service.connect() for _ in range(3)]
    silent = [await service.connect(subscriber.uaid) for subscriber in subscribers[:2]]
    try:
        async with asyncio.TaskGroup() as group:
            sending = [group.create_task(send_for_ever(ledger, subscribers)) for _ in range(2)]
            receiving = [group.create_task(subscriber.run()) for subscriber in subscribers[2:]]
            await ledger.grows_by(60, 20)
            assert await service.stop() == 0, "".join(service.output[-20:])
            assert {await agent.closed() for agent in (*idle, *silent)} == {1001}
            await service.start()
            # Those that never acked reconnect and get all that was sent to them.
            receiving += [group.create_task(subscriber.run()) for subscriber in subscribers[:2]]
            await ledger.grows_by(20, 20)
            for task in sending:
                task.cancel()
            with contextlib.suppress(WebSocketException):
                await ledger.complete(20)
            for task in receiving:
                task.cancel()
        assert ledger.missing == set()
        assert set(ledger.refused) <= {503}
    finally:
        code = await service.stop()
    assert code == 0, "".join(service.output[-20:])
    assert service.errors == []
