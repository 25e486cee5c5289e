"""The report document: everything of a period, with the one before beside it.

Rule: the same inputs make the same document, down to the order of its keys; ranked things are in
the order of their ranks.
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

from channelstats.identifiers import microseconds
from channelstats.stats import activity, authors, channels, people, top_messages
from channelstats.stats.compared import compared
from channelstats.stats.conversation import new_statistics
from channelstats.stats.inputs import Inputs, Options
from channelstats.stats.measures import Measures
from channelstats.stats.period import Period
from channelstats.stats.quantities import shown
from channelstats.stats.shapes import per_thousand
from channelstats.stats.talk import Said, Talk
from channelstats.stats.values import Json
from channelstats.stats.volume import AUTHORS_OF_HALF
from channelstats.stats.zones import LocalTimes
from channelstats.tables.configuration import counts_at
from channelstats.tables.first_posts import earliest

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True)
class Report:
    """A document, and the zones of users that zoneinfo does not know."""

    document: dict[str, Json]
    unknown_zones: list[str]


def report(inputs: Inputs, period: Period, options: Options, *, generated_at: int) -> Report:
    """Return the report of a period; ``generated_at`` is in seconds since the epoch."""
    talk = Talk(inputs.messages, inputs.users, options.counting)
    before = period.previous
    local = LocalTimes(inputs.users, options, before.begin, period.end)
    first_posts = _first_posts(inputs, talk)

    def measured(days: Period) -> Measures:
        said = Said(talk, days, local, merge_skin_tones=options.merge_skin_tones)
        return Measures(said, counts_at(inputs.counts, days.last), first_posts)

    now, then = measured(period), measured(before)
    document: dict[str, Json] = {
        "schema_version": SCHEMA_VERSION,
        "profile": str(options.counting.profile),
        "report_timezone": period.zone.key,
        "generated_at": generated_at,
        "input_fingerprint": fingerprint(now.said, then.said),
        "start_date": period.start.isoformat(),
        "end_date": period.last.isoformat(),
        "days": period.days,
        **_volume(now),
        **_authors(now, inputs),
        **_channels(now, inputs),
        **_time(now),
        **_reactions(now),
        "new_statistics": new_statistics(now.said, then.said, now.dealings, first_posts),
        "compared": compared(now, then),
    }
    return Report(document, local.unknown)


def fingerprint(*said: Said) -> str:
    """What a report was made from, in short: of each period how many messages, how recent, and sums
    over them.
    """
    parts = ("word_count", "reaction_count", "reply_count")
    of_each = (of.messages.select(pl.len(), pl.max("fetched_at"), pl.sum(*parts)) for of in said)
    return "/".join("-".join(map(str, frame.fill_null(0).row(0))) for frame in of_each)


def _first_posts(inputs: Inputs, talk: Talk) -> pl.DataFrame:
    """First posts of those whom the profile counts, as `slack_uid` and `ts` in microseconds."""
    if inputs.first_posts is None:
        return earliest(talk.counted).select("slack_uid", "ts")
    dropped = talk.bots if talk.counting.drops_bots else frozenset()
    known = {uid: post for uid, post in inputs.first_posts.items() if uid not in dropped}
    times = [microseconds(post.message_id) for post in known.values()]
    return pl.DataFrame(
        {"slack_uid": list(known), "ts": times}, {"slack_uid": pl.String, "ts": pl.Int64}
    )


def _volume(now: Measures) -> dict[str, Json]:
    return {
        "statistics": {
            **{name: shown(figure) for name, figure in now.statistics.items()},
            **{name: list_of(now.volume) for name, list_of in AUTHORS_OF_HALF.items()},
        }
    }


def _authors(now: Measures, inputs: Inputs) -> dict[str, Json]:
    days, hours = activity.posting(now.said, "slack_uid")
    words = {author.slack_uid: author.w for author in now.posters}
    return {
        "users": {author.slack_uid: [author.m, author.w] for author in now.posters},
        "user_stats": {
            author.slack_uid: {
                "count": [author.m, author.w],
                "rank": author.rank,
                **{name: shown(figure(author)) for name, figure in authors.FIGURES.items()},
                "posting_days": days.get(author.slack_uid, {}),
                "posting_hours": hours.get(author.slack_uid, {}),
            }
            for author in now.authors
        },
        "enriched_user": people.enriched_users(
            now.said, now.dealings, now.channel_authors, words, inputs.channels
        ),
    }


def _channels(now: Measures, inputs: Inputs) -> dict[str, Json]:
    return {
        "channels": {of.slack_cid: [of.m, of.w] for of in now.channels},
        "channel_stats": channels.channel_stats(now.channels, inputs.channels, now.said.period),
        "channel_user": channels.channel_users(now.channels, now.channel_authors),
        "enriched_channel": channels.enriched_channels(now.said, now.channels),
    }


def _time(now: Measures) -> dict[str, Json]:
    shares = activity.shares(now.said)
    periods = activity.shares_of_periods(shares)
    return {
        **activity.utc(now.said),
        **activity.local(now.said),
        "weekday_activity_percentage": shares,
        "weekday_activity_percentage_periods": periods,
        "weekday_actity_percentage_periods": periods,  # the name that it has always had
        **activity.timezones(now.said),
    }


def _reactions(now: Measures) -> dict[str, Json]:
    given = people.emoji(now.said).get("", {})
    return {
        "reaction": given,
        "emoji_rate": per_thousand(given, now.volume.words),
        "reaction_count": top_messages.of_all(now.said, top_messages.REACTED),
        "reply_count": top_messages.of_all(now.said, top_messages.REPLIED),
    }
