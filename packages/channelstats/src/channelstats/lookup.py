"""Finding a person or a channel by what somebody calls them: in the tables, or among the names that
the dashboard shows.

Rule: an ID is taken as it is, in any case; a name must mean exactly one, in its own case or else in
any.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final

from channelstats.identifiers import is_user_id
from channelstats.render.names import Directory
from channelstats.slack.export_layout import one_form
from channelstats.tables import Tables
from channelstats.tables.directory import Channel, User, ids_of_people

MOST_FOUND: Final = 20
_ALIKE: Final = 0.7
"""From which likeness on a name may be what was meant."""

_MOST_MEANT: Final = 5
"""People who are suggested."""

_CHANNELS_NAMED: Final = 12
"""Channels that are named where a group has none."""

_WORDS: Final = re.compile(r"[\W_]+")


class NotFound(Exception):  # noqa: N818 - named for what happened
    """Nobody or nothing is called so, or several are; one line that says which."""


async def channel_id(tables: Tables, name: str) -> str:
    """The ID of a channel: of `C0123`, `#general` or `general`."""
    channels = await tables.channels.all()
    if (called := channel_called(channels, name)) is not None:
        return called
    for key in (name.upper(), name.removeprefix("#")):  # a previous name
        if (row := await tables.channels.named(key)) is not None:
            return row.slack_cid
    near = _did_you_mean(name, (channel.friendly_name for channel in channels.values()))
    raise NotFound(f"there is no channel {name!r}{near}")


def channel_called(channels: Mapping[str, Channel], name: str) -> str | None:
    """The ID of the one of these channels that has this ID or name; None if there is none.

    :raises NotFound: several have it
    """
    called = one_form(name.removeprefix("#"))
    if called.upper() in channels:
        return called.upper()
    matches = [channel for channel in channels.values() if channel.friendly_name == called] or [
        channel for channel in channels.values() if channel.slack_name == called
    ]
    if len(matches) > 1:
        every = ", ".join(
            sorted(f"{channel.friendly_name!r} ({channel.slack_cid})" for channel in matches)
        )
        raise NotFound(f"{name!r} may be any of {every}: give the ID")
    return matches[0].slack_cid if matches else None


def is_group_of_channels(text: str) -> bool:
    """Whether it means several channels: `help-*`, or `help-*, support`."""
    return "*" in text or "," in text


async def user_id(tables: Tables, name: str) -> str:
    """The ID of a user: of `U0123`, `@name` or `name`; of user, display and real names. Authors
    of messages who are in no list of users are found by ID.
    """
    users, uid = await tables.users.all(), name.upper()
    uid = ids_of_people(users).get(uid, uid)
    if is_user_id(uid) and uid not in users and uid in await tables.first_posts.all():
        return uid
    return user_of(users, name)


def user_of(users: Mapping[str, User], name: str) -> str:
    """The same among these users."""
    uids = _users_called(users, name)
    if not uids:
        raise NotFound(f"there is no user {name!r}{_people_like(users, name)}")
    if len(uids) > 1:
        raise NotFound(f"{name!r} may be any of {', '.join(uids)}: give the ID")
    return uids[0]


def _users_called(users: Mapping[str, User], name: str) -> list[str]:
    """Who is called so: in the same case if anybody is, else in any."""
    if is_user_id(uid := name.upper()):
        uid = ids_of_people(users).get(uid, uid)
        if uid in users:
            return [uid]
    called = one_form(name.removeprefix("@"))
    uids = sorted(uid for uid, user in users.items() if called in _names_of(user))
    if uids:
        return uids
    folded = called.casefold()
    return sorted(
        uid for uid, user in users.items() if folded in map(str.casefold, _names_of(user))
    )


def _names_of(user: User) -> tuple[str, str, str]:
    return user.user_name, user.display_name, user.real_name


def _people_like(users: Mapping[str, User], name: str) -> str:
    """Who may have been meant, as the end of an error: whoever has a word of their name begin so,
    else whoever is called most like it; "" for nobody.
    """
    part = name.removeprefix("@").casefold()
    alike = {
        called: None
        for user in users.values()
        for called in _names_of(user)
        if part and any(word.startswith(part) for word in _WORDS.split(called.casefold()))
    }
    if not alike:
        return _did_you_mean(
            name, (called for user in users.values() for called in _names_of(user))
        )
    some = sorted(alike)
    more = f" and {len(some) - _MOST_MEANT:,} more" if len(some) > _MOST_MEANT else ""
    return f"; did you mean {', '.join(map(repr, some[:_MOST_MEANT]))}{more}?"


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    """The name that is most like a misspelt one, in any case, as the end of an error; "" where none
    is.
    """
    folded = {spelt.casefold(): spelt for spelt in filter(None, known)}
    near = get_close_matches(name.lstrip("#@").casefold(), folded, 1, _ALIKE)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


class Names:
    """What people and channels are called on the pages, and whom an address means. Whoever is
    ``out`` is neither named nor found; without ``slack_name`` nothing is linked. Of a ``team``
    (IDs) those who are known are kept, by their names. Takes a moment to make for many people.
    """

    def __init__(
        self,
        users: Mapping[str, User],
        channels: Mapping[str, Channel],
        *,
        slack_name: str = "",
        out: Collection[str] = (),
        team: Collection[str] = (),
    ) -> None:
        self.users = {uid: user for uid, user in users.items() if uid not in out}
        self.channels = {cid: channel for cid, channel in channels.items() if cid not in out}
        self.directory = Directory.of_rows(self.users, self.channels, slack_name)
        known = (uid for uid in team if uid in self.users)
        self.team = tuple(sorted(known, key=lambda uid: self.directory.person(uid).casefold()))
        self._people = [
            (self.directory.person(uid), uid) for uid, user in self.users.items() if not user.is_bot
        ]
        self._bearers = Counter(name for user in self.users.values() for name in {*_names_of(user)})
        self._called = {
            cid: one_form(channel.friendly_name).casefold()
            for cid, channel in self.channels.items()
        }
        self._bearers_of_channels = Counter(self._called.values())

    def find_person(self, called: str) -> str:
        """The ID of the person with this name.

        :raises NotFound: nobody, or several
        """
        return user_of(self.users, called)

    def find_channel(self, called: str) -> str | None:
        """The ID of the channel of that ID or name; None if there is none today.

        :raises NotFound: several are called so
        """
        return channel_called(self.channels, called)

    def find_channels(self, group: str) -> tuple[str, ...]:
        """The IDs of the channels of a group: names and IDs, and patterns where a `*` stands for
        anything.

        :raises NotFound: one of these means no channel, or a name several
        """
        matches = dict[str, None]()
        for part in filter(None, map(str.strip, group.split(","))):
            if "*" in part:
                called = one_form(part.removeprefix("#")).casefold()
                pattern = re.sub(r"([?[])", r"[\1]", called)  # `*` alone means anything
                ids = [cid for cid, name in self._called.items() if fnmatchcase(name, pattern)]
            else:
                ids = list(filter(None, [self.find_channel(part)]))
            if not ids:
                raise NotFound(f"no channel is called like {part!r}; {self._some_channels()}")
            matches |= dict.fromkeys(ids)
        if not matches:
            raise NotFound(f"{group!r} names no channel; {self._some_channels()}")
        return tuple(sorted(matches))

    def _some_channels(self) -> str:
        """What channels there are, as the end of an error."""
        names = [name for _, name in self.listed_channels()]
        more = len(names) - _CHANNELS_NAMED
        rest = f" and {more:,} more" if more > 0 else ""
        return f"there are {', '.join(names[:_CHANNELS_NAMED]) or 'none'}{rest}"

    def channel_finder(self, cid: str) -> str:
        """What means exactly this channel: its name where it is no other's."""
        name = self.channels[cid].friendly_name
        is_only = self._bearers_of_channels[name.casefold()] == 1
        return f"#{name}" if name and is_only else cid

    def like(self, part: str) -> list[tuple[str, str]]:
        """Some people whose name has that in it: what finds each, and their name."""
        part = part.removeprefix("@").casefold().strip()
        alike = [(name, uid) for name, uid in self._people if part in name.casefold()]
        alike.sort(key=lambda one: (not one[0].casefold().startswith(part), one[0].casefold()))
        return [self.finder(uid, name) for name, uid in alike[:MOST_FOUND]]

    def finder(self, uid: str, name: str) -> tuple[str, str]:
        """What means exactly this person, the name where it is nobody else's; and the name."""
        return (name if self._bearers[name] == 1 else uid), name

    def listed_channels(self, hidden: Collection[str] = ()) -> list[tuple[str, str]]:
        """Every channel but ``hidden`` ones, by name: its ID and the name; archived ones last."""
        ordered = sorted(
            (channel.is_archived, self.directory.channel(cid).casefold(), cid)
            for cid, channel in self.channels.items()
            if cid not in hidden
        )
        return [(cid, self.directory.channel(cid)) for _, _, cid in ordered]
