"""Structured logs on top of the standard library's `logging`.

Rule: a log call never blocks and never raises, and no line is repeated without limit.

    log = logs.get(__name__)
    log.info("Session", uaid_hash=…, connection_time=…)

Records of libraries are handled alike. `QueueHandler` renders a record in the calling thread, so
that its fields cannot change before it is written; a thread of `QueueListener` writes the lines.
"""

import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue
from typing import ClassVar, Final

from autopush.telemetry.log_format import (
    NAMESPACE,
    JournalFormatter,
    JsonFormatter,
    TextFormatter,
    is_journal,
    new_record,
    render,
    with_priority,
)

CAPACITY: Final = 20_000
"""Lines that may wait to be written."""
FLUSH_TIMEOUT: Final = 2.0
"""Seconds to wait for pending lines at shutdown."""
REPORT_INTERVAL: Final = 10.0
"""Seconds between two reports of lost lines."""

LINES_PER_SECOND: Final = 100
"""Of one kind: of the same logger, level, text and type of exception. Debug is unlimited."""
WARNINGS_PER_SECOND: Final = 10
"""The same for warnings and errors, which are longer and are not meant to recur."""

MAX_KINDS: Final = 1000
"""Kinds of events that a `RepeatLimiter` tracks; one more clears them all."""

TALKATIVE: Final = ("botocore", "google", "hpack", "urllib3")
"""Libraries that log URLs, headers or credentials below WARNING."""

_DESCRIPTORS: Final = {"stdout": 1, "stderr": 2}

_teardown: Final = ExitStack()

# Silent until `configure`: `logging` would print warnings of a logger without a handler.
logging.getLogger(NAMESPACE).addHandler(logging.NullHandler())


class Log:
    """Logs events with fields: scalars or lists; `client_info` and `timings` are flattened.

    `exc_info` is as in `logging`: an exception, or True for the one being handled.
    """

    __slots__ = ("_logger",)

    repeats: "ClassVar[RepeatFilter | None]" = None
    """That of the handlers, see `configure`; None admits every line."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    @property
    def is_verbose(self) -> bool:
        """Whether `debug` writes; for fields that are collected only then."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._emit(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._emit(logging.INFO, event, fields)

    def info_with(self, event: str, collect: Callable[[], dict[str, object]]) -> None:
        """As `info`; `collect` returns the fields, and is called only if the line is written."""
        if self._logger.isEnabledFor(logging.INFO):
            repeats = self._admit(logging.INFO, event)
            if repeats is not None:
                self._write(logging.INFO, event, _add_suppressed(collect(), repeats))

    def warning(self, event: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.WARNING):
            self._emit(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.ERROR):
            self._emit(logging.ERROR, event, fields)

    def critical(self, event: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.CRITICAL):
            self._emit(logging.CRITICAL, event, fields)

    def exception(
        self, event: str, /, *, error: BaseException | None = None, **fields: object
    ) -> None:
        """An error with the traceback of `error`, or of the exception being handled."""
        self.error(event, **fields, exc_info=error or True)

    def _emit(self, level: int, event: str, fields: dict[str, object]) -> None:
        error = fields.pop("exc_info", None)
        if error is True:
            error = sys.exception()
        if isinstance(error, BaseException):
            self._write(level, event, fields, error)
            return
        repeats = self._admit(level, event)
        if repeats is not None:
            self._write(level, event, _add_suppressed(fields, repeats))

    def _admit(self, level: int, event: str) -> dict[str, int] | None:
        """Ask the filter before there is a record: making one costs far more than the answer."""
        return {} if Log.repeats is None else Log.repeats.admit(self._logger.name, level, event)

    def _write(
        self, level: int, event: str, fields: dict[str, object], error: BaseException | None = None
    ) -> None:
        extra: dict[str, object] = {"fields": fields}
        exc_info = None
        if error is None:
            extra["is_admitted"] = True
        else:
            exc_info = (type(error), error, error.__traceback__)
        # Not Logger.log: that would walk the stack for the caller's file and line.
        name = self._logger.name
        record = self._logger.makeRecord(name, level, "", 0, event, (), exc_info, extra=extra)
        self._logger.handle(record)


def get(name: str) -> Log:
    """`name`: a module's `__name__`, or a name below `autopush`."""
    is_full = name.partition(".")[0] == NAMESPACE
    return Log(logging.getLogger(name if is_full else f"{NAMESPACE}.{name}"))


_log: Final = get(__name__)


class FailureLog:
    """Logs the first of several failures in a row, and the recovery."""

    def __init__(self, log: Log, failing: str, working: str) -> None:
        self._log = log
        self._failing = failing
        self._working = working
        self._is_failing = False

    def failed(self, **fields: object) -> None:
        if not self._is_failing:
            self._log.warning(self._failing, **fields)
        self._is_failing = True

    def succeeded(self) -> None:
        if self._is_failing:
            self._log.info(self._working)
        self._is_failing = False


@dataclass(slots=True)
class _Window:
    start: float
    admitted: int = 0
    suppressed: int = 0


class RepeatLimiter:
    """Admits up to `limit` events of a kind in each `interval` seconds, and counts the others."""

    def __init__(
        self, limit: int, interval: float = 1.0, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._interval = interval
        self._monotonic = monotonic
        self._windows: dict[Hashable, _Window] = {}

    def admit(self, kind: Hashable) -> dict[str, int] | None:
        """None if the event is not to be logged; else more fields for its line: `suppressed`, the
        number of events of its kind left out since the last line, if any.
        """
        now = self._monotonic()
        window = self._windows.get(kind)
        if window is None:
            if len(self._windows) >= MAX_KINDS:
                self._windows.clear()
            window = self._windows[kind] = _Window(now)
        if now - window.start >= self._interval:
            window.start, window.admitted = now, 0
        if window.admitted >= self._limit:
            window.suppressed += 1
            return None
        window.admitted += 1
        suppressed, window.suppressed = window.suppressed, 0
        return {"suppressed": suppressed} if suppressed else {}


class RepeatFilter(logging.Filter):
    """Limits the lines of each kind, also of libraries; see `LINES_PER_SECOND`.

    One filter serves all handlers that write lines, and decides once for each record.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._lines = RepeatLimiter(LINES_PER_SECOND, monotonic=monotonic)
        self._warnings = RepeatLimiter(WARNINGS_PER_SECOND, monotonic=monotonic)

    def admit(
        self, name: str, level: int, event: str, error: type[BaseException] | None = None
    ) -> dict[str, int] | None:
        """As `RepeatLimiter.admit`, for a line of a logger."""
        if level <= logging.DEBUG:
            return {}
        limiter = self._lines if level < logging.WARNING else self._warnings
        return limiter.admit((name, level, event, error))

    def filter(self, record: logging.LogRecord) -> bool:
        admitted: bool | None = getattr(record, "is_admitted", None)
        if admitted is None:
            error = record.exc_info[0] if record.exc_info else None
            text = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
            repeats = self.admit(record.name, record.levelno, text, error)
            admitted = record.is_admitted = repeats is not None
            if repeats:
                record.fields = _add_suppressed(getattr(record, "fields", {}), repeats)
        return admitted


def _add_suppressed(fields: dict[str, object], repeats: dict[str, int]) -> dict[str, object]:
    if not repeats:
        return fields
    earlier = fields.get("suppressed")
    more = earlier if isinstance(earlier, int) else 0
    return {**fields, "suppressed": repeats["suppressed"] + more}


class LineHandler(QueueHandler):
    """Writes each record as one line to a file descriptor. `path`: its file, for `reopen`.

    Before `start` a line is written at once, if that does not block; from then on a thread writes
    from a bounded queue. Lines without room are dropped, counted, and reported once lines can be
    written.
    """

    queue: SimpleQueue[bytes | threading.Event | None]

    def __init__(
        self,
        descriptor: int,
        formatter: logging.Formatter,
        *,
        close_descriptor: bool = False,
        path: str = "",
        capacity: int = CAPACITY,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(SimpleQueue())
        self.setFormatter(formatter)
        self._descriptor = descriptor
        self._close_descriptor = close_descriptor
        self._path = path
        self._capacity = capacity
        self._monotonic = monotonic
        self._listener: _LineListener | None = None
        self._dropped = 0  # counted by logging threads
        self._unwritten = 0  # counted by the writing thread
        self._reported = 0
        self._reported_at = -REPORT_INTERVAL

    @property
    def lost(self) -> int:
        """Lines that were dropped or could not be written, so far."""
        return self._dropped + self._unwritten

    def start(self) -> None:
        if self._listener is None:
            self._listener = _LineListener(self)
            self._listener.start()

    def reopen(self) -> None:
        """Open `path` again, after log rotation has renamed the file.

        :raises OSError: it cannot be opened; the old file stays in use
        """
        if self._path:
            descriptor = _open_file(self._path)
            # Atomic for the thread, which may be writing.
            os.dup2(descriptor, self._descriptor, inheritable=False)
            os.close(descriptor)

    def prepare(self, record: logging.LogRecord) -> bytes:
        assert self.formatter is not None
        return render(self.formatter, record)

    def enqueue(self, line: bytes) -> None:  # type: ignore[override]  # as `prepare` returns it
        if self._listener is None:
            self.write(line)
        elif self.queue.qsize() < self._capacity:
            self.queue.put(line)
        else:
            self._dropped += 1

    def write(self, line: bytes) -> None:
        """Write a line, and a report of lost lines if one is due."""
        if not self._put(line):
            self._unwritten += 1
        elif self.lost > self._reported:
            now = self._monotonic()
            if now - self._reported_at >= REPORT_INTERVAL:
                self._reported_at = now
                self._report()

    def wait_until_written(self, timeout: float) -> bool:
        """Wait for everything logged so far; False after `timeout` seconds."""
        if self._listener is None:
            return True
        written = threading.Event()
        self.queue.put(written)
        return written.wait(timeout)

    def close(self) -> None:
        """Write pending lines, for at most `FLUSH_TIMEOUT`; `logging` calls this at exit too."""
        super().close()
        if not self.wait_until_written(FLUSH_TIMEOUT):
            return  # the reader is stuck: the thread, a daemon, still uses the descriptor
        if self._listener is not None:
            self._listener.stop()
            self._listener = None
        if self.lost > self._reported:
            self._report()
        if self._close_descriptor:
            self._close_descriptor = False
            os.close(self._descriptor)

    def _report(self) -> None:
        lost = self.lost - self._reported
        event = "Log lines lost: the log output was too slow"
        if self._put(self.prepare(new_record(__name__, logging.ERROR, event, lost=lost))):
            self._reported += lost

    def _put(self, line: bytes) -> bool:
        if self._listener is None and not _takes_a_line(self._descriptor):
            return False
        view = memoryview(line)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:
                # The descriptor is shared and was made non-blocking: wait as a blocking one would.
                select.select([], [self._descriptor], [])
            except OSError:
                return False  # a full disk or a closed pipe: nowhere left to say so
        return True


class _LineListener(QueueListener):
    """Handles lines in place of records, and sets an event when its turn comes."""

    def __init__(self, handler: LineHandler) -> None:
        super().__init__(handler.queue)
        self._write = handler.write

    def handle(self, entry: bytes | threading.Event) -> None:  # type: ignore[override]
        if isinstance(entry, threading.Event):
            entry.set()
        else:
            self._write(entry)


def _takes_a_line(descriptor: int) -> bool:
    """Whether a write of up to PIPE_BUF (4096) bytes would not block now."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(event & select.POLLOUT for _, event in poll.poll(0))


def configure(
    *,
    output: str = "stdout",
    level: str = "info",
    human: bool | None = None,
    background: bool = True,
    program: str = "Autopush",
    version: str = "",
    hostname: str = "",
    capacity: int = CAPACITY,
    handlers: Sequence[logging.Handler] = (),
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Send all logs to `output` (stdout, stderr, none, or a file to append to) and `handlers`.

    `human`: text instead of JSON; None: if the output is a terminal. `hostname`: named in records
    in place of this machine. Handlers without the attribute `has_own_limit` share a `RepeatFilter`;
    those with it get every record that has an exception, and of others those that are admitted.
    Without `background` no thread is started, so that the process may still fork; see
    `start_background`.

    :raises OSError: the file cannot be opened; the logs stay as they were
    """
    logger = f"{program}-{version}" if version else program
    formatter = _formatter(output, human, logger, hostname)
    handler = _open(output, formatter, capacity)
    shutdown()
    root = logging.getLogger()
    _teardown.callback(root.setLevel, root.level)
    for name in TALKATIVE:
        library = logging.getLogger(name)
        _teardown.callback(library.setLevel, library.level)
        library.setLevel(logging.WARNING)
    repeats = RepeatFilter(monotonic=monotonic)
    Log.repeats = repeats
    _teardown.callback(setattr, Log, "repeats", None)
    # The output is closed last: the others report their failures there.
    for each in (handler, *handlers):
        if not getattr(each, "has_own_limit", False):
            each.addFilter(repeats)
        if each.formatter is None:
            each.setFormatter(formatter)
        _teardown.callback(each.close)
        _teardown.callback(root.removeHandler, each)
        root.addHandler(each)
    set_level(level)
    if background:
        start_background()


def set_level(level: str) -> None:
    root = logging.getLogger()
    is_written = any(not isinstance(each, logging.NullHandler) for each in root.handlers)
    root.setLevel(level.upper() if is_written else logging.CRITICAL + 1)  # not even made


def lost() -> int:
    """Lines that this process has lost so far, to the output or to Firehose."""
    return sum(getattr(handler, "lost", 0) for handler in logging.getLogger().handlers)


def start_background() -> None:
    """Start the threads of the handlers; a process that forks calls this in its children."""
    for handler in logging.getLogger().handlers:
        start = getattr(handler, "start", None)
        if start is not None:
            start()


def reopen() -> None:
    """Open the log file again, after log rotation has renamed it."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LineHandler):
            try:
                handler.reopen()
            except OSError as error:
                reason = error.strerror
                _log.error(
                    "The log file cannot be opened again; the old one is kept", reason=reason
                )


def print_error(text: str) -> None:
    """Print an error of a command on standard error; in systemd's journal with its priority."""
    text = f"{NAMESPACE}: {text}"
    if is_journal(_DESCRIPTORS["stderr"]):
        text = with_priority(text, logging.ERROR)
    print(text, file=sys.stderr, flush=True)


def shutdown() -> None:
    """Write pending lines, and leave `logging` as it was before `configure`."""
    _teardown.close()


def _open(output: str, formatter: logging.Formatter, capacity: int) -> logging.Handler:
    if output == "none":
        return logging.NullHandler()
    if output in _DESCRIPTORS:
        descriptor = _DESCRIPTORS[output]
        if is_journal(descriptor):
            formatter = JournalFormatter(formatter)
        return LineHandler(descriptor, formatter, capacity=capacity)
    path = os.path.abspath(os.path.expanduser(output))
    return LineHandler(
        _open_file(path), formatter, close_descriptor=True, path=path, capacity=capacity
    )


def _open_file(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)


def _formatter(output: str, human: bool | None, logger: str, hostname: str) -> logging.Formatter:
    if human is None:
        human = output in _DESCRIPTORS and os.isatty(_DESCRIPTORS[output])
    return TextFormatter() if human else JsonFormatter(logger, hostname)
