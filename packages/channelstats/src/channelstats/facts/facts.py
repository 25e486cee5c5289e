"""The tables of facts of everything that was read, and slices of them: some days, channels, a
person.

Rule: what starts must lie in the days of a slice; what follows (a reply, a reaction) may come at
any time. A slice is a choice of messages, made before anything is counted; what others did to its
person is found among everybody's.

Every table has the columns `ts` (microseconds), `slack_cid` and `slack_uid` of a message:

    messages       what counts, with its number, `row`; `is_reply`
    timed          the same with `local_weekday` (Monday is 0) and `local_hour`; null without a zone
    workdays       those of the authors' own Monday to Friday
    conversations  messages that are no replies: `is_head` of a thread, `replied_at` and whole
                   `seconds` until somebody else replied first, whether it is `unanswered` (nobody
                   else replied or reacted) and `waiting` (or reacted as who only reads along)
    questions      those of them that are `waiting` questions and can still be answered: not in
                   archived channels, nor of who is `gone`
    reactions      one for each emoji, or each merged one, of each listed person: the `row` of the
                   message, `emoji`, `reactor`
    mentions       one for each: `mentioned`
    replies        messages in a thread of somebody else, the `parent`
    moves          people joined or left a channel: `subtype`
    first_posts    of everybody who counts, of whatever time
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

import polars as pl

from channelstats.counting import JOINED, LEFT, bot_expression
from channelstats.facts.local_times import LocalTimes
from channelstats.facts.periods import MONTH, History, Period, blocks
from channelstats.facts.reading import REPLIES, Inputs, Options
from channelstats.facts.talk import BEFORE, FOLLOWED, UNANSWERED, habits, outcomes
from channelstats.identifiers import SLACKBOT
from channelstats.tables.columns import ID, IS_HEAD, IS_REPLY, is_among, micros, rows_where
from channelstats.tables.configuration import Counts, counts_at
from channelstats.tables.directory import bots_of, general_channels
from channelstats.tables.first_posts import earliest

_T = TypeVar("_T")

AUTHOR: Final = "slack_uid"
CHANNEL: Final = "slack_cid"

MOST_FOLLOWED: Final = 10_000
"""Questions of a period, up to which all of them are followed."""
NEWEST_FOLLOWED: Final = 1_000
"""Those that are followed where there are more."""

READS_ALONG: Final = frozenset(
    {"eyes", "heavy_plus_sign", "plus", "plus1", "plusone", "raising_hand", "raised_hand", "hand"}
    | {"same", "following", "bookmark", "point_up", "this", "question", "me_too", "metoo"}
)
"""Emoji of a reaction to a question that is no answer: one would like to know it too."""

REACTED: Final = "reaction_count"
REPLIED: Final = "reply_count"

_SKIN_TONE: Final = "::skin-tone-[0-9](?:-[0-9])?$"
_FIRST_POSTS: Final = pl.Schema({"slack_uid": ID, "ts": pl.Int64(), "slack_cid": ID})


class KnownPeople(NamedTuple):
    """IDs: who is from ``outside``, and who ``joined`` the workspace while messages are known."""

    outside: frozenset[str]
    joined: frozenset[str]


def _without_tones(reactions: pl.DataFrame) -> pl.DataFrame:
    """Reactions with one emoji whatever its skin tone, of each person once."""
    names = reactions["emoji"].unique()
    toned = names.filter(names.cast(pl.String).str.contains(_SKIN_TONE))
    base = toned.cast(pl.String).str.replace(_SKIN_TONE, "").cast(ID)
    rows = reactions.filter(is_among(toned))["row"].unique()
    merged = reactions.with_columns(pl.col("emoji").replace(toned, base)).with_row_index("at")
    # To look for what is there twice takes long, so only where there was a tone.
    some = merged.filter(is_among(rows))
    again = some.filter(~pl.struct("row", "emoji", "reactor").is_first_distinct())["at"]
    return merged.filter(~is_among(again)).drop("at")


def newest(messages: pl.DataFrame, most: int) -> pl.DataFrame:
    """The newest first, at most so many."""
    if messages.height > most:
        messages = messages.filter(pl.col("ts") >= messages["ts"].top_k(most).min())
    return messages.sort("ts", "slack_cid", descending=[True, False]).head(most)


class Facts:
    """Of everything that was read. Tables are made when they are first asked for."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        self.inputs = inputs
        self.options = options
        self.bots = bots_of(inputs.users)
        """Users known as such."""
        self.recorded = inputs.messages.select(
            pl.exclude(REPLIES),
            is_bot=bot_expression(self.bots),
            is_reply=IS_REPLY,
            counts=options.counting.counted(self.bots),
        )
        """Everything that is stored, deleted messages and those that do not count too."""

    @property
    def history(self) -> History:
        """The dates that messages are known of."""
        return self.inputs.history

    @cached_property
    def people(self) -> KnownPeople:
        outside = (uid for uid, user in self.inputs.users.items() if user.is_stranger)
        general = general_channels(self.inputs.channels)
        joins = pl.col("subtype").is_in(JOINED) & pl.col(CHANNEL).is_in(sorted(general))
        joined = rows_where(self.recorded, joins & ~pl.col("deleted"))[AUTHOR]
        return KnownPeople(frozenset(outside), frozenset(joined.drop_nulls().unique()))

    @cached_property
    def gone(self) -> list[str]:
        """Whose account is deactivated, or a bot's, Slackbot's too."""
        users = self.inputs.users.items()
        return [uid for uid, user in users if user.deleted or user.is_bot or uid == SLACKBOT]

    def slice(self, period: Period, channels: tuple[str, ...] = (), person: str = "") -> "Slice":
        """Of these days, and in them of channels (IDs; none for all) and of a person, or all."""
        return Slice(self, period, channels, person)

    # ── tables ───────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def messages(self) -> pl.DataFrame:
        return rows_where(self.recorded, pl.col("counts")).with_row_index("row")

    @cached_property
    def _local_times(self) -> LocalTimes:
        first, last = self.messages.select(
            first=pl.col("ts").min().fill_null(0) // 1_000_000,
            last=pl.col("ts").max().fill_null(0) // 1_000_000 + 1,
        ).row(0)
        return LocalTimes(self.inputs.users, self.options, first, last)

    @property
    def zones(self) -> pl.DataFrame:
        """Everybody with a time zone: `slack_uid`, `tz`."""
        return self._local_times.zones

    @cached_property
    def timed(self) -> pl.DataFrame:
        return self._local_times.added_to(self.messages)

    @cached_property
    def workdays(self) -> pl.DataFrame:
        return self.timed.filter(pl.col("local_weekday") < 5)

    @cached_property
    def moves(self) -> pl.DataFrame:
        is_move = pl.col("subtype").is_in(JOINED | LEFT) & ~pl.col("is_bot") & ~pl.col("deleted")
        return self.recorded.filter(is_move)

    @cached_property
    def reactions(self) -> pl.DataFrame:
        reactions = (
            self.messages.lazy()
            .select("row", "ts", CHANNEL, AUTHOR, "reactions")
            .drop_nulls("reactions")
            .explode("reactions")
            .unnest("reactions")
            .collect()
        )
        return _without_tones(reactions) if self.options.merge_skin_tones else reactions

    @cached_property
    def mentions(self) -> pl.DataFrame:
        mentioning = self.messages.select("ts", CHANNEL, AUTHOR, mentioned="mentions")
        return mentioning.drop_nulls("mentioned").explode("mentioned")

    @cached_property
    def replies(self) -> pl.DataFrame:
        replies = self.messages.select("ts", CHANNEL, AUTHOR, parent="parent_user_id")
        return replies.drop_nulls("parent").filter(pl.col("parent") != pl.col(AUTHOR))

    @cached_property
    def answers(self) -> pl.DataFrame:
        """Everybody's replies: `slack_cid`, `thread_ts`, `replier`, `replied_at`."""
        columns = {"replier": AUTHOR, "replied_at": "ts"}
        replies = self.messages.lazy().filter("is_reply")
        return replies.select(CHANNEL, "thread_ts", **columns).collect()

    @cached_property
    def conversations(self) -> pl.DataFrame:
        top = (
            self.messages.lazy()
            .filter(~pl.col("is_reply"))
            .select("row", "ts", CHANNEL, AUTHOR, "thread_ts", "question", is_head=IS_HEAD)
            .collect()
        )
        first = self._first_replies(top)
        unknown = pl.repeat(None, self.messages.height, dtype=pl.Int64, eager=True)
        replied_at = unknown.scatter(first["row"], first["replied_at"])
        answering = self._by_others.filter(~pl.col("emoji").is_in(sorted(READS_ALONG)))
        wait = (pl.col("replied_at") - pl.col("ts")) // 1_000_000
        top = top.with_columns(
            replied_at=replied_at.gather(top["row"]),
            is_noticed=self._reacted.gather(top["row"]),
            is_heard=self._marked(answering["row"]).gather(top["row"]),
        )
        is_answered = pl.col("replied_at").is_not_null()
        return top.with_columns(
            seconds=pl.when("is_head").then(wait),
            unanswered=~(is_answered | pl.col("is_noticed")),
            waiting=~(is_answered | pl.col("is_heard")),
        ).drop("is_noticed", "is_heard")

    @cached_property
    def questions(self) -> pl.DataFrame:
        archived = [cid for cid, one in self.inputs.channels.items() if one.is_archived]
        can_be_answered = ~(pl.col(CHANNEL).is_in(archived) | pl.col(AUTHOR).is_in(self.gone))
        return self.conversations.filter("waiting", "question", can_be_answered)

    def _first_replies(self, top: pl.DataFrame) -> pl.DataFrame:
        answers = self.answers.lazy().rename({CHANNEL: "in_channel", "thread_ts": "ts"})
        return (
            top.lazy()
            .select("row", "ts", CHANNEL, AUTHOR)
            # Hardly two messages are of one time, so this takes less than by both.
            .join(answers, on="ts")
            .filter(pl.col("in_channel") == pl.col(CHANNEL))
            .filter(pl.col("replier") != pl.col(AUTHOR))
            .group_by("row")
            .agg(pl.col("replied_at").min())
            .collect()
        )

    @cached_property
    def _by_others(self) -> pl.DataFrame:
        """The `row` and `emoji` of reactions by somebody else who is no bot."""
        by_others = (pl.col("reactor") != pl.col(AUTHOR)) & ~bot_expression(self.bots, "reactor")
        return self.reactions.lazy().filter(by_others).select("row", "emoji").collect()

    @cached_property
    def _reacted(self) -> pl.Series:
        """Of each message, whether somebody else reacted to it who is no bot."""
        return self._marked(self._by_others["row"])

    def _marked(self, rows: pl.Series) -> pl.Series:
        """Of each message, whether its row is one of these."""
        return pl.repeat(False, self.messages.height, eager=True).scatter(rows, True)

    def noticed(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Those of messages that somebody else reacted or replied to: to a reply, later in its
        thread.
        """
        place = (CHANNEL, "thread_ts")
        replies = messages.filter("is_reply").select(*place, "ts", AUTHOR, "row")
        later = replies.join(self.answers.filter(is_among(replies["thread_ts"])), on=place).filter(
            (pl.col("replied_at") > pl.col("ts")) & (pl.col("replier") != pl.col(AUTHOR))
        )
        is_noticed = self._reacted | self._answered | self._marked(later["row"])
        return messages.filter(is_noticed.gather(messages["row"]))

    @cached_property
    def _answered(self) -> pl.Series:
        """Of each message, whether it is no reply and somebody else replied to it."""
        return self._marked(self.conversations.filter(~pl.col("replied_at").is_null())["row"])

    @cached_property
    def first_posts(self) -> pl.DataFrame:
        posts = self.inputs.first_posts
        if posts is None:
            return earliest(self.messages)
        dropped = frozenset() if self.options.counting.include_bots else self.bots
        first = pl.DataFrame(
            {
                "slack_uid": list(posts),
                "ts": [post.message_id for post in posts.values()],
                "slack_cid": [post.slack_cid for post in posts.values()],
            },
            dict.fromkeys(_FIRST_POSTS, pl.String),
        )
        first = first.filter(~pl.col(AUTHOR).is_in(list(dropped)))
        return first.with_columns(micros("ts")).cast(_FIRST_POSTS)


class Slice:
    """The facts of a ``period``, of some channels and of a person, or of all. The ``whole`` is the
    same of everybody.
    """

    def __init__(
        self,
        facts: Facts,
        period: Period,
        channels: tuple[str, ...] = (),
        person: str = "",
        whole: "Slice | None" = None,
    ) -> None:
        self.facts, self.period = facts, period
        self.channels, self.person = channels, person
        self.whole: Slice = (whole or Slice(facts, period, channels)) if person else self
        self._kept: dict[Any, Any] = {}

    def days(self, period: Period) -> "Slice":
        """The same choice of other days."""
        return Slice(self.facts, period, self.channels, self.person)

    def once(self, key: Any, make: Callable[[], _T]) -> _T:
        """What is made of this slice, made when it is first asked for."""
        if key not in self._kept:
            self._kept[key] = make()
        made: _T = self._kept[key]
        return made

    def table(self, name: str, person: str = AUTHOR) -> pl.DataFrame:
        """The rows of a table of facts that are of the slice; ``person`` is the column that its
        person is looked for in.
        """
        return self.once((name, person if self.person else ""), lambda: self._rows(name, person))

    def _rows(self, name: str, person: str) -> pl.DataFrame:
        if self.person:
            return self.whole.table(name).filter(pl.col(person) == self.person)
        rows = rows_where(getattr(self.facts, name), self.period.covers())
        return rows_where(rows, pl.col(CHANNEL).is_in(self.channels)) if self.channels else rows

    @property
    def messages(self) -> pl.DataFrame:
        return self.table("messages")

    def top(self, count: str) -> pl.LazyFrame:
        """The messages with any of it, ranked: `count`, `ts`, `slack_cid`, `slack_uid`,
        `thread_ts`. Of the first few alone it takes a fraction of the time.
        """
        number = pl.col(count).cast(pl.Int64).alias("count")
        messages = self.messages.lazy().select(number, "ts", CHANNEL, AUTHOR, "thread_ts")
        some = messages.filter(pl.col("count") > 0)
        return some.sort(-pl.col("count"), "ts", CHANNEL)

    def everything(self, name: str) -> pl.DataFrame:
        """A table of the choice, of whatever time."""
        rows: pl.DataFrame = getattr(self.facts, name)
        if self.channels:
            rows = rows.filter(pl.col(CHANNEL).is_in(self.channels))
        return rows.filter(pl.col(AUTHOR) == self.person) if self.person else rows

    def joins_before(self) -> pl.DataFrame:
        """Messages that people joined a channel before the period, as far as they were read."""
        earlier = pl.col("ts") < self.period.begin * 1_000_000
        return self.everything("recorded").filter(earlier & pl.col("subtype").is_in(JOINED))

    @property
    def counts(self) -> Counts:
        """How many accounts there were on the last day."""
        return counts_at(self.facts.inputs.counts, self.period.last)

    @property
    def history(self) -> History:
        return self.facts.history

    # ── newcomers ────────────────────────────────────────────────────────────────────────────────

    @property
    def own_first_posts(self) -> pl.DataFrame:
        """First posts of people who are not from outside, of whatever time."""
        is_outside = pl.col(AUTHOR).is_in(sorted(self.facts.people.outside))
        return self.everything("first_posts").filter(~is_outside)

    @property
    def newcomers(self) -> pl.DataFrame:
        """The first posts of those who are certainly new, and not from outside: of everybody where
        enough is known from before the period, or else of who joined the workspace meanwhile.
        """
        first = self.own_first_posts.filter(self.period.covers())
        if self.history.knows_newcomers(self.period):
            return first
        return first.filter(pl.col(AUTHOR).is_in(sorted(self.facts.people.joined)))

    @property
    def knows_newcomers(self) -> bool:
        """Whether it can be told who is new, or at least who some of them are."""
        return self.history.knows_newcomers(self.period) or self.newcomers.height > 0

    # ── answers ──────────────────────────────────────────────────────────────────────────────────

    @property
    def follows_all_questions(self) -> bool:
        """Whether there are not too many of them to follow each."""
        return self.table("questions").height <= MOST_FOLLOWED

    @property
    def questions_left(self) -> pl.DataFrame:
        """Questions that nobody answered, with their `outcome`: of all that were asked, or, where
        these are too many to follow, of the newest.
        """
        return self.once("questions left", self._questions_left)

    def _questions_left(self) -> pl.DataFrame:
        asked = self.table("questions")
        if not self.follows_all_questions:
            asked = newest(asked, NEWEST_FOLLOWED)
        return self.followed(asked).filter(pl.col("outcome").is_in(UNANSWERED))

    def followed(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Messages of the slice with their `outcome` in the talk around them: see
        `channelstats.facts.talk`.
        """
        # By the habits of the four weeks that a message is in, counted back from the end of the
        # period: so it has the same outcome whatever is shown, and of however many weeks.
        parts = [
            self._followed(some, month)
            for month in blocks(self.period, MONTH)
            if (some := rows_where(messages, month.covers())).height
        ]
        return pl.concat(parts) if parts else messages.with_columns(outcome=pl.lit(None, pl.String))

    def _followed(self, messages: pl.DataFrame, month: Period) -> pl.DataFrame:
        begin, end = (pl.lit(at, pl.Int64) for at in (messages["ts"].min(), messages["ts"].max()))
        around = pl.col("ts").is_between(begin - BEFORE, end + FOLLOWED)
        there = rows_where(self.whole.everything("messages"), around)
        four_weeks = self.whole.days(month.ending_with(MONTH))
        known = self.whole.once(("habits", month), lambda: habits(four_weeks.messages))
        became = outcomes(messages, there, self.facts.answers, known)
        return messages.join(became, on=[CHANNEL, "ts"])

    @property
    def unlisted_reactions(self) -> int:
        """Reactions of which Slack does not say who gave them, as it lists only some of many."""
        listed = pl.col("reactions").list.len().fill_null(0)
        missing = (pl.col("reaction_count") - listed).clip(0).sum()
        return int(self.messages.select(missing).item())
