"""What is on its way to a user agent: sent, and not acked yet.

Rule: all idle sessions share one empty mapping, because there are many of them and few are busy; a
session has a dict of its own only while something is on its way.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from autopush.protocol.actions import Farewell, Row
from autopush.webpush.notification import Notification


class Sent(Struct):
    """A notification on its way.

    `notification` is kept only while it is in no storage; `row` is its row where there is one;
    `drained` tells that it belongs to the page of the running drain.
    """

    channel_id: str
    notification: Notification | None
    row: Row | None
    drained: bool


InFlight = Mapping[str, Sent]
"""By version (message id)."""

NOTHING: Final[InFlight] = MappingProxyType({})


def track(in_flight: InFlight, version: str, sent: Sent) -> InFlight:
    """With one more on its way."""
    if isinstance(in_flight, dict):
        in_flight[version] = sent
        return in_flight
    return {version: sent}


def untrack(in_flight: InFlight, version: str) -> InFlight:
    """Without the one that arrived."""
    if isinstance(in_flight, dict):
        in_flight.pop(version, None)
    return in_flight or NOTHING


def supersede(in_flight: InFlight, newer: Notification) -> None:
    """An older message of the same topic that is on its way needs not be saved any more."""
    for sent in in_flight.values():
        older = sent.notification
        if older and (older.channel_id, older.topic) == (newer.channel_id, newer.topic):
            sent.notification = None


def named(in_flight: InFlight, updates: object) -> list[str]:
    """The versions among them that an ack's `updates` name by channel and version.

    Entries that make no sense, or fit nothing, are passed over.
    """
    if not isinstance(updates, list):
        return []
    found: list[str] = []
    for update in updates:
        if not isinstance(update, dict):
            continue
        version = update.get("version")
        sent = in_flight.get(version) if isinstance(version, str) else None
        if sent is not None and sent.channel_id == update.get("channelID"):
            found.append(str(version))
    return found


def farewell(in_flight: InFlight) -> Farewell:
    """What is left when the socket is gone."""
    unsaved = [sent.notification for sent in in_flight.values() if sent.notification]
    return Farewell(unsaved, waiting=[sent.row for sent in in_flight.values() if sent.row])
