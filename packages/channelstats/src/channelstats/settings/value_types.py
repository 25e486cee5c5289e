"""How the text of a setting is parsed, and what a user has to write.

Rule: a parser depends on nothing but its text; it returns the value or raises ValueError. The text
is in no error: it may be a secret in the wrong place.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Final
from urllib.parse import urlsplit

from channelstats.counting import Profile
from channelstats.days import zone_of
from channelstats.slack.rate_limits import AppKind
from channelstats.views.goals import parse_bound
from keytables.stores import parse_store

Value = str | int | bool

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]+(-+[a-z0-9]+)*", re.IGNORECASE)
_SUBTYPE: Final = re.compile(r"[a-z][a-z0-9_]{0,79}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_CONTACT: Final = re.compile(r"mailto:[^@\s]+@[^@\s]+|https://\S+")
_HOST: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.IGNORECASE)
_TOKEN: Final = ("xoxp-", "xoxb-", "xoxe", "xapp-", "xoxa-", "xoxc-", "xoxs-")


@dataclass(frozen=True, slots=True)
class ValueType:
    """`parse` raises ValueError, whose text is not shown to the user; `expected` is."""

    metavar: str
    expected: str
    parse: Callable[[str], Value]
    is_list: bool = False
    """Members are separated by commas; in the file it may be an array."""
    explains: bool = False
    """The text of the ValueError says what is wrong and repeats no secret: it is shown instead."""


def _valid(text: str, is_valid: bool) -> str:
    if not is_valid:
        raise ValueError
    return text


def _text(metavar: str, expected: str, is_valid: Callable[[str], object]) -> ValueType:
    return ValueType(metavar, expected, lambda text: _valid(text, bool(is_valid(text))))


def _word(metavar: str, expected: str, words: Iterable[str]) -> ValueType:
    return _text(metavar, expected, frozenset(words).__contains__)


def _number(metavar: str, expected: str, lowest: int, highest: int) -> ValueType:
    def parse(text: str) -> int:
        value = int(_valid(text, text.isascii() and text.isdecimal() and len(text) < 19))
        _valid(text, lowest <= value <= highest)
        return value

    return ValueType(metavar, expected, parse)


def _list(expected: str, is_valid: Callable[[str], object]) -> ValueType:
    def parse(text: str) -> str:
        return ",".join(_valid(member, bool(is_valid(member))) for member in members(text))

    return ValueType("LIST", expected, parse, is_list=True)


def members(text: str) -> list[str]:
    """The members of a list, without the signs of channels and people before them."""
    found = (member.strip().lstrip("#@") for member in text.split(","))
    return [member for member in found if member]


def _parse_boolean(text: str) -> bool:
    return _WORDS[_valid(text.lower(), text.lower() in _WORDS)]


def _parse_weekday(text: str) -> str:
    return _valid(text.lower(), text.lower() in WEEKDAYS)


def _parse_channel(text: str) -> str:
    name = text.strip().removeprefix("#")
    return _valid(name, bool(name) and "," not in name)


def _parse_subtypes(text: str) -> str:
    return ",".join(
        sorted({_valid(found, bool(_SUBTYPE.fullmatch(found))) for found in members(text)})
    )


def _parse_bounds(text: str) -> str:
    found = members(text)
    for member in found:
        parse_bound(member)
    return ",".join(found)


def _parse_store(text: str) -> str:
    parse_store(text)
    return text


def _parse_api(text: str) -> str:
    """Where a token may be sent: over TLS, or to this machine."""
    parts = urlsplit(text)
    host = parts.hostname or ""
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and _is_local(host))
    return _valid(text, bool(host) and is_safe).rstrip("/") + "/"


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


# ── The types of fields of `Settings`: of Python, and of the text ─────────────────────────────────

TEXT: Final = ValueType("TEXT", "a text", str)
FLAG: Final = ValueType("yes|no", "yes or no", _parse_boolean)

Folder = Annotated[str, ValueType("DIR", "a folder", str)]
FileName = Annotated[str, ValueType("FILE", "a file", str)]
TokenFile = Annotated[
    str,
    _text(
        "FILE",
        "the name of a file, not the token itself",
        lambda text: not text.strip().startswith(_TOKEN),
    ),
]
StoreUrl = Annotated[str, ValueType("URL", "a store", _parse_store, explains=True)]
TablePrefix = Annotated[str, _text("TEXT", "letters, digits, '_', '-', '.'", _PREFIX.fullmatch)]
TimeZone = Annotated[str, _text("ZONE", "the name of a time zone, like Europe/Berlin", zone_of)]
Weekday = Annotated[str, ValueType("WEEKDAY", "a weekday, like sunday or monday", _parse_weekday)]
ProfileName = Annotated[str, _word("|".join(Profile), " or ".join(Profile), Profile)]
AppKindName = Annotated[str, _word("KIND", ", ".join(AppKind), AppKind)]
Subtypes = Annotated[
    str,
    ValueType(
        "LIST",
        "subtypes of messages, like channel_join,reminder_add",
        _parse_subtypes,
        is_list=True,
    ),
]
Days = Annotated[int, _number("DAYS", "a number of days", 0, 36_600)]
Count = Annotated[int, _number("NUMBER", "a whole number from 1 on", 1, 1_000_000)]
Port = Annotated[int, _number("PORT", "a port, from 0 (any free one) to 65535", 0, 65_535)]
ApiUrl = Annotated[
    str, ValueType("URL", "https://…, or http:// and an address of this machine", _parse_api)
]
Subdomain = Annotated[
    str,
    _text("TEXT", "the part before .slack.com of the workspace's address", _SUBDOMAIN.fullmatch),
]
ChannelName = Annotated[str, ValueType("NAME", "the name of a channel, or its ID", _parse_channel)]
HostName = Annotated[str, ValueType("ADDRESS", "an address", str)]
Contact = Annotated[str, _text("URL", "mailto:name@example.org or https://…", _CONTACT.fullmatch)]
Hosts = Annotated[str, _list("hosts without port, like push.example.lan", _HOST.fullmatch)]
Bounds = Annotated[
    str,
    ValueType("LIST", "figures and their bounds", _parse_bounds, is_list=True, explains=True),
]
Names = Annotated[str, _list("names or IDs", bool)]
