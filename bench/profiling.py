"""`python -m bench profile MEASURE`: one measure with the server under cProfile. One rule: shares,
not times, are to be read from it: the profiler makes every call dearer, and it sees the main
thread only.
"""

import pstats
import sys
from pathlib import Path

from bench.server import default_command


def profiled_command(out: Path) -> list[str]:
    """The service's console script under cProfile, which writes `out` when the server ends."""
    return [sys.executable, "-m", "cProfile", "-o", str(out), *default_command()]


def top(out: Path, count: int = 45) -> str:
    """The functions with the most time of their own, as aligned text."""
    stats = pstats.Stats(str(out))
    rows = []
    total = 0.0
    for (file, line, name), (_, calls, own, together, _) in _functions(stats):
        if "uvloop" in name or name.startswith("<method 'run_forever'") or "select.epoll" in name:
            continue  # waiting for work shows up as time of the loop's own
        total += own
        rows.append((own, together, calls, _place(file, line, name)))
    rows.sort(reverse=True)
    lines = ["  own %   own s  with callees s      calls  function"]
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
