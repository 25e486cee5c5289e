"""What statistics are made of, from a workspace in memory, without any store."""

from datetime import date
from zoneinfo import ZoneInfo

import msgspec

from channelstats.counting import Counting
from channelstats.days import Calendar
from channelstats.facts import Inputs, Options, Period
from channelstats.ingest.merging import merge_messages
from channelstats.ingest.rows import Origin, channel_of, counts_of, row_of, user_of
from channelstats.slack.export import ExportChannel
from channelstats.slack.export_layout import ChannelKind
from channelstats.slack.objects import SlackChannel, SlackMessage, SlackUser
from channelstats.tables.columns import frame_of
from channelstats.tables.message_row import item_of
from support.channelstats.house import UTC
from support.channelstats.slow import Settings
from support.channelstats.workspace import Workspace

LATEST = "1800000000.000000"


def inputs_of(workspace: Workspace) -> Inputs:
    """What a report is made of."""
    items = []
    for cid, raws in workspace.messages.items():
        origin = Origin(cid, "export", 1, LATEST)
        came = [row_of(msgspec.convert(raw, SlackMessage), origin) for raw in raws]
        for row, _ in merge_messages({}, came):
            row.deleted = (cid, row.ts) in workspace.deleted
            items.append(item_of(row, Calendar(UTC)))
    users = [user_of(msgspec.convert(user, SlackUser)) for user in workspace.users]
    channels = [
        channel_of(ExportChannel(ChannelKind.PUBLIC, msgspec.convert(raw, SlackChannel), ()))
        for raw in workspace.channels
    ]
    return Inputs(
        messages=frame_of(items),
        users={user.slack_uid: user for user in users},
        channels={channel.slack_cid: channel for channel in channels},
        counts={date(2024, 1, 1): counts_of(users)},
    )


def wanted(of: Settings) -> tuple[Period, Options]:
    """The settings as the program has them."""
    counting = Counting(include_bots=of.include_bots)
    options = Options(counting, of.default_timezone, of.merge_skin_tones)
    return Period(of.start, of.days, ZoneInfo(of.zone)), options
