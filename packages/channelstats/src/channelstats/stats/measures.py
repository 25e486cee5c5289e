"""The numbers of one period, before they are shown or compared: frames, and the `statistics` of how
much was written, by how many, and how unevenly.

Rule: made alike for a period and for the one before, each when it is first asked for; "half"
is decided on whole numbers.

Rule: a choice is a choice of messages, made before anything is counted: those of a channel, and of
these those that a person wrote. What others did to the person is found among everybody's.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import accumulate
from typing import Final, Self

import msgspec
import polars as pl

from channelstats.counting import JOINED, bot_expression
from channelstats.stats.activity import Activity
from channelstats.stats.inputs import Inputs, Options
from channelstats.stats.interactions import GROUPS, Interactions
from channelstats.stats.messages import REACTED, CountedMessages, LocalTimes, PeriodMessages
from channelstats.stats.period import History, Period
from channelstats.stats.quantities import (
    MESSAGES_THEN_WORDS,
    Quantity,
    percent,
    ranked,
    ratio,
)
from channelstats.stats.rankings import all_authors, all_channels, channel_authors
from channelstats.stats.talk import BEFORE, FOLLOWED, UNANSWERED, outcomes, talk_of
from channelstats.tables.columns import ID, micros, rows_where
from channelstats.tables.configuration import Counts, counts_at
from channelstats.tables.directory import User, general_channels
from channelstats.tables.first_posts import earliest

_WORDS_ON_A_PAGE: Final = 500

MOST_FOLLOWED: Final = 10_000
"""Questions that are followed for a number of one period, which takes a second."""

READS_ALONG: Final = frozenset(
    {"eyes", "heavy_plus_sign", "plus", "plus1", "plusone", "raising_hand", "raised_hand", "hand"}
    | {"same", "following", "bookmark", "point_up", "this", "question", "me_too", "metoo"}
)
"""Emoji of a reaction to a question that is no answer: one would like to know it too."""

_TOP: Final = 10
_FIRST_POSTS: Final = pl.Schema({"slack_uid": ID, "ts": pl.Int64(), "slack_cid": ID})


class KnownPeople(msgspec.Struct, frozen=True):
    """IDs: users who are ``known``, the active ``accounts`` that a list of them has, the
    ``members`` among them (see `User.is_member`), those from ``outside``, and who ``joined`` the
    workspace while messages are known.
    """

    known: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()
    joined: frozenset[str] = frozenset()

    @classmethod
    def of(cls, users: Mapping[str, User], joined: frozenset[str]) -> Self:
        return cls(
            frozenset(users),
            frozenset(uid for uid, of in users.items() if not (of.deleted or of.unlisted)),
            frozenset(uid for uid, of in users.items() if of.is_member),
            frozenset(uid for uid, of in users.items() if of.is_stranger),
            joined,
        )


class Volume(msgspec.Struct, frozen=True):
    """What the figures are taken from; all of authors in the order of their ranking."""

    counts: Counts
    people: KnownPeople
    first_time_posters: int
    by_messages: Sequence[str]
    by_words: Sequence[str]
    messages_each: Sequence[int]
    words_each: Sequence[int]

    @property
    def posters(self) -> int:
        return len(self.by_words)

    @property
    def active_posters(self) -> int:
        """How many of the active accounts posted."""
        return min(len(self.people.accounts.intersection(self.by_words)), self.counts.active_users)

    @property
    def member_posters(self) -> int:
        """How many of the members posted."""
        return len(self.people.members.intersection(self.by_words))

    @property
    def members(self) -> int:
        """How many members there are; 0 where no list has them all, as of posters who may be some
        nothing is known.
        """
        members, unknown = self.counts.active_humans, len(set(self.by_words) - self.people.known)
        return members if members >= self.member_posters + unknown else 0

    @property
    def messages(self) -> int:
        return sum(self.messages_each)

    @property
    def words(self) -> int:
        return sum(self.words_each)


_NOBODY: Final = KnownPeople()

STATISTICS: Final[Mapping[str, Callable[[Volume], Quantity]]] = {
    "posters": lambda of: of.posters,
    "active_users": lambda of: of.counts.active_users,
    "all_users": lambda of: of.counts.all_users,
    "% posting": lambda of: percent(of.active_posters, of.counts.active_users),
    "messages": lambda of: of.messages,
    "words": lambda of: of.words,
    "average messages": lambda of: ratio(of.messages, of.posters),
    "average words": lambda of: ratio(of.words, of.posters),
    "median messages": lambda of: median(of.messages_each),
    "median words": lambda of: median(of.words_each),
    "topten messages": lambda of: percent(sum(of.messages_each[:_TOP]), of.messages),
    "topten words": lambda of: percent(sum(of.words_each[:_TOP]), of.words),
    "50percent of messages": lambda of: half(of.messages_each),
    "50percent of words": lambda of: half(of.words_each),
    "pages": lambda of: of.words // _WORDS_ON_A_PAGE,
    "words per message": lambda of: ratio(of.words, of.messages),
    "words per poster": lambda of: ratio(of.words, of.posters),
    "messages per poster": lambda of: ratio(of.messages, of.posters),
    "first-time posters": lambda of: of.first_time_posters,
}
"""Names as the report has them, to what they mean."""

AUTHORS_OF_HALF: Final[Mapping[str, Callable[[Volume], list[str]]]] = {
    "50percent users for messages": lambda of: authors_of_half(of.by_messages, of.messages_each),
    "50percent users for words": lambda of: authors_of_half(of.by_words, of.words_each),
}


class Measures:
    """See the module. ``first_posts`` has the columns `slack_uid` and `ts` (microseconds);
    ``history`` is the time that messages are known of. Of the messages of a ``person``, ``whole``
    are the measures without that choice. ``people`` are those known.
    """

    def __init__(
        self,
        period_messages: PeriodMessages,
        counts: Counts,
        first_posts: pl.DataFrame,
        history: History,
        person: str = "",
        whole: "Measures | None" = None,
        people: KnownPeople = _NOBODY,
    ) -> None:
        self.people = people
        self.period_messages = period_messages
        self._counts = counts
        self.first_posts = first_posts
        self.history = history
        self.person = person
        self._whole = whole

    @property
    def whole(self) -> "Measures":
        return self._whole or self

    @property
    def messages(self) -> pl.DataFrame:
        return self.period_messages.messages

    @property
    def period(self) -> Period:
        return self.period_messages.period

    @cached_property
    def author_frame(self) -> pl.DataFrame:
        """Everybody with an entry."""
        return all_authors(self.period_messages)

    @cached_property
    def poster_frame(self) -> pl.DataFrame:
        """Those who posted, ranked by words."""
        return self.author_frame.filter(pl.col("m") > 0)

    @cached_property
    def channel_frame(self) -> pl.DataFrame:
        """The channels with messages."""
        return all_channels(self.period_messages)

    @cached_property
    def channel_authors(self) -> pl.DataFrame:
        return channel_authors(self.period_messages)

    @cached_property
    def activity(self) -> Activity:
        return Activity(self.period_messages)

    @cached_property
    def interactions(self) -> Interactions:
        """Of everybody."""
        return self._whole.interactions if self._whole else Interactions(self.period_messages)

    @cached_property
    def edges(self) -> pl.DataFrame:
        """Who interacts with whom of everybody, in no order: `one`, `other`, `n`."""
        return self._whole.edges if self._whole else self.interactions.unsorted_edges()

    @cached_property
    def directions(self) -> pl.Series:
        """Of every two people who interact, whether in one direction or in both: 1 or 2."""
        one, other = (pl.col(end).to_physical() for end in ("one", "other"))
        ends = pl.min_horizontal(one, other), pl.max_horizontal(one, other)
        pairs = self.edges.select(first=ends[0], second=ends[1])
        return pairs.group_by("first", "second").len()["len"]

    @cached_property
    def waits(self) -> pl.DataFrame:
        """Whole `seconds` that heads (`slack_cid`, `ts`) waited for a reply by somebody else."""
        return self.period_messages.answered.filter("is_head").select(
            "slack_cid", "ts", seconds=(pl.col("replied_at") - pl.col("ts")) // 1_000_000
        )

    def wait(self, percentile: int) -> int | None:
        """Seconds that so many per cent of the heads with a reply waited at most."""
        return self.waits.select(nearest_rank(percentile)).item() if self.waits.height else None

    @cached_property
    def unanswered(self) -> pl.DataFrame:
        """Messages, not replies, that drew neither a reply nor a reaction by somebody else:
        `slack_cid`, `ts`, `slack_uid`, and whether it is known as a `question`.
        """
        is_noticed = self._is_one_of(self._reacted_to, self.period_messages.answered["row"])
        top = self.messages.lazy().filter(~pl.col("is_reply") & ~pl.lit(is_noticed))
        return top.select("slack_cid", "ts", "slack_uid", "question").collect()

    @cached_property
    def waiting(self) -> pl.DataFrame:
        """As `unanswered`, with those that others reacted to as who only reads along: see
        `READS_ALONG`.
        """
        reactions = self.period_messages.reactions
        answering = reactions.filter(~pl.col("emoji").cast(pl.String).is_in(sorted(READS_ALONG)))
        noticed = self._by_others(answering)
        is_noticed = self._is_one_of(noticed, self.period_messages.answered["row"])
        top = self.messages.lazy().filter(~pl.col("is_reply") & ~pl.lit(is_noticed))
        return top.select("slack_cid", "ts", "slack_uid", "question").collect()

    def followed(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Messages with their `outcome` in the talk around them, see `channelstats.stats.talk`."""
        source = self.period_messages.source
        first, last = (
            pl.lit(end, pl.Int64) for end in (messages["ts"].min(), messages["ts"].max())
        )
        around = pl.col("ts").is_between(first - BEFORE, last + FOLLOWED)
        there = source.counted.filter(around).join(messages, on="slack_cid", how="semi")
        found = outcomes(messages, talk_of(there, source.answers))
        return messages.join(found, on=["slack_cid", "ts"], maintain_order="left")

    @cached_property
    def questions_left(self) -> pl.DataFrame | None:
        """Questions that nobody answered; None where too many would have to be followed."""
        asked = self.waiting.filter("question")
        if asked.height > MOST_FOLLOWED:
            return None
        return self.followed(asked).filter(pl.col("outcome").is_in(UNANSWERED))

    @property
    def open_questions(self) -> int | None:
        """How many these are."""
        return None if self.questions_left is None else self.questions_left.height

    @cached_property
    def noticed(self) -> pl.DataFrame:
        """Messages that somebody else reacted or replied to: to a reply, later in its thread."""
        of, place = self.period_messages, ("slack_cid", "thread_ts")
        replies = self.messages.select(*place, "ts", "slack_uid", "is_reply").with_row_index("row")
        replies = replies.filter("is_reply")
        after = of.source.answers.join(replies.select(place).unique(), on=place, how="semi")
        later = replies.join(after, on=place).filter(
            (pl.col("replied_at") > pl.col("ts")) & (pl.col("replier") != pl.col("slack_uid"))
        )
        is_noticed = self._is_one_of(self._reacted_to, of.answered["row"], later["row"])
        return self.messages.filter(is_noticed)

    @cached_property
    def unlisted_reactions(self) -> int:
        """Reactions of which Slack does not say who gave them, as it lists only some of many."""
        listed = pl.col("reactions").list.len().fill_null(0).cast(pl.Int64)
        return int(self.messages.select((pl.col(REACTED) - listed).clip(0).sum()).item())

    @cached_property
    def _reacted_to(self) -> pl.Series:
        """The rows of messages that somebody else reacted to who is no bot."""
        return self._by_others(self.period_messages.reactions)

    def _by_others(self, reactions: pl.DataFrame) -> pl.Series:
        is_bot = bot_expression(self.period_messages.source.bots, "reactor")
        by_others = reactions.lazy().filter((pl.col("reactor") != pl.col("slack_uid")) & ~is_bot)
        return by_others.select(pl.col("row").unique()).collect().to_series()

    def _is_one_of(self, *rows: pl.Series) -> pl.Series:
        """Of each message, whether its row is one of these."""
        nothing = pl.repeat(False, self.messages.height, eager=True)
        return nothing.scatter(pl.concat(rows), True)

    def posted(self, days: Period) -> pl.Series:
        """Who posted in other days."""
        return rows_where(self.period_messages.source.counted, days.covers())["slack_uid"].unique()

    @cached_property
    def given(self) -> pl.DataFrame:
        """Reactions given by the person, or all."""
        return self._by_person(self.whole.period_messages.reactions, "reactor")

    @cached_property
    def answers(self) -> pl.DataFrame:
        """Messages in threads of the person, or of anybody, by somebody else."""
        return self._by_person(self.whole.period_messages.responses, "parent")

    def _by_person(self, frame: pl.DataFrame, column: str) -> pl.DataFrame:
        return frame.filter(pl.col(column) == self.person) if self.person else frame

    @cached_property
    def volume(self) -> Volume:
        by_words = self.poster_frame
        by_messages = ranked(by_words, MESSAGES_THEN_WORDS, "slack_uid")
        return Volume(
            counts=self._counts,
            people=self.people,
            first_time_posters=first_time_posters(self.first_posts, self.period_messages.period),
            by_messages=by_messages["slack_uid"].to_list(),
            by_words=by_words["slack_uid"].to_list(),
            messages_each=by_messages["m"].to_list(),
            words_each=by_words["w"].to_list(),
        )

    @cached_property
    def statistics(self) -> dict[str, Quantity]:
        return {name: figure(self.volume) for name, figure in STATISTICS.items()}

    @cached_property
    def own_first_posts(self) -> pl.DataFrame:
        """Those of people who are not from outside."""
        return self.first_posts.filter(~_is_in(self.people.outside))

    @cached_property
    def newcomers(self) -> pl.DataFrame:
        """The first posts of those who are certainly new, and not from outside: of everybody where
        enough is known from before the period, or else of who joined the workspace meanwhile.
        """
        found = self.own_first_posts.filter(self.period.covers())
        if self.history.knows_newcomers(self.period):
            return found
        return found.filter(_is_in(self.people.joined))

    @property
    def knows_newcomers(self) -> bool:
        """Whether it can be told who is new, or at least who some of them are."""
        return self.history.knows_newcomers(self.period) or self.newcomers.height > 0

    @cached_property
    def with_people(self) -> pl.DataFrame:
        """Everybody with an entry, and `Interactions.sizes` of each people group."""
        found = self.author_frame
        for name in GROUPS:
            sizes = self.interactions.sizes(name)
            found = found.join(sizes, on="slack_uid", how="left", maintain_order="left")
        return found.fill_null(0)


def _is_in(people: frozenset[str]) -> pl.Expr:
    return pl.col("slack_uid").is_in(sorted(people))


class MeasuredInputs:
    """The way from inputs to the measures of their period and of the one before."""

    def __init__(self, inputs: Inputs, period: Period, options: Options) -> None:
        self._inputs = inputs
        self._options = options
        self.period = period
        self.counted_messages = CountedMessages(inputs.messages, inputs.users, options.counting)

    @cached_property
    def local_times(self) -> LocalTimes:
        days = self.period
        return LocalTimes(self._inputs.users, self._options, days.previous.begin, days.end)

    @cached_property
    def people(self) -> KnownPeople:
        general = general_channels(self._inputs.channels)
        joins = pl.col("subtype").is_in(JOINED) & pl.col("slack_cid").is_in(sorted(general))
        joined = rows_where(self._inputs.messages, joins & ~pl.col("deleted"))["slack_uid"]
        return KnownPeople.of(self._inputs.users, frozenset(joined.drop_nulls().unique()))

    @cached_property
    def first_posts(self) -> pl.DataFrame:
        """Of those who count: `slack_uid`, `ts` in microseconds, `slack_cid`."""
        found, counted = self._inputs.first_posts, self.counted_messages
        if found is None:
            return earliest(counted.counted)
        dropped = frozenset() if counted.counting.include_bots else counted.bots
        posts = pl.DataFrame(
            {
                "slack_uid": list(found),
                "ts": [post.message_id for post in found.values()],
                "slack_cid": [post.slack_cid for post in found.values()],
            },
            dict.fromkeys(_FIRST_POSTS, pl.String),
        )
        posts = posts.filter(~pl.col("slack_uid").is_in(list(dropped)))
        return posts.with_columns(micros("ts")).cast(_FIRST_POSTS)

    def only(self, chosen: pl.Expr) -> Self:
        """Of some of the messages and first posts."""
        posts = self.first_posts.filter(chosen)
        some = copy(self)
        some.counted_messages, some.first_posts = self.counted_messages.only(chosen), posts
        return some

    def measures(self, days: Period, person: str = "", whole: Measures | None = None) -> Measures:
        """Of these days; for ``person`` and ``whole`` see `Measures`."""
        period_messages = PeriodMessages(
            self.counted_messages,
            days,
            self.local_times,
            merge_skin_tones=bool(self._options.merge_skin_tones),
        )
        counts, history = counts_at(self._inputs.counts, days.last), self._inputs.history
        return Measures(
            period_messages, counts, self.first_posts, history, person, whole, self.people
        )


class SmallGroups:
    """The groups of one period that are too small to hide in. ``smallest`` is the fewest posters
    that a group must have; with 1 all are shown.

    Rule: a channel or a time zone with fewer posters is in no list and no table, nor is a message
    of such a channel; figures of the whole stay as they are. Where fewer posted in all, nobody is
    named who is not reported to.
    """

    def __init__(self, now: Measures, smallest: int = 1) -> None:
        self._now = now
        self.smallest = smallest

    @property
    def hides(self) -> bool:
        """Whether anything could be hidden at all."""
        return self.smallest > 1

    @cached_property
    def posters(self) -> dict[str, int]:
        """How many people posted in each channel."""
        return dict(self._now.channel_frame.select("slack_cid", "posters").iter_rows())

    @cached_property
    def _shown(self) -> frozenset[str]:
        return frozenset(cid for cid, number in self.posters.items() if number >= self.smallest)

    @property
    def names_people(self) -> bool:
        """Whether enough posted in all for any of them to be named."""
        return not self.hides or self._now.volume.posters >= self.smallest

    def shows(self, cid: str) -> bool:
        """Whether a channel may be listed."""
        return not self.hides or cid in self._shown

    @property
    def zones(self) -> pl.DataFrame:
        """The time zones that may be listed, the most words first: see `Activity.zones`."""
        return self._now.activity.zones.filter(pl.col("posters") >= self.smallest)

    def listable(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows whose `slack_cid` may be listed."""
        if not self.hides:
            return frame
        return frame.filter(pl.col("slack_cid").is_in(sorted(self._shown)))


def nearest_rank(percentile: int) -> pl.Expr:
    """The smallest of the column `seconds` that at least so many per cent are no larger than."""
    return pl.col("seconds").sort().get((percentile * pl.len() + 99) // 100 - 1)


def median(falling: Sequence[int]) -> int:
    """The middle of numbers in falling order, the lower one of two; 0 without any."""
    return falling[len(falling) // 2] if falling else 0


def half(falling: Sequence[int]) -> int:
    """How few of the largest make at least half of all; 0 where all is nothing."""
    total = sum(falling)
    return sum(2 * reached < total for reached in accumulate(falling)) + 1 if total else 0


def authors_of_half(authors: Sequence[str], falling: Sequence[int]) -> list[str]:
    """Authors while they make at most half of all together, and the one who passes it."""
    total = sum(falling)
    if not total:
        return []
    up_to_half = sum(2 * reached <= total for reached in accumulate(falling))
    return list(authors[: up_to_half + 1])


def first_time_posters(first_posts: pl.DataFrame, period: Period) -> int:
    """How many first posts, in whole seconds, lie in a period."""
    return first_posts.filter(period.covers()).height
