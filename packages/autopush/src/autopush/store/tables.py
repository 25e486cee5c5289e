"""The tables of push as data: names, keys, indexes, expiry.

Rule: attribute names and types are those of the original: each program reads the other's tables.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple, Self

from msgspec import Struct

from keytables import Capacity, Index, Key, Kind, Table

Hasher = Callable[[str], str]
"""From UAID to storage key."""

KEYS_ROW: Final = "crypto-key-fingerprints"
ACCOUNTS_ROW: Final = "accounts"
CERTIFICATE_ROW: Final = "certificate"
SERVICE_ROWS: Final = frozenset({KEYS_ROW, ACCOUNTS_ROW, CERTIFICATE_ROW})
"""Partition keys in the router table that are no users: a UAID, hashed or not, is hex digits."""

LIVE_MONTHS: Final = 3
"""Monthly tables that are still read, the current one included."""


class TablePlan(Struct, frozen=True):
    """The tables, named as by the options `*_tablename`.

    `message`: the prefix of message tables; `rotating`: there is one for each month. `receipt`:
    empty without receipts. A capacity is that of a table to be created; None is on-demand billing.
    """

    router: str = "router"
    storage: str = "storage"
    message: str = "message"
    receipt: str = ""
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


def receipt_table(name: str) -> Table:
    """The outcome of messages whose senders want a receipt."""
    return Table(name, partition=Key("receipt"), sort=Key("message"), expiry="expiry")


def storage_table(name: str) -> Table:
    """The versions of SimplePush channels."""
    return Table(name, partition=Key("uaid"), sort=Key("chid"))


def uaid_hasher(key_hash: str) -> Hasher:
    """From UAID to storage key: HMAC-SHA256 under the option `key_hash`, else the UAID."""
    if not key_hash:
        return str
    key = key_hash.encode()
    return lambda uaid: hmac.digest(key, uaid.encode(), hashlib.sha256).hex()


def uaid_log_hasher(key_hash: str) -> Hasher:
    """From UAID to what logs show: the storage key under the option `key_hash`, else SHA-256. With
    the UAID itself a reader of the logs could connect as its user agent.
    """
    if key_hash:
        return uaid_hasher(key_hash)
    return lambda uaid: hashlib.sha256(uaid.encode()).hexdigest()


class Month(NamedTuple):
    """A calendar month, UTC; later ones are greater."""

    year: int
    month: int

    @classmethod
    def at(cls, now: float) -> Self:
        """The month of `now` (epoch seconds)."""
        then = datetime.fromtimestamp(now, UTC)
        return cls(then.year, then.month)

    @classmethod
    def parse(cls, prefix: str, name: str) -> Self | None:
        """The month of a message table; None for any other name, the bare prefix included."""
        match = re.fullmatch(rf"{re.escape(prefix)}_([0-9]{{4}})_(0[1-9]|1[0-2])", name)
        return cls(int(match[1]), int(match[2])) if match else None

    @property
    def next(self) -> "Month":
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    @property
    def previous(self) -> "Month":
        return Month(self.year - (self.month == 1), (self.month - 2) % 12 + 1)

    def table(self, prefix: str) -> str:
        """The name of its message table."""
        return f"{prefix}_{self.year:04}_{self.month:02}"


NO_MONTH: Final = Month(0, 0)
"""The month of the table named by the bare prefix: it sorts before all others."""


def live_tables(prefix: str, names: Iterable[str], this: Month | None) -> list[str]:
    """The message tables in use, newest first; the one of the bare prefix comes last.

    `this`: the current month: its predecessor's table, all later ones (clocks of other nodes may be
    ahead) and the newest `LIVE_MONTHS` up to it. None, where tables do not rotate: the newest
    `LIVE_MONTHS`.
    """
    names = frozenset(names)
    months = sorted((month for name in names if (month := Month.parse(prefix, name))), reverse=True)
    past = [month for month in months if this is None or month <= this][:LIVE_MONTHS]
    live = [
        month for month in months if month in past or (this is not None and month >= this.previous)
    ]
    return [month.table(prefix) for month in live] + ([prefix] if prefix in names else [])
