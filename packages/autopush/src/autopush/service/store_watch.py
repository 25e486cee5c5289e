"""Looks at the store every second, and logs what its operator should know.

Nothing depends on it but the log: what is refused, and when that ends, the store decides itself.
"""

import asyncio
import shutil
from pathlib import Path
from typing import Final

from autopush.settings import Settings
from autopush.store import PushStore
from autopush.store.failures import StoreFailures
from autopush.telemetry import logs
from keytables.stores import SqliteUrl, parse_store

INTERVAL: Final = 1.0
"""Seconds between two looks."""

_log: Final = logs.get(__name__)


class StoreWatch:
    """See the module. `reports_disk`: of the workers of a service, one says what is true of all
    of them; the failures of its own calls each reports.
    """

    def __init__(
        self,
        store: PushStore,
        failures: StoreFailures,
        settings: Settings,
        *,
        reports_disk: bool,
        interval: float = INTERVAL,
    ) -> None:
        self._store = store
        self._failures = failures
        self._settings = settings
        self._reports_disk = reports_disk
        self._interval = interval
        self._was_nearly_full = False
        self._clock_was_set = False

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - without this it would never look again
                _log.exception("Unexpected error", error=error, where="store_watch")
            await asyncio.sleep(self._interval)

    def _look(self) -> None:
        self._failures.report()
        if self._reports_disk:
            self._look_at_clock()
            self._look_at_space()

    def _look_at_clock(self) -> None:
        jump = self._store.clock_jump
        if jump and not self._clock_was_set:
            _log.warning(
                "The clock was set: expired messages stay on the disk for now", seconds=round(jump)
            )
        self._clock_was_set = bool(jump)

    def _look_at_space(self) -> None:
        is_nearly_full = self._store.is_nearly_full
        if is_nearly_full is self._was_nearly_full:
            return
        self._was_nearly_full = is_nearly_full
        fields: dict[str, object] = {"min_free_space": self._settings.min_free_space}
        place = parse_store(self._settings.store_url)
        if isinstance(place, SqliteUrl):
            fields["free"] = shutil.disk_usage(Path(place.path).parent).free
            fields["folder"] = str(Path(place.path).parent)
        if is_nearly_full:
            _log.error("The disk is nearly full: new messages are refused", **fields)
        else:
            _log.info("The disk has space again: new messages are accepted", **fields)
