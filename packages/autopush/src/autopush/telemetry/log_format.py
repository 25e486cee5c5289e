"""Turns a log record into a line: JSON in the shape of mozlog, or text for people.

Rule: whatever the fields hold, a line comes out, and it is one line of printable characters
(in text, a traceback follows on lines of its own).

A record is a dict of fields, with `event` (the message), `_source`, `_level` and `_at` (seconds
since the epoch) among them.
"""

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import orjson
from structlog.typing import EventDict, WrappedLogger

REDACTED: Final = "[redacted]"
SECRET_FIELDS: Final = frozenset(
    {"auth_key", "authorization", "cookie", "crypto_key", "key_hash", "proxy_authorization"}
)
_FLATTENED: Final = frozenset({"client_info", "timings"})
_OURS: Final = frozenset({"event", "_source", "_level", "_at"})


def redact(_: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """A structlog processor, the last defence: fields named like a secret lose their value."""
    for name, value in event.items():
        if name.lower().replace("-", "_") in SECRET_FIELDS:
            event[name] = REDACTED
        elif isinstance(value, dict):
            event[name] = redact(_, _name, {str(key): inner for key, inner in value.items()})
    return event


def json_line(event: EventDict, envelope: Mapping[str, str]) -> bytes:
    """One JSON object and a line end; `envelope` has `hostname` and `logger`."""
    level = event["_level"]
    record = {
        "Timestamp": int(event["_at"] * 1_000_000_000),
        "Type": _qualified(event["_source"]),
        "Logger": envelope["logger"],
        "Hostname": envelope["hostname"],
        "EnvVersion": "2.0",
        "Severity": 3 if level in {"error", "critical"} else 5,
        "Pid": os.getpid(),
        "Fields": {"message": str(event["event"]), "level": level, **dict(_fields(event))},
    }
    try:
        return orjson.dumps(record, default=_plain, option=_OPTIONS)
    except TypeError:  # lone surrogates, integers beyond 64 bits, values nested too deeply
        return json.dumps(record, default=repr, skipkeys=True).encode() + b"\n"


def human_line(event: EventDict, envelope: Mapping[str, str]) -> bytes:  # noqa: ARG001
    """`<time> <LEVEL> <source>: <message> key=value …`, and the traceback if there is one."""
    at = datetime.fromtimestamp(event["_at"], UTC).isoformat(timespec="milliseconds")
    words = [
        at.replace("+00:00", "Z"),
        event["_level"].upper(),
        f"{event['_source']}:",
        _printable(str(event["event"])),
    ]
    traceback = ""
    for name, value in _fields(event):
        if name == "exception":
            traceback = "".join(f"\n    {_printable(line)}" for line in str(value).splitlines())
        else:
            text = str(value) if isinstance(value, str | int | float) else repr(value)
            plain = text.isprintable() and text and " " not in text
            words.append(f"{_printable(name)}={text if plain else repr(text)}")
    return f"{' '.join(words)}{traceback}\n".encode(errors="backslashreplace")


_OPTIONS: Final = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS


def _fields(event: EventDict) -> Iterator[tuple[str, object]]:
    for name, value in event.items():
        if name in _FLATTENED and isinstance(value, dict):
            yield from value.items()
        elif name not in _OURS:
            yield name, value


def _plain(value: object) -> object:
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    return repr(value)


def _printable(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]


def _qualified(source: str) -> str:
    return source if ":" in source else f"autopush:{source}"
