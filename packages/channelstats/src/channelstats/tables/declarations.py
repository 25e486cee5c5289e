"""The tables as data: names, keys, indexes.

Rule: a table of one prefix is called `<prefix>.<Table>`; several instances share one store by it.
"""

from typing import Final

from keytables import Index, Key, Table

MESSAGE_INDEXES: Final = (
    Index("Date", Key("date"), Key("ts")),
    Index("Slack_cid", Key("slack_cid"), Key("ts")),
    Index("User_id", Key("slack_uid"), Key("ts")),
)
"""By day, by channel, by author; each in the order of time."""

HASH_KEYS: Final = {
    "Channel": "channel_key",
    "ChannelConfiguration": "slack_cid",
    "Message": "cid_ts",
    "Configuration": "key",
    "FirstPost": "slack_uid",
    "BulkStore": "item_id",
    "ReportStore": "report_id",
    "User": "slack_uid",
    "UserHash": "user_key",
    "UserCreated": "slack_uid",
    "ChannelMembersLog": "slack_cid",
    "Subscription": "subscription_id",
}
"""Every table and its key. None has a sort key."""


def table(prefix: str, name: str) -> Table:
    """The declaration of a table of that prefix.

    :raises SchemaError: the prefix holds something else than letters, digits, `_`, `-` and `.`
    """
    indexes = MESSAGE_INDEXES if name == "Message" else ()
    return Table(f"{prefix}.{name}", Key(HASH_KEYS[name]), indexes=indexes)
