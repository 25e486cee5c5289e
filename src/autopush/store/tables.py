"""The tables of push as data: keys, indexes, expiry, and when a row may change.

Rule: attribute names and types are those of the original's tables, so that its tools read ours and
we read its.
"""

from typing import Final

from tablestore import Attr, Index, Key, Kind, Param, Table, Update


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


IS_SAME_KIND: Final = Attr("router_type").absent() | (Attr("router_type") == Param("router_type"))
IS_NEWEST: Final = IS_SAME_KIND & (
    Attr("node_id").absent() | (Attr("connected_at") < Param("connected_at"))
)
"""A user may be written by a connection newer than the one on record, or when none is on record."""

IS_THAT_CONNECTION: Final = (Attr("node_id") == Param("node_id")) & (
    Attr("connected_at") == Param("connected_at")
)
IS_THAT_UPDATE: Final = Attr("updateid") == Param("updateid")
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
ADD_CHANNELS: Final = Update(add_to={"chids": Param("chids")})
REMOVE_CHANNELS: Final = Update(take_from={"chids": Param("chids")})
