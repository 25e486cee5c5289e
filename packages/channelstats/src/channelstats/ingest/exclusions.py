"""Whom an import leaves out: people and channels that the settings exclude, and the forgotten.

Rule: what is theirs reaches no table, whatever brings it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Self

from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.slack.export import Problem
from channelstats.tables import Tables
from channelstats.tables.directory import User
from channelstats.tables.exclusion import digest, forgotten, resolve_people, row_without
from channelstats.tables.message_row import MessageRow

PEOPLE_PLACE: Final = "exclude_users"
CHANNELS_PLACE: Final = "exclude_channels"


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

    def rows(self, rows: Iterable[MessageRow]) -> Iterator[MessageRow]:
        """The rows without those who are left out."""
        if self._nobody:
            yield from rows
            return
        for row in rows:
            left = row_without(row, self.__contains__)
            if left is not None:
                yield left


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
