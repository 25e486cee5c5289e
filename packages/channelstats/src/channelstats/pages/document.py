"""The document of a period as JSON, with the one before beside it: a list of queries.

Rule: the same facts make the same document, down to the order of its keys; ranked things are in the
order of their ranks, here by words. What had no entry in the period before is new; what had one and
nothing in it counts as 0. Of people and channels there may be hundreds of thousands, so rows become
text in columns and never Python objects.
"""

from collections.abc import Callable, Mapping
from math import fsum
from typing import Final

import msgspec
import polars as pl

from channelstats.facts.facts import REACTED, REPLIED, Facts, Slice
from channelstats.facts.interactions import GROUPS, interactions
from channelstats.facts.periods import Period
from channelstats.facts.reading import Inputs, Options
from channelstats.metrics.people import bot_share, huddles, retention
from channelstats.metrics.quantities import (
    ColumnQuantity,
    Formula,
    Quantity,
    before,
    beside,
    change,
    changes,
    percent_of,
    ratio,
    shown,
)
from channelstats.metrics.query import aggregated
from channelstats.metrics.registry import FIRST_REPLY, FIRST_REPLY_P90, monthly, weekly
from channelstats.metrics.volume import (
    WORDS_ON_A_PAGE,
    Volume,
    authors_of_half,
    gini,
    half,
    median,
    share_of_top,
    volume,
)
from channelstats.pages.document_rows import (
    EMOJI_RATE,
    PAIR,
    POSTING,
    SIZE,
    TOP_LISTS,
    Json,
    Part,
    PeriodRows,
    mapping,
    mappings,
    objects,
    pieces,
    together,
    with_texts,
)
from channelstats.pages.small_groups import SmallGroups

SCHEMA_VERSION: Final = 1


# ── figures ──────────────────────────────────────────────────────────────────────────────────────

STATISTICS: Final[Mapping[str, Callable[[Volume], Quantity]]] = {
    "posters": lambda by: by.posters,
    "active_users": lambda by: by.counts.active_users,
    "all_users": lambda by: by.counts.all_users,
    "% posting": lambda by: by.share_of_accounts,
    "messages": lambda by: by.messages,
    "words": lambda by: by.words,
    "average messages": lambda by: ratio(by.messages, by.posters),
    "average words": lambda by: ratio(by.words, by.posters),
    "median messages": lambda by: median(by.messages_each),
    "median words": lambda by: median(by.words_each),
    "topten messages": lambda by: share_of_top(by.messages_each),
    "topten words": lambda by: share_of_top(by.words_each),
    "50percent of messages": lambda by: half(by.messages_each),
    "50percent of words": lambda by: half(by.words_each),
    "pages": lambda by: by.words // WORDS_ON_A_PAGE,
    "words per message": lambda by: ratio(by.words, by.messages),
    "words per poster": lambda by: ratio(by.words, by.posters),
    "messages per poster": lambda by: ratio(by.messages, by.posters),
}

_VOLUME: Final = {name: Formula(name) for name in SIZE}
_USER: Final = {
    "percent_of_messages": percent_of("messages", "all_messages"),
    "percent_of_words": percent_of("words", "all_words"),
    "cum_percent_of_messages": percent_of("sum_messages", "all_messages"),
    "cum_percent_of_words": percent_of("sum_words", "all_words"),
    "reactions": Formula("reactions"),
    "replies": Formula("replies_received"),
    "thread_messages": Formula("answers"),
    "rphw": percent_of("reactions", "words"),
    "reactions_given": Formula("reactions_given"),
    "replies_in_period": Formula("answers"),
}
_CHANNEL: Final = {
    "percent": percent_of("words", "all_words"),
    "cpercent": percent_of("sum_words", "all_words"),
    "posters": Formula("posters"),
    "words_per_poster": Formula("words", "posters"),
}
_COMPARED_OF_USERS: Final = ("rphw", "thread_messages", "percent_of_words", "cum_percent_of_words")
_USERS_COMPARED: Final = {**_VOLUME, **{name: _USER[name] for name in _COMPARED_OF_USERS}}
_ROUNDED: Final = {"share_rounded": Formula("words", "all_words", 100, tenths=True)}
_CHANNELS_COMPARED: Final = {**_VOLUME, **_CHANNEL, **_ROUNDED}


def _shown(formulas: Mapping[str, Formula]) -> dict[str, pl.Expr]:
    return {name: formula.column().shown() for name, formula in formulas.items()}


def _changes(formulas: Mapping[str, Formula]) -> dict[str, pl.Expr]:
    return {
        name: changes(formula.column(), formula.column(before), pl.col("was"))
        for name, formula in formulas.items()
    }


_USER_STATS: Final = {"count": pl.concat_list(*SIZE), "rank": pl.col("place"), **_shown(_USER)}

# ── people ───────────────────────────────────────────────────────────────────────────────────────


def _enriched_users(now: PeriodRows) -> msgspec.Raw:
    """Of whoever wrote, reacted, was mentioned or was answered."""
    ways = interactions(now.slice)
    people = pl.concat([ways.everybody(), now.posters["person"]]).unique().sort().to_frame("person")
    for name in GROUPS:
        others = mappings(ways.ranked(name), "uid", "other", **{name: pl.col("n")})
        people = with_texts(people, "person", others)
    people = now.with_emoji(people, "person", now.posters)
    people = with_texts(people, "person", now.channels_of_people())
    people = now.with_top_lists(people, "person", "slack_uid")
    received = aggregated(now.slice, ("person",), ("times_used",))
    people = people.join(received, on="person", how="left", maintain_order="left")
    text = pieces(
        {"reaction_count": pl.col("times_used").fill_null(0)},
        *(*GROUPS, "emoji_rate", "enriched_channels"),
        reaction_popularity="emoji",
        reactions="most_reacted",
        replies="most_replied",
    )
    return mapping(people, "person", *text)


def _compared_users(now: PeriodRows, then: PeriodRows) -> msgspec.Raw:
    def with_groups(part: PeriodRows) -> pl.DataFrame:
        people = part.people
        for name in GROUPS:
            sizes = interactions(part.slice).sizes(name)
            people = people.join(sizes, on="person", how="left", maintain_order="left")
        return people.with_columns(pl.exclude("person", "place").fill_null(0))

    def from_zero(column: str) -> pl.Expr:
        return changes(ColumnQuantity(pl.col(column)), ColumnQuantity(before(column).fill_null(0)))

    groups = {
        name: pl.struct(total=from_zero(f"{name}_total"), people=from_zero(f"{name}_people"))
        for name in GROUPS
    }
    rows = beside(with_groups(now), with_groups(then), "person")
    compared = {**_changes(_USERS_COMPARED), "people": together(groups)}
    return mapping(rows, "person", objects(compared))


# ── channels ─────────────────────────────────────────────────────────────────────────────────────


def _channel_stats(now: PeriodRows) -> msgspec.Raw:
    rows = now.listed.join(now.known, on="channel", how="left", maintain_order="left")
    more = {"new": pl.col("new").fill_null(value=False), "members": pl.col("members")}
    return mapping(rows, "channel", objects({**_shown(_CHANNEL), **more}))


def _enriched_channels(now: PeriodRows) -> msgspec.Raw:
    channels = now.with_emoji(now.listed, "channel", now.listed)
    channels = now.with_posting(channels, "channel")
    channels = now.with_top_lists(channels, "channel", "slack_cid")
    count = {"reaction_count": pl.col("reactions")}
    texts = ("emoji_rate", *TOP_LISTS.values(), *POSTING)
    return mapping(channels, "channel", *pieces(count, *texts, reactions="emoji"))


def _compared_channels(now: PeriodRows, then: PeriodRows) -> msgspec.Raw:
    people = beside(now.channel_people, then.channel_people, "channel", "person")
    users = mappings(people, "channel", "person", users=objects(_changes(_VOLUME)))
    rows = with_texts(beside(now.listed, then.channels, "channel"), "channel", users)
    return mapping(rows, "channel", *pieces(_changes(_CHANNELS_COMPARED), "users"))


# ── when, and with which emoji ───────────────────────────────────────────────────────────────────


def _compared_weekdays(now: PeriodRows, then: PeriodRows) -> msgspec.Raw:
    def sizes(part: PeriodRows) -> pl.DataFrame:
        days = pl.DataFrame({"weekday": range(7)}, {"weekday": pl.Int64()})
        known = part.sizes("weekday").cast({"weekday": pl.Int64()})
        return days.join(known, on="weekday", how="left", maintain_order="left").fill_null(0)

    rows = beside(sizes(now), sizes(then), "weekday")
    return mapping(rows, "weekday", objects(_changes(_VOLUME)))


def _thirds_of_days(now: PeriodRows) -> Json:
    shares = now.shares_of_hours()
    return {str(third): fsum(shares[8 * third : 8 * third + 8]) for third in range(3)}


# ── the whole ────────────────────────────────────────────────────────────────────────────────────


def _statistics(part: PeriodRows) -> dict[str, Quantity]:
    first = part.slice.facts.first_posts.filter(part.slice.period.covers()).height
    numbers = {name: figure(volume(part.slice)) for name, figure in STATISTICS.items()}
    return {**numbers, "first-time posters": first}


def _shown_statistics(now: PeriodRows) -> Json:
    by = volume(now.slice)
    return {
        **{name: shown(figure) for name, figure in _statistics(now).items()},
        "50percent users for messages": authors_of_half(by.by_messages, by.messages_each),
        "50percent users for words": authors_of_half(by.by_words, by.words_each),
    }


def _new_statistics(now: Slice, then: Slice) -> Part:
    counted = ("threads_started", "replies", "messages", "top_level")
    of_threads = ("unanswered", "answered", FIRST_REPLY.name, FIRST_REPLY_P90.name)
    row = aggregated(now, (), (*counted, *of_threads)).row(0, named=True)
    posters, earlier = (set(part.messages["slack_uid"].unique()) for part in (now, then))
    first = dict(now.facts.first_posts.select("slack_uid", "ts").iter_rows())
    daily = dict(aggregated(now, ("day",), ("posters",)).iter_rows())
    days = {day.isoformat(): daily.get(at, 0) for at, day in enumerate(now.period.dates)}
    edges = mappings(interactions(now).ranked_edges(), "one", "other", edges=pl.col("n"))
    return {
        "threads_started": row["threads_started"],
        "thread_share": shown(ratio(row["replies"], row["messages"])),
        "first_reply": {
            "count": row["answered"],
            "median": row[FIRST_REPLY.name],
            "p90": row[FIRST_REPLY_P90.name],
        },
        "top_level": row["top_level"],
        "unanswered": row["unanswered"],
        "gini_of_words": shown(gini(volume(now).words_each)),
        "daily_posters": days,
        "daily_posters_mean": shown(ratio(sum(days.values()), len(days))),
        "wau": weekly(now),
        "mau": monthly(now),
        "retention": retention(posters, earlier, first, now.period),
        "edges": mapping(edges, "one", pl.col("edges")),
        "huddles": huddles(now),
        "bot_share": shown(bot_share(now)),
    }


_OF_PERIOD: Final[Mapping[str, Callable[[PeriodRows], Part]]] = {
    "statistics": _shown_statistics,
    "users": lambda now: mapping(now.posters, "person", PAIR),
    "user_stats": lambda now: mapping(
        now.with_posting(now.people, "person"), "person", *pieces(_USER_STATS, *POSTING)
    ),
    "enriched_user": _enriched_users,
    "channels": lambda now: mapping(now.listed, "channel", PAIR),
    "channel_stats": _channel_stats,
    "channel_user": lambda now: mapping(now.with_people, "channel", pl.col("people")),
    "enriched_channel": _enriched_channels,
    "weekday": lambda now: mapping(now.sizes("utc_weekday"), "utc_weekday", PAIR),
    "hour": lambda now: mapping(now.sizes("utc_hour"), "utc_hour", PAIR),
    "user_weekday": lambda now: mapping(now.sizes("weekday"), "weekday", PAIR),
    "user_weekday_hour": lambda now: mapping(now.sizes("hour", "workdays"), "hour", PAIR),
    "weekday_activity_percentage": lambda now: dict(enumerate(now.shares_of_hours())),
    "weekday_activity_percentage_periods": _thirds_of_days,
    "weekday_actity_percentage_periods": _thirds_of_days,  # the name that it has always had
    "timezone": lambda now: mapping(now.zones(), "tz", PAIR),
    "posters_per_timezone": lambda now: {
        tz: dict.fromkeys(people, 1)
        for tz, people in now.zones().select("tz", "people").iter_rows()
    },
    "reaction": lambda now: mapping(now.emoji(), "emoji", pl.col("times_used")),
    "emoji_rate": lambda now: mapping(now.emoji(), "emoji", EMOJI_RATE),
    "reaction_count": lambda now: now.top_messages(REACTED),
    "reply_count": lambda now: now.top_messages(REPLIED),
}
"""Every key of the document that is about the period alone."""

_COMPARED: Final[Mapping[str, Callable[[PeriodRows, PeriodRows], Part]]] = {
    "statistics": lambda now, then: {
        name: change(figure, earlier)
        for (name, figure), earlier in zip(
            _statistics(now).items(), _statistics(then).values(), strict=True
        )
    },
    "user_weekday": _compared_weekdays,
    "channels": _compared_channels,
    "users": _compared_users,
}
"""Those of `compared`, about the period and the one before."""


def report(
    inputs: Inputs,
    period: Period,
    options: Options,
    *,
    generated_at: int,
    made_from: str = "",
    smallest_group: int = 1,
) -> bytes:
    """Return the document of a period as JSON. ``generated_at`` is in seconds since the epoch,
    ``made_from`` is added to the fingerprint of the inputs, ``smallest_group`` is that of
    `SmallGroups`.
    """
    facts = Facts(inputs, options)
    slices = facts.slice(period), facts.slice(period.previous)
    groups = SmallGroups(slices[0], smallest_group)
    now, then = (PeriodRows(part, groups, inputs.channels) for part in slices)
    document: dict[str, Part] = {
        "schema_version": SCHEMA_VERSION,
        "profile": "modern",  # there were others
        "report_timezone": period.zone.key,
        "generated_at": generated_at,
        "input_fingerprint": "/".join(filter(None, (*map(_fingerprint, slices), made_from))),
        "start_date": period.start.isoformat(),
        "end_date": period.last.isoformat(),
        "days": period.days,
        **{key: make(now) for key, make in _OF_PERIOD.items()},
        "new_statistics": _new_statistics(*slices),
        "compared": {key: make(now, then) for key, make in _COMPARED.items()},
    }
    del facts, slices, groups, now, then  # Before the parts, which are large, are put together.
    return msgspec.json.encode(document)


def _fingerprint(part: Slice) -> str:
    """What a report was made from, in short: how many messages, how recent, sums over them."""
    sums = pl.sum("word_count", "reaction_count", "reply_count")
    numbers = part.messages.select(pl.len(), pl.max("fetched_at"), sums).fill_null(0)
    return "-".join(map(str, numbers.row(0)))
