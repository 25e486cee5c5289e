"""The catalogue: every figure and every column that a view or a report shows, by its name.

It is declared here once: what it is called, what that means, how it is written, and for a figure of
a whole choice how it is measured. Two things that mean something else have two names, even where
they go out under the same key.

Rule: a number is made alike for a period and for the one before, for one person and for everybody;
where there is nothing to measure it is None, never 0.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias, TypedDict, Unpack

import polars as pl

from channelstats.counting import JOINED, LEFT
from channelstats.stats.conversation import (
    STARTS_THREAD,
    how_many,
)
from channelstats.stats.measures import Measures, nearest_rank
from channelstats.stats.messages import REACTED
from channelstats.stats.period import MONTH, WEEK, Period, by_point, weeks, with_point
from channelstats.stats.quantities import Quantity, percent, ratio
from channelstats.views.model import Column, Kind

Measure: TypeAlias = Callable[[Measures], Quantity | None]
Values: TypeAlias = Sequence[float | None]
Points: TypeAlias = Callable[[Measures, Sequence[Period]], Values]
"""A number for each point of a period."""


class Figure(NamedTuple):
    """``about`` says what the title means, "" where that says so itself. ``measure`` takes it of a
    period, ``points`` of each point of one; a column has neither. ``key`` is what it is called in
    JSON and in goals; ``own`` takes its place where one person is chosen. For
    ``less_is_better`` and ``listed`` see `Tile`; ``is_mean``: beside a person stands the mean of
    all posters, as of every count.
    """

    name: str
    title: str
    about: str = ""
    kind: Kind = Kind.COUNT
    measure: Measure = lambda _: None
    points: Points = lambda *_: ()
    key: str = ""
    own: "Figure | None" = None
    less_is_better: bool = False
    is_mean: bool = False
    listed: str = ""

    def shown(self, person: str) -> "Figure":
        """What is said of it, with a person or without one."""
        return self.own if person and self.own else self

    def column(self, key: str = "", *, bar: bool = False) -> Column:
        """It as a column, under its name or under a key."""
        return Column(
            key or self.key,
            self.title,
            self.kind,
            bar=bar,
            about=self.about,
            listed=self.listed,
        )


FIGURES: Final[dict[str, Figure]] = {}
"""All of them by their names."""


def _add(figure: Figure) -> Figure:
    assert figure.name not in FIGURES, figure.name
    FIGURES[figure.name] = figure = figure._replace(key=figure.key or figure.name)
    return figure


def _column(
    name: str,
    title: str = "",
    about: str = "",
    kind: Kind = Kind.COUNT,
    *,
    key: str = "",
    listed: str = "",
) -> Figure:
    title = title or name.replace("_", " ").capitalize()
    return _add(Figure(name, title, about, kind, key=key, listed=listed))


class _Details(TypedDict, total=False):
    """Further fields of a `Figure`."""

    kind: Kind
    key: str
    own: Figure
    less_is_better: bool
    is_mean: bool
    listed: str


def _figure(
    name: str,
    title: str,
    about: str,
    measure: Measure,
    points: Points = lambda *_: (),
    **details: Unpack[_Details],
) -> Figure:
    return _add(Figure(name, title, about, measure=measure, points=points, **details))


def counted(figure: pl.Expr) -> Points:
    """A figure over the messages of each point; 0 without any."""
    return lambda of, shown_points: by_point(of.messages, shown_points, figure)


# ── what rows are about ───────────────────────────────────────────────────────────────────────────

_column("person", kind=Kind.PERSON)
_column("author", kind=Kind.PERSON)
_column("from", kind=Kind.PERSON)
_column("to", kind=Kind.PERSON)
BY: Final = _column("by", kind=Kind.PERSON)
_column("channel", kind=Kind.CHANNEL)
_column("emoji", kind=Kind.EMOJI)
_column("step", kind=Kind.TEXT)
WHEN: Final = _column("when", kind=Kind.DATE)
_column("message", kind=Kind.MESSAGE)
FIRST_MESSAGE: Final = _column("first_message", kind=Kind.MESSAGE)
AT: Final = _column("at", "When", kind=Kind.MESSAGE)
LAST_MESSAGE: Final = _column("last_message", kind=Kind.MESSAGE)
WHEN_JOINED: Final = _column("when_joined", "Joined", kind=Kind.MESSAGE)
_column("date", kind=Kind.DATE)
BEGAN: Final = _column("week", kind=Kind.DATE)
_column("month", "Joined in the four weeks from", kind=Kind.DATE)
_column("weekday", kind=Kind.TEXT)
_column("day", kind=Kind.TEXT)
_column("hour", kind=Kind.TEXT)
_column("figure", kind=Kind.TEXT)

# ── how much ──────────────────────────────────────────────────────────────────────────────────────


def _statistic(name: str) -> Measure:
    """What `statistics` of the document has."""
    return lambda of: of.statistics[name]


def _first_time_posters(of: Measures) -> int | None:
    """Unknown at the beginning of history, where everybody posts for the first time: but of those
    who joined meanwhile.
    """
    return of.newcomers.height if of.knows_newcomers else None


MESSAGES: Final = _figure(
    "messages",
    "Messages",
    "Messages that people wrote, replies in threads included.",
    _statistic("messages"),
    counted(pl.len()),
    listed="messages/",
)
WORDS: Final = _figure(
    "words",
    "Words",
    "Words in these messages.",
    _statistic("words"),
    counted(pl.col("word_count").sum()),
    listed="messages/",
)
_column("posters", about="People who wrote at least one message.", listed="people/people")
POSTERS: Final = _figure(
    "people_who_posted",
    "People who posted",
    "People who wrote at least one message.",
    _statistic("posters"),
    counted(pl.col("slack_uid").n_unique()),
    key="posters",
    listed="people/people",
)
WORDS_PER_MESSAGE: Final = _figure(
    "words_per_message",
    "Words per message",
    "Words divided by messages.",
    _statistic("words per message"),
    kind=Kind.NUMBER,
)
WORDS_PER_POSTER: Final = _figure(
    "words_per_poster",
    "Words per person",
    "Words divided by the people who posted.",
    _statistic("words per poster"),
    kind=Kind.NUMBER,
)
MEDIAN_MESSAGES: Final = _figure(
    "median",
    "Median messages per person",
    "Half of the people who posted wrote at least so many messages.",
    _statistic("median messages"),
)
POSTING: Final = _figure(
    "posting",
    "Members who posted",
    "The share of the members: people of the workspace, without bots and guests from outside.",
    lambda of: percent(of.volume.member_posters, of.volume.members) if of.volume.members else None,
    kind=Kind.PERCENT,
)
TOP_TEN: Final = _figure(
    "top_ten",
    "Top 10's share",
    "The share of all messages that the ten most active people wrote.",
    _statistic("topten messages"),
    kind=Kind.PERCENT,
    listed="people/people",
)
HALF: Final = _figure(
    "half",
    "People who wrote half",
    "The fewest people whose messages are half of all or more.",
    _statistic("50percent of messages"),
    listed="people/people",
)
SHARE_OF_MESSAGES: Final = _figure(
    "share_of_messages",
    "Share of messages",
    "The share of all messages in this selection.",
    lambda of: percent(of.volume.messages, of.whole.volume.messages),
    kind=Kind.PERCENT,
    is_mean=True,
)
_column("share", SHARE_OF_MESSAGES.title, SHARE_OF_MESSAGES.about, Kind.PERCENT)
_column(
    "cumulative",
    about="The share of messages of this person and of all above together.",
    kind=Kind.PERCENT,
)
FIRST_TIME: Final = _figure(
    "first_time",
    "First-time posters",
    "People whose first known message is in this period.",
    _first_time_posters,
    listed="newcomers/first_time",
)
_column("rank", about="Place by number of messages; 1 is the most.")
_column("change", "Change", "Messages compared with before.", Kind.CHANGE)
CHANGE: Final = _column("change_of_it", "Change", "Compared with before.", Kind.CHANGE)

# ── channels ──────────────────────────────────────────────────────────────────────────────────────


def _largest(of: Measures) -> Quantity | None:
    sizes = of.channel_frame["m"].to_list()
    return percent(max(sizes), sum(sizes)) if sizes else None


def _moves(subtypes: frozenset[str]) -> tuple[Measure, Points]:
    """How often people joined or left a channel, in all and at each point."""
    which = pl.col("subtype").is_in(subtypes)
    return (
        lambda of: of.period_messages.moves.filter(which).height,
        lambda of, shown_points: by_point(of.period_messages.moves, shown_points, which.sum()),
    )


CHANNELS: Final = _figure(
    "channels",
    "Active channels",
    "Channels with at least one message.",
    lambda of: of.channel_frame.height,
    listed="channels/channels",
)
# Of everybody the channels they write in, summed up: beside a person stands the mean of it.
PLACES: Final = _figure(
    "places",
    CHANNELS.title,
    CHANNELS.about,
    lambda of: of.channel_authors.height,
    key="channels",
    listed="channels/channels",
)
LARGEST: Final = _figure(
    "largest",
    "Largest channel's share",
    "The share of all messages in the channel with the most.",
    _largest,
    kind=Kind.PERCENT,
    listed="channels/channels",
)
IN_PRIVATE: Final = _column(
    "in_private",
    "In private channels",
    "The share of all messages that are in private channels.",
    Kind.PERCENT,
    key="private",
)
"""Measured by what is known of channels."""
PEOPLE_THERE: Final = _column(
    "people_there",
    "People",
    "People who wrote at least one message there.",
    listed="people/people",
)
SHARE_OF_CHANNEL: Final = _column(
    "share_of_channel",
    "Share of the channel",
    "The share of the channel's messages that this person wrote.",
    Kind.PERCENT,
)
_column("channel_messages", "Channel's messages", "Messages that everybody wrote in the channel.")
_column("channel_words", "Channel's words", "Words that everybody wrote in the channel.")
_column("new", about="Created in this period.", kind=Kind.TEXT)
_column("private", about="Only its members can read it.", kind=Kind.TEXT)
_column(
    "members",
    about="Members when the list of channels was last read.",
    listed="channel/members",
)
CHANNELS_JOINED: Final = _column(
    "channels_joined", about="Channels that they joined in this period."
)
FILES: Final = _figure(
    "files",
    "Files",
    "Files posted with these messages.",
    lambda of: int(of.messages["file_count"].sum()),
    listed="messages/files",
)
JOINS: Final = _figure(
    "joins",
    "Joins",
    "How often people joined a channel, as far as Slack posted a message about it.",
    *_moves(JOINED),
    listed="messages/joined",
)
LEAVES: Final = _figure(
    "leaves",
    "Leaves",
    "How often people left a channel, as far as Slack posted a message about it.",
    *_moves(LEFT),
    listed="messages/left",
)
MOVES: Final = _column(
    "moves",
    "Joins and leaves",
    "How often people joined or left a channel, as far as Slack posted a message about it.",
)

# ── when ──────────────────────────────────────────────────────────────────────────────────────────

WEEK_HOURS: Final = _column(
    "week_hours",
    "Messages by weekday and hour",
    "Each square is one hour of one weekday, by the authors' local time: the stronger its colour,"
    " the more messages.",
)


# ── threads ───────────────────────────────────────────────────────────────────────────────────────


def _unanswered_share(of: Measures) -> Quantity | None:
    top_level = how_many(of.messages, ~pl.col("is_reply"))
    return percent(of.unanswered.height, top_level) if top_level else None


THREADS_STARTED: Final = _figure(
    "threads_started",
    "Threads started",
    "Messages of this period that have replies.",
    lambda of: how_many(of.messages, STARTS_THREAD),
    listed="messages/threads",
)
REPLY_SHARE: Final = _figure(
    "reply_share",
    "% replies",
    "The share of messages that are replies in a thread.",
    lambda of: percent(how_many(of.messages, pl.col("is_reply")), of.messages.height),
    kind=Kind.PERCENT,
    key="replies",
    listed="messages/replies",
)
_column("replies", about="Replies in threads that the other person started.")
REPLIES_IN_THREAD: Final = _column(
    "replies_in_thread", "Number of replies", "Replies in the thread, whoever wrote them."
)
FIRST_REPLY: Final = _figure(
    "first_reply",
    "Median time to first reply",
    "Half of the threads that were answered had a reply by somebody else within this time.",
    lambda of: of.wait(50),
    lambda of, shown_points: by_point(of.waits, shown_points, nearest_rank(50), absent=None),
    kind=Kind.SECONDS,
    less_is_better=True,
    listed="messages/answered",
)
FIRST_REPLY_P90: Final = _figure(
    "first_reply_p90",
    "90% answered within",
    "Of the threads that were answered, nine in ten had a reply by somebody else within this time.",
    lambda of: of.wait(90),
    kind=Kind.SECONDS,
    less_is_better=True,
    listed="messages/answered",
)
_column("seconds", kind=Kind.SECONDS)
WAITS: Final = _column(
    "waits", "Time to first reply", "Threads by how long the first reply by somebody else took."
)
_column("threads", listed="messages/")
UNANSWERED: Final = _figure(
    "unanswered",
    "Unanswered",
    "Messages, not replies, that nobody else replied or reacted to.",
    lambda of: of.unanswered.height,
    less_is_better=True,
    listed="todo/unanswered",
)
UNANSWERED_SHARE: Final = _figure(
    "unanswered_share",
    "% unanswered",
    "The share of messages, not counting replies, that nobody else replied or reacted to.",
    _unanswered_share,
    kind=Kind.PERCENT,
    less_is_better=True,
    listed="todo/unanswered",
)
OPEN_QUESTIONS: Final = _figure(
    "open_questions",
    "Unanswered questions",
    "Questions that nobody answered, in a thread or in the talk after them.",
    lambda of: of.open_questions,
    less_is_better=True,
    listed="todo/queue",
)
ANSWERS_RECEIVED: Final = _column(
    "answers",
    "Replies to their threads",
    "Replies by others in threads that this person started.",
    listed="messages/answers",
)
_column("thread_messages", ANSWERS_RECEIVED.title, ANSWERS_RECEIVED.about)
ANSWERS: Final = _figure(
    "replies_to_others",
    "Replies to others",
    "Replies in threads that somebody else started.",
    lambda of: of.answers.height,
    key="answers",
    own=ANSWERS_RECEIVED,
    listed="messages/answers",
)
ANSWERS_GIVEN: Final = _figure(
    "answers_given",
    ANSWERS.title,
    ANSWERS.about,
    lambda of: of.period_messages.responses.height,
    listed="messages/given",
)

# ── reactions ─────────────────────────────────────────────────────────────────────────────────────


def reactions(of: Measures) -> int:
    """Received, by the counts of messages."""
    return int(of.messages[REACTED].sum())


def unlisted_notes(of: Measures) -> tuple[str, ...]:
    """The note that Slack does not list everybody who reacted, where that is so."""
    missing = of.unlisted_reactions
    return (f"Slack does not say who gave {missing:,} of the reactions.",) if missing else ()


def at_least(figure: Figure, of: Measures) -> Figure:
    """A figure by emoji or by person, called what it then is: at least so many."""
    if not of.unlisted_reactions:
        return figure
    return figure._replace(title=f"{figure.title} (at least)")


REACTIONS_RECEIVED: Final = _column(
    "reactions_received",
    about="Reactions to this person's messages.",
    listed="messages/reacted",
)
REACTIONS: Final = _figure(
    "reactions",
    "Reactions",
    "Reactions to messages of this period.",
    reactions,
    counted(pl.col(REACTED).sum()),
    own=REACTIONS_RECEIVED,
    listed="messages/reacted",
)
REACTIONS_OF_PAIR: Final = _column(
    "reactions_of_pair", REACTIONS.title, REACTIONS.about, key="reactions"
)
REACTIONS_GIVEN: Final = _figure(
    "reactions_given",
    "Reactions given",
    "Reactions by this person to messages of this period.",
    lambda of: of.given.height,
    listed="reactions/gives",
)
REACTION_RATE: Final = _figure(
    "reaction_rate",
    "Reactions per 1,000 words",
    "Reactions to messages, for every 1,000 words written.",
    lambda of: ratio(1000 * reactions(of), of.volume.words),
    kind=Kind.NUMBER,
    key="per_thousand_words",
)
REACTED_TO: Final = _figure(
    "messages_reacted_to",
    "Messages with reactions",
    "The share of messages with at least one reaction.",
    lambda of: percent(of.messages.filter(pl.col(REACTED) > 0).height, of.messages.height),
    kind=Kind.PERCENT,
    key="reacted_to",
    listed="messages/reacted",
)
DIFFERENT_EMOJI: Final = _figure(
    "different_emoji",
    "Different emoji",
    "How many different emoji were used as reactions.",
    lambda of: of.period_messages.reactions["emoji"].n_unique(),
    key="emoji",
    listed="reactions/emoji",
)
# Of each person the different emoji they get, summed up: beside one stands the mean of it.
DIFFERENT_EMOJI_EACH: Final = _figure(
    "different_emoji_each",
    DIFFERENT_EMOJI.title,
    DIFFERENT_EMOJI.about,
    lambda of: of.period_messages.reactions.select("slack_uid", "emoji").n_unique(),
    key="emoji",
)
TIMES_USED: Final = _column(
    "times_used",
    "Times",
    "How often this emoji was used as a reaction.",
    listed="messages/",
)
SHARE_OF_REACTIONS: Final = _column(
    "share_of_reactions", "Share", "The share of all reactions.", Kind.PERCENT
)
_column("per_thousand_words", "Per 1,000 words", "Uses for every 1,000 words written.", Kind.NUMBER)
EMOJI_RATE: Final = _column("emoji_rate", "Per 1000 words", kind=Kind.RATE)
_column("times")
_column("rphw", "Reactions per 100 words", kind=Kind.NUMBER)

# ── interactions ──────────────────────────────────────────────────────────────────────────────────


def _ends(of: Measures) -> int:
    return pl.concat([of.edges["one"], of.edges["other"]]).n_unique()


def _pairs(of: Measures) -> int:
    return of.directions.len()


def _mutual(of: Measures) -> Quantity | None:
    return percent(int((of.directions > 1).sum()), _pairs(of)) if _pairs(of) else None


def _partners(of: Measures) -> int:
    """With how many the person interacts; without one, of everybody summed up."""
    if not of.person:
        return 2 * _pairs(of)
    done, received = (
        of.edges.filter(pl.col(end) == of.person)[opposite]
        for end, opposite in (("one", "other"), ("other", "one"))
    )
    return pl.concat([done, received]).n_unique()


def _side(end: str) -> Measure:
    """How often the person is at that end; without one, anybody."""

    def measure(of: Measures) -> int:
        edges = of.edges.filter(pl.col(end) == of.person) if of.person else of.edges
        return int(edges["n"].sum())

    return measure


INTERACTING: Final = _figure(
    "interacting",
    "People who interacted",
    "People with at least one mention, reply or reaction, either way.",
    _ends,
    key="people",
    listed="network/people",
)
PARTNERS: Final = _figure(
    "partners",
    "People they interact with",
    "People with an interaction with this person, in any direction.",
    _partners,
    key="people",
    listed="people/partners",
)
PAIRS: Final = _figure("pairs", "Pairs", "Pairs of people with at least one interaction.", _pairs)
MUTUAL: Final = _figure(
    "mutual",
    "Mutual pairs",
    "The share of pairs in which each interacted with the other.",
    _mutual,
    kind=Kind.PERCENT,
)
INTERACTIONS: Final = _figure(
    "interactions",
    "Interactions",
    "Mentions, replies in threads and reactions, from one person to another.",
    _side("one"),
    listed="network/edges",
)
DONE: Final = _figure(
    "done", "To others", "Mentions, replies and reactions by this person.", _side("one")
)
RECEIVED: Final = _figure(
    "received",
    "From others",
    "Mentions of this person, and replies and reactions to them.",
    _side("other"),
)
NETWORK: Final = _column(
    "network",
    "Who interacts with whom",
    "Each dot is a person, each line stands for mentions, replies and reactions: the more, the"
    " larger the dot and the thicker the line. Only the strongest are drawn; the tables have more.",
)
_column("total", about="Mentions, replies and reactions together.")
TOTAL_OF_PERSON: Final = _column(
    "total_of_person",
    "Total",
    "Mentions, replies and reactions by this person and to them.",
    key="total",
    listed="person/partners",
)
_column("mentions")
_column("reactions_from")
_column("reacted_to", "Reactions to")
_column("thread_responders", "Replies from", "Replies by them in threads that this person started.")
_column(
    "author_thread_responded", "Replies to", "Replies by this person in threads that they started."
)
_column("mentioned_you", "Mentioned by")
_column("you_mentioned", "Mentions of")

# ── newcomers ─────────────────────────────────────────────────────────────────────────────────────


def _active_weeks(of: Measures) -> int:
    """Weeks in which the person posted; without one, of everybody summed up."""
    return with_point(of.messages, weeks(of.period)).select("slack_uid", "point").n_unique()


def _stayed(of: Measures) -> Quantity | None:
    """Of the last week against the one before it, as in the table of weeks."""
    week = of.period.ending_with(WEEK)
    now, then = (set(of.posted(days)) for days in (week, week.previous))
    return percent(len(now & then), len(then)) if then else None


def _weekly(of: Measures) -> int:
    return of.posted(of.period.ending_with(WEEK)).len()


def _monthly(of: Measures) -> int:
    return of.posted(of.period.ending_with(MONTH)).len()


def _stickiness(of: Measures) -> Quantity | None:
    monthly = _monthly(of)
    return percent(_weekly(of), monthly) if monthly else None


STAYED: Final = _figure(
    "stayed",
    "Retention",
    "The share of the previous week's posters who posted again in the last week.",
    _stayed,
    kind=Kind.PERCENT,
)
WEEKLY: Final = _figure(
    "weekly_posters",
    "Weekly posters",
    "People who posted in the last 7 days of the period.",
    _weekly,
    key="weekly",
    listed="people/people/7",
)
MONTHLY: Final = _figure(
    "monthly_posters",
    "Monthly posters",
    "People who posted in the last 28 days of the period.",
    _monthly,
    key="monthly",
    listed="people/people/28",
)
STICKINESS: Final = _figure(
    "weekly_of_monthly",
    "Stickiness (weekly / monthly posters)",
    "The share of the monthly posters who posted in the last week. The higher, the more often"
    " people post.",
    _stickiness,
    kind=Kind.PERCENT,
)
WEEKS_ACTIVE: Final = _figure(
    "weeks_active", "Active weeks", "Weeks in which this person posted.", _active_weeks
)
RETENTION: Final = _column(
    "rate",
    "Weekly retention",
    "The share of the previous week's posters who posted again.",
    Kind.PERCENT,
)
RETAINED: Final = _column(
    "both", "Retained", "Posted in this week and in the week before.", listed="group/"
)
NEW_IN_WEEK: Final = _column(
    "new_in_week",
    "First-time",
    "Posted for the first time ever known.",
    key="new",
    listed="newcomers/first_time",
)
RETURNING: Final = _column(
    "returning",
    about="Posted in this week, not in the week before, but earlier.",
    listed="group/",
)
LAPSED: Final = _column(
    "lapsed", about="Posted in the week before, but not in this week.", listed="todo/lapsed"
)
IN_WEEK: Final = _column(
    "weekly", "In the week", "People who posted in these 7 days.", listed="people/people"
)
IN_FOUR_WEEKS: Final = _column(
    "monthly",
    "In four weeks",
    "People who posted in the 28 days that end with this week.",
    listed="people/people/28",
)
MEMBERS_OF_ALL: Final = _column(
    "members_of_all",
    "Members of the workspace",
    "People of the workspace whose account is active, when last counted.",
    key="members",
)
COHORTS: Final = _column(
    "cohorts",
    "Newcomers still posting",
    "Each row is the people whose first message was in one week, which is their week 1. The"
    " stronger the colour, the larger the share of them who posted in a week.",
    Kind.PERCENT,
)
_column(
    "newcomers",
    about="People whose first known message is in that week.",
    listed="newcomers/first_time",
)
WAYS_IN: Final = _column(
    "ways_in",
    "From joining to writing regularly",
    "Of the people who joined their first channel in four weeks: how many wrote a message since,"
    " how many of these got a reply or a reaction by somebody else, and how many wrote in at least"
    " three different weeks. Who joined lately had less time.",
)
_column("people", about="How many of them came as far as this step.")
_column(
    "joined",
    "People who joined",
    "They joined their first channel then, as far as Slack posted a message about it.",
    listed="group/",
)
_column(
    "posted",
    "Of them posted",
    "Of these, those who have written a message since.",
    listed="group/",
)
OF_THEM_ANSWERED: Final = _column(
    "of_them_answered",
    "Of them answered",
    "Of these, those who got a reply or a reaction by somebody else.",
    listed="group/",
)
_column(
    "regular",
    "Of them regular",
    "Of these, those who have written in at least three different weeks.",
    listed="group/",
)
_column("posted_share", "% posted", "The share of those who joined.", Kind.PERCENT)
_column("answered_share", "% answered", "The share of those who joined.", Kind.PERCENT)
_column("regular_share", "% regular", "The share of those who joined.", Kind.PERCENT)

# ── to do ─────────────────────────────────────────────────────────────────────────────────────────

_column(
    "answered",
    "Messages answered",
    "Messages that somebody else replied or reacted to.",
    listed="messages/noticed",
)
_column(
    "messages_before",
    "Messages in the period before",
    "How much this person wrote before they stopped.",
)
_column("group", "Who", kind=Kind.TEXT)
_column(
    "first_answers",
    "First answers given",
    "Threads in which the first reply by somebody else was theirs.",
)
_column(
    "first_answer",
    "Median first answer",
    "Half of the first answers that they gave came within this time.",
    Kind.SECONDS,
)
_column(
    "questions_left",
    "Unanswered questions asked",
    "Questions of theirs that nobody answered, in a thread or in the talk after them.",
)
_column("account", kind=Kind.TEXT)
_column("action", "What to do", kind=Kind.TEXT)
_column("reason", "Why", kind=Kind.TEXT)
SINCE: Final = _column("since", kind=Kind.DATE)
_column("state", "Marked as", kind=Kind.TEXT)
_column("assignee", "Assigned to", kind=Kind.PERSON)
_column("assigned_by", kind=Kind.PERSON)
_column("item", "Mark as", kind=Kind.ITEM)
