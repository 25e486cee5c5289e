"""The part of a document that a report on one channel or one person is about.

Rule: of others there is nothing in it but what they did with this one.
"""

from collections.abc import Mapping
from typing import Final

from channelstats.reports.view import as_mapping
from channelstats.stats.values import Json

_ABOUT: Final = (
    "schema_version",
    "profile",
    "report_timezone",
    "generated_at",
    "input_fingerprint",
    "start_date",
    "end_date",
    "days",
)
_OF_CHANNEL: Final = ("channels", "channel_stats", "channel_user", "enriched_channel")
_OF_USER: Final = ("users", "user_stats", "enriched_user")


def of_channel(document: Mapping[str, Json], cid: str) -> dict[str, Json]:
    return _selected(document, _OF_CHANNEL, "channels", cid)


def of_user(document: Mapping[str, Json], uid: str) -> dict[str, Json]:
    return _selected(document, _OF_USER, "users", uid)


def _selected(
    document: Mapping[str, Json], parts: tuple[str, ...], compared: str, subject: str
) -> dict[str, Json]:
    comparisons = as_mapping(document["compared"])
    return {
        **{name: document[name] for name in _ABOUT},
        **{name: _only(document[name], subject) for name in parts},
        "compared": {compared: _only(comparisons[compared], subject)},
    }


def _only(part: Json, subject: str) -> Json:
    found = as_mapping(part)
    return {subject: found[subject]} if subject in found else {}
