"""Messages are found again by their mark, and answers that say nothing are no answers."""

from collections.abc import Mapping
from typing import Any

import pytest

from channelstats.slack.client import ApiResponse, SlackCall, SlackClient
from channelstats.slack.errors import NoAnswer
from channelstats.slack.rate_limits import AppKind
from channelstats.slack.web_api import PAGES, Mark, WebApi
from support.channelstats.desk import desk, office
from support.channelstats.fake_slack import Fault
from support.channelstats.house import NOW
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


async def test_a_message_is_found_by_edition_and_part(slack: Slack) -> None:
    slack.serve(office(), most=2)
    async with desk(slack) as at:
        found = {}
        for edition, part in (("a", 1), ("a", 2), ("b", 1)):
            mark = Mark(edition, part, 10 * part)
            found[edition, part] = await at.api.post("CGEN", MESSAGE, mark)
        for (edition, part), posted in found.items():
            assert await at.api.find("CGEN", edition, part, since=int(NOW) - 1) == posted
        assert await at.api.find("CGEN", "b", 2, since=int(NOW) - 1) is None


async def test_an_answer_in_a_thread_is_found_there(slack: Slack) -> None:
    slack.serve(office())
    async with desk(slack) as at:
        head = await at.api.post("CGEN", MESSAGE, Mark("a", 1, 1))
        reply = await at.api.post("CGEN", MESSAGE, Mark("a", 2, 1), thread_ts=head.ts)
        since = int(NOW) - 1
        assert await at.api.find("CGEN", "a", 2, since=since) is None
        assert await at.api.find("CGEN", "a", 2, thread_ts=head.ts, since=since) == reply


async def test_what_was_posted_to_a_person_is_found_in_their_direct_messages(slack: Slack) -> None:
    slack.serve(office())
    async with desk(slack) as at:
        posted = await at.api.post("UBOB", MESSAGE, Mark("a", 1, 1))
        assert posted.channel == "DBOB"
        assert await at.api.find("UBOB", "a", 1, since=int(NOW) - 1) == posted


async def test_a_file_waits_as_long_as_slack_asks(slack: Slack) -> None:
    slack.serve(office(), Fault("rate", "7", method="upload"))
    async with desk(slack) as at:
        await at.api.upload("CGEN", "a", "A", b"it", thread_ts="1710000000.000100")
    assert slack.waits.slept == [7.0]
    assert slack.told()["files"]["F1"]["text"] == "it"


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"event_type": "other", "event_payload": {"edition": "a", "part": 1, "blocks": 1}},
        {"event_type": "channelstats_report", "event_payload": {"edition": "a"}},
        {"event_type": "channelstats_report"},
        "a text",
    ],
)
async def test_marks_of_others_are_none_of_ours(metadata: Any) -> None:
    message = {"ts": "1710000000.000100", "metadata": metadata}
    api = WebApi(calls(Saying({"messages": [message, {"ts": 5}, None]})))
    assert await api.find("CGEN", "a", 1, since=0) is None


async def test_looking_for_a_message_ends() -> None:
    class Endless(Saying):
        async def send(self, call: SlackCall) -> ApiResponse:
            await super().send(call)
            more = {"next_cursor": f"page {len(self.asked)}"}
            return ApiResponse(200, {"ok": True, "messages": [], "response_metadata": more})

    endless = Endless({})
    with pytest.raises(NoAnswer, match="pages"):
        await WebApi(calls(endless)).find("CGEN", "a", 1, since=0)
    assert len(endless.asked) == PAGES


async def test_looking_for_a_message_ends_where_the_last_page_is_lost() -> None:
    class Lost(Saying):
        async def send(self, call: SlackCall) -> ApiResponse:
            await super().send(call)
            if len(self.asked) == PAGES:
                return ApiResponse(200, {"ok": False, "error": "invalid_cursor"})
            more = {"next_cursor": f"page {len(self.asked)}" if len(self.asked) < 50 else ""}
            return ApiResponse(200, {"ok": True, "messages": [], "response_metadata": more})

    with pytest.raises(NoAnswer, match="pages"):
        await WebApi(calls(lost := Lost({}))).find("CGEN", "a", 1, since=0)
    assert len(lost.asked) == PAGES + 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"channel": "CGEN"},
        {"ts": "1710000000.000100"},
        {"channel": "CGEN", "ts": "now"},
        {"channel": ["CGEN"], "ts": "1710000000.000100"},
        {"messages": {}},
        {"upload_url": "file:///etc/passwd", "file_id": "F1"},
        {"upload_url": "https://x.example/1"},
        {"permalink": "javascript:alert(1)"},
        {"permalink": "https://x.example/|<!channel>\n"},
    ],
)
async def test_an_answer_that_does_not_say_what_was_asked_is_none(body: dict[str, Any]) -> None:
    api = WebApi(calls(Saying(body)))
    for asking in (
        api.post("CGEN", MESSAGE, Mark("a", 1, 1)),
        api.find("CGEN", "a", 1, since=0),
        api.direct("UBOB"),
        api.permalink("CGEN", "1710000000.000100"),
        api.upload("CGEN", "a", "A", b"", thread_ts="1710000000.000100"),
        api.own_id(),
        api.about("CGEN"),
        api.create("dev"),
    ):
        with pytest.raises(NoAnswer):
            await asking
