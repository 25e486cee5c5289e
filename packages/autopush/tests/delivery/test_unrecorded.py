"""On an embedded store: a hello that changes nothing that lasts is not recorded."""

from collections.abc import Awaitable, Callable

import pytest

from autopush.delivery.calls import Outcome
from autopush.delivery.presence import Depth
from autopush.delivery.router import UserOnRecord
from autopush.store.messages import row_of
from support.connection_harness import CHANNEL, NODE, UAID, Harness, UserAgent
from support.endpoint_harness import AES128GCM, Endpoint

SAME_PLACE = "http://one:8081/i/earlier"
OTHER_WORKER = "http://one:9999/i/other"


@pytest.fixture
async def harness() -> Harness:
    """A node that is the only worker of its service."""
    return await Harness.open(command="serve", store="")


async def known(harness: Harness, node_id: str | None = SAME_PLACE) -> None:
    await harness.known_user(node_id=node_id or NODE)
    if node_id is None:
        await harness.store.users.clear_node(await harness.record())
    harness.engine.calls.clear()


def writes(harness: Harness) -> list[str]:
    return [call for call in harness.engine.calls if not call.startswith(("get", "query", "batch"))]


@pytest.mark.parametrize("node_id", [None, SAME_PLACE, NODE, OTHER_WORKER])
async def test_a_hello_that_changes_nothing_writes_nothing(
    harness: Harness, node_id: str | None
) -> None:
    await known(harness, node_id)
    await harness.identified(UAID)
    assert writes(harness) == []


@pytest.mark.parametrize(
    "change", ["another service", "month", "urgency", "unread", "moved"], ids=str
)
async def test_what_lasts_is_recorded_with_the_connection(harness: Harness, change: str) -> None:
    await known(harness)
    harness.others = change == "another service"
    attributes: dict[str, dict[str, int | str]] = {
        "month": {"last_connect": 202001010001},
        "unread": {"unread": 1},
        "moved": {"moved_from": "message"},
    }
    harness.change_record(**attributes.get(change, {}))
    agent = await harness.hello(UAID, **({"urgency": "high"} if change == "urgency" else {}))
    assert agent.reply()["status"] == 200
    record = await harness.record()
    assert (record.node_id, record.connected_at) == (NODE, agent.connection.connected_at)


async def test_the_newer_connection_gets_what_the_older_one_has_not_acked(harness: Harness) -> None:
    await known(harness)
    first = await harness.identified(UAID)
    message = harness.message()
    assert first.connection.deliver(message, None)
    second = await harness.hello(UAID)
    assert first.close_code() == 1000
    assert second.versions() == [message.version]


async def test_a_push_finds_the_user_agent(harness: Harness) -> None:
    await known(harness)
    agent = await harness.identified(UAID)
    response = await Endpoint(harness).push(AES128GCM, b"x")
    assert response.status == 201
    assert len(agent.versions()) == 1


async def test_a_push_that_read_the_record_before_the_hello_finds_the_user_agent(
    harness: Harness,
) -> None:
    await known(harness, None)
    router, message = Endpoint(harness).router, harness.message()
    recipient = await router.find(UAID, CHANNEL)
    assert isinstance(recipient, UserOnRecord)
    agent = await harness.identified(UAID)
    assert await router.route(recipient, message) is Outcome.DONE
    await harness.run_until_idle()
    assert agent.versions() == [message.version]


async def _set_urgency(harness: Harness, agent: UserAgent) -> None:
    agent.send_json(messageType="urgency", min="high")


async def _reset(harness: Harness, agent: UserAgent) -> None:
    harness.node.drop_user(agent.connection)


async def _refresh(harness: Harness, agent: UserAgent) -> None:
    harness.node._refresh(agent.connection)


@pytest.mark.parametrize("change", [_set_urgency, _refresh], ids=["urgency", "month"])
async def test_a_later_change_puts_the_connection_on_record(
    harness: Harness, change: Callable[[Harness, UserAgent], Awaitable[None]]
) -> None:
    await known(harness)
    agent = await harness.identified(UAID)
    await change(harness, agent)
    await harness.run_until_idle()
    record = await harness.record()
    assert (record.node_id, record.connected_at) == (NODE, agent.connection.connected_at)
    assert agent.connection.is_on_record


async def test_a_user_that_has_to_be_reset_is_dropped(harness: Harness) -> None:
    await known(harness)
    agent = await harness.identified(UAID)
    await _reset(harness, agent)
    await harness.run_until_idle()
    assert harness.users() == []


async def test_a_later_change_of_a_user_that_was_dropped_meanwhile_brings_nothing_back(
    harness: Harness,
) -> None:
    await known(harness)
    agent = await harness.identified(UAID)
    await harness.store.users.drop(UAID)
    await _set_urgency(harness, agent)
    await harness.run_until_idle()
    assert agent.close_code() == 1000
    assert harness.users() == []


async def test_the_check_of_records_leaves_it_as_it_is(harness: Harness) -> None:
    await known(harness)
    agent = await harness.identified(UAID)
    harness.node.presence.check_soon(agent.connection)
    await harness.node.presence._check_asked()
    assert writes(harness) == []
    await harness.store.users.connect(await harness.record(), OTHER_WORKER, 2**50)
    harness.node.presence.check_soon(agent.connection)
    await harness.node.presence._check_asked()
    assert agent.close_code() == 1000, "another worker has a newer one"


async def test_when_another_service_comes_who_is_connected_is_recorded(harness: Harness) -> None:
    await known(harness)
    agent = await harness.identified(UAID)
    presence = harness.node.presence
    assert not harness.parts.placement.look_for_others()
    harness.others = True
    assert harness.parts.placement.look_for_others()
    missed = await harness.store_message()  # by the other service, which finds no node on record
    await presence._check_all(Depth.MESSAGES)
    await harness.run_until_idle()
    record = await harness.record()
    assert (record.node_id, record.connected_at) == (NODE, agent.connection.connected_at)
    assert agent.versions() == [missed.version]


async def test_what_is_stored_for_a_user_that_left_stays_stored(harness: Harness) -> None:
    await known(harness)
    agent = await harness.identified(UAID)
    message = harness.message()
    assert agent.connection.deliver(message, None)
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.stored_versions() == [message.version]
    assert await harness.store.current.has(UAID, row_of(message))
