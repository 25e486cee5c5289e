"""The report document: everything of a period, with the one before beside it.

Rule: the same inputs make the same document, down to the order of its keys; ranked things are in
the order of their ranks.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec
import polars as pl

from channelstats.identifiers import microseconds
from channelstats.stats import authors, channels, interactions
from channelstats.stats.activity import shares_of_periods
from channelstats.stats.compared import compared
from channelstats.stats.conversation import new_statistics
from channelstats.stats.inputs import Inputs, Options
from channelstats.stats.json_text import Json, Part, mapping, pairs
from channelstats.stats.measures import AUTHORS_OF_HALF, Measures
from channelstats.stats.messages import REACTED, REPLIED, CountedMessages, PeriodMessages
from channelstats.stats.period import Period
from channelstats.stats.quantities import shown
from channelstats.stats.shapes import per_thousand
from channelstats.stats.small_groups import SmallGroups
from channelstats.stats.top_messages import TopMessages
from channelstats.stats.zones import LocalTimes
from channelstats.tables.configuration import counts_at
from channelstats.tables.first_posts import earliest

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True)
class ReportDocument:
    """A document as JSON, and the zones of users that zoneinfo does not know."""

    json: bytes
    unknown_zones: list[str]

    @cached_property
    def document(self) -> dict[str, Json]:
        """The document as dictionaries: of a large workspace, millions of them."""
        return msgspec.json.decode(self.json, type=dict[str, Any])


def report(
    inputs: Inputs,
    period: Period,
    options: Options,
    *,
    generated_at: int,
    made_from: str = "",
    smallest_group: int = 1,
) -> ReportDocument:
    """Return the report of a period; ``generated_at`` is in seconds since the epoch, ``made_from``
    is added to the fingerprint of the inputs, ``smallest_group`` is that of `SmallGroups`.
    """
    counted_messages = CountedMessages(
        inputs.messages, inputs.users, options.counting, hides_times=inputs.hides_times
    )
    before = period.previous
    local = LocalTimes(inputs.users, options, before.begin, period.end)
    first_posts = first_posts_of(inputs, counted_messages)

    def measured(days: Period) -> Measures:
        period_messages = PeriodMessages(
            counted_messages, days, local, merge_skin_tones=options.merge_skin_tones
        )
        return Measures(period_messages, counts_at(inputs.counts, days.last), first_posts)

    now, then = measured(period), measured(before)
    groups = SmallGroups(now, smallest_group)
    top = TopMessages(now.period_messages, groups.listable)
    made_of = fingerprint(now.period_messages, then.period_messages) + (
        made_from and f"/{made_from}"
    )
    document: dict[str, Part] = {
        "schema_version": SCHEMA_VERSION,
        "profile": str(options.counting.profile),
        "report_timezone": period.zone.key,
        "generated_at": generated_at,
        # It tells when the newest message was written.
        "input_fingerprint": made_of if inputs.mark is None else inputs.mark(made_of),
        "start_date": period.start.isoformat(),
        "end_date": period.last.isoformat(),
        "days": period.days,
        **_volume(now),
        **_authors(now, inputs, groups, top),
        **_channels(now, inputs, groups, top),
        **_time(now, groups),
        **_reactions(now, top),
        "new_statistics": new_statistics(
            now.period_messages, then.period_messages, now.interactions, first_posts
        ),
        "compared": compared(now, then, groups.listable(now.channel_frame)),
    }
    return ReportDocument(msgspec.json.encode(document), local.unknown)


def fingerprint(*period_messages: PeriodMessages) -> str:
    """What a report was made from, in short: of each period how many messages, how recent, and sums
    over them.
    """
    parts = ("word_count", "reaction_count", "reply_count")
    of_each = (
        of.messages.select(pl.len(), pl.max("fetched_at"), pl.sum(*parts)) for of in period_messages
    )
    return "/".join("-".join(map(str, frame.fill_null(0).row(0))) for frame in of_each)


def first_posts_of(inputs: Inputs, counted_messages: CountedMessages) -> pl.DataFrame:
    """First posts of those whom the profile counts: `slack_uid`, `ts` in microseconds and
    `slack_cid`.
    """
    if inputs.first_posts is None:
        return earliest(counted_messages.counted)
    dropped = counted_messages.bots if counted_messages.counting.drops_bots else frozenset()
    known = {uid: post for uid, post in inputs.first_posts.items() if uid not in dropped}
    times = [microseconds(post.message_id) for post in known.values()]
    return pl.DataFrame(
        {
            "slack_uid": list(known),
            "ts": times,
            "slack_cid": [post.slack_cid for post in known.values()],
        },
        {"slack_uid": pl.String, "ts": pl.Int64, "slack_cid": pl.String},
    )


def _volume(now: Measures) -> dict[str, Json]:
    return {
        "statistics": {
            **{name: shown(figure) for name, figure in now.statistics.items()},
            **{name: list_of(now.volume) for name, list_of in AUTHORS_OF_HALF.items()},
        }
    }


def _authors(
    now: Measures, inputs: Inputs, groups: SmallGroups, top: TopMessages
) -> dict[str, Part]:
    posters = now.poster_frame
    return {
        "users": mapping(posters, "slack_uid", pairs()),
        "user_stats": authors.user_stats(now.author_frame, now.activity),
        "enriched_user": interactions.enriched_users(
            now.period_messages,
            now.interactions,
            groups.listable(now.channel_authors),
            posters,
            inputs.channels,
            top,
        ),
    }


def _channels(
    now: Measures, inputs: Inputs, groups: SmallGroups, top: TopMessages
) -> dict[str, Part]:
    frame = groups.listable(now.channel_frame)
    found = [of for of in now.channels if groups.shows(of.slack_cid)]
    return {
        "channels": mapping(frame, "slack_cid", pairs()),
        "channel_stats": channels.channel_stats(found, inputs.channels, now.period_messages.period),
        "channel_user": channels.channel_users(frame, now.channel_authors),
        "enriched_channel": channels.enriched_channels(
            now.period_messages, now.activity, frame, top
        ),
    }


def _time(now: Measures, groups: SmallGroups) -> dict[str, Json]:
    activity = now.activity
    shares = activity.shares()
    periods = shares_of_periods(shares)
    return {
        **activity.utc(),
        "user_weekday": activity.local_days(),
        "user_weekday_hour": activity.local_hours(),
        "weekday_activity_percentage": shares,
        "weekday_activity_percentage_periods": periods,
        "weekday_actity_percentage_periods": periods,  # the name that it has always had
        **activity.timezones(groups.shows_zone),
    }


def _reactions(now: Measures, top: TopMessages) -> dict[str, Part]:
    given = now.period_messages.emoji()
    return {
        "reaction": given,
        "emoji_rate": per_thousand(given, now.volume.words),
        "reaction_count": top.of_all(REACTED),
        "reply_count": top.of_all(REPLIED),
    }
