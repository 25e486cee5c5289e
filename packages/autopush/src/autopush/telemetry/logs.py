"""Structured logs: JSON lines in the shape of mozlog, or text for people.

Rule: a log call never blocks, never raises and never shows a key; below the level it costs next to
nothing. Everything that logs, the standard library's `logging` too, ends up here.

    log = logs.get("connection")
    log.info("Session", uaid_hash=…, connection_time=…)
"""

import atexit
import logging
import os
import time
from collections.abc import Mapping
from typing import Final

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from autopush.clock import Clock

from .log_format import human_line, json_line, redact
from .log_writer import CAPACITY, LogWriter

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_OFF: Final = 100
_FLUSH_AT_EXIT: Final = 2.0


class _Output:
    """Where log lines go; the one mutable thing of this module."""

    __slots__ = ("level", "writer")

    def __init__(self) -> None:
        self.level = _OFF
        self.writer: LogWriter | None = None


_output = _Output()


class Log:
    """Logs under a name. Fields are scalars or lists; `client_info` and `timings` are flattened."""

    __slots__ = ("_logger", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._logger: FilteringBoundLogger = structlog.get_logger(_source=name)

    def is_on(self, level: str) -> bool:
        """Whether a record of this level would be written; spares the making of costly fields."""
        return _output.level <= LEVELS[level]

    def debug(self, event: str, /, **fields: object) -> None:
        if _output.level <= 10:
            self._emit("debug", event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        if _output.level <= 20:
            self._emit("info", event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        if _output.level <= 30:
            self._emit("warning", event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        if _output.level <= 40:
            self._emit("error", event, fields)

    def critical(self, event: str, /, **fields: object) -> None:
        if _output.level <= 50:
            self._emit("critical", event, fields)

    def exception(
        self, event: str, /, *, error: BaseException | None = None, **fields: object
    ) -> None:
        """An error with its traceback: that of `error`, or of the exception being handled."""
        if _output.level <= 40:
            self._emit("error", event, {**fields, "exc_info": error or True})

    def _emit(self, level: str, event: str, fields: Mapping[str, object]) -> None:
        try:
            getattr(self._logger.bind(**fields), level)(event)
        except Exception as error:  # noqa: BLE001 - a log call must not fail its caller
            getattr(self._logger, level)(event, log_error=type(error).__name__)


def get(name: str) -> Log:
    """The log of a part of the service; may be called before `configure`, silent until then."""
    return Log(name)


def configure(
    *,
    output: str = "stdout",
    level: str = "info",
    human: bool | None = None,
    background: bool = True,
    program: str = "Autopush",
    version: str = "",
    hostname: str = "",
    clock: Clock = time.time,
    capacity: int = CAPACITY,
) -> None:
    """Send all logs to `output`: stdout, stderr, none, or the name of a file to append to.

    Without `background` no thread is started, so that the process may still fork; see
    `go_background`. `human` None means: text when the output is a terminal.

    Raises:
        OSError: the file cannot be opened.
    """
    descriptor, owned = _open(output)
    shutdown()
    as_text = human
    if as_text is None:
        as_text = descriptor is not None and os.isatty(descriptor)
    line = human_line if as_text else json_line
    envelope = {
        "hostname": hostname or os.uname().nodename,
        "logger": f"{program}-{version}" if version else program,
    }

    def stamp(_: WrappedLogger, name: str, event: EventDict) -> EventDict:
        event["_level"] = name
        event["_at"] = clock()
        return event

    def render(_: WrappedLogger, _name: str, event: EventDict) -> bytes:
        return line(event, envelope)

    def lost_line(number: int) -> bytes:
        event: EventDict = {
            "event": "log lines lost: the log output was too slow",
            "_level": "error",
            "_at": clock(),
            "_source": "logs",
            "lost": number,
        }
        return line(event, envelope)

    structlog.configure(
        processors=[stamp, structlog.processors.format_exc_info, redact, render],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        logger_factory=_Sink,
        cache_logger_on_first_use=False,
    )
    if descriptor is None:
        return
    _output.writer = LogWriter(descriptor, lost_line, owned=owned, capacity=capacity)
    set_level(level)
    logging.getLogger().addHandler(_bridge)
    # It tells of every look for credentials, and in debug of what it found.
    logging.getLogger("botocore").setLevel(logging.WARNING)
    atexit.register(shutdown)
    if background:
        go_background()


def set_level(level: str) -> None:
    """Change the lowest level that is logged, for loggers made before too."""
    _output.level = LEVELS[level]
    logging.getLogger().setLevel(_output.level)


def go_background() -> None:
    """Write in a thread from now on; a process that forks calls this in its children."""
    if _output.writer is not None:
        _output.writer.start()


def flush(timeout: float = _FLUSH_AT_EXIT) -> bool:
    """Wait until all that was logged is written; False when that took longer than `timeout`."""
    return _output.writer is None or _output.writer.flush(timeout)


def shutdown(timeout: float = _FLUSH_AT_EXIT) -> None:
    """Write what is waiting, for at most `timeout` seconds, and log nothing any more."""
    writer, _output.writer = _output.writer, None
    _output.level = _OFF
    logging.getLogger().removeHandler(_bridge)
    atexit.unregister(shutdown)
    if writer is not None:
        writer.close(timeout)


def lost_lines() -> int:
    """How many lines were dropped because the output was too slow."""
    return 0 if _output.writer is None else _output.writer.lost


def _open(output: str) -> tuple[int | None, bool]:
    if output == "none":
        return None, False
    if output in {"stdout", "stderr"}:
        return {"stdout": 1, "stderr": 2}[output], False
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    return os.open(os.path.expanduser(output), flags, 0o640), True


class _Sink:
    """What structlog takes for the logger at the end of the chain."""

    __slots__ = ()

    def msg(self, line: bytes) -> None:
        if _output.writer is not None:
            _output.writer.write(line)

    debug = info = warning = error = critical = msg


class _Bridge(logging.Handler):
    """Hands records of the standard library's `logging` on."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - arguments that do not fit: the format is still worth it
            message = str(record.msg)
        fields: dict[str, object] = {}
        if record.exc_info and record.exc_info[1]:
            fields["exc_info"] = record.exc_info[1]
        names = [name for name, number in LEVELS.items() if number <= record.levelno]
        getattr(Log(f"python:{record.name}"), names[-1] if names else "debug")(message, **fields)


_bridge = _Bridge()
