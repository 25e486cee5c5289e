"""The settings: every option is a row of the dataclass `Settings`.

Rule: a parser depends on nothing but its text; it returns the value or raises ValueError. The text
is in no error: it may be a secret in the wrong place.
"""

# ruff: noqa: RUF009 - a group's `option` is `dataclasses.field` with its own metadata

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlsplit

from channelstats.counting import Counting
from channelstats.days import WEEKDAYS, zone_of
from channelstats.facts import Options
from channelstats.pages.goals import Bound, parse_bound
from channelstats.slack.rate_limits import AppKind
from keytables.stores import parse_store

T = TypeVar("T")
WordT = TypeVar("WordT", bound=StrEnum)

PREFIX: Final = "CHANNELSTATS_"


class SettingError(Exception):
    """A setting that cannot be used; one line that names it and says what was expected."""


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

HOST: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_WEEKDAYS: Final = tuple(day.lower() for day in WEEKDAYS)
_SWITCHES: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_TOKENS: Final = ("xoxp-", "xoxb-", "xoxe", "xapp-", "xoxa-", "xoxc-", "xoxs-")


class MergeSkinTones(StrEnum):
    """Where emoji that differ in their skin tone are one."""

    PAGES = "pages"
    EVERYWHERE = "yes"
    NOWHERE = "no"

    @property
    def everywhere(self) -> bool | None:
        """As `Options` has it."""
        return None if self is MergeSkinTones.PAGES else self is MergeSkinTones.EVERYWHERE


def is_loopback(host: str) -> bool:
    """Whether a name or an address means the machine that it is used on."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _valid(text: str, is_valid: object) -> str:
    if not is_valid:
        raise ValueError
    return text


def _text(metavar: str, expected: str, is_valid: Callable[[str], object]) -> ValueType[str]:
    return ValueType(metavar, expected, lambda text: _valid(text, is_valid(text)))


def _pattern(metavar: str, expected: str, pattern: str) -> ValueType[str]:
    return _text(metavar, expected, re.compile(pattern).fullmatch)


def _word(metavar: str, words: type[WordT]) -> ValueType[WordT]:
    return ValueType(metavar, ", ".join(words), lambda text: words(text.lower()))


def _number(metavar: str, expected: str, lowest: int, highest: int) -> ValueType[int]:
    def parse(text: str) -> int:
        value = int(_valid(text, text.isascii() and text.isdecimal() and len(text) < 19))
        _valid(text, lowest <= value <= highest)
        return value

    return ValueType(metavar, expected, parse)


def _members(text: str) -> list[str]:
    """The members of a list, without the signs of channels and people before them."""
    members = (member.strip().lstrip("#@") for member in text.split(","))
    return [member for member in members if member]


def _set(expected: str, pattern: str, *, is_lower: bool = False) -> ValueType[frozenset[str]]:
    def parse(text: str) -> frozenset[str]:
        members = _members(text.lower() if is_lower else text)
        return frozenset(_valid(member, re.fullmatch(pattern, member)) for member in members)

    return ValueType("LIST", expected, parse, is_list=True)


def _lower(text: str, words: Collection[str]) -> str:
    return _valid(text.lower(), text.lower() in words)


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
    # A port that is no number raises by itself.
    is_server = parts.scheme in ("smtp", "smtps") and parts.hostname and parts.port != 0
    return _valid(text, is_server and is_plain)


FLAG: Final = ValueType("yes|no", "yes or no", lambda text: _SWITCHES[_lower(text, _SWITCHES)])
DAYS: Final = _number("DAYS", "a number of days", 0, 36_600)
COUNT: Final = _number("NUMBER", "a whole number from 1 on", 1, 1_000_000)
PORT: Final = _number("PORT", "a port, from 0 (any free one) to 65535", 0, 65_535)
WEEKDAY: Final = ValueType(
    "WEEKDAY", "a weekday, like sunday or monday", partial(_lower, words=_WEEKDAYS)
)
TIME_ZONE: Final = _text("ZONE", "the name of a time zone, like Europe/Berlin", zone_of)
SKIN_TONES: Final = _word("|".join(MergeSkinTones), MergeSkinTones)
APP_KIND: Final = _word("KIND", AppKind)

DIR: Final = ValueType("DIR", "a folder", str)
FILE: Final = ValueType("FILE", "a file", str)
EXPORT: Final = ValueType("EXPORT", "a Slack export: a zip or a folder", str)
TOKEN_FILE: Final = _text(
    "FILE",
    "the name of a file, not the token itself",
    lambda text: not text.strip().startswith(_TOKENS),
)
STORE: Final = ValueType(
    "URL", "a store", lambda text: _valid(text, parse_store(text)), explains=True
)
TABLE_PREFIX: Final = _pattern("TEXT", "letters, digits, '_', '-', '.'", r"[A-Za-z0-9_.-]{1,200}")

API: Final = ValueType("URL", "https://…, or http:// and an address of this machine", _parse_api)
WEB_ADDRESS: Final = ValueType("URL", "https://… or http://…, without a query", _parse_web_address)
ADDRESS: Final = ValueType("ADDRESS", "an address", str)
MAIL_SERVER: Final = ValueType(
    "URL", "smtp://USER@HOST:PORT or smtps://…, without the password", _parse_mail_server
)
MAIL_ADDRESS: Final = _pattern("ADDRESS", "a mail address", r"[^@\s<>,]{1,64}@[^@\s<>,]{1,190}")
CONTACT: Final = _pattern(
    "URL", "mailto:name@example.org or https://…", r"mailto:[^@\s]+@[^@\s]+|https://\S+"
)
SUBDOMAIN: Final = _pattern(
    "TEXT",
    "the part before .slack.com of the workspace's address",
    r"[A-Za-z0-9]+(-+[A-Za-z0-9]+)*",
)

CHANNEL: Final = ValueType("NAME", "the name of a channel, or its ID", _parse_channel)
NAMES: Final = _set("names or IDs", ".+")
SUBTYPES: Final = _set(
    "subtypes of messages, like channel_join,reminder_add", "[a-z][a-z0-9_]{0,79}"
)
HOSTS: Final = _set("hosts without port, like push.example.lan", HOST.pattern, is_lower=True)
BOUNDS: Final = ValueType(
    "LIST",
    "figures and their bounds",
    lambda text: tuple(map(parse_bound, _members(text))),
    is_list=True,
    explains=True,
)

# ── the table ────────────────────────────────────────────────────────────────────────────────────

_GENERAL, _COUNTING, _SLACK = OptionGroup.GENERAL, OptionGroup.COUNTING, OptionGroup.SLACK
_REPORTS, _DASHBOARD = OptionGroup.REPORTS, OptionGroup.DASHBOARD
_PRIVACY = OptionGroup.PRIVACY


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run. What is computed from them is a property."""

    data: str = _GENERAL.option(DIR, "channelstats-data", "folder that everything is kept in")
    store: str = _GENERAL.option(STORE, "", "store to use instead of a file in the folder")
    prefix: str = _GENERAL.option(TABLE_PREFIX, "channelstats", "prefix of the names of tables")
    report_timezone: str = _GENERAL.option(TIME_ZONE, "UTC", "time zone of days and weeks")
    week_start: str = _GENERAL.option(WEEKDAY, "sunday", "first day of the week")

    include_bots: bool = _COUNTING.option(FLAG, False, "count messages of bots")
    count_subtypes: frozenset[str] = _COUNTING.option(
        SUBTYPES, "", "further message subtypes that count"
    )
    merge_skin_tones: MergeSkinTones = _COUNTING.option(
        SKIN_TONES, "pages", "ignore the skin tones of emoji"
    )
    default_timezone: str = _COUNTING.option(TIME_ZONE, "", "time zone of people without one")

    read_token_file: str = _SLACK.option(TOKEN_FILE, "", "file with the token that reads")
    app_kind: AppKind = _SLACK.option(APP_KIND, "internal", "internal, marketplace, unlisted")
    refetch: int = _SLACK.option(DAYS, 7, "days that are read again")
    max_age: int = _SLACK.option(DAYS, 21, "days that a first run reads back")
    thread_max_age: int = _SLACK.option(DAYS, 90, "days that threads are watched")
    concurrency: int = _SLACK.option(COUNT, 4, "channels that are read at once")
    slack_api: str = _SLACK.option(API, "https://slack.com/api/", "address of the Web API")

    post_token_file: str = _REPORTS.option(TOKEN_FILE, "", "file with the token that posts")
    out_dir: str = _REPORTS.option(DIR, "", "folder that reports are written to")
    slack_name: str = _REPORTS.option(SUBDOMAIN, "", "xxx of xxx.slack.com, for links")
    report_channel: str = _REPORTS.option(CHANNEL, "", "channel for the weekly report")
    brief_channel: str = _REPORTS.option(CHANNEL, "", "channel for the brief report")
    channel_stats: str = _REPORTS.option(CHANNEL, "", "channel for links to reports")
    optin_channel: str = _REPORTS.option(CHANNEL, "", "its members get user reports")
    help_channel: str = _REPORTS.option(CHANNEL, "", "channel to ask in, named in reports")
    dashboard_url: str = _REPORTS.option(
        WEB_ADDRESS, "", "address of the dashboard, for links in Slack"
    )
    goals: tuple[Bound, ...] = _REPORTS.option(BOUNDS, "", "figures and where they should be")
    alerts: tuple[Bound, ...] = _REPORTS.option(BOUNDS, "", "figures and where they should not be")

    mail_server: str = _REPORTS.option(MAIL_SERVER, "", "server that mail is handed to")
    mail_from: str = _REPORTS.option(MAIL_ADDRESS, "", "address that mail is from")
    mail_password_file: str = _REPORTS.option(FILE, "", "file with the server's password")
    mail_ca_file: str = _REPORTS.option(FILE, "", "certificates to trust in place of the system's")

    host: str = _DASHBOARD.option(ADDRESS, "127.0.0.1", "address to listen on")
    port: int = _DASHBOARD.option(PORT, 8090, "port to listen on")
    team: frozenset[str] = _DASHBOARD.option(NAMES, "", "people who answer, for To do")
    texts: str = _DASHBOARD.option(EXPORT, "", "export to show the first lines of messages from")
    push_contact: str = _DASHBOARD.option(CONTACT, "", "contact for push services")
    push_hosts: frozenset[str] = _DASHBOARD.option(HOSTS, "", "hosts of your own push services")

    exclude_channels: frozenset[str] = _PRIVACY.option(NAMES, "", "channels to leave out")
    exclude_users: frozenset[str] = _PRIVACY.option(NAMES, "", "people to leave out")
    retention_days: int = _PRIVACY.option(DAYS, 0, "days that messages are kept; 0 keeps all")
    min_group: int = _PRIVACY.option(COUNT, 1, "fewest posters of a channel that is listed")

    places: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Where each value comes from, by the name of the option: a flag, a variable or PATH:LINE;
    defaults are not in it."""

    @property
    def folder(self) -> Path:
        return Path(self.data).expanduser()

    @property
    def file(self) -> Path:
        """The store in the data folder."""
        return self.folder.absolute() / "channelstats.sqlite"

    @property
    def store_url(self) -> str:
        """The store: the one that is set, else that file."""
        return self.store or f"sqlite:///{quote(str(self.file))}"

    @property
    def out(self) -> Path | None:
        """The folder that reports are written to where none is asked for."""
        return Path(self.out_dir).expanduser() if self.out_dir else None

    @property
    def first_weekday(self) -> int:
        """Monday is 0."""
        return _WEEKDAYS.index(self.week_start)

    @property
    def counting(self) -> Counting:
        further = tuple(sorted(self.count_subtypes))
        return Counting(include_bots=self.include_bots, further=further)

    @property
    def options(self) -> Options:
        return Options(
            self.counting,
            self.default_timezone,
            self.merge_skin_tones.everywhere,
            self.exclude_users,
            self.exclude_channels,
            self.team,
        )

    @property
    def retention(self) -> timedelta | None:
        """How old messages may become; None where all are kept."""
        return timedelta(self.retention_days) if self.retention_days else None


OPTIONS: Final[tuple[Option, ...]] = tuple(
    replace(row.metadata["option"], name=row.name) for row in fields(Settings) if row.metadata
)
