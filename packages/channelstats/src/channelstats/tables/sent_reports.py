"""What was sent where, in the table Configuration: a row for each report, period and destination.

Rule: a row has one holder at a time. Whoever sends takes the row first and changes it only while it
is still theirs; a run that died holds it no longer than its time.

    key       sent <kind> <ID of the channel or user, or -> <start>-<days> <ID of the destination>
    run       who holds it; another run takes it by putting its own name here
    until     seconds until which it is held; 0 when nobody holds it
    edition   which edition of the report; a new one begins when it is sent from its beginning
    content   digest of what the edition says
    channel   channel that it went to: of direct messages, where the destination is a person
    thread    ts of the message that begins the thread
    posted    ts of the edition's parts, joined by `,`
    blocks    how many blocks these parts hold
    trying    number of the part that is being posted; it may be there already
    tried_at  seconds at which the edition's last try began
    file      ID of the file that was put into the thread
    done      seconds at which all of it was there
"""

from collections.abc import Callable, Mapping
from datetime import date
from typing import Final

import msgspec

from channelstats.tables.items import everything, number, text, without_empty
from keytables import Attr, ConditionFailed, Item, Param, TableHandle, Value

_PREFIX: Final = "sent "
_ISO: Final = len("yyyy-mm-dd")
_NEW: Final = Attr("run").absent()
_OWN: Final = Attr("run") == Param("run")
_AS_SEEN: Final = (Attr("run") == Param("run")) & (Attr("until") == Param("until"))


class SentKey(msgspec.Struct, frozen=True):
    """Which report went where. ``subject`` is the ID of a channel or a user, if it is about one."""

    kind: str
    subject: str
    start: date
    days: int
    destination: str

    def __str__(self) -> str:
        period = f"{self.start.isoformat()}-{self.days}"
        return f"{_PREFIX}{self.kind} {self.subject or '-'} {period} {self.destination}"


class Sent(msgspec.Struct, frozen=True):
    """A row; see the module."""

    run: str = ""
    until: int = 0
    edition: str = ""
    content: str = ""
    channel: str = ""
    thread: str = ""
    posted: tuple[str, ...] = ()
    blocks: int = 0
    trying: int = 0
    tried_at: int = 0
    file: str = ""
    done: int = 0


class NotHeld(Exception):  # noqa: N818 - named for what happened
    """Another run has taken the row over."""


class SentReports:
    """See the module."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def get(self, key: SentKey) -> Sent | None:
        item = await self._table.get((str(key),))
        return None if item is None else _sent(item)

    async def take(self, key: SentKey, seen: Sent | None, row: Sent) -> bool:
        """Put the row in place of the one that was ``seen``; False if it has changed meanwhile."""
        values: Mapping[str, Value] = {"run": seen.run, "until": seen.until} if seen else {}
        try:
            await self._table.put(
                _item(key, row), condition=_AS_SEEN if seen else _NEW, values=values
            )
        except ConditionFailed:
            return False
        return True

    async def keep(self, key: SentKey, row: Sent) -> None:
        """Put a row that is held.

        :raises NotHeld: it is no longer
        """
        try:
            await self._table.put(_item(key, row), condition=_OWN, values={"run": row.run})
        except ConditionFailed:
            raise NotHeld from None

    async def forget(self, uid: str) -> None:
        """Delete the rows of what a person was sent, or what was sent about them."""
        await self._delete(lambda name: uid in name.split())

    async def expire(self, before: date) -> None:
        """Delete the rows of reports on periods that began earlier."""
        await self._delete(lambda name: name.split()[-2][:_ISO] < before.isoformat())

    async def _delete(self, old: Callable[[str], bool]) -> None:
        async for items in everything(self._table):
            names = [name for item in items if (name := text(item, "key")).startswith(_PREFIX)]
            await self._table.batch_write(deletes=[(name,) for name in names if old(name)])


def _item(key: SentKey, row: Sent) -> Item:
    # Conditions are on these two, so they are there even when they are empty.
    held: Item = {"run": row.run, "until": row.until}
    columns = msgspec.structs.asdict(row) | {"posted": ",".join(row.posted)}
    return {"key": str(key), **without_empty(columns), **held}


def _sent(item: Item) -> Sent:
    posted = text(item, "posted")
    return Sent(
        run=text(item, "run"),
        until=number(item, "until") or 0,
        edition=text(item, "edition"),
        content=text(item, "content"),
        channel=text(item, "channel"),
        thread=text(item, "thread"),
        posted=tuple(posted.split(",")) if posted else (),
        blocks=number(item, "blocks") or 0,
        trying=number(item, "trying") or 0,
        tried_at=number(item, "tried_at") or 0,
        file=text(item, "file"),
        done=number(item, "done") or 0,
    )
