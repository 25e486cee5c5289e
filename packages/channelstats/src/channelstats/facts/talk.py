"""What became of a question in the talk that follows it.

Most questions are answered in the channel and not in a thread, by the next who writes, and often
nobody is named. So a question is followed through the messages of its channel outside threads.

    answered  somebody else named the asker, or wrote next and soon, or as one answers after a
              night, or said yes or no; whom the asker had named wrote; the asker talked on with who
              wrote next, thanked, or said that it works; it was put in a talk with somebody who
              went on with that, be it days later; somebody replied in the thread of what the asker
              wrote just before or after
    aside     it is part of a talk: a short one into what others talk of that speaks neither to all
              nor of the asker, or one that asks what somebody has or did, hours later too, as who
              helps asks back; or `really?`
    maybe     somebody wrote next, but late, not as one answers, or while talking with others; or
              asked back and got no answer, or got one and said nothing more
    open      nobody did any of that

Rule: that somebody wrote next means nothing where it begins something new, or names others who are
in the talk, or comes after the asker has asked something else. In a channel where questions are
answered in threads it means nothing, unless the asker talked on.
"""

from typing import Final

import polars as pl
import polars.selectors as cs

from channelstats.tables.message_row import Sign

_SECOND: Final = 1_000_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR

UNANSWERED: Final = ("open", "maybe")
"""Outcomes of a question that somebody may still answer."""

FOLLOWED: Final = 7 * _DAY
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
_OVERNIGHT: Final = 15 * _HOUR
"""How late what is said as one answers is one, where nothing was said in between."""
_SAME_DAY: Final = 6 * _HOUR
"""How late a yes or a no may come."""
_BRIEF: Final = 6
"""Words of what is taken for an answer however it begins, at most."""
_FEW: Final = 3
"""Words of what is said into a talk and makes no question by itself: `at what cost?`"""
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


def habits(counted: pl.DataFrame) -> pl.DataFrame:
    """How one answers in each channel, told from counted messages: whether `in_threads`, and how
    `soon` outside of them.
    """
    pause = pl.col("ts") - pl.col("ts").shift()
    long = pause.filter(pause > _FASTEST)
    quiet = pl.when(long.len() >= _FEWEST).then(long.median()).otherwise(_SLOWEST * _PACE)
    asked, answered = pl.col("question"), pl.col("question") & pl.col("has_thread")
    is_usual = answered.sum() >= _IN_THREADS * asked.sum()
    return (
        _outside_threads(counted)
        .group_by("slack_cid")
        .agg(
            in_threads=is_usual & (asked.sum() >= _FEWEST),
            soon=(quiet / _PACE).clip(_FASTEST, _SLOWEST).cast(pl.Int64),
        )
    )


def _outside_threads(counted: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Counted messages that are said to all in a channel, by time."""
    is_broadcast = (pl.col("subtype") == "thread_broadcast").fill_null(value=False)
    outside = counted.lazy().filter(~pl.col("is_reply") | is_broadcast)
    has_thread = pl.col("reply_count") > 0
    return outside.select(*_KEY, "question", *columns, has_thread=has_thread).sort("ts").collect()


def outcomes(
    messages: pl.DataFrame, counted: pl.DataFrame, replies: pl.DataFrame, habits: pl.DataFrame
) -> pl.DataFrame:
    """What became of messages that are no replies, by their `slack_cid` and `ts`: the `outcome`.
    ``counted`` are the messages around them, ``replies`` all there are: see `Facts.answers`.
    """
    talk = _outside_threads(counted, "slack_uid", "mentions", "signs", "word_count")
    # By channel and time: by the numbers that stand for channels it takes a fraction of the time.
    talk = talk.sort(pl.col("slack_cid").to_physical(), maintain_order=True)
    every = talk.with_row_index("at").cast({"at": pl.Int64})
    asked = every.join(messages, on=_KEY, how="semi", maintain_order="left")
    near = _near(asked, talk)
    far, behind = near.filter(pl.col("step") > 0), near.filter(pl.col("step") < 0)
    ahead = far.filter(pl.col("step") <= _AHEAD)
    followed = (
        asked.join(habits, on="slack_cid", how="left")
        .join(_after(ahead, _talking(behind)), on="at", how="left")
        .join(_before(behind), on="at", how="left")
        .join(_to_asker(asked, behind), on="at", how="left")
        .join(_went_on(asked, ahead, behind), on="at", how="left")
        .join(_named(far), on="at", how="left")
        .join(_addressed(asked, ahead, behind), on="at", how="left")
        .join(_answered_beside(ahead, behind, replies), on="at", how="left")
        .with_columns(pl.col("soon").fill_null(_SLOWEST), cs.boolean().fill_null(value=False))
    )
    return followed.select(*_KEY, outcome=_outcome())


def _outcome() -> pl.Expr:
    """Of a question with what `_after` and `_before` say of it."""
    is_next = pl.col("next_pause").is_not_null() & ~pl.col("next_elsewhere") & ~pl.col("next_new")
    soon = pl.when("in_threads").then(_MINUTE).otherwise("soon")
    talked_on = pl.col("talked_on") & ~pl.col("next_elsewhere") & ~pl.col("next_to_all")
    asked_back = pl.col("next_asks") & ~pl.col("came_back")
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
        | (talked_on & ~asked_back)
        | pl.col("went_on")
        | (is_next & pl.col("next_replies") & (pause <= pl.max_horizontal(soon, slow)))
    )
    words, in_talk = pl.col("word_count"), pl.col("in_talk")
    names_nobody = pl.col("mentions").is_null()
    is_back = in_talk & (words <= _SHORT) & names_nobody & ~_has(Sign.TO_ALL | Sign.OWN)
    is_back |= pl.col("after_others") & _has(Sign.ASKS_BACK) & ~_has(Sign.TO_ALL | Sign.OWN)
    is_remark = in_talk & ((words <= _FEW) | _has(Sign.WANTS_YES | Sign.LAUGHS))
    is_remark |= pl.col("after_any") & (words <= _FEW) & names_nobody & ~_has(Sign.TO_ALL)
    in_time = pl.when("next_replies").then(_LATE * soon).otherwise(soon)
    maybe = (is_next & (pause <= in_time)) | pl.col("next_back") | pl.col("named_back") | talked_on
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


def _near(asked: pl.DataFrame, messages: pl.DataFrame) -> pl.DataFrame:
    """A row for each of the messages so many steps before or after questions, in the same channel:
    who wrote it, whether the asker did, the `gap` since the question; whether that is put `to_all`.
    ``elsewhere``: of the nearest after it, whether it names others who are near, not the asker.
    """
    first, last = pl.col("at") - _AHEAD, pl.col("at") + _FAR
    there = pl.int_ranges(first.clip(0), last.clip(None, messages.height - 1) + 1)
    question = {"asker": "slack_uid", "asked_at": "ts", "asked_in": "slack_cid"}
    rows = asked.select("at", there=there, to_all=_has(Sign.TO_ALL), **question)
    rows = rows.explode("there")
    # Most are left out by who wrote them, where and when, before anything else is looked up; far
    # ahead all are but the asker's and those that name somebody.
    names = pl.col("mentions")
    about = messages.select(*_KEY, "slack_uid", names_any=names.is_not_null())
    rows = rows.hstack(about[rows["there"]]).with_columns(
        step=pl.col("there") - pl.col("at"),
        gap=pl.col("ts") - pl.col("asked_at"),
        by_asker=pl.col("slack_uid") == pl.col("asker"),
    )
    rows = rows.filter(
        pl.col("slack_cid") == pl.col("asked_in"),
        pl.col("gap").is_between(-BEFORE, FOLLOWED),
        (pl.col("step") <= _AHEAD) | pl.col("by_asker") | pl.col("names_any"),
    )
    near = rows.hstack(messages.drop(*_KEY, "slack_uid")[rows["there"]]).with_columns(
        names_asker=names.list.contains(pl.col("asker")).fill_null(value=False)
    )
    is_near = pl.col("step") <= _AHEAD
    is_named = pl.col("names_any") & ~pl.col("names_asker") & is_near & (pl.col("step") > 0)
    row = pl.int_range(pl.len())
    named = near.select("at", slack_uid=names, row=pl.when(is_named).then(row)).drop_nulls("row")
    present = near.filter(is_near).select("at", "slack_uid")
    others = named.explode("slack_uid").join(present, on=["at", "slack_uid"], how="semi")
    elsewhere = row.is_in(others["row"].unique().implode())
    return near.with_columns(elsewhere=elsewhere).set_sorted("at")


def _talking(behind: pl.DataFrame) -> pl.DataFrame:
    """Who talked with somebody else just before a question, and may go on with that. Who wrote
    last before it did not: it may be put to them, but where it is put to all.
    """
    others = behind.filter(~pl.col("by_asker"), pl.col("gap") >= -_RUNNING)
    people = others.group_by("at", "slack_uid").agg(pl.max("step"), pl.first("to_all"))
    is_last = pl.col("step") == pl.col("step").max().over("at")
    talking = people.filter(pl.len().over("at") > 1, ~is_last | pl.col("to_all"))
    return talking.select("at", "slack_uid", was_talking=True)


def _after(ahead: pl.DataFrame, talking: pl.DataFrame) -> pl.DataFrame:
    """What the messages after a question say: of each `at` that has any by others."""
    by_other = ~pl.col("by_asker")
    ahead = (
        ahead.join(talking, on=["at", "slack_uid"], how="left", maintain_order="left")
        .set_sorted("at")
        .with_columns(
            pl.col("was_talking").fill_null(value=False),
            first=pl.col("step").filter(by_other).min().over("at"),
            first_at=pl.col("ts").filter(by_other).min().over("at"),
            last_own=pl.when("by_asker").then(pl.col("ts")).forward_fill().over("at"),
            # Before somebody else asks something, to whom it may be said.
            is_to_question=pl.col("step")
            < pl.col("step").filter(by_other & pl.col("question")).min().over("at").fill_null(_FAR),
            is_before_new=_before_new(),
        )
        .with_columns(pause=pl.col("ts") - pl.coalesce("last_own", "asked_at"))
    )
    elsewhere, is_at_first = pl.col("elsewhere"), pl.col("step") == pl.col("first")
    own_after = pl.col("by_asker") & (pl.col("step") > pl.col("first"))
    after_own = pl.col("step") > pl.col("step").filter(own_after).min().over("at")
    by_first = pl.col("slack_uid") == pl.col("slack_uid").filter(is_at_first).first().over("at")
    in_time = pl.col("ts") - pl.col("first_at") <= _SAME_DAY
    came_back = by_first & after_own & in_time & ~pl.col("question") & ~elsewhere
    is_first = is_at_first & pl.col("is_before_new")
    begins = pl.col("question") | _has(Sign.TO_ALL) | pl.col("has_thread")
    asks = is_first & pl.col("question")
    is_back = pl.col("question") & ~_has(Sign.TO_ALL) & (pl.col("word_count") <= _SHORT)
    soon = pl.col("ts") - pl.col("first_at") <= _HOUR
    is_brief = (pl.col("word_count") <= _BRIEF) & (pl.col("pause") <= _SLOWEST)
    agrees = by_other & _has(Sign.AGREES) & (pl.col("gap") <= _SAME_DAY)
    talking_on = pl.col("was_talking") & (pl.col("gap") <= _RUNNING)
    states_settled = _has(Sign.SETTLED) & ~pl.col("question")
    thanks = pl.col("by_asker") & _has(Sign.THANKS)
    return ahead.group_by("at").agg(
        agreed=(agrees & ~elsewhere & pl.col("is_to_question") & (is_first | ~talking_on)).any(),
        talked_on=(own_after & soon & ~_has(Sign.TO_ALL)).any(),
        thanked=(own_after & _has(Sign.THANKS) & (pl.col("gap") <= _DAY)).any(),
        thanked_at_once=(thanks & (pl.col("gap") <= _RUNNING)).any(),
        settled=(pl.col("by_asker") & states_settled).any(),
        next_pause=pl.col("pause").filter(is_first).first(),
        next_elsewhere=(elsewhere & is_first).any(),
        next_replies=(is_first & ~talking_on & (_has(Sign.REPLIES | Sign.AGREES) | is_brief)).any(),
        next_new=(begins & is_first).any(),
        next_to_all=(asks & _has(Sign.TO_ALL)).any(),
        next_asks=(asks & (pl.col("word_count") > _FEW)).any(),
        came_back=came_back.any(),
        next_back=(is_back & is_first & (pl.col("pause") <= _AT_ONCE)).any(),
    )


def _before_new() -> pl.Expr:
    """Whether a message after a question comes before the asker asks something new."""
    is_long = pl.col("word_count") > _BRIEF
    own_new = pl.col("by_asker") & pl.col("question") & is_long & (pl.col("gap") > _SOON)
    return pl.col("step") < pl.col("step").filter(own_new).min().over("at").fill_null(_FAR + 1)


def _went_on(asked: pl.DataFrame, ahead: pl.DataFrame, behind: pl.DataFrame) -> pl.DataFrame:
    """Questions put in a talk with somebody who is the next to write, or says yes or no later."""
    before = behind.filter(~pl.col("by_asker"), ~pl.col("to_all"))
    partners = before.group_by("at").agg(pl.last("slack_uid"))
    named = asked.select("at", named="mentions")
    is_meant = pl.col("named").list.contains(pl.col("slack_uid")).fill_null(value=True)
    partners = partners.join(named, on="at").filter(is_meant)
    after = ahead.filter(~pl.col("by_asker"))
    said = after.join(partners, on=["at", "slack_uid"], how="semi", maintain_order="left")
    said = said.unique("at", keep="first", maintain_order=True)
    first = after.group_by("at").agg(first=pl.min("step"))
    is_next = pl.col("step") == pl.col("first")
    is_new = pl.col("question") & _has(Sign.TO_ALL)
    to_asker = ~is_new & ~pl.col("elsewhere") & (is_next | _has(Sign.AGREES))
    return said.join(first, on="at").filter(to_asker).select("at", went_on=True)


def _named(far: pl.DataFrame) -> pl.DataFrame:
    """Questions whose asker somebody named, and whether only to ask something back."""
    names = far.filter(~pl.col("by_asker") & pl.col("names_asker") & _before_new())
    return names.group_by("at").agg(
        named=(~pl.col("question")).any(), named_back=pl.col("question").any()
    )


def _before(behind: pl.DataFrame) -> pl.DataFrame:
    """Whether others wrote before a question: at all, some time or just before it, and whether one
    named the asker.
    """
    by_other = ~pl.col("by_asker")
    recent = by_other & (pl.col("gap") >= -_AT_ONCE)
    return behind.group_by("at").agg(
        in_talk=recent.any(),
        after_any=by_other.any(),
        after_others=(by_other & (pl.col("gap") >= -_SLOWEST)).any(),
        spoken_to=(by_other & pl.col("names_asker") & (pl.col("gap") >= -_SOON)).any(),
    )


def _to_asker(asked: pl.DataFrame, behind: pl.DataFrame) -> pl.DataFrame:
    """Questions that name who asked something just before them."""
    others = behind.filter(~pl.col("by_asker"), "question")
    back = others.join(_mentioned(asked), on=["at", "slack_uid"], how="semi")
    return back.select("at", to_asker=True).unique()


def _addressed(asked: pl.DataFrame, ahead: pl.DataFrame, behind: pl.DataFrame) -> pl.DataFrame:
    """Questions after which somebody wrote, within a day, whom the asker had named in them or
    shortly before.
    """
    own = behind.filter("by_asker", pl.col("gap") >= -_SOON)
    named = pl.concat([_mentioned(asked), _mentioned(own)])
    later = ahead.filter(~pl.col("by_asker"), ~pl.col("elsewhere"), pl.col("gap") <= _DAY)
    spoke = later.join(named, on=["at", "slack_uid"], how="semi")
    return spoke.select("at", addressed=True).unique()


def _mentioned(messages: pl.DataFrame) -> pl.DataFrame:
    """Whom messages name, by the question that they are near to."""
    names = messages.select("at", slack_uid="mentions").drop_nulls()
    return names.explode("slack_uid")


def _answered_beside(
    ahead: pl.DataFrame, behind: pl.DataFrame, replies: pl.DataFrame
) -> pl.DataFrame:
    """Questions that somebody replied to in the thread of what the asker wrote beside them."""
    beside = pl.concat([ahead, behind]).filter(
        "by_asker", "has_thread", pl.col("gap").abs() <= _AT_ONCE
    )
    heads = beside.select("at", "asker", "asked_at", "slack_cid", thread_ts="ts")
    replies = replies.join(heads, on=["slack_cid", "thread_ts"])
    is_answer = (pl.col("replier") != pl.col("asker")) & (pl.col("replied_at") > pl.col("asked_at"))
    return replies.filter(is_answer).select("at", beside=True).unique()
