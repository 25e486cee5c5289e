"""What an import costs, as a ratio to only reading and parsing the same export:
`python -m bench.channelstats.import_cost`. One rule: every figure is of the same export, made in
the same run.

Parsing is measured three ways: the day files into the structs that the import makes rows of, with
and without getting them out of the zip, and by the standard library.
"""

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from bench import machine
from channelstats.counting import Counting
from channelstats.demo.workspace import Size, write_export
from channelstats.ingest.export_import import ExportImport, ImportOptions, ImportResult
from channelstats.slack.archive import Archive, open_archive
from channelstats.slack.export import Export
from channelstats.slack.objects import MESSAGES
from channelstats.tables import Tables
from keytables.sqlite import SqliteEngine


class Parsed(NamedTuple):
    """Seconds of each part, over all day files."""

    read: float
    structs: float
    standard: float
    bytes: int


def parse(archive: Archive) -> Parsed:
    """Read and parse every day file."""
    read = structs = standard = 0.0
    size = 0
    for name in archive.names:
        if "/" not in name:
            continue
        begin = time.perf_counter()
        data = archive.read(name)
        unzipped = time.perf_counter()
        _, broken = MESSAGES.decode(data)
        decoded = time.perf_counter()
        json.loads(data)
        standard += time.perf_counter() - decoded
        structs += decoded - unzipped
        read += unzipped - begin
        size += len(data)
        assert not broken
    return Parsed(read, structs, standard, size)


async def take_in(path: Path, folder: Path) -> tuple[float, ImportResult]:
    """Import it into a new store; seconds, and the result."""
    begin = time.perf_counter()
    engine = await SqliteEngine.open(folder / "channelstats.sqlite")
    try:
        tables = await Tables.open(engine, "channelstats", ZoneInfo("UTC"))
        with closing(await asyncio.to_thread(Export.open, path)) as export:
            run = ExportImport(
                export,
                tables,
                clock=time.time,
                counting=Counting(),
                options=ImportOptions(include_private=True),
            )
            result = await run.run()
    finally:
        await engine.close()
    return time.perf_counter() - begin, result


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    size = Size(options.people, options.channels, options.messages, options.days)
    surroundings = machine.Surroundings()
    with tempfile.TemporaryDirectory(dir=options.data_root) as name:
        _measure(Path(name), size)
    for name, value in machine.describe().items():
        print(f"  {name + ':':<12} {value}")
    stolen, others = surroundings.disturbance()
    print(
        f"Meanwhile other processes used {others:.0%} of this machine's cores and the host took"
        f" {stolen:.0%}."
    )
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.channelstats.import_cost",
        description="What an import costs, as ratios to reading and parsing the same export.",
    )
    parser.add_argument("--people", type=int, default=2_000, metavar="N", help="(%(default)s)")
    parser.add_argument("--channels", type=int, default=60, metavar="N", help="(%(default)s)")
    parser.add_argument("--messages", type=int, default=200_000, metavar="N", help="(%(default)s)")
    parser.add_argument("--days", type=int, default=180, metavar="N", help="(%(default)s)")
    parser.add_argument(
        "--data-root", type=Path, default=Path("/var/tmp"), metavar="DIR", help="(%(default)s)"
    )
    return parser.parse_args(arguments)


def _measure(folder: Path, size: Size) -> None:
    path = folder / "export.zip"
    begin = time.perf_counter()
    write_export(path, size, last_day=datetime.now(UTC).date() - timedelta(days=1), seed=1)
    made = time.perf_counter() - begin
    with closing(open_archive(path)) as archive:
        parsed = parse(archive)
    cpu = _cpu()
    took, result = asyncio.run(take_in(path, folder))
    cpu = _cpu() - cpu
    assert result.messages == size.messages
    assert result.problems == 0
    print(f"{size.messages:,} messages, {parsed.bytes / 1e6:,.0f} MB of JSON, zipped")
    for name, seconds in (
        ("made up", made),
        ("unzipped", parsed.read),
        ("parsed", parsed.structs),
        ("json.loads", parsed.standard),
        ("imported", took),
        ("  of CPU", cpu),
    ):
        print(f"  {name:12} {seconds:8.2f} s {seconds / size.messages * 1e6:7.1f} µs a message")
    print("ratio of the import to")
    for name, seconds in (
        ("unzipping and parsing", parsed.read + parsed.structs),
        ("unzipping and json.loads", parsed.read + parsed.standard),
        ("parsing alone", parsed.structs),
        ("json.loads alone", parsed.standard),
    ):
        print(f"  {name:26} {took / seconds:6.1f}")
    print(
        f"peak memory: {_peak(resource.RUSAGE_SELF):,} MB,"
        f" of the process that reads {_peak(resource.RUSAGE_CHILDREN):,} MB"
    )


def _cpu() -> float:
    """Of this process and of those that it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _peak(whose: int) -> int:
    return resource.getrusage(whose).ru_maxrss // (1024 if sys.platform == "linux" else 1 << 20)


if __name__ == "__main__":
    sys.exit(main())
