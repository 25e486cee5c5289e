"""What became of a question in the talk that follows it.

Most questions are answered in the channel and not in a thread, by the next who writes, and often
nobody is named. So a question is followed through the messages of its channel outside threads.

    answered  somebody else named the asker, or wrote next and soon, or as one answers after a
              night, or said yes or no; whom the asker had named wrote; the asker talked on with who
              wrote next, thanked, or said that it works; somebody replied in the thread of what the
              asker wrote just before or after
    aside     it is part of a talk: a short one into what others talk of that speaks neither to all
              nor of the asker, or one that asks what somebody has or did, hours later too, as who
              helps asks back; or `really?`
    maybe     somebody wrote next, but late, not as one answers, or while talking with others; or
              asked back and got no answer
    open      nobody did any of that

Rule: that somebody wrote next means nothing where it begins something new, or names others, or
comes after the asker has asked something else. In a channel where questions are answered in threads
it means nothing, unless the asker talked on.
"""

from typing import Final, NamedTuple

import polars as pl

from channelstats.tables.message_row import Sign

_SECOND: Final = 1_000_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR

UNANSWERED: Final = ("open", "maybe")
"""Outcomes of a question that somebody may still answer."""

FOLLOWED: Final = 3 * _DAY
"""How long a question is followed."""

BEFORE: Final = _DAY
"""How much is needed of the talk before a question."""

_AHEAD: Final = 24
"""Messages after a question, and before it, that are looked at."""
_FAR: Final = 100
"""Messages after a question that are looked at for the name of the asker: in a busy channel many
talk of something else before somebody answers.
"""

_SOON: Final = 30 * _MINUTE
_FASTEST, _SLOWEST = 15 * _MINUTE, 3 * _HOUR
"""Between these lies, by the pace of a channel, how soon somebody who answers writes."""
_PACE: Final = 4
"""How many times as long it is there quiet between two talks."""
_LATE: Final = 3
"""How many times as late an answer may come that may be one."""
_OVERNIGHT: Final = 12 * _HOUR
"""How late what is said as one answers is one, where nothing was said in between."""
_SAME_DAY: Final = 6 * _HOUR
"""How late a yes or a no may come."""
_BRIEF: Final = 6
"""Words of what is taken for an answer however it begins, at most."""
_AT_ONCE: Final = 10 * _MINUTE
"""Between what belongs to one talk."""
_RUNNING: Final = 5 * _MINUTE
"""How long somebody who wrote is likely to go on with the same talk."""
_SHORT: Final = 12
"""Words of a question back, at most."""

_FEWEST: Final = 8
"""Questions, or pauses, from which the habits of a channel are told."""
_IN_THREADS: Final = 0.5
"""The share of the questions of a channel that are answered in threads, from which on that is how
one answers there."""

_KEY: Final = ("slack_cid", "ts")


class Talk(NamedTuple):
    """The messages of channels outside threads, by channel and time, and who replied in threads."""

    messages: pl.DataFrame
    replies: pl.DataFrame
    channels: pl.DataFrame
    """How one answers in each: whether `in_threads`, and how `soon` outside of them."""


def talk_of(counted: pl.DataFrame, replies: pl.DataFrame) -> Talk:
    """Of counted messages. ``replies`` are all to them: see `CountedMessages.answers`."""
    columns = ("slack_cid", "ts", "slack_uid", "mentions", "question", "signs", "word_count")
    is_outside = ~pl.col("is_reply") | (pl.col("subtype") == "thread_broadcast").fill_null(False)
    messages = counted.filter(is_outside).select(*columns, has_thread=pl.col("reply_count") > 0)
    # By the numbers that stand for channels, which takes a fraction of the time.
    messages = messages.sort(pl.col("slack_cid").to_physical(), "ts")
    pause = pl.col("ts") - pl.col("ts").shift()
    long = pause.filter(pause > _FASTEST)
    quiet = pl.when(long.len() >= _FEWEST).then(long.median()).otherwise(_SLOWEST * _PACE)
    asked, answered = pl.col("question"), pl.col("question") & pl.col("has_thread")
    is_usual = answered.sum() >= _IN_THREADS * asked.sum()
    channels = messages.group_by("slack_cid").agg(
        in_threads=is_usual & (asked.sum() >= _FEWEST),
        soon=(quiet / _PACE).clip(_FASTEST, _SLOWEST).cast(pl.Int64),
    )
    return Talk(messages, replies, channels)


def outcomes(messages: pl.DataFrame, talk: Talk) -> pl.DataFrame:
    """What became of messages that are in a talk, by their `slack_cid` and `ts`: the `outcome`."""
    places = (
        talk.messages.select(_KEY).with_row_index("at").with_columns(pl.col("at").cast(pl.Int64))
    )
    some = messages.select(_KEY).join(places, on=_KEY, maintain_order="left")
    asked = some.select("at").hstack(
        talk.messages[some["at"]].rename({"slack_uid": "asker", "ts": "asked_at"})
    )
    far = _steps(asked, talk, range(1, _FAR + 1)).filter(pl.col("gap") <= FOLLOWED)
    ahead = far.filter(pl.col("step") <= _AHEAD)
    behind = _steps(asked, talk, range(-_AHEAD, 0)).filter(pl.col("gap") >= -BEFORE)
    followed = (
        asked.join(talk.channels, on="slack_cid")
        .join(_after(ahead, _talking(behind)), on="at", how="left")
        .join(_before(behind), on="at", how="left")
        .join(_named(far), on="at", how="left")
        .join(_addressed(ahead, behind), on="at", how="left")
        .join(_answered_beside(ahead, behind, talk), on="at", how="left")
    )
    flags = [name for name, dtype in followed.schema.items() if dtype == pl.Boolean]
    followed = followed.with_columns(pl.col(flags).fill_null(value=False))
    return followed.select("slack_cid", ts="asked_at", outcome=_outcome())


def _outcome() -> pl.Expr:
    """Of a question with what `_after` and `_before` say of it."""
    is_next = pl.col("next_pause").is_not_null() & ~pl.col("next_elsewhere") & ~pl.col("next_new")
    soon = pl.when("in_threads").then(_MINUTE).otherwise("soon")
    talked_on = pl.col("talked_on") & ~pl.col("next_elsewhere")
    pause = pl.col("next_pause")
    slow = pl.when("in_threads").then(0).otherwise(_OVERNIGHT)
    answered = (
        pl.col("named")
        | pl.col("thanked")
        | (pl.col("thanked_at_once") & pl.col("spoken_to"))
        | pl.col("settled")
        | pl.col("agreed")
        | pl.col("beside")
        | pl.col("addressed")
        | talked_on
        | (is_next & pl.col("next_replies") & (pause <= pl.max_horizontal(soon, slow)))
    )
    words, in_talk = pl.col("word_count"), pl.col("in_talk")
    names_nobody = pl.col("mentions").is_null()
    is_back = in_talk & (words <= _SHORT) & names_nobody & ~_has(Sign.TO_ALL | Sign.OWN)
    is_back |= pl.col("after_others") & _has(Sign.ASKS_BACK) & ~_has(Sign.TO_ALL | Sign.OWN)
    is_remark = in_talk & ((words <= 3) | _has(Sign.WANTS_YES | Sign.LAUGHS))
    in_time = pl.when("next_replies").then(_LATE * soon).otherwise(soon)
    maybe = (is_next & (pause <= in_time)) | pl.col("next_back") | pl.col("named_back")
    return (
        pl.when(answered)
        .then(pl.lit("answered"))
        .when(is_back | is_remark | pl.col("to_asker"))
        .then(pl.lit("aside"))
        .when(maybe)
        .then(pl.lit("maybe"))
        .otherwise(pl.lit("open"))
    )


def _has(sign: Sign) -> pl.Expr:
    return (pl.col("signs") & int(sign)) != 0


_is_put_to: Final = pl.col("put_to").list.contains(pl.col("slack_uid")).fill_null(value=False)
"""Whether the question names who wrote a message near it."""


def _steps(asked: pl.DataFrame, talk: Talk, steps: range) -> pl.DataFrame:
    """A row for each of the messages so many steps after questions, in the same channel: who wrote
    it, whether the asker did, the `gap` since the question; whom the question is `put_to`, and
    whether `to_all`.
    """
    rows = asked.select(
        "at", "asker", "asked_at", cid="slack_cid", put_to="mentions", to_all=_has(Sign.TO_ALL)
    ).with_columns(step=pl.lit(list(steps)))
    rows = rows.explode("step").with_columns(there=pl.col("at") + pl.col("step"))
    rows = rows.filter(pl.col("there").is_between(0, talk.messages.height - 1))
    around = rows.hstack(talk.messages[rows["there"]])
    return around.filter(pl.col("slack_cid") == pl.col("cid")).with_columns(
        by_asker=pl.col("slack_uid") == pl.col("asker"),
        gap=pl.col("ts") - pl.col("asked_at"),
        names_asker=pl.col("mentions").list.contains(pl.col("asker")).fill_null(value=False),
        names_any=pl.col("mentions").is_not_null(),
    )


def _talking(behind: pl.DataFrame) -> pl.DataFrame:
    """Who talked with somebody else just before a question, and may go on with that. Who wrote
    last before it did not: it may be put to them, but where it is put to all.
    """
    others = behind.filter(~pl.col("by_asker"), pl.col("gap") >= -_RUNNING).sort("at", "step")
    people = others.group_by("at", "slack_uid").agg(pl.max("step"), pl.first("to_all"))
    is_last = pl.col("step") == pl.col("step").max().over("at")
    talking = people.filter(pl.len().over("at") > 1, ~is_last | pl.col("to_all"))
    return talking.select("at", "slack_uid", was_talking=True)


def _after(ahead: pl.DataFrame, talking: pl.DataFrame) -> pl.DataFrame:
    """What the messages after a question say: of each `at` that has any by others."""
    ahead = ahead.join(talking, on=["at", "slack_uid"], how="left").sort("at", "step")
    ahead = ahead.with_columns(pl.col("was_talking").fill_null(value=False))
    by_other = ~pl.col("by_asker")
    ahead = ahead.with_columns(
        first=pl.col("step").filter(by_other).min().over("at"),
        last_own=pl.when("by_asker").then(pl.col("ts")).forward_fill().over("at"),
    )
    ahead = ahead.with_columns(
        since_first=pl.col("ts")
        - pl.col("ts").filter(pl.col("step") == pl.col("first")).first().over("at"),
        is_after=pl.col("step") > pl.col("first"),
        pause=pl.col("ts") - pl.coalesce("last_own", "asked_at"),
    )
    own_after = pl.col("by_asker") & pl.col("is_after")
    is_first = pl.col("step") == pl.col("first")
    begins = pl.col("question") | _has(Sign.TO_ALL) | pl.col("has_thread")
    elsewhere = pl.col("names_any") & ~pl.col("names_asker")
    is_back = pl.col("question") & ~_has(Sign.TO_ALL) & (pl.col("word_count") <= _SHORT)
    soon = pl.col("since_first") <= _HOUR
    # Before somebody else asks something, to whom it may be said.
    before_asked = pl.col("step").filter(by_other & pl.col("question")).min().fill_null(_AHEAD + 1)
    is_brief = pl.col("word_count") <= _BRIEF
    is_first &= _before_new()
    agrees = by_other & _has(Sign.AGREES) & (pl.col("gap") <= _SAME_DAY)
    talking_on = pl.col("was_talking") & (pl.col("gap") <= _RUNNING)
    states_settled = _has(Sign.SETTLED) & ~pl.col("question")
    return ahead.group_by("at").agg(
        agreed=(
            agrees & ~elsewhere & (pl.col("step") < before_asked) & (is_first | ~talking_on)
        ).any(),
        talked_on=(own_after & soon & ~_has(Sign.TO_ALL)).any(),
        thanked=(own_after & _has(Sign.THANKS) & (pl.col("gap") <= _DAY)).any(),
        thanked_at_once=(
            pl.col("by_asker") & _has(Sign.THANKS) & (pl.col("gap") <= _RUNNING)
        ).any(),
        settled=(pl.col("by_asker") & states_settled).any(),
        next_pause=pl.col("pause").filter(is_first).first(),
        next_elsewhere=elsewhere.filter(is_first).any(),
        next_replies=(is_first & ~talking_on & (_has(Sign.REPLIES | Sign.AGREES) | is_brief)).any(),
        next_new=begins.filter(is_first).any(),
        next_back=(is_back & is_first & (pl.col("pause") <= _AT_ONCE)).any(),
    )


def _before_new() -> pl.Expr:
    """Whether a message after a question comes before the asker asks something new."""
    is_long = pl.col("word_count") > _BRIEF
    own_new = pl.col("by_asker") & pl.col("question") & is_long & (pl.col("gap") > _SOON)
    return pl.col("step") < pl.col("step").filter(own_new).min().over("at").fill_null(_FAR + 1)


def _named(far: pl.DataFrame) -> pl.DataFrame:
    """Questions whose asker somebody named, and whether only to ask something back."""
    names = far.filter(~pl.col("by_asker") & pl.col("names_asker") & _before_new())
    return names.group_by("at").agg(
        named=(~pl.col("question")).any(), named_back=pl.col("question").any()
    )


def _before(behind: pl.DataFrame) -> pl.DataFrame:
    """Whether others talked just before a question or some time before it, asked something of the
    asker, or named them.
    """
    by_other = ~pl.col("by_asker")
    recent = by_other & (pl.col("gap") >= -_AT_ONCE)
    asked = by_other & pl.col("question")
    return behind.group_by("at").agg(
        in_talk=recent.any(),
        after_others=(by_other & (pl.col("gap") >= -_SLOWEST)).any(),
        to_asker=(asked & _is_put_to).any(),
        spoken_to=(by_other & pl.col("names_asker") & (pl.col("gap") >= -_SOON)).any(),
    )


def _addressed(ahead: pl.DataFrame, behind: pl.DataFrame) -> pl.DataFrame:
    """Questions after which somebody wrote, within a day, whom the asker had named in them or
    shortly before.
    """
    own = behind.filter("by_asker", pl.col("gap") >= -_SOON)
    named = own.select("at", "mentions").explode("mentions").drop_nulls()
    named = named.select("at", slack_uid="mentions").unique()
    elsewhere = pl.col("names_any") & ~pl.col("names_asker")
    later = ahead.filter(~pl.col("by_asker"), ~elsewhere, pl.col("gap") <= _DAY)
    spoke = later.join(named, on=["at", "slack_uid"], how="semi").select("at")
    put = later.filter(_is_put_to).select("at")
    return pl.concat([spoke, put]).unique().with_columns(addressed=True)


def _answered_beside(ahead: pl.DataFrame, behind: pl.DataFrame, talk: Talk) -> pl.DataFrame:
    """Questions that somebody replied to in the thread of what the asker wrote beside them."""
    beside = pl.concat([ahead, behind]).filter(
        "by_asker", "has_thread", pl.col("gap").abs() <= _AT_ONCE
    )
    heads = beside.select("at", "asker", "asked_at", "slack_cid", thread_ts="ts")
    replies = talk.replies.join(heads, on=["slack_cid", "thread_ts"])
    is_answer = (pl.col("replier") != pl.col("asker")) & (pl.col("replied_at") > pl.col("asked_at"))
    return replies.filter(is_answer).select("at", beside=True).unique()
