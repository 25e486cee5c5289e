"""The table of SimplePush: which version replaces which, and what is deleted when."""

import pytest

from autopush.store import PushStore, TablePlan, UserRecord
from autopush.store.messages import row_of
from autopush.store.tables import storage_table
from autopush.store.users import SIMPLEPUSH
from autopush.webpush.notification import MAX_VERSION, VersionUpdate
from autopush.webpush.stored import Row
from keytables import Engine, StorageFull, TableHandle
from support.memory_engine import MemoryEngine
from support.stored_messages import record_of

UAID, OTHER_UAID = "0123456789abcdef0123456789abcdef", "f" * 32
CHANNEL = "11111111-2222-3333-4444-555555555555"
NODE = "http://one:8081"


def update(number: int, *, channel: str = CHANNEL, data: str | None = None) -> VersionUpdate:
    return VersionUpdate.of(UAID, channel, number, data)


def channel(number: int) -> str:
    return f"{number:08x}-2222-3333-4444-555555555555"


@pytest.fixture
async def table(engine: Engine, store: PushStore) -> TableHandle:
    return await engine.ensure_table(storage_table("storage"))


async def stored(store: PushStore, uaid: str = UAID) -> list[tuple[str, str]]:
    page = await store.versions.read(uaid, None)
    assert page.last is None
    return [(found.row.sort_key, found.notification.version) for found in page.messages]


async def test_a_version_is_stored_with_the_originals_attributes_and_without_its_data(
    store: PushStore, table: TableHandle
) -> None:
    await store.versions.store(update(12, data="text"))
    assert (await table.scan()).items == [{"uaid": UAID, "chid": CHANNEL, "version": 12}]
    [found] = (await store.versions.read(UAID, None)).messages
    assert found.notification == update(12)
    assert found.row == row_of(update(12))


@pytest.mark.parametrize(
    ("before", "then", "kept"),
    [(5, 6, 6), (5, 5, 5), (6, 5, 6), (0, 1, 1), (9, 10, 10), (1, MAX_VERSION, MAX_VERSION)],
)
@pytest.mark.parametrize("method", ["store", "save"])
async def test_only_a_higher_version_replaces_one(
    store: PushStore, before: int, then: int, kept: int, method: str
) -> None:
    await store.versions.store(update(before))
    await getattr(store.versions, method)(update(then))
    assert await stored(store) == [(CHANNEL, f"{CHANNEL}:{kept}")]


async def test_a_version_is_deleted_only_if_it_is_still_the_one_that_was_acked(
    store: PushStore,
) -> None:
    await store.versions.store(update(5))
    row = row_of(update(5))
    await store.versions.store(update(6))
    assert not await store.versions.delete(UAID, row)
    await store.versions.delete_all(UAID, [row])
    assert await stored(store) == [(CHANNEL, f"{CHANNEL}:6")]
    assert await store.versions.delete(UAID, row_of(update(6)))
    assert await stored(store) == []


async def test_a_version_is_found_by_its_row_unless_it_was_replaced(store: PushStore) -> None:
    await store.versions.store(update(5))
    assert await store.versions.find(UAID, row_of(update(5))) == update(5)
    assert await store.versions.find(UAID, row_of(update(4))) is None
    assert await store.versions.find(OTHER_UAID, row_of(update(5))) is None


async def test_removing_a_channel_deletes_its_version(store: PushStore) -> None:
    await store.versions.store(update(5))
    await store.versions.store(update(5, channel=channel(1)))
    await store.versions.remove_channel(UAID, CHANNEL)
    assert await stored(store) == [(channel(1), f"{channel(1)}:5")]


async def test_pages_follow_each_other_and_the_reserved_row_is_none_of_them(
    store: PushStore, table: TableHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autopush.store.versions.PAGE", 3)
    await table.put({"uaid": UAID, "chid": " ", "version": 1})
    for number in range(7):
        await store.versions.store(update(number, channel=channel(number)))
    found, after = [], None
    while True:
        page = await store.versions.read(UAID, after)
        assert page.channels is None
        assert len(page.messages) <= 3
        found += [message.notification.channel_id for message in page.messages]
        if (after := page.last) is None:
            break
    assert found == [channel(number) for number in range(7)]


@pytest.mark.parametrize(
    "row",
    [{"chid": "nonsense", "version": 1}, {"chid": CHANNEL, "version": "1"}, {"chid": CHANNEL}],
)
async def test_a_row_that_cannot_be_read_is_passed_over(
    store: PushStore, table: TableHandle, row: dict[str, str | int]
) -> None:
    await table.put({"uaid": UAID, **row})
    await store.versions.store(update(3, channel=channel(1)))
    assert await stored(store) == [(channel(1), f"{channel(1)}:3")]
    assert await store.versions.find(UAID, Row(row["chid"], f"{CHANNEL}:1")) is None  # type: ignore[arg-type]


async def test_with_a_dropped_user_all_its_versions_go_and_no_others(
    store: PushStore, table: TableHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autopush.store.versions.PAGE", 3)
    await store.users.create_simplepush(UAID, NODE, 5, None)
    for number in range(7):
        await store.versions.store(update(number, channel=channel(number)))
    await store.versions.store(VersionUpdate.of(OTHER_UAID, CHANNEL, 1))
    record = await record_of(store)
    assert await store.drop_user(record)
    assert await store.users.get(UAID) is None
    assert [row["uaid"] for row in (await table.scan()).items] == [OTHER_UAID]


async def test_a_user_that_has_connected_again_is_not_dropped_and_keeps_its_versions(
    store: PushStore,
) -> None:
    await store.users.create_simplepush(UAID, NODE, 5, None)
    await store.versions.store(update(1))
    assert not await store.drop_user(UserRecord(UAID, SIMPLEPUSH, 4, current_month="storage"))
    assert await stored(store) == [(CHANNEL, f"{CHANNEL}:1")]


async def test_a_record_of_simplepush_is_dropped_whatever_month_it_names(
    engine: Engine, store: PushStore
) -> None:
    from autopush.store.tables import router_table

    router = await engine.ensure_table(router_table("router"))
    await router.put(
        {"uaid": UAID, "router_type": SIMPLEPUSH, "connected_at": 5, "current_month": "message"}
    )
    assert await store.drop_user(UserRecord(UAID, SIMPLEPUSH, 5, current_month="storage"))


async def test_the_table_belongs_to_no_month(store: PushStore) -> None:
    assert not store.is_behind(store.versions)
    assert not store.is_expiring(store.versions)
    assert not store.is_superseded(store.versions)
    record = UserRecord(UAID, SIMPLEPUSH, 5, current_month="message_2011_01")
    assert await store.messages_of(record) is store.versions


async def test_a_dropped_table_is_created_again_and_no_user_is_gone_with_it(
    engine: Engine, store: PushStore
) -> None:
    await engine.drop_table("storage")
    assert not await store.is_gone("storage")
    await store.versions.store(update(1))
    assert await stored(store) == [(CHANNEL, f"{CHANNEL}:1")]


async def test_a_nearly_full_disk_takes_no_new_version_and_those_that_were_sent() -> None:
    engine = MemoryEngine()
    store = await PushStore.open(engine, TablePlan(), key_hash="", clock=engine.clock)
    engine.nearly_full = True
    with pytest.raises(StorageFull):
        store.versions.store(update(5))
    await store.versions.save(update(4))
    assert await stored(store) == [(CHANNEL, f"{CHANNEL}:4")]
    await store.versions.delete(UAID, row_of(update(4)))
    assert await stored(store) == []
