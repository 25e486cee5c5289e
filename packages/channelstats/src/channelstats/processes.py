"""Processes that this program starts to do a part of its work."""

import os
import signal
import threading
from multiprocessing import parent_process


def become_child() -> None:
    """To be called first in a process that was started for a part of the work: it ends with the one
    that started it, however that ends, and leaves signals to it.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)
