"""One report on its way to one place: a message, and maybe a file in its thread.

Rule: a run posts only while it holds the lease of the report, which is checked just before, and
notes in the row of the lease what was posted. Slack cannot post something only if it is not there
yet: where its answer was lost, an error says that the message may be there, and nothing is noted.
"""

from enum import StrEnum
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import minute_text
from channelstats.render.slack import Content
from channelstats.slack.errors import NoAnswer
from channelstats.slack.web_api import Posted, WebApi
from channelstats.tables.sent_reports import NOT_DONE, Sent, SentKey, SentReports, columns_of
from keytables import Clock, Unavailable
from keytables.lease import Lease, LeaseLost


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
    """``channel`` and ``ts`` are those of the message, where it is known."""

    state: SendState
    channel: str = ""
    ts: str = ""
    at: int = 0

    def text(self, zone: ZoneInfo) -> str:
        """sent; sent already on 2024-03-17 08:00."""
        if self.state is SendState.ALREADY:
            return f"{self.state} on {minute_text(self.at, zone)}"
        return str(self.state)


class Sender:
    """Sends one report after the other."""

    def __init__(self, api: WebApi, sent: SentReports, *, clock: Clock) -> None:
        self._api, self._sent, self._clock = api, sent, clock

    async def send(self, job: SendJob, *, again: bool = False) -> SendResult:
        """Send a report, unless it was sent already; ``again``: whether or not it was.

        :raises SlackError: it could not be posted, or not its file; another call goes on with that
        :raises Unavailable: the lease could not be renewed, or what was posted not be noted
        """
        lease = self._sent.lease(job.key, self._clock)
        if not await lease.acquire(None if again else NOT_DONE):
            row = await self._sent.get(job.key)
            if row is not None and row.done and not again:
                return SendResult(SendState.ALREADY, row.channel, row.ts, row.done)
            return SendResult(SendState.BUSY)
        try:
            async with lease:
                row = (None if again else await self._sent.get(job.key)) or Sent()
                row = await self._posted(job, row, lease)
        except LeaseLost:
            if await lease.release():  # nobody else has it
                raise Unavailable("the store could not be written for too long") from None
            return SendResult(SendState.BUSY)
        return SendResult(SendState.SENT, row.channel, row.ts, row.done)

    async def _posted(self, job: SendJob, row: Sent, lease: Lease) -> Sent:
        """The row once all is there of what is not in ``row``.

        :raises LeaseLost: another run has taken over
        """
        if not row.ts:
            try:
                posted = await self._api.post(
                    job.key.destination, job.content.message, before=lease.confirm
                )
            except NoAnswer as error:
                raise NoAnswer(
                    error.method, f"{error.reason}; if the message is there, do not send it again"
                ) from None
            row = await self._noted(Sent(posted.channel, posted.ts), lease)
        if (file := job.attachment) is not None:
            thread = Posted(row.channel, row.ts)
            await self._api.upload(thread, file.name, file.title, file.data, before=lease.confirm)
        return await self._noted(msgspec.structs.replace(row, done=int(self._clock())), lease)

    async def _noted(self, row: Sent, lease: Lease) -> Sent:
        if not await lease.renew(columns_of(row)):
            raise LeaseLost
        return row
