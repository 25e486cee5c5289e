"""The receipts of messages, on every engine."""

import pytest

from autopush.store import PushStore, TablePlan
from autopush.store.receipts import GRACE, Receipts, ReceiptStatus
from autopush.webpush.identifiers import MessageKind
from autopush.webpush.tokens import MessageId
from keytables import Engine
from support import engines
from support.clocks import ManualClock

SUBSCRIPTION = "f" * 32
UAID = "0123456789abcdef0123456789abcdef"
CHANNEL = "11111111-2222-3333-4444-555555555555"

engine = engines.engine_fixture(engines.NAMES)


@pytest.fixture
async def store(engine: Engine, clock: ManualClock) -> PushStore:
    return await PushStore.open(engine, TablePlan(receipt="receipt"), key_hash="", clock=clock)


def message(number: int, subscription: str = SUBSCRIPTION) -> MessageId:
    return MessageId(
        MessageKind.TIMESTAMPED, UAID, CHANNEL, None, number, f"Rid-{number}", subscription
    )


async def other_node(engine: Engine, clock: ManualClock) -> Receipts:
    """What another process has opened."""
    return await Receipts.open(engine, "receipt", clock)


async def test_each_process_adds_what_it_knows_in_any_order(
    engine: Engine, store: PushStore, clock: ManualClock
) -> None:
    endpoint, socket = store.receipts, await other_node(engine, clock)
    assert endpoint is not None
    await socket.record_states(message(1), "transmitted")
    await socket.record_states(message(1), "delivered", code=100)
    assert await endpoint.find(message(1)) is None
    await endpoint.record_accepted(message(1), int(clock() * 1000), 60, "stored")
    await endpoint.record_accepted(message(2), int(clock() * 1000), 60, "stored")
    await endpoint.record_accepted(message(3, "e" * 32), int(clock() * 1000), 60, "stored")
    found = {each.version: each for each in await socket.of_subscription(SUBSCRIPTION)}
    assert found.keys() == {"Rid-1", "Rid-2"}
    acked, pending = found["Rid-1"], found["Rid-2"]
    assert (acked.outcome(clock()), acked.code) == (ReceiptStatus.DELIVERED, 100)
    assert acked.times == dict.fromkeys(
        ("received", "stored", "transmitted", "delivered"), int(clock() * 1000)
    )
    assert pending.outcome(clock()) is ReceiptStatus.PENDING
    assert pending.outcome(clock() + 60 + GRACE) is ReceiptStatus.GONE


async def test_what_was_sent_first_does_not_shorten_the_life_of_a_receipt(
    engine: Engine, store: PushStore, clock: ManualClock
) -> None:
    receipts = store.receipts
    assert receipts is not None
    ttl = 20 * 86_400
    await receipts.record_accepted(message(1), int(clock() * 1000), ttl, "stored")
    await (await other_node(engine, clock)).record_states(message(1), "retrieved", "transmitted")
    clock.advance(ttl)
    assert await receipts.find(message(1)) is not None
