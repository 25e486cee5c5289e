"""A report is posted once, by one run, and its file goes into its thread."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import date

import msgspec
import pytest

from channelstats.render.slack import Content, text_block
from channelstats.sending.posting import Attachment, Sender, SendResult, SendState
from channelstats.slack.client import SlackClient
from channelstats.slack.errors import ChannelRefused, MissingScope, NoAnswer
from channelstats.slack.web_api import WebApi
from channelstats.tables.sending import HELD, Sent, SentKey, SentReports, columns_of
from keytables import Clock, Unavailable
from keytables.lease import RENEWALS, Lease
from support.channelstats.fake_slack import TOKEN, Fault
from support.channelstats.house import NOW, House
from support.channelstats.slack_house import Slack
from support.channelstats.workspace import Raw, Workspace
from support.clocks import Pauses

POST, COMPLETE = "chat.postMessage", "files.completeUploadExternal"
KEY = SentKey("global", "", date(2024, 3, 10), 7, "CGEN")
CONTENT = Content("A report", [text_block("one"), text_block("two")])
PAGE = Attachment("report.html", "A report", b"<html>it</html>")


def served() -> Workspace:
    """Channels and a person that a report may go to."""
    channels = [
        {"id": cid, "name": cid[1:].lower(), "is_member": True, "members": ["UALICE"]}
        for cid in ("CGEN", "CDEV")
    ]
    return Workspace(users=[{"id": "UALICE", "name": "alice"}], channels=channels)


def posted(slack: Slack, cid: str = "CGEN") -> list[Raw]:
    return slack.messages.get(cid, [])


class Run:
    """One that sends, on a clock that goes on while somebody sleeps. ``meanwhile`` is what others
    do while it waits.
    """

    def __init__(self, slack: Slack, client: SlackClient) -> None:
        self.slack, self.api = slack, WebApi(client)
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        client.sleep = self.sleep

    def clock(self) -> float:
        return NOW + self.slack.waits.now

    def sender(self, sent: SentReports) -> Sender:
        return Sender(self.api, sent, clock=self.clock)

    async def sleep(self, seconds: float) -> None:
        """Sleep, in pieces: others may do something in between."""
        while seconds > 0:
            piece = min(seconds, HELD / RENEWALS)
            self.slack.waits.now += piece
            seconds -= piece
            if self.meanwhile is not None:
                await self.meanwhile()


@pytest.fixture
async def run(slack: Slack) -> AsyncIterator[Run]:
    slack.serve(served())
    async with slack.client() as client:
        yield Run(slack, client)


@pytest.fixture
def sender(run: Run, empty: House) -> Sender:
    return run.sender(empty.tables.sent)


async def test_a_report_is_one_message(slack: Slack, sender: Sender) -> None:
    outcome = await sender.send(KEY, CONTENT)
    [message] = posted(slack)
    assert (message["text"], message["blocks"]) == ("A report", CONTENT.blocks)
    done = outcome.row.done
    assert outcome == SendResult(SendState.SENT, Sent("CGEN", message["ts"], done))
    assert done >= NOW


async def test_a_file_goes_into_the_thread_and_one_that_failed_by_itself_the_next_time(
    slack: Slack, sender: Sender
) -> None:
    slack.serve(served(), Fault("error", "missing_scope", method="files.getUploadURLExternal"))
    with pytest.raises(MissingScope):
        await sender.send(KEY, CONTENT, PAGE)
    outcome = await sender.send(KEY, CONTENT, PAGE)
    assert outcome.state is SendState.SENT
    [message], [file] = posted(slack), slack.server.files.values()
    assert (file["text"], file["channel"]) == ("<html>it</html>", "CGEN")
    assert file["thread_ts"] == outcome.row.ts == message["ts"]


# ── once ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_second_run_sends_nothing_unless_it_shall(slack: Slack, sender: Sender) -> None:
    first = await sender.send(KEY, CONTENT)
    calls = len(slack.methods())
    again = await sender.send(KEY, CONTENT)
    assert again == SendResult(SendState.ALREADY, first.row)
    assert len(slack.methods()) == calls
    assert (await sender.send(KEY, CONTENT, again=True)).state is SendState.SENT
    assert len(posted(slack)) == 2
    assert (await sender.send(KEY, CONTENT)).state is SendState.ALREADY


async def test_other_weeks_destinations_and_subjects_are_other_reports(sender: Sender) -> None:
    changes: tuple[Raw, ...] = ({}, {"subject": "CDEV"}, {"days": 8}, {"destination": "CDEV"})
    keys = [msgspec.structs.replace(KEY, **change) for change in changes]
    for state in (SendState.SENT, SendState.ALREADY):
        for key in keys:
            assert (await sender.send(key, CONTENT)).state is state


async def test_what_another_run_is_sending_is_left_to_it(
    slack: Slack, empty: House, run: Run, sender: Sender
) -> None:
    lease = empty.tables.sent.lease(KEY, run.clock)
    assert await lease.acquire()
    assert (await sender.send(KEY, CONTENT)).state is SendState.BUSY
    assert slack.methods() == []
    await lease.release(columns_of(Sent("CGEN", "1.1", done=int(NOW))))
    assert (await sender.send(KEY, CONTENT)).state is SendState.ALREADY


@pytest.mark.parametrize("method", [POST, COMPLETE])
async def test_a_run_that_was_taken_over_posts_nothing_more(
    slack: Slack, empty: House, run: Run, sender: Sender, method: str
) -> None:
    slack.serve(served(), Fault("rate", "10", method=method))
    other = empty.tables.sent.lease(KEY, run.clock)

    async def meanwhile() -> None:
        slack.waits.now += HELD
        assert await other.acquire()

    run.meanwhile = meanwhile
    assert (await sender.send(KEY, CONTENT, PAGE)).state is SendState.BUSY
    assert slack.methods().count(method) == 1
    assert await other.renew()


class RenewedAtPauses(SentReports):
    """The rows; their leases are renewed when the test ends a pause."""

    def __init__(self, sent: SentReports) -> None:
        super().__init__(sent._table)
        self.pauses = Pauses()

    def lease(self, key: SentKey, clock: Clock) -> Lease:
        return Lease(self._table, (str(key),), clock, seconds=HELD, pause=self.pauses)


async def test_a_store_that_was_away_for_too_long_is_no_other_run(
    slack: Slack, empty: House, run: Run, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    slack.serve(served(), Fault("rate", "10", method=POST))
    renewed = RenewedAtPauses(empty.tables.sent)

    async def away(*_: object) -> bool:
        raise Unavailable("away")

    async def meanwhile() -> None:
        slack.waits.now += HELD
        with monkeypatch.context() as patched:
            patched.setattr(Lease, "renew", away)
            await renewed.pauses.end()
            await asyncio.Event().wait()

    run.meanwhile = meanwhile
    with pytest.raises(Unavailable, match="for too long"):
        await run.sender(renewed).send(KEY, CONTENT)
    run.meanwhile = None
    assert (await sender.send(KEY, CONTENT)).state is SendState.SENT


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────


async def test_a_refused_report_is_not_recorded_as_sent(slack: Slack, sender: Sender) -> None:
    slack.serve(served(), Fault("error", "not_in_channel", method=POST))
    with pytest.raises(ChannelRefused, match="give it the scope chat:write") as caught:
        await sender.send(KEY, CONTENT)
    assert TOKEN not in str(caught.value)
    assert posted(slack) == []
    assert (await sender.send(KEY, CONTENT)).state is SendState.SENT


async def test_where_the_answer_was_lost_it_is_said_that_the_message_may_be_there(
    slack: Slack, sender: Sender
) -> None:
    slack.serve(served(), Fault("cut", method=POST))
    with pytest.raises(NoAnswer, match="if the message is there, do not send it again"):
        await sender.send(KEY, CONTENT)
    assert len(posted(slack)) == len(slack.calls(POST)) == 1
