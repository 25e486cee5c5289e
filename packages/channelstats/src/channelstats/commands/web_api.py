"""The Web API of the workspace, with the token that reads.

Rule: nothing is asked before it is used; a token that is missing is told before anything is opened.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from channelstats.commands.call import Call
from channelstats.slack.client import SlackClient
from channelstats.slack.transport import SdkTransport
from channelstats.slack.web_api import WebApi
from channelstats.tokens import read_token


@asynccontextmanager
async def web_api(call: Call) -> AsyncIterator[WebApi]:
    """:raises SettingError: there is no token, or it cannot be used"""
    async with with_token(call, read_token(call.settings, call.environment)) as api:
        yield api


@asynccontextmanager
async def with_token(call: Call, token: str) -> AsyncIterator[WebApi]:
    settings = call.settings
    transport = await SdkTransport.open(token, base_url=settings.slack_api)
    calls = SlackClient(
        transport,
        settings.kind_of_app,
        clock=call.steady,
        sleep=call.sleep,
        say=call.say_meanwhile,
    )
    api = WebApi(calls)
    try:
        yield api
    finally:
        await api.close()
