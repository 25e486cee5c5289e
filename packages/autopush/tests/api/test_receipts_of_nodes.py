"""Receipts of one service at two of its nodes, on every engine."""

import json
from typing import Any

import pytest

from autopush.api.receipts import ReceiptHandler
from autopush.delivery.calls import Outcome
from autopush.limits import LimitRefusals
from autopush.net.client_limits import ConnectionLimits
from autopush.net.http_messages import Request, Response
from autopush.store import PushStore, TablePlan
from autopush.store.messages import row_of_id
from autopush.store.receipts import GRACE, RETENTION
from autopush.webpush.errors import PushError
from autopush.webpush.identifiers import IdFactory, microseconds_of
from autopush.webpush.notification import Notification
from autopush.webpush.tokens import (
    Endpoint,
    EndpointTokens,
    KeyRing,
    MessageId,
    ReceiptSubscription,
    new_key,
    new_message_id,
    parse_message_id,
)
from keytables import Engine
from support import engines
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, ENDPOINT, NODE, UAID
from support.recorded import new_metrics

TTL = 60
RING = KeyRing([new_key()])
TOKENS = EndpointTokens(RING, ENDPOINT)

engine = engines.engine_fixture(engines.NAMES)


class Node:
    """What one process of the service has."""

    def __init__(self, store: PushStore, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.ids = IdFactory(clock)
        refusals = LimitRefusals(new_metrics())
        self.receipts = ReceiptHandler(store, TOKENS, clock, refusals, ConnectionLimits())

    async def push(self, topic: str | None = None) -> MessageId:
        """Take a message for a user agent that is away."""
        endpoint = Endpoint(UAID, CHANNEL)
        headers = {"prefer": "respond-async"}
        subscription = await self.receipts.requested(headers, endpoint, None)
        assert subscription is not None
        order = self.ids.next()
        text = new_message_id(RING, UAID, CHANNEL, topic, order, subscription.id)
        message = parse_message_id(RING, text)
        notification = Notification(
            uaid=UAID,
            channel_id=CHANNEL,
            version=text,
            ttl=TTL,
            timestamp=int(self.clock()),
            topic=topic,
            sort_time=None if topic else order,
            topic_order=microseconds_of(order) if topic else 0,
        )
        await self.store.current.store(notification)
        received = int(self.clock() * 1000)
        stored = Outcome.STORED
        await self.receipts.accepted(subscription, message, received, TTL, stored, is_bridged=False)
        return message

    async def receipt(self, message: MessageId) -> dict[str, Any]:
        token = ReceiptSubscription(message.receipt).token(RING)
        answer = await self.receipts(Request("GET", f"/r/{token}", "", {}, "::1"), token)
        assert isinstance(answer, Response)
        (found,) = json.loads(answer.body)["receipts"]
        state = await self.receipts.state_of(message.text)
        assert json.loads(state.body) == found
        assert isinstance(found, dict)
        return found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def nodes(engine: Engine, clock: ManualClock) -> tuple[Node, Node]:
    plan = TablePlan(receipt="receipt")
    one = await PushStore.open(engine, plan, key_hash="", clock=clock)
    other = await PushStore.open(engine, plan, key_hash="", clock=clock)
    await one.users.create(UAID, NODE, 5, one.current.name)
    await one.current.add_channel(UAID, CHANNEL)
    return Node(one, clock), Node(other, clock)


async def test_a_message_that_expires_is_410_at_every_node_and_later_forgotten(
    nodes: tuple[Node, Node], clock: ManualClock
) -> None:
    one, other = nodes
    message = await one.push()
    assert (await other.receipt(message))["state"] == "stored"
    clock.advance(TTL)
    assert (await other.receipt(message))["status"] == 202, "it may be on its way"
    clock.advance(GRACE)
    for node in nodes:
        assert (await node.receipt(message))["status"] == 410
    clock.advance(RETENTION)
    with pytest.raises(PushError) as refusal:
        await other.receipt(message)
    assert refusal.value.status == 404


async def test_a_message_that_is_replaced_at_another_node_is_410_at_every_one(
    nodes: tuple[Node, Node], clock: ManualClock
) -> None:
    one, other = nodes
    replaced = await one.push("news")
    clock.advance(2)
    kept = await other.push("news")
    for node in nodes:
        receipt = await node.receipt(replaced)
        assert (receipt["status"], receipt["state"]) == (410, "expired")
        assert (await node.receipt(kept))["status"] == 202


async def test_a_message_that_another_node_deletes_or_acks_is_known_at_every_one(
    nodes: tuple[Node, Node],
) -> None:
    one, other = nodes
    deleted, acked = await one.push(), await one.push()
    await other.store.remove(UAID, row_of_id(deleted))
    assert other.store.receipts is not None
    await other.store.receipts.passed(acked, "delivered", code=100)
    await other.store.remove(UAID, row_of_id(acked))
    for node in nodes:
        assert (await node.receipt(deleted))["status"] == 410
        assert (await node.receipt(acked))["status"] == 204
