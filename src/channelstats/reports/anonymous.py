"""Pseudonyms in place of names and IDs.

Rule: a pseudonym follows from a secret and the ID alone, so it is the same in every report and
needs no table; without the secret nobody can find the ID. Numbers stay, times of messages are cut
to their day, addresses go.
"""

import base64
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from zoneinfo import ZoneInfo

from channelstats.days import date_at, midnight
from channelstats.identifiers import is_timestamp, is_user_id, seconds
from channelstats.reports.directory import Directory
from channelstats.reports.view import as_mapping, view
from channelstats.stats.values import Json
from channelstats.tables.first_posts import FirstPost

SHORTEST_SECRET: Final = 16
_ID: Final = re.compile(r"[A-Z][A-Z0-9]+")
_ID_DIGITS: Final = 12
_MARK: Final = 4
_CERTAIN: Final = 5
"""A name of so many letters is one wherever it is found."""


def _words(text: str) -> list[str]:
    return text.split()


_QUALITIES: Final = _words(
    """
    amber azure brave bright calm clever coral crimson curious dapper eager early fair fleet
    gentle golden happy hazel indigo ivory jade jolly keen kind lively lucky lunar mellow merry
    misty noble olive patient pearl plucky proud quick quiet rapid rosy ruby sandy silver sleek
    snowy solar spry steady sunny swift teal tidy umber vivid warm wise witty zesty
    """
)
_BEINGS: Final = _words(
    """
    badger beaver bison bobolink camel caribou cricket crane curlew dolphin dove eagle egret elk
    falcon ferret finch fox gazelle gecko gull hare heron ibis jackdaw jay kestrel kiwi koala
    lark lemur lynx magpie marten mole moose newt ocelot otter owl panda petrel plover puffin
    quail raven robin salmon seal sparrow stork swan tapir tern thrush toucan turtle vole walrus
    weasel wombat wren zebra
    """
)
_PLACES: Final = _words(
    """
    arbor bay beach bend bluff bridge brook canyon cape cliff coast cove creek dale delta dune
    falls fen field fjord forest garden glade glen grove harbor heath hill hollow inlet island
    lagoon lake marsh meadow mesa mill moor mount oasis orchard pass peak pier plain pond
    prairie quay reef ridge river shore spring strait summit tarn terrace vale valley vista
    woods
    """
)
_BY_EMOJI: Final = frozenset({"reaction", "reactions", "emoji_rate", "reaction_popularity"})
_KEPT: Final = frozenset({"report_timezone", "timezone", "profile"})


def _parts(name: str) -> list[str]:
    """The words of a name or an emoji; a single letter tells nothing."""
    return [part for part in re.split(r"[\W_]+", name.lower()) if len(part) > 1]


class Pseudonyms:
    """Pseudonyms under a secret.

    :raises ValueError: the secret is too short to keep anything secret
    """

    def __init__(self, secret: bytes, names: Iterable[str] = ()) -> None:
        if len(secret) < SHORTEST_SECRET:
            raise ValueError(f"a secret for pseudonyms has at least {SHORTEST_SECRET} bytes")
        self._secret = secret
        self._names = frozenset(word for name in names for word in _parts(name))
        self._emoji: dict[str, str] = {}

    def identifier(self, of: str) -> str:
        """An ID of the same kind: its first letter stays."""
        return of[0] + self._digest(of).hex().upper()[:_ID_DIGITS]

    def person(self, uid: str) -> str:
        """Amber Heron k3wq."""
        quality, being, mark = self._words_of(uid, _BEINGS)
        return f"{quality.title()} {being.title()} {mark}"

    def channel(self, cid: str) -> str:
        """quiet-harbor-k3wq."""
        return "-".join(self._words_of(cid, _PLACES))

    def emoji(self, name: str) -> str:
        """The name, unless somebody's name is in it."""
        if name not in self._emoji:  # as many as a workspace has
            mark = self.mark_of(f"emoji {name}")
            self._emoji[name] = f"custom-{mark}" if self._is_telling(name) else name
        return self._emoji[name]

    def _is_telling(self, name: str) -> bool:
        parts = _parts(name)
        inside = (
            part[first:last]
            for part in parts
            for first in range(len(part))
            for last in range(first + _CERTAIN, len(part) + 1)
        )
        return not self._names.isdisjoint(parts) or not self._names.isdisjoint(inside)

    def mark_of(self, text: str) -> str:
        """A text of no meaning that stays the same for the same text."""
        return self._digest(f"mark {text}").hex()[:_ID_DIGITS]

    def _words_of(self, of: str, second: list[str]) -> tuple[str, str, str]:
        digest = self._digest(f"name {of}")
        return (
            _QUALITIES[digest[0] % len(_QUALITIES)],
            second[digest[1] % len(second)],
            self._mark(digest),
        )

    def _mark(self, digest: bytes) -> str:
        return base64.b32encode(digest[2:7]).decode().lower()[:_MARK]

    def _digest(self, of: str) -> bytes:
        return hmac.digest(self._secret, of.encode(), "sha256")


def anonymous(
    document: Mapping[str, Json], directory: Directory, names: Pseudonyms
) -> tuple[dict[str, Json], Directory]:
    """The document and the directory under pseudonyms."""
    hidden = _Document(names, ZoneInfo(view(document).report_timezone))
    changed = hidden.document(document)
    people = {*filter(is_user_id, hidden.met), *directory.people}
    channels = {*hidden.met - people, *directory.channels}
    return changed, Directory(
        people={names.identifier(uid): names.person(uid) for uid in people},
        channels={names.identifier(cid): names.channel(cid) for cid in channels},
        created={names.identifier(uid): at for uid, at in directory.created.items()},
        first_posts={
            names.identifier(uid): FirstPost(
                hidden.day(post.message_id), names.identifier(post.slack_cid)
            )
            for uid, post in directory.first_posts.items()
        },
        members={names.identifier(cid): ends for cid, ends in directory.members.items()},
        real=False,
    )


class _Document:
    """One walk through a document; ``met`` are the IDs found on it."""

    def __init__(self, names: Pseudonyms, zone: ZoneInfo) -> None:
        self._names, self._zone = names, zone
        self._known: dict[str, str] = {}

    @property
    def met(self) -> set[str]:
        return {text for text, shown in self._known.items() if shown != text}

    def document(self, document: Mapping[str, Json]) -> dict[str, Json]:
        changed = {
            key: value if key in _KEPT else self._value(value, key)
            for key, value in document.items()
        }
        # It tells when the newest message was written.
        made_from = str(document["input_fingerprint"])
        return {**changed, "input_fingerprint": self._names.mark_of(made_from)}

    def day(self, ts: str) -> str:
        """The midnight that the day of a message began with."""
        day = date_at(seconds(ts), self._zone)
        return f"{midnight(day, self._zone):010d}.000000"

    def _value(self, value: Json, name: str) -> Json:
        if isinstance(value, str):
            return self.day(value) if is_timestamp(value) else self._text(value)
        if isinstance(value, Mapping):
            return self._mapping(as_mapping(value), name)
        if isinstance(value, Sequence):
            return [self._value(one, "") for one in value]
        return value

    def _mapping(self, value: Mapping[str, Json], name: str) -> dict[str, Json]:
        if name in _BY_EMOJI:
            return {self._names.emoji(key): one for key, one in value.items()}
        if name == "posters_per_timezone":
            return {key: self._value(people, "") for key, people in value.items()}
        if name == "enriched_channels":
            return {self._text(cid): self._channel(cid, of) for cid, of in value.items()}
        return {self._text(key): self._value(one, key) for key, one in value.items()}

    def _channel(self, cid: str, of: Json) -> Json:
        return {
            key: self._names.channel(cid) if key == "name" else self._value(one, key)
            for key, one in as_mapping(of).items()
        }

    def _text(self, text: str) -> str:
        if text not in self._known:
            is_id = _ID.fullmatch(text) is not None
            self._known[text] = self._names.identifier(text) if is_id else text
        return self._known[text]
