"""A question to whoever sits at the terminal.

Rule: only a terminal is asked; whatever runs without one goes on as it was told.
"""

import signal
import sys
from typing import Final

_YES: Final = frozenset({"y", "yes"})


def is_sure(question: str) -> bool:
    """Whether the answer is yes; without a terminal it is."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    # Of the first Ctrl+C the loop would know only when the line is read.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return sys.stdin.readline().strip().lower() in _YES
    finally:
        signal.signal(signal.SIGINT, before)
