"""The service over real sockets: a UAID that only its user agent can take over."""

from pathlib import Path

from support.application_server import ApplicationServer
from support.service import service
from support.user_agent import UserAgent


async def test_a_uaid_with_a_secret_is_its_user_agents_over_workers_and_restarts(
    tmp_path: Path, sender: ApplicationServer
) -> None:
    async with service(tmp_path, "--workers", "2") as running:
        agent = await UserAgent.connect(running.websocket)
        secret = (await agent.hello(secret=True))["secret"]
        _, endpoint = await agent.register()
        for wrong in (None, "x", True) * 2:  # each over a connection of its own, to either worker
            other = await UserAgent.connect(running.websocket)
            assert (await other.hello(agent.uaid, secret=wrong))["uaid"] != agent.uaid
            await other.close()
        pushed = await sender.push(endpoint, b"x")
        received = await agent.notification()
        assert received["version"] == pushed.message_id, "its session was left alone"
        await agent.ack([received])
        await agent.close()

        await running.stop()
        await running.start()
        for _ in range(2):
            again = await UserAgent.connect(running.websocket)
            reply = await again.hello(agent.uaid, secret=secret)
            assert (reply["uaid"], "secret" in reply) == (agent.uaid, False)
            pushed = await sender.push(endpoint, b"x")
            assert [each["version"] for each in await again.receive(1, ack=True)] == [
                pushed.message_id
            ]
            await again.close()
        assert running.errors == []
        assert secret not in "".join(running.output)
