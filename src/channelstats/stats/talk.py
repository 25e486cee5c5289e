"""Counted messages as columns, and what is inside them: reactions, mentions, answers.

Rule: who an author is and whether a message counts is decided here, once, for every figure.
"""

from collections.abc import Mapping
from functools import cached_property

import polars as pl

from channelstats.counting import Counting, bot_expression
from channelstats.stats.period import Period
from channelstats.stats.zones import LocalTimes
from channelstats.tables.codecs import REACTION
from channelstats.tables.directory import User

IS_REPLY = pl.col("thread_ts").is_not_null() & (pl.col("thread_ts") != pl.col("ts"))
IS_HEAD = (pl.col("thread_ts") == pl.col("ts")).fill_null(value=False)


class Talk:
    """The messages given to a report. ``bots`` are the users known as such."""

    def __init__(
        self, messages: pl.DataFrame, users: Mapping[str, User], counting: Counting
    ) -> None:
        self.counting = counting
        self.bots = frozenset(user.slack_uid for user in users.values() if user.is_bot)
        self.kept = messages.filter(~pl.col("deleted")).with_columns(
            is_bot=bot_expression(self.bots),
            is_reply=IS_REPLY,
        )
        self.counted = self.kept.filter(counting.counted(self.bots))
        """Counted messages, of whatever time."""

    @cached_property
    def answers(self) -> pl.DataFrame:
        """Counted replies of whatever time: `slack_cid`, `thread_ts`, `replier`, `replied_at`."""
        return self.counted.filter("is_reply").select(
            "slack_cid", "thread_ts", replier="slack_uid", replied_at="ts"
        )


class Said:
    """What was said in one period: counted messages and what is inside them."""

    def __init__(
        self, talk: Talk, period: Period, local: LocalTimes, *, merge_skin_tones: bool
    ) -> None:
        self.talk = talk
        self.period = period
        self._merge_skin_tones = merge_skin_tones
        self.messages = local.added_to(talk.counted.filter(period.covers()))
        """Counted messages of the period, with local times."""

    @cached_property
    def reactions(self) -> pl.DataFrame:
        """One row for each emoji of each listed person: `ts`, `slack_cid`, `slack_uid` (the author
        of the message), `emoji`, `reactor`.
        """
        one = pl.col("reactions").str.replace_all(";", ":", literal=True)
        emoji = pl.col("1")
        if self._merge_skin_tones:
            emoji = emoji.str.replace("::skin-tone-[0-9]+$", "")
        return (
            self.messages.select("ts", "slack_cid", "slack_uid", "reactions")
            .drop_nulls("reactions")
            .with_columns(pl.col("reactions").str.split(","))
            .explode("reactions")
            .with_columns(one.str.extract_groups(REACTION).alias("parts"))
            .unnest("parts")
            .with_columns(emoji.alias("emoji"), pl.col("2").str.strip_prefix(":").str.split(":"))
            .explode("2")
            .filter(pl.col("2") != "")
            .select("ts", "slack_cid", "slack_uid", "emoji", reactor="2")
        )

    @cached_property
    def mentions(self) -> pl.DataFrame:
        """One row for each mention: `slack_uid` (the author), `mentioned`."""
        return (
            self.messages.select("slack_uid", "mentions")
            .drop_nulls()
            .with_columns(pl.col("mentions").str.replace_all(",", ":", literal=True).str.split(":"))
            .explode("mentions")
            .filter(pl.col("mentions") != "")
            .select("slack_uid", mentioned="mentions")
        )

    @cached_property
    def responses(self) -> pl.DataFrame:
        """One row for each message in another's thread: `slack_uid`, `parent`."""
        return self.messages.filter(
            pl.col("parent_user_id").is_not_null()
            & (pl.col("parent_user_id") != pl.col("slack_uid"))
        ).select("slack_uid", parent="parent_user_id")
