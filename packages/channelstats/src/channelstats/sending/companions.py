"""Channels beside channels, `X-stats`, that reports on X go to.

Rule: the store knows a new one at once, so that the next weekly run sends there.
"""

from typing import Final

from channelstats.sending.targets import companion_name
from channelstats.slack.channel_admin import ChannelAdmin
from channelstats.tables import Tables
from channelstats.tables.directory import Channel

LONGEST_NAME: Final = 80


def purpose_of(channel: Channel) -> str:
    return f"Weekly reports on the channel {channel.name}"


async def make_companion(tables: Tables, care: ChannelAdmin, channel: Channel) -> Channel:
    """Make the channel beside a channel, and say what it is for.

    :raises SlackError: it is not made, or has no purpose yet
    """
    made = await care.create(companion_name(channel.friendly_name))
    beside = Channel(made.cid, made.name, members=1, created=made.created, is_channel=True)
    await tables.channels.put([beside])
    await care.set_purpose(made.cid, purpose_of(channel))
    return beside
