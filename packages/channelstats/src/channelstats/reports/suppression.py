"""Leaving out groups that are too small to hide in.

Rule: a channel or a time zone with fewer posters than asked for is in no list and no table; the
figures of the workspace stay as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from channelstats.reports.document import Changed
from channelstats.reports.view import as_mapping, view
from channelstats.stats.values import Json

_BY_CHANNEL: Final = frozenset(
    {"channels", "channel_stats", "channel_user", "enriched_channel", "enriched_channels"}
)
_BY_ZONE: Final = frozenset({"timezone", "posters_per_timezone"})
_MESSAGES: Final = frozenset({"reaction_count", "reply_count", "reactions", "replies"})


def suppressed(document: Mapping[str, Json], smallest: int) -> Mapping[str, Json]:
    """The document without groups of fewer than ``smallest`` posters."""
    of = view(document)
    small = {cid for cid, stats in of.channel_stats.items() if stats.posters < smallest}
    small |= {tz for tz, people in of.posters_per_timezone.items() if len(people) < smallest}
    return _kept(document, "", small)


def _without(value: Json, name: str, small: set[str]) -> Json:
    if isinstance(value, Mapping):
        return _kept(as_mapping(value), name, small)
    if name in _MESSAGES and isinstance(value, Sequence):
        return [entry for entry in value if not small.intersection(_texts(entry))]
    return value


def _kept(value: Mapping[str, Json], name: str, small: set[str]) -> Changed:
    drops = name in _BY_CHANNEL | _BY_ZONE
    names = {key: key for key in value if not (drops and key in small)}
    return Changed(value, names, lambda key, one: _without(one, key, small))


def _texts(entry: Json) -> set[str]:
    """The texts of an entry `[count, ts, cid, uid, thread_ts]`."""
    found = entry if isinstance(entry, list | tuple) else ()
    return {text for text in found if isinstance(text, str)}
