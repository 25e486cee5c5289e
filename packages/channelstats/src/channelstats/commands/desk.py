"""Where posting happens: the Web API with the token that posts.

Rule: nothing is asked before it is used; a token that is missing is told before anything is opened.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from channelstats.commands.call import Call
from channelstats.sending.heartbeat import Heartbeat
from channelstats.sending.sender import Sender
from channelstats.slack.channel_admin import ChannelAdmin
from channelstats.slack.client import SlackClient
from channelstats.slack.posting import Posting
from channelstats.slack.transport import SdkTransport
from channelstats.tables import Tables
from channelstats.tokens import post_token


class Desk(msgspec.Struct, frozen=True):
    """What can be done with the token that posts."""

    posting: Posting
    care: ChannelAdmin
    heartbeat: Heartbeat

    def sender(self, call: Call, tables: Tables) -> Sender:
        return Sender(self.posting, tables.sent, self.heartbeat, clock=call.clock, say=call.say)


@asynccontextmanager
async def desk(call: Call) -> AsyncIterator[Desk]:
    """:raises SettingError: there is no token, or it cannot be used"""
    settings = call.settings
    token = post_token(settings, call.environment)
    transport = await SdkTransport.open(token, base_url=settings.slack_api)
    heartbeat = Heartbeat(call.sleep)
    calls = SlackClient(
        heartbeat.over(transport),
        settings.kind_of_app,
        clock=call.steady,
        sleep=heartbeat.sleep,
        say=call.say_meanwhile,
    )
    try:
        yield Desk(Posting(calls), ChannelAdmin(calls), heartbeat)
    finally:
        await calls.close()
