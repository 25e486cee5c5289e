"""Who is one person, and who is from outside, by what Slack says of users.

Rule: a person has one ID here, whichever of theirs a list or a message has: of an Enterprise Grid
everybody has an ID of the whole (`enterprise_user.id`, mostly W…), and may have another one (U…) in
each workspace. What comes is translated before anything is made of it, so that nothing else needs
to know. Once an ID stands for a person it goes on to do so.

Rule: somebody is from outside who Slack says is a stranger, or who is of another workspace than
most of the users of a list, or who writes and is in no list although there is one.

Of the list of members that the analytics page of Slack exports as CSV, which says when accounts
were made, IDs and dates are read, and never names and addresses. A line that cannot be understood
costs itself.
"""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import midnight
from channelstats.identifiers import SLACKBOT, is_user_id
from channelstats.ingest.rows import user_of
from channelstats.slack.export import Problem
from channelstats.slack.objects import SlackUser
from channelstats.tables import Tables
from channelstats.tables.directory import User, ids_of_people
from channelstats.tables.exclusion import Exclusions, join_people

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


# ── when accounts were made ──────────────────────────────────────────────────────────────────────

_SEPARATORS: Final = ",;\t"
_HEADINGS: Final = 5
"""Lines at the beginning among which the names of the columns are looked for."""

_SHOWN: Final = 10
"""Lines named for each kind of problem."""

_FIRST: Final = date(2000, 1, 1)
_DATES: Final = (
    *("%Y-%m-%d", "%Y/%m/%d", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"),
    *("%d %b %Y", "%d %B %Y"),
)
_ID: Final = ("userid", "memberid", "slackuserid", "slackuid", "uid")
_CREATED: Final = (
    *("accountcreated", "accountcreatedutc", "accountcreatedon", "datecreated", "created"),
)
"""Spellings of the columns, by their letters alone."""


class MalformedList(Exception):  # noqa: N818
    """The file cannot be used. The message is one line that says what was expected."""


class Accounts(msgspec.Struct, frozen=True):
    """When accounts were made, in seconds by user; what is wrong with some lines."""

    created: dict[str, int]
    problems: list[Problem]


def read_accounts(path: Path, zone: ZoneInfo, today: date) -> Accounts:
    """Read a list of members. A date is its midnight in ``zone``; one after ``today`` is absurd;
    of two the earlier one is right.

    :raises MalformedList: the columns are not there
    """
    created: dict[str, int] = {}
    wrong = defaultdict[str, list[int]](list)
    for line, uid, text in _rows(path.name, path.read_bytes()):
        day = _day(text)
        if not is_user_id(uid):
            wrong["User ID: expected an ID like U012ABCDEF"].append(line)
        elif day is None:
            wrong["Account created: expected a date like Nov 3, 2017"].append(line)
        elif not _FIRST <= day <= today:
            wrong["Account created: before the year 2000, or in the future"].append(line)
        else:
            at = midnight(day, zone)
            created[uid] = min(at, created.get(uid, at))
    problems = [Problem(f"{path.name} {_lines_text(lines)}", why) for why, lines in wrong.items()]
    return Accounts(created, problems)


def _lines_text(numbers: Sequence[int]) -> str:
    named, rest = ", ".join(map(str, numbers[:_SHOWN])), len(numbers) - _SHOWN
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"line{'s' if len(numbers) > 1 else ''} {named}{more}"


async def store_accounts(tables: Tables, created: Mapping[str, int], out: Exclusions) -> int:
    """Store when accounts were made; return of how many nothing as early was known."""
    ids = ids_of_people(await tables.users.all())
    people = ((ids.get(uid, uid), ts) for uid, ts in created.items())
    kept = [(uid, ts) for uid, ts in people if uid not in out]
    return await tables.users_created.add(kept)


def _rows(name: str, data: bytes) -> list[tuple[int, str, str]]:
    """The number of each line, with the ID and the date in it.

    :raises MalformedList: the columns are not there
    """
    utf_16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = data.decode("utf-16" if utf_16 else "utf-8-sig", errors="replace")
    lines = text.splitlines(keepends=True)
    try:
        for heading, line in enumerate(lines[:_HEADINGS], 1):
            for separator in _SEPARATORS:
                cells = next(csv.reader([line], delimiter=separator), [])
                names = [re.sub(r"[^a-z]", "", cell.lower()) for cell in cells]
                uid = next(filter(names.__contains__, _ID), None)
                created = next(filter(names.__contains__, _CREATED), None)
                if uid is not None and created is not None:
                    rows = csv.DictReader(lines[heading:], names, "", "", delimiter=separator)
                    return [
                        (heading + rows.line_num, row[uid].strip(), row[created].strip())
                        for row in rows
                        if any("".join(cell).strip() for cell in row.values())
                    ]
    except csv.Error as error:
        raise MalformedList(f"{name}: {error}") from None
    raise MalformedList(
        f"{name}: expected the columns 'User ID' and 'Account created', as in the list of members "
        "that Slack's analytics page exports"
    )


def _day(text: str) -> date | None:
    """The date of a text; one that may be read in two ways is none."""
    for form in _DATES:
        try:
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a date has no zone
        except ValueError:
            continue
    return None
