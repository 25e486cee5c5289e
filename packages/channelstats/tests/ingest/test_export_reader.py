"""Reading an export in a process of its own: the same pieces, and no process that stays behind."""

import asyncio
import io
import json
import os
import select
import subprocess
import sys
from contextlib import aclosing
from datetime import date
from pathlib import Path

import pytest

from channelstats.demo.workspace import Size, write_export
from channelstats.ingest import export_pieces, export_reader
from channelstats.ingest.events import ChannelDone, Finished, Reached, Started
from channelstats.ingest.export_import import ExportImport
from channelstats.ingest.export_pieces import Piece, pieces
from channelstats.ingest.export_reader import Ask, Reader, ReaderEnded, answer, reader_of
from channelstats.ingest.message_row import Origin
from channelstats.slack.export import ChannelKind, Export, ExportChannel
from keytables import Item
from support.channelstats.house import EXAMPLE, MODERN, NOW, House, house
from support.channelstats.small_workspace import said, workspace
from support.channelstats.workspace import (
    EXPORT_FORMS,
    files_with_slack_names,
    write_folder,
    write_form,
)
from support.clocks import ManualClock

LAST = date(2024, 3, 20)
LATEST = "1800000000.000000"
SIZES = [0, export_reader.LARGE]
"""Of exports that are read in this process, and in one of their own."""


def origin(channel: ExportChannel) -> Origin:
    return Origin(channel.about.id, "export", 1_700_000_000, LATEST)


def listed(export: Export) -> list[ExportChannel]:
    return export.channels(frozenset(ChannelKind))


async def answered(reader: Reader) -> list[Piece]:
    return [piece async for piece in reader.answer()]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("alone", [True, False])
async def test_channels_are_answered_in_their_order_with_the_same_pieces(
    size: int, alone: bool
) -> None:
    export = Export.open(EXAMPLE)
    channels = listed(export)
    expected = [list(pieces(export, one, origin(one), alone=alone)) for one in channels]
    async with reader_of(export, size) as reader:
        for channel in channels:
            await reader.ask(Ask(origin(channel), alone))
        assert [await answered(reader) for _ in channels] == expected


@pytest.mark.parametrize("size", SIZES)
async def test_what_is_wrong_and_in_no_utf8_comes_with_the_first_piece(
    size: int, tmp_path: Path
) -> None:
    files = workspace(one=[said(1), said(2)]).files()
    profile = '[{"type": "message", "user": "UX", "ts": "1700000000.000000", '
    profile += '"user_profile": {"name": "half \\ud83d", "real_name": "x"}}, {"ts": 5}]'
    files["one/2024-01-02.json"] = profile.encode()
    files["one/2024-01-03.json"] = b"["
    files["one/ü.json"] = b"no"
    export = Export.open(write_folder(files, tmp_path / "export"))
    (channel,) = listed(export)
    async with reader_of(export, size) as reader:
        await reader.ask(Ask(origin(channel), alone=True))
        (piece,) = await answered(reader)
    assert [user.user_name for user in piece.authors] == ["half ?"]
    assert [str(problem).partition(":")[0] for problem in piece.problems] == [
        "one/2024-01-02.json",
        "one/2024-01-03.json",
        "one/ü.json",
    ]


@pytest.mark.parametrize("large", [export_reader.LARGE, 0], ids=["thread", "process"])
@pytest.mark.parametrize(("form", "root"), EXPORT_FORMS)
async def test_names_as_slack_writes_them_are_imported(
    empty: House,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    root: str,
    large: int,
) -> None:
    monkeypatch.setattr(export_reader, "LARGE", large)
    path = write_form(files_with_slack_names(), tmp_path, form, root)
    *_, done, finished = await empty.take_in(path, MODERN)
    assert isinstance(done, ChannelDone)
    assert (done.name, done.messages) == ("café", 2)
    assert isinstance(finished, Finished)
    assert (finished.messages, finished.problems) == (2, 0)


def test_pieces_are_small_and_the_last_one_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_pieces, "ROWS", 4)
    export = Export.open(EXAMPLE)
    for channel, sizes in zip(listed(export), ([4, 2], [4, 4, 1]), strict=True):
        found = list(pieces(export, channel, origin(channel), alone=True))
        assert [len(piece.rows) for piece in found] == sizes
        assert {piece.total for piece in found} == {sum(sizes)}
        assert [piece.is_last for piece in found] == [False] * (len(sizes) - 1) + [True]
        times = [row.ts for piece in found for row in piece.rows]
        assert times == sorted(times)


def test_a_channel_without_messages_is_one_empty_piece(tmp_path: Path) -> None:
    export = Export.open(write_folder(workspace(one=[]).files(), tmp_path))
    (channel,) = listed(export)
    assert list(pieces(export, channel, origin(channel), alone=True)) == [Piece([], 0)]


def test_the_process_ends_when_there_are_no_more_questions() -> None:
    answers = io.BytesIO()
    answer(io.BytesIO(export_reader._frame(export_reader._job(Export.open(EXAMPLE)))), answers)
    assert answers.getvalue() == b""


async def test_a_process_that_dies_is_told_in_a_line() -> None:
    export = Export.open(EXAMPLE)
    async with reader_of(export, export_reader.LARGE) as reader:
        reader._process.kill()  # type: ignore[attr-defined]
        with pytest.raises(ReaderEnded, match="import it again to go on"):
            await answered(reader)


async def test_no_process_stays_behind_whoever_goes_away() -> None:
    opened: list[Reader] = []

    async def leave() -> None:
        async with reader_of(Export.open(EXAMPLE), export_reader.LARGE) as reader:
            opened.append(reader)
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await leave()
    assert opened[0]._process.returncode is not None  # type: ignore[attr-defined]


async def test_answers_that_nobody_reads_keep_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_reader, "_BUFFER", 1000)
    path = tmp_path / "export.zip"
    write_export(path, Size(20, 3, 2_000, 14), last_day=LAST, seed=3)
    export = Export.open(path)
    async with reader_of(export, export_reader.LARGE) as reader:
        for channel in listed(export):
            await reader.ask(Ask(origin(channel), alone=True))
        async with aclosing(reader.answer()) as answers:
            assert (await anext(answers)).rows
    assert reader._process.returncode is not None  # type: ignore[attr-defined]


def test_the_process_ends_with_an_import_that_was_killed() -> None:
    program = (
        "import asyncio, sys\n"
        "from channelstats.ingest.export_reader import LARGE, reader_of\n"
        "from channelstats.slack.export import Export\n"
        "async def main():\n"
        "    async with reader_of(Export.open(sys.argv[1]), LARGE) as reader:\n"
        "        print(reader._process.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, str(EXAMPLE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as importing:
        assert importing.stdout is not None
        reading = os.pidfd_open(int(importing.stdout.readline()))
        importing.kill()
    try:
        ended, _, _ = select.select([reading], [], [], 30)
    finally:
        os.close(reading)
    assert ended


async def test_an_import_that_is_read_aside_leaves_the_same_tables(
    empty: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "export.zip"
    write_export(path, Size(40, 12, 2_000, 28), last_day=LAST, seed=3)
    await empty.take_in(path, MODERN)
    monkeypatch.setattr(export_reader, "LARGE", 0)
    async with house(tmp_path / "aside") as other:
        await other.take_in(path, MODERN)
        await other.take_in(path, MODERN)  # now with everything stored
        assert _without_marks(await other.everything()) == _without_marks(await empty.everything())


def _without_marks(everything: dict[str, dict[str, Item]]) -> str:
    """What does not tell when something was written."""
    kept = {key: row for key, row in everything["Configuration"].items() if key[:4] == "seen"}
    return json.dumps({**everything, "Configuration": kept, "BulkStore": {}}, default=sorted)


async def test_progress_goes_by_bytes_and_never_back(
    empty: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_pieces, "ROWS", 50)
    path = tmp_path / "export.zip"
    write_export(path, Size(20, 5, 600, 14), last_day=LAST, seed=3)
    events = await empty.take_in(path, MODERN)
    reached = [event for event in events if isinstance(event, Reached)]
    told = [(event.bytes_done, event.messages) for event in reached]
    assert told == sorted(set(told))
    assert told[0] == (0, 0)
    assert all(event.bytes_done < event.bytes for event in reached)
    assert len({event.bytes for event in reached}) == 1
    assert len(reached) > 5 + 5


async def test_progress_of_an_import_that_goes_on_begins_where_the_first_one_ended(
    empty: House, tmp_path: Path
) -> None:
    path = tmp_path / "export.zip"
    write_export(path, Size(20, 5, 600, 14), last_day=LAST, seed=3)
    run = ExportImport(Export.open(path), empty.tables, clock=ManualClock(NOW), counting=MODERN)
    done = bytes_done = 0
    async with aclosing(run.run()) as events:
        async for event in events:
            done += isinstance(event, ChannelDone)
            if done == 2 and isinstance(event, Reached):
                bytes_done = event.bytes_done
                break
    started, first, *_ = await empty.take_in(path, MODERN)
    assert isinstance(started, Started)
    assert started.done == 2
    assert isinstance(first, Reached)
    assert (first.bytes_done, first.messages) == (bytes_done, 0)
    assert bytes_done > 0
