"""Every setting there is, as data.

Rule: a setting is declared once, here; its flag and its names in the environment and in the file
follow from its name. `data` is --data, CHANNELSTATS_DATA and `data`.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from channelstats.settings import values

Value: TypeAlias = str | int | bool

PREFIX: Final = "CHANNELSTATS_"


class Group(StrEnum):
    """What settings are about; `--help` of a command shows the groups that matter to it."""

    GENERAL = "settings"
    COUNTING = "what counts"
    SLACK = "Slack"
    REPORTS = "reports"
    DASHBOARD = "dashboard"
    PRIVACY = "privacy"


class Setting(msgspec.Struct, frozen=True):
    """One row of the table. ``read`` raises ValueError that says what was expected; ``many``: a
    list, which may be an array in the file.
    """

    group: Group
    name: str
    default: Value
    help: str
    metavar: str = "TEXT"
    read: Callable[[str], Value] = str
    many: bool = False

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


_G, _C, _S = Group.GENERAL, Group.COUNTING, Group.SLACK
_R, _D, _P = Group.REPORTS, Group.DASHBOARD, Group.PRIVACY

TABLE: Final = (
    Setting(_G, "data", "channelstats-data", "folder that everything is kept in", "DIR"),
    Setting(_G, "store", "", "store in place of the file in the folder", "URL", values.store),
    Setting(_G, "prefix", "channelstats", "begins the names of tables", read=values.prefix),
    Setting(_G, "report_timezone", "UTC", "time zone of days and weeks", "ZONE", values.zone),
    Setting(_G, "week_start", "sunday", "day that weeks begin with", "WEEKDAY", values.weekday),
    Setting(_C, "profile", "modern", "definitions to count by", "compat|modern", values.profile),
    Setting(_C, "include_bots", False, "count what bots say", "yes|no", values.switch),
    Setting(
        _C,
        "count_subtypes",
        "",
        "further subtypes of messages that count",
        "LIST",
        values.subtypes,
        many=True,
    ),
    Setting(_C, "merge_skin_tones", False, "emoji without skin tones", "yes|no", values.switch),
    Setting(_C, "default_timezone", "", "zone of people without one", "ZONE", values.zone),
    Setting(_S, "read_token_file", "", "file with the token that reads", "FILE", values.token_file),
    Setting(_S, "app_kind", "internal", "internal, marketplace, unlisted", "KIND", values.app_kind),
    Setting(_S, "refetch", 7, "days that are read again", "DAYS", values.days),
    Setting(_S, "max_age", 21, "days that a first run reads back", "DAYS", values.days),
    Setting(_S, "thread_max_age", 90, "days that threads are watched", "DAYS", values.days),
    Setting(_S, "concurrency", 4, "channels that are read at once", "NUMBER", values.count),
    Setting(
        _S, "slack_api", "https://slack.com/api/", "where the Web API is", "URL", values.address
    ),
    Setting(_R, "post_token_file", "", "file with the token that posts", "FILE", values.token_file),
    Setting(_R, "out_dir", "", "folder that reports are written to", "DIR"),
    Setting(_R, "slack_name", "", "xxx of xxx.slack.com, for links", read=values.subdomain),
    Setting(_R, "report_channel", "", "channel for the weekly report", "NAME", values.name),
    Setting(_R, "brief_channel", "", "channel for the brief report", "NAME", values.name),
    Setting(_R, "channel_stats", "", "channel for links to reports", "NAME", values.name),
    Setting(_R, "optin_channel", "", "its members get user reports", "NAME", values.name),
    Setting(_R, "help_channel", "", "channel to ask in, named in reports", "NAME", values.name),
    Setting(_D, "host", "127.0.0.1", "address to listen on", "ADDRESS"),
    Setting(_D, "port", 8090, "port to listen on", "PORT", values.port),
    Setting(_D, "push_contact", "", "whom push services may ask", "URL", values.contact),
    Setting(_D, "push_hosts", "", "own push services, by host", "LIST", values.hosts, many=True),
    Setting(
        _P, "exclude_channels", "", "channels that are left out", "LIST", values.names, many=True
    ),
    Setting(_P, "exclude_users", "", "people who are left out", "LIST", values.names, many=True),
    Setting(_P, "retention_days", 0, "older messages go; 0 keeps all", "DAYS", values.days),
    Setting(
        _P, "min_group", 1, "channels with fewer posters are not listed", "NUMBER", values.count
    ),
    Setting(_P, "anonymize_secret_file", "", "secret of pseudonyms, else one is made", "FILE"),
)
