"""Failures of a database, as the service that uses it hears of them."""

import asyncio
import contextlib
from collections.abc import Callable

from keytables.engine import OnFailure
from keytables.errors import KeytablesError, StoreClosed, Throttled, Unavailable


def described(error: Exception) -> KeytablesError:
    if isinstance(error, KeytablesError):
        return error
    failure = Unavailable(f"the store failed: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


class FailureReports:
    """Calls ``on_failure`` once for each failure of the database: not for conditions, mistakes of a
    caller, a closed store, or what is ``unreported``.

    ``describe``: returns the error for one of the database's client. ``loop``: for reports from
    other threads.
    """

    def __init__(
        self,
        on_failure: OnFailure | None = None,
        describe: Callable[[Exception], KeytablesError] = described,
        *,
        unreported: tuple[type[Exception], ...] = (),
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._loop = loop
        self._on_failure, self._describe = on_failure, describe
        self._unreported: tuple[type[Exception], ...] = (StoreClosed, *unreported)

    def report(self, error: Exception) -> None:
        """Report a failure of the database, ignore other errors. Called on the loop."""
        if self._on_failure is None or isinstance(error, self._unreported):
            return
        failure = self._describe(error)
        if not isinstance(failure, Unavailable | Throttled):
            return
        try:
            self._on_failure(failure)
        except Exception as defect:  # noqa: BLE001 - the engine does not end for it
            context = {"message": "on_failure of a store raised", "exception": defect}
            asyncio.get_running_loop().call_exception_handler(context)

    def report_from_thread(self, error: Exception) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.report, error)
