"""A document as flat tables, for spreadsheets and notebooks.

Rule: a column has one type; a row stands for itself, with IDs and names side by side. Numbers are
not rounded.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec
import polars as pl

from channelstats.render.names import Directory
from channelstats.reports.model import WEEKDAYS
from channelstats.reports.user_report import counts_of
from channelstats.reports.view import Entry, View
from channelstats.stats.values import Change

Row: TypeAlias = tuple[object, ...]
_TYPES: Final[Mapping[str, pl.DataType]] = {
    "text": pl.String(),
    "int": pl.Int64(),
    "float": pl.Float64(),
}


Frame: TypeAlias = pl.DataFrame


class DataTable(msgspec.Struct, frozen=True):
    """``columns`` are `name` for texts, `name:int` or `name:float`."""

    name: str
    columns: str
    rows: Callable[[View, Directory], Iterable[Row]]

    def frame(self, of: View, directory: Directory) -> pl.DataFrame:
        split = [column.partition(":") for column in self.columns.split()]
        schema = {name: _TYPES[kind or "text"] for name, _, kind in split}
        return pl.DataFrame(list(self.rows(of, directory)), schema, orient="row", strict=False)


def _statistics(of: View, _: Directory) -> Iterator[Row]:
    for name, change in of.compared.statistics.items():
        yield name, *_change(change)


def _change(change: Change) -> Row:
    return change["cur"], change["prev"], change["diff_pct"], change["state"]


def _channels(of: View, directory: Directory) -> Iterator[Row]:
    for rank, (cid, (messages, words)) in enumerate(of.channels.items(), 1):
        stats, now, enriched = (
            of.channel_stats[cid],
            of.compared.channels.get(cid),
            of.enriched_channel[cid],
        )
        before = (now.messages["prev"], now.words["prev"]) if now else (None, None)
        yield (
            *(rank, cid, directory.channel(cid), messages, words, *before, stats.posters),
            *(stats.members, stats.percent, stats.cpercent, stats.words_per_poster),
            *(enriched.reaction_count, str(stats.new).lower()),
        )


def _users(of: View, directory: Directory) -> Iterator[Row]:
    for uid, stats in of.user_stats.items():
        messages, words = stats.count
        now = of.compared.users.get(uid)
        before = (now.messages["prev"], now.words["prev"]) if now else (None, None)
        yield (
            *(stats.rank, uid, directory.person(uid), messages, words, *before),
            *(
                stats.percent_of_words,
                stats.cum_percent_of_words,
                stats.reactions,
                stats.reactions_given,
            ),
            *(stats.replies, stats.thread_messages, stats.rphw),
        )


def _channel_users(of: View, directory: Directory) -> Iterator[Row]:
    for cid, people in of.channel_user.items():
        for uid, (messages, words) in people.items():
            yield cid, directory.channel(cid), uid, directory.person(uid), messages, words


def _days(of: View, _: Directory) -> Iterator[Row]:
    for key, name in WEEKDAYS.items():
        now = of.compared.user_weekday[key]
        yield (
            *(int(key), name, now.messages["cur"], now.words["cur"]),
            *(now.messages["prev"], now.words["prev"]),
        )


def _hours(of: View, _: Directory) -> Iterator[Row]:
    for hour in range(24):
        messages, words = of.user_weekday_hour.get(str(hour), (0, 0))
        yield hour, of.weekday_activity_percentage[str(hour)], messages, words


def _zones(of: View, _: Directory) -> Iterator[Row]:
    for tz, (messages, words) in of.timezone.items():
        yield tz, len(of.posters_per_timezone[tz]), messages, words


def _emoji(of: View, _: Directory) -> Iterator[Row]:
    for name, count in of.reaction.items():
        yield name, count, of.emoji_rate[name]


def _messages(of: View, directory: Directory) -> Iterator[Row]:
    yield from _listed("reactions", of.reaction_count, directory)
    yield from _listed("replies", of.reply_count, directory)


def _listed(kind: str, entries: Iterable[Entry], directory: Directory) -> Iterator[Row]:
    for entry in entries:
        link = directory.permalink(entry.cid, entry.ts, entry.thread_ts)
        channel, person = directory.channel(entry.cid), directory.person(entry.uid)
        yield kind, entry.count, entry.ts, entry.cid, channel, entry.uid, person, link


def _dates(of: View, _: Directory) -> Iterator[Row]:
    yield from of.new_statistics.daily_posters.items()


def _edges(of: View, directory: Directory) -> Iterator[Row]:
    for one, others in of.edges.items():
        for other, times in others.items():
            yield one, directory.person(one), other, directory.person(other), times


def _people(of: View, directory: Directory) -> Iterator[Row]:
    for uid, own in of.enriched_user.items():
        for group, people in counts_of(own).items():
            for other, times in people.items():
                yield group, uid, directory.person(uid), other, directory.person(other), times


_CHANNELS: Final = DataTable(
    "channels",
    "rank:int channel_id channel messages:int words:int messages_before:int words_before:int "
    "posters:int members:int percent_of_words:float cumulative_percent:float "
    "words_per_poster:float reactions:int new",
    _channels,
)
_CHANNEL_USERS: Final = DataTable(
    "channel_people",
    "channel_id channel person_id person messages:int words:int",
    _channel_users,
)
_USERS: Final = DataTable(
    "people",
    "rank:int person_id person messages:int words:int messages_before:int words_before:int "
    "percent_of_words:float cumulative_percent:float reactions_received:int reactions_given:int "
    "replies:int thread_messages:int reactions_per_100_words:float",
    _users,
)
_WITH_WHOM: Final = DataTable(
    "with_whom", "group person_id person other_id other times:int", _people
)
WORKSPACE: Final = (
    DataTable(
        "statistics", "name value:float before:float change_percent:float state", _statistics
    ),
    _CHANNELS,
    _USERS,
    _CHANNEL_USERS,
    DataTable(
        "days",
        "weekday:int day messages:int words:int messages_before:int words_before:int",
        _days,
    ),
    DataTable("hours", "hour:int mean_share_percent:float messages:int words:int", _hours),
    DataTable("time_zones", "time_zone posters:int messages:int words:int", _zones),
    DataTable("emoji", "emoji times:int per_1000_words:float", _emoji),
    DataTable(
        "top_messages",
        "by count:int ts channel_id channel person_id person link",
        _messages,
    ),
    DataTable("dates", "date posters:int", _dates),
    DataTable("edges", "from_id from to_id to times:int", _edges),
    _WITH_WHOM,
)
CHANNEL: Final = (_CHANNELS, _CHANNEL_USERS)
USER: Final = (_USERS, _WITH_WHOM)
