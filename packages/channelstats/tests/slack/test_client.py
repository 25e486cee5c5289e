"""SlackClient are repeated where that helps, never where Slack refuses, and never for ever."""

import asyncio
from collections.abc import Mapping

import pytest

from channelstats.slack.client import (
    HOLDS,
    TRIES,
    ApiResponse,
    SlackCall,
    SlackClient,
    TransportError,
)
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
from channelstats.slack.rate_limits import AppKind
from support.channelstats.slack_house import Waits

METHOD = "conversations.history"
GOOD = ApiResponse(200, {"ok": True, "messages": []})
CUT = TransportError("ClientPayloadError")


def refused(code: str, status: int = 200, **more: str) -> ApiResponse:
    return ApiResponse(status, {"ok": False, "error": code, **more})


def limited(seconds: str) -> ApiResponse:
    return ApiResponse(429, {"ok": False, "error": "ratelimited"}, seconds)


class Scripted:
    """A transport that answers as it is told; the last answer is repeated for ever."""

    def __init__(self, *answers: ApiResponse | TransportError) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def send(self, call: SlackCall) -> ApiResponse:
        self.asked.append(call.method)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, TransportError):
            raise answer
        return answer


def calls(script: Scripted, waits: Waits, jitter: float = 1.0) -> SlackClient:
    return SlackClient(
        script, AppKind.INTERNAL, clock=waits.clock, sleep=waits.sleep, jitter=lambda: jitter
    )


async def called(
    waits: Waits, *answers: ApiResponse | TransportError
) -> tuple[Mapping[str, object], Scripted]:
    script = Scripted(*answers)
    return await calls(script, waits).call(METHOD, {}), script


async def failing(
    waits: Waits, *answers: ApiResponse | TransportError
) -> tuple[SlackError, Scripted]:
    script = Scripted(*answers)
    with pytest.raises(SlackError) as caught:
        await calls(script, waits).call(METHOD, {})
    return caught.value, script


@pytest.mark.parametrize(
    "trouble",
    [
        CUT,
        ApiResponse(500, {}),
        ApiResponse(503, {"ok": True}),
        ApiResponse(200, {}),
        refused("fatal_error"),
    ],
)
async def test_troubles_on_the_way_are_repeated_with_growing_pauses(
    trouble: ApiResponse | TransportError,
) -> None:
    waits = Waits()
    body, _ = await called(waits, trouble, trouble, trouble, GOOD)
    assert body == GOOD.body
    assert waits.slept == [1, 2, 4]


async def test_pauses_vary_by_half() -> None:
    waits = Waits()
    await calls(Scripted(CUT, CUT, GOOD), waits, jitter=0.0).call(METHOD, {})
    assert waits.slept == [0.5, 1]


async def test_repetition_ends() -> None:
    waits = Waits()
    error, script = await failing(waits, CUT)
    assert isinstance(error, NoAnswer)
    assert str(error) == f"{METHOD}: ClientPayloadError, {TRIES} times"
    assert len(script.asked) == TRIES


async def test_what_slack_says_is_waited() -> None:
    waits = Waits()
    await called(waits, limited("30"), limited("3"), refused("ratelimited"), GOOD)
    assert waits.slept == [30, 3, 30]


async def test_holds_are_no_failures_but_end_too() -> None:
    waits = Waits()
    error, script = await failing(waits, limited("1"))
    assert isinstance(error, NoAnswer)
    assert len(script.asked) == HOLDS + 1


async def test_a_long_hold_is_told_and_a_short_one_is_not() -> None:
    waits, said = Waits(), list[str]()
    script = Scripted(limited("60"), limited("300"), limited("61"), GOOD)
    of = SlackClient(
        script, AppKind.INTERNAL, clock=waits.clock, sleep=waits.sleep, say=said.append
    )
    await of.call(METHOD, {})
    assert said == [
        f"Slack asks to wait 300 s before the next {METHOD}",
        f"Slack asks to wait 61 s before the next {METHOD}",
    ]


@pytest.mark.parametrize("seconds", [["300", "300"], ["300", "30"]])
async def test_a_hold_that_several_calls_meet_at_once_is_told_once(seconds: list[str]) -> None:
    waits, said = Waits(), list[str]()
    both = asyncio.Barrier(2)

    class Together(Scripted):
        async def send(self, call: SlackCall) -> ApiResponse:
            answer = await super().send(call)
            if answer.status != GOOD.status:
                await both.wait()
            return answer

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)  # the other one goes on meanwhile
        await waits.sleep(seconds)

    script = Together(*map(limited, seconds), GOOD)
    of = SlackClient(script, AppKind.INTERNAL, clock=waits.clock, sleep=sleep, say=said.append)
    await asyncio.gather(of.call(METHOD, {}), of.call(METHOD, {}))
    assert said == [f"Slack asks to wait 300 s before the next {METHOD}"]


@pytest.mark.parametrize("seconds", ["3601", "-1", "inf", "nan"])
async def test_an_absurd_hold_is_an_error(seconds: str) -> None:
    error, _ = await failing(waits := Waits(), limited(seconds))
    assert isinstance(error, NoAnswer)
    assert waits.slept == []


async def test_a_hold_is_of_one_method_alone() -> None:
    over, asleep = asyncio.Event(), asyncio.Event()
    waits = Waits()

    async def sleep(seconds: float) -> None:
        asleep.set()
        await over.wait()
        await waits.sleep(seconds)

    script = Scripted(limited("1000"), GOOD)
    of = SlackClient(script, AppKind.INTERNAL, clock=waits.clock, sleep=sleep)
    held = asyncio.create_task(of.call("users.list", {}))
    await asleep.wait()
    assert await of.call(METHOD, {}) == GOOD.body
    assert not held.done()
    over.set()
    await held
    assert script.asked == ["users.list", METHOD, "users.list"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("invalid_auth", TokenRefused),
        ("token_revoked", TokenRefused),
        ("missing_scope", MissingScope),
        ("not_in_channel", ChannelRefused),
        ("channel_not_found", ChannelRefused),
        ("is_archived", ChannelRefused),
        ("thread_not_found", ThreadNotFound),
        ("invalid_cursor", InvalidCursor),
        ("method_deprecated", CallRefused),
    ],
)
async def test_a_refusal_is_told_at_once_and_by_its_kind(code: str, kind: type[SlackError]) -> None:
    error, script = await failing(Waits(), refused(code))
    assert type(error) is kind
    assert str(error).startswith(f"{METHOD}: ")
    assert len(script.asked) == 1


@pytest.mark.parametrize("cursors", [("one",), ("one", "two"), ("one", "two", "three", "two")])
async def test_cursors_that_repeat_do_not_go_on_for_ever(cursors: tuple[str, ...]) -> None:
    waits, rounds = Waits(), 50
    pages = [
        ApiResponse(200, {"ok": True, "messages": [], "response_metadata": {"next_cursor": cursor}})
        for cursor in cursors * rounds
    ]
    script = Scripted(*pages, GOOD)
    with pytest.raises(NoAnswer, match="the same cursor came twice"):
        async for _ in calls(script, waits).pages(METHOD, "messages", dict, {}):
            pass
    assert len(script.asked) == len(set(cursors)) + 1


async def test_a_missing_scope_is_named() -> None:
    error, _ = await failing(
        Waits(), refused("missing_scope", needed="channels:history", provided="users:read")
    )
    assert isinstance(error, MissingScope)
    assert error.needed == "channels:history"
    assert str(error) == (
        f"{METHOD}: the token lacks the scope channels:history; it has users:read"
    )


async def test_what_is_no_code_is_not_told() -> None:
    error, _ = await failing(Waits(), refused("xoxp-1 what somebody wrote"))
    assert str(error) == f"{METHOD}: unknown"


# ── what changes something ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "trouble", [CUT, ApiResponse(503, {}), ApiResponse(200, {}), refused("fatal_error")]
)
async def test_what_may_have_been_done_is_not_repeated(
    trouble: ApiResponse | TransportError,
) -> None:
    waits, script = Waits(), Scripted(trouble, GOOD)
    with pytest.raises(NoAnswer):
        await calls(script, waits).write("chat.postMessage", {}, once=True)
    assert len(script.asked) == 1


async def test_what_has_surely_not_been_done_is_repeated() -> None:
    waits, unsent = Waits(), TransportError("ClientConnectorError", unsent=True)
    script = Scripted(unsent, limited("30"), unsent, GOOD)
    assert await calls(script, waits).write("chat.postMessage", {}, once=True) == GOOD.body
    assert waits.slept == [1, 30, 2]


async def test_what_can_be_done_twice_is_repeated() -> None:
    waits, script = Waits(), Scripted(CUT, GOOD)
    assert await calls(script, waits).write("conversations.join", {}) == GOOD.body


async def test_a_file_that_is_not_taken_is_an_error() -> None:
    waits, script = Waits(), Scripted(ApiResponse(400, {"ok": False}))
    with pytest.raises(NoAnswer):
        await calls(script, waits).upload("files.getUploadURLExternal", "https://x.example", b"")
    assert len(script.asked) == TRIES
