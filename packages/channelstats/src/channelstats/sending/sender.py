"""One report on its way to one place.

Rule: it is noted before a part is posted that it will be, and after it that it was. What was cut
off in between is looked for in Slack before it is posted again; where it cannot be looked for, this
run does not post it again.
"""

import hashlib
import html
import secrets
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import minute_text
from channelstats.render.slack import MOST_BLOCKS, Content, first_part
from channelstats.render.words import plural
from channelstats.sending.claim import Claim, begun
from channelstats.sending.heartbeat import BEAT, Heartbeat
from channelstats.slack.errors import CallRefused, NoAnswer, SlackError
from channelstats.slack.posting import Mark, Posted, Posting
from channelstats.tables.sent_reports import HELD, NOT_DONE, Sent, SentKey, SentReports
from keytables import Clock
from keytables.lease import LeaseLost

TRIES: Final = 3
"""Tries of a part whose answers are lost, where it can be seen that it is not there."""

_PAUSE: Final = 5.0
_SKEW: Final = 3600
"""Seconds by which this machine's clock and Slack's may differ."""

_TOO_LONG: Final = frozenset({"msg_blocks_too_long", "msg_too_long"})
_DIGITS: Final = 16


class Attachment(msgspec.Struct, frozen=True):
    """A file that goes into the thread of a report."""

    name: str
    title: str
    data: bytes


class SendJob(msgspec.Struct, frozen=True):
    """A report, and where it goes."""

    key: SentKey
    content: Content
    attachment: Attachment | None = None


class SendState(StrEnum):
    SENT = "sent"
    ALREADY = "sent already"
    BUSY = "being sent by another run"


class SendResult(msgspec.Struct, frozen=True):
    """``messages`` were posted by this run. ``channel`` and ``thread`` are those of the first
    message, where it is there.
    """

    state: SendState
    channel: str = ""
    thread: str = ""
    messages: int = 0
    at: int = 0

    def text(self, zone: ZoneInfo) -> str:
        """sent, 3 messages; sent already on 2024-03-17 08:00."""
        if self.state is SendState.SENT:
            return f"sent, {self.messages:,} {plural(self.messages, 'message')}"
        if self.state is SendState.ALREADY:
            return f"sent already on {minute_text(self.at, zone)}"
        return str(self.state)


class Sender:
    """Sends one report after the other. ``new_id`` makes names that no other run has."""

    def __init__(
        self,
        posting: Posting,
        sent: SentReports,
        heartbeat: Heartbeat,
        *,
        clock: Clock,
        say: Callable[[str], None],
        new_id: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._posting, self._sent, self._heartbeat = posting, sent, heartbeat
        self._clock, self._say, self._new_id = clock, say, new_id

    async def send(self, job: SendJob, *, again: bool = False) -> SendResult:
        """Send a report, unless it was sent already; ``again``: whether or not it was.

        :raises SlackError: not all of it could be posted; another call goes on with the rest
        """
        found = await self._claim(job, again=again)
        if isinstance(found, SendResult):
            return found
        claim, before = found, len(found.row.posted)
        self._heartbeat.keep = claim.keep
        try:
            await self._post(job, claim)
            await claim.release(done=True)
        except LeaseLost:
            return SendResult(SendState.BUSY)
        except BaseException:
            with suppress(LeaseLost):
                await claim.release()
            raise
        finally:
            self._heartbeat.keep = None
        row = claim.row
        return SendResult(
            SendState.SENT, row.channel, row.thread, len(row.posted) - before, row.done
        )

    # ── the right to send ────────────────────────────────────────────────────────────────────────

    async def _claim(self, job: SendJob, *, again: bool) -> Claim | SendResult:
        content = hashlib.sha256(msgspec.json.encode(job.content)).hexdigest()[:_DIGITS]
        lease, waited = self._sent.lease(job.key, self._clock), 0.0
        while True:
            if await lease.acquire(None if again else NOT_DONE):
                row = await self._sent.get(job.key)
                taken = begun(row, content, self._new_id(), in_new_thread=again)
                return Claim(lease, taken, self._clock)
            row = await self._sent.get(job.key)
            if row is not None and row.done and not again:
                return SendResult(SendState.ALREADY, row.channel, row.thread, at=row.done)
            if waited >= HELD:
                return SendResult(SendState.BUSY)
            if not waited:
                what = html.unescape(job.content.text)
                self._say(f"{what}: another run is sending this, or died over it; waiting for it")
            await self._heartbeat.sleep(BEAT)
            waited += BEAT

    # ── parts ────────────────────────────────────────────────────────────────────────────────────

    async def _post(self, job: SendJob, claim: Claim) -> None:
        blocks, most = job.content.blocks, MOST_BLOCKS
        while (begin := claim.row.blocks) < len(blocks):
            part = first_part(blocks[begin : begin + most], most)
            message = job.content.message(part, first=not claim.row.thread)
            mark = Mark(claim.row.edition, len(claim.row.posted) + 1, begin + len(part))
            try:
                posted = await self._part(job.key.destination, message, mark, claim)
            except CallRefused as error:
                if error.code not in _TOO_LONG or len(part) == 1:
                    raise
                most = len(part) // 2
                continue
            await claim.note(partial(_with, posted=posted))
        if job.attachment is not None and not claim.row.file:
            await self._attach(job.attachment, claim)

    async def _part(
        self, destination: str, message: dict[str, object], mark: Mark, claim: Claim
    ) -> Posted:
        """Post a part, or find it where it was posted already."""
        if claim.row.trying == mark.part:  # a run before this one came so far
            with suppress(SlackError):  # what cannot be seen has to be posted
                if posted := await self._found(destination, mark, claim.row):
                    return posted
        now = int(self._clock())
        await claim.note(
            lambda row: msgspec.structs.replace(
                row, trying=mark.part, tried_at=row.tried_at if row.trying == mark.part else now
            )
        )
        to, thread, left = claim.row.channel or destination, claim.row.thread, TRIES
        while True:
            try:
                return await self._posting.post(to, message, mark, thread_ts=thread)
            except NoAnswer as error:
                posted = await self._looked_for(destination, mark, claim.row, error)
                left -= 1
                if posted is not None:
                    return posted
                if not left:
                    raise
                await self._heartbeat.sleep(_PAUSE)
            except SlackError:
                await claim.note(lambda row: msgspec.structs.replace(row, trying=0))
                raise

    async def _looked_for(
        self, destination: str, mark: Mark, row: Sent, error: NoAnswer
    ) -> Posted | None:
        """A part whose answer was lost, if it is there.

        :raises NoAnswer: it cannot be seen whether it is
        """
        try:
            return await self._found(destination, mark, row)
        except SlackError as blind:
            raise NoAnswer(
                error.method,
                f"no answer: part {mark.part} may be there, which cannot be seen ({blind}); "
                "sending it again may post it twice",
            ) from None

    async def _found(self, destination: str, mark: Mark, row: Sent) -> Posted | None:
        return await self._posting.find(
            row.channel or destination,
            mark.edition,
            mark.part,
            thread_ts=row.thread,
            since=max(row.tried_at - _SKEW, 0),
        )

    async def _attach(self, attachment: Attachment, claim: Claim) -> None:
        row = claim.row
        file = await self._posting.upload(
            row.channel, attachment.name, attachment.title, attachment.data, thread_ts=row.thread
        )
        await claim.note(lambda row: msgspec.structs.replace(row, file=file))


def _with(row: Sent, posted: Posted) -> Sent:
    """The row with one part more."""
    return msgspec.structs.replace(
        row,
        channel=posted.channel,
        thread=row.thread or posted.ts,
        posted=(*row.posted, posted.ts),
        blocks=posted.mark.blocks,
        trying=0,
    )
