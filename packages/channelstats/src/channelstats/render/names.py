"""Names and what else is known of people and channels, beside the document.

Rule: who or what is not known is shown by its ID.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from channelstats.render.words import printable
from channelstats.stats.membership import members_at_ends
from channelstats.stats.period import Period
from channelstats.tables import Tables
from channelstats.tables.exclusion import resolve_channels
from channelstats.tables.first_posts import FirstPost


@dataclass(frozen=True)
class Directory:
    """``created`` is when accounts were made, in seconds; ``members`` those of a channel at both
    ends of the period. ``real`` is whether IDs are those of the workspace, so that they can be
    linked to.
    """

    people: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)
    created: Mapping[str, int] = field(default_factory=dict)
    first_posts: Mapping[str, FirstPost] = field(default_factory=dict)
    members: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    """Every name anybody or anything goes by."""
    slack_name: str = ""
    real: bool = True

    def person(self, uid: str) -> str:
        return printable(self.people.get(uid, "")) or uid

    def channel(self, cid: str) -> str:
        return printable(self.channels.get(cid, "")) or cid

    def permalink(self, cid: str, ts: str, thread_ts: str | None) -> str:
        """The address of a message; "" where the workspace's is not known."""
        if not (self.real and self.slack_name):
            return ""
        message = f"https://{self.slack_name}.slack.com/archives/{cid}/p{ts.replace('.', '')}"
        return message if thread_ts is None else f"{message}?thread_ts={thread_ts}&cid={cid}"


async def load(
    tables: Tables,
    period: Period,
    slack_name: str,
    counted: Iterable[str] = (),
    excluded: Collection[str] = (),
) -> Directory:
    """Read a directory for the report of a period; ``counted`` are the channels whose members are
    looked up, ``excluded`` those that nobody is to read of, by name or by ID.
    """
    users = await tables.users.all()
    channels = await tables.channels.all()
    members = {}
    for cid in counted:
        found = members_at_ends(await tables.members_log.samples(cid), period)
        if found is not None:
            members[cid] = found
    names = {channel.friendly_name for channel in channels.values()}
    for user in users.values():
        names |= {user.user_name, user.real_name, user.display_name}
    hidden = resolve_channels(excluded, channels)
    posts = await tables.first_posts.all()
    return Directory(
        people={uid: user.name for uid, user in users.items()},
        channels={cid: channel.name for cid, channel in channels.items()},
        created=await tables.users_created.all(),
        first_posts={uid: post for uid, post in posts.items() if post.slack_cid not in hidden},
        members=members,
        names=frozenset(names - {""}),
        slack_name=slack_name,
    )
