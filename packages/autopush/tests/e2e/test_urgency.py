"""The service over real sockets: what a user agent that saves power gets, and what waits."""

from pathlib import Path

from support.application_server import ApplicationServer
from support.service import service
from support.user_agent import Message, UserAgent


async def test_a_filter_holds_over_workers_reconnects_and_restarts(
    tmp_path: Path, sender: ApplicationServer
) -> None:
    async with service(tmp_path, "--workers", "2") as running:
        agent = await running.connect()
        _, endpoint = await agent.register()
        await agent.send(messageType="urgency", min="normal")
        assert await agent.reply() == {"messageType": "urgency", "status": 200}
        waiting = []
        for _ in range(4):  # each over a connection of its own, to either worker
            low = await sender.push(endpoint, b"x", Urgency="low")
            assert low.status == 201
            waiting.append(low.message_id)
        high = await sender.push(endpoint, b"x", Urgency="high")
        message = await agent.notification()
        assert message["version"] == high.message_id
        await agent.ack([message])
        await agent.close()

        await running.stop()
        await running.start()
        again = await UserAgent.connect(running.websocket)
        assert (await again.hello(agent.uaid))["urgency"] == "normal"
        none = await sender.push(endpoint, b"x")
        assert [each["version"] for each in await again.receive(1, ack=True)] == [none.message_id]
        await again.send(messageType="urgency", min="very-low")
        assert (await again.reply())["status"] == 200
        received: list[Message] = await again.receive(4, ack=True)
        assert [each["version"] for each in received] == waiting
        assert "urgency" not in await again_hello(running.websocket, again)
        assert running.errors == []


async def again_hello(websocket: str, before: UserAgent) -> Message:
    """The answer to one more hello."""
    assert before.uaid is not None
    await before.close()
    agent = await UserAgent.connect(websocket)
    reply = await agent.hello(before.uaid)
    await agent.close()
    return reply
