"""A test push of the console: what is said of it until its end."""

import pytest

from autopush.api.push import TEST_TTL
from autopush.console.following import EXPIRED, NO_ACK_SEEN, FollowedPushes
from autopush.console.lookup import LookUp, LookUpError
from autopush.store.receipts import GRACE, Receipts
from support.connection_harness import CHANNEL, NODE, OTHER, UAID, Harness
from support.endpoint_harness import AES128GCM, Endpoint, headers_of


@pytest.fixture
async def pushes(harness: Harness) -> FollowedPushes:
    """Of a service that gives its senders no receipts, and takes only those with a VAPID key."""
    harness.store.receipts = await Receipts.open(harness.engine, "receipt", harness.clock)
    endpoint = Endpoint(harness, receipts=False, vapid_required=True)
    parts = endpoint.parts
    look_up = LookUp(
        harness.store, parts.tokens, harness.nodes, parts.placement, frozenset, "", harness.clock
    )
    return FollowedPushes(look_up, harness.ring, endpoint.app.push, endpoint.receipts)


async def test_it_is_followed_from_the_store_to_the_ack(
    harness: Harness, pushes: FollowedPushes
) -> None:
    await harness.known_user(node_id=NODE)
    agent = await harness.identified(UAID)
    sent = await pushes.send(UAID, CHANNEL)
    await harness.run_until_idle()
    (notification,) = agent.received()
    assert "data" not in notification
    found = await pushes.state(str(sent["message"]))
    assert (found["state"], found["is_final"], found["code"]) == ("transmitted", False, None)
    assert str(found["node"]).startswith("worker 0, ")
    harness.clock.advance(0.25)
    update = {"channelID": CHANNEL, "version": sent["message"], "code": 100}
    agent.send_json(messageType="ack", updates=[update])
    await harness.run_until_idle()
    found = await pushes.state(str(sent["message"]))
    assert (found["state"], found["is_final"], found["code"]) == ("delivered", True, 100)
    assert found["times"] == {"stored": 0, "transmitted": 0, "delivered": 250}


@pytest.mark.parametrize(
    ("seconds", "state", "explanation"),
    [(1, "gone", NO_ACK_SEEN), (TEST_TTL + GRACE, "expired", EXPIRED)],
)
async def test_what_became_of_one_without_an_ack_is_said_as_far_as_it_is_known(
    harness: Harness, pushes: FollowedPushes, seconds: int, state: str, explanation: str
) -> None:
    await harness.known_user()
    sent = await pushes.send(UAID, CHANNEL)
    assert (sent["state"], sent["is_final"]) == ("stored", False)
    harness.clock.advance(seconds)
    assert await pushes.look_up.delete_messages(UAID) == (state == "gone")
    found = await pushes.state(str(sent["message"]))
    assert (found["state"], found["is_final"]) == (state, True)
    assert found["explanation"] == explanation


async def test_a_refusal_is_said_and_what_is_no_message_refused(
    harness: Harness, pushes: FollowedPushes
) -> None:
    await harness.known_user()
    refused = await pushes.send(UAID, OTHER)
    assert (refused["state"], refused["is_final"]) == ("refused", True)
    assert "410, errno 106" in str(refused["explanation"])
    with pytest.raises(LookUpError, match="not a message id"):
        await pushes.state("no-id")
    with pytest.raises(LookUpError, match="autopush endpoint"):
        await FollowedPushes(pushes.look_up, harness.ring, None, None).send(UAID, CHANNEL)


async def test_senders_get_no_receipts_by_it(harness: Harness, pushes: FollowedPushes) -> None:
    await harness.known_user(node_id=NODE)
    endpoint = Endpoint(harness, receipts=False)
    answer = await endpoint.push(AES128GCM | {"prefer": "respond-async"})
    assert answer.status == 201
    assert "link" not in headers_of(answer)
