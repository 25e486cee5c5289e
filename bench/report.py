"""The report of a run: figures as rows, rows as a table and as a JSON document.

Every cost is printed as a ratio to the floor that was measured within the same minute.
"""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

from bench.floor import FloorSample

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


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

    @property
    def floors(self) -> float:
        return self.per_operation / self.floor_ns if self.floor_ns else 0.0

    @property
    def rate(self) -> float:
        """Operations per second of wall time."""
        return self.operations * 1e9 / self.wall_ns

    @property
    def busy(self) -> float:
        """Share of its core that the server used."""
        return self.server_ns / self.wall_ns


@dataclass(frozen=True)
class Series:
    """The rounds of one measure. Figures are medians over the rounds."""

    samples: list[Sample]

    @property
    def microseconds(self) -> float:
        return statistics.median(sample.per_operation for sample in self.samples) / 1000

    @property
    def floors(self) -> float:
        return statistics.median(sample.floors for sample in self.samples)

    @property
    def floor_microseconds(self) -> float:
        return statistics.median(sample.floor_ns for sample in self.samples) / 1000

    @property
    def rate(self) -> float:
        return statistics.median(sample.rate for sample in self.samples)

    @property
    def busy(self) -> float:
        return statistics.median(sample.busy for sample in self.samples)

    def with_samples(self, samples: list[Sample]) -> "Series":
        """Other samples of the same rounds, against the same floors."""
        floors = [sample.floor_ns for sample in self.samples]
        return Series(
            [replace(new, floor_ns=floor) for new, floor in zip(samples, floors, strict=True)]
        )

    def as_json(self) -> Json:
        return [asdict(sample) for sample in self.samples]


@dataclass
class Row:
    """One line of the table. `reached` is None when a disturbed machine cannot tell."""

    measure: str
    figure: str
    floors: str
    aim: str
    reached: bool | None
    rate: str = ""
    busy: str = ""
    note: str = ""
    values: dict[str, Json] = field(default_factory=dict)


def cost_row(
    name: str, series: Series, aim: str, reached: bool, *, note: str = "", **values: Json
) -> Row:
    """A row for CPU time per operation."""
    notes = [note] if note else []
    return Row(
        name,
        f"{series.microseconds:.1f} µs",
        f"{series.floors:.2f}",
        aim,
        reached,
        rate=f"{series.rate:,.0f}/s",
        busy=f"{series.busy:.0%}",
        note="; ".join(notes),
        values={
            "cpu_us_per_operation": series.microseconds,
            "floors": series.floors,
            "floor_us": series.floor_microseconds,
            "operations_per_second": series.rate,
            "server_busy": series.busy,
            "rounds": series.as_json(),
            **values,
        },
    )


HEADER = """\
Server: one worker pinned to one core. Cost: CPU time of the server process (user and system,
every thread) per operation, median over the rounds. One floor = a bare picows echo of 200 bytes +
a bare httptools POST of 4 KiB, each in a process of its own on the same core, measured before and
after each round. The load never sleeps, so that no send pays for waking it, in floor and measure
alike. 100 user agents, VAPID, 3 KiB aes128gcm bodies, fsync where messages are stored.
For comparison the best peer (Rust, Redis in memory, so without fsync, one core): direct push
571 µs, with new tokens 605 µs, stored push 830 µs, drain 170 µs a message and half of them sent
twice, returning client 305 µs, 30 KB per idle connection, p99 2.3 ms at half load."""

COLUMNS = ("measure", "server CPU/op", "floors", "aim", "", "ops/s", "busy", "")


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text."""
    cells = [COLUMNS] + [
        (
            row.measure,
            row.figure,
            row.floors,
            row.aim,
            _verdict(row.reached),
            row.rate,
            row.busy,
            row.note,
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(COLUMNS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths).rstrip())
    return "\n".join(lines)


def _verdict(reached: bool | None) -> str:
    return {True: "reached", False: "MISSED", None: "unclear"}[reached]


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


def document(
    rows: Sequence[Row],
    wrong: dict[str, str],
    samples: Sequence[FloorSample],
    verifications: Sequence[float],
    about: dict[str, str],
) -> dict[str, Json]:
    """The whole run, for `--json`."""
    return {
        "about": dict(about),
        "mismatches": dict(wrong),
        "floor": {
            "us": [sample.total / 1000 for sample in samples],
            "echo_us": [sample.echo / 1000 for sample in samples],
            "post_us": [sample.post / 1000 for sample in samples],
        },
        "es256_verification_us": [sample / 1000 for sample in verifications],
        "measures": [
            {
                "measure": row.measure,
                "figure": row.figure,
                "floors": row.floors,
                "aim": row.aim,
                "reached": row.reached,
                "note": row.note,
                **row.values,
            }
            for row in rows
        ],
    }


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value that this share of an ascending sequence does not exceed."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
