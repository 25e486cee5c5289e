"""An export goes into every table: again, in parts, after an interruption, in whichever order."""

import itertools
import json
import random
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from channelstats.counting import Counting
from channelstats.ingest import export_import, export_reader
from channelstats.ingest.export_import import ImportOptions, ImportResult
from channelstats.ingest.export_time import Evidence, ReadUpTo
from channelstats.ingest.runs import Event, StepProgress
from channelstats.slack.export import Problem
from channelstats.tables.configuration import Counts
from channelstats.tables.directory import FirstPost
from channelstats.tables.exclusion import digest
from support.channelstats.house import EXAMPLE, NOW, House, house
from support.channelstats.random_workspace import Maker, settings
from support.channelstats.workspace import Raw, Workspace, write_folder, write_linked, write_zip
from support.soak import slow_after

A, B, C = "UALICE", "UBOB", "UCARA"


def message(number: int, user: str | None = A, **fields: Any) -> Raw:
    raw = {"type": "message", "ts": f"17000000{number:02d}.000000", "text": "a b", **fields}
    return raw if user is None else {**raw, "user": user}


def ts(number: int) -> str:
    return str(message(number)["ts"])


def workspace(**messages: list[Raw]) -> Workspace:
    """Channels by name, with their messages; each channel's ID is C and its name in capitals."""
    channels = [
        {"id": f"C{name.upper()}", "name": name, "created": 1, "members": [A, B]}
        for name in messages
    ]
    users = [{"id": uid, "name": uid.lower()} for uid in (A, B)]
    return Workspace(
        users, channels, {f"C{name.upper()}": found for name, found in messages.items()}
    )


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Writes a workspace as a zip; returns its path."""
    numbers = itertools.count()

    def write(of: Workspace, **more: object) -> Path:
        files = of.files() | {
            f"{name}.json": json.dumps(content).encode() for name, content in more.items()
        }
        return write_zip(files, tmp_path / f"export{next(numbers)}.zip")

    return write


# ── the address of the workspace ─────────────────────────────────────────────────────────────────


async def test_the_workspace_is_the_one_that_most_files_are_linked_to(
    empty: House, tmp_path: Path
) -> None:
    links = ["https://other.slack.com/a", *["https://acme.slack.com/files/a"] * 2]
    await empty.take_in(write_linked(EXAMPLE, tmp_path / "export", *links))
    assert await empty.tables.configuration.slack_name() == "acme"
    assert await empty.tables.configuration.slack_name("given") == "given"


async def test_of_two_exports_the_more_recent_one_says_the_workspace(
    empty: House, written: Any
) -> None:
    def of(name: str, number: int) -> Path:
        link = f"https://{name}.slack.com/files/a"
        path: Path = written(workspace(one=[message(number, files=[{"permalink": link}])]))
        return path

    for path in (of("new", 20), of("old", 10)):
        await empty.take_in(path)
        assert await empty.tables.configuration.slack_name() == "new"
    await empty.take_in(of("newer", 30))
    assert await empty.tables.configuration.slack_name() == "newer"


# ── what is reported ─────────────────────────────────────────────────────────────────────────────


async def test_progress_is_reported_channel_by_channel(empty: House) -> None:
    events: list[Event] = []
    result = await empty.take_in(EXAMPLE, on_event=events.append)
    assert events == [
        StepProgress("messages", done=0, total=2907, channel="dev", messages=0),
        StepProgress("messages", done=884, total=2907, channel="general", messages=6),
    ]
    read = ReadUpTo(1_710_633_600, Evidence.NEWEST)
    newest = "1710630900.001500"
    assert result == ImportResult(2, messages=15, changed=15, newest=newest, read=read)


async def test_what_is_broken_is_told_and_the_rest_is_taken_in(empty: House, written: Any) -> None:
    of = workspace(one=[message(1), message(2, ts="0000000000.000000"), message(3, ts=None)])
    of.messages["CONE"] += [message(4, ts="9999999999.000000"), message(5, text=7), message(6, C)]
    events: list[Event] = []
    result = await empty.take_in(written(of), on_event=events.append)
    problems = [str(event) for event in events if isinstance(event, Problem)]
    assert problems == [
        "one/2024-01-01.json: 1 left out: text is a number, expected a text",
        "one/2024-01-01.json: 2 left out: ts: before the year 2000, or in the future",
        "one/2024-01-01.json: 1 left out: ts: expected ten digits, a point, six digits",
    ]
    assert (result.channels, result.messages, result.changed) == (1, 2, 2)
    assert (result.problems, result.newest) == (3, ts(6))
    assert sorted(await empty.items("Message")) == [f"CONE_{ts(1)}", f"CONE_{ts(6)}"]
    assert await empty.tables.watermarks.get("CONE") == 1700000006


async def test_an_author_who_is_none_is_told(empty: House, written: Any) -> None:
    events: list[Event] = []
    of = workspace(one=[message(1), message(2, "u0lower"), message(3, None, bot_id="B1")])
    result = await empty.take_in(written(of), on_event=events.append)
    assert [str(event) for event in events if isinstance(event, Problem)] == [
        "one/2024-01-01.json: 1 without an author: user: 'u0lower' is not the ID of a user"
    ]
    assert result.messages == 3


# ── again, and in parts ──────────────────────────────────────────────────────────────────────────


async def test_a_second_time_no_channel_is_read_and_nothing_changes(empty: House) -> None:
    first = await empty.take_in(EXAMPLE)
    before = await empty.everything()
    events: list[Event] = []
    again = await empty.take_in(EXAMPLE, on_event=events.append)
    assert (events, again.changed) == ([], 0)
    assert await empty.everything() == before
    assert (again.channels, again.messages, again.newest) == (2, first.messages, first.newest)
    assert again.read == first.read
    assert (await empty.take_in(EXAMPLE)).messages == first.messages


async def test_what_was_removed_since_comes_again(empty: House) -> None:
    await empty.take_in(EXAMPLE)
    messages = empty.tables.messages
    [row, *_] = [row async for rows in messages.pages() for row in rows]
    await messages.delete([row])
    await messages.close_days()
    assert (await empty.take_in(EXAMPLE)).changed == 1
    assert row.cid_ts in await messages.known([row.cid_ts])


@pytest.mark.parametrize("changed", ["options", "rows", "zone"])
async def test_channels_are_read_again_where_that_could_change_anything(
    empty: House, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await empty.take_in(EXAMPLE)
    options = ImportOptions()
    if changed == "options":
        options = ImportOptions(include_private=True)
    elif changed == "rows":
        monkeypatch.setattr(export_import, "ROWS_VERSION", 0)
    else:
        monkeypatch.setattr(empty.tables, "zone", ZoneInfo("Asia/Tokyo"))
    events: list[Event] = []
    await empty.take_in(EXAMPLE, options=options, on_event=events.append)
    assert any(isinstance(event, StepProgress) for event in events)


async def test_problems_are_reported_each_time(empty: House, tmp_path: Path) -> None:
    files = {**workspace(one=[message(1)]).files(), "one/2024-03-20.json": b"{"}
    path = write_zip(files, tmp_path / "broken.zip")
    problems = [(await empty.take_in(path)).problems for _ in range(2)]
    assert problems == [1, 1]


class Interrupted(Exception):
    """Ends a run from its report."""


@pytest.mark.parametrize("stop_after", slow_after(2, (0, 3, 5, 7)))
async def test_an_interrupted_import_goes_on(
    empty: House, tmp_path: Path, stop_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_reader, "ROWS", 3)
    reports = itertools.count()

    def interrupt(_: Event) -> None:
        if next(reports) == stop_after:
            raise Interrupted

    with suppress(Interrupted):
        await empty.take_in(EXAMPLE, on_event=interrupt)
    result = await empty.take_in(EXAMPLE)
    assert (result.channels, result.newest) == (2, "1710630900.001500")
    async with house(tmp_path / "whole") as whole:
        await whole.take_in(EXAMPLE)
        assert await empty.everything() == await whole.everything()


async def test_an_import_that_goes_on_knows_the_files_of_the_channels_that_are_done(
    empty: House, written: Any
) -> None:
    def linked(number: int, name: str) -> Raw:
        return message(number, files=[{"permalink": f"https://{name}.slack.com/files/a"}])

    path = written(workspace(one=[linked(1, "acme"), linked(2, "acme")], two=[linked(3, "other")]))

    def interrupt(event: Event) -> None:
        if isinstance(event, StepProgress) and event.channel == "two":
            raise Interrupted

    with pytest.raises(Interrupted):
        await empty.take_in(path, on_event=interrupt)
    await empty.take_in(path)
    assert await empty.tables.configuration.slack_name() == "acme"


async def test_an_interrupted_import_reads_done_channels_no_more(empty: House) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, StepProgress) and event.channel == "general":
            raise Interrupted

    with pytest.raises(Interrupted):
        await empty.take_in(EXAMPLE, on_event=interrupt)
    events: list[Event] = []
    result = await empty.take_in(EXAMPLE, on_event=events.append)
    assert events == [StepProgress("messages", done=884, total=2907, channel="general", messages=0)]
    assert (result.channels, result.messages) == (2, 9)


@pytest.mark.parametrize("seed", slow_after(2, range(4)))
async def test_overlapping_exports_leave_the_same_in_either_order(
    tmp_path: Path, seed: int
) -> None:
    """Two exports of one workspace, the second of which is later and knows more. When a row was
    read that has not changed since is all that tells the orders apart.
    """
    rng = random.Random(seed)
    later = Maker(rng, settings(rng)).workspace(40)
    earlier = Workspace(later.users, later.channels)
    for cid, raws in later.messages.items():
        kept = sorted({raw["ts"]: raw for raw in raws}.values(), key=lambda raw: str(raw["ts"]))
        later.messages[cid] = kept[len(kept) // 4 :]
        earlier.messages[cid] = [dict(raw) for raw in kept[: len(kept) // 2]]
        for raw in earlier.messages[cid]:
            if rng.random() < 0.5:
                raw.pop("reactions", None)
    paths = [
        write_zip(of.files(), tmp_path / name)
        for of, name in ((earlier, "earlier.zip"), (later, "later.zip"))
    ]
    found = []
    for number, order in enumerate((paths, paths[::-1])):
        async with house(tmp_path / str(number)) as opened:
            for path in order:
                await opened.take_in(path, now=1_800_000_000)
            everything = await opened.everything()
            for item in everything["Message"].values():
                del item["fetched_at"]
            found.append(everything)
    assert found[0] == found[1]


async def test_a_later_export_replaces_and_an_earlier_one_completes(
    empty: House, written: Any
) -> None:
    earlier = workspace(one=[message(1), message(2, reactions=[{"name": "a", "users": [B]}])])
    later = workspace(one=[message(2, text="a b c"), message(9)])
    later.channels[0]["members"] = [A]
    later.users[0]["name"] = "renamed"
    for of in (later, earlier):
        await empty.take_in(written(of))
    messages = await empty.items("Message")
    assert sorted(messages) == [f"CONE_{ts(number)}" for number in (1, 2, 9)]
    assert messages[f"CONE_{ts(2)}"]["word_count"] == 3
    assert "reactions" not in messages[f"CONE_{ts(2)}"]
    assert (await empty.tables.users.all())[A].user_name == "renamed"
    assert (await empty.tables.channels.all())["CONE"].members == 1
    assert await empty.tables.bulk.get("CONE") == A
    assert await empty.tables.members_log.samples("CONE") == [(1700000002, 2), (1700000009, 1)]


async def test_an_export_older_than_the_tables_adds_who_and_what_was_missing(
    empty: House, written: Any
) -> None:
    await empty.take_in(written(workspace(one=[message(9)])))
    older = workspace(two=[message(1)])
    older.users = [{"id": A, "name": "old name"}, {"id": C, "name": "cara"}]
    await empty.take_in(written(older))
    assert {uid: user.user_name for uid, user in (await empty.tables.users.all()).items()} == {
        A: "ualice",
        B: "ubob",
        C: "cara",
    }
    assert sorted(await empty.tables.channels.all()) == ["CONE", "CTWO"]
    configuration = empty.tables.configuration
    assert (await configuration.get("channel_names"))["names"] == "one#two"
    assert (await configuration.counts()).all_users == 2


# ── how recent an export is ──────────────────────────────────────────────────────────────────────


EDITED: Raw = {"text": "a b c", "edited": {"user": A, "ts": ts(20)}}


@pytest.mark.parametrize("newest", [9, 3])
@pytest.mark.parametrize("hours", [1, 0, -1])
async def test_of_two_exports_the_dates_of_their_files_say_which_is_the_later(
    empty: House, tmp_path: Path, newest: int, hours: int
) -> None:
    """The second one lacks a message, and another one was edited; its newest message is the same,
    or, where that was the one that is gone, older.
    """
    written = datetime(2024, 3, 1, 12, tzinfo=UTC)
    one = [message(1), message(2, reactions=[{"name": "a", "users": [B]}]), message(3), message(9)]
    other = [message(1, **EDITED), message(2), *([message(9)] if newest == 9 else [message(3)])]
    first = write_zip(workspace(one=one).files(), tmp_path / "1.zip", written=written)
    at = written + timedelta(hours=hours * 25)
    second = write_zip(workspace(one=other).files(), tmp_path / "2.zip", written=at)
    assert (await empty.take_in(first)).is_ordered
    result = await empty.take_in(second)
    messages = await empty.items("Message")
    is_newer, is_same = hours > 0, newest == 9
    assert result.is_ordered is (hours != 0 if is_same else hours <= 0)
    is_edited = messages[f"CONE_{ts(1)}"]["word_count"] == 3
    gone = {key for key, item in messages.items() if item.get("deleted")}
    assert is_edited is (not result.is_ordered or (is_newer and is_same))
    assert gone == ({f"CONE_{ts(3)}"} if is_newer and is_same else set())
    assert ("reactions" in messages[f"CONE_{ts(2)}"]) is not (is_newer and is_same)
    before = await empty.everything()
    assert (await empty.take_in(second)).changed == 0
    assert await empty.everything() == before


async def test_exports_that_nothing_orders_are_merged_message_by_message(
    empty: House, tmp_path: Path
) -> None:
    """Folders, whose files say nothing of when they were written."""
    reacted: Raw = {"reactions": [{"name": "a", "users": [B]}]}
    pairs = [
        [message(1, **EDITED), message(2), message(3, **reacted), message(9)],
        [message(1), message(2, **reacted), message(3), message(4), message(9)],
    ]
    results = [
        await empty.take_in(write_folder(workspace(one=of).files(), tmp_path / str(number)))
        for number, of in enumerate(pairs)
    ]
    assert [result.is_ordered for result in results] == [True, False]
    messages = await empty.items("Message")
    assert messages[f"CONE_{ts(1)}"]["word_count"] == 3
    assert [messages[f"CONE_{ts(n)}"]["reaction_count"] for n in (2, 3)] == [1, 1]
    assert not any(item.get("deleted") for item in messages.values())
    assert len(messages) == 5


async def test_what_a_broken_file_lacks_was_not_deleted(empty: House, tmp_path: Path) -> None:
    first = workspace(one=[message(n) for n in range(10)])
    second = workspace(one=[*first.messages["CONE"], message(20)]).files()
    second["one/2024-01-01.json"] = second["one/2024-01-01.json"][:-40]
    await empty.take_in(write_zip(first.files(), tmp_path / "1.zip"))
    await empty.take_in(write_zip(second, tmp_path / "2.zip"))
    assert not any(item.get("deleted") for item in (await empty.items("Message")).values())


@pytest.mark.parametrize(("missing", "deleted"), [(5, 5), (9, 9), (12, 0)])
async def test_where_most_messages_are_missing_none_was_deleted(
    empty: House, written: Any, missing: int, deleted: int
) -> None:
    """As where a program writes the head of an old thread without what was said around it."""
    events: list[Event] = []
    every = [message(n) for n in range(20)]
    await empty.take_in(written(workspace(one=every)))
    later = [every[0], *every[missing + 1 :], message(30)]
    await empty.take_in(written(workspace(one=later)), on_event=events.append)
    found = (await empty.items("Message")).values()
    assert sum(bool(item.get("deleted")) for item in found) == deleted
    problems = [str(event) for event in events if isinstance(event, Problem)]
    assert problems == (
        []
        if deleted
        else ["one: 12 messages stored before are not in this export, and not taken for deleted"]
    )


# ── what is chosen ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ImportOptions(), {"CONE"}),
        (ImportOptions(include_private=True), {"CONE", "G1"}),
        (ImportOptions(include_dms=True), {"CONE", "D1", "G2"}),
        (ImportOptions(include_private=True, include_dms=True), {"CONE", "G1", "D1", "G2"}),
    ],
)
async def test_private_channels_and_messages_are_taken_in_on_demand(
    empty: House, tmp_path: Path, options: ImportOptions, expected: set[str]
) -> None:
    files = workspace(one=[message(1)]).files()
    for name, about in (
        ("groups", {"id": "G1", "name": "secret"}),
        ("dms", {"id": "D1", "members": [A, B]}),
        ("mpims", {"id": "G2", "name": "mpdm"}),
    ):
        files[f"{name}.json"] = json.dumps([about]).encode()
        files[f"{about.get('name', 'D1')}/2024-01-01.json"] = json.dumps([message(1)]).encode()
    result = await empty.take_in(write_zip(files, tmp_path / "x.zip"), options=options)
    assert sum(result.left_out.values()) == 4 - len(expected)
    assert {item["slack_cid"] for item in (await empty.items("Message")).values()} == expected
    channels = await empty.tables.channels.all()
    assert set(channels) == expected
    if "D1" in channels:
        assert (channels["D1"].is_im, channels["D1"].name) == (True, "D1")
    if "G1" in channels:
        assert (channels["G1"].is_group, channels["G1"].is_private) == (True, True)


@pytest.mark.parametrize("again", [False, True])
async def test_people_and_channels_that_are_left_out_are_in_no_table(
    empty: House, written: Any, again: bool
) -> None:
    of = workspace(
        one=[
            message(1, B),
            message(2, A, thread_ts=ts(1), parent_user_id=B),
            message(3, A, text=f"<@{B}>", reactions=[{"name": "a", "users": [B, C], "count": 2}]),
            message(4, C, replies=[{"user": B, "ts": ts(5)}, {"user": A, "ts": ts(6)}]),
            message(7, "UGONE", user_profile={"name": "gone"}),
        ],
        two=[message(1, A)],
    )
    await empty.tables.configuration.add_forgotten(frozenset([digest("UGONE")]))
    options = ImportOptions(exclude_channels=frozenset({"two"}), exclude_people=frozenset({"ubob"}))
    if again:  # now with something stored
        first = workspace(one=[message(9, A)], two=[])
        await empty.take_in(written(first), options=options)
    await empty.take_in(written(of), options=options)
    everything = await empty.everything()
    del everything["Configuration"]
    assert B not in repr(everything)
    assert "UGONE" not in repr(everything)
    assert "CTWO" not in repr(everything)
    messages = everything["Message"]
    assert messages[f"CONE_{ts(3)}"]["reactions"] == f"a:{C}"
    assert messages[f"CONE_{ts(3)}"]["reaction_count"] == 1
    assert messages[f"CONE_{ts(4)}"]["replies"] == f"{A}:{ts(6)}"
    assert await empty.tables.bulk.get("CONE") == A


# ── people ───────────────────────────────────────────────────────────────────────────────────────


async def test_whoever_is_in_no_list_is_known_by_a_profile_beside_a_message(
    empty: House, written: Any
) -> None:
    profile = {"name": "cara", "display_name": "Cara", "email": "cara@mail.example"}
    of = workspace(one=[message(1, C, user_profile=profile), message(2, A, user_profile=profile)])
    await empty.take_in(written(of))
    users = await empty.items("User")
    assert users[C] == {
        "slack_uid": C,
        "user_name": "cara",
        "display_name": "Cara",
        "is_stranger": True,
        "unlisted": True,
        "deleted": False,
        "admin": False,
        "insert_timestamp": int(NOW),
    }
    assert users[A]["user_name"] == "ualice"
    assert (await empty.tables.configuration.counts()).all_users == 2


async def test_of_users_who_are_new_nothing_is_read(
    empty: House, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    handle = empty.tables.users._table
    read = handle.batch_get

    async def counted(keys: Any) -> Any:
        keys = list(keys)
        asked.extend(keys)
        return await read(keys)

    monkeypatch.setattr(handle, "batch_get", counted)
    of = workspace(one=[message(1)])
    await empty.take_in(written(of))
    assert asked == []
    await empty.take_in(written(of))
    assert sorted(asked) == [(A,), (B,)]


async def test_counts_are_of_the_list_and_kept_by_date(empty: House, written: Any) -> None:
    of = workspace(one=[message(1)])
    of.users += [
        {"id": "UGONE", "deleted": True},
        {"id": "UBOT", "is_bot": True},
        {"id": "USLACKBOT"},
    ]
    await empty.take_in(written(of))
    counts = Counts(active_users=4, all_users=5, active_humans=2)
    assert await empty.tables.configuration.counts() == counts
    assert await empty.tables.configuration.history() == {date(2023, 11, 14): counts}


async def test_without_a_list_of_users_counts_stay(empty: House, tmp_path: Path) -> None:
    await empty.take_in(EXAMPLE)
    files = workspace(one=[message(1)]).files()
    files["users.json"] = b"{"
    events: list[Event] = []
    await empty.take_in(write_zip(files, tmp_path / "x.zip"), on_event=events.append)
    assert any(isinstance(event, Problem) and event.place == "users.json" for event in events)
    assert (await empty.tables.configuration.counts()).all_users == 4


@pytest.mark.parametrize("left", [[], [C]])
async def test_an_archived_channel_has_no_members_and_its_membership_stays(
    empty: House, written: Any, left: list[str]
) -> None:
    of = workspace(one=[message(1)])
    await empty.take_in(written(of))
    of.channels[0] |= {"is_archived": True, "members": left}
    of.messages["CONE"].append(message(2))
    await empty.take_in(written(of))
    channel = (await empty.tables.channels.all())["CONE"]
    assert (channel.is_archived, channel.members) == (True, 0)
    assert await empty.tables.bulk.get("CONE") == "UALICE,UBOB"
    assert await empty.tables.members_log.samples("CONE") == [(1700000001, 2)]
    assert "names" not in await empty.tables.configuration.get("active_channel_names")


# ── first posts ──────────────────────────────────────────────────────────────────────────────────


WITH_BOTS = Counting(include_bots=True)


@pytest.mark.parametrize(("first", "second"), [(Counting(), WITH_BOTS), (WITH_BOTS, Counting())])
async def test_another_way_of_counting_makes_first_posts_anew(
    empty: House, written: Any, first: Counting, second: Counting
) -> None:
    of = workspace(
        one=[message(1, B, subtype="me_message"), message(2, B), message(3, "USLACKBOT")]
    )
    for counting in (first, second):
        await empty.take_in(written(of), counting=counting)
    posts = await empty.tables.first_posts.all()
    bots = {"USLACKBOT": FirstPost(ts(3), "CONE")} if second is WITH_BOTS else {}
    assert posts == {B: FirstPost(ts(1), "CONE"), **bots}


async def test_a_first_post_that_was_deleted_gives_way_to_the_next(
    empty: House, written: Any
) -> None:
    of = workspace(one=[message(1, A), message(2, A), message(3, B, thread_ts=ts(1))])
    await empty.take_in(written(of))
    gone = message(1, "USLACKBOT", subtype="tombstone", thread_ts=ts(1))
    of.messages["CONE"] = [gone, *of.messages["CONE"][1:], message(4)]
    await empty.take_in(written(of))
    assert (await empty.tables.first_posts.all())[A] == FirstPost(ts(2), "CONE")


# ── nothing secret ───────────────────────────────────────────────────────────────────────────────


async def test_no_text_and_no_address_reaches_a_table(empty: House, written: Any) -> None:
    secret = "swordfish"
    of = workspace(
        one=[
            message(
                1,
                text=secret,
                blocks=[{"text": secret}],
                attachments=[{"text": secret}],
                files=[{"id": "F1", "name": f"{secret}.txt", "title": secret, "preview": secret}],
                user_profile={"name": "alice", "email": f"{secret}@mail.example"},
                client_msg_id=secret,
                room={"name": secret, "participant_history": [A]},
            )
        ]
    )
    of.users[0] |= {
        "profile": {"email": f"{secret}@mail.example", "phone": secret},
        "token": secret,
    }
    of.channels[0] |= {"topic": {"value": secret}, "purpose": {"value": secret}}
    events: list[Event] = []
    await empty.take_in(written(of), on_event=events.append)
    assert secret not in repr(await empty.everything())
    assert secret not in repr(events)
