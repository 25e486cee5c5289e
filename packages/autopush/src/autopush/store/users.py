"""Router records: who a user is, where it is connected, which message table it has.

Rule: a record is changed attribute by attribute and under a condition, never overwritten, so that
two nodes that briefly hold the same user cannot undo each other's writes.
"""

import random
from calendar import monthrange
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, Final

from msgspec import Struct

from autopush.clock import Clock
from autopush.store.tables import Hasher, Month
from autopush.webpush.urgency import LEVELS, LOWEST
from keytables import (
    Attr,
    Condition,
    ConditionFailed,
    Item,
    Param,
    Returning,
    TableHandle,
    Update,
    Value,
    Values,
)

RECORD_VERSION: Final = 1
WEBPUSH: Final = "webpush"
SIMPLEPUSH: Final = "simplepush"
CONNECTING: Final = frozenset({WEBPUSH, SIMPLEPUSH})
"""Router types of users that connect; those of other types are reached through bridges."""

REMOVAL: Final = "removal"
"""Attribute of a record whose user is being removed: it is needed until all else is gone."""

CONNECT_KEY_SPREAD: Final = 10
"""Garbage-collection keys of an hour, so that its users do not share one."""


IS_NEWEST: Final = (
    Attr("router_type").absent() | (Attr("router_type") == Param("router_type"))
) & (Attr("node_id").absent() | (Attr("connected_at") < Param("connected_at")))
"""Allows a connection newer than the one on record, or any if none is on record."""
IS_NEWEST_OF_KNOWN: Final = Attr("router_type").exists() & IS_NEWEST
"""The same, but a user dropped meanwhile is not created again, without its table."""
IS_REGISTERED_AS: Final = (Attr("router_type") == Param("router_type")) & (
    Attr("connected_at") == Param("read_at")
)
"""A bridge's user may be changed if it has not registered again since it was read."""
IS_USER_OF_TABLE: Final = (Attr("router_type") == Param("router_type")) & (
    Attr("current_month").absent() | (Attr("current_month") == Param("read_month"))
)
"""A bridge's user may get another message table if it still has the one that was read."""
IS_THAT_CONNECTION: Final = (Attr("node_id") == Param("node_id")) & (
    Attr("connected_at") == Param("connected_at")
)
IS_NOT_OLDER: Final = IS_THAT_CONNECTION | IS_NEWEST_OF_KNOWN
"""The same connection too."""
IS_UNKNOWN: Final = Attr("router_type").absent()
IS_MOVED_FROM: Final = IS_THAT_CONNECTION & (Attr("moved_from") == Param("moved_from"))
HAS_NOT_RECONNECTED: Final = Attr("connected_at").absent() | (
    Attr("connected_at") == Param("connected_at")
)
IS_AS_IT_WAS: Final = HAS_NOT_RECONNECTED & (
    Attr("current_month").absent() | (Attr("current_month") == Param("current_month"))
)
"""A user may be dropped if it has neither connected nor been moved since its record was read."""


class UserRecord(Struct, frozen=True):
    """One row of the router table.

    `connected_at`: ms; `node_id`: base URL of the node that holds the connection; `last_connect`:
    the garbage-collection key (:func:`make_connect_key`); `moved_from`: the previous message table,
    until it has been read to its end; `router_data`: what the bridge needs; `critical_failure`: why
    the bridge can never reach the user; `wake_data`: where a SimplePush device can be woken;
    `min_urgency`: of messages to be sent; `secret_hash`: of what its user agent has to send, or "";
    `unread`: 1 if messages are stored of which the node could not be notified; `account`: the
    identity of the account that it belongs to, or "".
    """

    uaid: str
    router_type: str
    connected_at: int
    node_id: str | None = None
    current_month: str | None = None
    last_connect: int | None = None
    record_version: int = 0
    moved_from: str | None = None
    router_data: Mapping[str, Value] | None = None
    critical_failure: str | None = None
    wake_data: Mapping[str, Value] | None = None
    min_urgency: str = LOWEST
    secret_hash: str = ""
    unread: int = 0
    account: str = ""


def make_connect_key(now: float) -> int:
    """The garbage-collection key for `now` (epoch seconds): YYYYMMHH and 0001 to 0010."""
    hour = datetime.fromtimestamp(now, UTC).strftime("%Y%m%H")
    number = random.randint(1, CONNECT_KEY_SPREAD)  # noqa: S311 - spreads load, guards nothing
    return int(f"{hour}{number:04}")


def is_connect_key_of_month(key: int | None, now: float) -> bool:
    return key is not None and str(key).startswith(_year_and_month(int(now) // 3600))


def connect_keys(month: Month) -> Iterator[int]:
    """Every key a record of that month can have, the original's 0000 included."""
    return _keys_of_hours(f"{month.year:04}{month.month:02}")


def connect_keys_of_day(month: Month, day: int) -> Iterator[int]:
    """The keys YYYYMMDDHHNNNN, which the original documents; none if there is no such day."""
    if day > monthrange(*month)[1]:
        return iter(())
    return _keys_of_hours(f"{month.year:04}{month.month:02}{day:02}")


def _keys_of_hours(prefix: str) -> Iterator[int]:
    for hour in range(24):
        for number in range(CONNECT_KEY_SPREAD + 1):
            yield int(f"{prefix}{hour:02}{number:04}")


def month_of_connect_key(key: int) -> Month:
    """The month of a key of either form."""
    text = str(key)
    return Month(int(text[:4]), int(text[4:6] or 0))


@lru_cache(maxsize=2)
def _year_and_month(hour: int) -> str:
    """`hour`: hours since the epoch."""
    return datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y%m")


_ATTRIBUTES: Final[Mapping[str, type]] = {
    "router_type": str,
    "connected_at": int,
    "node_id": str,
    "current_month": str,
    "curmonth": str,
    "last_connect": int,
    "record_version": int,
    "moved_from": str,
    "router_data": dict,
    "critical_failure": str,
    "wake_data": dict,
    "min_urgency": str,
    "secret_hash": str,
    "unread": int,
    "account": str,
}
"""The attributes of a row that are read; one of another type is treated as absent."""


def parse_record(uaid: str, item: Item) -> UserRecord | None:
    """The record in a row, None if it lacks a required attribute."""
    attributes: dict[str, Any] = {
        name: value for name, value in item.items() if type(value) is _ATTRIBUTES.get(name)
    }
    if "router_type" not in attributes or "connected_at" not in attributes:
        return None
    if "curmonth" in attributes:  # as the documentation of the original names it
        month = attributes.pop("curmonth")
        attributes.setdefault("current_month", month)
    if "wake_data" in attributes:
        wake = attributes.pop("wake_data").get("data")
        if isinstance(wake, dict) and attributes["router_type"] == SIMPLEPUSH:
            attributes["wake_data"] = wake
    if "min_urgency" in attributes and attributes["min_urgency"] not in LEVELS:
        del attributes["min_urgency"]  # of a later version
    return UserRecord(uaid, **attributes)


class Users:
    """The router table. UAIDs are hashed if the deployment has a key for that."""

    def __init__(self, table: TableHandle, hasher: Hasher, clock: Clock) -> None:
        self._table = table
        self._hash = hasher
        self._clock = clock
        self._on_incomplete: list[Callable[[str], None]] = []
        self.name = table.table.name

    def on_incomplete(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the UAID of each user dropped for an incomplete record."""
        self._on_incomplete.append(listener)

    async def get(self, uaid: str) -> UserRecord | None:
        """The user's record. One without a required attribute is dropped and counts as absent, but
        a removal that has begun is left to `UserRemover`.
        """
        item = await self._table.get((self._hash(uaid),))
        if item is None:
            return None
        record = parse_record(uaid, item)
        if record is None and REMOVAL not in item:
            for listener in self._on_incomplete:
                listener(uaid)
            await self.drop(uaid)
        return record

    async def get_all(self, uaids: Collection[str]) -> dict[str, UserRecord]:
        """The records of these users; incomplete ones are left out."""
        items = await self._table.batch_get([(self._hash(uaid),) for uaid in uaids])
        by_key = {item["uaid"]: item for item in items}
        records = {}
        for uaid in uaids:
            item = by_key.get(self._hash(uaid))
            record = None if item is None else parse_record(uaid, item)
            if record is not None:
                records[uaid] = record
        return records

    async def connect(
        self,
        record: UserRecord,
        node_id: str,
        connected_at: int,
        wake_data: Mapping[str, str] | None = None,
        min_urgency: str | None = None,
        account: str = "",
    ) -> UserRecord | None:
        """Record that a known user is connected here; returns the record before. What is None or ""
        stays as recorded.

        None if a newer connection is on record, or the user was dropped.
        """
        now = self._clock()
        values: dict[str, Value] = {
            "node_id": node_id,
            "connected_at": connected_at,
            "router_type": record.router_type,
        }
        if not is_connect_key_of_month(record.last_connect, now):
            values["last_connect"] = make_connect_key(now)
        if wake_data is not None:
            values["wake_data"] = {"data": dict(wake_data)}
        if min_urgency is not None:
            values["min_urgency"] = min_urgency
        if account and account != record.account:
            values["account"] = account
        try:
            old = await self._table.update(
                (self._hash(record.uaid),),
                _setting(*values),
                values,
                condition=IS_NEWEST_OF_KNOWN,
                returning=Returning.OLD,
            )
        except ConditionFailed:
            return None
        return (parse_record(record.uaid, old) if old else None) or record

    def is_changed_by(
        self,
        record: UserRecord,
        wake_data: Mapping[str, str] | None,
        min_urgency: str | None,
        account: str,
    ) -> bool:
        """Whether `connect` would record more than the connection itself."""
        return (
            not is_connect_key_of_month(record.last_connect, self._clock())
            or (wake_data is not None and wake_data != record.wake_data)
            or (min_urgency is not None and min_urgency != record.min_urgency)
            or (bool(account) and account != record.account)
        )

    def create(
        self,
        uaid: str,
        node_id: str,
        connected_at: int,
        month: str,
        min_urgency: str = LOWEST,
        secret_hash: str = "",
        account: str = "",
    ) -> Awaitable[object]:
        """Write a new Web Push user. A repetition changes the garbage-collection key only."""
        more: dict[str, Value] = {"current_month": month}
        if min_urgency != LOWEST:
            more["min_urgency"] = min_urgency
        if secret_hash:
            more["secret_hash"] = secret_hash
        if account:
            more["account"] = account
        return self._create(uaid, WEBPUSH, node_id, connected_at, more)

    def create_simplepush(
        self,
        uaid: str,
        node_id: str,
        connected_at: int,
        wake_data: Mapping[str, str] | None,
        account: str = "",
    ) -> Awaitable[object]:
        """Write a new SimplePush user, without a message table; may be repeated as `create`."""
        more: dict[str, Value] = {"account": account} if account else {}
        if wake_data is not None:
            more["wake_data"] = {"data": dict(wake_data)}
        return self._create(uaid, SIMPLEPUSH, node_id, connected_at, more)

    def _create(
        self, uaid: str, router_type: str, node_id: str, connected_at: int, more: Values
    ) -> Awaitable[object]:
        values = {
            "node_id": node_id,
            "connected_at": connected_at,
            "router_type": router_type,
            "last_connect": make_connect_key(self._clock()),
            "record_version": RECORD_VERSION,
            **more,
        }
        return self._table.update((self._hash(uaid),), _setting(*values), values)

    async def confirm(self, record: UserRecord, node_id: str, connected_at: int) -> bool:
        """Record again which connection a user has, and that its node knows of all its messages.
        False if a newer connection is on record, or the user was dropped.
        """
        values: Values = {"node_id": node_id, "connected_at": connected_at}
        read: Values = {"router_type": record.router_type}
        removed = ("unread",)
        return await self._change(record.uaid, IS_NOT_OLDER, values, read, remove=removed)

    async def restore(self, record: UserRecord) -> bool:
        """Write again what the database has lost; False if there is a record."""
        values: dict[str, Value] = {
            "node_id": record.node_id or "",
            "connected_at": record.connected_at,
            "router_type": record.router_type,
            "last_connect": make_connect_key(self._clock()),
            "record_version": RECORD_VERSION,
            "min_urgency": record.min_urgency,
        }
        for name in ("current_month", "secret_hash", "account"):
            if kept := getattr(record, name):
                values[name] = kept
        return await self._change(record.uaid, IS_UNKNOWN, values)

    async def note_unread(self, record: UserRecord) -> bool:
        """Record that the node could not be notified of a message."""
        connection: Values = {"node_id": record.node_id, "connected_at": record.connected_at}
        return await self._change(record.uaid, IS_THAT_CONNECTION, {"unread": 1}, connection)

    async def register(
        self,
        uaid: str,
        router_type: str,
        router_data: Mapping[str, Value],
        month: str,
        account: str = "",
    ) -> bool:
        """Write a user registered by HTTP; False if it has another type or a later connection."""
        now = self._clock()
        values: dict[str, Value] = {
            "router_type": router_type,
            "router_data": dict(router_data),
            "connected_at": int(now * 1000),
            "last_connect": make_connect_key(now),
            "record_version": RECORD_VERSION,
            "current_month": month,
        }
        if account:
            values["account"] = account
        # It never expires, as it does not connect again.
        return await self._change(uaid, IS_NEWEST, values, remove=("critical_failure", "expiry"))

    async def update_registration(
        self, record: UserRecord, router_data: Mapping[str, Value]
    ) -> bool:
        """Replace the bridge's data; False if registered again or dropped since it was read."""
        now = self._clock()
        values: Values = {
            "router_data": dict(router_data),
            "connected_at": max(int(now * 1000), record.connected_at + 1),
            "last_connect": make_connect_key(now),
        }
        return await self._change_registered(record, values, remove=("critical_failure",))

    async def set_table(self, record: UserRecord, name: str) -> bool:
        """Record another message table; False if it has changed, or the user was dropped."""
        values: Values = {"current_month": name, "last_connect": make_connect_key(self._clock())}
        read: Values = {"router_type": record.router_type, "read_month": record.current_month or ""}
        return await self._change(record.uaid, IS_USER_OF_TABLE, values, read)

    async def refresh_registration(self, record: UserRecord) -> bool:
        """Record activity, once a month at most; False if registered again or dropped."""
        now = self._clock()
        if is_connect_key_of_month(record.last_connect, now):
            return True
        return await self._change_registered(record, {"last_connect": make_connect_key(now)})

    async def set_router_data(self, record: UserRecord, router_data: Mapping[str, Value]) -> bool:
        """Replace the data of the bridge, unless the user has registered again since."""
        now = int(self._clock() * 1000)
        values: Values = {"router_data": dict(router_data), "connected_at": now}
        return await self._change_registered(record, values)

    async def set_critical_failure(self, record: UserRecord, reason: str) -> bool:
        """Record that the bridge can never reach the user as it is registered now."""
        return await self._change_registered(record, {"critical_failure": reason})

    async def move(self, uaid: str, node_id: str, connected_at: int, *, old: str, new: str) -> bool:
        """Record a move of tables; False if that connection is no longer on record."""
        last_connect = make_connect_key(self._clock())
        values: Values = {"current_month": new, "last_connect": last_connect, "moved_from": old}
        connection: Values = {"node_id": node_id, "connected_at": connected_at}
        return await self._change(uaid, IS_THAT_CONNECTION, values, connection)

    async def refresh_last_connect(self, uaid: str, node_id: str, connected_at: int) -> bool:
        """Record that a connection of an earlier month is open; False if it is not on record."""
        values: Values = {"last_connect": make_connect_key(self._clock())}
        connection: Values = {"node_id": node_id, "connected_at": connected_at}
        return await self._change(uaid, IS_THAT_CONNECTION, values, connection)

    async def set_min_urgency(
        self, uaid: str, node_id: str, connected_at: int, min_urgency: str
    ) -> bool:
        """Record a filter; False if that connection is no longer on record."""
        connection: Values = {"node_id": node_id, "connected_at": connected_at}
        values: Values = {"min_urgency": min_urgency}
        return await self._change(uaid, IS_THAT_CONNECTION, values, connection)

    async def end_move(self, uaid: str, node_id: str, connected_at: int, old: str) -> bool:
        """Record that nothing is left in the table `old`."""
        read: Values = {"node_id": node_id, "connected_at": connected_at, "moved_from": old}
        return await self._change(uaid, IS_MOVED_FROM, {}, read, remove=("moved_from",))

    async def clear_node(self, record: UserRecord) -> bool:
        """Record that the user has disconnected, unless it has connected again since."""
        read: Values = {"node_id": record.node_id, "connected_at": record.connected_at}
        return await self._change(record.uaid, IS_THAT_CONNECTION, {}, read, remove=("node_id",))

    async def _change_registered(
        self, record: UserRecord, values: Values, remove: tuple[str, ...] = ()
    ) -> bool:
        read: Values = {"router_type": record.router_type, "read_at": record.connected_at}
        return await self._change(record.uaid, IS_REGISTERED_AS, values, read, remove)

    async def _change(
        self,
        uaid: str,
        condition: Condition,
        values: Values,
        read: Values | None = None,
        remove: tuple[str, ...] = (),
    ) -> bool:
        """Returns False if the condition fails. `read`: further values for the condition."""
        update, given = _setting(*values, remove=remove), {**values, **(read or {})}
        try:
            await self._table.update((self._hash(uaid),), update, given, condition=condition)
        except ConditionFailed:
            return False
        return True

    async def drop(self, uaid: str) -> None:
        await self._table.delete((self._hash(uaid),))

    async def drop_unchanged(self, record: UserRecord) -> bool:
        """Delete the user's record; False if it has connected again or was moved since."""
        values: dict[str, Value] = {"connected_at": record.connected_at}
        condition = HAS_NOT_RECONNECTED  # SimplePush has no monthly tables
        if record.router_type != SIMPLEPUSH:
            values["current_month"] = record.current_month or ""
            condition = IS_AS_IT_WAS
        key = (self._hash(record.uaid),)
        try:
            await self._table.delete(key, condition=condition, values=values)
        except ConditionFailed:
            return False
        return True


@cache  # of the few sets of attributes above
def _setting(*names: str, remove: tuple[str, ...] = ()) -> Update:
    return Update(set=names, remove=remove)
