"""Calls over real HTTP are repeated where that helps, never where Slack refuses, never for ever."""

import asyncio
import logging

import pytest

from channelstats.slack.client import HOLDS, RESTARTS, TRIES, SlackClient
from channelstats.slack.errors import (
    CallRefused,
    ChannelRefused,
    InvalidCursor,
    MissingScope,
    NoAnswer,
    SlackError,
    ThreadNotFound,
    TokenRefused,
)
from channelstats.slack.rate_limits import AppKind, limits
from support.channelstats.fake_slack import TOKEN, Fault
from support.channelstats.slack_house import Slack
from support.channelstats.small_workspace import said, workspace
from support.channelstats.workspace import Workspace

METHOD = "conversations.history"
ONE = {"channel": "CONE"}
MESSAGE = {"channel": "CONE", "text": "it"}


def served() -> Workspace:
    return workspace(one=[said(n, text="swordfish") for n in range(1, 8)])


async def failing(slack: Slack, *faults: Fault, once: bool = False) -> SlackError:
    """The error of a call, or of one that is not to be repeated."""
    slack.serve(served(), *faults)
    async with slack.client() as client:
        method, body = ("chat.postMessage", MESSAGE) if once else (METHOD, None)
        with pytest.raises(SlackError) as caught:
            await client.call(method, ONE, json=body, once=once)
    assert caught.value.__cause__ is caught.value.__context__ is None
    return caught.value


# ── what is repeated ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "trouble",
    [
        Fault("cut"),
        Fault("html"),
        Fault("text"),
        Fault("status", "500"),
        Fault("status", "504"),
        Fault("error", "fatal_error"),
    ],
    ids=lambda fault: f"{fault.do} {fault.value}",
)
async def test_troubles_on_the_way_are_repeated_with_growing_pauses(
    slack: Slack, trouble: Fault
) -> None:
    trouble.times = 3
    slack.serve(served(), trouble)
    async with slack.client() as client:
        assert len((await client.call(METHOD, ONE))["messages"]) == 7
    bounds = zip(slack.waits.slept, (1, 2, 4), strict=True)
    assert all(bound / 2 <= slept <= bound for slept, bound in bounds)


async def test_repetition_ends(slack: Slack) -> None:
    error = await failing(slack, Fault("cut", times=-1))
    assert isinstance(error, NoAnswer)
    assert str(error) == f"{METHOD}: the answer was cut, {TRIES} times"
    assert len(slack.calls()) == TRIES


async def test_where_nobody_listens_there_is_no_answer() -> None:
    async with Slack("http://127.0.0.1:1").client() as client:
        with pytest.raises(NoAnswer, match=f"no connection, {TRIES} times"):
            await client.call(METHOD, ONE)


@pytest.mark.parametrize("do", ["cut", "text", "status 503", "error fatal_error"])
async def test_what_may_have_been_done_is_not_repeated(slack: Slack, do: str) -> None:
    kind, _, value = do.partition(" ")
    assert isinstance(await failing(slack, Fault(kind, value), once=True), NoAnswer)
    assert len(slack.calls()) == 1


async def test_what_has_surely_not_been_done_is_repeated(slack: Slack) -> None:
    slack.serve(served(), Fault("rate", "30"))
    client = Slack("http://127.0.0.1:1", waits=slack.waits).client()

    async def sleep(seconds: float) -> None:
        await slack.waits.sleep(seconds)
        client._web.base_url = f"{slack.url}/api/"

    client.sleep = sleep
    async with client:
        await client.call("chat.postMessage", json=MESSAGE, once=True)
    assert slack.waits.slept[-1] == 30
    assert len(slack.calls()) == 2


# ── what Slack refuses ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("token_revoked", TokenRefused),
        ("missing_scope", MissingScope),
        ("is_archived", ChannelRefused),
        ("thread_not_found", ThreadNotFound),
        ("invalid_cursor", InvalidCursor),
        ("method_deprecated", CallRefused),
    ],
)
async def test_a_refusal_is_told_at_once_and_by_its_kind(
    slack: Slack, code: str, kind: type[SlackError]
) -> None:
    error = await failing(slack, Fault("error", code))
    assert type(error) is kind
    assert str(error).startswith(f"{METHOD}: ")
    assert len(slack.calls()) == 1


async def test_a_missing_scope_is_named(slack: Slack) -> None:
    scopes = {"needed": "channels:history", "provided": "users:read"}
    error = await failing(slack, Fault("error", "missing_scope", more=scopes))
    assert isinstance(error, MissingScope)
    assert error.needed == "channels:history"
    assert str(error) == f"{METHOD}: the token lacks the scope channels:history; it has users:read"


async def test_what_is_no_code_is_not_told(slack: Slack) -> None:
    error = await failing(slack, Fault("error", "xoxp-1 what somebody wrote"))
    assert str(error) == f"{METHOD}: unknown"


@pytest.mark.parametrize("token", ["", " ", "xoxp 1", "xoxp\n-1", "xöxp"])
async def test_what_is_no_token_is_not_sent_and_not_repeated(slack: Slack, token: str) -> None:
    with pytest.raises(ValueError, match="token: expected visible ASCII") as caught:
        slack.client(token)
    assert not token.strip() or token not in str(caught.value)


@pytest.mark.parametrize("do", ["error invalid_auth", "status 500", "cut", "html", "text"])
async def test_neither_token_nor_text_is_logged_or_raised(
    slack: Slack, caplog: pytest.LogCaptureFixture, do: str
) -> None:
    caplog.set_level(logging.DEBUG)
    kind, _, value = do.partition(" ")
    error = await failing(slack, Fault(kind, value, times=-1))
    told = caplog.text + str(error) + repr(error) + repr(slack.client())
    assert TOKEN not in told
    assert "swordfish" not in told


# ── limits ───────────────────────────────────────────────────────────────────────────────────────


async def test_what_slack_says_is_waited_and_is_no_failure(slack: Slack) -> None:
    limited = [Fault("rate", "30"), Fault("rate", "3"), Fault("error", "ratelimited")]
    slack.serve(served(), *limited, Fault("rate", "1", times=HOLDS - 3))
    async with slack.client() as client:
        await client.call(METHOD, ONE)
    assert slack.waits.slept[:3] == [30, 3, 30]
    assert len(slack.waits.slept) == HOLDS


async def test_waits_end(slack: Slack) -> None:
    assert isinstance(await failing(slack, Fault("rate", "1", times=-1)), NoAnswer)
    assert len(slack.calls()) == HOLDS + 1


@pytest.mark.parametrize("seconds", ["3601", "-1", "inf", "nan"])
async def test_an_absurd_wait_is_an_error(slack: Slack, seconds: str) -> None:
    assert isinstance(await failing(slack, Fault("rate", seconds)), NoAnswer)
    assert slack.waits.slept == []


async def test_a_long_wait_is_told_once_to_all_who_meet_it_and_keeps_no_other_method(
    slack: Slack,
) -> None:
    over, said_lines = asyncio.Event(), list[str]()

    async def sleep(seconds: float) -> None:
        await over.wait()
        await slack.waits.sleep(seconds)

    slack.serve(served(), Fault("rate", "60", "users.list"), Fault("rate", "300", METHOD, times=2))
    clock, url = slack.waits.clock, f"{slack.url}/api/"
    async with SlackClient(
        token=TOKEN,
        kind=AppKind.INTERNAL,
        base_url=url,
        clock=clock,
        sleep=sleep,
        say=said_lines.append,
    ) as client:
        held = [asyncio.create_task(client.call(METHOD, ONE)) for _ in range(2)]
        await asyncio.to_thread(slack.wait_for, METHOD, 2)
        await client.call("conversations.info", ONE)
        over.set()
        await asyncio.gather(*held, client.call("users.list"))
    assert said_lines == [f"Slack asks to wait 300 s before the next {METHOD}"]


@pytest.mark.parametrize("kind", AppKind)
async def test_only_an_unlisted_app_gets_one_call_a_minute_and_fifteen_items(
    slack: Slack, kind: AppKind
) -> None:
    slack.serve(served())
    async with slack.client(kind=kind) as client:
        for _ in range(3):
            async for _ in client.pages(METHOD, "messages", ONE):
                pass
    is_unlisted = kind is AppKind.UNLISTED
    assert slack.waits.slept == ([61, 61] if is_unlisted else [])
    assert {call["limit"] for call in slack.calls()} == {"15" if is_unlisted else "200"}
    assert limits(kind)["users.list"].items == 200


async def test_messages_are_posted_one_a_second_in_the_order_they_were_given(slack: Slack) -> None:
    slack.serve(served())
    async with slack.client() as client:
        posts = (
            client.call("chat.postMessage", json={**MESSAGE, "text": f"{number}"})
            for number in range(4)
        )
        await asyncio.gather(*posts)
    assert slack.waits.slept == [1, 1, 1]
    assert [call["text"] for call in slack.calls()] == ["0", "1", "2", "3"]


# ── listings ─────────────────────────────────────────────────────────────────────────────────────


async def listed(slack: Slack) -> list[str]:
    async with slack.client() as client:
        pages = [page async for page in client.pages(METHOD, "messages", ONE)]
    return [message["ts"] for page in pages for message in page["messages"]]


async def test_a_listing_follows_its_cursors_to_the_end(slack: Slack) -> None:
    slack.serve(served(), most=2)
    assert len(await listed(slack)) == 7
    assert len(slack.calls()) == 4


async def test_an_expired_cursor_begins_the_listing_anew(slack: Slack) -> None:
    slack.serve(served(), Fault("expire", after=1), most=2)
    times = await listed(slack)
    assert times[4:] == sorted(set(times), reverse=True)
    assert times[:4] == times[4:8]


async def test_cursors_that_always_expire_are_an_error(slack: Slack) -> None:
    slack.serve(served(), Fault("expire", times=-1), most=2)
    with pytest.raises(InvalidCursor):
        await listed(slack)
    assert len(slack.calls()) == 2 * (RESTARTS + 1)


@pytest.mark.parametrize("cursors", [("one",), ("one", "two", "three", "two")])
async def test_cursors_that_repeat_do_not_go_on_for_ever(
    slack: Slack, cursors: tuple[str, ...]
) -> None:
    page = {"ok": True, "messages": []}
    more = [{**page, "response_metadata": {"next_cursor": cursor}} for cursor in cursors * 2]
    slack.serve(served(), *(Fault("error", more=one) for one in more))
    with pytest.raises(NoAnswer, match="the same cursor came twice"):
        await listed(slack)
    assert len(slack.calls()) == len(set(cursors)) + 1


async def test_an_answer_without_the_list_is_an_error(slack: Slack) -> None:
    slack.serve(served(), Fault("error", more={"ok": True}))
    with pytest.raises(NoAnswer, match=f"{METHOD}: an answer without a list 'messages'"):
        await listed(slack)
