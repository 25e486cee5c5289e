"""Answers that say nothing are no answers."""

from collections.abc import Mapping
from typing import Any

import pytest

from channelstats.slack.client import ApiResponse, SlackCall, SlackClient
from channelstats.slack.errors import NoAnswer
from channelstats.slack.rate_limits import AppKind
from channelstats.slack.web_api import WebApi
from support.channelstats.desk import desk, office
from support.channelstats.fake_slack import Fault
from support.channelstats.slack_house import Slack, Waits

MESSAGE: dict[str, object] = {"text": "it"}


class Saying:
    """A transport that always answers the same."""

    def __init__(self, body: Mapping[str, object]) -> None:
        self.answer = ApiResponse(200, {"ok": True, **body})
        self.asked: list[str] = []

    async def send(self, call: SlackCall) -> ApiResponse:
        self.asked.append(call.method)
        return self.answer


def calls(saying: Saying) -> SlackClient:
    waits = Waits()
    return SlackClient(saying, AppKind.INTERNAL, clock=waits.clock, sleep=waits.sleep)


async def test_a_file_waits_as_long_as_slack_asks(slack: Slack) -> None:
    slack.serve(office(), Fault("rate", "7", method="upload"))
    async with desk(slack) as at:
        await at.api.upload("CGEN", "a", "A", b"it", thread_ts="1710000000.000100")
    assert slack.waits.slept == [7.0]
    assert slack.told()["files"]["F1"]["text"] == "it"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"channel": "CGEN"},
        {"ts": "1710000000.000100"},
        {"channel": "CGEN", "ts": "now"},
        {"channel": ["CGEN"], "ts": "1710000000.000100"},
        {"upload_url": "file:///etc/passwd", "file_id": "F1"},
        {"upload_url": "https://x.example/1"},
        {"permalink": "javascript:alert(1)"},
        {"permalink": "https://x.example/|<!channel>\n"},
    ],
)
async def test_an_answer_that_does_not_say_what_was_asked_is_none(body: dict[str, Any]) -> None:
    api = WebApi(calls(Saying(body)))
    for asking in (
        api.post("CGEN", MESSAGE),
        api.permalink("CGEN", "1710000000.000100"),
        api.upload("CGEN", "a", "A", b"", thread_ts="1710000000.000100"),
        api.about("CGEN"),
    ):
        with pytest.raises(NoAnswer):
            await asking
