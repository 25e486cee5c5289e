"""Users from the Web API → User, UserCreated and the counts.

Rule: nothing is stored before the whole list is there; when somebody was first seen never changes.
"""

from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from channelstats.days import date_at
from channelstats.identifiers import is_user_id
from channelstats.ingest.people import counts_of, user_of
from channelstats.ingest.sync_events import Failed, SyncEvent, UsersDone
from channelstats.slack.api import SlackApi
from channelstats.slack.export import left_out
from channelstats.tables import Tables
from channelstats.tables.directory import User
from tablestore import Clock

USERS_PLACE: Final = "users.list"


async def sync_users(
    api: SlackApi, tables: Tables, clock: Clock
) -> AsyncGenerator[SyncEvent, None]:
    """Store the users; report what is wrong with some, then how many there are.

    :raises SlackError: they could not be read; nothing is stored
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
    for problem in left_out(USERS_PLACE, broken):
        yield problem
    if not users:
        yield Failed(USERS_PLACE, "an empty list; the users stay as they are")
        return

    now = int(clock())
    created = await tables.users_created.all()
    known = await tables.users.all()
    await tables.users_created.add((uid, now) for uid in users if uid not in created)
    await tables.users.put(
        msgspec.structs.replace(user, insert_timestamp=min(created.get(uid, now), now))
        for uid, user in users.items()
    )
    counts = counts_of(users.values())
    await tables.configuration.put_counts(counts)
    await tables.configuration.add_to_history(date_at(now, tables.zone), counts)
    await as_of(tables, now)
    yield UsersDone(counts.all_users, counts.active_users, len(users.keys() - known.keys()))


async def as_of(tables: Tables, now: int) -> None:
    """Note how recent the directory is, for exports that are imported later."""
    if now > await tables.configuration.directory_as_of():
        await tables.configuration.put_directory_as_of(now)
