"""Renders log records: JSON in the shape of mozlog, or text for people.

Rule: every record becomes one line of printable characters (in text, a traceback follows on lines
of its own), and fields that are named like a secret are redacted.
"""

import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import orjson

NAMESPACE: Final = "autopush"
"""The parent of all loggers of this service."""
REDACTED: Final = "[redacted]"
SECRET_FIELDS: Final = frozenset(
    {"auth_key", "authorization", "cookie", "crypto_key", "key_hash", "proxy_authorization"}
)
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_FLATTENED: Final = frozenset({"client_info", "timings"})
_OPTIONS: Final = orjson.OPT_NON_STR_KEYS
_PRIORITIES: Final = (
    (logging.CRITICAL, 2),
    (logging.ERROR, 3),
    (logging.WARNING, 4),
    (logging.INFO, 6),
)
"""Lowest level → priority of syslog(3); 7 is debugging."""


class JsonFormatter(logging.Formatter):
    """`logger`: the program with its version; `hostname`: empty for this machine's name."""

    def __init__(self, logger: str, hostname: str = "") -> None:
        super().__init__()
        self._logger = logger
        self._hostname = hostname or os.uname().nodename

    def format(self, record: logging.LogRecord) -> str:
        source = _source(record)
        document = {
            "Timestamp": int(record.created * 1_000_000_000),
            "Type": source if ":" in source else f"{NAMESPACE}:{source}",
            "Logger": self._logger,
            "Hostname": self._hostname,
            "EnvVersion": "2.0",
            "Severity": 3 if record.levelno >= logging.ERROR else 5,
            "Pid": record.process,
            "Fields": {
                "message": record.getMessage(),
                "level": record.levelname.lower(),
                **_fields(self, record),
            },
        }
        try:
            return orjson.dumps(document, default=_plain, option=_OPTIONS).decode()
        except TypeError:  # lone surrogates, integers beyond 64 bits, values nested too deeply
            return json.dumps(document, default=repr, skipkeys=True)


class TextFormatter(logging.Formatter):
    """`<time> <LEVEL> <source>: <message> key=value …`, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        words = [
            time.replace("+00:00", "Z"),
            record.levelname,
            f"{_source(record)}:",
            _printable(record.getMessage()),
        ]
        traceback = ""
        for name, value in _fields(self, record).items():
            if name == "exception":
                traceback = "".join(f"\n    {_printable(line)}" for line in str(value).splitlines())
            else:
                text = str(value) if isinstance(value, str | int | float) else repr(value)
                is_word = text.isprintable() and text and " " not in text
                words.append(f"{_printable(name)}={text if is_word else repr(text)}")
        return " ".join(words) + traceback


class JournalFormatter(logging.Formatter):
    """Another formatter's lines, each with its priority for systemd's journal (sd-daemon(3))."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return with_priority(self._inner.format(record), record.levelno)


def with_priority(text: str, level: int) -> str:
    """Prefix each line with its priority: the journal takes each for an entry."""
    priority = next((number for lowest, number in _PRIORITIES if level >= lowest), 7)
    return "\n".join(f"<{priority}>{line}" for line in text.split("\n"))


def is_journal(descriptor: int) -> bool:
    """Whether the descriptor leads to systemd's journal (systemd.exec(5))."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def render(formatter: logging.Formatter, record: logging.LogRecord) -> bytes:
    """The line of a record; if it cannot be rendered, without arguments and fields."""
    try:
        text = formatter.format(record)
    except Exception as error:  # noqa: BLE001 - a log call never raises
        event = record.msg if isinstance(record.msg, str) else "A log record cannot be rendered"
        text = formatter.format(
            new_record(record.name, record.levelno, event, log_error=type(error).__name__)
        )
    return text.encode(errors="backslashreplace") + b"\n"


def new_record(name: str, level: int, event: str, **fields: object) -> logging.LogRecord:
    values = {"name": name, "levelno": level, "levelname": logging.getLevelName(level)}
    return logging.makeLogRecord({**values, "msg": event, "fields": fields})


def redact(fields: Mapping[str, object]) -> dict[str, object]:
    """A copy in which fields named like a secret are redacted, at any depth; callers log none."""
    return {
        str(name): REDACTED if _is_secret(str(name)) else _redacted(value)
        for name, value in fields.items()
    }


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return name.lower().replace("-", "_") in SECRET_FIELDS


def _redacted(value: object) -> object:
    if type(value) in _SCALARS:  # nearly all; the check for a mapping costs ten times as much
        return value
    if isinstance(value, Mapping):
        return redact(value)
    return [_redacted(each) for each in value] if isinstance(value, list) else value


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, object]:
    given = getattr(record, "fields", None)
    fields = redact(given) if isinstance(given, dict) else {}
    for name in _FLATTENED & fields.keys():
        inner = fields.pop(name)
        fields.update(inner if isinstance(inner, dict) else {name: inner})
    if record.exc_info and record.exc_info[1]:
        fields["exception"] = formatter.formatException(record.exc_info)
    return fields


def _source(record: logging.LogRecord) -> str:
    """The logger's name below `autopush`, or `python:` and the name of a library's logger."""
    namespace, dot, name = record.name.partition(".")
    return name if namespace == NAMESPACE and dot else f"python:{record.name}"


def _plain(value: object) -> object:
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    return repr(value)


def _printable(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]
