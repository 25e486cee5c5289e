"""A report is posted once, whole, in order, in one thread: whatever happens on the way."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from channelstats.sending.sender import Attachment, Sender, SendJob, SendResult, SendState
from channelstats.slack.errors import ChannelRefused, MissingScope, NoAnswer, SlackError
from channelstats.tables.sent_reports import HELD, Sent, SentKey, SentReports, columns_of
from keytables import Clock, Condition, Unavailable, Values
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
from support.clocks import ManualClock, Pauses

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


def whole(slack: Slack, of: SendJob, cid: str = "CGEN") -> None:
    """Every block is there once and in order, all messages in one thread."""
    messages = posted(slack, cid)
    assert blocks_in(messages) == of.content.blocks
    assert [raw.get("thread_ts") for raw in messages] == [
        None,
        *[messages[0]["ts"]] * (len(messages) - 1),
    ]


class RenewedAtPauses(SentReports):
    """The rows; their leases are renewed when the test ends a pause."""

    def __init__(self, sent: SentReports) -> None:
        super().__init__(sent._table)
        self.pauses = Pauses()

    def lease(self, key: SentKey, clock: Clock) -> Lease:
        return Lease(self._table, (str(key),), clock, seconds=HELD, pause=self.pauses)


# ── parts ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_long_report_is_a_message_and_answers_to_it(slack: Slack, sender: Sender) -> None:
    outcome = await sender.send(errand(120))
    whole(slack, errand(120))
    messages = posted(slack)
    assert [len(raw["blocks"]) for raw in messages] == [50, 50, 20]
    assert outcome == SendResult(SendState.SENT, "CGEN", messages[0]["ts"], 3, outcome.at)
    assert outcome.at >= NOW
    texts = [asked["text"] for asked in slack.calls(POST)]
    assert texts == ["A report", "A report, continued", "A report, continued"]


async def test_nothing_is_unfurled_or_linked_anew(slack: Slack, sender: Sender) -> None:
    await sender.send(errand(1))
    [asked] = slack.calls(POST)
    assert (asked["unfurl_links"], asked["unfurl_media"]) == (False, False)
    assert "parse" not in asked
    assert "link_names" not in asked


async def test_a_message_that_slack_finds_too_long_is_cut_again(
    slack: Slack, sender: Sender
) -> None:
    slack.serve(office(), longest=350)
    await sender.send(errand(20, 100))
    whole(slack, errand(20, 100))
    assert max(len(raw["blocks"]) for raw in posted(slack)) == 2


async def test_a_block_that_slack_finds_too_long_by_itself_is_an_error(
    slack: Slack, sender: Sender
) -> None:
    slack.serve(office(), longest=99)
    with pytest.raises(SlackError, match="msg_blocks_too_long"):
        await sender.send(errand(3, 100))
    assert posted(slack) == []


async def test_slack_is_given_as_long_as_it_wants(slack: Slack, empty: House, at: Desk) -> None:
    slack.serve(office(), Fault("rate", "1000", method=POST, after=1))
    renewed = RenewedAtPauses(empty.tables.sent)
    held: list[float] = []

    async def meanwhile() -> None:
        until = (await empty.items("Configuration"))[str(KEY)]["held_until"]
        assert isinstance(until, int)
        held.append(until - NOW - slack.waits.now)
        await renewed.pauses.go_on()

    at.meanwhile = meanwhile
    await at.sender(renewed).send(errand(120))
    whole(slack, errand(120))
    assert slack.waits.now >= 1000
    assert len(slack.calls(POST)) == 4
    assert min(held) > 0  # nobody could have taken over


async def test_messages_are_a_second_apart(slack: Slack, sender: Sender) -> None:
    await sender.send(errand(150))
    assert slack.waits.slept == [1.0, 1.0]


async def test_what_goes_to_a_person_stays_in_their_direct_messages(
    slack: Slack, sender: Sender
) -> None:
    of = errand(120, key=TO_ALICE)
    outcome = await sender.send(of)
    assert outcome.channel == "DALICE"
    whole(slack, of, "DALICE")
    assert [asked["channel"] for asked in slack.calls(POST)] == ["UALICE", "DALICE", "DALICE"]


async def test_a_file_goes_into_the_thread_and_its_address_gets_no_token(
    slack: Slack, sender: Sender
) -> None:
    of = SendJob(KEY, content(60), PAGE)
    outcome = await sender.send(of)
    [file] = slack.told()["files"].values()
    assert file["text"] == "<html>it</html>"
    assert (file["channel"], file["thread_ts"]) == ("CGEN", outcome.thread)
    assert slack.calls("upload") == [{"file": "F1", "length": len(PAGE.data), "token": False}]


# ── once ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_second_run_sends_nothing(slack: Slack, sender: Sender) -> None:
    first = await sender.send(errand())
    calls = len(slack.methods())
    second = await sender.send(errand())
    assert second.state is SendState.ALREADY
    assert (second.channel, second.thread, second.at) == (first.channel, first.thread, first.at)
    assert len(slack.methods()) == calls


async def test_on_purpose_it_is_sent_again_in_a_thread_of_its_own(
    slack: Slack, sender: Sender
) -> None:
    await sender.send(errand(60))
    outcome = await sender.send(errand(60), again=True)
    assert (outcome.state, outcome.messages) == (SendState.SENT, 2)
    assert [raw.get("thread_ts") for raw in posted(slack)][2:] == [None, outcome.thread]
    assert (await sender.send(errand(60))).state is SendState.ALREADY


async def test_other_weeks_destinations_and_subjects_are_other_reports(
    slack: Slack, sender: Sender
) -> None:
    slack.serve(office(dev={}))
    others = [
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
    for key in others:
        assert (await sender.send(errand(1, key=key))).state is SendState.SENT
    for key in others:
        assert (await sender.send(errand(1, key=key))).state is SendState.ALREADY


async def test_of_two_runs_at_once_one_sends(slack: Slack, empty: House) -> None:
    slack.serve(office())
    async with desk(slack) as one, desk(slack) as other:
        outcomes = await asyncio.gather(
            *(of.sender(empty.tables.sent).send(errand(10)) for of in (one, other))
        )
    assert SendState.SENT in [outcome.state for outcome in outcomes]
    assert blocks_in(posted(slack)) == errand(10).content.blocks
    assert len(slack.calls(POST)) == 1


async def test_what_another_run_keeps_alive_is_left_to_it(
    slack: Slack, empty: House, at: Desk, sender: Sender
) -> None:
    sent = empty.tables.sent
    lease = sent.lease(KEY, Wall(slack))
    assert await lease.acquire()

    async def meanwhile() -> None:
        assert await lease.renew()

    at.meanwhile = meanwhile
    assert (await sender.send(errand())).state is SendState.BUSY
    assert slack.methods() == []
    assert at.said == ["A report: another run is sending this, or died over it; waiting for it"]


async def test_what_another_run_finishes_meanwhile_is_sent_already(
    slack: Slack, empty: House, at: Desk, sender: Sender
) -> None:
    sent = empty.tables.sent
    lease = sent.lease(KEY, Wall(slack))
    assert await lease.acquire()

    async def meanwhile() -> None:
        await lease.release(columns_of(Sent("e", "c", done=int(NOW))))

    at.meanwhile = meanwhile
    assert (await sender.send(errand())).state is SendState.ALREADY
    assert slack.methods() == []


async def test_a_run_that_was_taken_over_posts_nothing_more(
    slack: Slack, empty: House, at: Desk, sender: Sender
) -> None:
    slack.serve(office(), Fault("rate", "10", method=POST, after=1))
    sent = empty.tables.sent
    other = sent.lease(KEY, Wall(slack))

    async def meanwhile() -> None:
        slack.waits.now += HELD
        assert await other.acquire()

    at.meanwhile = meanwhile
    assert (await sender.send(errand(120))).state is SendState.BUSY
    assert len(posted(slack)) == 1
    assert await other.renew()


async def test_a_run_that_was_taken_over_attaches_no_file(
    slack: Slack, empty: House, at: Desk, sender: Sender
) -> None:
    method = "files.completeUploadExternal"
    slack.serve(office(), Fault("rate", "10", method=method))
    other = empty.tables.sent.lease(KEY, Wall(slack))

    async def meanwhile() -> None:
        slack.waits.now += HELD
        assert await other.acquire()

    at.meanwhile = meanwhile
    outcome = await sender.send(SendJob(KEY, content(1), PAGE))
    assert outcome.state is SendState.BUSY
    assert slack.methods().count(method) == 1


async def test_a_run_that_was_taken_over_does_not_wait_for_slack_any_longer(
    slack: Slack, empty: House, at: Desk
) -> None:
    slack.serve(office(), Fault("rate", "10", method=POST, after=1))
    renewed = RenewedAtPauses(empty.tables.sent)
    other = empty.tables.sent.lease(KEY, Wall(slack))

    async def meanwhile() -> None:
        slack.waits.now += HELD
        assert await other.acquire()
        await renewed.pauses.end()
        await asyncio.Event().wait()

    at.meanwhile = meanwhile
    assert (await at.sender(renewed).send(errand(120))).state is SendState.BUSY
    assert len(posted(slack)) == 1
    assert await other.renew()


async def test_a_store_that_was_away_for_too_long_is_no_other_run(
    slack: Slack, empty: House, at: Desk, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    slack.serve(office(), Fault("rate", "10", method=POST, after=1))
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
        await at.sender(renewed).send(errand(120))
    at.meanwhile = None
    assert (await sender.send(errand(120))).state is SendState.SENT
    whole(slack, errand(120))


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
        await sender.send(errand(1))
    assert TOKEN not in str(caught.value)
    assert posted(slack) == []
    assert (await sender.send(errand(1))).state is SendState.SENT
    assert slack.methods().count("conversations.history") == 0  # a refusal is no doubt


async def test_a_report_that_failed_goes_on_with_the_next_part(
    slack: Slack, sender: Sender
) -> None:
    slack.serve(office(), Fault("error", "is_archived", method=POST, after=1))
    with pytest.raises(ChannelRefused):
        await sender.send(errand(120))
    assert len(posted(slack)) == 1
    outcome = await sender.send(errand(120))
    assert (outcome.state, outcome.messages) == (SendState.SENT, 2)
    assert outcome.thread == posted(slack)[0]["ts"]
    whole(slack, errand(120))


async def test_a_report_that_says_something_else_by_then_is_sent_whole_in_the_same_thread(
    slack: Slack, sender: Sender
) -> None:
    slack.serve(office(), Fault("error", "is_archived", method=POST, after=1))
    with pytest.raises(ChannelRefused):
        await sender.send(errand(60))
    other = SendJob(KEY, content(70, 12))
    outcome = await sender.send(other)
    messages = posted(slack)
    assert blocks_in(messages[1:]) == other.content.blocks
    assert {raw["thread_ts"] for raw in messages[1:]} == {messages[0]["ts"]}
    assert outcome.thread == messages[0]["ts"]


@pytest.mark.parametrize("do", ["cut", "drop"])
@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("key", [KEY, TO_ALICE], ids=["channel", "person"])
async def test_a_lost_answer_makes_nobody_read_anything_twice(
    slack: Slack, sender: Sender, do: str, after: int, key: SentKey
) -> None:
    slack.serve(office(), Fault(do, method=POST, after=after))
    of = errand(120, key=key)
    outcome = await sender.send(of)
    assert outcome.state is SendState.SENT
    whole(slack, of, outcome.channel)
    assert len(slack.calls(POST)) == (4 if do == "drop" else 3)


async def test_where_it_cannot_be_seen_what_arrived_this_run_does_not_post_it_again(
    slack: Slack, sender: Sender
) -> None:
    more = {"needed": "channels:history"}
    slack.serve(
        office(),
        Fault("cut", method=POST),
        Fault("error", "missing_scope", method="conversations.history", times=-1, more=more),
    )
    with pytest.raises(NoAnswer, match="part 1 may be there, which cannot be seen") as caught:
        await sender.send(errand(1))
    assert "channels:history" in str(caught.value)
    assert len(posted(slack)) == 1
    assert (await sender.send(errand(1))).state is SendState.SENT
    assert len(posted(slack)) == 2  # what the manual warns of


async def test_slack_that_cannot_be_reached_has_done_nothing(empty: House) -> None:
    nowhere = Slack("http://127.0.0.1:1")
    async with desk(nowhere) as opened:
        with pytest.raises(NoAnswer, match="6 times"):
            await opened.sender(empty.tables.sent).send(errand(1))
    row = await empty.tables.sent.get(KEY)
    assert row is not None
    assert (row.done, row.posted) == (0, ())
    assert await empty.tables.sent.lease(KEY, ManualClock(NOW)).acquire()


async def test_a_file_that_failed_goes_by_itself_the_next_time(
    slack: Slack, sender: Sender
) -> None:
    slack.serve(office(), Fault("error", "missing_scope", method="files.getUploadURLExternal"))
    of = SendJob(KEY, content(60), PAGE)
    with pytest.raises(MissingScope):
        await sender.send(of)
    assert (await sender.send(of)).state is SendState.SENT
    whole(slack, of)
    assert len(slack.told()["files"]) == 1


# ── death ────────────────────────────────────────────────────────────────────────────────────────


class Killed(BaseException):
    """The process is no more."""


class MortalLease(Lease):
    """Of a process that dies at its n-th write: before it, or just after."""

    left, written = 0, False

    async def acquire(self, also: Condition | None = None, values: Values | None = None) -> bool:
        is_held = await super().acquire(also, values)
        self.left -= is_held
        return is_held

    async def renew(self, noted: Values | None = None) -> bool:
        return await self._while_alive(super().renew, noted)

    async def release(self, noted: Values | None = None) -> bool:
        return await self._while_alive(super().release, noted)

    async def _while_alive(
        self, write: Callable[[Values | None], Awaitable[bool]], noted: Values | None
    ) -> bool:
        is_held = True
        if self.left > 0 or (self.left == 0 and self.written):
            is_held = await write(noted)
        self.left -= 1
        if self.left < 0:
            raise Killed
        return is_held


class Mortal(SentReports):
    """The rows, for a process that dies."""

    def __init__(self, sent: SentReports, life: int, *, written: bool) -> None:
        super().__init__(sent._table)
        self._life, self._written = life, written

    def lease(self, key: SentKey, clock: Clock) -> Lease:
        lease = MortalLease(self._table, (str(key),), clock, seconds=HELD)
        lease.left, lease.written = self._life, self._written
        return lease


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("life", range(1, 9))
async def test_a_run_that_dies_anywhere_is_taken_up_and_nothing_is_there_twice(
    slack: Slack, empty: House, life: int, written: bool
) -> None:
    slack.serve(office())
    of = errand(120)
    async with desk(slack) as dying:
        mortal = Mortal(empty.tables.sent, life, written=written)
        with pytest.raises(Killed):
            await dying.sender(mortal).send(of)
    async with desk(slack) as next_one:
        outcome = await next_one.sender(empty.tables.sent).send(of)
    assert outcome.state is (SendState.ALREADY if (life, written) >= (7, True) else SendState.SENT)
    whole(slack, of)
    assert len(posted(slack)) == 3


async def test_the_test_above_dies_at_every_write(empty: House, at: Desk) -> None:
    mortal = Mortal(empty.tables.sent, 9, written=True)
    outcome = await at.sender(mortal).send(errand(120))
    assert outcome.state is SendState.SENT


TROUBLES = [("cut", ""), ("drop", ""), ("rate", "40"), ("status", "503"), ("error", "fatal_error")]


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_comes_together_it_is_there_once_in_the_end(
    slack: Slack, empty: House, seed: int
) -> None:
    chance = random.Random(seed)
    faults = [
        Fault(*chance.choice(TROUBLES), method=POST, after=chance.randrange(4)) for _ in range(4)
    ]
    reading = ("conversations.history", "conversations.replies", "conversations.open")
    faults += [
        Fault(*chance.choice(TROUBLES), method=chance.choice(reading), after=chance.randrange(2))
        for _ in range(4)
    ]
    key = chance.choice([KEY, TO_ALICE])
    slack.serve(office(), *faults, longest=chance.choice([13_000, 300]))
    of, outcome = errand(120, key=key), SendResult(SendState.BUSY)
    for _ in range(20):
        life, written = chance.randrange(1, 12), chance.random() < 0.5
        async with desk(slack) as at:
            mortal = Mortal(empty.tables.sent, life, written=written)
            try:
                outcome = await at.sender(mortal).send(of)
            except (Killed, SlackError):
                continue
        if outcome.state is not SendState.BUSY:
            break
    assert outcome.state in (SendState.SENT, SendState.ALREADY)
    whole(slack, of, outcome.channel)
