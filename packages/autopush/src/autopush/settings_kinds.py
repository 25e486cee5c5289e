"""The kinds of values an option can have: how a text is understood, and what is expected of it.

Rule: a kind takes a text and gives a value or raises ValueError; it reads nothing else.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

Setting = str | int | float | bool | Path | tuple[str, ...] | None
"""What a parsed value can be."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: `parse` raises ValueError, whose text is not shown; `expected` is."""

    metavar: str
    expected: str
    parse: Callable[[str], Setting]
    is_flag: bool = False
    is_list: bool = False
    explains: bool = False
    """The text of the ValueError says what is wrong and repeats no secret: it is shown instead."""


_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})
_HOST: Final = re.compile(
    r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?|\[?[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*\]?"
)
_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]{3,200}")
_FERNET_KEY: Final = re.compile(r"[A-Za-z0-9_-]{43}=")


def _checked(text: str, good: bool) -> str:
    if not good:
        raise ValueError
    return text


def is_fernet_key(text: str) -> bool:
    """32 bytes as url-safe base64 with padding: 44 characters."""
    return _FERNET_KEY.fullmatch(text) is not None


def is_auth_key(text: str) -> bool:
    """Any text without spaces; it is used as the bytes it is written with."""
    return text.isascii() and text.isprintable() and bool(text) and " " not in text


def integer(lowest: int, highest: int | None = None, metavar: str = "NUMBER") -> Kind:
    def parse(text: str) -> int:
        value = int(_checked(text, text.isascii() and text.isdecimal() and len(text) < 19))
        if value < lowest or (highest is not None and value > highest):
            raise ValueError
        return value

    bounds = f"of at least {lowest}" if highest is None else f"from {lowest} to {highest}"
    return Kind(metavar, f"a whole number {bounds}", parse)


def choice(*words: str) -> Kind:
    names = ", ".join(words[:-1]) + " or " + words[-1]
    return Kind("|".join(words), names, lambda text: _checked(text, text in words))


def url(*schemes: str) -> Kind:
    def parse(text: str) -> str:
        parts = urlsplit(text)
        good = parts.scheme in schemes and parts.port != 0 and _is_host(parts.hostname or "")
        plain = not (parts.query or parts.fragment or "@" in parts.netloc)
        return canonical_url(
            _checked(text, good and plain and text.isascii() and text.isprintable())
        )

    return Kind(
        "URL",
        f"a URL that starts with {' or '.join(s + '://' for s in schemes)} and has no query",
        parse,
    )


def _boolean(text: str) -> bool:
    word = text.lower()
    _checked(word, word in _TRUE or word in _FALSE)
    return word in _TRUE


def _seconds(text: str) -> float:
    return float(
        _checked(text, re.fullmatch(r"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}", text) is not None)
    )


def _positive_seconds(text: str) -> float:
    value = _seconds(text)
    if not value:
        raise ValueError
    return value


def _is_host(text: str) -> bool:
    return len(text) <= 255 and _HOST.fullmatch(text) is not None


def _list_of(good: Callable[[str], bool]) -> Callable[[str], tuple[str, ...]]:
    """`[a, b]`, `a, b` or `a`; quotes and spaces do not count, nor do empty members."""

    def parse(text: str) -> tuple[str, ...]:
        if text.startswith("[") and text.endswith("]"):
            text = text[1:-1]
        members = [member.strip().strip("\"'") for member in text.split(",")]
        return tuple(_checked(member, good(member)) for member in members if member)

    return parse


def _store(text: str) -> str:
    from keytables.stores import parse_store  # noqa: PLC0415 - most starts name no store

    parse_store(text)
    return text


text_value: Final = Kind("TEXT", "a text", str)
host_name: Final = Kind(
    "HOST",
    "a host name or address, without scheme and port",
    lambda text: _checked(text, _is_host(text)).strip("[]"),
)
port_number: Final = integer(0, 65535, "PORT")
seconds: Final = Kind("SECONDS", "a number of seconds, such as 30 or 0.5", _seconds)
positive_seconds: Final = Kind(
    "SECONDS", "a number of seconds above 0, such as 4 or 0.5", _positive_seconds
)
boolean: Final = Kind("BOOLEAN", "true or false", _boolean, is_flag=True)
folder: Final = Kind("DIR", "a folder", lambda text: Path(text).expanduser())
table_name: Final = Kind(
    "NAME",
    "3 to 200 letters, digits or _.-",
    lambda text: _checked(text, _TABLE.fullmatch(text) is not None),
)
store_url: Final = Kind(
    "URL",
    "sqlite:///PATH or dynamodb://REGION?endpoint=URL&prefix=TEXT",
    _store,
    explains=True,
)
fernet_keys: Final = Kind(
    "KEY",
    "keys made by `autokey`: 44 characters of url-safe base64 each",
    _list_of(is_fernet_key),
    is_list=True,
)
secret_texts: Final = Kind(
    "KEY",
    "keys without spaces, such as `autokey` makes",
    _list_of(is_auth_key),
    is_list=True,
)

# URLs

_DEFAULT_PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443}


def join_url(scheme: str, host: str, port: int | None, path: str = "") -> str:
    """A canonical URL: lower-case host, IPv6 in brackets, no default port."""
    suffix = "" if port is None or port == _DEFAULT_PORTS.get(scheme) else f":{port}"
    return f"{scheme}://{in_url(host)}{suffix}{path}"


def in_url(host: str) -> str:
    """A host as URLs have it: lower-case, IPv6 in brackets."""
    host = host.strip("[]").lower()
    return f"[{host}]" if ":" in host else host


def canonical_url(text: str) -> str:
    """The same URL without default port and without slashes at the end."""
    parts: SplitResult = urlsplit(text)
    return join_url(parts.scheme, parts.hostname or "", parts.port, parts.path.rstrip("/"))
