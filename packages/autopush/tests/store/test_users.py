"""Router records: what is written when, and which connection may overwrite it."""

import pytest

from autopush.store import PushStore, TablePlan, UserRecord
from keytables import Engine, TableHandle
from support.clocks import ManualClock
from support.stored_messages import record_of

UAID = "0123456789abcdef0123456789abcdef"
NODE, OTHER_NODE = "http://one:8081", "http://two:8081"


@pytest.fixture
async def router(engine: Engine, store: PushStore) -> TableHandle:
    from autopush.store.tables import router_table

    return await engine.ensure_table(router_table("router"))


WAKE_DATA = {"ip": "192.0.2.7", "port": "4711", "mcc": "", "mnc": "", "netid": "home"}


@pytest.mark.parametrize("wake_data", [None, WAKE_DATA])
async def test_a_new_user_of_simplepush_has_no_month_and_its_wake_data_if_it_sent_some(
    store: PushStore, router: TableHandle, wake_data: dict[str, str] | None
) -> None:
    await store.users.create_simplepush(UAID, NODE, 5, wake_data)
    item = await router.get((UAID,))
    assert item is not None
    assert str(item.pop("last_connect")).startswith("202701")
    assert item.pop("wake_data", None) == ({"data": wake_data} if wake_data else None)
    assert item == {
        "uaid": UAID,
        "node_id": NODE,
        "connected_at": 5,
        "router_type": "simplepush",
        "record_version": 1,
    }
    assert (await record_of(store)).wake_data == wake_data


@pytest.mark.parametrize("seen", [None, 202601010001], ids=["this month", "last year"])
async def test_wake_data_is_written_at_each_connect_that_has_some_and_else_stays(
    store: PushStore, router: TableHandle, seen: int | None
) -> None:
    await store.users.create_simplepush(UAID, NODE, 5, None)
    if seen is not None:
        await router.put({**(await router.get((UAID,)) or {}), "last_connect": seen})
    await store.users.connect(await record_of(store), NODE, 6, WAKE_DATA)
    assert (await record_of(store)).wake_data == WAKE_DATA
    assert str((await record_of(store)).last_connect).startswith("202701")
    await store.users.connect(await record_of(store), NODE, 7)
    assert (await record_of(store)).wake_data == WAKE_DATA


async def test_a_newer_connection_takes_over(store: PushStore) -> None:
    await store.users.create(UAID, NODE, 5, "message")
    replaced = await store.users.connect(await record_of(store), OTHER_NODE, 6)
    assert replaced is not None
    assert (replaced.node_id, replaced.connected_at) == (NODE, 5)
    assert (await record_of(store)).node_id == OTHER_NODE
    assert (await record_of(store)).connected_at == 6


@pytest.mark.parametrize("connected_at", [4, 5])
async def test_a_connection_that_is_not_newer_is_refused(
    store: PushStore, connected_at: int
) -> None:
    await store.users.create(UAID, NODE, 5, "message")
    assert not await store.users.connect(await record_of(store), OTHER_NODE, connected_at)
    assert (await record_of(store)).node_id == NODE


async def test_a_connection_gets_the_one_it_really_replaced(store: PushStore) -> None:
    await store.users.create(UAID, NODE, 5, "message")
    read_before = await record_of(store)
    await store.users.connect(read_before, OTHER_NODE, 6)
    replaced = await store.users.connect(read_before, NODE, 7)
    assert replaced is not None
    assert (replaced.node_id, replaced.connected_at) == (OTHER_NODE, 6)


async def test_any_connection_is_newer_than_none(store: PushStore) -> None:
    await store.users.create(UAID, NODE, 5, "message")
    assert await store.users.clear_node(await record_of(store))
    assert await store.users.connect(await record_of(store), OTHER_NODE, 1)


async def test_connecting_does_not_change_other_attributes(
    store: PushStore, router: TableHandle
) -> None:
    await router.put({"uaid": UAID, "router_type": "webpush", "connected_at": 1, "extra": "kept"})
    await store.users.connect(await record_of(store), NODE, 2)
    item = await router.get((UAID,))
    assert item is not None
    assert item["extra"] == "kept"


async def test_a_node_is_cleared_only_for_the_connection_that_was_seen(store: PushStore) -> None:
    await store.users.create(UAID, NODE, 5, "message")
    seen = await record_of(store)
    await store.users.connect(seen, OTHER_NODE, 6)
    assert not await store.users.clear_node(seen)
    assert (await record_of(store)).node_id == OTHER_NODE


async def test_clearing_removes_the_node_and_nothing_else(store: PushStore) -> None:
    await store.users.create(UAID, NODE, 5, "message")
    assert await store.users.clear_node(await record_of(store))
    record = await record_of(store)
    assert (record.node_id, record.connected_at, record.current_month) == (None, 5, "message")


async def test_last_connect_is_written_once_a_month(store: PushStore, clock: ManualClock) -> None:
    await store.users.create(UAID, NODE, 5, "message")
    first = (await record_of(store)).last_connect
    clock.advance(3600)
    await store.users.connect(await record_of(store), NODE, 6)
    assert (await record_of(store)).last_connect == first
    clock.advance(40 * 86_400)
    await store.users.connect(await record_of(store), NODE, 7)
    assert str((await record_of(store)).last_connect).startswith("202702")


@pytest.mark.parametrize(
    "item",
    [
        {"uaid": UAID},
        {"uaid": UAID, "router_type": "webpush"},
        {"uaid": UAID, "connected_at": 5},
        {"uaid": UAID, "router_type": 7, "connected_at": 5},
    ],
)
async def test_an_incomplete_record_is_dropped_and_counts_as_absent(
    store: PushStore, router: TableHandle, item: dict[str, str | int]
) -> None:
    await router.put(dict(item))
    assert await store.users.get(UAID) is None
    assert await router.get((UAID,)) is None


async def test_the_old_name_of_the_month_is_read_too(store: PushStore, router: TableHandle) -> None:
    await router.put(
        {"uaid": UAID, "router_type": "webpush", "connected_at": 1, "curmonth": "message"}
    )
    assert (await record_of(store)).current_month == "message"


async def test_with_a_key_uaids_are_hashed_in_every_table(engine: Engine) -> None:
    clock = ManualClock()
    store = await PushStore.open(engine, TablePlan(), key_hash="k", clock=clock)
    await store.users.create(UAID, NODE, 5, "message")
    await store.current.add_channel(UAID, "11111111-2222-3333-4444-555555555555")
    assert await store.users.get(UAID) is not None
    from autopush.store.tables import message_table, router_table

    for table in (router_table("router"), message_table("message")):
        page = await (await engine.ensure_table(table)).scan()
        assert [len(str(item["uaid"])) for item in page.items] == [64]


# ── users behind a bridge ───────────────────────────────────────────────────────────────────────


async def bridged(store: PushStore) -> UserRecord:
    assert await store.users.register(UAID, "fcm", {"token": "t", "creds": {"k": 1}}, "message")
    return await record_of(store)


async def test_an_update_of_a_registration_replaces_router_data_and_clears_the_failure(
    store: PushStore,
) -> None:
    record = await bridged(store)
    assert await store.users.set_critical_failure(record, "bad")
    assert await store.users.update_registration(record, {"token": "new"})
    updated = await record_of(store)
    assert updated.router_data == {"token": "new"}
    assert updated.critical_failure is None
    assert updated.connected_at > record.connected_at  # in the same millisecond too
    assert updated.current_month == record.current_month


async def test_an_update_of_a_registration_that_has_changed_is_refused(store: PushStore) -> None:
    record = await bridged(store)
    assert await store.users.update_registration(record, {"token": "first"})
    assert not await store.users.update_registration(record, {"token": "second"})
    assert not await store.users.set_router_data(record, {"token": "third"})
    assert (await record_of(store)).router_data == {"token": "first"}


@pytest.mark.parametrize("changed", ["dropped", "moved", "of another type"])
async def test_a_user_gets_another_table_only_while_it_has_the_one_that_was_read(
    store: PushStore, router: TableHandle, changed: str
) -> None:
    record = await bridged(store)
    if changed == "dropped":
        await store.users.drop(UAID)
    elif changed == "moved":
        assert await store.users.set_table(record, "message_2026_12")
    else:
        await router.put({"uaid": UAID, "router_type": "apns", "connected_at": 1})
    before = await router.get((UAID,))
    assert not await store.users.set_table(record, "message_2026_11")
    assert await router.get((UAID,)) == before


async def test_a_user_whose_month_has_the_old_name_gets_another_table(
    store: PushStore, router: TableHandle
) -> None:
    await router.put(
        {"uaid": UAID, "router_type": "gcm", "connected_at": 1, "curmonth": "message_2016_01"}
    )
    assert await store.users.set_table(await record_of(store), "message_2026_11")
    assert (await record_of(store)).current_month == "message_2026_11"
