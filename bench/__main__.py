"""The command line of the suite: `python -m bench [--quick] [--only NAME] [--server COMMAND]`.

The exit code is 0 only if every message answered 201 was delivered exactly once and nothing
unexpected happened.
"""

import argparse
import os
import shlex
import sys
import time

import uvloop

from bench import machine, report
from bench.floor import Floor
from bench.ledger import MismatchError
from bench.measures import MEASURES
from bench.run import AGENTS, POSTERS, QUICK, Run, Sizes
from bench.server import default_command


def main() -> int:
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
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    cores = machine.choose_cores()
    os.sched_setaffinity(0, {cores.load})
    machine.allow_files(sizes.held + 500)
    with machine.exclusive():
        return _measure(options.server, sizes, cores, options.only or list(MEASURES))


def _measure(command: list[str], sizes: Sizes, cores: machine.Cores, names: list[str]) -> int:
    print(report.HEADER, end="\n\n")
    about = {"server": shlex.join(command), "sizes": "quick" if sizes is QUICK else "full"}
    for name, value in (machine.describe() | about).items():
        print(f"  {name + ':':<12} {value}")
    if cores.server == cores.load:
        print("  One core only: server and load share it, and the figures mean little.")
    surroundings = machine.Surroundings()
    rows, wrong, floor = uvloop.run(_run(command, sizes, cores, names))
    stolen, others = surroundings.disturbance()
    print(f"\n{report.table(rows)}\n\n{report.floor_line(floor.samples, floor.verifications)}")
    print(
        f"Meanwhile other processes used {others:.0%} of this machine's cores"
        f" and the host took {stolen:.0%}."
    )
    if sizes is QUICK:
        print("Quick sizes: correctness is what counts, the figures are only an indication.")
    for name, why in wrong.items():
        print(f"\nMISMATCH in {name}, no figures: {why}", file=sys.stderr)
    return 1 if wrong else 0


async def _run(
    command: list[str], sizes: Sizes, cores: machine.Cores, names: list[str]
) -> tuple[list[report.Row], dict[str, str], Floor]:
    """The rows of the measures that balanced, what was wrong with the others, the floor."""
    quick = sizes is QUICK
    echoes, posts = (1_000, 700) if quick else (30_000, 20_000)
    floor = Floor(cores.server, clients=AGENTS, posters=POSTERS, echoes=echoes, posts=posts)
    rows: list[report.Row] = []
    wrong: dict[str, str] = {}
    try:
        run = Run(command, sizes, cores, floor)
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
