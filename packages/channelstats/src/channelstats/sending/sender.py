"""One report on its way to one place.

Rule: a run sends a report only while it holds its lease, which is checked before each post. The row
says before a post which part is tried, and after it that it was posted. A part whose outcome is not
known is searched for in Slack before it is posted again; if the search fails too, this run does not
post it again.
"""

import hashlib
import html
import secrets
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import minute_text
from channelstats.render.slack import MOST_BLOCKS, Content, first_part
from channelstats.render.words import plural
from channelstats.sending.delivery import ATTEMPTS, BACKOFF
from channelstats.slack.errors import CallRefused, NoAnswer, SlackError
from channelstats.slack.rate_limits import Sleep
from channelstats.slack.web_api import Mark, Posted, WebApi
from channelstats.tables.sent_reports import HELD, NOT_DONE, Sent, SentKey, SentReports, columns_of
from keytables import Clock, Unavailable
from keytables.lease import Lease, LeaseLost

_LOOK: Final = 30.0
"""Seconds from one look whether another run has ended to the next."""
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
        api: WebApi,
        sent: SentReports,
        *,
        sleep: Sleep,
        clock: Clock,
        say: Callable[[str], None],
        new_id: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._api, self._sent, self._sleep = api, sent, sleep
        self._clock, self._say, self._new_id = clock, say, new_id

    async def send(self, job: SendJob, *, again: bool = False) -> SendResult:
        """Send a report, unless it was sent already; ``again``: whether or not it was.

        :raises SlackError: not all of it could be posted; another call goes on with the rest
        :raises Unavailable: the same, as the lease could not be renewed
        """
        lease, waited = self._sent.lease(job.key, self._clock), 0.0
        while not await lease.acquire(None if again else NOT_DONE):
            row = await self._sent.get(job.key)
            if row is not None and row.done and not again:
                return SendResult(SendState.ALREADY, row.channel, row.thread, at=row.done)
            if waited >= HELD:
                return SendResult(SendState.BUSY)
            if not waited:
                what = html.unescape(job.content.text)
                self._say(f"{what}: another run is sending this, or died over it; waiting for it")
            await self._sleep(_LOOK)
            waited += _LOOK
        try:
            async with lease:
                row = self._begun(await self._sent.get(job.key), job.content, in_new_thread=again)
                run = _Run(job, row, lease, self._api, self._sleep, self._clock)
                await run.post()
        except LeaseLost:
            if await lease.release():  # nobody else has it
                raise Unavailable("the store could not be written for too long") from None
            return SendResult(SendState.BUSY)
        messages, row = len(run.row.posted) - len(row.posted), run.row
        return SendResult(SendState.SENT, row.channel, row.thread, messages, row.done)

    def _begun(self, row: Sent | None, content: Content, *, in_new_thread: bool) -> Sent:
        """The row of a run that goes on from ``row``: with the same content where it ended; another
        content is a new edition, whole, in the thread of the old one or in a thread of its own.
        """
        digest = hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:_DIGITS]
        if row is None or not row.edition or in_new_thread:
            return Sent(edition=self._new_id(), content=digest)
        if row.content != digest:
            return Sent(self._new_id(), digest, channel=row.channel, thread=row.thread)
        return row


class _Run:
    """Posts the parts of one report. ``row`` is what is stored, or will be at first."""

    def __init__(
        self, job: SendJob, row: Sent, lease: Lease, api: WebApi, sleep: Sleep, clock: Clock
    ) -> None:
        self._job, self.row, self._lease = job, row, lease
        self._api, self._sleep, self._clock = api, sleep, clock

    async def post(self) -> None:
        """Post what is not there yet.

        :raises LeaseLost: another run has taken over
        """
        content, most = self._job.content, MOST_BLOCKS
        while (begin := self.row.blocks) < len(content.blocks):
            part = first_part(content.blocks[begin : begin + most], most)
            message = content.message(part, first=not self.row.thread)
            mark = Mark(self.row.edition, len(self.row.posted) + 1, begin + len(part))
            try:
                posted = await self._part(message, mark)
            except CallRefused as error:
                if error.code not in _TOO_LONG or len(part) == 1:
                    raise
                most = len(part) // 2
                continue
            await self._note(
                channel=posted.channel,
                thread=self.row.thread or posted.ts,
                posted=(*self.row.posted, posted.ts),
                blocks=posted.mark.blocks,
                trying=0,
            )
        if (attached := self._job.attachment) is not None and not self.row.file:
            file = await self._api.upload(
                self.row.channel,
                attached.name,
                attached.title,
                attached.data,
                thread_ts=self.row.thread,
                before=self._lease.confirm,
            )
            await self._note(file=file)
        await self._note(done=int(self._clock()))

    async def _note(self, **changes: object) -> None:
        """Store changes of the row."""
        row = msgspec.structs.replace(self.row, **changes)
        if not await self._lease.renew(columns_of(row)):
            raise LeaseLost
        self.row = row

    async def _part(self, message: dict[str, object], mark: Mark) -> Posted:
        """Post a part, or find it where it was posted already."""
        tried_at = int(self._clock())
        if self.row.trying == mark.part:  # a run before this one came so far
            tried_at = self.row.tried_at
            with suppress(SlackError):  # what cannot be seen has to be posted
                if posted := await self._found(mark):
                    return posted
        await self._note(trying=mark.part, tried_at=tried_at)
        to = self.row.channel or self._job.key.destination
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._api.post(
                    to, message, mark, thread_ts=self.row.thread, before=self._lease.confirm
                )
            except NoAnswer as error:
                if (posted := await self._looked_for(mark, error)) is not None:
                    return posted
                if attempt == ATTEMPTS:  # at each of them it could be seen that it is not there
                    raise
                await self._sleep(BACKOFF.delay(attempt))
            except SlackError:
                await self._note(trying=0)
                raise

    async def _looked_for(self, mark: Mark, error: NoAnswer) -> Posted | None:
        """A part whose answer was lost, if it is there.

        :raises NoAnswer: it cannot be seen whether it is
        """
        try:
            return await self._found(mark)
        except SlackError as blind:
            raise NoAnswer(
                error.method,
                f"no answer: part {mark.part} may be there, which cannot be seen ({blind}); "
                "sending it again may post it twice",
            ) from None

    async def _found(self, mark: Mark) -> Posted | None:
        row = self.row
        to, since = row.channel or self._job.key.destination, max(row.tried_at - _SKEW, 0)
        return await self._api.find(to, mark.edition, mark.part, thread_ts=row.thread, since=since)
