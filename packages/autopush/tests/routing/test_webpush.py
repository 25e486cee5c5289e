"""The way of a message, with a store of dicts and user agents and nodes that answer as told."""

import pytest

from autopush.protocol.actions import Row
from autopush.routing.local import ConnectedUser
from autopush.routing.nodes import NodeAnswer, Nodes
from autopush.routing.webpush import Outcome, Recipient, WebPushRouter
from autopush.store import PushStore, TablePlan
from autopush.store.messages import Messages
from autopush.webpush.errors import PushError
from autopush.webpush.notification import Notification
from keytables import Throttled
from support.clocks import ManualClock
from support.memory_engine import MemoryEngine

UAID = "0123456789abcdef0123456789abcdef"
CHANNEL = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
NODE, OTHER_NODE = "http://one:8081", "http://two:8081"


class FakeUser(ConnectedUser):
    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self.accepts = True
        self.stays = True
        self.channels: set[str] = {CHANNEL}
        self.delivered: list[tuple[str, Row | None]] = []
        self.checks = 0

    @property
    def connected_at(self) -> int:
        return 5

    @property
    def messages(self) -> Messages:
        return self._messages

    @property
    def here(self) -> bool:
        return self.stays

    def is_subscribed(self, channel_id: str) -> bool:
        return channel_id in self.channels

    def deliver(self, notification: Notification, row: Row | None) -> bool:
        if self.accepts:
            self.delivered.append((notification.version, row))
        return self.accepts

    async def hand_over(self, notification: Notification, row: Row | None) -> bool:
        return self.deliver(notification, row)

    def check_storage(self) -> bool:
        self.checks += 1
        return True

    def leave(self, code: int, reason: str = "") -> None:
        self.stays = False


class FakeNodes(Nodes):
    def __init__(self) -> None:
        self.own_id = NODE
        self.push_answer = NodeAnswer.DONE
        self.check_answer = NodeAnswer.DONE
        self.calls: list[tuple[str, str]] = []
        self.pushed: list[Notification] = []

    async def push(self, node_id: str, notification: Notification, row: Row | None) -> NodeAnswer:
        self.calls.append(("push", node_id))
        self.pushed.append(notification)
        return self.push_answer

    async def check(self, node_id: str, uaid: str) -> NodeAnswer:
        self.calls.append(("check", node_id))
        return self.check_answer


class House:
    """One endpoint and what is around it."""

    def __init__(self, store: PushStore, engine: MemoryEngine, clock: ManualClock) -> None:
        self.store = store
        self.engine = engine
        self.clock = clock
        self.nodes = FakeNodes()
        self.user: FakeUser | None = None

    def find(self, uaid: str) -> FakeUser | None:
        return self.user

    def connect(self) -> FakeUser:
        self.user = FakeUser(self.store.current)
        return self.user

    async def record(self, node_id: str | None = NODE) -> None:
        await self.store.users.create(UAID, node_id or NODE, 5, "message")
        await self.store.current.add_channel(UAID, CHANNEL)
        if node_id is None:
            record = await self.store.users.get(UAID)
            assert record is not None
            await self.store.users.clear_node(record)

    def router(self, *, store_first: bool) -> WebPushRouter:
        return WebPushRouter(self.store, self, self.nodes, store_first=store_first)

    async def send(self, *, store_first: bool, ttl: int = 60) -> Outcome:
        router = self.router(store_first=store_first)
        notification = Notification(
            uaid=UAID,
            channel_id=CHANNEL,
            version="version",
            ttl=ttl,
            timestamp=int(self.clock()),
            sort_time=int(self.clock() * 1e6),
        )
        self.engine.calls.clear()
        return await router.route(await router.find(UAID, CHANNEL), notification)

    @property
    def stored(self) -> int:
        rows = self.engine.tables["message"].items
        return sum(1 for key in rows if key[1] != " ")

    async def node_on_record(self) -> str | None:
        record = await self.store.users.get(UAID)
        return record.node_id if record else None


@pytest.fixture
async def house() -> House:
    clock = ManualClock()
    engine = MemoryEngine(clock)
    store = await PushStore.open(engine, TablePlan(), key_hash="", clock=clock)
    return House(store, engine, clock)


BOTH = pytest.mark.parametrize("store_first", [True, False], ids=["store-first", "bypass"])

# ── who is meant ────────────────────────────────────────────────────────────────────────────────


async def test_a_user_agent_of_this_worker_is_found_without_storage(house: House) -> None:
    user = house.connect()
    recipient = await house.router(store_first=True).find(UAID, CHANNEL)
    assert recipient == Recipient(user.messages, user)
    assert house.engine.calls == []


async def test_an_unknown_user_is_410_103(house: House) -> None:
    with pytest.raises(PushError) as caught:
        await house.router(store_first=True).find(UAID, CHANNEL)
    assert (caught.value.status, caught.value.errno) == (410, 103)


async def test_an_unknown_channel_is_410_106(house: House) -> None:
    await house.record()
    with pytest.raises(PushError) as caught:
        await house.router(store_first=True).find(UAID, OTHER)
    assert (caught.value.status, caught.value.errno) == (410, 106)


async def test_a_user_of_an_unknown_table_is_dropped_with_410_106(house: House) -> None:
    await house.store.users.create(UAID, NODE, 5, "message_2011_01")
    with pytest.raises(PushError) as caught:
        await house.router(store_first=True).find(UAID, CHANNEL)
    assert caught.value.errno == 106
    assert await house.store.users.get(UAID) is None


async def test_a_user_that_gets_a_table_meanwhile_is_not_dropped(house: House) -> None:
    await house.store.users.create(UAID, NODE, 5, "message_2011_01")
    record = await house.store.users.get(UAID)
    assert record is not None
    await house.store.users.move(UAID, NODE, 5, old="message_2011_01", new="message")
    assert not await house.store.drop_user(record)
    assert await house.store.users.get(UAID) is not None


async def test_a_user_behind_a_bridge_is_400_108_and_its_record_left_alone(house: House) -> None:
    await house.record()
    house.engine.tables["router"].items[UAID,]["router_type"] = "apns"
    with pytest.raises(PushError) as caught:
        await house.router(store_first=True).find(UAID, CHANNEL)
    assert (caught.value.status, caught.value.errno) == (400, 108)
    assert await house.store.users.get(UAID) is not None


async def test_a_channel_the_connection_does_not_know_yet_is_looked_up(house: House) -> None:
    await house.record()
    house.connect().channels = set()
    recipient = await house.router(store_first=True).find(UAID, CHANNEL)
    assert recipient.user is None
    assert recipient.record is not None


# ── connected to this worker ────────────────────────────────────────────────────────────────────


async def test_store_first_commits_what_a_connected_user_agent_gets(house: House) -> None:
    user = house.connect()
    assert await house.send(store_first=True) is Outcome.DELIVERED
    ((version, row),) = user.delivered
    assert version == "version"
    assert row is not None
    assert house.stored == 1
    assert house.nodes.calls == []


async def test_bypass_never_touches_storage_for_a_connected_user_agent(house: House) -> None:
    user = house.connect()
    assert await house.send(store_first=False) is Outcome.DELIVERED
    assert user.delivered == [("version", None)]
    assert house.engine.calls == []


@BOTH
async def test_ttl_0_never_touches_storage(house: House, store_first: bool) -> None:
    user = house.connect()
    assert await house.send(store_first=store_first, ttl=0) is Outcome.DELIVERED
    assert user.delivered == [("version", None)]
    user.accepts = False
    assert await house.send(store_first=store_first, ttl=0) is Outcome.DISCARDED
    assert house.engine.calls == []


@BOTH
async def test_what_a_busy_user_agent_cannot_take_is_stored_and_its_node_told(
    house: House, store_first: bool
) -> None:
    await house.record()
    house.connect().accepts = False
    assert await house.send(store_first=store_first) is Outcome.DELIVERED
    assert house.stored == 1
    assert house.nodes.calls == [("check", NODE)]


async def test_a_user_agent_that_left_during_the_commit_is_looked_for_elsewhere(
    house: House,
) -> None:
    await house.record(OTHER_NODE)
    house.connect().stays = False
    await house.send(store_first=True)
    assert house.nodes.calls == [("check", OTHER_NODE)]


@BOTH
async def test_a_message_that_cannot_be_stored_is_an_error(house: House, store_first: bool) -> None:
    house.connect().accepts = False
    house.engine.failures.append(Throttled("full"))
    with pytest.raises(Throttled):
        await house.send(store_first=store_first)


# ── on another node ─────────────────────────────────────────────────────────────────────────────


@BOTH
async def test_the_node_on_record_takes_it(house: House, store_first: bool) -> None:
    await house.record(OTHER_NODE)
    assert await house.send(store_first=store_first) is Outcome.DELIVERED
    assert house.nodes.calls == [("push", OTHER_NODE)]
    assert house.stored == int(store_first)
    assert house.nodes.pushed[0].stored == ("message" if store_first else None)


@BOTH
async def test_ttl_0_is_handed_over_and_never_stored(house: House, store_first: bool) -> None:
    await house.record(OTHER_NODE)
    assert await house.send(store_first=store_first, ttl=0) is Outcome.DELIVERED
    assert house.nodes.calls == [("push", OTHER_NODE)]
    assert house.stored == 0


@BOTH
@pytest.mark.parametrize("answer", [NodeAnswer.ABSENT, NodeAnswer.UNREACHABLE])
async def test_a_node_without_the_user_agent_is_cleared_from_the_record(
    house: House, store_first: bool, answer: NodeAnswer
) -> None:
    await house.record(OTHER_NODE)
    house.nodes.push_answer = house.nodes.check_answer = answer
    assert await house.send(store_first=store_first) is Outcome.STORED
    assert await house.node_on_record() is None
    assert house.stored == 1
    assert house.nodes.calls == [("push", OTHER_NODE)]


@pytest.mark.parametrize("answer", [NodeAnswer.BUSY, NodeAnswer.SILENT])
async def test_a_busy_or_silent_node_keeps_its_place_and_is_told_to_look(
    house: House, answer: NodeAnswer
) -> None:
    await house.record(OTHER_NODE)
    house.nodes.push_answer = answer
    assert await house.send(store_first=False) is Outcome.DELIVERED
    assert await house.node_on_record() == OTHER_NODE
    assert house.nodes.calls == [("push", OTHER_NODE), ("check", OTHER_NODE)]
    assert house.stored == 1


@BOTH
async def test_a_user_that_is_away_gets_it_stored(house: House, store_first: bool) -> None:
    await house.record(None)
    assert await house.send(store_first=store_first) is Outcome.STORED
    assert house.stored == 1
    assert house.nodes.calls == []


@BOTH
async def test_ttl_0_for_a_user_that_is_away_is_discarded(house: House, store_first: bool) -> None:
    await house.record(None)
    assert await house.send(store_first=store_first, ttl=0) is Outcome.DISCARDED
    assert house.stored == 0


async def test_a_user_that_reconnected_meanwhile_is_found_by_the_second_look(house: House) -> None:
    await house.record(OTHER_NODE)

    class Reconnecting(FakeNodes):
        async def push(
            self, node_id: str, notification: Notification, row: Row | None
        ) -> NodeAnswer:
            record = await house.store.users.get(UAID)
            assert record is not None
            await house.store.users.connect(record, NODE, 6)
            self.calls.append(("push", node_id))
            return NodeAnswer.ABSENT

    house.nodes = Reconnecting()
    await house.send(store_first=False)
    assert house.nodes.calls == [("push", OTHER_NODE), ("check", NODE)]
    assert await house.node_on_record() == NODE


async def test_a_user_that_vanished_meanwhile_is_410_105(house: House) -> None:
    await house.record(OTHER_NODE)

    class Vanishing(FakeNodes):
        async def push(
            self, node_id: str, notification: Notification, row: Row | None
        ) -> NodeAnswer:
            await house.store.users.drop(UAID)
            return NodeAnswer.BUSY

    house.nodes = Vanishing()
    with pytest.raises(PushError) as caught:
        await house.send(store_first=False)
    assert (caught.value.status, caught.value.errno) == (410, 105)


async def test_a_stale_node_found_only_by_the_second_look_is_cleared_too(house: House) -> None:
    await house.record(OTHER_NODE)
    house.nodes.push_answer = NodeAnswer.BUSY
    house.nodes.check_answer = NodeAnswer.UNREACHABLE
    assert await house.send(store_first=False) is Outcome.STORED
    assert await house.node_on_record() is None


async def test_a_record_that_cannot_be_read_again_leaves_the_message_stored(house: House) -> None:
    await house.record(None)
    router = house.router(store_first=False)
    recipient = await router.find(UAID, CHANNEL)
    notification = Notification(uaid=UAID, channel_id=CHANNEL, version="v", ttl=9, sort_time=1)
    original = house.engine.tables["router"].get

    async def failing(key: object) -> None:
        raise Throttled("reads are throttled")

    house.engine.tables["router"].get = failing  # type: ignore[method-assign]
    assert await router.route(recipient, notification) is Outcome.STORED
    house.engine.tables["router"].get = original  # type: ignore[method-assign]
    assert house.stored == 1
