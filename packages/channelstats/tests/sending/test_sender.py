"""A report is posted once, by one run, and its file goes into its thread."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from channelstats.sending.sender import Attachment, Sender, SendJob, SendResult, SendState
from channelstats.slack.errors import ChannelRefused, MissingScope, NoAnswer, SlackError
from channelstats.tables.sent_reports import HELD, Sent, SentKey, SentReports, columns_of
from keytables import Clock, Unavailable
from keytables.lease import Lease
from support.channelstats.desk import (
    KEY,
    TO_ALICE,
    Desk,
    Wall,
    blocks_in,
    content,
    desk,
    errand,
    office,
    posted,
)
from support.channelstats.fake_slack import TOKEN, Fault
from support.channelstats.house import NOW, House
from support.channelstats.slack_house import Slack
from support.clocks import Pauses

POST = "chat.postMessage"
PAGE = Attachment("report.html", "A report", b"<html>it</html>")


@pytest.fixture
async def at(slack: Slack) -> AsyncIterator[Desk]:
    """The desk of an office in which nothing goes wrong, unless a test serves another one."""
    slack.serve(office())
    async with desk(slack) as opened:
        yield opened


@pytest.fixture
def sender(at: Desk, empty: House) -> Sender:
    return at.sender(empty.tables.sent)


async def test_a_report_is_one_message(slack: Slack, sender: Sender) -> None:
    outcome = await sender.send(errand())
    [message] = posted(slack)
    assert blocks_in([message]) == errand().content.blocks
    assert outcome == SendResult(SendState.SENT, "CGEN", message["ts"], outcome.at)
    assert outcome.at >= NOW
    [asked] = slack.calls(POST)
    assert asked["text"] == "A report"


async def test_what_goes_to_a_person_is_in_their_direct_messages(
    slack: Slack, sender: Sender
) -> None:
    outcome = await sender.send(errand(TO_ALICE))
    assert outcome.channel == "DALICE"
    assert len(posted(slack, "DALICE")) == 1


async def test_a_file_goes_into_the_thread_and_its_address_gets_no_token(
    slack: Slack, sender: Sender
) -> None:
    outcome = await sender.send(SendJob(KEY, content(2), PAGE))
    [file] = slack.told()["files"].values()
    assert file["text"] == "<html>it</html>"
    assert (file["channel"], file["thread_ts"]) == ("CGEN", outcome.ts)
    assert slack.calls("upload") == [{"file": "F1", "length": len(PAGE.data), "token": False}]


async def test_a_file_that_failed_goes_by_itself_the_next_time(
    slack: Slack, sender: Sender
) -> None:
    slack.serve(office(), Fault("error", "missing_scope", method="files.getUploadURLExternal"))
    of = SendJob(KEY, content(2), PAGE)
    with pytest.raises(MissingScope):
        await sender.send(of)
    assert (await sender.send(of)).state is SendState.SENT
    assert len(posted(slack)) == len(slack.told()["files"]) == 1


# ── once ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_second_run_sends_nothing(slack: Slack, sender: Sender) -> None:
    first = await sender.send(errand())
    calls = len(slack.methods())
    second = await sender.send(errand())
    assert second == SendResult(SendState.ALREADY, first.channel, first.ts, first.at)
    assert len(slack.methods()) == calls


async def test_on_purpose_it_is_sent_again(slack: Slack, sender: Sender) -> None:
    await sender.send(errand())
    assert (await sender.send(errand(), again=True)).state is SendState.SENT
    assert len(posted(slack)) == 2
    assert (await sender.send(errand())).state is SendState.ALREADY


async def test_other_weeks_destinations_and_subjects_are_other_reports(
    slack: Slack, sender: Sender
) -> None:
    slack.serve(office(dev={}))
    others: list[SentKey] = [
        msgspec.structs.replace(KEY, **change)
        for change in (
            {},
            {"kind": "brief"},
            {"subject": "CDEV"},
            {"days": 8},
            {"start": KEY.start.replace(day=3)},
            {"destination": "CDEV"},
        )
    ]
    for state in (SendState.SENT, SendState.ALREADY):
        for key in others:
            assert (await sender.send(errand(key))).state is state


async def test_of_two_runs_at_once_one_sends(slack: Slack, empty: House) -> None:
    slack.serve(office())
    async with desk(slack) as one, desk(slack) as other:
        outcomes = await asyncio.gather(
            *(of.sender(empty.tables.sent).send(errand()) for of in (one, other))
        )
    assert SendState.SENT in [outcome.state for outcome in outcomes]
    assert len(slack.calls(POST)) == 1


async def test_what_another_run_is_sending_is_left_to_it(
    slack: Slack, empty: House, sender: Sender
) -> None:
    lease = empty.tables.sent.lease(KEY, Wall(slack))
    assert await lease.acquire()
    assert (await sender.send(errand())).state is SendState.BUSY
    assert slack.methods() == []
    await lease.release(columns_of(Sent("CGEN", "1.1", done=int(NOW))))
    assert (await sender.send(errand())).state is SendState.ALREADY


@pytest.mark.parametrize("method", [POST, "files.completeUploadExternal"])
async def test_a_run_that_was_taken_over_posts_nothing_more(
    slack: Slack, empty: House, at: Desk, sender: Sender, method: str
) -> None:
    slack.serve(office(), Fault("rate", "10", method=method))
    other = empty.tables.sent.lease(KEY, Wall(slack))

    async def meanwhile() -> None:
        slack.waits.now += HELD
        assert await other.acquire()

    at.meanwhile = meanwhile
    assert (await sender.send(SendJob(KEY, content(1), PAGE))).state is SendState.BUSY
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
    slack: Slack, empty: House, at: Desk, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    slack.serve(office(), Fault("rate", "10", method=POST))
    renewed = RenewedAtPauses(empty.tables.sent)

    async def away(*_: object) -> bool:
        raise Unavailable("away")

    async def meanwhile() -> None:
        slack.waits.now += HELD
        with monkeypatch.context() as patched:
            patched.setattr(Lease, "renew", away)
            await renewed.pauses.end()
            await asyncio.Event().wait()

    at.meanwhile = meanwhile
    with pytest.raises(Unavailable, match="for too long"):
        await at.sender(renewed).send(errand())
    at.meanwhile = None
    assert (await sender.send(errand())).state is SendState.SENT


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        ("not_in_channel", ChannelRefused, "invite it, or give it the scope chat:write.public"),
        ("channel_not_found", ChannelRefused, "no such channel"),
        ("is_archived", ChannelRefused, "archived"),
        ("missing_scope", MissingScope, "lacks the scope chat:write; it has users:read"),
    ],
)
async def test_a_refused_report_is_not_recorded_as_sent(
    slack: Slack, sender: Sender, code: str, kind: type[SlackError], says: str
) -> None:
    more = {"needed": "chat:write", "provided": "users:read"} if code == "missing_scope" else {}
    slack.serve(office(), Fault("error", code, method=POST, more=more))
    with pytest.raises(kind, match=says) as caught:
        await sender.send(errand())
    assert TOKEN not in str(caught.value)
    assert posted(slack) == []
    assert (await sender.send(errand())).state is SendState.SENT


async def test_slack_is_given_as_long_as_it_wants(slack: Slack, sender: Sender) -> None:
    slack.serve(office(), Fault("rate", "100", method=POST))
    assert (await sender.send(errand())).state is SendState.SENT
    assert slack.waits.now >= 100
    assert len(posted(slack)) == 1


async def test_where_the_answer_was_lost_it_is_said_that_the_message_may_be_there(
    slack: Slack, sender: Sender
) -> None:
    slack.serve(office(), Fault("cut", method=POST))
    with pytest.raises(NoAnswer, match="if the message is there, do not send it again"):
        await sender.send(errand())
    assert len(posted(slack)) == len(slack.calls(POST)) == 1
