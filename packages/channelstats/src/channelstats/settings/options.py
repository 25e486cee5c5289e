# ruff: noqa: RUF009 - a group's `option` is `dataclasses.field` with its own metadata
"""The table of settings: every option is a row of the dataclass `Settings`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote

from channelstats.counting import Counting
from channelstats.facts import Options
from channelstats.pages.goals import Bound
from channelstats.settings import declaration as types
from channelstats.settings.declaration import MergeSkinTones, Option, OptionGroup, Source
from channelstats.slack.rate_limits import AppKind

_GENERAL, _COUNTING, _SLACK = OptionGroup.GENERAL, OptionGroup.COUNTING, OptionGroup.SLACK
_REPORTS, _DASHBOARD = OptionGroup.REPORTS, OptionGroup.DASHBOARD
_PRIVACY = OptionGroup.PRIVACY


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run. What is computed from them is a property."""

    data: str = _GENERAL.option(types.DIR, "channelstats-data", "folder that everything is kept in")
    store: str = _GENERAL.option(types.STORE, "", "store to use instead of a file in the folder")
    prefix: str = _GENERAL.option(
        types.TABLE_PREFIX, "channelstats", "prefix of the names of tables"
    )
    report_timezone: str = _GENERAL.option(types.TIME_ZONE, "UTC", "time zone of days and weeks")
    week_start: str = _GENERAL.option(types.WEEKDAY, "sunday", "first day of the week")

    include_bots: bool = _COUNTING.option(types.FLAG, False, "count messages of bots")
    count_subtypes: frozenset[str] = _COUNTING.option(
        types.SUBTYPES, "", "further message subtypes that count"
    )
    merge_skin_tones: MergeSkinTones = _COUNTING.option(
        types.SKIN_TONES, "pages", "ignore the skin tones of emoji"
    )
    default_timezone: str = _COUNTING.option(types.TIME_ZONE, "", "time zone of people without one")

    read_token_file: str = _SLACK.option(types.TOKEN_FILE, "", "file with the token that reads")
    app_kind: AppKind = _SLACK.option(types.APP_KIND, "internal", "internal, marketplace, unlisted")
    refetch: int = _SLACK.option(types.DAYS, 7, "days that are read again")
    max_age: int = _SLACK.option(types.DAYS, 21, "days that a first run reads back")
    thread_max_age: int = _SLACK.option(types.DAYS, 90, "days that threads are watched")
    concurrency: int = _SLACK.option(types.COUNT, 4, "channels that are read at once")
    slack_api: str = _SLACK.option(types.API, "https://slack.com/api/", "address of the Web API")

    post_token_file: str = _REPORTS.option(types.TOKEN_FILE, "", "file with the token that posts")
    out_dir: str = _REPORTS.option(types.DIR, "", "folder that reports are written to")
    slack_name: str = _REPORTS.option(types.SUBDOMAIN, "", "xxx of xxx.slack.com, for links")
    report_channel: str = _REPORTS.option(types.CHANNEL, "", "channel for the weekly report")
    brief_channel: str = _REPORTS.option(types.CHANNEL, "", "channel for the brief report")
    channel_stats: str = _REPORTS.option(types.CHANNEL, "", "channel for links to reports")
    optin_channel: str = _REPORTS.option(types.CHANNEL, "", "its members get user reports")
    help_channel: str = _REPORTS.option(types.CHANNEL, "", "channel to ask in, named in reports")
    dashboard_url: str = _REPORTS.option(
        types.WEB_ADDRESS, "", "address of the dashboard, for links in Slack"
    )
    goals: tuple[Bound, ...] = _REPORTS.option(types.BOUNDS, "", "figures and where they should be")
    alerts: tuple[Bound, ...] = _REPORTS.option(
        types.BOUNDS, "", "figures and where they should not be"
    )

    mail_server: str = _REPORTS.option(types.MAIL_SERVER, "", "server that mail is handed to")
    mail_from: str = _REPORTS.option(types.MAIL_ADDRESS, "", "address that mail is from")
    mail_password_file: str = _REPORTS.option(types.FILE, "", "file with the server's password")
    mail_ca_file: str = _REPORTS.option(
        types.FILE, "", "certificates to trust in place of the system's"
    )

    host: str = _DASHBOARD.option(types.ADDRESS, "127.0.0.1", "address to listen on")
    port: int = _DASHBOARD.option(types.PORT, 8090, "port to listen on")
    team: frozenset[str] = _DASHBOARD.option(types.NAMES, "", "people who answer, for To do")
    texts: str = _DASHBOARD.option(
        types.EXPORT, "", "export to show the first lines of messages from"
    )
    push_contact: str = _DASHBOARD.option(types.CONTACT, "", "contact for push services")
    push_hosts: frozenset[str] = _DASHBOARD.option(
        types.HOSTS, "", "hosts of your own push services"
    )

    exclude_channels: frozenset[str] = _PRIVACY.option(types.NAMES, "", "channels to leave out")
    exclude_users: frozenset[str] = _PRIVACY.option(types.NAMES, "", "people to leave out")
    retention_days: int = _PRIVACY.option(types.DAYS, 0, "days that messages are kept; 0 keeps all")
    min_group: int = _PRIVACY.option(types.COUNT, 1, "fewest posters of a channel that is listed")

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
