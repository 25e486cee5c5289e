"""The methods of the Web API: what is asked, and answers that say nothing, which are none."""

from collections.abc import AsyncIterator
from typing import Any, TypeVar

import pytest

from channelstats.slack.errors import ChannelRefused, NoAnswer, TokenRefused
from channelstats.slack.objects import Identity
from channelstats.slack.web_api import ListingPage, Posted
from support.channelstats.fake_slack import Fault
from support.channelstats.slack_house import Slack
from support.channelstats.small_workspace import A, B, C, said, ts, workspace
from support.channelstats.workspace import Workspace

_T = TypeVar("_T")

POSTED = Posted("CONE", "1710000000.000100")


async def everything(pages: AsyncIterator[ListingPage[_T]]) -> list[_T]:
    return [item async for page in pages for item in page.items]


def busy() -> Workspace:
    served = workspace(one=[said(n) for n in range(1, 8)], old=[])
    served.channels[0]["members"] = [A, B, C]
    served.channels[1] |= {"is_archived": True, "previous_names": ["older"]}
    served.channels.append({"id": "G1", "name": "secret", "is_private": True})
    served.users.append({"id": C, "deleted": True})
    return served


async def test_users_members_and_messages_are_listed_from_a_time_on(slack: Slack) -> None:
    slack.serve(busy(), most=2)
    async with slack.api() as api:
        assert [user.id for user in await everything(api.users())] == [A, B, C]
        assert await everything(api.members("CONE")) == [A, B, C]
        messages = await everything(api.history("CONE", ts(2)))
    assert [message.ts for message in messages] == [ts(n) for n in (7, 6, 5, 4, 3, 2)]


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
        messages = await everything(api.replies("CONE", ts(1)))
    assert [(message.ts, message.parent_user_id) for message in messages] == [
        (ts(1), None),
        (ts(3), A),
        (ts(4), A),
    ]
    assert messages[0].latest_reply == ts(4)


async def test_a_broken_object_costs_itself(slack: Slack) -> None:
    served = busy()
    served.users[1]["name"] = 7
    slack.serve(served)
    async with slack.api() as api:
        pages = [page async for page in api.users()]
    assert [user.id for page in pages for user in page.items] == [A, C]
    assert [reason for page in pages for reason in page.broken] == [
        "name is a number, expected a text"
    ]


async def test_whose_token_it_is_and_what_it_may_do(slack: Slack) -> None:
    slack.serve(busy(), scopes="users:read, channels:read", bot=True)
    async with slack.api() as api:
        assert await api.identity() == Identity(
            "https://example.slack.com/",
            "Example",
            "stats",
            "BSTATS",
            frozenset({"users:read", "channels:read"}),
        )
    async with slack.api("xoxp-wrong") as api:
        with pytest.raises(TokenRefused, match="Slack does not know this token"):
            await api.identity()


async def test_a_bot_joins_a_channel_to_read_it(slack: Slack) -> None:
    slack.serve(busy(), bot=True)
    async with slack.api() as api:
        with pytest.raises(ChannelRefused, match=r"not_in_channel.*--join"):
            await everything(api.history("CONE", "0"))
        await api.join("CONE")
        assert len(await everything(api.history("CONE", "0"))) == 7
        with pytest.raises(ChannelRefused, match="is_archived"):
            await api.join("COLD")


async def test_a_file_goes_into_a_thread_and_its_address_is_not_given_the_token(
    slack: Slack,
) -> None:
    refused = Fault("status", "500", "upload")
    slack.serve(busy(), refused, Fault("rate", "7", "files.completeUploadExternal"))
    async with slack.api() as api:
        await api.upload(POSTED, "a.csv", "A", b"it")
    assert slack.waits.slept[1:] == [7.0]
    assert slack.server.files["F3"] == {
        "name": "a.csv",
        "title": "A",
        "length": 2,
        "text": "it",
        "channel": "CONE",
        "thread_ts": POSTED.ts,
    }
    assert not any(call["token"] for call in slack.calls("upload"))


async def test_a_file_whose_answers_say_nothing_is_not_there(slack: Slack) -> None:
    slack.serve(busy(), Fault("error", more={"ok": True}))
    async with slack.api() as api:
        with pytest.raises(NoAnswer):
            await api.upload(POSTED, "a.csv", "A", b"it")
    assert slack.methods() == ["files.getUploadURLExternal"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"channel": "CONE"},
        {"ts": "1710000000.000100"},
        {"channel": "CONE", "ts": "now"},
        {"channel": ["CONE"], "ts": "1710000000.000100"},
        {"permalink": "javascript:alert(1)"},
        {"permalink": "https://x.example/|<!channel>\n"},
    ],
)
async def test_an_answer_that_does_not_say_what_was_asked_is_none(
    slack: Slack, body: dict[str, Any]
) -> None:
    slack.serve(busy(), Fault("error", times=-1, more={"ok": True, **body}))
    async with slack.api() as api:
        for asking in (
            api.post("CONE", {"text": "it"}),
            api.permalink("CONE", "1710000000.000100"),
            api.about("CONE"),
        ):
            with pytest.raises(NoAnswer):
                await asking
