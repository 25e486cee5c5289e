"""What people and channels are called, and where messages are.

Rule: who or what is not known is shown by its ID.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from channelstats.privacy.inputs import HiddenInputs
from channelstats.render.words import printable
from channelstats.tables import Tables


@dataclass(frozen=True)
class Directory:
    """``real`` is whether IDs are those of the workspace, so that they can be linked to."""

    people: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)
    slack_name: str = ""
    real: bool = True

    @classmethod
    def of_hidden(cls, hidden: HiddenInputs) -> Self:
        """The names of pseudonymous IDs."""
        return cls(hidden.people, hidden.channels, real=False)

    def person(self, uid: str) -> str:
        return printable(self.people.get(uid, "")) or uid

    def channel(self, cid: str) -> str:
        return printable(self.channels.get(cid, "")) or cid

    def permalink(self, message: str) -> str:
        """The address of a message `CID/ts/thread_ts`; "" where the workspace's is not known."""
        if not (message and self.real and self.slack_name):
            return ""
        cid, ts, thread_ts = message.split("/")
        address = f"https://{self.slack_name}.slack.com/archives/{cid}/p{ts.replace('.', '')}"
        return f"{address}?thread_ts={thread_ts}&cid={cid}" if thread_ts else address


async def load(tables: Tables, slack_name: str = "") -> Directory:
    """The real names."""
    users, channels = await tables.users.all(), await tables.channels.all()
    return Directory(
        people={uid: user.name for uid, user in users.items()},
        channels={cid: channel.name for cid, channel in channels.items()},
        slack_name=slack_name,
    )
