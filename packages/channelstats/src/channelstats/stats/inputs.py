"""What a report is made of.

Rule: more messages than a report needs change nothing in it; fewer would. It needs

    the messages of the period, of the one before, and of the 28 days that end with the period;
    replies to heads of the period, whenever they were written;
    every message, when first posts are not given.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date

import polars as pl

from channelstats.counting import Counting
from channelstats.stats.period import History
from channelstats.tables.configuration import Counts
from channelstats.tables.directory import Channel, User
from channelstats.tables.first_posts import FirstPost


@dataclass(frozen=True)
class Inputs:
    """``messages`` has the columns of `channelstats.tables.columns`; ``counts`` is by the day they
    were taken; ``first_posts``, if given, were made by the way of counting of the report.
    """

    messages: pl.DataFrame
    users: Mapping[str, User] = field(default_factory=dict)
    channels: Mapping[str, Channel] = field(default_factory=dict)
    counts: Mapping[date, Counts] = field(default_factory=dict)
    first_posts: Mapping[str, FirstPost] | None = None
    history: History = field(default_factory=History)
    mark: Callable[[str], str] | None = None

    @property
    def hides_times(self) -> bool:
        """Whether of a message no more than its day may be shown."""
        return self.mark is not None


@dataclass(frozen=True)
class Options:
    """How to count and what to merge. ``default_timezone`` is for authors without one, in the
    modern profile; without it they are left out of local times. Those who are excluded, by name or
    by ID, are in no figure.
    """

    counting: Counting = field(default_factory=Counting)
    default_timezone: str = ""
    merge_skin_tones: bool = False
    excluded_users: frozenset[str] = frozenset()
    excluded_channels: frozenset[str] = frozenset()
