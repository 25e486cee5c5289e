"""How often user agents may ask something: by UAID and by client address."""

import json

import pytest

from autopush.limits import PER_ADDRESS
from autopush.protocol.effects import PROTOCOL_VIOLATION
from autopush.settings.value_types import Rate
from autopush.telemetry.metric_table import LIMIT_REFUSED
from support import wire
from support.connection_harness import CHANNEL, LOOPBACK, OTHER, PEER, UAID, Harness, UserAgent
from support.recorded import recorded

TOO_MANY = ("close", PROTOCOL_VIOLATION, "too many messages")


def channel(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012}"


def refused(harness: Harness, limit: str) -> float:
    return recorded(harness.metrics, LIMIT_REFUSED, limit=limit)


def is_open(agent: UserAgent) -> bool:
    return agent.connection.is_connected


async def identified(harness: Harness, address: str = PEER, uaid: str | None = None) -> UserAgent:
    agent = harness.connect(address=address)
    agent.hello(uaid)
    await harness.run_until_idle()
    assert agent.reply()["status"] == 200
    return agent


async def status(harness: Harness, agent: UserAgent, kind: str, number: int) -> int:
    """That of the reply to a register or unregister."""
    agent.send_json(messageType=kind, channelID=channel(number))
    await harness.run_until_idle()
    reply = agent.reply()
    assert (reply["messageType"], reply["channelID"]) == (kind, channel(number))
    code = reply["status"]
    assert isinstance(code, int)
    return code


# ── registrations ───────────────────────────────────────────────────────────────────────────────


async def test_a_user_agent_registers_and_unregisters_only_so_often() -> None:
    harness = await Harness.open(errors_url="https://page", registration_rate=Rate(4, "min"))
    agent = await identified(harness)
    steps = [("register", 1), ("register", 2), ("unregister", 2), ("register", 2)]
    assert [await status(harness, agent, *step) for step in steps] == [200] * 4

    harness.engine.calls.clear()
    agent.send_json(messageType="unregister", channelID=channel(1))
    await harness.run_until_idle()
    assert agent.reply() == {
        "messageType": "unregister",
        "channelID": channel(1),
        "status": 429,
        "reason": "too many registrations",
        "retry_after": 15,
        "more_info": "https://page#errors-websocket",
    }
    assert await status(harness, agent, "register", 3) == 429
    assert harness.engine.calls == []
    assert refused(harness, "registration_rate") == 2
    assert agent.connection.is_subscribed(channel(1))
    assert agent.connection.is_subscribed(channel(2))

    await harness.pass_time(15)
    assert await status(harness, agent, "register", 3) == 200
    assert await status(harness, agent, "register", 4) == 429


async def test_a_new_connection_does_not_begin_with_a_full_bucket() -> None:
    harness = await Harness.open(registration_rate=Rate(1, "h"))
    agent = await identified(harness)
    assert await status(harness, agent, "register", 1) == 200
    agent.disconnect()
    again = await identified(harness, uaid=agent.uaid)
    assert await status(harness, again, "register", 2) == 429


async def test_user_agents_of_one_address_register_only_so_often_together() -> None:
    harness = await Harness.open(registration_rate=Rate(1, "h"))
    statuses = []
    for _ in range(PER_ADDRESS + 1):
        agent = await identified(harness)
        statuses.append(await status(harness, agent, "register", 1))
    assert statuses == [200] * PER_ADDRESS + [429]
    for address in ("192.0.2.2", LOOPBACK):
        agent = await identified(harness, address)
        assert await status(harness, agent, "register", 1) == 200, address


async def test_what_waits_for_the_store_goes_on_after_a_refusal() -> None:
    harness = await Harness.open(registration_rate=Rate(1, "h"))
    agent = await harness.subscribed()
    agent.send_json(
        {"messageType": "register", "channelID": OTHER},
        {"messageType": "unregister", "channelID": OTHER},
    )
    await harness.run_until_idle()
    replies = agent.received()
    assert [reply["status"] for reply in replies if isinstance(reply, dict)] == [429, 429]
    assert agent.is_read()
    assert agent.connection.deliver(harness.message(agent.uaid), None)
    assert agent.reply()["channelID"] == CHANNEL


# ── new user agents ─────────────────────────────────────────────────────────────────────────────


async def test_an_address_makes_only_so_many_records_of_user_agents() -> None:
    harness = await Harness.open(new_user_agents_rate=Rate(2, "h"))
    for _ in range(2):
        agent = await identified(harness)
        assert await status(harness, agent, "register", 1) == 200
    assert await status(harness, agent, "register", 2) == 200, "it has its record"

    third = await identified(harness)
    third.register()
    await harness.run_until_idle()
    reply = third.reply()
    assert (reply["status"], reply["reason"]) == (429, "too many new user agents")
    assert reply["retry_after"] == 1800
    assert len(harness.users()) == 2
    assert refused(harness, "new_user_agents") == 1

    elsewhere = await identified(harness, "192.0.2.2")
    assert await status(harness, elsewhere, "register", 1) == 200
    await harness.pass_time(1800)
    assert await status(harness, third, "register", 1) == 200


async def test_a_hello_of_a_new_user_agent_takes_nothing() -> None:
    harness = await Harness.open(new_user_agents_rate=Rate(1, "h"))
    for _ in range(5):
        agent = await identified(harness)
    assert await status(harness, agent, "register", 1) == 200


async def test_a_known_user_agent_is_no_new_one() -> None:
    harness = await Harness.open(new_user_agents_rate=Rate(1, "h"))
    await harness.known_user()
    for each in range(3):
        agent = await identified(harness, uaid=UAID)
        assert await status(harness, agent, "register", each) == 200


async def test_a_client_behind_a_trusted_proxy_counts_by_its_own_address() -> None:
    harness = await Harness.open(new_user_agents_rate=Rate(1, "h"))
    statuses = {}
    for forwarded in ("198.51.100.1", "198.51.100.1", "198.51.100.2", LOOPBACK):
        agent = harness.connect(address=forwarded)
        agent.hello()
        await harness.run_until_idle()
        agent.received()
        statuses[forwarded] = await status(harness, agent, "register", 1)
    assert statuses == {"198.51.100.1": 429, "198.51.100.2": 200, LOOPBACK: 200}


# ── messages ────────────────────────────────────────────────────────────────────────────────────

NACK = wire.text(json.dumps({"messageType": "nack", "version": "x"}).encode())
FALSE_ACK = wire.text(
    json.dumps({"messageType": "ack", "updates": [{"channelID": CHANNEL, "version": "x"}]}).encode()
)
PING, PONG = wire.frame(wire.PING, b"x"), wire.frame(wire.PONG)
URGENCY = wire.text(b'{"messageType":"urgency"}')


@pytest.mark.parametrize(
    "message", [NACK, FALSE_ACK, PING, PONG, URGENCY], ids=["nack", "ack", "ping", "pong", "other"]
)
async def test_a_connection_with_too_many_messages_is_closed(message: bytes) -> None:
    harness = await Harness.open(message_rate=Rate(10, "min"))
    agent = await harness.subscribed()
    agent.send(message * 9)  # a register came before
    await harness.run_until_idle()
    assert is_open(agent)
    assert ("pong",) in agent.received() or message != PING
    agent.send(message)
    assert agent.received()[-1] == TOO_MANY
    assert not is_open(agent)
    assert refused(harness, "message_rate") == 1


async def test_fragments_count_as_messages() -> None:
    harness = await Harness.open(message_rate=Rate(10, "min"))
    agent = await harness.subscribed()
    agent.send(wire.text(fin=False) + 20 * wire.frame(wire.CONTINUATION, fin=False))
    await harness.run_until_idle()
    assert agent.received()[-1] == TOO_MANY


async def test_messages_at_the_rate_are_taken_for_ever() -> None:
    harness = await Harness.open(message_rate=Rate(600, "min"))
    agent = await harness.subscribed()
    for _ in range(100):
        agent.send(10 * NACK)
        await harness.pass_time(1)
    assert is_open(agent)
    agent.send(1000 * NACK)
    await harness.run_until_idle()
    assert not is_open(agent)


@pytest.mark.parametrize("ttl", [60, 0])
async def test_acks_of_what_was_sent_are_not_counted(ttl: int) -> None:
    harness = await Harness.open(message_rate=Rate(5, "h"))
    agent = await harness.subscribed()
    for _ in range(500):
        assert agent.connection.deliver(harness.message(agent.uaid, ttl=ttl), None)
        agent.ack(agent.reply())
    assert is_open(agent)
    agent.send(5 * FALSE_ACK)
    await harness.run_until_idle()
    assert not is_open(agent)


async def test_one_that_goes_on_after_the_close_frame_is_cut_off() -> None:
    harness = await Harness.open(message_rate=Rate(5, "h"))
    agent = await harness.subscribed()
    agent.send(5 * NACK)
    await harness.run_until_idle()
    assert agent.received() == [TOO_MANY]
    assert not agent.transport.lost
    agent.send(NACK)
    await harness.run_until_idle()
    assert agent.transport.lost


async def test_messages_are_counted_across_connections_and_by_address() -> None:
    harness = await Harness.open(message_rate=Rate(5, "h"))
    agent = await harness.subscribed()
    agent.send(5 * NACK)
    await harness.run_until_idle()
    assert not is_open(agent)
    again = await identified(harness, uaid=agent.uaid)
    again.send(NACK)
    assert not is_open(again)

    closed = 0
    for _ in range(2 * PER_ADDRESS):
        other = await identified(harness)
        other.send(4 * NACK)
        await harness.run_until_idle()
        closed += not is_open(other)
    assert 0 < closed <= PER_ADDRESS + 3
    elsewhere = await identified(harness, "192.0.2.2")
    elsewhere.send(3 * NACK)
    assert is_open(elsewhere)
