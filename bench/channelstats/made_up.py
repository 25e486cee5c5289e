"""A made-up workspace as an import leaves it in the tables: its users, channels and messages."""

from datetime import UTC, date, datetime
from itertools import groupby
from zoneinfo import ZoneInfo

import polars as pl

from channelstats.days import Calendar
from channelstats.demo.workspace import ExportFile, Size, export_files
from channelstats.ingest.merging import merge_messages
from channelstats.ingest.rows import Origin, channel_of, row_of, user_of
from channelstats.slack.export import ExportChannel
from channelstats.slack.export_layout import ChannelKind
from channelstats.slack.objects import CHANNELS, MESSAGES, USERS
from channelstats.tables.columns import frame_of
from channelstats.tables.directory import Channel, User
from channelstats.tables.message_row import item_of

_SEED = 1
_ROWS = 50_000
"""Of one frame, so that few messages are in memory as objects."""


def directory(size: Size, last_day: date) -> tuple[dict[str, User], dict[str, Channel]]:
    """Everybody and all channels by their IDs."""
    users: dict[str, User] = {}
    channels: dict[str, Channel] = {}
    for file in export_files(size, last_day=last_day, seed=_SEED):
        if file.name == "users.json":
            users = {one.id: user_of(one) for one in USERS.decode(file.data)[0]}
        elif file.name in (ChannelKind.PUBLIC, ChannelKind.PRIVATE):
            kind = ChannelKind(file.name)
            for one in CHANNELS.decode(file.data)[0]:
                channels[one.id] = channel_of(ExportChannel(kind, one, ()))
        elif "/" in file.name:
            break  # the lists come before the messages
    return users, channels


def messages(size: Size, last_day: date) -> pl.DataFrame:
    """The rows, with the columns of `channelstats.tables.columns`, by time."""
    ids = {channel.name: cid for cid, channel in directory(size, last_day)[1].items()}
    files = (file for file in export_files(size, last_day=last_day, seed=_SEED) if file.messages)
    frames: list[pl.DataFrame] = []
    for name, of_channel in groupby(files, key=_channel_of):
        fetched = int(datetime(last_day.year, last_day.month, last_day.day, tzinfo=UTC).timestamp())
        origin = Origin(ids[name], "export", fetched + 2 * 86_400, f"{fetched + 86_400}.000000")
        came = (row_of(one, origin) for file in of_channel for one in MESSAGES.decode(file.data)[0])
        items = [item_of(row, Calendar(ZoneInfo("UTC"))) for row, _ in merge_messages({}, came)]
        frames += [frame_of(items[at : at + _ROWS]) for at in range(0, len(items), _ROWS)]
    return pl.concat(frames).sort("ts")


def _channel_of(file: ExportFile) -> str:
    return file.name.partition("/")[0]
