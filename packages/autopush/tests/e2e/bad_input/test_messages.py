"""Messages of a user agent with members of every kind of value."""

import uuid
from collections.abc import Awaitable, Callable, Iterator

import pytest

from support.application_server import ApplicationServer
from support.bad_input import CHANNEL, HUGE, VALUES, delivers_only
from support.user_agent import UserAgent

Connect = Callable[..., Awaitable[UserAgent]]
Message = dict[str, object]

NO_UUID = {"messageType": "register", "status": 401, "reason": "Invalid UUID specified"}
WRONG_FORM = {
    "messageType": "register",
    "status": 401,
    "reason": "Bad UUID format, use lower case, dashed format",
}


def replies() -> Iterator[tuple[str, Message, Message]]:
    """Name, message, and the members of its reply; None: the reply lacks it."""
    for name in ("object", "huge string", "beyond ASCII"):
        value = VALUES[name]
        echo = value if isinstance(value, str) else None
        register = {"messageType": "register", "channelID": value}
        yield f"register {name}", register, NO_UUID | {"channelID": echo}
        yield (
            f"register with key {name}",
            {"messageType": "register", "channelID": CHANNEL, "key": value},
            # A key is base64url of whatever length.
            {"messageType": "register", "status": 200 if value == HUGE else 400},
        )
        yield (
            f"unregister {name}",
            {"messageType": "unregister", "channelID": value},
            {"messageType": "unregister", "status": 401, "reason": "Invalid ChannelID"},
        )
        yield (
            f"unregister with code {name}",
            {"messageType": "unregister", "channelID": CHANNEL, "code": value},
            {"messageType": "unregister", "channelID": CHANNEL, "status": 200, "reason": None},
        )
    for name, channel, reply in (
        ("upper case", CHANNEL.upper(), WRONG_FORM),
        ("without dashes", CHANNEL.replace("-", ""), WRONG_FORM),
        ("short", CHANNEL[:-1], NO_UUID),
        ("line feed", f"{CHANNEL}\n", NO_UUID),
        ("letter g", CHANNEL[:-1] + "g", NO_UUID),
        ("other digit", CHANNEL[:-1] + "٣", NO_UUID),
    ):
        register = {"messageType": "register", "channelID": channel}
        yield f"register {name}", register, reply | {"channelID": channel}
    for kind in ("register", "unregister"):
        missing = {"messageType": kind, "status": 401, "reason": "Missing ChannelID"}
        yield f"{kind} nothing", {"messageType": kind}, missing | {"channelID": None}
    for name, uaid in (("of another", uuid.uuid4().hex), ("without UAID", None)):
        hello = {"messageType": "hello", "use_webpush": True, "uaid": uaid}
        refused = {"messageType": "hello", "status": 401, "reason": "duplicate hello"}
        yield f"second hello {name}", hello, refused


@pytest.mark.parametrize(
    ("message", "members"), [pytest.param(*case, id=name) for name, *case in replies()]
)
async def test_a_message_gets_the_documented_reply_and_the_session_goes_on(
    connect: Connect, message: Message, members: Message
) -> None:
    agent = await connect()
    await agent.send(**message)
    reply = await agent.reply()
    assert {name: reply.get(name) for name in members} == members
    if message["messageType"] == "hello":
        assert reply["uaid"] == agent.uaid
    await agent.register()


CLOSING: dict[str, Message] = {
    "ping": {},
    "ping by name": {"messageType": "ping"},
    "register": {"messageType": "register", "channelID": CHANNEL},
    "unregister": {"messageType": "unregister", "channelID": CHANNEL},
    "ack": {"messageType": "ack", "updates": []},
    "nack": {"messageType": "nack", "version": "v"},
    "broadcast_subscribe": {"messageType": "broadcast_subscribe", "broadcasts": {}},
    "nonsense": {"messageType": "nonsense"},
}


@pytest.mark.parametrize("message", CLOSING.values(), ids=CLOSING)
async def test_before_hello_every_other_message_closes_the_connection(
    open_connection: Connect, message: Message
) -> None:
    agent = await open_connection()
    await agent.send(**message)
    assert await agent.closed() == 1008
    assert agent.received == []


@pytest.mark.parametrize("value", [*VALUES.values(), "Hello", "hello ", "notification", "error"])
async def test_an_unknown_message_type_closes_the_connection(
    connect: Connect, value: object
) -> None:
    agent = await connect()
    await agent.send(messageType=value)
    # A null is as good as no member, but not an empty object, which is the ping.
    assert await agent.closed() in ((1008, 4774) if value is None else (1008,))


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_hello_takes_any_value_of_any_member_and_gives_a_new_uaid(
    open_connection: Connect, value: object
) -> None:
    agent = await open_connection()
    members = ["uaid", "channelIDs", "broadcasts", "wakeup_host", "mobilenetwork", "unheard_of"]
    if value == HUGE:
        del members[1:]  # more would be too long for one message
    hello = dict.fromkeys(members, value) | {"messageType": "hello", "use_webpush": True}
    await agent.send(**hello)
    reply = await agent.reply()
    assert (reply["messageType"], reply["status"]) == ("hello", 200)
    assert uuid.UUID(reply["uaid"]).hex == reply["uaid"]


@pytest.mark.parametrize(
    "spelling",
    [str.upper, lambda uaid: str(uuid.UUID(uaid)), lambda uaid: f" {uaid}", lambda uaid: uaid[:-1]],
    ids=["upper case", "dashed", "space", "short"],
)
async def test_another_spelling_of_a_uaid_is_not_that_user(
    connect: Connect, spelling: Callable[[str], str]
) -> None:
    agent = await connect()
    await agent.register()
    other = await connect(spelling(agent.uaid))
    assert other.uaid != agent.uaid
    assert other.uaid == uuid.UUID(other.uaid).hex


@pytest.mark.parametrize("spelling", [CHANNEL.upper(), CHANNEL.replace("-", "")])
async def test_unregister_takes_any_spelling_and_echoes_it(
    connect: Connect, sender: ApplicationServer, spelling: str
) -> None:
    agent = await connect()
    _, endpoint = await agent.register(CHANNEL)
    reply = await agent.unregister(spelling)
    assert (reply["channelID"], reply["status"]) == (spelling, 200)
    assert (await sender.push(endpoint)).status == 410


async def test_after_a_second_hello_with_its_own_uaid_messages_arrive(
    sender: ApplicationServer, target: tuple[UserAgent, str]
) -> None:
    agent, endpoint = target
    await agent.send(messageType="hello", use_webpush=True, uaid=agent.uaid)
    reply = await agent.reply()
    assert (reply["status"], reply["reason"]) == (401, "duplicate hello")
    assert reply["uaid"] == agent.uaid
    await delivers_only(agent, sender, endpoint)


async def test_ack_skips_what_it_cannot_use_and_takes_the_rest(
    connect: Connect, sender: ApplicationServer, target: tuple[UserAgent, str]
) -> None:
    agent, endpoint = target
    sent = [(await sender.push(endpoint)).message_id for _ in range(2)]
    kept, acked = await agent.receive(2)
    for value in VALUES.values():
        await agent.send(messageType="ack", updates=value)
        await agent.send(messageType="ack", updates=[value])
        await agent.send(messageType="ack", updates=[kept | {"channelID": value}])
        await agent.send(messageType="ack", updates=[kept | {"version": value}])
    await agent.send(messageType="ack")
    await agent.ack([kept | {"channelID": str(uuid.uuid4())}])
    good = {"channelID": acked["channelID"], "version": acked["version"]}
    mixed = [*VALUES.values(), good | {"code": VALUES["object"]}, None]
    mixed.remove(HUGE)
    await agent.send(messageType="ack", updates=mixed)
    await agent.register()  # it is still open, and nothing of that was answered
    assert agent.replies.empty()
    await agent.close()
    agent = await connect(agent.uaid)
    assert (await agent.notification())["version"] == kept["version"] == sent[0]
    await agent.silence()


async def test_nack_and_broadcast_subscribe_take_any_value_of_any_member(connect: Connect) -> None:
    agent = await connect()
    for value in VALUES.values():
        await agent.send(messageType="nack", version=value)
        await agent.send(messageType="nack", version="unknown", code=value)
        if not (isinstance(value, dict) and value):
            await agent.send(messageType="broadcast_subscribe", broadcasts=value)
    await agent.send(messageType="broadcast_subscribe", broadcasts={"a/b": ["v"], "": None})
    assert await agent.reply() == {
        "messageType": "broadcast",
        "broadcasts": {"errors": {"a/b": "Broadcast not found", "": "Broadcast not found"}},
    }
    await agent.register()
