"""The tables of push as data: keys, indexes, expiry, and when a row may change.

Rule: attribute names and types are those of the original's tables, so that its tools read ours and
we read its.
"""

from typing import Final

from msgspec import Struct

from keytables import Attr, Capacity, Index, Key, Kind, Param, Table, Update


class TablePlan(Struct, frozen=True):
    """Which tables there are. Names are those of the options `*_tablename`.

    `message` is the prefix of message tables; `rotating`: each month has one of its own. A capacity
    is that of a table which has to be made; with None it is billed by use.
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
    """The versions of SimplePush channels. Nothing is stored in it yet."""
    return Table(name, partition=Key("uaid"), sort=Key("chid"))


IS_SAME_KIND: Final = Attr("router_type").absent() | (Attr("router_type") == Param("router_type"))
IS_NEWEST: Final = IS_SAME_KIND & (
    Attr("node_id").absent() | (Attr("connected_at") < Param("connected_at"))
)
"""A user may be written by a connection newer than the one on record, or when none is on record."""
IS_NEWEST_OF_KNOWN: Final = Attr("router_type").exists() & IS_NEWEST
"""A user that is known may; one that was dropped meanwhile is not made anew, without its table."""

IS_THAT_CONNECTION: Final = (Attr("node_id") == Param("node_id")) & (
    Attr("connected_at") == Param("connected_at")
)
IS_AS_IT_WAS: Final = (
    Attr("connected_at").absent() | (Attr("connected_at") == Param("connected_at"))
) & (Attr("current_month").absent() | (Attr("current_month") == Param("current_month")))
"""A user may be dropped for what its record said while it has neither connected nor moved since."""
IS_THAT_UPDATE: Final = Attr("updateid") == Param("updateid")
IS_MOVED_FROM: Final = IS_THAT_CONNECTION & (Attr("moved_from") == Param("moved_from"))
IS_NO_NEWER_COPY: Final = Attr("copied_at").absent() | (Attr("copied_at") <= Param("copied_at"))
"""Channels may be copied over what the same connection or an older one copied."""

IS_OLDER: Final = Attr("timestamp").absent() | (Attr("timestamp") < Param("timestamp"))

CONNECT: Final = Update(set=("node_id", "connected_at", "router_type"))
CONNECT_THIS_MONTH: Final = Update(set=("node_id", "connected_at", "router_type", "last_connect"))
CREATE: Final = Update(
    set=(
        "node_id",
        "connected_at",
        "router_type",
        "last_connect",
        "record_version",
        "current_month",
    )
)
CLEAR_NODE: Final = Update(remove=("node_id",))
STILL_HERE: Final = Update(set=("last_connect",))
MOVE: Final = Update(set=("current_month", "last_connect", "moved_from"))
END_MOVE: Final = Update(remove=("moved_from",))
ADD_CHANNELS: Final = Update(add_to={"chids": Param("chids")})
REMOVE_CHANNELS: Final = Update(take_from={"chids": Param("chids")})
