"""How far a long run is, on a terminal: bars of tqdm on standard error.

Rule: whatever is written there beside a bar goes through `tqdm.write`, which keeps the line whole.
"""

import shutil
import threading
from typing import Final, NoReturn, TypeAlias

from tqdm import tqdm

ProgressBar: TypeAlias = "tqdm[NoReturn]"

_ECHO: Final = 3
"""Columns that stay free: a terminal writes ^C behind the line, which would break it."""

# Nobody else draws: neither a lock between processes nor a thread that redraws is of use.
tqdm.set_lock(threading.RLock())
tqdm.monitor_interval = 0


def progress_bar(
    what: str, unit: str = "", total: int = 0, done: int = 0, *, quiet: bool = False
) -> ProgressBar:
    """A bar where standard error is a terminal; it is gone when it is closed. A total of 0 is not
    known yet. What was ``done`` before is no measure of the time left. The unit B makes it MB and
    GB; without a unit ``what`` is shown alone.
    """
    return tqdm(
        desc=what,
        unit=unit,
        unit_scale=unit == "B",
        total=total or None,
        initial=done,
        bar_format=None if unit else "{desc}",
        disable=quiet or None,  # None: unless it is a terminal
        leave=False,
        ncols=_columns(),
        nrows=2,  # a bar is one line; without a number tqdm asks the terminal
        # The clock alone says when to draw, and the time left is by all that was done.
        miniters=0,
        smoothing=0,
    )


def show(bar: ProgressBar, done: int, total: int = 0, what: str = "") -> None:
    """So many of all are done; ``what`` is being done. It is drawn ten times a second at most."""
    bar.total, bar.ncols = total or None, _columns()
    bar.set_postfix_str(what, refresh=False)
    bar.update(done - bar.n)


def _columns() -> int:
    return shutil.get_terminal_size().columns - _ECHO
