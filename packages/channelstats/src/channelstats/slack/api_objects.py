"""What only the Web API says about messages and channels, beside what exports say too.

Rule: as in `channelstats.slack.objects`: only what is measured is named.
"""

import msgspec

from channelstats.slack.objects import Loose, SlackMessage


class HistoryMessage(SlackMessage, gc=False):
    """A message in history or in a thread. A head says how many replies it has, but not which."""

    reply_count: Loose = None
    latest_reply: str | None = None


class ListedChannel(msgspec.Struct, gc=False):
    """A channel in `conversations.list`. A private one of today is no "group" to Slack."""

    id: str
    name: str | None = None
    created: Loose = None
    is_archived: bool | None = None
    is_private: bool | None = None
    is_member: bool | None = None
    num_members: Loose = None
    previous_names: list[str | None] | None = None


class Identity(msgspec.Struct, frozen=True):
    """Whose token it is, as `auth.test` says, and its ``scopes`` where Slack says them."""

    url: str = ""
    team: str = ""
    user: str = ""
    bot_id: str = ""
    scopes: frozenset[str] = frozenset()
