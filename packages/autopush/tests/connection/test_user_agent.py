"""A user agent's connection, from the socket to the store and back."""

import asyncio
import gc

import pytest

from autopush.protocol.rules import Rules
from autopush.store import UserRecord
from autopush.store.messages import row_of
from keytables import Throttled, Unavailable
from support import wire
from support.connection_house import (
    CHANNEL,
    ENDPOINT,
    NODE,
    OTHER,
    OTHER_NODE,
    UAID,
    Heard,
    House,
    UserAgent,
)

THROTTLED, UNAVAILABLE = Throttled("full"), Unavailable("gone")


def code_of(heard: list[Heard]) -> object:
    """The code of the close frame that is all that was heard."""
    (frame,) = heard
    assert isinstance(frame, tuple)
    assert frame[0] == "close"
    return frame[1]


def closed_with(agent: UserAgent) -> object:
    return code_of(agent.heard())


# ── the way of a message ────────────────────────────────────────────────────────────────────────


async def test_hello_register_deliver_ack(house: House) -> None:
    agent = house.connect()
    agent.hello()
    await house.settle()
    (hello,) = agent.heard()
    assert hello == {
        "messageType": "hello",
        "uaid": agent.uaid,
        "status": 200,
        "use_webpush": True,
        "broadcasts": {},
        "env": "development",
    }
    agent.register()
    await house.settle()
    (registered,) = agent.heard()
    assert isinstance(registered, dict)
    assert registered.pop("pushEndpoint").startswith(f"{ENDPOINT}/wpush/v1/")
    assert registered == {"messageType": "register", "channelID": CHANNEL, "status": 200}
    assert agent.connection.is_subscribed(CHANNEL)
    assert not agent.connection.is_subscribed(OTHER)

    message = house.message(agent.uaid)
    await house.store.current.store(message)
    assert agent.connection.deliver(message, row_of(message))
    (notification,) = agent.heard()
    assert notification == {
        "messageType": "notification",
        "channelID": CHANNEL,
        "version": message.version,
    }
    agent.ack(notification)
    await house.settle()
    assert house.rows() == []
    assert agent.heard() == []


async def test_an_unregistered_channel_is_no_longer_subscribed(house: House) -> None:
    agent = await house.subscribed()
    agent.say(messageType="unregister", channelID=CHANNEL)
    await house.settle()
    assert agent.heard() == [{"messageType": "unregister", "channelID": CHANNEL, "status": 200}]
    assert not agent.connection.is_subscribed(CHANNEL)
    assert await house.store.current.channels(agent.uaid) == frozenset()


async def test_stored_messages_follow_the_hello_reply_topics_first(house: House) -> None:
    await house.known_user()
    early, late = house.message(), house.message()
    topic = house.message(topic="news")
    for message in (late, early, topic):
        await house.store.current.store(message)
    agent = house.connect()
    agent.hello(UAID)
    await house.settle()
    hello, *notifications = agent.heard()
    assert isinstance(hello, dict)
    assert hello["uaid"] == UAID
    versions = [message["version"] for message in notifications if isinstance(message, dict)]
    assert versions == [topic.version, early.version, late.version]
    agent.ack(*reversed(notifications))
    await house.settle()
    assert house.rows() == []
    assert agent.heard() == []


async def test_the_next_page_is_read_when_all_of_this_one_is_acked(house: House) -> None:
    await house.known_user()
    messages = [house.message() for _ in range(25)]
    for message in messages:
        await house.store.current.store(message)
    agent = house.connect()
    agent.hello(UAID)
    await house.settle()
    (_, *page) = agent.heard()
    received = []
    while page:
        received += [message["version"] for message in page if isinstance(message, dict)]
        agent.ack(*page[1:])
        await house.settle()
        assert agent.heard() == []
        agent.ack(page[0])
        await house.settle()
        page = agent.heard()
    assert received == [message.version for message in messages]
    assert house.rows() == []


async def test_several_messages_of_a_page_leave_in_one_write(house: House) -> None:
    await house.known_user()
    for _ in range(5):
        await house.store.current.store(house.message())
    agent = house.connect()
    agent.hello(UAID)
    await house.settle()
    assert len(agent.heard()) == 6
    assert agent.transport.writes == 2  # the hello reply, and all five


async def test_storage_is_looked_at_when_told_to(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    await house.store.current.store(message)
    assert agent.connection.check_storage()
    await house.settle()
    assert agent.versions() == [message.version]


async def test_a_look_at_storage_that_has_to_wait_is_made_up_for(house: House) -> None:
    house = await House.open(Rules(max_unacked=1))
    agent = await house.subscribed()
    direct, stored = house.message(agent.uaid), house.message(agent.uaid)
    assert agent.connection.deliver(direct, None)
    assert not agent.connection.deliver(stored, None)
    await house.store.current.store(stored)
    assert not agent.connection.check_storage()
    (notification,) = agent.heard()
    agent.ack(notification)
    await house.settle()
    assert agent.versions() == [stored.version]


async def test_a_user_agent_that_does_not_read_is_busy_until_it_has_caught_up(
    house: House,
) -> None:
    agent = await house.subscribed()
    agent.transport.stuck = True
    accepted = 0
    while accepted < 100 and agent.connection.deliver(
        message := house.message(agent.uaid, ttl=0), None
    ):
        accepted += 1
        if accepted == 1:
            agent.transport.pending = agent.connection.write_high_water
    assert accepted < 100
    stored = house.message(message.uaid)
    await house.store.current.store(stored)
    agent.heard()
    assert not agent.connection.check_storage()
    agent.transport.unstick()
    await house.settle()
    assert agent.versions() == [stored.version]


# ── order ───────────────────────────────────────────────────────────────────────────────────────


async def test_messages_sent_in_one_piece_are_answered_in_order(house: House) -> None:
    agent = await house.greeted()
    agent.say(
        {"messageType": "register", "channelID": CHANNEL},
        {},
        {"messageType": "unregister", "channelID": CHANNEL},
        {"messageType": "register", "channelID": OTHER},
    )
    assert agent.heard() == []
    await house.settle()
    kinds = [message.get("messageType") for message in agent.heard() if isinstance(message, dict)]
    assert kinds == ["register", None, "unregister", "register"]
    assert await house.store.current.channels(agent.uaid) == {OTHER}


async def test_the_socket_is_not_read_while_a_register_waits(house: House) -> None:
    agent = await house.greeted()
    agent.register()
    agent.say({})
    assert not agent.is_read()
    assert agent.heard() == []
    await house.settle()
    assert agent.is_read()
    register, pong = agent.heard()
    assert isinstance(register, dict)
    assert (register["messageType"], pong) == ("register", {})


async def test_notifications_flow_while_a_register_waits(house: House) -> None:
    agent = await house.subscribed()
    agent.register(OTHER)
    message = house.message(agent.uaid)
    assert agent.connection.deliver(message, None)
    assert agent.versions() == [message.version]
    await house.settle()
    (registered,) = agent.heard()
    assert isinstance(registered, dict)
    assert registered["channelID"] == OTHER


async def test_nothing_is_sent_before_the_hello_reply(house: House) -> None:
    await house.known_user()
    agent = house.connect()
    agent.hello(UAID)
    placeholder = house.registry.find(UAID)
    assert placeholder is agent.connection
    assert not placeholder.deliver(house.message(), None)
    assert not placeholder.check_storage()
    assert agent.heard() == []


async def test_what_a_placeholder_could_not_take_is_found_in_storage_after_the_hello(
    house: House,
) -> None:
    await house.known_user()
    agent = house.connect()
    agent.hello(UAID)
    message = house.message()
    assert not agent.connection.deliver(message, None)
    await house.store.current.store(message)
    await house.settle()
    hello, notification = agent.heard()
    assert isinstance(hello, dict)
    assert isinstance(notification, dict)
    assert hello["messageType"] == "hello"
    assert notification["version"] == message.version


async def test_the_place_is_taken_before_the_router_record_is_written(house: House) -> None:
    await house.known_user()
    found: list[object] = []
    house.engine.before("update router", lambda: found.append(house.registry.find(UAID)))
    agent = await house.greeted(UAID)
    assert found == [agent.connection]


# ── whose UAID ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("uaid", [None, "", "nonsense", UAID.upper(), CHANNEL, 7, {}, ["x"]])
async def test_a_uaid_of_the_wrong_form_gets_a_new_one_without_asking_the_store(
    house: House, uaid: object
) -> None:
    agent = house.connect()
    agent.say(messageType="hello", use_webpush=True, uaid=uaid)
    await house.settle()
    (hello,) = agent.heard()
    assert isinstance(hello, dict)
    assert hello["uaid"] not in (uaid, UAID)
    assert len(hello["uaid"]) == 32
    assert house.engine.calls == []


async def test_an_unknown_uaid_is_never_adopted(house: House) -> None:
    agent = await house.greeted(UAID)
    assert agent.uaid != UAID
    assert house.registry.find(UAID) is None
    assert house.engine.calls == ["get router"]


async def test_nothing_is_written_for_a_new_user_before_it_registers(house: House) -> None:
    agent = await house.greeted()
    assert house.engine.calls == []
    assert house.registry.find(agent.uaid) is agent.connection
    agent.register()
    await house.settle()
    assert sorted(house.engine.calls) == ["update message", "update router"]
    record = await house.record(agent.uaid)
    assert record.node_id == NODE
    assert record.connected_at == agent.connection.connected_at == int(house.clock() * 1000)
    assert record.current_month == "message"
    assert await house.store.current.channels(agent.uaid) == {CHANNEL}


async def test_only_the_first_register_writes_the_user(house: House) -> None:
    agent = await house.subscribed()
    house.engine.calls.clear()
    agent.register(OTHER)
    await house.settle()
    assert house.engine.calls == ["update message"]


async def test_a_known_user_keeps_its_uaid_at_the_cost_of_three_storage_calls(
    house: House,
) -> None:
    await house.known_user()
    agent = await house.greeted(UAID)
    assert agent.uaid == UAID
    assert house.engine.calls == [
        "get router",
        "update router",
        "query message",
    ]
    assert (await house.record()).node_id == NODE


async def test_channels_of_a_known_user_are_known_after_the_hello(house: House) -> None:
    await house.known_user()
    agent = await house.greeted(UAID)
    assert agent.connection.is_subscribed(CHANNEL)
    assert not agent.connection.is_subscribed(OTHER)


@pytest.mark.parametrize(
    "attributes",
    [
        {"current_month": "message_2011_01"},
        {"current_month": None},
        {"router_type": "simplepush"},
        {"router_type": None},
        {"connected_at": None},
    ],
    ids=lambda attributes: " ".join(f"{name}={value}" for name, value in attributes.items()),
)
async def test_a_record_that_is_of_no_use_is_dropped_for_a_new_uaid(
    house: House, attributes: dict[str, str | int | None]
) -> None:
    await house.known_user()
    house.edit_record(**attributes)
    agent = await house.greeted(UAID)
    assert agent.uaid != UAID
    assert house.users() == []
    agent.register()
    await house.settle()
    assert house.users() == [agent.uaid]


@pytest.mark.parametrize("version", [None, 0])
async def test_a_record_of_an_old_version_is_reset_once_its_messages_are_acked(
    house: House, version: int | None
) -> None:
    await house.known_user()
    house.edit_record(record_version=version)
    message = house.message()
    await house.store.current.store(message)
    agent = house.connect()
    agent.hello(UAID)
    await house.settle()
    hello, notification = agent.heard()
    assert isinstance(hello, dict)
    assert hello["uaid"] == UAID
    assert house.users() == [UAID]
    agent.ack(notification)
    await house.settle()
    assert closed_with(agent) == 1000
    assert house.users() == []
    assert await house.store.current.channels(UAID) == frozenset()


async def test_a_user_agent_that_acks_nothing_is_reset_at_the_limit(house: House) -> None:
    house = await House.open(Rules(msg_limit=3))
    await house.known_user()
    for _ in range(4):
        await house.store.current.store(house.message())
    agent = house.connect()
    agent.hello(UAID)
    await house.settle()
    *_, close = agent.heard()
    assert code_of([close]) == 1000
    assert house.users() == []


# ── connected_at ────────────────────────────────────────────────────────────────────────────────


async def test_a_connection_is_as_old_as_its_socket(house: House) -> None:
    await house.known_user()
    agent = house.connect()
    opened = int(house.clock() * 1000)
    await house.pass_time(10)
    agent.hello(UAID)
    await house.settle()
    assert agent.connection.connected_at == opened
    assert (await house.record()).connected_at == opened


@pytest.mark.parametrize("ahead", [0, 1, 3_600_000])
async def test_a_connection_is_newer_than_the_one_on_record_whatever_the_clocks_say(
    house: House, ahead: int
) -> None:
    stored = int(house.clock() * 1000) + ahead
    await house.known_user(connected_at=stored)
    agent = await house.greeted(UAID)
    assert agent.connection.connected_at == stored + 1
    assert (await house.record()).connected_at == stored + 1


async def test_of_two_connections_of_one_millisecond_the_later_hello_wins(house: House) -> None:
    await house.known_user()
    first = await house.greeted(UAID)
    second = await house.greeted(UAID)
    assert closed_with(first) == 1000
    assert house.registry.find(UAID) is second.connection
    assert second.connection.connected_at == first.connection.connected_at + 1
    assert (await house.record()).connected_at == second.connection.connected_at


async def test_a_late_close_of_the_replaced_connection_leaves_the_new_one_registered(
    house: House,
) -> None:
    await house.known_user()
    first = await house.greeted(UAID)
    second = await house.greeted(UAID)
    first.leave()
    await house.settle()
    assert house.registry.find(UAID) is second.connection
    assert list(house.registry.sockets) == [second.connection]


async def test_a_user_agent_that_connects_elsewhere_meanwhile_is_tried_again(
    house: House,
) -> None:
    await house.known_user()
    now = int(house.clock() * 1000)
    house.engine.before("update router", lambda: house.edit_record(connected_at=now + 50))
    agent = await house.greeted(UAID)
    assert agent.connection.connected_at == now + 51
    assert (await house.record()).node_id == NODE


async def test_a_user_agent_that_keeps_connecting_elsewhere_is_sent_away(house: House) -> None:
    await house.known_user()
    now = int(house.clock() * 1000)

    def moving(step: int) -> None:
        house.engine.before(
            "update router", lambda: house.edit_record(connected_at=now + 1000 * step)
        )

    for step in range(1, 6):
        moving(step)
    agent = house.connect()
    agent.hello(UAID)
    await house.settle()
    await house.pass_time(9)
    assert closed_with(agent) == 1013
    assert house.registry.find(UAID) is None
    assert (await house.record()).node_id == OTHER_NODE


async def test_a_user_that_is_dropped_while_it_connects_becomes_a_new_one(house: House) -> None:
    await house.known_user()
    router = house.engine.tables["router"].items
    house.engine.before("update router", router.clear)
    agent = await house.greeted(UAID)
    assert agent.uaid != UAID
    assert house.users() == []
    assert house.registry.find(UAID) is None
    assert house.registry.find(agent.uaid) is agent.connection


# ── duplicates ──────────────────────────────────────────────────────────────────────────────────


async def test_the_node_of_an_older_connection_is_told_to_end_it(house: House) -> None:
    await house.known_user(connected_at=1234)
    await house.greeted(UAID)
    assert house.nodes.calls == [("end", OTHER_NODE, UAID, 1234)]


async def test_every_node_that_was_seen_on_record_is_told_to_end_its_connection(
    house: House,
) -> None:
    await house.known_user(connected_at=1234)
    now = int(house.clock() * 1000)
    house.engine.before(
        "update router",
        lambda: house.edit_record(node_id="http://three:8081", connected_at=now + 50),
    )
    await house.greeted(UAID)
    assert sorted(house.nodes.calls) == [
        ("end", "http://three:8081", UAID, now + 50),
        ("end", OTHER_NODE, UAID, 1234),
    ]


async def test_a_lost_reply_does_not_hide_the_node_that_was_replaced(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.known_user(connected_at=1234)
    connect = house.store.users.connect

    async def answer_of_the_second_try(
        record: UserRecord, node_id: str, connected_at: int
    ) -> UserRecord:
        await connect(record, node_id, connected_at)
        return await house.record()

    monkeypatch.setattr(house.store.users, "connect", answer_of_the_second_try)
    await house.greeted(UAID)
    assert house.nodes.calls == [("end", OTHER_NODE, UAID, 1234)]


async def test_storage_is_read_only_when_the_other_node_has_finished(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.known_user()
    finished = asyncio.get_running_loop().create_future()

    async def end_duplicate(node_id: str, uaid: str, connected_at: int) -> None:
        await finished

    monkeypatch.setattr(house.nodes, "end_duplicate", end_duplicate)
    agent = house.connect()
    agent.hello(UAID)
    await house.settle()
    assert house.engine.calls == ["get router", "update router"]
    assert agent.heard() == []
    message = house.message()
    await house.store.current.store(message)  # what the other node leaves behind
    finished.set_result(None)
    await house.settle()
    assert agent.versions() == [message.version]


@pytest.mark.parametrize("node_id", [NODE, None])
async def test_nobody_is_told_when_there_is_no_other_node(
    house: House, node_id: str | None
) -> None:
    await house.known_user()
    house.edit_record(node_id=node_id)
    await house.greeted(UAID)
    assert house.nodes.calls == []


# ── the store fails ─────────────────────────────────────────────────────────────────────────────

BY_KIND = pytest.mark.parametrize(
    ("error", "code"),
    [(UNAVAILABLE, 1011), (RuntimeError("a bug"), 1011)],
    ids=["unavailable", "bug"],
)


@BY_KIND
@pytest.mark.parametrize("call", ["get router", "update router"])
async def test_a_hello_the_store_cannot_answer_closes_without_a_reply(
    house: House, error: Exception, code: int, call: str
) -> None:
    await house.known_user()
    house.engine.fail(call, error)
    agent = house.connect()
    agent.hello(UAID)
    await house.settle()
    assert closed_with(agent) == code
    assert house.registry.find(UAID) is None
    assert (await house.record()).node_id == OTHER_NODE


@pytest.mark.parametrize("call", ["get router", "update router"])
async def test_a_hello_in_an_overload_is_kept_waiting_and_then_closed_without_a_reply(
    house: House, call: str
) -> None:
    await house.known_user()
    house.engine.fail(call, THROTTLED)
    house.chance = 0.5
    agent = house.connect()
    agent.hello(UAID)
    await house.settle()
    agent.say({})
    assert not agent.is_read()
    await house.pass_time(5.9)
    assert agent.heard() == []
    assert agent.connection.is_open
    await house.pass_time(0.5)
    assert closed_with(agent) == 1013
    assert house.registry.find(UAID) is None
    assert (await house.record()).node_id == OTHER_NODE


@BY_KIND
async def test_a_record_that_cannot_be_dropped_closes(
    house: House, error: Exception, code: int
) -> None:
    await house.known_user()
    house.edit_record(current_month=None)
    house.engine.fail("delete router", error)
    agent = house.connect()
    agent.hello(UAID)
    await house.settle()
    assert closed_with(agent) == code


@pytest.mark.parametrize("error", [UNAVAILABLE, RuntimeError("a bug")], ids=["unavailable", "bug"])
async def test_a_page_that_cannot_be_read_closes_after_the_hello(
    house: House, error: Exception
) -> None:
    await house.known_user()
    house.engine.fail("query message", error)
    agent = house.connect()
    agent.hello(UAID)
    await house.settle()
    hello, *rest = agent.heard()
    assert isinstance(hello, dict)
    assert hello["status"] == 200
    assert code_of(rest) == 1011


async def test_a_page_that_cannot_be_read_in_an_overload_is_read_after_a_pause(
    house: House,
) -> None:
    await house.known_user()
    message = house.message(ttl=3600)
    await house.store.current.store(message)
    house.engine.fail("query message", THROTTLED, THROTTLED)
    house.chance = 0
    agent = await house.greeted(UAID)
    await house.pass_time(4.9)
    assert house.engine.calls.count("query message") == 1
    house.chance = 1
    await house.pass_time(0.5)
    assert house.engine.calls.count("query message") == 2
    await house.pass_time(58)
    assert agent.heard() == []
    await house.pass_time(1.5)
    assert agent.versions() == [message.version]
    assert len(house.wheel) == 0


async def test_no_pause_outlives_its_connection(house: House) -> None:
    await house.known_user()
    house.engine.fail("query message", THROTTLED)
    agent = await house.greeted(UAID)
    assert len(house.wheel) == 1
    agent.leave()
    await house.settle()
    assert len(house.wheel) == 0


@pytest.mark.parametrize("error", [THROTTLED, UNAVAILABLE], ids=["throttled", "unavailable"])
@pytest.mark.parametrize("call", ["update message", "update router"])
async def test_a_register_the_store_cannot_take_is_503_and_may_be_repeated(
    house: House, error: Exception, call: str
) -> None:
    agent = await house.greeted()
    house.engine.fail(call, error)
    agent.register()
    await house.settle()
    (refused,) = agent.heard()
    assert isinstance(refused, dict)
    assert (refused["messageType"], refused["status"]) == ("register", 503)
    assert refused["channelID"] == CHANNEL
    assert "pushEndpoint" not in refused
    assert not agent.connection.is_subscribed(CHANNEL)
    agent.register()
    await house.settle()
    (registered,) = agent.heard()
    assert isinstance(registered, dict)
    assert registered["status"] == 200
    assert house.users() == [agent.uaid]
    assert await house.store.current.channels(agent.uaid) == {CHANNEL}


@pytest.mark.parametrize("error", [THROTTLED, UNAVAILABLE], ids=["throttled", "unavailable"])
async def test_an_unregister_the_store_cannot_take_is_503_and_may_be_repeated(
    house: House, error: Exception
) -> None:
    agent = await house.subscribed()
    house.engine.fail("update message", error)
    agent.say(messageType="unregister", channelID=CHANNEL)
    await house.settle()
    (refused,) = agent.heard()
    assert isinstance(refused, dict)
    assert (refused["messageType"], refused["status"]) == ("unregister", 503)
    assert agent.connection.is_subscribed(CHANNEL)
    agent.say(messageType="unregister", channelID=CHANNEL)
    await house.settle()
    assert agent.heard() == [{"messageType": "unregister", "channelID": CHANNEL, "status": 200}]


async def test_an_ack_the_store_cannot_take_is_made_good_later(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    await house.store.current.store(message)
    agent.connection.deliver(message, row_of(message))
    (notification,) = agent.heard()
    house.engine.fail("delete message", THROTTLED, THROTTLED)
    agent.ack(notification)
    await house.settle()
    assert len(house.rows()) == 1
    await house.pass_time(1)
    assert len(house.rows()) == 1
    await house.pass_time(2)
    assert house.rows() == []


async def test_an_ack_whose_table_is_gone_is_not_tried_again(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    await house.store.current.store(message)
    agent.connection.deliver(message, row_of(message))
    (notification,) = agent.heard()
    await house.engine.drop_table("message")
    agent.ack(notification)
    await house.settle()
    assert len(house.wheel) == 0
    assert agent.connection.is_open


async def test_a_store_that_fails_twice_at_once_leaves_no_error_unseen(house: House) -> None:
    unseen: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    agent = await house.greeted()
    house.engine.fail("update message", UNAVAILABLE)
    house.engine.fail("update router", UNAVAILABLE)
    agent.register()
    await house.settle()
    gc.collect()
    (refused,) = agent.heard()
    assert isinstance(refused, dict)
    assert refused["status"] == 503
    assert unseen == []


# ── time ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_socket_without_hello_is_closed_in_time() -> None:
    house = await House.open(hello_timeout=30)
    agent = house.connect()
    await house.pass_time(29)
    assert agent.heard() == []
    await house.pass_time(1.5)
    assert closed_with(agent) == 1008


async def test_a_hello_in_time_ends_the_wait_for_it() -> None:
    house = await House.open(hello_timeout=30)
    agent = await house.greeted()
    await house.pass_time(3600)
    assert agent.heard() == []
    assert agent.connection.is_open
    assert len(house.wheel) == 0


async def test_without_a_hello_timeout_a_socket_may_stay_silent(house: House) -> None:
    agent = house.connect()
    await house.pass_time(86_400)
    assert agent.connection.is_open


async def test_a_user_agent_that_answers_pings_stays() -> None:
    house = await House.open(Rules(auto_ping_interval=300))
    agent = house.connect()
    agent.hello()
    await house.settle()
    (hello,) = agent.heard()
    assert isinstance(hello, dict)
    assert hello["ping"] == 300
    for _ in range(3):
        await house.pass_time(299)
        assert agent.heard() == []
        await house.pass_time(1.5)
        assert agent.heard() == [("ping",)]
        agent.send(wire.frame(wire.PONG))
    assert agent.connection.is_open


async def test_a_user_agent_that_does_not_answer_a_ping_is_dropped_and_its_messages_saved() -> None:
    house = await House.open(Rules(auto_ping_interval=300), auto_ping_timeout=4)
    agent = await house.subscribed()
    message = house.message(agent.uaid, ttl=86_400)
    agent.connection.deliver(message, None)
    await house.pass_time(300.5)
    assert agent.connection.is_open
    await house.pass_time(4.5)
    assert agent.transport.lost
    assert house.registry.find(agent.uaid) is None
    assert not house.registry.sockets
    assert house.stored_versions() == [message.version]


async def test_no_timer_outlives_its_connection() -> None:
    house = await House.open(Rules(auto_ping_interval=300), hello_timeout=30)
    silent, greeted = house.connect(), await house.greeted()
    assert len(house.wheel) == 2
    silent.leave()
    greeted.leave()
    await house.settle()
    assert len(house.wheel) == 0


# ── breaking the rules ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (wire.text(b'{"messageType":"register"}'), 1008),
        (wire.text(b"{}"), 1008),
        (wire.text(b"[]"), 1008),
        (wire.text(b"nonsense"), 1008),
        (wire.frame(wire.BINARY, b"x"), 1003),
    ],
)
async def test_what_is_no_hello_closes(house: House, data: bytes, code: int) -> None:
    agent = house.connect()
    agent.send(data)
    assert closed_with(agent) == code
    assert not agent.connection.here


async def test_a_second_hello_is_refused_and_the_connection_stays(house: House) -> None:
    agent = await house.subscribed()
    agent.hello(UAID)
    await house.settle()
    (refused,) = agent.heard()
    assert isinstance(refused, dict)
    assert (refused["status"], refused["uaid"]) == (401, agent.uaid)
    assert agent.connection.here


async def test_pings_that_come_too_often_close_with_4774(house: House) -> None:
    agent = await house.greeted()
    agent.say({})
    assert agent.heard() == [{}]
    await house.pass_time(54)
    agent.say({})
    assert closed_with(agent) == 4774


async def test_a_question_cut_short_by_the_end_of_the_node_is_no_error(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashes: list[str] = []
    asked: list[asyncio.Task[object]] = []

    async def never(*_: object) -> None:
        await asyncio.sleep(0)  # from here on in a task of its own
        task = asyncio.current_task()
        assert task is not None
        asked.append(task)
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(house.node, "answer", never)
    monkeypatch.setattr(house.node, "on_crash", lambda error, where: crashes.append(where))
    agent = house.connect()
    agent.hello(UAID)
    await house.settle()
    asked[0].cancel()
    await house.settle()
    assert crashes == []
    assert not agent.connection.here
