"""The tables of push as data: names, keys, indexes, expiry, and when a row may change.

Rule: attribute names and types are those of the original's tables, so that its tools read ours and
we read its.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple, Self

from msgspec import Struct

from keytables import Attr, Capacity, Index, Key, Kind, Param, Table, Update

Hasher = Callable[[str], str]
"""From UAID to storage key."""

LIVE_MONTHS: Final = 3
"""How many months that have a table, the current one included, are still read."""


class TablePlan(Struct, frozen=True):
    """Which tables there are. Names are those of the options `*_tablename`.

    `message` is the prefix of message tables; `rotating`: each month has one of its own. A capacity
    is that of a table which has to be created; with None it is billed by use.
    """

    router: str = "router"
    storage: str = "storage"
    message: str = "message"
    rotating: bool = False
    router_capacity: Capacity | None = None
    storage_capacity: Capacity | None = None
    message_capacity: Capacity | None = None


def router_table(name: str) -> Table:
    """One row per user: where it is connected and which message table it uses."""
    return Table(
        name,
        partition=Key("uaid"),
        indexes=(Index("AccessIndex", Key("last_connect", Kind.NUMBER), keys_only=True),),
        expiry="expiry",
    )


def message_table(name: str) -> Table:
    """The channels row and the stored messages of each user, in the order of delivery."""
    return Table(name, partition=Key("uaid"), sort=Key("chidmessageid"), expiry="expiry")


def storage_table(name: str) -> Table:
    """The versions of SimplePush channels."""
    return Table(name, partition=Key("uaid"), sort=Key("chid"))


def uaid_hasher(key_hash: str) -> Hasher:
    """The function from UAID to storage key: HMAC-SHA256 under the option `key_hash`.

    Without a key the UAID itself is the storage key. Only the store knows which of the two it is.
    """
    if not key_hash:
        return str
    key = key_hash.encode()
    return lambda uaid: hmac.digest(key, uaid.encode(), hashlib.sha256).hex()


def uaid_log_hasher(key_hash: str) -> Hasher:
    """The function from UAID to what stands for it in logs: the storage key under the option
    `key_hash`, else its SHA-256. With the UAID itself a reader of the logs could connect as its
    user agent.
    """
    if key_hash:
        return uaid_hasher(key_hash)
    return lambda uaid: hashlib.sha256(uaid.encode()).hexdigest()


class Month(NamedTuple):
    """A month of a year, UTC. Later ones are greater."""

    year: int
    month: int

    @classmethod
    def at(cls, now: float) -> Self:
        """The month of that time (epoch seconds)."""
        then = datetime.fromtimestamp(now, UTC)
        return cls(then.year, then.month)

    @classmethod
    def parse(cls, prefix: str, name: str) -> Self | None:
        """The month of a message table; None for any other name, the bare prefix included."""
        found = re.fullmatch(rf"{re.escape(prefix)}_([0-9]{{4}})_(0[1-9]|1[0-2])", name)
        return cls(int(found[1]), int(found[2])) if found else None

    @property
    def next(self) -> "Month":
        """The month after it."""
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    @property
    def previous(self) -> "Month":
        """The month before it."""
        return Month(self.year - (self.month == 1), (self.month - 2) % 12 + 1)

    def table(self, prefix: str) -> str:
        """The name of its message table."""
        return f"{prefix}_{self.year:04}_{self.month:02}"


NO_MONTH: Final = Month(0, 0)
"""That of the table whose name is the bare prefix: it sorts before all others."""


def live_tables(prefix: str, names: Iterable[str], this: Month | None) -> list[str]:
    """The message tables in use, newest first; the one of the bare prefix comes last.

    With `this`, the current month: the tables of its predecessor and of all later months (clocks of
    other nodes may be ahead), and the newest `LIVE_MONTHS` up to it. With None, where tables do not
    rotate: the newest `LIVE_MONTHS`.
    """
    names = frozenset(names)
    months = sorted((month for name in names if (month := Month.parse(prefix, name))), reverse=True)
    past = [month for month in months if this is None or month <= this][:LIVE_MONTHS]
    live = [
        month for month in months if month in past or (this is not None and month >= this.previous)
    ]
    return [month.table(prefix) for month in live] + ([prefix] if prefix in names else [])


IS_SAME_TYPE: Final = Attr("router_type").absent() | (Attr("router_type") == Param("router_type"))
IS_NEWEST: Final = IS_SAME_TYPE & (
    Attr("node_id").absent() | (Attr("connected_at") < Param("connected_at"))
)
"""A user may be written by a connection newer than the one on record, or when none is on record."""
IS_NEWEST_OF_KNOWN: Final = Attr("router_type").exists() & IS_NEWEST
"""A known user may; one that was dropped meanwhile is not created again, without its table."""

IS_REGISTERED_AS: Final = (Attr("router_type") == Param("router_type")) & (
    Attr("connected_at") == Param("read_at")
)
"""A user of a bridge may be changed if it has not been registered again since it was read."""

IS_USER_OF_TABLE: Final = (Attr("router_type") == Param("router_type")) & (
    Attr("current_month").absent() | (Attr("current_month") == Param("read_month"))
)
"""A user of a bridge may get another message table if it still has the one that was read."""

IS_THAT_CONNECTION: Final = (Attr("node_id") == Param("node_id")) & (
    Attr("connected_at") == Param("connected_at")
)
HAS_NOT_RECONNECTED: Final = Attr("connected_at").absent() | (
    Attr("connected_at") == Param("connected_at")
)
IS_AS_IT_WAS: Final = HAS_NOT_RECONNECTED & (
    Attr("current_month").absent() | (Attr("current_month") == Param("current_month"))
)
"""A user may be dropped if it has neither connected nor been moved since its record was read."""
IS_THAT_UPDATE: Final = Attr("updateid") == Param("updateid")
IS_MOVED_FROM: Final = IS_THAT_CONNECTION & (Attr("moved_from") == Param("moved_from"))
IS_NO_NEWER_COPY: Final = Attr("copied_at").absent() | (Attr("copied_at") <= Param("copied_at"))
"""Channels may be copied over what the same connection or an older one copied."""

IS_LOWER_VERSION: Final = Attr("version").absent() | (Attr("version") < Param("version"))
IS_THAT_VERSION: Final = Attr("version") == Param("version")

IS_OLDER_TOPIC: Final = (
    Attr("topic_order").absent()
    & (Attr("timestamp").absent() | (Attr("timestamp") < Param("timestamp")))
) | (Attr("topic_order") < Param("topic_order"))
"""A message of a topic is replaced by a newer one only; of those without an order, which are the
original's, the second counts.
"""
IS_NEW_ROW: Final = Attr("chidmessageid").absent()
"""A message without a topic has a row of its own: what is there is the message itself, or its
tombstone.
"""
BURY: Final = Update(set=("expiry", "ttl"), remove=("data", "headers", "updateid"))
"""Turns the row of a topic into a tombstone, which keeps its place in the order of the topic."""

CONNECT: Final = Update(set=("node_id", "connected_at", "router_type"))
CONNECT_THIS_MONTH: Final = Update(set=("node_id", "connected_at", "router_type", "last_connect"))
CONNECT_DEVICE: Final = Update(set=(*CONNECT.assigned, "wake_data"))
CONNECT_DEVICE_THIS_MONTH: Final = Update(set=(*CONNECT_THIS_MONTH.assigned, "wake_data"))
CREATE: Final = Update(set=(*CONNECT_THIS_MONTH.assigned, "record_version", "current_month"))
CREATE_SIMPLEPUSH: Final = Update(set=(*CONNECT_THIS_MONTH.assigned, "record_version"))
CREATE_DEVICE: Final = Update(set=(*CREATE_SIMPLEPUSH.assigned, "wake_data"))
REGISTER: Final = Update(
    set=(
        "router_type",
        "router_data",
        "connected_at",
        "last_connect",
        "record_version",
        "current_month",
    ),
    remove=("critical_failure", "expiry"),
)
"""A user of a bridge never expires, as it does not connect again."""
SET_ROUTER_DATA: Final = Update(set=("router_data", "connected_at"))
UPDATE_REGISTRATION: Final = Update(
    set=("router_data", "connected_at", "last_connect"), remove=("critical_failure",)
)
SET_TABLE: Final = Update(set=("current_month", "last_connect"))
SET_CRITICAL_FAILURE: Final = Update(set=("critical_failure",))
CLEAR_NODE: Final = Update(remove=("node_id",))
SET_LAST_CONNECT: Final = Update(set=("last_connect",))
MOVE: Final = Update(set=("current_month", "last_connect", "moved_from"))
END_MOVE: Final = Update(remove=("moved_from",))
ADD_CHANNELS: Final = Update(add_to={"chids": Param("chids")})
REMOVE_CHANNELS: Final = Update(take_from={"chids": Param("chids")})
