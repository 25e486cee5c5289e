"""What can be set: by a flag, an environment variable or a file, in this order.

Rule: an option is declared once, in the table below; its flag, its name in the environment and in
the file follow from its name. `data` is --data, CHANNELSTATS_DATA and `data` in the file.
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from channelstats.counting import Counting, Profile
from channelstats.days import zone_of
from channelstats.slack.api_pace import AppKind
from channelstats.stats import Options
from tablestore.stores import parse_store

Value: TypeAlias = str | int | bool

PREFIX: Final = "CHANNELSTATS_"
FILE: Final = "channelstats.toml"
"""Read from the data folder when no other file is named."""

_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class SettingError(Exception):
    """A setting that cannot be used; one line that names it and says what was expected."""


class Setting(msgspec.Struct, frozen=True):
    """One row of the table. ``read`` raises ValueError that says what was expected."""

    name: str
    default: Value
    help: str
    metavar: str = "TEXT"
    read: Callable[[str], Value] = str

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


def _zone(text: str) -> str:
    if zone_of(text) is None:
        raise ValueError("expected the name of a time zone, like Europe/Berlin")
    return text


def _profile(text: str) -> str:
    if text not in tuple(Profile):
        raise ValueError(f"expected {' or '.join(Profile)}")
    return text


def _switch(text: str) -> bool:
    if text.lower() not in _WORDS:
        raise ValueError("expected yes or no")
    return _WORDS[text.lower()]


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= 1_000_000):
        raise ValueError("expected a whole number from 1 on")
    return int(text)


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= 36_600):
        raise ValueError("expected a number of days")
    return int(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= 65_535):
        raise ValueError("expected a port, from 0 (any free one) to 65535")
    return int(text)


def _weekday(text: str) -> str:
    if text.lower() not in _WEEKDAYS:
        raise ValueError("expected a weekday, like sunday or monday")
    return text.lower()


def _app_kind(text: str) -> str:
    if text not in tuple(AppKind):
        raise ValueError(f"expected {', '.join(AppKind)}")
    return text


def _store(text: str) -> str:
    parse_store(text)
    return text


def _subdomain(text: str) -> str:
    if not all(part.isascii() and part.isalnum() for part in text.split("-")):
        raise ValueError("expected the part before .slack.com of the workspace's address")
    return text


TABLE: Final = (
    Setting("data", "channelstats-data", "folder that everything is kept in", "DIR"),
    Setting("store", "", "store in place of the file in the data folder", "URL", _store),
    Setting("prefix", "channelstats", "begins the names of tables"),
    Setting("out_dir", "", "folder that reports are written to", "DIR"),
    Setting("slack_name", "", "workspace in xxx.slack.com, for links", read=_subdomain),
    Setting("report_timezone", "UTC", "time zone of days and weeks", "ZONE", _zone),
    Setting("week_start", "sunday", "day that weeks begin with", "WEEKDAY", _weekday),
    Setting("default_timezone", "", "time zone of people without one", "ZONE", _zone),
    Setting("profile", "modern", "definitions to count by", "compat|modern", _profile),
    Setting("count_subtypes", "", "further subtypes that count", "LIST"),
    Setting("include_bots", False, "count what bots say", "yes|no", _switch),
    Setting("merge_skin_tones", False, "count emoji without skin tones", "yes|no", _switch),
    Setting("exclude_channels", "", "channels that are left out", "LIST"),
    Setting("exclude_users", "", "people who are left out", "LIST"),
    Setting("retention_days", 0, "older messages are removed; 0 keeps all", "DAYS", _days),
    Setting("min_group", 1, "leave out channels with fewer posters", "NUMBER", _count),
    Setting("read_token_file", "", "file with the token that reads", "FILE"),
    Setting("post_token_file", "", "file with the token that posts", "FILE"),
    Setting("slack_api", "https://slack.com/api/", "address of Slack's Web API", "URL"),
    Setting("app_kind", "internal", "whose app the token belongs to", "KIND", _app_kind),
    Setting("refetch", 7, "days that are read again", "DAYS", _days),
    Setting("max_age", 21, "days that a first run reads back", "DAYS", _days),
    Setting("thread_max_age", 90, "days that threads are looked after", "DAYS", _days),
    Setting("concurrency", 4, "channels that are read at once", "NUMBER", _count),
    Setting("report_channel", "", "channel for the weekly report", "NAME"),
    Setting("brief_channel", "", "channel for the brief report", "NAME"),
    Setting("channel_stats", "", "channel for links to channel reports", "NAME"),
    Setting("optin_channel", "", "channel whose members get user reports", "NAME"),
    Setting("help_channel", "", "channel to ask in, named in reports", "NAME"),
    Setting("host", "127.0.0.1", "address that the dashboard listens on", "ADDRESS"),
    Setting("port", 8090, "port that the dashboard listens on", "PORT", _port),
    Setting("push_contact", "", "mail address or page for push services", "URL"),
    Setting(
        "anonymize_secret_file", "", "secret of pseudonyms, else one in the data folder", "FILE"
    ),
)


class Settings(msgspec.Struct, frozen=True):
    """Every setting of the table by its name, understood."""

    data: str
    store: str
    prefix: str
    out_dir: str
    slack_name: str
    report_timezone: str
    week_start: str
    default_timezone: str
    profile: str
    count_subtypes: str
    include_bots: bool
    merge_skin_tones: bool
    exclude_channels: str
    exclude_users: str
    retention_days: int
    min_group: int
    read_token_file: str
    post_token_file: str
    slack_api: str
    app_kind: str
    refetch: int
    max_age: int
    thread_max_age: int
    concurrency: int
    report_channel: str
    brief_channel: str
    channel_stats: str
    optin_channel: str
    help_channel: str
    host: str
    port: int
    push_contact: str
    anonymize_secret_file: str

    @property
    def folder(self) -> Path:
        return Path(self.data).expanduser()

    @property
    def file(self) -> Path:
        """The store in the data folder."""
        return self.folder.absolute() / "channelstats.sqlite"

    @property
    def first_weekday(self) -> int:
        """Monday is 0."""
        return _WEEKDAYS.index(self.week_start)

    @property
    def counting(self) -> Counting:
        return Counting(Profile(self.profile), include_bots=self.include_bots)

    @property
    def options(self) -> Options:
        return Options(self.counting, self.default_timezone, self.merge_skin_tones)


def load(flags: Mapping[str, str | None], environment: Mapping[str, str]) -> Settings:
    """Settings of what was given. ``flags`` are texts by name; ``config`` names another file.

    :raises SettingError: one cannot be used
    """
    given = {name: text for name, text in flags.items() if text is not None}
    found = {setting.name: (setting.flag, given.get(setting.name)) for setting in TABLE}
    for setting in TABLE:
        if found[setting.name][1] is None and setting.variable in environment:
            found[setting.name] = (setting.variable, environment[setting.variable])
    config = given.get("config") or environment.get(f"{PREFIX}CONFIG")
    folder = Path(found["data"][1] or str(TABLE[0].default)).expanduser()
    file = _file(Path(config) if config else folder / FILE, named=config is not None)
    for name, text in file.items():
        if found[name][1] is None:
            found[name] = (f"{name} in {config or folder / FILE}", text)
    values = {setting.name: _value(setting, *found[setting.name]) for setting in TABLE}
    return msgspec.convert(values, Settings)


def _value(setting: Setting, place: str, text: str | None) -> Value:
    if text is None or text == setting.default == "":
        return setting.default
    try:
        return setting.read(text)
    except ValueError as error:
        raise SettingError(f"{place}: {error}") from None


def _file(path: Path, *, named: bool) -> dict[str, str]:
    """The settings of a file as texts; none when there is no file and none was named."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if named:
            raise SettingError(f"{path}: there is no such file") from None
        return {}
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise SettingError(f"{path}: {error}") from None
    known = [setting.name for setting in TABLE]
    for name, value in found.items():
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise SettingError(f"{path}: there is no setting {name!r}{meant}")
        if not isinstance(value, str | int):
            raise SettingError(f"{path}: {name}: expected a text, a number, true or false")
    return {name: str(value) for name, value in found.items()}


def environment() -> Mapping[str, str]:
    """The variables of this process."""
    return os.environ
