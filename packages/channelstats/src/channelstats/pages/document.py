"""The document of a period as JSON, with the one before beside it: a list of queries.

Rule: the same facts make the same document, down to the order of its keys; ranked things are in the
order of their ranks, here by words. What had no entry in the period before is new; what had one and
nothing in it counts as 0. Of people and channels there may be hundreds of thousands, so rows become
text in columns and never Python objects.
"""

from collections.abc import Callable, Iterator, Mapping
from math import fsum
from typing import Final

import msgspec
import polars as pl

from channelstats.facts.facts import REACTED, REPLIED, Facts, Slice
from channelstats.facts.interactions import GROUPS, interactions
from channelstats.facts.periods import Period
from channelstats.facts.reading import Inputs, Options
from channelstats.metrics.json_text import (
    Json,
    Part,
    floats,
    joined,
    lists,
    mapping,
    mappings,
    object_of,
    objects,
    pairs,
    quoted,
    together,
    with_texts,
)
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
    ranked,
    ratio,
    shown,
)
from channelstats.metrics.query import BY_WORDS, aggregated, entries
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
from channelstats.pages.small_groups import SmallGroups
from channelstats.tables.columns import timestamps
from channelstats.tables.directory import Channel

SCHEMA_VERSION: Final = 1
TOP_MESSAGES: Final = 10
"""Messages that are listed of everybody, of a channel, of an author."""

_HOURS: Final = range(24)
_THIRDS: Final = {"0": range(8), "1": range(8, 16), "2": range(16, 24)}
_TOP_LISTS: Final = {REACTED: "most_reacted", REPLIED: "most_replied"}
_POSTING: Final = {"posting_days": ("weekday", "timed"), "posting_hours": ("hour", "workdays")}

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

_VOLUME: Final = {"messages": Formula("messages"), "words": Formula("words")}
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
_USERS_COMPARED: Final = {
    **_VOLUME,
    **{
        name: _USER[name]
        for name in ("rphw", "thread_messages", "percent_of_words", "cum_percent_of_words")
    },
}
_CHANNELS_COMPARED: Final = {
    **_VOLUME,
    **_CHANNEL,
    "share_rounded": Formula("words", "all_words", 100, tenths=True),
}
_RATE: Final = Formula("times_used", "words", 1000)


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
    now, then = facts.slice(period), facts.slice(period.previous)
    groups = SmallGroups(now, smallest_group)
    document: dict[str, Part] = {
        "schema_version": SCHEMA_VERSION,
        "profile": "modern",  # there were others
        "report_timezone": period.zone.key,
        "generated_at": generated_at,
        "input_fingerprint": "/".join(filter(None, (*map(_fingerprint, (now, then)), made_from))),
        "start_date": period.start.isoformat(),
        "end_date": period.last.isoformat(),
        "days": period.days,
        "statistics": {name: shown(figure) for name, figure in _statistics(now).items()}
        | _of_half(now),
        **_people(now, groups, inputs.channels),
        **_channels(now, groups, inputs.channels),
        **_times(now, groups),
        **_reactions(now, groups),
        "new_statistics": _new_statistics(now, then),
        "compared": {
            "statistics": _compared_statistics(now, then),
            "user_weekday": _compared_weekdays(now, then),
            "channels": _compared_channels(now, then, groups),
            "users": _compared_users(now, then),
        },
    }
    del facts, now, then, groups  # Before the parts, which are large, are put together.
    return msgspec.json.encode(document)


def _fingerprint(part: Slice) -> str:
    """What a report was made from, in short: how many messages, how recent, sums over them."""
    sums = pl.sum("word_count", "reaction_count", "reply_count")
    numbers = part.messages.select(pl.len(), pl.max("fetched_at"), sums).fill_null(0)
    return "-".join(map(str, numbers.row(0)))


# ── the whole ────────────────────────────────────────────────────────────────────────────────────


def _statistics(part: Slice) -> dict[str, Quantity]:
    first = part.facts.first_posts.filter(part.period.covers()).height
    numbers = {name: figure(volume(part)) for name, figure in STATISTICS.items()}
    return {**numbers, "first-time posters": first}


def _of_half(part: Slice) -> dict[str, Json]:
    by = volume(part)
    return {
        "50percent users for messages": authors_of_half(by.by_messages, by.messages_each),
        "50percent users for words": authors_of_half(by.by_words, by.words_each),
    }


def _compared_statistics(now: Slice, then: Slice) -> dict[str, Part]:
    earlier = _statistics(then)
    return {name: change(figure, earlier[name]) for name, figure in _statistics(now).items()}


def _new_statistics(now: Slice, then: Slice) -> dict[str, Part]:
    counted = ("threads_started", "replies", "messages", "top_level")
    of_threads = ("unanswered", "answered", FIRST_REPLY.name, FIRST_REPLY_P90.name)
    row = aggregated(now, (), (*counted, *of_threads)).row(0, named=True)
    posters, earlier = (set(part.messages["slack_uid"].unique()) for part in (now, then))
    first = dict(now.facts.first_posts.select("slack_uid", "ts").iter_rows())
    daily = dict(aggregated(now, ("day",), ("posters",)).iter_rows())
    days = {day.isoformat(): daily.get(at, 0) for at, day in enumerate(now.period.dates)}
    edges = mappings(interactions(now).edge_frame, "one", "other", edges=pl.col("n"))
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


# ── people ───────────────────────────────────────────────────────────────────────────────────────


def _everybody(part: Slice) -> pl.DataFrame:
    """Whoever wrote, ranked, then who was answered in own threads, by ID."""
    names = ("reactions", "replies_received", "reactions_given")
    return entries(part, "person", names, BY_WORDS)


def _people(now: Slice, groups: SmallGroups, channels: Mapping[str, Channel]) -> dict[str, Part]:
    people = _everybody(now)
    posters = people.filter(pl.col("messages") > 0)
    figures = {name: formula.column().shown() for name, formula in _USER.items()}
    count = pl.concat_list("messages", "words")
    stats = objects(count=count, rank=pl.col("place"), **figures)
    posting = with_texts(people, "person", *_posting(now, "person"))
    return {
        "users": mapping(posters, "person", pairs()),
        "user_stats": mapping(posting, "person", *joined(stats, **_columns(*_POSTING))),
        "enriched_user": _enriched_people(now, groups, channels, posters),
    }


def _enriched_people(
    now: Slice, groups: SmallGroups, channels: Mapping[str, Channel], posters: pl.DataFrame
) -> msgspec.Raw:
    ways = interactions(now)
    everybody = pl.concat([ways.everybody(), posters["person"]]).unique().sort()
    people = everybody.to_frame("person")
    for name in GROUPS:
        others = mappings(ways.ranked(name), "uid", "other", **{name: pl.col("n")})
        people = with_texts(people, "person", others)
    people = with_texts(
        people, "person", _emoji(now, "author", posters), _channels_of_people(now, groups, channels)
    )
    people = _with_top_lists(people, now, groups, "slack_uid", "person")
    received = aggregated(now, ("author",), ("times_used",))
    people = people.join(
        received, left_on="person", right_on="author", how="left", maintain_order="left"
    )
    text = object_of(
        **_columns(*GROUPS),
        reaction_popularity=pl.col("emoji"),
        reaction_count=pl.col("times_used").fill_null(0),
        emoji_rate=pl.col("emoji_rate"),
        reactions=pl.col("most_reacted"),
        replies=pl.col("most_replied"),
        enriched_channels=pl.col("enriched_channels"),
    )
    return mapping(people, "person", *text)


def _channels_of_people(
    now: Slice, groups: SmallGroups, channels: Mapping[str, Channel]
) -> pl.DataFrame:
    """The channels in which each author has words, the most words first."""
    names = pl.DataFrame(
        {"channel": list(channels), "name": [channel.name for channel in channels.values()]},
        {"channel": pl.Categorical(), "name": pl.String()},
    )
    rows = (
        groups.listable(_channel_people(now), "channel")
        .with_columns(all_words=pl.col("words").sum().over("channel"))
        .filter(pl.col("words") > 0)
        .join(names, on="channel", how="left")
        .sort(-pl.col("words"), -pl.col("messages"), "channel")
    )
    channel = objects(
        slack_cid=pl.col("channel"),
        name=pl.coalesce("name", "channel"),
        rank=pl.col("rank"),
        words=pl.col("words"),
        messages=pl.col("messages"),
        percent=percent_of("words", "all_words").column().shown(),
    )
    return mappings(rows, "person", "channel", enriched_channels=channel)


def _compared_users(now: Slice, then: Slice) -> msgspec.Raw:
    def with_groups(part: Slice) -> pl.DataFrame:
        people = _everybody(part)
        for name in GROUPS:
            sizes = interactions(part).sizes(name)
            people = people.join(sizes, on="person", how="left", maintain_order="left")
        return people.with_columns(pl.exclude("person", "place").fill_null(0))

    rows = beside(with_groups(now), with_groups(then), "person")
    people = {
        name: together(total=_from_zero(f"{name}_total"), people=_from_zero(f"{name}_people"))
        for name in GROUPS
    }
    return mapping(rows, "person", objects(**_changes(_USERS_COMPARED), people=together(**people)))


# ── channels ─────────────────────────────────────────────────────────────────────────────────────


def _every_channel(part: Slice) -> pl.DataFrame:
    return entries(part, "channel", ("posters", "reactions"), BY_WORDS)


def _channel_people(part: Slice) -> pl.DataFrame:
    """Each author in each channel, with the `rank` there; channels by ID, authors by rank."""
    sizes = aggregated(part, ("channel", "person"), ("messages", "words"))
    return (
        ranked(sizes, BY_WORDS, "person")
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over("channel"))
        .sort("channel", maintain_order=True)
    )


def _channels(now: Slice, groups: SmallGroups, known: Mapping[str, Channel]) -> dict[str, Part]:
    channels = groups.listable(_every_channel(now), "channel")
    people = mappings(_channel_people(now), "channel", "person", people=pairs())
    about = pl.DataFrame(
        [
            (cid, channel.created > now.period.begin, channel.members)
            for cid, channel in known.items()
        ],
        {"channel": pl.Categorical(), "new": pl.Boolean(), "members": pl.Int64()},
        orient="row",
    )
    told = channels.join(about, on="channel", how="left", maintain_order="left")
    stats = objects(
        **{name: formula.column().shown() for name, formula in _CHANNEL.items()},
        new=pl.col("new").fill_null(value=False),
        members=pl.col("members"),
    )
    enriched = with_texts(
        channels, "channel", _emoji(now, "channel", channels), *_posting(now, "channel")
    )
    text = joined(
        objects(reaction_count=pl.col("reactions")),
        reactions=pl.col("emoji"),
        **_columns("emoji_rate", *_TOP_LISTS.values(), *_POSTING),
    )
    enriched = _with_top_lists(enriched, now, groups, "slack_cid", "channel")
    with_people = with_texts(channels, "channel", people)
    return {
        "channels": mapping(channels, "channel", pairs()),
        "channel_stats": mapping(told, "channel", stats),
        "channel_user": mapping(with_people, "channel", pl.col("people")),
        "enriched_channel": mapping(enriched, "channel", *text),
    }


def _compared_channels(now: Slice, then: Slice, groups: SmallGroups) -> msgspec.Raw:
    people = beside(_channel_people(now), _channel_people(then), "channel", "person")
    users = mappings(people, "channel", "person", users=objects(**_changes(_VOLUME)))
    channels = groups.listable(_every_channel(now), "channel")
    rows = beside(channels, _every_channel(then), "channel")
    text = joined(objects(**_changes(_CHANNELS_COMPARED)), users=pl.col("users"))
    return mapping(with_texts(rows, "channel", users), "channel", *text)


# ── when, and with which emoji ───────────────────────────────────────────────────────────────────


def _volumes(part: Slice, by: str, table: str = "") -> dict[int, list[int]]:
    """Messages and words of what has any, in the order of steps."""
    rows = aggregated(part, (by,), ("messages", "words"), table=table).sort(by)
    return {step: [messages, words] for step, messages, words in rows.iter_rows()}


def _times(now: Slice, groups: SmallGroups) -> dict[str, Part]:
    by_hour = aggregated(now, ("person", "hour"), ("messages", "words"), table="workdays")
    share = pl.col("messages") / pl.col("messages").sum().over("person")
    each = dict(by_hour.with_columns(share=share).group_by("hour").agg("share").iter_rows())
    authors = max(by_hour["person"].n_unique(), 1)
    shares = [100 * fsum(each.get(hour, ())) / authors for hour in _HOURS]
    thirds = {name: fsum(shares[hour] for hour in hours) for name, hours in _THIRDS.items()}
    return {
        "weekday": _by_text(_volumes(now, "utc_weekday")),
        "hour": _by_text(_volumes(now, "utc_hour")),
        "user_weekday": _by_text(_volumes(now, "weekday")),
        "user_weekday_hour": _by_text(_volumes(now, "hour", "workdays")),
        "weekday_activity_percentage": {str(hour): share for hour, share in enumerate(shares)},
        "weekday_activity_percentage_periods": thirds,
        "weekday_actity_percentage_periods": thirds,  # the name that it has always had
        **_zones(now, groups),
    }


def _by_text(volumes: Mapping[int, Json]) -> dict[str, Json]:
    return {str(step): volume for step, volume in volumes.items()}


def _zones(now: Slice, groups: SmallGroups) -> dict[str, Json]:
    people = aggregated(now, ("person",), ("messages", "words"))
    people = people.join(now.facts.zones, left_on="person", right_on="slack_uid").sort("person")
    sizes = people.group_by("tz").agg(pl.col("messages", "words").sum(), posters=pl.len())
    zones = ranked(sizes.filter(pl.col("posters") >= groups.smallest), BY_WORDS, "tz")
    posters: dict[str, dict[str, int]] = {tz: {} for tz in zones["tz"]}
    for uid, tz in people.select("person", "tz").iter_rows():
        if tz in posters:
            posters[tz][uid] = 1
    volumes = zones.select("tz", "messages", "words").iter_rows()
    return {
        "timezone": {tz: [messages, words] for tz, messages, words in volumes},
        "posters_per_timezone": posters,
    }


def _compared_weekdays(now: Slice, then: Slice) -> dict[str, Part]:
    weeks = [_volumes(part, "weekday") for part in (now, then)]
    compared: dict[str, Part] = {}
    for day in range(7):
        (messages, words), (messages_before, words_before) = (
            week.get(day, [0, 0]) for week in weeks
        )
        compared[str(day)] = {
            "messages": change(messages, messages_before),
            "words": change(words, words_before),
        }
    return compared


def _posting(now: Slice, whose: str) -> Iterator[pl.DataFrame]:
    """When each posts: `posting_days`, and of their Monday to Friday `posting_hours`."""
    for name, (step, table) in _POSTING.items():
        volumes = aggregated(now, (whose, step), ("messages", "words"), table=table).sort(step)
        yield mappings(volumes, whose, step, **{name: pairs()})


def _reactions(now: Slice, groups: SmallGroups) -> dict[str, Part]:
    used = ranked(aggregated(now, ("emoji",), ("times_used",)), ["times_used"], "emoji")
    given = dict(used.iter_rows())
    words = volume(now).words
    most = {count: groups.listable(now.top(count)).head(TOP_MESSAGES) for count in _TOP_LISTS}
    entries = {
        count: msgspec.Raw(f"[{','.join(top.select(_top_entry()).to_series())}]")
        for count, top in most.items()
    }
    rates = {name: shown(ratio(1000 * number, words)) for name, number in given.items()}
    return {
        "reaction": given,
        "emoji_rate": rates,
        "reaction_count": entries[REACTED],
        "reply_count": entries[REPLIED],
    }


def _emoji(now: Slice, whose: str, words: pl.DataFrame) -> pl.DataFrame:
    """How often each emoji was used on messages of each, `emoji`, and per 1000 of their words,
    `emoji_rate`.
    """
    key = "person" if whose == "author" else whose
    used = ranked(aggregated(now, (whose, "emoji"), ("times_used",)), ["times_used"], "emoji")
    used = used.rename({whose: key}).join(
        words.select(key, "words"), on=key, how="left", maintain_order="left"
    )
    rate = floats(_RATE.column().shown())
    return mappings(used, key, "emoji", emoji=pl.col("times_used"), emoji_rate=rate)


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


def _with_top_lists(
    rows: pl.DataFrame, now: Slice, groups: SmallGroups, whose: str, key: str
) -> pl.DataFrame:
    """With the most reacted and the most replied messages of each."""
    for count, name in _TOP_LISTS.items():
        top = groups.listable(now.top(count)).group_by(whose, maintain_order=True)
        entries = top.head(TOP_MESSAGES).select(whose, text=_top_entry())
        each = entries.group_by(whose, maintain_order=True).agg("text")
        texts = each.select(whose, lists(pl.col("text").list.join(",")).alias(name))
        rows = with_texts(rows, key, texts, empty="[]")
    return rows


def _top_entry() -> pl.Expr:
    """`[count, ts, channel, author, thread or null]`."""
    ts, thread = quoted(timestamps("ts")), quoted(timestamps("thread_ts"))
    written = quoted(pl.col("slack_cid")), quoted(pl.col("slack_uid"))
    return lists(pl.col("count"), ts, *written, pl.coalesce(thread, pl.lit("null")))


def _columns(*names: str) -> dict[str, pl.Expr]:
    return {name: pl.col(name) for name in names}


def _changes(formulas: Mapping[str, Formula]) -> dict[str, pl.Expr]:
    return {
        name: changes(formula.column(), formula.column(before), pl.col("was"))
        for name, formula in formulas.items()
    }


def _from_zero(column: str) -> pl.Expr:
    """The change of a column, from zero for one without an entry before."""
    return changes(ColumnQuantity(pl.col(column)), ColumnQuantity(before(column).fill_null(0)))
