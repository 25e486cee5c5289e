"""Finding a person or a channel by what somebody calls them.

Rule: an ID is taken as it is, in any case; a name must mean exactly one.
"""

from collections.abc import Mapping

from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.tables import Tables
from channelstats.tables.directory import User


class NotFound(Exception):  # noqa: N818 - named for what happened
    """Nobody or nothing is called so, or several are; one line that says which."""


async def channel_id(tables: Tables, name: str) -> str:
    """The ID of a channel: of `C0123`, `#general` or `general`."""
    if is_channel_id(name.upper()) and name.upper() in await tables.channels.all():
        return name.upper()
    found = await tables.channels.named(name.removeprefix("#"))
    if found is None:
        raise NotFound(f"there is no channel {name!r}")
    return found.slack_cid


async def user_id(tables: Tables, name: str) -> str:
    """The ID of a user: of `U0123`, `@name` or `name`; of user, display and real names."""
    return user_of(await tables.users.all(), name)


def user_of(users: Mapping[str, User], name: str) -> str:
    """The same among these users."""
    if is_user_id(name.upper()) and name.upper() in users:
        return name.upper()
    called = name.removeprefix("@")
    found = sorted(
        user.slack_uid
        for user in users.values()
        if called in (user.user_name, user.display_name, user.real_name)
    )
    if not found:
        raise NotFound(f"there is no user {name!r}")
    if len(found) > 1:
        raise NotFound(f"{name!r} may be any of {', '.join(found)}: give the ID")
    return found[0]
