"""Several processes on one store: how long an occasional writer waits beside busy ones.

`python -m bench.writers [--seconds 4] [--busy 1 2 3]`. The exit code is 1 if the worst wait reached
200 ms.

A busy process keeps 50 writes of 4 KB (put, then delete) under way all the time. The occasional
writer commits one small item every few milliseconds and notes how long each commit takes; it does
so without busy ones first, and every figure is printed with its ratio to that.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from multiprocessing.synchronize import Event
from pathlib import Path

import uvloop

from keytables import Key, Table
from keytables.sqlite import SqliteEngine

TABLE = Table("messages", Key("user"), Key("place"), expiry="expiry")
CONCURRENT = 50
PAUSE = 0.005
BOUND = 0.2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.writers", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run")
    parser.add_argument("--busy", type=int, nargs="*", default=[1, 2, 3], help="busy processes")
    options = parser.parse_args(arguments)
    baseline: list[float] = []
    worst = 0.0
    print(f"{'beside':>8} {'commits':>8} {'median':>16} {'99 %':>16} {'worst':>16} {'others/s':>9}")
    for count in [0, *options.busy]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "store"
            with busy_processes(path, count) as written:
                waits, rate = uvloop.run(occasional(path, options.seconds, written))
        baseline = baseline or waits
        columns = [
            f"{wait * 1000:6.2f} ms {wait / base:5.1f}x"
            for wait, base in zip(figures(waits), figures(baseline), strict=True)
        ]
        print(f"{count or 'none':>8} {len(waits):8} {' '.join(columns)} {rate:9.0f}", flush=True)
        worst = max(worst, waits[-1])
    print(f"worst wait {worst * 1000:.1f} ms, bound {BOUND * 1000:.0f} ms")
    return 0 if worst <= BOUND else 1


def figures(waits: list[float]) -> tuple[float, float, float]:
    """Return median, 99th percentile and worst of sorted waits."""
    return statistics.median(waits), waits[int(len(waits) * 0.99)], waits[-1]


async def occasional(
    path: Path, seconds: float, written: Callable[[], int]
) -> tuple[list[float], float]:
    """Commit one item now and then; return the seconds of each commit, sorted.

    Also returns how many writes a second the others did meanwhile.
    """
    engine = await SqliteEngine.open(path)
    table = await engine.ensure_table(TABLE)
    waits: list[float] = []
    start, before = time.monotonic(), written()
    while time.monotonic() < start + seconds:
        await asyncio.sleep(random.uniform(0, 2 * PAUSE))
        begin = time.perf_counter()
        await table.put({"user": "occasional", "place": f"{len(waits):08}"})
        waits.append(time.perf_counter() - begin)
    rate = (written() - before) / (time.monotonic() - start)
    await engine.close()
    return sorted(waits), rate


async def keep_busy(
    path: Path, number: int, ready: Event, stop: Event, counts: MutableSequence[int]
) -> None:
    """Keep many writes under way until stopped, and count those that are done."""
    engine = await SqliteEngine.open(path)
    table = await engine.ensure_table(TABLE)

    async def client(user: str) -> None:
        for place in range(1_000_000_000):
            if stop.is_set():
                return
            key = (user, f"{place:08}")
            await table.put({"user": key[0], "place": key[1], "data": "x" * 4096})
            await table.delete(key)
            counts[number] += 2

    ready.set()
    await asyncio.gather(*(client(f"{number}-{client_}") for client_ in range(CONCURRENT)))
    await engine.close()


def _busy_process(
    path: Path, number: int, ready: Event, stop: Event, counts: MutableSequence[int]
) -> None:
    uvloop.run(keep_busy(path, number, ready, stop, counts))


@contextlib.contextmanager
def busy_processes(path: Path, count: int) -> Iterator[Callable[[], int]]:
    """Run busy processes, started afresh and not forked; yields what they wrote so far."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    # Without a lock: each process writes only its own number.
    counts: MutableSequence[int] = context.Array("q", max(count, 1), lock=False)
    started = []
    for number in range(count):
        ready = context.Event()
        process = context.Process(target=_busy_process, args=(path, number, ready, stop, counts))
        process.start()
        started.append(process)
        ready.wait()
    try:
        yield lambda: sum(counts)
    finally:
        stop.set()
        for process in started:
            process.join()


if __name__ == "__main__":
    raise SystemExit(main())
