"""The settings of a run, understood.

Rule: a field for each row of the table, of the same name; what is meant by them is a property.
"""

from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import msgspec

from channelstats.counting import Counting, Profile
from channelstats.settings.values import WEEKDAYS, listed
from channelstats.slack.rate_limits import AppKind
from channelstats.stats import Options


class Settings(msgspec.Struct, frozen=True):
    """Every setting of the table by its name."""

    data: str
    store: str
    prefix: str
    report_timezone: str
    week_start: str
    profile: str
    include_bots: bool
    count_subtypes: str
    merge_skin_tones: bool
    default_timezone: str
    read_token_file: str
    app_kind: str
    refetch: int
    max_age: int
    thread_max_age: int
    concurrency: int
    slack_api: str
    post_token_file: str
    out_dir: str
    slack_name: str
    report_channel: str
    brief_channel: str
    channel_stats: str
    optin_channel: str
    help_channel: str
    host: str
    port: int
    push_contact: str
    push_hosts: str
    exclude_channels: str
    exclude_users: str
    retention_days: int
    min_group: int
    anonymize_secret_file: str

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
        return WEEKDAYS.index(self.week_start)

    @property
    def kind_of_app(self) -> AppKind:
        return AppKind(self.app_kind)

    @property
    def counting(self) -> Counting:
        further = tuple(sorted(listed(self.count_subtypes)))
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
        return frozenset(listed(self.exclude_channels))

    @property
    def excluded_users(self) -> frozenset[str]:
        """Names and IDs, without `@`."""
        return frozenset(listed(self.exclude_users))

    @property
    def own_push_hosts(self) -> frozenset[str]:
        """Hosts of push services that may lie in a private network."""
        return frozenset(listed(self.push_hosts))

    @property
    def retention(self) -> timedelta | None:
        """How old messages may grow; None where they stay for ever."""
        return timedelta(self.retention_days) if self.retention_days else None
