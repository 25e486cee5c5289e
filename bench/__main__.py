"""The command line of the suite: `python -m bench [--quick] [--only NAME] [--server COMMAND]`.

The exit code is 0 only if every message answered 201 was delivered exactly once and nothing
unexpected happened.
"""

import argparse
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop

from bench import machine, report
from bench.floor import Floor
from bench.ledger import MismatchError
from bench.measures import MEASURES
from bench.run import AGENTS, POSTERS, QUICK, Run, Settings, Sizes
from bench.server import default_command


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    given = (option.partition("=") for option in options.server_option)
    settings = Settings(
        command=tuple(options.server),
        data_root=options.data_root,
        sizes=QUICK if options.quick else Sizes(),
        server_options=(
            ("--log-output", "stderr"),
            ("--log-level", "error"),
            *((name, value) for name, _, value in given),
        ),
    )
    cores = machine.choose_cores()
    os.sched_setaffinity(0, {cores.load})
    machine.allow_files(settings.sizes.held + 500)
    with machine.exclusive():
        return _measure(settings, cores, options.only or list(MEASURES))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="What the service costs, as ratios to a floor of the same run.",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=list(MEASURES),
        metavar="NAME",
        help="one of: %(choices)s",
    )
    parser.add_argument(
        "--quick", action="store_true", help="short rounds: proves correctness, not figures"
    )
    parser.add_argument(
        "--server",
        type=shlex.split,
        default=default_command(),
        metavar="COMMAND",
        help="what starts the server; flags are appended (default: this venv's autopush serve)",
    )
    parser.add_argument(
        "--server-option",
        action="append",
        default=[],
        metavar="--NAME=VALUE",
        help="a further flag for the server",
    )
    parser.add_argument(
        "--data-root",
        type=Path,
        default=Path("/var/tmp"),
        metavar="DIR",
        help="where data folders are made; on a real disk, for the fsyncs (%(default)s)",
    )
    return parser.parse_args(arguments)


def _measure(settings: Settings, cores: machine.Cores, names: list[str]) -> int:
    print(report.HEADER, end="\n\n")
    about = machine.describe() | {
        "data": str(settings.data_root),
        "server": shlex.join([*settings.command, *map("=".join, settings.server_options)]),
        "sizes": "quick" if settings.sizes is QUICK else "full",
    }
    for name, value in about.items():
        print(f"  {name + ':':<12} {value}")
    if not cores.apart:
        print("  One core only: server and load share it, and the figures mean little.")
    surroundings = machine.Surroundings()
    rows, wrong, floor = uvloop.run(_run(settings, cores, names))
    stolen, others = surroundings.disturbance()
    print(f"\n{report.table(rows)}\n\n{report.floor_line(floor.samples, floor.verifications)}")
    print(
        f"Meanwhile other processes used {others:.0%} of this machine's cores"
        f" and the host took {stolen:.0%}."
    )
    if settings.sizes is QUICK:
        print("Quick sizes: correctness is what counts, the figures are only an indication.")
    for name, why in wrong.items():
        print(f"\nMISMATCH in {name}, no figures: {why}", file=sys.stderr)
    return 1 if wrong else 0


async def _run(
    settings: Settings, cores: machine.Cores, names: list[str]
) -> tuple[list[report.Row], dict[str, str], Floor]:
    """The rows of the measures that balanced, what was wrong with the others, the floor."""
    quick = settings.sizes is QUICK
    floor = Floor(
        cores.server,
        clients=AGENTS,
        posters=POSTERS,
        echoes=1_000 if quick else 30_000,
        posts=700 if quick else 20_000,
    )
    rows: list[report.Row] = []
    wrong: dict[str, str] = {}
    try:
        run = Run(settings, cores, floor)
        if not quick:  # whose figures are not quoted: it leaves the processor to other tests
            run.stay_awake()
        await floor.start()
        for name in names:
            began = time.monotonic()
            print(f"  {name} …", end="", flush=True, file=sys.stderr)
            try:
                rows += await MEASURES[name](run)
            except MismatchError as mismatch:
                wrong[name] = str(mismatch)
                print(" MISMATCH", end="", file=sys.stderr)
            print(f" {time.monotonic() - began:.0f} s", file=sys.stderr)
        if not floor.samples:
            await floor.take()
    finally:
        floor.stop()
    return rows, wrong, floor


if __name__ == "__main__":
    sys.exit(main())
