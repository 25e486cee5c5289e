"""Who is one person, and who is from outside, by what Slack says of users.

Rule: a person has one ID here, whichever of theirs a list or a message has: of an Enterprise Grid
everybody has an ID of the whole (`enterprise_user.id`, mostly W…), and may have another one (U…) in
each workspace. What comes is translated before anything is made of it, so that nothing else needs
to know. Once an ID stands for a person it goes on to do so.

Rule: somebody is from outside who Slack says is a stranger, or who is of another workspace than
most of the users of a list, or who writes and is in no list although there is one.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from channelstats.identifiers import SLACKBOT, is_user_id
from channelstats.ingest.rows import user_of
from channelstats.slack.objects import SlackUser
from channelstats.tables import Tables
from channelstats.tables.directory import User, ids_of_people
from channelstats.tables.exclusion import join_people

_NOWHERE: Final = frozenset[str]()


def one_id_each(users: Iterable[SlackUser], known: Mapping[str, str]) -> dict[str, str]:
    """The ID that stands for each person who has several, by each other one of theirs; ``known``
    are those of before.
    """
    groups: dict[str, set[str]] = {}
    pairs = [(user.id, _of_grid(user)) for user in users]
    for uid, other in [*known.items(), *((uid, other) for uid, other in pairs if other)]:
        joined = groups.get(uid, {uid}) | groups.get(other, {other})
        groups |= dict.fromkeys(joined, joined)
    standing = set(known.values())
    return {
        uid: best
        for uid, joined in groups.items()
        if uid != (best := min(joined & standing, default=min(joined)))
    }


def people_of(
    users: Collection[SlackUser], stored: Mapping[str, User], homes: frozenset[str]
) -> list[User]:
    """The people on a list of users, the first of each first; ``stored`` are those of before, for
    ``homes`` see `home_teams`.
    """
    ids = one_id_each(users, ids_of_people(stored))
    others = defaultdict[str, set[str]](set)
    for other, uid in ids.items():
        others[uid].add(other)
    people: dict[str, User] = {}
    for user in users:
        uid = ids.get(user.id, user.id)
        is_stranger = bool(user.is_stranger) or is_from_outside(user.team_id, homes)
        row = msgspec.structs.replace(
            user_of(user),
            slack_uid=uid,
            is_stranger=is_stranger and user.id != SLACKBOT,
            other_ids=" ".join(sorted(others[uid])),
        )
        people[uid] = _joined(people[uid], row) if uid in people else row
    return list(people.values())


def home_teams(users: Iterable[SlackUser], *, is_grid: bool = False) -> frozenset[str]:
    """The workspaces that a list of users is of: the one that most are of, of an Enterprise Grid
    all of it; none where that is not known.
    """
    teams, grids = Counter[str](), Counter[str]()
    of_grid = defaultdict[str, set[str]](set)
    for user in users:
        if user.is_stranger:
            continue
        if user.team_id:
            teams[user.team_id] += 1
        grid = user.enterprise_user
        if grid is not None and grid.enterprise_id:
            grids[grid.enterprise_id] += 1
            of_grid[grid.enterprise_id].update(filter(None, (user.team_id, *(grid.teams or ()))))
    if is_grid:
        return frozenset(teams)
    if grids:
        [(largest, number)] = grids.most_common(1)
        if 2 * number >= sum(teams.values()):
            return frozenset({largest, *of_grid[largest]})
    return most_are_of(teams)


def most_are_of(teams: Mapping[str, int]) -> frozenset[str]:
    """The one team that most are of; none where there are two such."""
    most = max(teams.values(), default=0)
    largest = [team for team, number in teams.items() if number == most]
    return frozenset(largest) if len(largest) == 1 else _NOWHERE


def is_from_outside(team: str | None, homes: frozenset[str]) -> bool:
    """Whether somebody of a team is none of the workspaces ``homes``; not where nothing tells."""
    return bool(team) and bool(homes) and team not in homes


def _of_grid(user: SlackUser) -> str:
    """The ID that a user has in all of an Enterprise Grid, if another one; else ""."""
    uid = user.enterprise_user.id if user.enterprise_user is not None else None
    return uid if uid is not None and is_user_id(uid) and uid != user.id else ""


def _joined(first: User, second: User) -> User:
    """What two entries of a list say of one person: each name as the first one has it that has any;
    they are gone, or from outside, where they are so everywhere.
    """
    return msgspec.structs.replace(
        first,
        user_name=first.user_name or second.user_name,
        real_name=first.real_name or second.real_name,
        display_name=first.display_name or second.display_name,
        tz=first.tz or second.tz,
        tz_offset=first.tz_offset if first.tz else second.tz_offset,
        deleted=first.deleted and second.deleted,
        is_stranger=first.is_stranger and second.is_stranger,
        admin=first.admin or second.admin,
        is_bot=first.is_bot or second.is_bot,
    )


# ── what is stored of them ───────────────────────────────────────────────────────────────────────


async def join_stored(tables: Tables, ids: Mapping[str, str], stored: Mapping[str, User]) -> bool:
    """Join what is stored as of several people who are one by these ``ids`` (see `ids_of_people`),
    and return whether anything was; ``stored`` are the users.
    """
    if not ids:
        return False
    posted = await tables.first_posts.all()
    apart = {other: uid for other, uid in ids.items() if other in stored or other in posted}
    if apart:
        await join_people(tables, apart)
    return bool(apart)


async def mark_strangers(tables: Tables, teams: Mapping[str, str], homes: frozenset[str]) -> None:
    """Mark those stored users as from outside whose messages say that they are of another one of
    ``teams`` than ``homes``.
    """
    outside = {uid for uid, team in teams.items() if is_from_outside(team, homes)}
    if not outside:
        return
    users = (await tables.users.all()).items()
    strangers = [stored for uid, stored in users if uid in outside and not stored.is_stranger]
    await tables.users.put(msgspec.structs.replace(user, is_stranger=True) for user in strangers)
