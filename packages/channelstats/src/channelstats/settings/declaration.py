"""What a row of the table of settings says of an option, and how the text of its value is parsed.

Rule: a parser depends on nothing but its text; it returns the value or raises ValueError. The text
is in no error: it may be a secret in the wrong place.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from channelstats.days import zone_of
from channelstats.pages.goals import Bound, parse_bound
from channelstats.slack.rate_limits import AppKind
from keytables.stores import parse_store

T = TypeVar("T")
WordT = TypeVar("WordT", bound=StrEnum)

PREFIX: Final = "CHANNELSTATS_"


class SettingError(Exception):
    """A setting that cannot be used; one line that names it and says what was expected."""


class Source(NamedTuple):
    """Where a value comes from. `kind`: file, environment or flag; `place`: PATH:LINE, the name of
    a variable, or a flag.
    """

    kind: str
    place: str

    def of(self, option: str) -> str:
        """The option's place as messages name it."""
        return f"{self.place}: {option}" if self.kind == "file" else self.place


@dataclass(frozen=True, slots=True)
class ValueType(Generic[T]):
    """`parse` raises ValueError, whose text is not shown to the user; `expected` is."""

    metavar: str
    expected: str
    parse: Callable[[str], T]
    is_list: bool = False
    """Members are separated by commas; in the file it may be an array."""
    explains: bool = False
    """The text of the ValueError says what is wrong and repeats no secret: it is shown instead."""


class MergeSkinTones(StrEnum):
    """Where emoji that differ in their skin tone are one."""

    PAGES = "pages"
    EVERYWHERE = "yes"
    NOWHERE = "no"

    @property
    def everywhere(self) -> bool | None:
        """As `Options` has it."""
        return None if self is MergeSkinTones.PAGES else self is MergeSkinTones.EVERYWHERE


class OptionGroup(StrEnum):
    """What options are about; the help of a command shows the groups that matter to it."""

    GENERAL = "settings"
    COUNTING = "what counts"
    SLACK = "Slack"
    REPORTS = "reports"
    DASHBOARD = "dashboard"
    PRIVACY = "privacy"

    def option(self, value_type: ValueType[T], default: str | int, about: str) -> T:
        """Declare a field of `Settings` as an option; the default is as an operator writes it."""
        option = Option("", value_type, default, self, about)
        value: T = field(default=option.value(str(default)), metadata={"option": option})
        return value


@dataclass(frozen=True, slots=True)
class Option:
    """A row of the table: `data` is --data, CHANNELSTATS_DATA, and `data` in the file."""

    name: str
    value_type: ValueType[Any]
    default: str | int
    group: OptionGroup
    help: str

    def value(self, text: str) -> Any:
        """The value that a text means; nothing may stay nothing.

        :raises ValueError: it means none
        """
        is_nothing = text == self.default == "" and not self.value_type.is_list
        return text if is_nothing else self.value_type.parse(text)

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


def show_value(value: object) -> str:
    """A value as an operator would write it."""
    if isinstance(value, bool):
        return ("no", "yes")[value]
    if isinstance(value, frozenset):
        value = tuple(sorted(value))
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


# ── types of values ──────────────────────────────────────────────────────────────────────────────

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]+(-+[a-z0-9]+)*", re.IGNORECASE)
_SUBTYPE: Final = re.compile(r"[a-z][a-z0-9_]{0,79}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_CONTACT: Final = re.compile(r"mailto:[^@\s]+@[^@\s]+|https://\S+")
_MAIL: Final = re.compile(r"[^@\s<>,]{1,64}@[^@\s<>,]{1,190}")
_HOST: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_TOKEN: Final = ("xoxp-", "xoxb-", "xoxe", "xapp-", "xoxa-", "xoxc-", "xoxs-")

IsValid = Callable[[str], object]


def _members(text: str) -> list[str]:
    """The members of a list, without the signs of channels and people before them."""
    members = (member.strip().lstrip("#@") for member in text.split(","))
    return [member for member in members if member]


def _valid(text: str, is_valid: object) -> str:
    if not is_valid:
        raise ValueError
    return text


def _text(metavar: str, expected: str, is_valid: IsValid) -> ValueType[str]:
    return ValueType(metavar, expected, lambda text: _valid(text, is_valid(text)))


def _word(metavar: str, expected: str, words: type[WordT]) -> ValueType[WordT]:
    return ValueType(metavar, expected, lambda text: words(text.lower()))


def _number(metavar: str, expected: str, lowest: int, highest: int) -> ValueType[int]:
    def parse(text: str) -> int:
        value = int(_valid(text, text.isascii() and text.isdecimal() and len(text) < 19))
        _valid(text, lowest <= value <= highest)
        return value

    return ValueType(metavar, expected, parse)


def _set(expected: str, is_valid: IsValid) -> ValueType[frozenset[str]]:
    def parse(text: str) -> frozenset[str]:
        return frozenset(_valid(member, is_valid(member)) for member in _members(text))

    return ValueType("LIST", expected, parse, is_list=True)


def _parse_hosts(text: str) -> frozenset[str]:
    return frozenset(_valid(host, _HOST.fullmatch(host)) for host in _members(text.lower()))


def _parse_bounds(text: str) -> tuple[Bound, ...]:
    return tuple(map(parse_bound, _members(text)))


def _parse_weekday(text: str) -> str:
    return _valid(text.lower(), text.lower() in WEEKDAYS)


def _parse_boolean(text: str) -> bool:
    return _WORDS[_valid(text.lower(), text.lower() in _WORDS)]


def _parse_channel(text: str) -> str:
    name = text.strip().removeprefix("#")
    return _valid(name, name and "," not in name)


def _parse_api(text: str) -> str:
    """Where a token may be sent: over TLS, or to this machine."""
    parts = urlsplit(text)
    host = parts.hostname or ""
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    return _valid(text, host and is_safe).rstrip("/") + "/"


def _parse_web_address(text: str) -> str:
    parts = urlsplit(text)
    is_plain = not (parts.query or parts.fragment or parts.username)
    is_web = parts.scheme in ("https", "http") and parts.hostname and is_plain
    return _valid(text, is_web and not re.search(r"[\s<>|]", text)).rstrip("/") + "/"


def _parse_mail_server(text: str) -> str:
    parts = urlsplit(text)
    is_plain = not (parts.path or parts.query or parts.fragment or parts.password)
    _valid(text, parts.scheme in ("smtp", "smtps") and parts.hostname and is_plain)
    _valid(text, parts.port != 0)  # one that is no number raises by itself
    return text


def is_loopback(host: str) -> bool:
    """Whether a name or an address means the machine that it is used on."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_no_token(text: str) -> bool:
    return not text.strip().startswith(_TOKEN)


MAIL_SERVER: Final = ValueType(
    "URL", "smtp://USER@HOST:PORT or smtps://…, without the password", _parse_mail_server
)
MAIL_ADDRESS: Final = _text("ADDRESS", "a mail address", _MAIL.fullmatch)
FLAG: Final = ValueType("yes|no", "yes or no", _parse_boolean)
DIR: Final = ValueType("DIR", "a folder", str)
FILE: Final = ValueType("FILE", "a file", str)
EXPORT: Final = ValueType("EXPORT", "a Slack export: a zip or a folder", str)
TOKEN_FILE: Final = _text("FILE", "the name of a file, not the token itself", _is_no_token)
STORE: Final = ValueType(
    "URL", "a store", lambda text: _valid(text, parse_store(text)), explains=True
)
TABLE_PREFIX: Final = _text("TEXT", "letters, digits, '_', '-', '.'", _PREFIX.fullmatch)
TIME_ZONE: Final = _text("ZONE", "the name of a time zone, like Europe/Berlin", zone_of)
WEEKDAY: Final = ValueType("WEEKDAY", "a weekday, like sunday or monday", _parse_weekday)
SKIN_TONES: Final = _word("|".join(MergeSkinTones), ", ".join(MergeSkinTones), MergeSkinTones)
APP_KIND: Final = _word("KIND", ", ".join(AppKind), AppKind)
SUBTYPES: Final = _set("subtypes of messages, like channel_join,reminder_add", _SUBTYPE.fullmatch)
DAYS: Final = _number("DAYS", "a number of days", 0, 36_600)
COUNT: Final = _number("NUMBER", "a whole number from 1 on", 1, 1_000_000)
PORT: Final = _number("PORT", "a port, from 0 (any free one) to 65535", 0, 65_535)
API: Final = ValueType("URL", "https://…, or http:// and an address of this machine", _parse_api)
WEB_ADDRESS: Final = ValueType("URL", "https://… or http://…, without a query", _parse_web_address)
SUBDOMAIN: Final = _text(
    "TEXT", "the part before .slack.com of the workspace's address", _SUBDOMAIN.fullmatch
)
CHANNEL: Final = ValueType("NAME", "the name of a channel, or its ID", _parse_channel)
ADDRESS: Final = ValueType("ADDRESS", "an address", str)
CONTACT: Final = _text("URL", "mailto:name@example.org or https://…", _CONTACT.fullmatch)
HOSTS: Final = ValueType(
    "LIST", "hosts without port, like push.example.lan", _parse_hosts, is_list=True
)
BOUNDS: Final = ValueType(
    "LIST", "figures and their bounds", _parse_bounds, is_list=True, explains=True
)
NAMES: Final = _set("names or IDs", bool)
