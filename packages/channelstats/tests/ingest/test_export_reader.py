"""Reading an export beside storing it: the same in a thread and in a process, and no process that
stays behind.
"""

import asyncio
import gc
import multiprocessing
import os
import select
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from channelstats.ingest import export_reader
from channelstats.ingest.export_reader import ReaderEnded, channel_reader, read_channel
from channelstats.ingest.rows import Origin
from channelstats.slack.export import Export, ExportChannel
from support.channelstats.house import EXAMPLE
from support.channelstats.small_workspace import said, workspace
from support.channelstats.workspace import (
    write_folder,
)

LAST = date(2024, 3, 20)
LATEST = "1800000000.000000"
SIZES = [0, export_reader.LARGE]
"""Of exports that are read in this process, and in one of their own."""


def origin(channel: ExportChannel) -> Origin:
    return Origin(channel.about.id, "export", 1_700_000_000, LATEST)


def listed(export: Export) -> list[ExportChannel]:
    return export.channels()


@pytest.mark.parametrize("size", SIZES)
async def test_channels_are_read_in_a_thread_and_in_a_process_alike(size: int) -> None:
    export = Export.open(EXAMPLE)
    wanted = [(one, origin(one), is_new) for one in listed(export) for is_new in (True, False)]
    expected = [read_channel(export, *one) for one in wanted]
    async with channel_reader(export, size) as read:
        reading = [read(*one) for one in wanted]
        assert [await content for content in reading] == expected
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("size", SIZES)
async def test_what_is_wrong_and_in_no_utf8_comes_with_the_messages(
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
    async with channel_reader(export, size) as read:
        content = await read(channel, origin(channel), True)
    assert [user.user_name for user in content.authors] == ["", "half ?"]
    assert [str(problem).partition(":")[0] for problem in content.problems] == [
        "one/2024-01-02.json",
        "one/2024-01-03.json",
        "one/ü.json",
    ]


def test_pieces_are_small_and_in_the_order_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_reader, "ROWS", 4)
    export = Export.open(EXAMPLE)
    for channel, sizes in zip(listed(export), ([4, 2], [4, 4, 1]), strict=True):
        content = read_channel(export, channel, origin(channel), True)
        found = list(content.pieces())
        assert [len(piece) for piece in found] == sizes
        assert content.messages == sum(sizes)
        times = [row.ts for piece in found for row in piece]
        assert times == sorted(times)


async def test_an_error_in_the_process_is_raised_here() -> None:
    export = Export.open(EXAMPLE)
    (first, *_) = listed(export)
    gone = ExportChannel(first.kind, first.about, ("gone/2024-03-10.json",))
    async with channel_reader(export, export_reader.LARGE) as read:
        with pytest.raises(KeyError) as caught:
            await read(gone, origin(gone), True)
        assert "in read_channel" in caught.value.__notes__[0]
        assert (await read(first, origin(first), True)).messages > 0


async def test_what_was_read_ahead_of_a_failure_may_fail_unseen(
    caplog: pytest.LogCaptureFixture,
) -> None:
    export = Export.open(EXAMPLE)
    (first, *_) = listed(export)
    async with channel_reader(export, export_reader.LARGE) as read:
        (process,) = multiprocessing.active_children()
        process.kill()
        process.join()
        ahead = [read(first, origin(first), True) for _ in range(2)]
        await asyncio.wait(ahead)
        with pytest.raises(ReaderEnded, match="import it again to go on"):
            await ahead[0]
    del ahead
    gc.collect()  # asyncio complains when a future goes whose error nobody has seen
    assert caplog.messages == []


def test_the_process_ends_without_a_word_with_an_import_that_was_killed(tmp_path: Path) -> None:
    program = tmp_path / "importing.py"
    program.write_text(
        "import asyncio, multiprocessing, sys\n"
        "from channelstats.ingest.export_reader import LARGE, channel_reader\n"
        "from channelstats.ingest.rows import Origin\n"
        "from channelstats.slack.export import Export\n"
        "async def main():\n"
        "    export = Export.open(sys.argv[1])\n"
        "    channel = export.channels()[0]\n"
        "    origin = Origin(channel.about.id, 'export', 1, '1800000000.000000')\n"
        "    async with channel_reader(export, LARGE) as read:\n"
        "        await read(channel, origin, True)\n"
        "        (process,) = multiprocessing.active_children()\n"
        "        print(process.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "if __name__ == '__main__':\n"
        "    asyncio.run(main())\n"
    )
    command = [sys.executable, str(program), str(EXAMPLE)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as importing:
        assert importing.stdout is not None
        assert importing.stderr is not None
        reading = os.pidfd_open(int(importing.stdout.readline()))
        importing.kill()
        try:
            ended, _, _ = select.select([reading], [], [], 30)
        finally:
            os.close(reading)
        assert ended
        # No warning of Python's that something was left behind, either.
        assert importing.stderr.read() == ""
