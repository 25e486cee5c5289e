"""`python -m bench profile MEASURE`: one measure with the server under cProfile.

Read shares from it, not times: the profiler makes every call dearer, and it sees the main thread
only.
"""

import pstats
import sys
from collections.abc import Sequence
from pathlib import Path


def profiled(command: Sequence[str], out: Path) -> list[str]:
    """The command, a Python script and its words, under cProfile; writes `out` when it ends."""
    return [sys.executable, "-m", "cProfile", "-o", str(out), *command]


def top(out: Path, count: int = 45) -> str:
    """The functions with the most time of their own, as aligned text."""
    stats = pstats.Stats(str(out))
    rows = []
    loop = total = 0.0
    for (file, line, name), (_, calls, own, together, _) in _functions(stats):
        if name == "run" and Path(file).name == "runners.py":
            loop += own  # uvloop is C: its work and its waiting count for the caller
            continue
        total += own
        rows.append((own, together, calls, _place(file, line, name)))
    rows.sort(reverse=True)
    lines = [
        f"{total:.2f} s in functions; {loop:.2f} s in uvloop (sockets, waiting), not counted.",
        "",
        "  own %   own s  with callees s      calls  function",
    ]
    lines += [
        f"{own / total:7.1%} {own:7.2f} {together:15.2f} {calls:10,}  {place}"
        for own, together, calls, place in rows[:count]
    ]
    return "\n".join(lines)


def _functions(
    stats: pstats.Stats,
) -> list[tuple[tuple[str, int, str], tuple[int, int, float, float, object]]]:
    return list(stats.stats.items())  # type: ignore[attr-defined] # not in typeshed, documented by its use


def _place(file: str, line: int, name: str) -> str:
    if file == "~":
        return name
    path = Path(file)
    return f"{'/'.join(path.parts[-2:])}:{line} {name}"
