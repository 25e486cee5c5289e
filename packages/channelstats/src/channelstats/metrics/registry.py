"""Every metric and every other column that a page or a report shows, by its name.

It is declared here once: what it is called, what that means, how it is written, and how it is
counted. Two things that mean something else have two names, even where they go out under the same
key.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Final, TypedDict, Unpack

import polars as pl

from channelstats.facts.facts import CHANNEL, Slice
from channelstats.facts.interactions import interactions
from channelstats.facts.periods import MONTH, WEEK, Period, points, weeks, with_point
from channelstats.metrics.metric import Measure, Metric
from channelstats.metrics.quantities import Formula, Quantity, percent, percent_of
from channelstats.metrics.query import ALL, SO_FAR, aggregated
from channelstats.metrics.table import Kind
from channelstats.metrics.volume import half, median, share_of_top, volume
from channelstats.tables.columns import is_among

METRICS: Final[dict[str, Metric]] = {}
"""All of them by their names."""


def _add(metric: Metric) -> Metric:
    assert metric.name not in METRICS, metric.name
    METRICS[metric.name] = metric = metric._replace(key=metric.key or metric.name)
    return metric


def _column(
    name: str,
    title: str = "",
    about: str = "",
    kind: Kind = Kind.COUNT,
    *,
    formula: Formula | str | None = None,
    key: str = "",
    listed: str = "",
) -> Metric:
    title = title or name.replace("_", " ").capitalize()
    formula = Formula(formula) if isinstance(formula, str) else formula
    return _add(Metric(name, title, about, kind, formula, key=key, listed=listed))


class _Details(TypedDict, total=False):
    """Further fields of a `Metric`."""

    kind: Kind
    key: str
    by_point: Callable[[Slice], list[float | None]]
    own: Metric
    less_is_better: bool
    is_mean: bool
    listed: str


def _metric(
    name: str,
    title: str,
    about: str,
    counted: Formula | str | Measure,
    **details: Unpack[_Details],
) -> Metric:
    """One that is a formula, or one aggregate by its name, or is measured of a whole choice."""
    formula = Formula(counted) if isinstance(counted, str) else counted
    if isinstance(formula, Formula):
        return _add(Metric(name, title, about, formula=formula, **details))
    return _add(Metric(name, title, about, measure=formula, **details))


# ── what rows are about ───────────────────────────────────────────────────────────────────────────

_column("person", kind=Kind.PERSON)
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

# ── how much ──────────────────────────────────────────────────────────────────────────────────────


def _first_time_posters(part: Slice) -> int | None:
    """Unknown at the beginning of history, where everybody posts for the first time: but of those
    who joined meanwhile.
    """
    return part.newcomers.height if part.knows_newcomers else None


MESSAGES: Final = _metric(
    "messages",
    "Messages",
    "Messages that people wrote, replies in threads included.",
    "messages",
    listed="messages/",
)
WORDS: Final = _metric("words", "Words", "Words in these messages.", "words", listed="messages/")
_column(
    "posters",
    about="People who wrote at least one message.",
    listed="people/people",
    formula="posters",
)
POSTERS: Final = _metric(
    "people_who_posted",
    "People who posted",
    "People who wrote at least one message.",
    "posters",
    key="posters",
    listed="people/people",
)
WORDS_PER_MESSAGE: Final = _metric(
    "words_per_message",
    "Words per message",
    "Words divided by messages.",
    Formula("words", "messages"),
    kind=Kind.NUMBER,
)
WORDS_PER_POSTER: Final = _metric(
    "words_per_poster",
    "Words per person",
    "Words divided by the people who posted.",
    Formula("words", "posters"),
    kind=Kind.NUMBER,
)
MEDIAN_MESSAGES: Final = _metric(
    "median",
    "Median messages per person",
    "Half of the people who posted wrote at least this many messages.",
    lambda part: median(volume(part).messages_each),
)
POSTING: Final = _metric(
    "posting",
    "Members who posted",
    "The share of the members: people of the workspace, without bots and guests from outside.",
    lambda part: volume(part).share_of_members,
    kind=Kind.PERCENT,
)
TOP_TEN: Final = _metric(
    "top_ten",
    "Top 10's share",
    "The share of all messages that the ten most active people wrote.",
    lambda part: share_of_top(volume(part).messages_each),
    kind=Kind.PERCENT,
    listed="people/people",
)
HALF: Final = _metric(
    "half",
    "People who wrote half",
    "The fewest people whose messages are half of all or more.",
    lambda part: half(volume(part).messages_each),
    listed="people/people",
)
SHARE_OF_MESSAGES: Final = _metric(
    "share_of_messages",
    "Share of messages",
    "The share of all messages in this selection.",
    lambda part: percent(part.messages.height, part.whole.messages.height),
    kind=Kind.PERCENT,
    is_mean=True,
)
_column(
    "share",
    SHARE_OF_MESSAGES.title,
    SHARE_OF_MESSAGES.about,
    Kind.PERCENT,
    formula=percent_of("messages", f"{ALL}messages"),
)
_column(
    "cumulative",
    about="The share of messages of this person and of all above together.",
    kind=Kind.PERCENT,
    formula=percent_of(f"{SO_FAR}messages", f"{ALL}messages"),
)
FIRST_TIME: Final = _metric(
    "first_time",
    "First-time posters",
    "People whose first known message is in this period.",
    _first_time_posters,
    listed="newcomers/first_time",
)
_column("rank", about="Place by number of messages; 1 is the most.", formula="place")
_column("change", "Change", "Messages compared with before.", Kind.CHANGE, formula="messages")
CHANGE: Final = _column("change_of_it", "Change", "Compared with before.", Kind.CHANGE)

# ── channels ──────────────────────────────────────────────────────────────────────────────────────


def _largest(part: Slice) -> Quantity | None:
    sizes = aggregated(part, ("channel",), ("messages",))["messages"].to_list()
    return percent(max(sizes), sum(sizes)) if sizes else None


CHANNELS: Final = _metric(
    "channels",
    "Active channels",
    "Channels with at least one message.",
    "channels",
    listed="channels/channels",
)
# Of everybody the channels they write in, summed up: beside a person stands the mean of it.
PLACES: Final = _metric(
    "places", CHANNELS.title, CHANNELS.about, "places", key="channels", listed="channels/channels"
)
LARGEST: Final = _metric(
    "largest",
    "Largest channel's share",
    "The share of all messages in the channel with the most.",
    _largest,
    kind=Kind.PERCENT,
    listed="channels/channels",
)


def _in_private(part: Slice) -> Quantity | None:
    channels = part.facts.inputs.channels.items()
    private = [cid for cid, channel in channels if channel.is_private]
    inside = part.messages.filter(pl.col(CHANNEL).is_in(private)).height
    return percent(inside, part.messages.height) if part.messages.height else None


IN_PRIVATE: Final = _metric(
    "in_private",
    "In private channels",
    "The share of all messages that are in private channels.",
    _in_private,
    kind=Kind.PERCENT,
    key="private",
)
PEOPLE_THERE: Final = _column(
    "people_there",
    "People",
    "People who wrote at least one message there.",
    listed="people/people",
    formula="posters",
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
    "members", about="Members when the list of channels was last read.", listed="channel/members"
)
MEMBERS_AT_END: Final = _column(
    "members_at_end",
    "Members",
    "Members at the end of this period, as they were last counted by then; compared with its"
    " beginning.",
    key="members",
    listed="channel/members",
)
CHANNELS_JOINED: Final = _column(
    "channels_joined", about="Channels that they joined in this period."
)
FILES: Final = _metric(
    "files", "Files", "Files posted with these messages.", "files", listed="messages/files"
)
JOINS: Final = _metric(
    "joins",
    "Joins",
    "How often people joined a channel, as far as Slack posted a message about it.",
    "joins",
    listed="messages/joined",
)
LEAVES: Final = _metric(
    "leaves",
    "Leaves",
    "How often people left a channel, as far as Slack posted a message about it.",
    "leaves",
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


THREADS_STARTED: Final = _metric(
    "threads_started",
    "Threads started",
    "Messages of this period that have replies.",
    "threads_started",
    listed="messages/threads",
)
REPLY_SHARE: Final = _metric(
    "reply_share",
    "% replies",
    "The share of messages that are replies in a thread.",
    percent_of("replies", "messages"),
    kind=Kind.PERCENT,
    key="replies",
    listed="messages/replies",
)
_column("replies", about="Replies in threads that the other person started.")
REPLIES_IN_THREAD: Final = _column(
    "replies_in_thread", "Number of replies", "Replies in the thread, whoever wrote them."
)
FIRST_REPLY: Final = _metric(
    "first_reply",
    "Median time to first reply",
    "Half of the threads that were answered had a reply by somebody else within this time.",
    "first_reply",
    kind=Kind.SECONDS,
    less_is_better=True,
    listed="messages/answered",
)
FIRST_REPLY_P90: Final = _metric(
    "first_reply_p90",
    "90% answered within",
    "Of the threads that were answered, nine in ten had a reply by somebody else within this time.",
    "first_reply_p90",
    kind=Kind.SECONDS,
    less_is_better=True,
    listed="messages/answered",
)
_column("seconds", kind=Kind.SECONDS)
WAITS: Final = _column(
    "waits", "Time to first reply", "Threads by how long the first reply by somebody else took."
)
_column("threads", listed="messages/")
UNANSWERED: Final = _metric(
    "unanswered",
    "Unanswered",
    "Messages, not replies, that nobody else replied or reacted to.",
    "unanswered",
    less_is_better=True,
    listed="todo/unanswered",
)
UNANSWERED_SHARE: Final = _metric(
    "unanswered_share",
    "% unanswered",
    "The share of messages, not counting replies, that nobody else replied or reacted to.",
    percent_of("unanswered", "top_level", optional=True),
    kind=Kind.PERCENT,
    less_is_better=True,
    listed="todo/unanswered",
)


def _rows_by_point(part: Slice, rows: pl.DataFrame) -> Iterator[int]:
    """How many of these rows are of each point of the period."""
    shown = points(part.period)
    numbers = Counter(with_point(rows, shown)["point"])
    return (numbers[at] for at in range(len(shown)))


def _open_questions(part: Slice) -> int | None:
    return part.questions_left.height if part.follows_all_questions else None


def _open_questions_by_point(part: Slice) -> list[float | None]:
    if not part.follows_all_questions:
        return [None] * len(points(part.period))
    return [*_rows_by_point(part, part.questions_left)]


OPEN_QUESTIONS: Final = _metric(
    "open_questions",
    "Unanswered questions",
    "Questions that nobody answered, in a thread or in the talk after them, and that still can be.",
    _open_questions,
    by_point=_open_questions_by_point,
    less_is_better=True,
    listed="todo/queue",
)
ANSWERS_RECEIVED: Final = _column(
    "answers",
    "Replies to their threads",
    "Replies by others in threads that this person started.",
    listed="messages/answers",
    formula="answers",
)
ANSWERS: Final = _metric(
    "replies_to_others",
    "Replies to others",
    "Replies in threads that somebody else started.",
    "answers",
    key="answers",
    own=ANSWERS_RECEIVED,
    listed="messages/answers",
)
ANSWERS_GIVEN: Final = _metric(
    "answers_given", ANSWERS.title, ANSWERS.about, "answers_given", listed="messages/given"
)

# ── reactions ─────────────────────────────────────────────────────────────────────────────────────


def unlisted_notes(part: Slice) -> tuple[str, ...]:
    """The note that Slack does not list everybody who reacted, where that is so."""
    missing = part.unlisted_reactions
    return (f"Slack does not say who gave {missing:,} of the reactions.",) if missing else ()


def at_least(metric: Metric, part: Slice) -> Metric:
    """A metric by emoji or by person, called what it then is: at least this many."""
    if not part.unlisted_reactions:
        return metric
    return metric._replace(title=f"{metric.title} (at least)")


REACTIONS_RECEIVED: Final = _column(
    "reactions_received",
    about="Reactions to this person's messages.",
    listed="messages/reacted",
    formula="reactions",
)
REACTIONS: Final = _metric(
    "reactions",
    "Reactions",
    "Reactions to messages of this period.",
    "reactions",
    own=REACTIONS_RECEIVED,
    listed="messages/reacted",
)
REACTIONS_OF_PAIR: Final = _column(
    "reactions_of_pair", REACTIONS.title, REACTIONS.about, key="reactions"
)
REACTIONS_GIVEN: Final = _metric(
    "reactions_given",
    "Reactions given",
    "Reactions by this person to messages of this period.",
    "reactions_given",
    listed="reactions/gives",
)
REACTION_RATE: Final = _metric(
    "reaction_rate",
    "Reactions per 1,000 words",
    "Reactions to messages, for every 1,000 words written.",
    Formula("reactions", "words", 1000),
    kind=Kind.NUMBER,
    key="per_thousand_words",
)
REACTED_TO: Final = _metric(
    "messages_reacted_to",
    "Messages with reactions",
    "The share of messages with at least one reaction.",
    percent_of("reacted_to", "messages"),
    kind=Kind.PERCENT,
    key="reacted_to",
    listed="messages/reacted",
)
DIFFERENT_EMOJI: Final = _metric(
    "different_emoji",
    "Different emoji",
    "How many different emoji were used as reactions.",
    "emoji",
    key="emoji",
    listed="reactions/emoji",
)
# Of each person the different emoji they get, summed up: beside one stands the mean of it.
DIFFERENT_EMOJI_EACH: Final = _metric(
    "different_emoji_each", DIFFERENT_EMOJI.title, DIFFERENT_EMOJI.about, "emoji_each", key="emoji"
)
TIMES_USED: Final = _column(
    "times_used",
    "Times",
    "How often this emoji was used as a reaction.",
    listed="messages/",
    formula="times_used",
)
SHARE_OF_REACTIONS: Final = _column(
    "share_of_reactions",
    "Share",
    "The share of all reactions.",
    Kind.PERCENT,
    formula=percent_of("times_used", f"{ALL}times_used"),
)
_column("per_thousand_words", "Per 1,000 words", "Uses for every 1,000 words written.", Kind.NUMBER)

# ── interactions ──────────────────────────────────────────────────────────────────────────────────


def _edges(part: Slice) -> pl.DataFrame:
    return interactions(part).edges


def _ends(part: Slice) -> int:
    return pl.concat([_edges(part)["one"], _edges(part)["other"]]).n_unique()


def _pairs(part: Slice) -> int:
    return interactions(part).pairs


def _mutual(part: Slice) -> Quantity | None:
    pairs = _pairs(part)
    return percent(_edges(part).height - pairs, pairs) if pairs else None


def _partners(part: Slice) -> int:
    """With how many the person interacts; without one, of everybody summed up."""
    if not part.person:
        return 2 * _pairs(part)
    done, received = (
        _edges(part).filter(pl.col(end) == part.person)[opposite]
        for end, opposite in (("one", "other"), ("other", "one"))
    )
    return pl.concat([done, received]).n_unique()


def _side(end: str) -> Measure:
    """How often the person is at that end; without one, anybody."""

    def measure(part: Slice) -> int:
        edges = _edges(part)
        edges = edges.filter(pl.col(end) == part.person) if part.person else edges
        return int(edges["n"].sum())

    return measure


INTERACTING: Final = _metric(
    "interacting",
    "People who interacted",
    "People with at least one mention, reply or reaction, either way.",
    _ends,
    key="people",
    listed="network/people",
)
PARTNERS: Final = _metric(
    "partners",
    "People they interact with",
    "People with an interaction with this person, in any direction.",
    _partners,
    key="people",
    listed="people/partners",
)
PAIRS: Final = _metric("pairs", "Pairs", "Pairs of people with at least one interaction.", _pairs)
MUTUAL: Final = _metric(
    "mutual",
    "Mutual pairs",
    "The share of pairs in which each interacted with the other.",
    _mutual,
    kind=Kind.PERCENT,
)
INTERACTIONS: Final = _metric(
    "interactions",
    "Interactions",
    "Mentions, replies in threads and reactions, from one person to another.",
    _side("one"),
    listed="network/edges",
)
DONE: Final = _metric(
    "done", "To others", "Mentions, replies and reactions by this person.", _side("one")
)
RECEIVED: Final = _metric(
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


def _active_weeks(part: Slice) -> int:
    """Weeks in which the person posted; without one, of everybody summed up."""
    return with_point(part.messages, weeks(part.period)).select("slack_uid", "point").n_unique()


def _posted(part: Slice, period: Period) -> pl.Series:
    """Who posted in other days."""
    return part.days(period).messages["slack_uid"].unique()


def _stayed(part: Slice) -> Quantity | None:
    """Of the last week against the one before it, as in the table of weeks."""
    week = part.period.ending_with(WEEK)
    now, then = (set(_posted(part, days)) for days in (week, week.previous))
    return percent(len(now & then), len(then)) if then else None


def weekly(part: Slice) -> int:
    return _posted(part, part.period.ending_with(WEEK)).len()


def monthly(part: Slice) -> int:
    return _posted(part, part.period.ending_with(MONTH)).len()


def _stickiness(part: Slice) -> Quantity | None:
    return percent(weekly(part), monthly(part)) if monthly(part) else None


def newcomers_since(part: Slice) -> pl.DataFrame:
    """The newcomers of as many days just before, with when each first posted again, `ts`."""

    def since() -> pl.DataFrame:
        before = part.days(replace(part.period, back=0).previous).newcomers.select("slack_uid")
        theirs = part.messages.filter(is_among(before["slack_uid"]))
        again = theirs.group_by("slack_uid").agg(pl.min("ts"))
        return before.join(again, on="slack_uid", how="left")

    return part.once("newcomers since", since)


def _newcomers_stayed(part: Slice) -> Quantity | None:
    since = newcomers_since(part)
    return percent(since["ts"].count(), since.height) if since.height else None


def _newcomers_stayed_by_point(part: Slice) -> list[float | None]:
    since = newcomers_since(part)
    if not since.height:
        return [None] * len(points(part.period))
    stayed = accumulate(_rows_by_point(part, since))
    return [float(percent(number, since.height)) for number in stayed]


NEWCOMERS_STAYED: Final = _metric(
    "newcomers_stayed",
    "Newcomers who stayed",
    "Of the people who first posted in the period before, the share who posted again in this one;"
    " in the chart, up to each day.",
    _newcomers_stayed,
    kind=Kind.PERCENT,
    by_point=_newcomers_stayed_by_point,
)
STAYED: Final = _metric(
    "stayed",
    "Retention",
    "The share of the previous week's posters who posted again in the last week.",
    _stayed,
    kind=Kind.PERCENT,
)
WEEKLY: Final = _metric(
    "weekly_posters",
    "Weekly posters",
    "People who posted in the last 7 days of the period.",
    weekly,
    key="weekly",
    listed="people/people/7",
)
MONTHLY: Final = _metric(
    "monthly_posters",
    "Monthly posters",
    "People who posted in the last 28 days of the period.",
    monthly,
    key="monthly",
    listed="people/people/28",
)
STICKINESS: Final = _metric(
    "weekly_of_monthly",
    "Stickiness (weekly / monthly posters)",
    "The share of the monthly posters who posted in the last week. The higher, the more often"
    " people post.",
    _stickiness,
    kind=Kind.PERCENT,
)
WEEKS_ACTIVE: Final = _metric(
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
    "returning", about="Posted in this week, not in the week before, but earlier.", listed="group/"
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
_column("people", about="How many of them reached this step.")
_column(
    "joined",
    "People who joined",
    "They joined their first channel then, as far as Slack posted a message about it.",
    listed="group/",
)
_column(
    "posted", "Of them posted", "Of these, those who have written a message since.", listed="group/"
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
