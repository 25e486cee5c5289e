"""Who and what stays out of the tables: people and channels that the settings exclude, the
forgotten, and messages that are too old.

Rule: what is theirs reaches no table, whatever brings it. A person is noted as forgotten first, so
that no import that runs meanwhile brings them back; then everything of theirs is removed. A run
that was interrupted is done again from its beginning. In the messages of others nothing names them
any more. Reports that were made before are removed, since they may hold them.

Rule: messages go by the date that they are stored under; a whole date goes at a time, with what was
made of it. First posts stay, or everybody would look new.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Final, Self

import msgspec

from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.slack.export import Problem
from channelstats.tables import Tables
from channelstats.tables.directory import User
from channelstats.tables.exclusion import (
    add_forgotten,
    digest,
    forgotten,
    resolve_people,
    row_without,
)
from channelstats.tables.message_row import MessageRow

PEOPLE_PLACE: Final = "exclude_users"
CHANNELS_PLACE: Final = "exclude_channels"


# ── what an import leaves out ────────────────────────────────────────────────────────────────────


class Exclusions:
    """``people`` are IDs, ``forgotten_people`` digests of IDs."""

    def __init__(
        self, people: Collection[str] = (), forgotten_people: Collection[str] = ()
    ) -> None:
        self._known = dict.fromkeys(people, True)
        self._forgotten = frozenset(forgotten_people)
        self._nobody = not people and not forgotten_people

    @classmethod
    async def load(cls, tables: Tables, listed: Collection[str], users: Mapping[str, User]) -> Self:
        """Those whom a list of names and IDs means among ``users``, and the forgotten."""
        return cls(resolve_people(listed, users), await forgotten(tables.configuration))

    def __contains__(self, uid: str) -> bool:
        if self._nobody:
            return False
        if uid not in self._known:  # as many as a workspace has
            self._known[uid] = digest(uid) in self._forgotten
        return self._known[uid]

    def users(self, users: Iterable[User]) -> list[User]:
        """Those who are not left out."""
        return [user for user in users if user.slack_uid not in self]

    def rows(self, rows: Iterable[MessageRow]) -> Iterable[MessageRow]:
        """The rows without those who are left out."""
        if self._nobody:
            return rows
        found = (row_without(row, self.__contains__) for row in rows)
        return (row for row in found if row is not None)


def unknown_people(listed: Collection[str], users: Mapping[str, User]) -> list[Problem]:
    """Who on a list cannot be left out: neither an ID nor the name of one of these users."""
    names = {name for user in users.values() for name in (user.user_name, user.display_name)}
    return [
        Problem(PEOPLE_PLACE, f"nobody is called {entry!r}, so nobody is left out by it")
        for entry in sorted(entry.removeprefix("@") for entry in listed)
        if not is_user_id(entry) and entry not in names
    ]


def unknown_channels(
    listed: Collection[str], names: Collection[str], kind: str = ""
) -> list[Problem]:
    """What on a list leaves no channel out: neither an ID nor one of these names, which are all of
    the ``kind`` ("public ", say) that is known.
    """
    return [
        Problem(CHANNELS_PLACE, f"no {kind}channel is called {entry!r}, so none is left out by it")
        for entry in sorted(entry.removeprefix("#") for entry in listed)
        if not is_channel_id(entry) and entry not in names
    ]


# ── what is removed ──────────────────────────────────────────────────────────────────────────────


class Forgotten(msgspec.Struct, frozen=True):
    """What has been removed so far: messages of theirs, and messages of others that named them;
    ``read`` rows were looked at. ``files`` still hold their messages: columns of dates that could
    neither be overwritten nor removed.
    """

    deleted: int = 0
    changed: int = 0
    read: int = 0
    files: tuple[Path, ...] = ()


async def forget_person(
    tables: Tables, uid: str, *, dry_run: bool = False
) -> AsyncGenerator[Forgotten, None]:
    """Remove everything of a person, and report as it goes on. In a ``dry_run`` messages are
    counted, and nothing is touched.
    """
    if not dry_run:
        await add_forgotten(tables.configuration, uid)
    done = Forgotten()
    async for rows in tables.messages.pages():
        kept = [(row, row_without(row, uid.__eq__)) for row in rows]
        gone = [row for row, left in kept if left is None]
        changed = [left for row, left in kept if left is not None and left is not row]
        if not dry_run:
            await tables.messages.delete(gone)
            await tables.messages.write(changed)
        done = Forgotten(
            done.deleted + len(gone), done.changed + len(changed), done.read + len(rows)
        )
        yield done
    if dry_run:
        return
    files = await tables.messages.close_days()
    for cid in await tables.channels.all():
        members = (await tables.bulk.get(cid) or "").split(",")
        if uid in members:
            text = ",".join(member for member in members if member != uid)
            await (tables.bulk.put(cid, text) if text else tables.bulk.delete(cid))
    await tables.users.delete(uid)
    await tables.users_created.delete(uid)
    await tables.user_hash.remove(uid)
    await tables.first_posts.delete([uid])
    await tables.sent.forget(uid)
    await tables.slack_analytics.remove_member(uid)
    await tables.reports.clear()
    yield msgspec.structs.replace(done, files=tuple(files))


async def remove_before(tables: Tables, first: date) -> AsyncIterator[tuple[str, int]]:
    """Remove the messages of the dates before ``first``; yield each date and how many it had.

    Days are open afterwards, as after every writing. Slack's own counts of these dates go too.
    """
    await tables.slack_analytics.remove_before(first)
    for day in sorted(await tables.messages.days()):
        if day < first.isoformat() and (removed := await tables.messages.empty_day(day)):
            yield day, removed
