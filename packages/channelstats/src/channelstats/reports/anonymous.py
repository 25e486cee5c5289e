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
from channelstats.render.names import Directory
from channelstats.reports.document import Changed
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


def _words_in(name: str) -> list[str]:
    """The words of a name, with and without what is between their letters: O'Hara is Ohara too."""
    whole = (re.sub(r"[\W_]+", "", word) for word in name.lower().split())
    return _parts(name) + [word for word in whole if len(word) > 1]


class Pseudonyms:
    """Pseudonyms under a secret.

    :raises ValueError: the secret is too short to keep anything secret
    """

    def __init__(self, secret: bytes, names: Iterable[str] = ()) -> None:
        if len(secret) < SHORTEST_SECRET:
            raise ValueError(f"a secret for pseudonyms has at least {SHORTEST_SECRET} bytes")
        self._secret = secret
        self._names = frozenset(word for name in names for word in _words_in(name))
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
) -> tuple[Mapping[str, Json], Directory]:
    """The document and the directory under pseudonyms. The directory gets to know whom it did not
    know when the document is read.
    """
    hidden = _Document(names, ZoneInfo(view(document).report_timezone))
    for of in (*directory.people, *directory.channels):
        hidden.text(of)
    return hidden.document(document), Directory(
        people=hidden.people,
        channels=hidden.channels,
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
    """A document as it is read; ``people`` and ``channels`` are those found in it, by the IDs that
    are shown.
    """

    def __init__(self, names: Pseudonyms, zone: ZoneInfo) -> None:
        self._names, self._zone = names, zone
        self._known: dict[str, str] = {}
        self.people: dict[str, str] = {}
        self.channels: dict[str, str] = {}

    def document(self, document: Mapping[str, Json]) -> Changed:
        return Changed(document, {name: name for name in document}, self._part)

    def day(self, ts: str) -> str:
        """The midnight that the day of a message began with."""
        day = date_at(seconds(ts), self._zone)
        return f"{midnight(day, self._zone):010d}.000000"

    def text(self, text: str) -> str:
        """What is shown of a text: another one in place of an ID."""
        if text not in self._known:
            self._known[text] = self._identifier(text) if _ID.fullmatch(text) else text
        return self._known[text]

    def _identifier(self, of: str) -> str:
        shown = self._names.identifier(of)
        if is_user_id(of):
            self.people[shown] = self._names.person(of)
        else:
            self.channels[shown] = self._names.channel(of)
        return shown

    def _part(self, name: str, value: Json) -> Json:
        if name == "input_fingerprint":  # It tells when the newest message was written.
            return self._names.mark_of(str(value))
        return value if name in _KEPT else self._value(name, value)

    def _value(self, name: str, value: Json) -> Json:
        if isinstance(value, str):
            return self.day(value) if is_timestamp(value) else self.text(value)
        if isinstance(value, Mapping):
            return self._mapping(name, as_mapping(value))
        if isinstance(value, Sequence):
            return [self._value("", one) for one in value]
        return value

    def _mapping(self, name: str, value: Mapping[str, Json]) -> Mapping[str, Json]:
        if name in _BY_EMOJI:
            return {self._names.emoji(key): one for key, one in value.items()}
        if name == "posters_per_timezone":
            return Changed(value, {key: key for key in value}, self._value)
        shown = {self.text(key): key for key in value}
        return Changed(value, shown, self._channel if name == "enriched_channels" else self._value)

    def _channel(self, cid: str, of: Json) -> Json:
        def change(name: str, value: Json) -> Json:
            return self._names.channel(cid) if name == "name" else self._value(name, value)

        part = as_mapping(of)
        return Changed(part, {name: name for name in part}, change)
