"""The table Configuration: counts and their history, the names of channels, markers of work.

Rule: one row for each key, any columns; a report takes the counts of its own time, never today's.

    counts                active_users, all_users, active_humans
    counts_history        a column `yyyy-mm-dd` for each day they were taken, a map of the same
    channel_names         names: all, joined by `#`, as far as one row holds them
    active_channel_names  names: those not archived
    home                  teams: whose store it is; called: what its first export was called
    general               channels: the IDs of those that everybody joins
    as_of                 directory: the time, in seconds, that users and channels are as of
    workspace             name: what links in exports say; as_of: the newest of those, in seconds
    first_posts           counting: the way of counting that FirstPost was made by
    last_run              last_run: the time, in seconds, up to which everything was read;
                          unread: what a run after it could not read
    days, days <yyyy-mm>  versions of dates, see `day_versions`
    writer                which run writes messages: a lease
    sync <part>           what an unfinished run over the Web API has done: done (channel IDs);
                          at, begun (seconds); of (its options); of many channels in further
                          rows: sync <part> 1, 2, …
    import <fingerprint>  the same of an import; newest; workspaces (what links say, how often)
    seen exports          the ages of exports by their marks, see `ingest.export_time`
    last_import           of (which export and options), state (of messages, at its end); messages;
                          newest; workspaces
    forgotten             people: digests of the IDs of those whom the store has forgotten
    notes                 a column `yyyy-mm-dd` for each date that somebody noted something on: what
    sent …                what was sent where; see `channelstats.tables.sending`
"""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Final

import msgspec

from channelstats.tables.directory import Channel
from channelstats.tables.items import LIMIT, number, struct_of, text, texts, without_empty
from keytables import Clock, Item, TableHandle, Update, Value
from keytables.lease import Lease

WRITER_SECONDS: Final = 180
"""How long the lease of a writer lasts that is not renewed. In between there is time for a database
that is away and a loop that is busy."""


class Counts(msgspec.Struct, frozen=True):
    """How many users there are. Active ones are not deactivated; bots and guests are among them."""

    active_users: int = 0
    all_users: int = 0
    active_humans: int = 0


def counts_at(history: Mapping[date, Counts], day: date) -> Counts:
    """The counts of a day: the latest taken up to it, else the earliest after it, else zeros."""
    before = [taken for taken in history if taken <= day]
    if before:
        return history[max(before)]
    return history[min(history)] if history else Counts()


class Configuration:
    """See the module."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def get(self, key: str) -> Item:
        """The columns of a key; none when it is absent."""
        return await self._table.get((key,)) or {}

    async def put(self, key: str, columns: Mapping[str, Value]) -> None:
        await self._table.put({"key": key, **columns})

    async def update(self, key: str, update: Update, values: Mapping[str, Value]) -> None:
        await self._table.update((key,), update, values)

    async def delete(self, key: str) -> None:
        await self._table.delete((key,))

    def writer_lease(self, clock: Clock) -> Lease:
        """The lease of the one run that writes messages."""
        return Lease(self._table, ("writer",), clock, seconds=WRITER_SECONDS, names_process=True)

    # ── counts ───────────────────────────────────────────────────────────────────────────────────

    async def put_counts(self, counts: Counts) -> None:
        await self.put("counts", msgspec.structs.asdict(counts))

    async def add_to_history(self, day: date, counts: Counts) -> None:
        sample = Update(set={day.isoformat(): msgspec.structs.asdict(counts)})
        await self._table.update(("counts_history",), sample)

    async def counts(self) -> Counts:
        return struct_of(Counts, await self.get("counts"))

    async def history(self) -> dict[date, Counts]:
        """Counts by the day they were taken."""
        row = await self.get("counts_history")
        days = {_day(name): value for name, value in row.items() if isinstance(value, Mapping)}
        return {day: struct_of(Counts, value) for day, value in days.items() if day is not None}

    # ── notes on dates ───────────────────────────────────────────────────────────────────────────

    async def notes(self) -> dict[date, str]:
        row = await self.get("notes")
        days = {_day(name): str(value) for name, value in row.items()}
        return {day: value for day, value in days.items() if day is not None}

    async def put_note(self, day: date, text: str) -> None:
        """Note this on a date, in place of what was noted on it."""
        await self._table.update(("notes",), Update(set={day.isoformat(): text}))

    async def remove_note(self, day: date) -> None:
        await self._table.update(("notes",), Update(remove=(day.isoformat(),)))

    # ── names, times ─────────────────────────────────────────────────────────────────────────────

    async def put_names(self, channels: Iterable[Channel]) -> None:
        """Store the names of all channels and of those not archived, sorted; more than a row holds
        are not stored at all, rather than some of them.
        """
        ordered = sorted((channel.friendly_name, channel.is_archived) for channel in channels)
        names = [name for name, _ in ordered if name]
        active = [name for name, archived in ordered if name and not archived]
        for key, listed in (("channel_names", names), ("active_channel_names", active)):
            joined = "#".join(listed)
            fits = len(joined.encode()) <= LIMIT
            await self.put(key, without_empty({"names": joined if fits else ""}))

    async def put_general(self, channels: Iterable[Channel]) -> None:
        """Store which channels everybody joins; where no list says so, what is stored stays."""
        if general := frozenset(channel.slack_cid for channel in channels if channel.is_general):
            await self.put("general", {"channels": general})

    async def general(self) -> frozenset[str]:
        """The IDs of the channels that everybody joins with their account, as lists have said."""
        return texts(await self.get("general"), "channels")

    async def forgotten(self) -> frozenset[str]:
        """Digests of the people whom the store has forgotten."""
        return texts(await self.get("forgotten"), "people")

    async def add_forgotten(self, digests: frozenset[str]) -> None:
        await self.update("forgotten", Update(add_to=("people",)), {"people": digests})

    async def directory_as_of(self) -> int:
        """Seconds since the epoch that User and Channel are as of; 0 when they are empty."""
        return number(await self.get("as_of"), "directory") or 0

    async def raise_directory_as_of(self, seconds: int) -> None:
        if seconds > await self.directory_as_of():
            await self.put("as_of", {"directory": seconds})

    async def slack_name(self, given: str = "") -> str:
        """`xxx` of `https://xxx.slack.com`: the one given, else as exports say; "" for unknown."""
        return given or text(await self.get("workspace"), "name")

    async def put_workspace(self, name: str, as_of: int) -> None:
        """Store what an export says; that of a more recent one stays."""
        if as_of >= (number(await self.get("workspace"), "as_of") or 0):
            await self.put("workspace", {"name": name, "as_of": as_of})

    async def first_posts_counting(self) -> str:
        """The name of the way of counting that the table FirstPost was made by; "" for none."""
        return text(await self.get("first_posts"), "counting")

    async def put_first_posts_counting(self, name: str) -> None:
        await self.put("first_posts", without_empty({"counting": name}))

    async def last_run(self) -> int:
        """Epoch seconds up to which a finished run has read everything; 0 before the first."""
        return number(await self.get("last_run"), "last_run") or 0

    async def unread(self) -> str:
        """What kept the last run over everything from having read it; "" for nothing."""
        return text(await self.get("last_run"), "unread")

    async def put_unread(self, reason: str) -> None:
        await self.put("last_run", {**await self.get("last_run"), "unread": reason})

    async def raise_last_run(self, seconds: int) -> None:
        if seconds > await self.last_run():
            await self.put("last_run", {"last_run": seconds})


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
