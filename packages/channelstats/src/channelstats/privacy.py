"""What hides people, in one step before the views: pseudonyms, and what reports and views are made
of under them.

Rule: a pseudonym follows from a secret and the ID alone, so it is the same in every report and
needs no table; without the secret nobody can find the ID.

Rule: every ID and every name in the columns of messages and in what is known beside them is
replaced, and texts that nothing is counted from are dropped; numbers and times stay, as figures are
made from them. Lists of messages show the day alone (`Inputs.hides_times`).
"""

import base64
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import polars as pl

from channelstats.identifiers import SLACKBOT
from channelstats.stats.inputs import REPLIES, Inputs
from channelstats.stats.quantities import replaced
from channelstats.tables import Tables
from channelstats.tables.columns import ID
from channelstats.tables.directory import Channel, FirstPost, User

SHORTEST_SECRET: Final = 16
_ID_DIGITS: Final = 12
_MARK: Final = 4
_CERTAIN: Final = 5
"""A name of so many letters is one wherever it is found."""


# Rule: no word is a given name. Replace words, remove none: a pseudonym follows from their places.


def _words(text: str) -> list[str]:
    return text.split()


_QUALITIES: Final = _words(
    """
    amused airy brave bright calm clever copper crimson curious dapper eager early fair fleet
    gentle golden happy hearty inky humble jaunty jolly keen kind lively lofty lunar mellow mindful
    modest nimble orange patient purple plucky proud quick quiet rapid rustic russet spotted silver
    sleek snowy solar spry steady sturdy swift teal tidy umber vivid warm wise witty zesty
    """
)
_BEINGS: Final = _words(
    """
    badger beaver bison bobolink camel caribou cricket crane curlew dolphin dugong eagle egret elk
    flamingo ferret fulmar frog gazelle gecko gull hare heron ibis jackdaw jaguar kestrel kiwi
    koala lapwing lemur llama magpie meerkat mole moose narwhal ocelot otter owl panda petrel
    plover puffin quail raccoon rhino salmon seal starling stork swan tapir tern thrush toucan
    turtle vole walrus weasel wombat wolverine zebra
    """
)
_PLACES: Final = _words(
    """
    arbor basin beach bend bluff bridge bayou canyon cape causeway coast cove creek dock desert
    dune falls fen field fjord foothill garden glade gorge grove harbor highland hill hollow inlet
    island lagoon ledge marsh moraine mesa mill moor mount oasis orchard pass peak plateau plain
    pond prairie quay reef ridge rapids shore spring strait summit tarn terrace upland valley vista
    woods
    """
)


def _parts(name: str) -> list[str]:
    """The words of a name or an emoji; a single letter tells nothing."""
    return [part for part in re.split(r"[\W_]+", name.lower()) if len(part) > 1]


def _words_in(name: str) -> list[str]:
    """The words of a name, with and without what is between their letters: O'Hara is Ohara too."""
    whole = (re.sub(r"[\W_]+", "", word) for word in name.lower().split())
    return _parts(name) + [word for word in whole if len(word) > 1]


async def load_pseudonyms(tables: Tables, secret: bytes) -> "Pseudonyms":
    """Pseudonyms that know every name anybody or any channel goes by.

    :raises ValueError: see `Pseudonyms`
    """
    users, channels = await tables.users.all(), await tables.channels.all()
    names = [channel.friendly_name for channel in channels.values()]
    for user in users.values():
        names += (user.user_name, user.real_name, user.display_name)
    return Pseudonyms(secret, names)


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
        if not of or of == SLACKBOT:  # everybody's, and known to be a bot by it
            return of
        return of[0] + self._digest(of).hex().upper()[:_ID_DIGITS]

    def person(self, uid: str) -> str:
        """Gentle Heron k3wq."""
        quality, being, mark = self._words_of(uid, _BEINGS)
        return f"{quality.title()} {being.title()} {mark}"

    def channel(self, cid: str) -> str:
        """quiet-harbor-k3wq."""
        return "-".join(self._words_of(cid, _PLACES))

    def emoji(self, name: str) -> str:
        """The name, unless somebody's name is in it; with its skin tone."""
        base, tones, tone = name.partition("::")
        if base not in self._emoji:  # as many as a workspace has
            mark = self.mark_of(f"emoji {base}")
            self._emoji[base] = f"custom-{mark}" if self._is_telling(base) else base
        return f"{self._emoji[base]}{tones}{tone}"

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


# ── inputs ───────────────────────────────────────────────────────────────────────────────────────

_PEOPLE: Final = ("slack_uid", "parent_user_id")


@dataclass(frozen=True)
class HiddenInputs:
    """Inputs under pseudonyms; ``people`` and ``channels`` are the names of every ID in them."""

    inputs: Inputs
    people: Mapping[str, str]
    channels: Mapping[str, str]


def hidden_inputs(inputs: Inputs, names: Pseudonyms) -> HiddenInputs:
    """The same inputs under pseudonyms. It takes a moment for many messages."""
    people, channels = _Shown(names), _Shown(names)
    posts = inputs.first_posts
    found = replace(
        inputs,
        messages=_hidden_messages(inputs.messages, people, channels, names),
        users=hidden_users(inputs.users, names),
        channels=hidden_channels(inputs.channels, names),
        first_posts=None
        if posts is None
        else {
            people[uid]: FirstPost(post.message_id, channels[post.slack_cid])
            for uid, post in posts.items()
        },
        mark=names.mark_of,
    )
    return HiddenInputs(
        found,
        {names.identifier(uid): names.person(uid) for uid in {*people, *inputs.users}},
        {names.identifier(cid): names.channel(cid) for cid in {*channels, *inputs.channels}},
    )


def hidden_users(users: Mapping[str, User], names: Pseudonyms) -> dict[str, User]:
    """By their pseudonymous IDs; of what is known of each, what figures are made from."""
    return {
        shown: User(
            shown,
            display_name=names.person(uid),
            tz=user.tz,
            tz_offset=user.tz_offset,
            deleted=user.deleted,
            is_bot=user.is_bot,
            is_stranger=user.is_stranger,
            unlisted=user.unlisted,
        )
        for uid, user in users.items()
        for shown in (names.identifier(uid),)
    }


def hidden_channels(channels: Mapping[str, Channel], names: Pseudonyms) -> dict[str, Channel]:
    """By their pseudonymous IDs."""
    return {
        shown: msgspec.structs.replace(channel, slack_cid=shown, friendly_name=names.channel(cid))
        for cid, channel in channels.items()
        for shown in (names.identifier(cid),)
    }


class _Shown(dict[str, str]):
    """The pseudonymous IDs of the real ones that were met; made when one is met first."""

    def __init__(self, names: Pseudonyms) -> None:
        self._names = names

    def __missing__(self, real: str) -> str:
        self[real] = shown = self._names.identifier(real)
        return shown


class _Room(msgspec.Struct):
    """What is counted of a huddle."""

    participant_history: list[str] | None = None
    date_start: int | None = None
    date_end: int | None = None


def _hidden_messages(
    messages: pl.DataFrame, people: _Shown, channels: _Shown, names: Pseudonyms
) -> pl.DataFrame:
    def room(text: str) -> str:
        try:
            found = msgspec.json.decode(text, type=_Room)
        except msgspec.DecodeError:
            return "{}"
        found.participant_history = [people[uid] for uid in found.participant_history or ()]
        return msgspec.json.encode(found).decode()

    def person(uids: pl.Series) -> pl.Series:
        return replaced(uids, people.__getitem__, ID)

    def reactions(of: pl.Series) -> pl.Series:
        both = of.struct.unnest()
        emoji = replaced(both["emoji"], names.emoji, ID)
        return both.with_columns(emoji, person(both["reactor"])).to_struct(of.name)

    hidden = messages.drop(REPLIES, strict=False)
    return hidden.with_columns(
        *(person(hidden[name]) for name in _PEOPLE),
        replaced(hidden["slack_cid"], channels.__getitem__, ID),
        _each(hidden["mentions"], person),
        _each(hidden["reactions"], reactions),
        *(replaced(hidden[name], room) for name in {"room"} & set(hidden.columns)),
    )


def _each(lists: pl.Series, change: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """The lists with what is in them changed, all at once."""
    rows = lists.to_frame().with_row_index("row")
    inner = rows.drop_nulls(lists.name).explode(lists.name)
    changed = inner.with_columns(change(inner[lists.name]))
    found = changed.group_by("row", maintain_order=True).agg(lists.name)
    return rows.select("row").join(found, on="row", how="left", maintain_order="left")[lists.name]
