"""What is to be done first: a short list, of each kind of thing the most urgent in turn.

Rule: an item says in words why it is listed and leads to where something can be done about it. It
is known by a key, by which it can be marked as done; what happens again has another key.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple, TypeAlias

import polars as pl

from channelstats.counting import JOINED
from channelstats.days import DAY
from channelstats.facts.facts import NEWEST_FOLLOWED, Slice, newest
from channelstats.facts.periods import POINT, WEEK, Period, weeks, with_point
from channelstats.facts.talk import UNANSWERED
from channelstats.metrics.query import BY_MESSAGES, Scope, aggregated
from channelstats.metrics.registry import SINCE
from channelstats.pages.components import date_cells, message_cells, table
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import TO_DO, Page, Section
from channelstats.tables.columns import is_among, rows_where

SHOWN: Final = 5
"""Items on top of Overview, in a report."""

LISTED: Final = 30
"""Items of the view To do. The whole lists are below it."""

QUEUE: Final = "queue"
ITEM: Final = "item"
"""The column of the keys of items."""

_MOST: Final = 50
"""Items of one kind."""

_WEEKS: Final = 10
_SILENT: Final = 2
"""Weeks without a message after which somebody who wrote in most of the weeks before is missed."""

_FEWEST_WEEKS: Final = 2
_FEWEST_ANSWERS: Final = 5
_FEWEST_MESSAGES: Final = 5
_ALONE: Final = 0.8
"""The share of the answers in a channel that makes somebody the one who answers there."""

_OF_MESSAGES: Final = ("ts", "slack_cid", "slack_uid", "thread_ts")

Row: TypeAlias = dict[str, Any]


class Action(StrEnum):
    """What there is to do."""

    ANSWER = "Answer"
    WELCOME = "Welcome"
    WRITE = "Write to"
    HELP = "Find help for"
    REVIVE = "Revive"
    SAY_HELLO = "Say hello to"


class _Kind(NamedTuple):
    """``listed``: rows with the columns of an item as far as they apply, the most urgent first."""

    action: Action
    listed: Callable[[ViewRequest], pl.DataFrame]
    key: Callable[[Row], str]
    reason: Callable[[Row], str]


# ── who and what ─────────────────────────────────────────────────────────────────────────────────


def unanswered(request: ViewRequest) -> pl.DataFrame:
    """Messages, not replies, that nobody else replied or reacted to: whether it is a `question`."""
    conversations = request.scope.now.table("conversations")
    return request.listable(conversations.filter("unanswered"))


def first_time_posters(request: ViewRequest) -> pl.DataFrame:
    """Who posted for the first time in the period, the newest first: `messages`, and how many of
    them were `answered`; those of whom none was come first.
    """
    now = request.scope.now
    return now.once(("first-time posters", request.smallest_group), lambda: _first_time(request))


def _first_time(request: ViewRequest) -> pl.DataFrame:
    first = request.scope.now.newcomers
    theirs = request.written(first, request.scope.now.period)
    return (
        request.listable(first)
        .join(_counted(theirs, "messages"), on="slack_uid")
        .join(_counted(request.data.facts.noticed(theirs), "answered"), on="slack_uid", how="left")
        .with_columns(pl.col("answered").fill_null(0))
        .sort(pl.col("answered") > 0, "ts", "slack_uid", descending=[False, True, False])
    )


def newcomers(request: ViewRequest) -> pl.DataFrame:
    """Those of them whom somebody can still welcome."""
    return first_time_posters(request).filter(~_is_gone(request))


def never_posted(request: ViewRequest) -> pl.DataFrame:
    """Who joined in the period and has posted nothing since, nor before, the newest first; how many
    `channels` they joined.
    """
    now = request.scope.now
    joins = now.table("moves").filter(pl.col("subtype").is_in(JOINED)).sort("ts")
    earlier = now.joins_before()
    return (
        request.listable(joins)
        .filter(~_is_gone(request) & _is_new(now))
        .join(earlier, on="slack_uid", how="anti")
        .join(request.data.facts.first_posts, on="slack_uid", how="anti")
        .group_by("slack_uid")
        .agg(pl.first("slack_cid", "ts"), channels=pl.col("slack_cid").n_unique().cast(pl.Int64))
        .sort("ts", "slack_uid", descending=[True, False])
    )


def _is_new(now: Slice) -> pl.Expr:
    """Whether somebody who joined can be told to be new."""
    is_known = now.history.knows_newcomers(now.period)
    return pl.lit(is_known) | pl.col("slack_uid").is_in(sorted(now.facts.people.joined))


def lapsed(request: ViewRequest) -> pl.DataFrame:
    """The last message of who posted in the period before and not in this one, the most `messages`
    first; those whose account was `deactivated` come last.
    """
    now, before = request.scope.now, request.listable(request.scope.before.messages)
    users = request.data.inputs.users.items()
    gone = pl.col("slack_uid").is_in([uid for uid, user in users if user.deleted])
    return (
        _last_of_each(before.filter(~is_among(_authors(now))), "slack_uid")
        .with_columns(deactivated=gone)
        .sort("deactivated", "messages", "slack_uid", descending=[False, True, False])
    )


def silent_channels(request: ViewRequest) -> pl.DataFrame:
    """The last message of channels that are not archived, with messages earlier in what was read
    and none in the period; the one that fell silent last comes first. Of a small group none is
    listed.
    """
    earlier = _earlier(request).filter(~is_among(_channels(request.scope.now)))
    posters = earlier.group_by("slack_cid").agg(posters=pl.col("slack_uid").n_unique())
    return (
        _last_of_each(earlier, "slack_cid")
        .join(posters.filter(pl.col("posters") >= request.smallest_group), on="slack_cid")
        .join(request.data.known_channels, on="slack_cid", how="left")
        .filter(~pl.col("archived").fill_null(value=False))
        .sort("ts", "slack_cid", descending=[True, False])
    )


def _missed(request: ViewRequest) -> pl.DataFrame:
    """The last message of who wrote in most of the `weeks` before and not in the last ones: in how
    many, `active`. A week in which fewer than half as many as usual wrote, as on holidays of all,
    is none.
    """
    now = request.scope.now
    counted = now.everything("messages")
    reach = weeks(now.period.ending_with(_WEEKS * WEEK))
    weekly = with_point(counted.select("ts", "slack_uid"), reach).group_by("point")
    authors = weekly.agg(pl.col("slack_uid").unique()).sort("point")
    size = pl.col("slack_uid").list.len()
    working = authors.filter(2 * size >= size.median())["point"]
    posted = authors.explode("slack_uid")
    before, silent = working[:-_SILENT], working[-_SILENT:]
    needed = max(_FEWEST_WEEKS, (len(before) + 1) // 2)
    active = (
        posted.filter(pl.col("point").is_in(before.implode()))
        .group_by("slack_uid")
        .agg(active=pl.len().cast(pl.Int64))
        .filter((pl.col("active") >= needed) & ~_is_gone(request))
    )
    since = silent.min() if len(silent) == _SILENT else None
    lately = posted.filter(pl.col("point") >= pl.lit(since, POINT))
    missed = active.join(lately, on="slack_uid", how="anti").filter(since is not None)
    missed = missed.join(_later(request.scope), on="slack_uid", how="anti")
    theirs = counted.select(_OF_MESSAGES).filter(is_among(missed["slack_uid"]))
    return (
        request.listable(_last_of_each(theirs, "slack_uid"))
        .join(missed, on="slack_uid")
        .with_columns(weeks=pl.lit(len(before), pl.Int64))
        .sort("active", "messages", "slack_uid", descending=[True, True, False])
    )


def _lone_answerers(request: ViewRequest) -> pl.DataFrame:
    """Who gave nearly all `answers` in a channel, `theirs` of them, and wrote nothing anywhere in
    the period, while others still write there. Their last message there.
    """
    now = request.scope.now
    answers = _earlier(request).filter(
        pl.col("is_reply") & (pl.col("parent_user_id") != pl.col("slack_uid"))
    )
    return (
        _last_of_each(answers, "slack_cid", "slack_uid")
        .rename({"messages": "theirs"})
        .with_columns(answers=pl.col("theirs").sum().over("slack_cid"))
        .filter(
            (pl.col("theirs") >= _FEWEST_ANSWERS) & (pl.col("theirs") >= _ALONE * pl.col("answers"))
        )
        .filter(is_among(_channels(now)), ~is_among(_authors(request.data.whole.now)))
        .join(_later(request.data.whole), on="slack_uid", how="anti")
        .pipe(request.listable)
        .sort("theirs", "slack_cid", descending=[True, False])
    )


def _earlier(request: ViewRequest) -> pl.DataFrame:
    """Counted messages from before the period."""
    now = request.scope.now
    begin = now.period.begin * 1_000_000
    earlier = rows_where(now.everything("messages"), pl.col("ts") < begin)
    return earlier.select(*_OF_MESSAGES, "is_reply", "parent_user_id")


def _authors(part: Slice) -> pl.Series:
    return aggregated(part, ("person",), BY_MESSAGES)["person"].alias("slack_uid")


def _channels(part: Slice) -> pl.Series:
    return aggregated(part, ("channel",), BY_MESSAGES)["channel"].alias("slack_cid")


def _later(scope: Scope) -> pl.DataFrame:
    """Counted messages of the week since the period."""
    since = Period(scope.now.period.last + DAY, WEEK, scope.now.period.zone)
    return scope.now.days(since).messages


def _is_gone(request: ViewRequest) -> pl.Expr:
    """Whether an account is deactivated, or a bot's."""
    return pl.col("slack_uid").is_in(request.data.facts.gone)


def _counted(messages: pl.DataFrame, name: str) -> pl.DataFrame:
    """How many messages each person wrote, under a name."""
    return messages.group_by("slack_uid").agg(pl.len().cast(pl.Int64).alias(name))


def _last_of_each(messages: pl.DataFrame, *key: str) -> pl.DataFrame:
    """The last message of each value of columns, and how many `messages` there were."""
    last = pl.exclude(*key).last()
    return messages.sort("ts").group_by(key).agg(last, messages=pl.len().cast(pl.Int64))


# ── the list ─────────────────────────────────────────────────────────────────────────────────────


def _questions(request: ViewRequest) -> pl.DataFrame:
    """Those that somebody can still answer, one of each asker with how many `more`: what is open
    before what may have been answered, the newest first. Not those of newcomers, who are listed as
    such.
    """
    still = (
        request.listable(request.scope.now.questions_left)
        .join(_unwelcome(request), on="slack_uid", how="anti")
        .sort(pl.col("outcome") == "maybe", "ts", "slack_cid", descending=[False, True, False])
    )
    of_each = still.group_by("slack_uid", maintain_order=True)
    return of_each.agg(pl.exclude("slack_uid").first(), more=pl.len().cast(pl.Int64) - 1)


def _unwelcome(request: ViewRequest) -> pl.DataFrame:
    """Newcomers whom nobody answered, in threads or in the talk, and how many `questions` they
    asked: it leads to the first of these, or else to their first message.
    """
    now = request.scope.now
    return now.once(("unwelcome", request.smallest_group), lambda: _find_unwelcome(request))


def _find_unwelcome(request: ViewRequest) -> pl.DataFrame:
    now = request.scope.now
    waiting = newcomers(request).filter(pl.col("answered") == 0).head(NEWEST_FOLLOWED)
    theirs = request.listable(now.table("conversations")).filter(is_among(waiting["slack_uid"]))
    followed = now.followed(newest(theirs, NEWEST_FOLLOWED))
    talked = followed.filter(~pl.col("outcome").is_in(UNANSWERED))
    waiting = waiting.join(talked, on="slack_uid", how="anti")
    asked = theirs.filter("unanswered", "question").sort("ts").group_by("slack_uid")
    first = asked.agg(pl.first("slack_cid", "ts").name.suffix("_asked"), questions=pl.len())
    return waiting.join(first, on="slack_uid", how="left", maintain_order="left").with_columns(
        pl.col("questions").fill_null(0).cast(pl.Int64),
        *(pl.coalesce(f"{name}_asked", name).alias(name) for name in ("slack_cid", "ts")),
    )


def _fallen_silent(request: ViewRequest) -> pl.DataFrame:
    """Not those that hardly anybody wrote in, nor where somebody wrote since."""
    return (
        silent_channels(request)
        .filter((pl.col("posters") > 1) & (pl.col("messages") >= _FEWEST_MESSAGES))
        .join(_later(request.scope), on="slack_cid", how="anti")
    )


def _many(number: int, one: str) -> str:
    return f"{number:,} {one}{'' if number == 1 else 's'}"


_QUESTION: Final = {
    "open": "Nobody answered this question.",
    "maybe": "Maybe answered: somebody wrote next, but late, or not as one answers, or asked back.",
}


def _more_questions(number: int) -> str:
    waits = "waits" if number == 1 else "wait"
    return f" {_many(number, 'other question')} of theirs {waits} too." if number else ""


def _of_them_questions(number: int) -> str:
    return f", {_many(number, 'question')} among them" if number else ""


_KINDS: Final[Mapping[str, _Kind]] = {
    "question": _Kind(
        Action.ANSWER,
        _questions,
        lambda row: f"{row['slack_cid']}/{row['ts']}",
        lambda row: f"{_QUESTION[row['outcome']]}{_more_questions(row['more'])}",
    ),
    "newcomer": _Kind(
        Action.WELCOME,
        _unwelcome,
        lambda row: row["slack_uid"],
        lambda row: (
            f"New: nobody answered {_many(row['messages'], 'message')} of theirs"
            f"{_of_them_questions(row['questions'])}."
        ),
    ),
    "missed": _Kind(
        Action.WRITE,
        _missed,
        lambda row: f"{row['slack_uid']}/{row['ts']}",
        lambda row: (
            f"Wrote in {row['active']} of {row['weeks']} weeks, then for {_SILENT} weeks nothing."
        ),
    ),
    "answerer": _Kind(
        Action.HELP,
        _lone_answerers,
        lambda row: f"{row['slack_cid']}/{row['slack_uid']}/{row['ts']}",
        lambda row: (
            f"Gave {row['theirs']:,} of {_many(row['answers'], 'answer')} here, and wrote nothing"
            " in this period."
        ),
    ),
    "channel": _Kind(
        Action.REVIVE,
        _fallen_silent,
        lambda row: f"{row['slack_cid']}/{row['ts']}",
        lambda row: (
            f"{_many(row['messages'], 'message')} by {row['posters']:,} people before, none in this"
            " period."
        ),
    ),
    "joined": _Kind(
        Action.SAY_HELLO,
        never_posted,
        lambda row: row["slack_uid"],
        lambda row: f"Joined {_many(row['channels'], 'channel')}, and wrote nothing so far.",
    ),
}
"""What there is to be done, by the first word of the keys of items."""

_KEY: Final = re.compile(r"[\w.:+-]{1,100}(?:/[\w.:+-]{1,100}){0,2}", re.ASCII)

_COLUMNS: Final = pl.Schema(
    {
        "action": pl.String(),
        "person": pl.String(),
        "channel": pl.String(),
        "message": pl.String(),
        "date": pl.String(),
        "reason": pl.String(),
        "item": pl.String(),
    }
)


def items(request: ViewRequest) -> pl.DataFrame:
    """All there are: of each kind the first, then of each the second, and so on."""
    if request.scope.person or not request.names_people:
        return _COLUMNS.to_frame()
    return request.scope.now.once(("to do", request.smallest_group), lambda: _items(request))


def _items(request: ViewRequest) -> pl.DataFrame:
    listed = (list(_items_of(name, kind, request)) for name, kind in _KINDS.items())
    in_turn = (item for item in chain.from_iterable(zip_longest(*listed)) if item is not None)
    return pl.DataFrame(list(in_turn), _COLUMNS)


def _items_of(name: str, kind: _Kind, request: ViewRequest) -> Iterator[Row]:
    rows = kind.listed(request).head(_MOST)
    cells = rows.select(
        person="slack_uid",
        channel="slack_cid",
        message=message_cells("slack_cid", "ts"),
        date=date_cells(rows, request.scope.now.period.zone),
    )
    for row, linked in zip(rows.iter_rows(named=True), cells.iter_rows(named=True), strict=True):
        about = {"item": f"{name} {kind.key(row)}", "action": str(kind.action)}
        yield {**about, **linked, "reason": kind.reason(row)}


def is_item(key: str) -> bool:
    """Whether this may be the key of an item."""
    name, _, rest = key.partition(" ")
    return name in _KINDS and _KEY.fullmatch(rest) is not None


def is_question(key: str) -> bool:
    """Whether this is the key of a question."""
    return key.startswith("question ")


def queue(rows: pl.DataFrame, most: int = LISTED) -> Section:
    """All items, of which `with_marks` leaves the first ``most`` that are not marked."""
    about = (
        "In turn of each kind what is most urgent: questions without an answer, newcomers whom"
        " nobody answered, regulars and channels that fell silent, people who joined and never"
        " wrote. What was answered in the talk after it is left out, and so are archived channels."
    )
    whole = TO_DO if most < LISTED else ""
    items = table(QUEUE, "To do first", rows, {"date": SINCE}, whole=whole, about=about)
    return Section.of(items, empty="Nothing is left to do here.")


def queued_messages(page: Page) -> list[str]:
    """The messages of the items of To do, of kind MESSAGE."""
    queued = (table.rows for table in page.tables if (page.name, table.name) == (TO_DO, QUEUE))
    return [message for rows in queued for message in rows["message"]]
