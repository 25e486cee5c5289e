"""The report of a run: figures as rows, rows as a table.

Every cost is printed as a ratio to the floor that was measured within the same minute.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import starmap

from bench.floor import FloorSample


@dataclass(frozen=True)
class Sample:
    """One round of a measure: what the server used for `operations`, and how long they took on the
    wall.
    """

    operations: int
    server_ns: int
    wall_ns: int
    floor_ns: float = 0.0

    @property
    def per_operation(self) -> float:
        """CPU nanoseconds of the server."""
        return self.server_ns / self.operations


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    measure: str
    figure: str
    aim: str
    reached: bool
    floors: str = ""
    rate: str = ""
    busy: str = ""
    note: str = ""


def row(measure: str, value: float, unit: str, most: float, note: str, digits: int = 2) -> Row:
    """A figure that has to be at most so much."""
    figure = f"{value:,.{digits}f} {unit}"
    return Row(measure, figure, f"≤ {most:g} {unit}", value <= most, note=note)


@dataclass(frozen=True)
class Series:
    """The rounds of one measure. Figures are medians over the rounds."""

    samples: list[Sample]

    @property
    def microseconds(self) -> float:
        """CPU time of the server for one operation."""
        return statistics.median(each.per_operation for each in self.samples) / 1000

    @property
    def floors(self) -> float:
        return statistics.median(each.per_operation / each.floor_ns for each in self.samples)

    def with_samples(self, samples: list[Sample]) -> "Series":
        """Other samples of the same rounds, against the same floors."""
        pairs = zip(samples, self.samples, strict=True)
        return Series([replace(new, floor_ns=old.floor_ns) for new, old in pairs])

    def row(self, name: str, aim: str, reached: bool, note: str = "", ratio: str = "") -> Row:
        """`ratio`: in place of that to the floor."""
        rate = statistics.median(each.operations * 1e9 / each.wall_ns for each in self.samples)
        busy = statistics.median(each.server_ns / each.wall_ns for each in self.samples)
        figure, floors = f"{self.microseconds:.1f} µs", ratio or f"{self.floors:.2f}"
        return Row(name, figure, aim, reached, floors, f"{rate:,.0f}/s", f"{busy:.0%}", note)


HEADER = """\
Server: one worker pinned to one core. Cost: CPU time of the server process (user and system,
every thread) per operation, median over the rounds. One floor = a bare picows echo of 200 bytes +
a bare httptools POST of 4 KiB, each in a process of its own on the same core, measured before and
after each round. The load never sleeps, so that no send pays for waking it, in floor and measure
alike. 100 user agents, VAPID, 3 KiB aes128gcm bodies, fsync where messages are stored."""

COLUMNS = ("measure", "server CPU/op", "floors", "aim", "", "ops/s", "busy", "")


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text."""
    cells: list[tuple[str, ...]] = [COLUMNS]
    for each in rows:
        verdict = "reached" if each.reached else "MISSED"
        first = each.measure, each.figure, each.floors, each.aim, verdict
        cells.append((*first, each.rate, each.busy, each.note))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, tuple("-" * width for width in widths))
    lines = [zip(line, widths, strict=True) for line in cells]
    return "\n".join("  ".join(starmap(str.ljust, line)).rstrip() for line in lines)


def floor_line(samples: Sequence[FloorSample], verifications: Sequence[float]) -> str:
    """What the floor was over the run, and how much it drifted."""
    totals = [sample.total / 1000 for sample in samples]
    echo = statistics.median(sample.echo for sample in samples) / 1000
    post = statistics.median(sample.post for sample in samples) / 1000
    line = (
        f"Floor: {statistics.median(totals):.1f} µs = echo {echo:.1f} + POST {post:.1f}"
        f" ({len(totals)} times, from {min(totals):.1f} to {max(totals):.1f})."
    )
    if verifications:
        line += f" One ES256 verification: {statistics.median(verifications) / 1000:.1f} µs."
    return line


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value that this share of an ascending sequence does not exceed."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
