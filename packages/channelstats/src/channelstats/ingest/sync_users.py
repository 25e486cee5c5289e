"""Users from the Web API → User, UserCreated and the counts.

Rule: nothing is stored before the whole list is there; when somebody was first seen never changes.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from channelstats.days import date_at
from channelstats.identifiers import is_user_id
from channelstats.ingest.opted_out import OptedOut
from channelstats.ingest.people import counts_of, store_users, user_of
from channelstats.ingest.sync_events import Problem, UsersDone
from channelstats.slack.api import SlackApi
from channelstats.slack.export import left_out
from channelstats.tables import Tables
from channelstats.tables.directory import User

USERS_PLACE: Final = "users.list"


async def list_users(api: SlackApi) -> tuple[dict[str, User], list[Problem]]:
    """The users by ID, and what was wrong with others.

    :raises SlackError: they could not be read
    """
    users: dict[str, User] = {}
    broken: list[str] = []
    async for page in api.users():
        broken += page.broken
        for user in page.items:
            if is_user_id(user.id):
                users[user.id] = user_of(user)
            else:
                broken.append(f"{user.id[:20]!r} is not the ID of a user")
    return users, left_out(USERS_PLACE, broken)


async def put_users(
    tables: Tables, users: Mapping[str, User], out: OptedOut, now: int
) -> UsersDone:
    """Store the users of a whole list, but for those who are left out: they are counted alone."""
    created = await tables.users_created.all()
    kept = out.users(users.values())
    await tables.users_created.add(
        (user.slack_uid, now) for user in kept if user.slack_uid not in created
    )
    rows = (
        msgspec.structs.replace(user, insert_timestamp=min(created.get(user.slack_uid, now), now))
        for user in kept
    )
    known = await store_users(tables, rows, now)
    counts = counts_of(users.values())
    await tables.configuration.put_counts(counts)
    await tables.configuration.add_to_history(date_at(now, tables.zone), counts)
    await as_of(tables, now)
    return UsersDone(counts.all_users, counts.active_users, new=len(kept) - len(known))


async def as_of(tables: Tables, now: int) -> None:
    """Note how recent the directory is, for exports that are imported later."""
    if now > await tables.configuration.directory_as_of():
        await tables.configuration.put_directory_as_of(now)
