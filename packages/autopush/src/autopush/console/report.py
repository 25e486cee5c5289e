"""The report that `autopush report` prints, and the warnings and errors that the workers logged.

The command runs as a process of its own, as its checks block, and open the store.
"""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from autopush.net.siblings import Port, Siblings
from autopush.recently_used import RecentlyUsed

TIMEOUT: Final = 90.0
"""Seconds that the command has."""
MAX_REPORT: Final = 1_000_000
MAX_KINDS: Final = 100
"""Kinds of log lines remembered, the last ones."""


LoggedKinds = dict[str, tuple[int, float]]
"""Kind → how many lines there were, and when the last one was, epoch seconds."""
LOGGED: Final = Port[None, LoggedKinds]("console log", None, LoggedKinds)

_ROOT: Final = logging.getLogger("autopush")


class ReportError(Exception):
    """The text is for the operator."""


class LoggedErrors(logging.Handler):
    """Counts warnings and errors by their text, which is the same for all of a kind: the fields,
    which may hold addresses, are not kept.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._kinds = RecentlyUsed[list[float]](MAX_KINDS)
        _ROOT.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        error = (
            f" ({record.exc_info[0].__name__})" if record.exc_info and record.exc_info[0] else ""
        )
        kind = f"{record.levelname} {record.name}: {text}{error}"
        known = self._kinds.find(kind) or [0.0, 0.0]
        self._kinds.keep(kind, [known[0] + 1, record.created])

    def kinds(self, _asked: None = None) -> LoggedKinds:
        return {str(kind): (int(count), at) for kind, (count, at) in self._kinds.items()}

    def close(self) -> None:
        _ROOT.removeHandler(self)


def logged_lines(workers: Iterable[LoggedKinds]) -> list[str]:
    """Those of all workers together, the last ones first."""
    counts, times = Counter[str](), dict[str, float]()
    for kinds in workers:
        for kind, (count, at) in kinds.items():
            counts[kind] += count
            times[kind] = max(at, times.get(kind, 0.0))
    newest = sorted(times, key=lambda kind: -times[kind])[:MAX_KINDS]
    return [f"{counts[kind]}x, last {_date(times[kind])}  {kind}" for kind in newest]


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def report_command(daemon: str, words: Sequence[str] = sys.orig_argv) -> list[str]:
    """The command line of the report, with the flags of the service's own: `words`. Without the
    name of the daemon in them, they may be anything, and are left out.
    """
    if daemon in words:
        place = words.index(daemon)
        return [sys.executable, *words[1:place], "report", "--for", daemon, *words[place + 1 :]]
    return [sys.executable, "-m", "autopush.cli", "report", "--for", daemon]


class Report:
    """One at a time: whoever asks meanwhile gets the same. `logged`: by this worker."""

    def __init__(
        self, command: Sequence[str], logged: LoggedErrors, siblings: Siblings | None = None
    ) -> None:
        self._command, self._logged = command, logged
        self._siblings = siblings or Siblings()
        self._running: asyncio.Task[str] | None = None

    async def text(self) -> str:
        """:raises ReportError: the command failed"""
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._run())
        printed = await asyncio.shield(self._running)
        answers = await self._siblings.ask_workers(LOGGED)
        known = [self._logged.kinds(), *(answer for answer in answers if answer is not None)]
        lines = logged_lines(known) or ["None."]
        if missing := len(answers) + 1 - len(known):
            lines.append(f"Workers that did not answer: {missing}")
        title = "## Warnings and errors logged by the workers, by kind"
        return "\n".join([printed, title, "", *lines, ""])

    async def _run(self) -> str:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as error:
            raise ReportError(f"The report cannot be made: {error.strerror}") from None
        try:
            async with asyncio.timeout(TIMEOUT):
                printed, _ = await process.communicate()
        except TimeoutError:
            raise ReportError(f"The report took more than {TIMEOUT:g} s") from None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
        if process.returncode:
            raise ReportError(f"The report ended with {process.returncode}; try `autopush report`")
        return printed[:MAX_REPORT].decode("utf-8", "replace")

    def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
