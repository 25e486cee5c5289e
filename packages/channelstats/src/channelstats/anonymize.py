"""A copy of a store in which nobody and nothing has its name: other IDs, other names, no links.

Rule: a pseudonym follows from a secret and the ID alone. The secret is made for one copy and kept
nowhere, so nobody can find the ID again.

Rule: numbers and times stay, as figures are made from them. Whoever can read the workspace may know
a message by its second.
"""

import base64
import hmac
import secrets
from collections.abc import AsyncIterator, Collection
from typing import Final

import msgspec
import orjson

from channelstats.identifiers import SLACKBOT
from channelstats.render.names import emoji_sign
from channelstats.tables import Tables
from channelstats.tables.directory import Channel, User
from channelstats.tables.exclusion import Exclusions, resolve_channels, with_other_people
from channelstats.tables.message_row import (
    MessageRow,
    Reaction,
    decode_reactions,
    encode_json,
    encode_reactions,
)
from keytables import Clock

_SECRET_BYTES: Final = 32
_ID_DIGITS: Final = 12
_MARK: Final = 4

# Rule: no word is a given name. Replace words, remove none: a pseudonym follows from their places.

_QUALITIES: Final = """
amused airy brave bright calm clever copper crimson curious dapper eager early fair fleet
gentle golden happy hearty inky humble jaunty jolly keen kind lively lofty lunar mellow mindful
modest nimble orange patient purple plucky proud quick quiet rapid rustic russet spotted silver
sleek snowy solar spry steady sturdy swift teal tidy umber vivid warm wise witty zesty
""".split()  # noqa: SIM905
_BEINGS: Final = """
badger beaver bison bobolink camel caribou cricket crane curlew dolphin dugong eagle egret elk
flamingo ferret fulmar frog gazelle gecko gull hare heron ibis jackdaw jaguar kestrel kiwi
koala lapwing lemur llama magpie meerkat mole moose narwhal ocelot otter owl panda petrel
plover puffin quail raccoon rhino salmon seal starling stork swan tapir tern thrush toucan
turtle vole walrus weasel wombat wolverine zebra
""".split()  # noqa: SIM905
_PLACES: Final = """
arbor basin beach bend bluff bridge bayou canyon cape causeway coast cove creek dock desert
dune falls fen field fjord foothill garden glade gorge grove harbor highland hill hollow inlet
island lagoon ledge marsh moraine mesa mill moor mount oasis orchard pass peak plateau plain
pond prairie quay reef ridge rapids shore spring strait summit tarn terrace upland valley vista
woods
""".split()  # noqa: SIM905


class Pseudonyms:
    """Pseudonyms under a secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def identifier(self, real: str) -> str:
        """An ID of the same kind: its first letter stays."""
        if not real or real == SLACKBOT:  # everybody's, and known to be a bot by it
            return real
        return real[0] + self._digest(real).hex().upper()[:_ID_DIGITS]

    def person(self, uid: str) -> str:
        """Gentle Heron k3wq."""
        quality, being, mark = self._words_of(uid, _BEINGS)
        return f"{quality.title()} {being.title()} {mark}"

    def channel(self, cid: str) -> str:
        """quiet-harbor-k3wq."""
        return "-".join(self._words_of(cid, _PLACES))

    def emoji(self, name: str) -> str:
        """The name, unless the workspace made the emoji itself: somebody's may be in it."""
        return name if emoji_sign(name) else f"custom-{self._mark(self._digest(f'emoji {name}'))}"

    def _words_of(self, real: str, second: list[str]) -> tuple[str, str, str]:
        digest = self._digest(f"name {real}")
        return (
            _QUALITIES[digest[0] % len(_QUALITIES)],
            second[digest[1] % len(second)],
            self._mark(digest),
        )

    def _mark(self, digest: bytes) -> str:
        return base64.b32encode(digest[2:7]).decode().lower()[:_MARK]

    def _digest(self, real: str) -> bytes:
        return hmac.digest(self._secret, real.encode(), "sha256")


# ── the copy ─────────────────────────────────────────────────────────────────────────────────────


async def copy_anonymized(
    source: Tables,
    target: Tables,
    clock: Clock,
    *,
    excluded_people: Collection[str] = (),
    excluded_channels: Collection[str] = (),
) -> AsyncIterator[int]:
    """Copy all that figures are made of, but for what is excluded, into empty tables; yield how
    many messages were copied so far. Who subscribed, what was sent, what was marked and whose
    workspace it is are not copied.

    :raises Taken: another run writes there
    """
    out = await Exclusions.load(source, excluded_people)
    users, listed = await source.users.all(), await source.channels.all()
    hidden = resolve_channels(frozenset(excluded_channels), listed)
    channels = {cid: channel for cid, channel in listed.items() if cid not in hidden}
    names = Pseudonyms(secrets.token_bytes(_SECRET_BYTES))
    async with target.writing(clock):
        renamed = (_user(user, names) for user in out.users(users.values()))
        await target.put_users(renamed, int(clock()))
        known = (uid for uid in await source.user_hash.all() if uid not in out)
        await target.user_hash.add(map(names.identifier, known))
        created = (await source.users_created.all()).items()
        await target.users_created.add(
            (names.identifier(u), at) for u, at in created if u not in out
        )
        await _copy_channels(source, target, names, channels, out)
        await _copy_configuration(source, target)
        copied = 0
        async for page in source.messages.pages():
            rows = [row for row in out.rows(page) if row.slack_cid not in hidden]
            await target.messages.write(_row(row, names) for row in rows)
            copied += len(rows)
            yield copied
        await target.first_posts.put(
            (names.identifier(uid), post._replace(slack_cid=names.identifier(post.slack_cid)))
            for uid, post in (await source.first_posts.all()).items()
            if uid not in out and post.slack_cid not in hidden
        )
        await target.messages.close_days()


async def _copy_channels(
    source: Tables, target: Tables, names: Pseudonyms, channels: dict[str, Channel], out: Exclusions
) -> None:
    renamed = {
        cid: msgspec.structs.replace(
            channel, slack_cid=names.identifier(cid), friendly_name=names.channel(cid)
        )
        for cid, channel in channels.items()
    }
    await target.channels.put(renamed.values())
    await target.configuration.put_names(renamed.values())
    general = await source.configuration.general()
    await target.configuration.put_general(
        msgspec.structs.replace(channel, is_general=cid in general)
        for cid, channel in renamed.items()
    )
    for cid, at in (await source.watermarks.all()).items():
        if cid in channels:
            await target.watermarks.raise_to(names.identifier(cid), at)
    for cid, samples in (await source.members_log.all()).items():
        for at, count in samples if cid in channels else ():
            await target.members_log.add(at, {names.identifier(cid): count})
    for cid in filter(channels.__contains__, await source.bulk.names()):
        members = (await source.bulk.get(cid) or "").split(",")
        renamed_members = [names.identifier(uid) for uid in members if uid not in out]
        await target.bulk.put(names.identifier(cid), ",".join(renamed_members))


async def _copy_configuration(source: Tables, target: Tables) -> None:
    before, after = source.configuration, target.configuration
    await after.put_counts(await before.counts())
    for day, counts in (await before.history()).items():
        await after.add_to_history(day, counts)
    await after.raise_directory_as_of(await before.directory_as_of())
    await after.put_first_posts_counting(await before.first_posts_counting())
    await after.raise_last_run(await before.last_run())


def _user(user: User, names: Pseudonyms) -> User:
    name = names.person(user.slack_uid)
    return msgspec.structs.replace(
        user,
        slack_uid=names.identifier(user.slack_uid),
        user_name=name.lower().replace(" ", "."),
        real_name="",
        display_name=name,
        other_ids=" ".join(map(names.identifier, user.other_ids.split())),
    )


def _row(row: MessageRow, names: Pseudonyms) -> MessageRow:
    row = with_other_people(row, names.identifier)
    reactions = decode_reactions(row.reactions)
    files = [
        {**file, "id": names.identifier(file.get("id", ""))}
        for file in orjson.loads(row.files or "[]")
    ]
    return msgspec.structs.replace(
        row,
        slack_cid=names.identifier(row.slack_cid),
        reactions=encode_reactions(
            Reaction(names.emoji(file.emoji), file.users) for file in reactions
        ),
        files=encode_json(files),
    )
