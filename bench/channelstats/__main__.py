"""The command line: `python -m bench.channelstats [--messages N --days N …]`, what a report costs.
One rule: every cost is printed beside the floor that it is a ratio to, of the same run.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import machine
from bench.channelstats import report_cost
from bench.channelstats.cost import Row, print_report
from channelstats.demo.workspace import Size


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    surroundings = machine.Surroundings()
    rows: list[Row] = []
    for days in options.days:
        size = Size(options.people, options.channels, options.messages, days)
        with tempfile.TemporaryDirectory(dir=options.data_root) as folder:
            rows += report_cost.measure(size, Path(folder), options.rounds)
    print_report(rows, options.rounds, surroundings)
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.channelstats",
        description="What channelstats costs, as ratios to the least work on the same data.",
    )
    parser.add_argument("--people", type=int, default=20_000, metavar="N", help="(%(default)s)")
    parser.add_argument("--channels", type=int, default=500, metavar="N", help="(%(default)s)")
    parser.add_argument(
        "--messages", type=int, default=2_000_000, metavar="N", help="(%(default)s)"
    )
    parser.add_argument(
        "--days",
        type=int,
        action="append",
        metavar="N",
        help="days that the messages are of; once for each workspace (28 and 365)",
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(%(default)s)")
    parser.add_argument(
        "--data-root", type=Path, default=Path("/var/tmp"), metavar="DIR", help="(%(default)s)"
    )
    options = parser.parse_args(arguments)
    options.days = options.days or [28, 365]
    return options


if __name__ == "__main__":
    sys.exit(main())
