"""A period against the one before (`compared`).

Rule: what had no entry before is new; what had one and nothing in it counts as 0.
"""

from collections.abc import Mapping

from channelstats.stats import activity, authors, channels
from channelstats.stats.authors import Author
from channelstats.stats.channels import ChannelTalk
from channelstats.stats.compare import change
from channelstats.stats.measures import Measures
from channelstats.stats.people import GROUPS
from channelstats.stats.shapes import Pair, nested_pairs
from channelstats.stats.values import Change, Json


def compared(now: Measures, before: Measures) -> dict[str, Json]:
    """All comparisons of a period with the one before."""
    return {
        "statistics": {
            name: change(figure, before.statistics[name]) for name, figure in now.statistics.items()
        },
        "user_weekday": _weekdays(_days(now), _days(before)),
        "channels": _channels(now, before),
        "users": _users(now, before),
    }


def _days(measures: Measures) -> Mapping[str, Pair]:
    return activity.local(measures.said)["user_weekday"]


def _weekdays(now: Mapping[str, Pair], before: Mapping[str, Pair]) -> dict[str, Json]:
    every = [str(day) for day in range(7)]
    return {day: _pair(now.get(day, [0, 0]), before.get(day, [0, 0])) for day in every}


def _pair(now: Pair, before: Pair | None) -> dict[str, Change]:
    messages, words = (None, None) if before is None else before
    return {"messages": change(now[0], messages), "words": change(now[1], words)}


def _channels(now: Measures, before: Measures) -> dict[str, Json]:
    entries = {of.slack_cid: of for of in before.channels}
    posters = nested_pairs(now.channel_authors, "slack_cid", "slack_uid")
    earlier = nested_pairs(before.channel_authors, "slack_cid", "slack_uid")
    return {
        of.slack_cid: {
            **_channel(of, entries.get(of.slack_cid)),
            "users": {
                uid: _pair(pair, earlier.get(of.slack_cid, {}).get(uid))
                for uid, pair in posters[of.slack_cid].items()
            },
        }
        for of in now.channels
    }


def _channel(now: ChannelTalk, before: ChannelTalk | None) -> dict[str, Change]:
    return {
        name: change(figure(now), None if before is None else figure(before))
        for name, figure in channels.COMPARED.items()
    }


def _users(now: Measures, before: Measures) -> dict[str, Json]:
    entries = {author.slack_uid: author for author in before.authors}
    return {
        of.slack_uid: {
            **_user(of, entries.get(of.slack_uid)),
            "people": _people(of.slack_uid, now, before, known=of.slack_uid in entries),
        }
        for of in now.authors
    }


def _user(now: Author, before: Author | None) -> dict[str, Change]:
    return {
        name: change(figure(now), None if before is None else figure(before))
        for name, figure in authors.COMPARED.items()
    }


def _people(uid: str, now: Measures, before: Measures, *, known: bool) -> dict[str, Json]:
    """The people groups of a user; from zero for one without an entry before."""
    found: dict[str, Json] = {}
    for name in GROUPS:
        total, people = now.groups[name].get(uid, (0, 0))
        earlier = before.groups[name].get(uid, (0, 0)) if known else (0, 0)
        found[name] = {"total": change(total, earlier[0]), "people": change(people, earlier[1])}
    return found
