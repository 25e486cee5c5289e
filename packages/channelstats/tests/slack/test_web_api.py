"""Listings of the Web API over real HTTP: pages, cursors, and what may not get out."""

import logging
from collections.abc import AsyncIterator
from typing import TypeVar

import pytest

from channelstats.slack.client import RESTARTS, ListingPage
from channelstats.slack.errors import (
    ChannelRefused,
    InvalidCursor,
    NoAnswer,
    SlackError,
    TokenRefused,
)
from channelstats.slack.objects import Identity
from channelstats.slack.transport import SdkTransport
from support.channelstats.fake_slack import TOKEN, Fault
from support.channelstats.slack_house import Slack
from support.channelstats.small_workspace import A, B, C, said, ts, workspace
from support.channelstats.workspace import Workspace

_T = TypeVar("_T")


async def everything(pages: AsyncIterator[ListingPage[_T]]) -> list[_T]:
    return [item async for page in pages for item in page.items]


def busy() -> Workspace:
    of = workspace(one=[said(n) for n in range(1, 8)], old=[])
    of.channels[0]["members"] = [A, B, C]
    of.channels[1] |= {"is_archived": True, "previous_names": ["older"]}
    of.channels.append({"id": "G1", "name": "secret", "is_private": True})
    of.users.append({"id": C, "deleted": True})
    return of


async def test_a_listing_follows_its_cursors_to_the_end(slack: Slack) -> None:
    slack.serve(busy(), most=2)
    async with slack.api() as api:
        assert [user.id for user in await everything(api.users())] == [A, B, C]
        assert await everything(api.members("CONE")) == [A, B, C]
        messages = await everything(api.history("CONE", ts(2)))
    assert [message.ts for message in messages] == [ts(n) for n in (7, 6, 5, 4, 3, 2)]
    assert len(slack.calls("conversations.history")) == 3


async def test_archived_channels_are_listed_and_private_ones_on_demand(slack: Slack) -> None:
    slack.serve(busy())
    async with slack.api() as api:
        public = await everything(api.channels(private=False))
        every = await everything(api.channels(private=True))
    assert [channel.name for channel in public] == ["one", "old"]
    assert [channel.name for channel in every] == ["one", "old", "secret"]
    assert (public[1].is_archived, public[1].previous_names) == (True, ["older"])


async def test_a_thread_begins_with_its_head(slack: Slack) -> None:
    slack.serve(workspace(one=[said(1), said(2), said(3, B, thread=1), said(4, C, thread=1)]))
    async with slack.api() as api:
        found = await everything(api.replies("CONE", ts(1)))
    assert [(message.ts, message.parent_user_id) for message in found] == [
        (ts(1), None),
        (ts(3), A),
        (ts(4), A),
    ]
    assert found[0].latest_reply == ts(4)


async def test_an_expired_cursor_begins_the_listing_anew(slack: Slack) -> None:
    slack.serve(busy(), Fault("expire", after=1), most=2)
    async with slack.api() as api:
        found = await everything(api.history("CONE", "0"))
    assert [message.ts for message in found[:4]] == [ts(n) for n in (7, 6, 5, 4)]
    assert [message.ts for message in found[4:]] == [ts(n) for n in range(7, 0, -1)]


async def test_cursors_that_always_expire_are_an_error(slack: Slack) -> None:
    slack.serve(busy(), Fault("expire", times=-1), most=2)
    async with slack.api() as api:
        with pytest.raises(InvalidCursor):
            await everything(api.history("CONE", "0"))
    assert len(slack.calls()) == 2 * (RESTARTS + 1)


async def test_a_broken_object_costs_itself(slack: Slack) -> None:
    of = busy()
    of.users[1]["name"] = 7
    slack.serve(of)
    async with slack.api() as api:
        pages = [page async for page in api.users()]
    assert [user.id for page in pages for user in page.items] == [A, C]
    assert [reason for page in pages for reason in page.broken] == [
        "name is a number, expected a text"
    ]


async def test_an_answer_without_the_list_is_an_error(slack: Slack) -> None:
    of = Fault("error", "x", more={"ok": True})
    slack.serve(busy(), of)
    async with slack.api() as api:
        with pytest.raises(NoAnswer, match=r"users\.list: an answer without a list 'members'"):
            await everything(api.users())


@pytest.mark.parametrize("token", ["", " ", "xoxp 1", "xoxp\n-1", "xöxp"])
async def test_what_is_no_token_is_not_sent_and_not_repeated(token: str) -> None:
    with pytest.raises(ValueError, match="token: expected visible ASCII") as caught:
        async with SdkTransport.open(token):
            pass
    assert not token.strip() or token not in str(caught.value)


@pytest.mark.parametrize("do", ["error", "status", "cut", "html", "text"])
async def test_neither_token_nor_text_is_logged_or_raised(
    slack: Slack, caplog: pytest.LogCaptureFixture, do: str
) -> None:
    caplog.set_level(logging.DEBUG)
    of = workspace(one=[said(1, text="swordfish")])
    value = {"error": "invalid_auth", "status": "500"}.get(do, "")
    slack.serve(of, Fault(do, value, after=1, times=-1))
    async with slack.api() as api:
        assert len(await everything(api.history("CONE", "0"))) == 1
        with pytest.raises(SlackError) as caught:
            await everything(api.history("CONE", "0"))
    told = caplog.text + str(caught.value) + repr(caught.value)
    assert TOKEN not in told
    assert "swordfish" not in told
    assert caught.value.__cause__ is None


async def test_a_wrong_token_is_refused(slack: Slack) -> None:
    slack.serve(busy())
    async with slack.api("xoxp-wrong") as api:
        with pytest.raises(TokenRefused, match="Slack does not know this token"):
            await everything(api.users())


async def test_nobody_listening_is_no_answer() -> None:
    async with Slack("http://127.0.0.1:1").api() as api:
        with pytest.raises(NoAnswer, match="no connection, 6 times"):
            await everything(api.users())


# ── the token and its bot ────────────────────────────────────────────────────────────────────────


async def test_whose_token_it_is_and_what_it_may_do(slack: Slack) -> None:
    slack.serve(busy(), scopes="users:read, channels:read", bot=True)
    async with slack.api() as api:
        found = await api.identity()
    assert found == Identity(
        "https://example.slack.com/",
        "Example",
        "stats",
        "BSTATS",
        frozenset({"users:read", "channels:read"}),
    )


async def test_a_bot_joins_a_channel_to_read_it(slack: Slack) -> None:
    slack.serve(busy(), bot=True)
    async with slack.api() as api:
        with pytest.raises(ChannelRefused, match=r"not_in_channel.*--join"):
            await everything(api.history("CONE", "0"))
        await api.join("CONE")
        assert len(await everything(api.history("CONE", "0"))) == 7
        with pytest.raises(ChannelRefused, match="is_archived"):
            await api.join("COLD")
