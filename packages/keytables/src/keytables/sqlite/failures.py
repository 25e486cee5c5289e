"""Failures of the database, reported from wherever they happen to the owner of the engine.

Rule: it hears of each of them once, on the event loop, whoever receives the error besides; of
conditions, mistakes of a caller and a closed store it hears nothing.
"""

import asyncio
import contextlib

from keytables.engine import OnFailure
from keytables.errors import Throttled, Unavailable
from keytables.sqlite.database import MissingIndex, StoreClosed, described

__all__ = ["Failures"]


class Failures:
    """Calls ``on_failure``, if there is one, on ``loop``."""

    __slots__ = ("_loop", "_on_failure")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_failure: OnFailure | None = None
    ) -> None:
        self._loop, self._on_failure = loop, on_failure

    def report(self, error: Exception) -> None:
        """Report what is a failure of the database. Called on the loop."""
        if self._on_failure is None or isinstance(error, MissingIndex | StoreClosed):
            return
        failure = described(error)
        if not isinstance(failure, Unavailable | Throttled):
            return
        try:
            self._on_failure(failure)
        except Exception as defect:  # noqa: BLE001 - the engine does not end for it
            context = {"message": "on_failure of a store raised", "exception": defect}
            self._loop.call_exception_handler(context)

    def report_from_thread(self, error: Exception) -> None:
        """The same, called in another thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(self.report, error)
