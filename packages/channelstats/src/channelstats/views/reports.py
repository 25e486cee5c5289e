"""Every report by its kind."""

from enum import StrEnum

import msgspec

from channelstats.views.channel_report import channel_report
from channelstats.views.model import Report
from channelstats.views.report_data import ReportData
from channelstats.views.user_report import user_report
from channelstats.views.workspace_report import workspace_report


class ReportKind(StrEnum):
    GLOBAL = "global"
    BRIEF = "brief"
    CHANNEL = "channel"
    USER = "user"


class Wanted(msgspec.Struct, frozen=True):
    """A report: of which kind and, for a channel or a user, on which ID. Whoever joins
    ``optin_channel`` gets reports on themselves; in ``help_channel`` people may ask.
    """

    kind: ReportKind
    subject: str = ""
    optin_channel: str = ""
    help_channel: str = ""


def report_on(wanted: Wanted, of: ReportData) -> Report:
    """The report in no form yet; ``of`` serves for many."""
    if wanted.kind is ReportKind.CHANNEL:
        return channel_report(of, wanted.subject, wanted.help_channel)
    if wanted.kind is ReportKind.USER:
        return user_report(of, wanted.subject, wanted.optin_channel, wanted.help_channel)
    return workspace_report(of, brief=wanted.kind is ReportKind.BRIEF)
