"""The original's tables into ours: the same as an import of the same workspace, nothing twice."""

from collections.abc import AsyncIterator, Callable
from datetime import date
from pathlib import Path

import pytest

from channelstats.ingest.migration import (
    Migration,
    MigrationResult,
    NothingThere,
    open_source,
)
from channelstats.ingest.runs import Event, OnEvent, ignore_event
from channelstats.slack.export import Problem
from channelstats.stats import Options, Period
from channelstats.tables import Tables
from channelstats.tables.directory import FirstPost
from channelstats.tables.exclusion import add_forgotten, digest
from keytables import Item, Key, Table
from support import dynamo_servers
from support.channelstats import original
from support.channelstats.house import COMPAT, EXAMPLE, NOW, UTC, House, decoded
from support.channelstats.original import INDEXES, PREFIX, TITLE, put
from support.clocks import ManualClock
from support.table_engines import DynamoStore, SqliteStore, Store

pytestmark = pytest.mark.slow

AT = "CGEN_1709573400.000300"
KEPT = (
    "Channel",
    "ChannelConfiguration",
    "ChannelMembersLog",
    "FirstPost",
    "User",
)
"""Tables that are the same however the workspace came in."""


def sqlite(folder: Path) -> Store:
    (folder / "source").mkdir()
    return SqliteStore(folder / "source", ManualClock(NOW))


def ministack(_: Path) -> Store:
    return DynamoStore(dynamo_servers.ministack(), ManualClock(NOW))


@pytest.fixture(params=[sqlite])
async def source(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    """A store with the worked example, imported, and the same in the original's tables."""
    make: Callable[[Path], Store] = request.param
    store = make(tmp_path)
    engine = await store.open()
    house = House(engine, await Tables.open(engine, "channelstats", UTC))
    await house.take_in(EXAMPLE)
    await original.make(house)
    yield house
    await engine.close()
    await store.clear()


async def migrate(
    source: House,
    into: House,
    prefix: str = PREFIX,
    excluded: tuple[str, ...] = (),
    excluded_channels: tuple[str, ...] = (),
    on_event: OnEvent = ignore_event,
) -> MigrationResult:
    older = await open_source(source.engine, prefix, UTC)
    run = Migration(
        older,
        into.tables,
        clock=ManualClock(NOW),
        counting=COMPAT,
        excluded=excluded,
        excluded_channels=excluded_channels,
        on_event=on_event,
    )
    return await run.run()


def without_origin(items: dict[str, Item]) -> dict[str, Item]:
    return {
        key: {name: value for name, value in item.items() if name not in ("fetched_at", "source")}
        for key, item in items.items()
    }


def memberships(items: dict[str, Item]) -> dict[str, Item]:
    return {key: item for key, item in items.items() if " " not in key}


async def messages(of: House) -> dict[str, Item]:
    return without_origin(await of.items("Message"))


@pytest.mark.parametrize("source", [sqlite, ministack], indirect=True)
async def test_the_tables_and_the_report_are_those_of_an_import(
    source: House, empty: House
) -> None:
    result = await migrate(source, empty)
    assert await messages(empty) == await messages(source)
    for name in KEPT:
        assert await empty.items(name) == await source.items(name), name
    assert memberships(await empty.items("BulkStore")) == memberships(
        await source.items("BulkStore")
    )
    for week in (date(2024, 3, 3), date(2024, 3, 10)):
        period, options = Period(week, 7, UTC), Options(COMPAT)
        reports = [decoded(await house.report(period, options)) for house in (source, empty)]
        for report in reports:
            report.pop("input_fingerprint")
        assert reports[0] == reports[1]
    assert (result.read["messages"], result.read["users"]) == (15, 4)
    assert (result.changed, result.problems) == (15, 0)


async def test_the_source_is_never_written_to(source: House, empty: House) -> None:
    before = await original.everything(source.engine)
    await migrate(source, empty)
    assert await original.everything(source.engine) == before
    names = [name for name in await source.engine.table_names() if name.startswith(PREFIX)]
    assert names == sorted(f"{PREFIX}.{name}" for name in original.KEYS)


async def test_a_second_time_nothing_changes(source: House, empty: House) -> None:
    await migrate(source, empty)
    tables = (*KEPT, "Message", "UserCreated", "UserHash")
    before = {name: await empty.items(name) for name in tables}
    assert (await migrate(source, empty)).changed == 0
    assert {name: await empty.items(name) for name in tables} == before


async def test_what_is_known_here_and_more_recent_stays(source: House, empty: House) -> None:
    await empty.take_in(EXAMPLE)
    before = await empty.items("Message")
    result = await migrate(source, empty)
    assert (result.read["messages"], result.changed) == (15, 0)
    assert await empty.items("Message") == before
    assert (await empty.tables.configuration.counts()).active_humans == 3


async def test_what_is_more_recent_there_comes_over(source: House, empty: House) -> None:
    await migrate(source, empty)
    row = original.message((await source.items("Message"))[AT])
    await put(source.engine, "Message", row | {"reactions": "wave;UBOB", "reaction_count": 9})
    assert (await migrate(source, empty)).changed == 1
    assert (await empty.items("Message"))[AT]["reactions"] == "wave:UBOB"


# ── what is wrong with the original's rows ───────────────────────────────────────────────────────


async def test_of_files_nothing_that_they_say_is_kept(source: House, empty: House) -> None:
    row = original.message((await source.items("Message"))[AT])
    await put(source.engine, "Message", row | {"files": original.files()})
    await migrate(source, empty)
    kept = (await empty.items("Message"))[AT]["files"]
    assert kept == (
        '[{"created":1710172800,"extension":"pdf","filetype":"pdf","id":"F1",'
        '"mimetype":"application/pdf","size":12345,"user":"UALICE"}]'
    )
    assert TITLE not in repr(await empty.everything())


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"cid_ts": "nonsense"}, "cid_ts: expected the ID of a channel"),
        ({"cid_ts": "CGEN_12"}, "cid_ts: expected the ID of a channel"),
        ({"cid_ts": "CGEN_0000000001.000000"}, "ts: before the year 2000"),
        ({"cid_ts": "CGEN_9999999999.000000"}, "ts: before the year 2000, or in the future"),
    ],
)
async def test_a_row_that_is_no_message_is_told_and_left_out(
    source: House, empty: House, row: Item, reason: str
) -> None:
    await put(source.engine, "Message", row)
    events: list[Event] = []
    result = await migrate(source, empty, on_event=events.append)
    [problem] = [event for event in events if isinstance(event, Problem)]
    assert result.problems == 1
    assert str(problem).startswith(f"messages: 1 left out: {reason}")
    assert len(await empty.items("Message")) == 15


async def test_what_no_code_here_would_write_is_left_out_of_a_row(
    source: House, empty: House
) -> None:
    await put(
        source.engine,
        "Message",
        {
            "cid_ts": "CGEN_1710000000.000100",
            "user_id": "not an ID",
            "mentions": "UBOB,<script>,UCARA",
            "reactions": "wave;UBOB;,x y;UBOB",
            "replies": "UBOB:1710000001.000100,UBOB:soon",
            "reply_count": 7,
            "thread_ts": "never",
            "parent_user_id": "??",
            "subtype": "<b>",
            "files": "no JSON",
            "text": TITLE,
        },
    )
    await migrate(source, empty)
    assert without_origin(await empty.items("Message"))["CGEN_1710000000.000100"] == {
        "cid_ts": "CGEN_1710000000.000100",
        "ts": "1710000000.000100",
        "date": "2024-03-09",
        "slack_cid": "CGEN",
        "word_count": 0,
        "mentions": "UBOB:UCARA",
        "reactions": "wave:UBOB,xy:UBOB",
        "reaction_count": 0,
        "replies": "UBOB:1710000001.000100",
        "reply_count": 1,
        "subtype": "unknown",
        "is_threadhead": False,
        "is_threaded": False,
    }


# ── what only the original knows ─────────────────────────────────────────────────────────────────


async def test_first_posts_of_messages_that_are_gone_are_kept_and_others_are_judged(
    source: House, empty: House
) -> None:
    gone: Item = {"slack_cid": "CGEN", "message_id": "1500000000.000100", "ts": 1_500_000_000}
    joined: Item = {"slack_cid": "CDEV", "message_id": "1709508540.000100", "ts": 1_709_508_540}
    await put(source.engine, "FirstPost", {"slack_uid": "UALICE", **gone})
    await put(source.engine, "FirstPost", {"slack_uid": "UBOB", **joined})  # does not count
    await migrate(source, empty)
    found = await empty.tables.first_posts.all()
    assert found["UALICE"] == FirstPost("1500000000.000100", "CGEN")
    assert found["UBOB"] == FirstPost("1709508600.000200", "CDEV")
    assert "CGEN" not in await empty.items("FirstPost")
    await migrate(source, empty)
    assert await empty.tables.first_posts.all() == found


async def test_dates_of_accounts_counts_and_previous_names_come_over(
    source: House, empty: House
) -> None:
    about = (await source.items("Channel"))["CGEN"]
    await put(source.engine, "Channel", about | {"channel_key": "lobby"})
    await migrate(source, empty)
    assert (await empty.tables.users_created.all())["UALICE"] == 1_600_000_000
    assert await empty.tables.user_hash.known(["UALICE", "UBOB", "UNEW"]) == {"UALICE", "UBOB"}
    counts = await empty.tables.configuration.counts()
    assert (counts.active_users, counts.all_users, counts.active_humans) == (3, 4, 3)
    assert list((await empty.tables.configuration.history()).values()) == [counts]
    lobby = await empty.tables.channels.named("lobby")
    assert lobby is not None
    assert lobby.slack_cid == "CGEN"


async def test_what_is_known_of_channels_in_no_list_comes_over(source: House, empty: House) -> None:
    await put(source.engine, "ChannelMembersLog", {"slack_cid": "COLD", "ts_1600000000": 7})
    await put(source.engine, "ChannelConfiguration", {"slack_cid": "COLD", "last_message_ts": "5"})
    await put(source.engine, "BulkStore", {"item_id": "COLD", "value": "UBOB,UCARA"})
    await migrate(source, empty)
    assert await empty.tables.members_log.samples("COLD") == [(1_600_000_000, 7)]
    assert await empty.tables.watermarks.get("COLD") == 5
    assert await empty.tables.bulk.get("COLD") == "UBOB,UCARA"


# ── who is left out ──────────────────────────────────────────────────────────────────────────────


async def test_the_forgotten_and_the_excluded_do_not_come_over(source: House, empty: House) -> None:
    await add_forgotten(empty.tables.configuration, frozenset([digest("UBOB")]))
    await migrate(source, empty, excluded=("ali",))
    found = repr(await empty.everything())
    assert "UBOB" not in found
    assert "UALICE" not in found
    assert "UCARA" in found


async def test_channels_that_are_left_out_do_not_come_over(source: House, empty: House) -> None:
    await migrate(source, empty, excluded_channels=("dev",))
    everything = await empty.everything()
    assert "CDEV" not in repr(everything)
    assert "CGEN" in repr(everything)
    assert everything["Configuration"]["channel_names"]["names"] == "general"


async def test_a_name_that_leaves_no_channel_out_is_told(source: House, empty: House) -> None:
    events: list[Event] = []
    hidden = ("dev", "devv", "CNONE")
    await migrate(source, empty, excluded_channels=hidden, on_event=events.append)
    assert [str(event) for event in events if isinstance(event, Problem)] == [
        "exclude_channels: no channel is called 'devv', so none is left out by it"
    ]


# ── our own tables ───────────────────────────────────────────────────────────────────────────────


async def test_our_own_tables_come_over_as_they_are(source: House, empty: House) -> None:
    await add_forgotten(source.tables.configuration, frozenset([digest("UNOBODY")]))
    await migrate(source, empty, prefix="channelstats")
    assert await empty.items("Message") == await source.items("Message")
    for name in KEPT:
        assert await empty.items(name) == await source.items(name), name
    config = empty.tables.configuration
    assert await config.history() == await source.tables.configuration.history()
    assert (await empty.items("Configuration"))["forgotten"] == (
        await source.items("Configuration")
    )["forgotten"]


async def test_a_table_that_is_not_there_is_empty(source: House, empty: House) -> None:
    row = original.message((await source.items("Message"))[AT])
    handle = await source.engine.ensure_table(Table("few.Message", Key("cid_ts"), indexes=INDEXES))
    await handle.put(row)
    result = await migrate(source, empty, prefix="few")
    assert (result.read["messages"], result.read["users"], result.problems) == (1, 0, 0)
    assert set(await empty.items("Message")) == {AT}
    assert [name for name in await source.engine.table_names() if "few" in name] == ["few.Message"]


async def test_without_tables_of_the_prefix_it_says_which_there_are(source: House) -> None:
    with pytest.raises(NothingThere, match="'nothing', only 'channelstats', 'original'"):
        await open_source(source.engine, "nothing", UTC)
