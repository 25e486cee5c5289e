"""The worked example with everything around it that reports go to."""

from pathlib import Path

from support.channelstats.called import DATA, called
from support.channelstats.fake_slack import Fault
from support.channelstats.house import EXAMPLE, NOW
from support.channelstats.slack_house import Slack, consistent
from support.channelstats.workspace import Raw, Workspace, read_folder, write_folder

WEEK = ("--week", "2024-03-12")
AFTER_THE_WEEK = "1710900000.009900"
SETTINGS = """
slack_name = "example"
report_channel = "stats"
brief_channel = "brief"
channel_stats = "links"
optin_channel = "optin"
help_channel = "help"
"""


def town() -> Workspace:
    """`dev` and `general` have a channel beside them; `lonely` has an archived one."""
    made = read_folder(EXAMPLE)
    more: dict[str, Raw] = {
        "stats": {},
        "brief": {},
        "links": {},
        "help": {},
        "optin": {"members": ["UALICE", "UBOB", "UDAVE", "UROBOT"]},
        "dev-stats": {"members": ["UBOB"]},
        "general-stats": {"topic": {"value": "Weekly reports on general"}},
        "lonely": {},
        "lonely-stats": {"is_archived": True},
        "gone": {"is_archived": True},
        "gone-stats": {},
    }
    for name, about in more.items():
        cid = f"C{name.upper().replace('-', '')}"
        channel = {"id": cid, "name": name, "created": 1_704_067_200, "members": ["UALICE"]}
        made.channels.append(channel | about)
        made.messages[cid] = []
    made.users.append({"id": "UROBOT", "name": "robot", "is_bot": True, "deleted": False})
    late = {"type": "message", "user": "UALICE", "ts": AFTER_THE_WEEK, "text": "one word more"}
    made.messages["CGEN"].append(late)
    return made


_taken_in: dict[str, bytes] = {}
"""The data folder of the town as it is, made once."""


def settle(folder: Path, of: Workspace | None = None, settings: str = SETTINGS) -> None:
    """Take the town in, or another one, at the time of the worked example."""
    if of is None and _taken_in:
        write_folder(_taken_in, DATA)
    else:
        export = write_folder((of or town()).files(), folder / "export")
        assert called("import-export", str(export), "--quiet", now=NOW) == 0
    if of is None and not _taken_in:
        _taken_in.update({path.name: path.read_bytes() for path in DATA.iterdir()})
    (DATA / "channelstats.toml").write_text(settings)


def open_for_business(slack: Slack, *faults: Fault, **options: object) -> None:
    """Serve the town to whoever has a bot's token with the scope to post anywhere."""
    scopes = "chat:write,chat:write.public,channels:read,channels:history"
    slack.serve(consistent(town()), *faults, **{"bot": True, "scopes": scopes, **options})
