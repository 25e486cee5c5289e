"""Users and channels as Slack writes them → rows; and the rows of users → the tables.

Rule: only names, zone and standing of a user are kept. What is absurd is left out, not guessed.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from channelstats.identifiers import SLACKBOT, is_user_id
from channelstats.slack.export import ChannelKind, ExportChannel
from channelstats.slack.objects import ListedChannel, Named, SlackChannel, SlackUser, whole
from channelstats.tables.configuration import Counts
from channelstats.tables.directory import Channel, User
from channelstats.tables.store import Tables

_LONGEST_NAME: Final = 200
_DAY: Final = 86_400


def user_of(user: SlackUser) -> User:
    """The row of a user in a list."""
    profile = user.profile or Named()
    offset = whole(user.tz_offset)
    return User(
        slack_uid=user.id,
        user_name=stored_name(user.name),
        real_name=stored_name(user.real_name or profile.real_name),
        display_name=stored_name(profile.display_name),
        tz=stored_name(user.tz),
        tz_offset=offset if offset is not None and abs(offset) <= _DAY else None,
        deleted=bool(user.deleted),
        admin=bool(user.is_admin),
        is_bot=bool(user.is_bot),
    )


def user_of_profile(uid: str, profile: Named) -> User:
    """The row of a user that is known by the profile beside a message alone: without a zone, and
    no bot.
    """
    return User(
        slack_uid=uid,
        user_name=stored_name(profile.name),
        real_name=stored_name(profile.real_name),
        display_name=stored_name(profile.display_name),
    )


async def store_users(
    tables: Tables, users: Iterable[User], now: int, *, replace: bool = True
) -> set[str]:
    """Store users, as inserted now unless they say when; returns the IDs of those known before.

    UserHash says who is known, so that of a new user nothing is read. ``replace``: whether what is
    stored of a known user is replaced, apart from when it was inserted.
    """
    rows = {
        user.slack_uid: msgspec.structs.replace(user, insert_timestamp=user.insert_timestamp or now)
        for user in users
    }
    known = await tables.user_hash.known(rows)
    await tables.user_hash.add(rows)  # first: a row of somebody who is not there would not be read
    if replace:
        await tables.users.put(rows.values(), known)
    else:
        await tables.users.add(rows.values())
    return known


def counts_of(users: Iterable[User]) -> Counts:
    """How many a list of users holds."""
    every = list(users)
    active = [user for user in every if not user.deleted]
    humans = [user for user in active if not user.is_bot and user.slack_uid != SLACKBOT]
    return Counts(len(active), len(every), len(humans))


def members_of(channel: ExportChannel) -> list[str]:
    """The members of a channel as its list names them, in that order."""
    return list(dict.fromkeys(uid for uid in channel.about.members or () if is_user_id(uid)))


def channel_of(channel: ExportChannel) -> Channel:
    """The row of a channel in a list of an export."""
    return _channel(channel.about, channel.kind, len(members_of(channel)))


def listed_channel_of(channel: ListedChannel, members: int) -> Channel:
    """The row of a public or private channel in a list of the Web API."""
    kind = ChannelKind.PRIVATE if channel.is_private else ChannelKind.PUBLIC
    return _channel(channel, kind, members)


def _channel(about: SlackChannel, kind: ChannelKind, members: int) -> Channel:
    """An archived channel has no members."""
    return Channel(
        slack_cid=about.id,
        friendly_name=stored_name(about.name),
        members=0 if about.is_archived else members,
        created=max(whole(about.created) or 0, 0),
        is_channel=kind is ChannelKind.PUBLIC,
        is_group=kind is ChannelKind.PRIVATE,
        is_im=kind is ChannelKind.DIRECT,
        is_mpim=kind is ChannelKind.GROUP_DIRECT,
        is_private=kind is not ChannelKind.PUBLIC,
        is_archived=bool(about.is_archived),
    )


def stored_name(text: str | None) -> str:
    """A name as it can be stored: of bounded length, and UTF-8."""
    return (text or "")[:_LONGEST_NAME].encode(errors="replace").decode().strip()
