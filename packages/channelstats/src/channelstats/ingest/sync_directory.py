"""Users and channels from the Web API → User, UserCreated, Channel, the counts, and the members of
channels in BulkStore and ChannelMembersLog.

Rule: nothing is stored before a whole list is there; when somebody was first seen never changes. A
membership is replaced by a later one, never by an empty one; a number of members that Slack does
not give is not logged.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from channelstats.days import date_at
from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.ingest.directory import (
    channel_name,
    counts_of,
    listed_channel_of,
    store_users,
    user_of,
)
from channelstats.ingest.sync_run import UNANSWERED, Checkpoint, SyncRun
from channelstats.slack.errors import MissingScope, NoAnswer, SlackError, TokenRefused
from channelstats.slack.export import left_out
from channelstats.slack.objects import ListedChannel, whole
from channelstats.tables.directory import Channel, User

USERS_PLACE: Final = "users.list"
CHANNELS_PLACE: Final = "conversations.list"
MEMBERS_PLACE: Final = "conversations.members"


# ── users ────────────────────────────────────────────────────────────────────────────────────────


async def list_users(run: SyncRun) -> dict[str, User]:
    """The users by ID.

    :raises SlackError: they could not be read
    """
    users: dict[str, User] = {}
    broken: list[str] = []
    async for page in run.api.users():
        broken += page.broken
        for user in page.items:
            if is_user_id(user.id):
                users[user.id] = user_of(user)
            else:
                broken.append(f"{user.id[:20]!r} is not the ID of a user")
    run.report(*left_out(USERS_PLACE, broken))
    return users


async def put_users(run: SyncRun, users: Mapping[str, User]) -> None:
    """Store the users of a whole list, but for those who are left out: they are only counted."""
    tables, now = run.tables, run.now
    created = await tables.users_created.all()
    kept = run.excluded.users(users.values())
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
    await _note_time(run, now)
    run.result.users, run.result.new_users = len(users), len(kept) - len(known)


async def _note_time(run: SyncRun, now: int) -> None:
    """Note how recent users and channels are, for exports that are imported later."""
    if now > await run.tables.configuration.directory_as_of():
        await run.tables.configuration.put_directory_as_of(now)


# ── channels ─────────────────────────────────────────────────────────────────────────────────────


async def list_channels(run: SyncRun) -> tuple[list[ListedChannel], set[str]]:
    """The channels that are wanted, sorted by ID; and the names of all.

    :raises SlackError: they could not be read
    """
    found: dict[str, ListedChannel] = {}
    names: set[str] = set()
    broken: list[str] = []
    async for page in run.api.channels(private=run.options.include_private):
        broken += page.broken
        for channel in page.items:
            names.add(channel.name or "")
            if not is_channel_id(channel.id):
                broken.append(f"{channel.id[:20]!r} is not the ID of a channel")
            elif run.options.wants(channel):
                found[channel.id] = channel
    run.report(*left_out(CHANNELS_PLACE, broken))
    return [channel for _, channel in sorted(found.items())], names


async def put_channels(run: SyncRun, listed: list[ListedChannel]) -> None:
    """Store everything about these channels but their messages.

    :raises SlackError: nothing more can be asked; what was stored until then stays
    """
    tables = run.tables
    stored = await tables.channels.all()
    rows = {channel.id: listed_channel_of(channel, _members(channel, stored)) for channel in listed}
    await _put_rows(run, rows, stored, listed)
    now = run.now
    await tables.members_log.add(now, dict(_sample(listed)))
    await _note_time(run, now)
    await _put_memberships(run, rows, listed)
    run.result.listed = len(listed)


async def _put_rows(
    run: SyncRun,
    rows: Mapping[str, Channel],
    stored: Mapping[str, Channel],
    listed: Iterable[ListedChannel],
) -> None:
    """Store channels and their previous names. Of one name, a channel in use has it."""
    tables = run.tables
    archived_first = sorted(rows.values(), key=lambda row: not row.is_archived)
    await tables.channels.put(archived_first)
    await tables.configuration.put_names({**stored, **rows}.values())
    for channel in sorted(listed, key=lambda one: not one.is_archived):
        for previous in channel.previous_names or ():
            alias = channel_name(previous)
            if alias and not is_channel_id(alias):
                await tables.channels.put_alias(alias, rows[channel.id])


async def _put_memberships(
    run: SyncRun, rows: Mapping[str, Channel], listed: list[ListedChannel]
) -> None:
    checkpoint = Checkpoint(run, "members")
    done = await checkpoint.start()
    unanswered = 0
    for number, channel in enumerate(listed, 1):
        if channel.is_archived or channel.id in done:
            continue
        name = rows[channel.id].name
        try:
            run.result.memberships += await _put_members(run, channel)
        except (TokenRefused, MissingScope):
            raise
        except SlackError as error:
            unanswered = unanswered + 1 if isinstance(error, NoAnswer) else 0
            if unanswered == UNANSWERED:
                raise
            run.fail(f"members of {name}", error)
            continue
        unanswered = 0
        await checkpoint.add(channel.id)
        run.progress("members", number, len(listed), name)
    await checkpoint.clear()


async def _put_members(run: SyncRun, channel: ListedChannel) -> bool:
    """Store who is in a channel; return whether anybody is."""
    members: dict[str, None] = {}
    async for page in run.api.members(channel.id):
        members |= dict.fromkeys(uid for uid in page.items if is_user_id(uid))
    if kept := [uid for uid in members if uid not in run.excluded]:
        await run.tables.bulk.put(channel.id, ",".join(kept))
    if whole(channel.num_members) is None:
        await run.tables.channels.put([listed_channel_of(channel, len(members))])
    return bool(members)


def _members(channel: ListedChannel, stored: Mapping[str, Channel]) -> int:
    """How many members Slack says a channel has, else as many as it had."""
    number = whole(channel.num_members)
    if number is None:
        return stored[channel.id].members if channel.id in stored else 0
    return max(number, 0)


def _sample(listed: Iterable[ListedChannel]) -> Iterable[tuple[str, int]]:
    for channel in listed:
        number = whole(channel.num_members)
        if number is not None and number >= 0 and not channel.is_archived:
            yield channel.id, number
