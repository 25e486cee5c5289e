# ruff: noqa: RUF009 - a group's `option` is `dataclasses.field` with its own metadata
"""The table of settings: every option is a row of the dataclass `Settings`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote

from channelstats.counting import Counting, Profile
from channelstats.settings import value_types as types
from channelstats.settings.declaration import OptionGroup, Source, declared_options
from channelstats.slack.rate_limits import AppKind
from channelstats.stats import Options
from channelstats.views.goals import Bound, parse_bound

_GENERAL, _COUNTING, _SLACK = OptionGroup.GENERAL, OptionGroup.COUNTING, OptionGroup.SLACK
_REPORTS, _DASHBOARD = OptionGroup.REPORTS, OptionGroup.DASHBOARD
_PRIVACY = OptionGroup.PRIVACY


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run. What is computed from them is a property."""

    data: types.Folder = _GENERAL.option("channelstats-data", "folder that everything is kept in")
    store: types.StoreUrl = _GENERAL.option("", "store to use instead of a file in the folder")
    prefix: types.TablePrefix = _GENERAL.option("channelstats", "prefix of the names of tables")
    report_timezone: types.TimeZone = _GENERAL.option("UTC", "time zone of days and weeks")
    week_start: types.Weekday = _GENERAL.option("sunday", "first day of the week")

    profile: types.ProfileName = _COUNTING.option("modern", "definitions to count by")
    include_bots: bool = _COUNTING.option(False, "count messages of bots")
    count_subtypes: types.Subtypes = _COUNTING.option("", "further message subtypes that count")
    merge_skin_tones: bool = _COUNTING.option(False, "ignore the skin tones of emoji")
    default_timezone: types.TimeZone = _COUNTING.option("", "time zone of people without one")

    read_token_file: types.TokenFile = _SLACK.option("", "file with the token that reads")
    app_kind: types.AppKindName = _SLACK.option("internal", "internal, marketplace, unlisted")
    refetch: types.Days = _SLACK.option(7, "days that are read again")
    max_age: types.Days = _SLACK.option(21, "days that a first run reads back")
    thread_max_age: types.Days = _SLACK.option(90, "days that threads are watched")
    concurrency: types.Count = _SLACK.option(4, "channels that are read at once")
    slack_api: types.ApiUrl = _SLACK.option("https://slack.com/api/", "address of the Web API")

    post_token_file: types.TokenFile = _REPORTS.option("", "file with the token that posts")
    out_dir: types.Folder = _REPORTS.option("", "folder that reports are written to")
    slack_name: types.Subdomain = _REPORTS.option("", "xxx of xxx.slack.com, for links")
    report_channel: types.ChannelName = _REPORTS.option("", "channel for the weekly report")
    brief_channel: types.ChannelName = _REPORTS.option("", "channel for the brief report")
    channel_stats: types.ChannelName = _REPORTS.option("", "channel for links to reports")
    optin_channel: types.ChannelName = _REPORTS.option("", "its members get user reports")
    help_channel: types.ChannelName = _REPORTS.option("", "channel to ask in, named in reports")
    goals: types.Bounds = _REPORTS.option("", "figures and where they should be")
    alerts: types.Bounds = _REPORTS.option("", "figures and where they should not be")

    host: types.HostName = _DASHBOARD.option("127.0.0.1", "address to listen on")
    port: types.Port = _DASHBOARD.option(8090, "port to listen on")
    push_contact: types.Contact = _DASHBOARD.option("", "contact for push services")
    push_hosts: types.Hosts = _DASHBOARD.option("", "hosts of your own push services")

    exclude_channels: types.Names = _PRIVACY.option("", "channels to leave out")
    exclude_users: types.Names = _PRIVACY.option("", "people to leave out")
    retention_days: types.Days = _PRIVACY.option(0, "days that messages are kept; 0 keeps all")
    min_group: types.Count = _PRIVACY.option(1, "fewest posters of a channel that is listed")
    anonymize_secret_file: types.FileName = _PRIVACY.option(
        "", "secret for pseudonyms, else one is made"
    )

    sources: Mapping[str, Source] = field(default_factory=dict, compare=False, repr=False)
    """Where each value comes from, by the name of the option; defaults are not in it."""

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
        return types.WEEKDAYS.index(self.week_start)

    @property
    def kind_of_app(self) -> AppKind:
        return AppKind(self.app_kind)

    @property
    def counting(self) -> Counting:
        further = tuple(sorted(types.members(self.count_subtypes)))
        return Counting(Profile(self.profile), include_bots=self.include_bots, further=further)

    @property
    def options(self) -> Options:
        return Options(
            self.counting,
            self.default_timezone,
            self.merge_skin_tones,
            self.excluded_users,
            self.excluded_channels,
        )

    @property
    def excluded_channels(self) -> frozenset[str]:
        """Names and IDs, without `#`."""
        return frozenset(types.members(self.exclude_channels))

    @property
    def excluded_users(self) -> frozenset[str]:
        """Names and IDs, without `@`."""
        return frozenset(types.members(self.exclude_users))

    @property
    def goal_bounds(self) -> tuple[Bound, ...]:
        return tuple(map(parse_bound, types.members(self.goals)))

    @property
    def alert_bounds(self) -> tuple[Bound, ...]:
        return tuple(map(parse_bound, types.members(self.alerts)))

    @property
    def own_push_hosts(self) -> frozenset[str]:
        """Hosts of push services that may be in a private network."""
        return frozenset(types.members(self.push_hosts.lower()))

    @property
    def retention(self) -> timedelta | None:
        """How old messages may become; None where all are kept."""
        return timedelta(self.retention_days) if self.retention_days else None


OPTIONS: Final = declared_options(Settings)
