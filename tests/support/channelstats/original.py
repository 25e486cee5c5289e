"""Tables as the original left them: its names, its spellings, its strays."""

import msgspec

from channelstats.tables.message_row import decode_mentions, decode_reactions
from keytables import Engine, Index, Item, Key, Table
from support.channelstats.house import House

PREFIX = "original"

KEYS = {
    "User": "slack_uid",
    "UserCreated": "slack_uid",
    "UserHash": "user_key",
    "Channel": "channel_key",
    "ChannelConfiguration": "slack_cid",
    "ChannelMembersLog": "slack_cid",
    "Configuration": "item_key",
    "Message": "cid_ts",
    "FirstPost": "slack_uid",
    "BulkStore": "item_id",
    "ReportStore": "report_id",
    "FakeUser": "slack_uid",
    "FakeChannel": "channel_key",
}
INDEXES = (
    Index("Date", Key("date")),
    Index("Slack_cid", Key("slack_cid")),
    Index("User_id", Key("user_id")),
)
TITLE = "minutes of a secret meeting"


async def put(engine: Engine, name: str, *items: Item) -> None:
    """Put items into a table of the original's, making it if it is missing."""
    indexes = INDEXES if name == "Message" else ()
    expiry = "until" if name == "Mark" else None  # not the original's
    table = Table(f"{PREFIX}.{name}", Key(KEYS[name]), indexes=indexes, expiry=expiry)
    handle = await engine.ensure_table(table)
    await handle.batch_write(puts=items)


async def everything(engine: Engine) -> dict[str, list[Item]]:
    """What is in all of the original's tables."""
    found = {}
    for name, key in KEYS.items():
        indexes = INDEXES if name == "Message" else ()
        handle = await engine.open_table(Table(f"{PREFIX}.{name}", Key(key), indexes=indexes))
        found[name] = sorted((await handle.scan()).items, key=lambda item: str(item[key]))
    return found


async def make(of: House) -> None:
    """The same workspace as the original would have it, in tables of the prefix `original`."""
    for name in ("User", "Channel", "ChannelMembersLog", "BulkStore"):
        texts = [item for key, item in (await of.items(name)).items() if " " not in key]
        await put(of.engine, name, *texts)
    await put(of.engine, "Message", *map(message, (await of.items("Message")).values()))
    await put(
        of.engine,
        "Configuration",
        {"item_key": "counts", "active_users": 3, "all_users": 4},
        {"item_key": "channel_names", "names": "dev#general"},
        {"item_key": "last_run", "last_run": 1710630900},
    )
    watermarks = (await of.items("ChannelConfiguration")).values()
    await put(
        of.engine,
        "ChannelConfiguration",
        *(
            {
                "slack_cid": row["slack_cid"],
                "last_message_ts": f"{row['last_message_timestamp']!s}.000100",
            }
            for row in watermarks
        ),
    )
    await put(
        of.engine,
        "FirstPost",
        *(await of.items("FirstPost")).values(),
        {"slack_uid": "CGEN", "slack_cid": "CGEN", "ts": 0},
    )
    await put(of.engine, "UserCreated", {"slack_uid": "UALICE", "ts": 1_600_000_000})
    await put(of.engine, "UserHash", {"user_key": "E", "uids": "UALICE UDAVE"})
    await put(of.engine, "ReportStore", {"report_id": "2024-03-10-7", "value": "{}"})
    await put(of.engine, "FakeUser", {"slack_uid": "UALICE", "user_name": "nobody"})
    await put(of.engine, "FakeChannel", {"channel_key": "CGEN", "slack_cid": "CGEN"})


def message(item: Item) -> Item:
    """A message in the spelling of 2019 and later."""
    names = {"slack_uid": "user_id", "is_threadhead": "is_thread_head"}
    ours = {"fetched_at", "source", "is_bot", "bot_replies"}
    found = {names.get(name, name): value for name, value in item.items() if name not in ours}
    if mentions := item.get("mentions"):
        found["mentions"] = ",".join(decode_mentions(str(mentions)))
        if item["is_threadhead"]:
            found.pop("parent_user_id")  # written only when the head mentions nobody
    if reactions := item.get("reactions"):
        found["reactions"] = ",".join(
            ";".join((name, *users)) for name, users in decode_reactions(str(reactions))
        )
    return found


def files() -> str:
    """Slack's array of files, whole."""
    about = {
        "id": "F1",
        "created": 1710172800,
        "name": f"{TITLE}.PDF",
        "title": TITLE,
        "mimetype": "application/pdf",
        "filetype": "pdf",
        "size": 12_345,
        "user": "UALICE",
        "url_private": "https://files.example.org/F1",
        "preview": TITLE,
    }
    return msgspec.json.encode([about]).decode()
