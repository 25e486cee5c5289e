"""Synapse pushes to a user agent of this service, and forgets one that has unsubscribed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from autopush.webpush.syntax import decode_base64url
from support.service import Service, service
from support.synapse import TIMEOUT, MatrixClient, Synapse, pushed, synapse
from support.user_agent import Message

ANSWERED = "Received response to POST"
"""What Synapse logs of each push."""

pytestmark = pytest.mark.slow


@pytest.fixture
async def homeserver(tmp_path: Path) -> AsyncIterator[Synapse]:
    async with synapse(tmp_path / "synapse") as running:
        yield running


@pytest.fixture(params=["1", "2"], ids=["a worker", "two workers"])
async def running(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    async with service(tmp_path / "autopush", "--workers", request.param) as running:
        yield running


def content(message: Message) -> dict[str, object]:
    return pushed(decode_base64url(message["data"]))


async def test_a_message_in_a_room_reaches_the_user_agent_until_it_unsubscribes(
    homeserver: Synapse, running: Service
) -> None:
    async with AsyncExitStack() as stack:
        alice: MatrixClient = await stack.enter_async_context(homeserver.client("alice"))
        bob: MatrixClient = await stack.enter_async_context(homeserver.client("bob"))
        room = await alice.create_room(bob.user_id)
        await bob.join(room)
        agent = await running.connect()
        channel, endpoint = await agent.register()
        gateway = f"{running.endpoint}/_matrix/push/v1/notify"
        await bob.set_pusher(endpoint, gateway, format="event_id_only")

        event_id = await alice.say(room, "Hello")
        message = await agent.notification()
        await agent.ack([message])
        found = content(message)
        assert found.pop("prio") in ("high", "low")
        assert found == {"event_id": event_id, "room_id": room, "counts": {"unread": 1}}

        # Another of his clients has read it.
        await bob.read(room, event_id)
        message = await agent.notification()
        await agent.ack([message])
        assert content(message)["counts"] == {"unread": 0}
        for _ in range(2):
            await homeserver.logged(ANSWERED)

        # While the user agent is away, messages wait for it.
        await agent.close()
        away = [await alice.say(room, f"{number}") for number in range(3)]
        for _ in away:
            await homeserver.logged(ANSWERED)
        agent = await running.connect(agent.uaid)
        waited = await agent.receive(3, ack=True)
        assert [content(each)["event_id"] for each in waited] == away

        # A subscription that is gone costs the homeserver one more push.
        await agent.unregister(channel)
        await alice.say(room, "Is anybody there?")
        await homeserver.logged("was rejected: removing")
        async with asyncio.timeout(TIMEOUT):
            while await bob.pushkeys():  # it is removed soon
                pass
        await agent.close()
