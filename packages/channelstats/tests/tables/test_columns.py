"""Files: the columns of a date, whole or nothing, for their owner alone."""

import asyncio
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channelstats.days import Calendar
from channelstats.tables.columns import (
    ID,
    MESSAGES,
    DayFiles,
    folder_of,
    frame_of,
    joined,
)
from channelstats.tables.message_row import MessageRow, item_of
from support.channelstats.dated import row
from support.channelstats.house import UTC

DAY, NEXT = "2024-03-09", "2024-03-10"
SOME: pl.DataFrame = frame_of(
    [item_of(row(hour, words=hour, cid=f"C{hour % 3}"), Calendar(UTC)) for hour in range(12)]
)
EVERY = MESSAGES.names()

texts = st.text(max_size=8)
rows = st.builds(
    MessageRow,
    slack_cid=st.sampled_from(["C1", "C2"]),
    ts=st.integers(0, 999_999).map(lambda part: f"1709985600.{part:06d}"),
    slack_uid=texts,
    word_count=st.integers(0, 2**40),
    reactions=texts,
    thread_ts=st.sampled_from(["", "1709985600.000000", "nonsense"]),
    replies=texts,
    deleted=st.booleans(),
    fetched_at=st.integers(0, 2**33),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "days" / "channelstats"


@pytest.fixture
def files(folder: Path) -> DayFiles:
    return DayFiles(folder)


def there(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


async def found(files: DayFiles, **versions: str | None) -> tuple[set[str], pl.DataFrame]:
    return await files.read(await files.find({DAY: versions["day"]}), EVERY)


@settings(max_examples=40)
@given(st.lists(rows, max_size=8))
def test_what_was_put_into_a_file_is_read_from_it(of: list[MessageRow]) -> None:
    messages = frame_of([item_of(one, Calendar(UTC)) for one in of])
    with tempfile.TemporaryDirectory() as name:
        files = DayFiles(Path(name))
        asyncio.run(files.put({DAY: messages}, {DAY: "a1"}))
        [(path, _, _)] = files._files()
        again = pl.read_parquet(path)
    assert again.schema == MESSAGES
    assert again.equals(messages)


async def test_of_many_files_some_columns_are_read_in_order_of_dates(files: DayFiles) -> None:
    await files.put({NEXT: SOME.tail(4)}, {NEXT: "a"})
    await files.put({DAY: SOME.head(8)}, {DAY: "a"})
    paths = await files.find({DAY: "a", NEXT: "a"})
    days, messages = await files.read({day: paths[day] for day in (DAY, NEXT)}, ["ts"])
    assert days == {DAY, NEXT}
    assert messages.equals(SOME.select("ts"))


async def test_a_file_of_another_version_or_of_an_open_date_is_none(files: DayFiles) -> None:
    await files.put({DAY: SOME}, {DAY: "a1"})
    assert (await found(files, day="a1"))[0] == {DAY}
    for version in ("", "a", "a12", "b1", None):
        assert await files.find({DAY: version}) == {}


async def test_a_new_file_takes_the_place_of_the_old_one(files: DayFiles, folder: Path) -> None:
    for version in ("a1", "a1", "b2"):
        await files.put({DAY: SOME}, {DAY: version})
        await files.put({NEXT: SOME}, {NEXT: "c3"})
    assert [path.name[:13] for path in there(folder)] == [f"{DAY}-b2", f"{NEXT}-c3"]
    await files.put({NEXT: SOME.head(1)}, {NEXT: "c3"})
    assert len(there(folder)) == 2


@pytest.mark.parametrize("where", [0, 12, 40, 400, -1])
async def test_a_damaged_file_is_none(files: DayFiles, folder: Path, where: int) -> None:
    await files.put({DAY: SOME}, {DAY: "a1"})
    [path] = there(folder)
    whole = path.read_bytes()
    place = where % len(whole)
    for damaged in (
        whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :],
        whole[:place],
        b"",
    ):
        path.write_bytes(damaged)
        assert (await found(files, day="a1"))[0] == set()
    await files.put({DAY: SOME}, {DAY: "a1"})
    assert (await found(files, day="a1"))[1].equals(SOME)


async def test_a_file_of_other_columns_is_none(
    files: DayFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    await files.put({DAY: SOME}, {DAY: "a1"})
    monkeypatch.setattr("channelstats.tables.columns._FORM", "another")
    assert (await found(files, day="a1"))[0] == set()


@pytest.mark.parametrize("name", [f"{NEXT}-a1", f"{DAY}-b2"])
async def test_a_file_renamed_to_another_date_or_version_is_none(
    files: DayFiles, folder: Path, name: str
) -> None:
    await files.put({DAY: SOME}, {DAY: "a1"})
    [path] = there(folder)
    path.rename(path.with_name(path.name.replace(f"{DAY}-a1", name)))
    paths = await files.find({name[:10]: name[11:]})
    assert (len(paths), (await files.read(paths, EVERY))[0]) == (1, set())


async def test_a_file_that_is_gone_meanwhile_is_none(files: DayFiles, folder: Path) -> None:
    await files.put({DAY: SOME}, {DAY: "a1"})
    paths = await files.find({DAY: "a1"})
    await files.drop([DAY])
    assert there(folder) == []
    days, messages = await files.read(paths, EVERY)
    assert (days, messages.height) == (set(), 0)


async def test_only_files_of_the_present_versions_are_kept(files: DayFiles, folder: Path) -> None:
    for day in (DAY, NEXT, "2024-03-11"):
        await files.put({day: SOME}, {day: "a1"})
    (folder / ".part-1234").write_text("what a process that died left")
    (folder / "notes.txt").write_text("somebody else's")
    await files.keep_only({DAY: "a1", NEXT: None})
    assert [path.name[:10] for path in there(folder)] == [DAY, "notes.txt"]


async def test_what_can_neither_be_overwritten_nor_removed_is_reported(
    files: DayFiles, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(path)

    await files.put({DAY: SOME}, {DAY: "a1"})
    [path] = there(folder)
    monkeypatch.setattr(Path, "unlink", refused)
    monkeypatch.setattr(Path, "open", refused)  # modes do not bind every user that tests run as
    assert await files.keep_only({DAY: "b2"}) == [path]
    assert await files.find({DAY: "b2"}) == {}
    monkeypatch.undo()
    assert await files.keep_only({DAY: "b2"}) == []


async def test_pages_of_former_versions_are_removed(files: DayFiles, folder: Path) -> None:
    page = folder / "pages" / "state-key.page"
    page.parent.mkdir(parents=True)
    page.write_bytes(b"a name")
    await files.keep_only({})
    assert not page.exists()


async def test_without_a_folder_that_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for files in (DayFiles(None), DayFiles(tmp_path / "file" / "days")):
        await files.put({DAY: SOME}, {DAY: "a1"})
        await files.keep_only({})
        await files.drop([DAY])
        assert await files.find({DAY: "a1"}) == {}


def test_they_hold_no_text() -> None:
    assert {"text", "files", "name"}.isdisjoint(EVERY)


def test_every_store_has_a_folder_of_its_own(tmp_path: Path) -> None:
    beside = folder_of("sqlite:////var/lib/a.sqlite", "team", tmp_path)
    assert beside == Path("/var/lib/a.sqlite.days/team")
    others = [
        folder_of(store, prefix, tmp_path)
        for store in ("dynamodb://eu-west-1", "dynamodb://eu-west-1?prefix=x")
        for prefix in ("channelstats", "team")
    ]
    assert len(set(others)) == 4
    assert {one.parent for one in others} == {tmp_path / "days"}


def test_they_are_by_time_and_of_rows_of_one_key_the_first_is_taken() -> None:
    same_time = SOME.with_columns(slack_cid=pl.lit("COTHER", ID))
    newer = SOME.head(3).with_columns(word_count=pl.lit(99, pl.Int64))
    found = joined([SOME, same_time, newer, SOME])
    assert found.equals(pl.concat([SOME, same_time]).sort("ts", maintain_order=True))
    assert joined([]).schema == MESSAGES
