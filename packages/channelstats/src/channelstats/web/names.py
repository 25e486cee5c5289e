"""What people and channels are called on the pages, and whom an address means.

Rule: in the anonymous dashboard nothing that comes out or goes in is real: pages, addresses and
twins know pseudonyms and pseudonymous IDs, and only those are understood.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import Final, Self

import msgspec

from channelstats import lookup
from channelstats.lookup import NotFound
from channelstats.render.names import Directory
from channelstats.reports.anonymous import Pseudonyms
from channelstats.tables.directory import Channel, User
from channelstats.views.model import Kind, Table, View
from channelstats.views.renaming import renamed

MOST_FOUND: Final = 20


class Names:
    """``hidden`` gives pseudonyms; None for the names that are real. Whoever is ``out`` is neither
    named nor found.
    """

    def __init__(
        self,
        users: Mapping[str, User],
        channels: Mapping[str, Channel],
        *,
        slack_name: str = "",
        secret: bytes | None = None,
        out: Collection[str] = (),
    ) -> None:
        self.users = {uid: user for uid, user in users.items() if uid not in out}
        self.channels = {cid: channel for cid, channel in channels.items() if cid not in out}
        self._slack_name = slack_name
        self.hidden = None if secret is None else Pseudonyms(secret, self._every_name())

    @cached_property
    def directory(self) -> Directory:
        """By the IDs that are shown."""
        if self.hidden is None:
            return Directory(
                people={uid: user.name for uid, user in self.users.items()},
                channels={cid: channel.name for cid, channel in self.channels.items()},
                slack_name=self._slack_name,
            )
        return Directory(
            people={self.shown(uid): self.hidden.person(uid) for uid in self.users},
            channels={self.shown(cid): self.hidden.channel(cid) for cid in self.channels},
            real=False,
        )

    def prepare(self) -> Self:
        """Work out now what everybody needs: it takes a moment for many people."""
        _ = self.directory, self._people, self._bearers
        if self.hidden is not None:
            _ = self._hidden_people, self._hidden_channels
        return self

    def shown(self, of: str) -> str:
        """The ID that pages and addresses use."""
        return self.hidden.identifier(of) if self.hidden is not None and of else of

    def hide(self, view: View) -> View:
        """The view with IDs that may be shown; of messages nothing is left that leads to them."""
        if self.hidden is None:
            return view
        hidden = self.hidden
        tables = tuple(_without(table, Kind.MESSAGE) for table in view.tables)
        return renamed(
            msgspec.structs.replace(view, tables=tables),
            {
                Kind.PERSON: hidden.identifier,
                Kind.CHANNEL: hidden.identifier,
                Kind.EMOJI: hidden.emoji,
            },
        )

    def person(self, uid: str) -> str:
        """What somebody is called, known or not; by the real ID."""
        if self.hidden is not None:
            return self.hidden.person(uid)
        return self.directory.person(uid)

    def channel(self, cid: str) -> str:
        """What a channel is called; by the real ID."""
        if self.hidden is not None:
            return self.hidden.channel(cid)
        return self.directory.channel(cid)

    # ── whom an address means ────────────────────────────────────────────────────────────────────

    def find_person(self, called: str) -> str:
        """The ID of whoever is called so.

        :raises NotFound: nobody, or several
        """
        if self.hidden is None:
            return lookup.user_of(self.users, called)
        return self._find_hidden("user", called.removeprefix("@"), self._hidden_people)

    def find_channel(self, called: str) -> str | None:
        """The ID of the channel of that ID or name; None if there is none today.

        :raises NotFound: only pseudonyms are understood, and this is none
        """
        name = called.removeprefix("#")
        if self.hidden is not None:
            return self._find_hidden("channel", name, self._hidden_channels)
        if name.upper() in self.channels:
            return name.upper()
        return next((cid for cid, of in self.channels.items() if of.name == name), None)

    def like(self, part: str) -> list[tuple[str, str]]:
        """Some people whose name has that in it: what finds each, and their name."""
        part = part.removeprefix("@").casefold().strip()
        found = [(name, uid) for name, uid in self._people if part in name.casefold()]
        found.sort(key=lambda one: (not one[0].casefold().startswith(part), one[0].casefold()))
        return [self.finder(uid, name) for name, uid in found[:MOST_FOUND]]

    def finder(self, shown: str, name: str) -> tuple[str, str]:
        """What means exactly this person, the name where it is nobody else's; and the name."""
        return (name if self._bearers.get(name, 0) == 1 else shown), name

    def listed_channels(self) -> list[tuple[str, str]]:
        """Every channel by name: the ID that is shown, and the name; archived ones last."""
        of = sorted(
            (channel.is_archived, self.channel(cid).casefold(), cid)
            for cid, channel in self.channels.items()
        )
        return [(self.shown(cid), self.channel(cid)) for _, _, cid in of]

    @cached_property
    def _people(self) -> list[tuple[str, str]]:
        """Names of people who are no bots, with the IDs that are shown."""
        return [
            (self.person(uid), self.shown(uid))
            for uid, user in self.users.items()
            if not user.is_bot
        ]

    @cached_property
    def _bearers(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for uid, user in self.users.items():
            own = {user.user_name, user.display_name, user.real_name}
            for name in own if self.hidden is None else {self.person(uid)}:
                found[name] = found.get(name, 0) + 1
        return found

    @cached_property
    def _hidden_people(self) -> dict[str, str]:
        return self._known(self.users, self.person)

    @cached_property
    def _hidden_channels(self) -> dict[str, str]:
        return self._known(self.channels, self.channel)

    def _known(self, ids: Collection[str], named: Callable[[str], str]) -> dict[str, str]:
        """Real IDs by what is understood in their place."""
        return {text.casefold(): of for of in ids for text in (self.shown(of), named(of))}

    def _find_hidden(self, what: str, called: str, known: Mapping[str, str]) -> str:
        found = known.get(called.casefold())
        if found is None:
            raise NotFound(f"there is no {what} {called!r} here; pseudonyms are understood alone")
        return found

    def _every_name(self) -> Iterator[str]:
        yield from (channel.friendly_name for channel in self.channels.values())
        for user in self.users.values():
            yield from (user.user_name, user.real_name, user.display_name)


def _without(table: Table, kind: Kind) -> Table:
    """The table without the columns of a kind."""
    kept = [at for at, column in enumerate(table.columns) if column.kind is not kind]
    return msgspec.structs.replace(
        table,
        columns=tuple(table.columns[at] for at in kept),
        rows=tuple(tuple(row[at] for at in kept) for row in table.rows),
    )
