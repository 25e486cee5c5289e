"""Whose workspace a store is of, so that nothing of another one gets into it.

Rule: it is another workspace where the teams are others and most of the users too; or where no
teams are known and neither a user nor a channel is in both.
"""

from collections.abc import Iterable
from typing import Final, Self

import msgspec

from channelstats.identifiers import SLACKBOT
from channelstats.slack.objects import SlackUser
from channelstats.tables import Tables
from channelstats.tables.configuration import Configuration
from channelstats.tables.items import text, texts

_KEY: Final = "home"


class OtherWorkspace(Exception):  # noqa: N818 - named for what was found
    """It is of another workspace than the store. The message names both."""


class Home(msgspec.Struct, frozen=True):
    """The ``teams`` of a workspace, or the IDs of its Enterprise Grid; what it is ``called``."""

    teams: frozenset[str] = frozenset()
    called: str = ""

    @classmethod
    async def load(cls, configuration: Configuration) -> Self:
        row = await configuration.get(_KEY)
        return cls(texts(row, "teams"), text(row, "called"))

    async def save(self, configuration: Configuration) -> None:
        if self.teams:
            await configuration.put(_KEY, {"teams": self.teams, "called": self.called})

    def __str__(self) -> str:
        teams = ", ".join(sorted(self.teams)[:_MOST])
        return f"{self.called} ({teams})" if self.called and teams else self.called or teams


_MOST: Final = 3
"""Teams that are named."""


def grids_of(users: Iterable[SlackUser]) -> frozenset[str]:
    """The IDs of the Enterprise Grids that users are of."""
    accounts = (user.enterprise_user for user in users if not user.is_stranger)
    return frozenset(
        on_grid.enterprise_id
        for on_grid in accounts
        if on_grid is not None and on_grid.enterprise_id
    )


class WorkspaceIds(msgspec.Struct, frozen=True):
    """What tells one workspace from another: IDs."""

    teams: frozenset[str]
    users: frozenset[str]
    channels: frozenset[str]


def is_other(first: WorkspaceIds, second: WorkspaceIds) -> bool:
    """Whether these are two workspaces, as far as anything tells."""
    users, channels = first.users & second.users, first.channels & second.channels
    if first.teams and second.teams:
        most = min(len(first.users), len(second.users))
        return first.teams.isdisjoint(second.teams) and 2 * len(users) <= most
    return bool(first.users and second.users) and not users and not channels


async def check_home(
    tables: Tables, home: Home, users: Iterable[str], channels: Iterable[str]
) -> None:
    """Note whose store it is, if nothing tells otherwise; ``users`` and ``channels`` are those of
    ``home``, guests left out.

    :raises OtherWorkspace: it is another one's
    """
    configuration = tables.configuration
    stored = await Home.load(configuration)
    listed = (await tables.users.all()).items()
    guests = {uid for uid, user in listed if user.is_stranger or user.unlisted} | {SLACKBOT}
    ids = WorkspaceIds(home.teams, frozenset(users) - guests, frozenset(channels))
    stored_ids = WorkspaceIds(
        stored.teams,
        frozenset(known for uid, user in listed if uid not in guests for known in user.ids),
        frozenset(await tables.channels.all()),
    )
    if is_other(ids, stored_ids):
        slack = await configuration.slack_name()
        name = f"{slack}.slack.com" if slack else str(stored) or "another one"
        raise OtherWorkspace(
            f"this is of the workspace {home}, what is stored is of {name}: give it tables of its"
            " own by --prefix NAME"
        )
    if not home.teams <= stored.teams:
        called = stored.called or home.called
        await Home(home.teams | stored.teams, called).save(configuration)
