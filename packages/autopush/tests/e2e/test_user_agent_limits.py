"""What user agents of a running service may ask, as its options say."""

from pathlib import Path

from support.service import service
from support.user_agent import UserAgent

CLIENT, OTHER_CLIENT = "203.0.113.7", "203.0.113.8"


async def test_user_agents_are_refused_and_closed_by_their_limits(tmp_path: Path) -> None:
    options = ["--registration-rate", "3/h", "--new-user-agents-rate", "1/h"]
    options += ["--message-rate", "20/h", "--max-broadcasts", "2"]
    async with service(tmp_path / "data", *options) as running:
        url = running.websocket
        agent = await UserAgent.connect(url, forwarded_for=CLIENT)
        hello = await agent.hello(broadcasts=dict.fromkeys(["a", "b", "c", "d"], "1"))
        assert hello["broadcasts"]["errors"] == {
            "a": "Broadcast not found",
            "b": "Broadcast not found",
            "c": "Too many broadcasts",
        }
        for _ in range(3):
            await agent.register()
        await agent.send(messageType="register", channelID=agent.uaid)
        assert (await agent.reply())["status"] == 401
        await agent.send(messageType="unregister", channelID=agent.uaid)
        refusal = await agent.reply()
        assert (refusal["status"], refusal["reason"]) == (429, "too many registrations")
        assert 0 < refusal["retry_after"] <= 1200

        second = await UserAgent.connect(url, forwarded_for=CLIENT)
        await second.hello()
        await second.send(messageType="register", channelID=str(agent.uaid))
        await second.reply()
        await second.send(messageType="register", channelID="11111111-2222-3333-4444-555555555555")
        refusal = await second.reply()
        assert (refusal["status"], refusal["reason"]) == (429, "too many new user agents")
        other = await UserAgent.connect(url, forwarded_for=OTHER_CLIENT)
        await other.hello()
        await other.register()

        for _ in range(20):
            await other.send(messageType="nack", version="x")
        await other.socket.wait_closed()
        assert (other.socket.close_code, other.socket.close_reason) == (1008, "too many messages")
        for each in (agent, second):
            await each.close()
