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


class SendState(StrEnum):
    SENT = "sent"
    ALREADY = "sent already"
    BUSY = "being sent by another run"


class SendResult(msgspec.Struct, frozen=True):
    """``row`` is where the message is, and when it was done; empty while another run sends it."""

    state: SendState
    row: Sent = Sent()

    def text(self, zone: ZoneInfo) -> str:
        """sent; sent already on 2024-03-17 08:00."""
        if self.state is SendState.ALREADY:
            return f"{self.state} on {minute_text(self.row.done, zone)}"
        return str(self.state)


class Sender:
    """Sends one report after the other."""

    def __init__(self, api: WebApi, sent: SentReports, *, clock: Clock) -> None:
        self._api, self._sent, self._clock = api, sent, clock

    async def send(
        self,
        key: SentKey,
        content: Content,
        attachment: Attachment | None = None,
        *,
        again: bool = False,
    ) -> SendResult:
        """Send a report, unless it was sent already; ``again``: whether or not it was.

        :raises SlackError: it could not be posted, or not its file; another call goes on with that
        :raises Unavailable: the lease could not be renewed, or what was posted not be noted
        """
        lease = self._sent.lease(key, self._clock)
        if not await lease.acquire(None if again else NOT_DONE):
            row = await self._sent.get(key)
            if row is not None and row.done and not again:
                return SendResult(SendState.ALREADY, row)
            return SendResult(SendState.BUSY)
        try:
            async with lease:
                row = (None if again else await self._sent.get(key)) or Sent()
                if not row.ts:
                    row = await self._note(await self._post(key, content, lease), lease)
                if attachment is not None:
                    thread, file = Posted(row.channel, row.ts), attachment
                    await self._api.upload(
                        thread, file.name, file.title, file.data, before=lease.confirm
                    )
                done = int(self._clock())
                row = await self._note(msgspec.structs.replace(row, done=done), lease)
        except LeaseLost:
            if await lease.release():  # nobody else has it
                raise Unavailable("the store could not be written for too long") from None
            return SendResult(SendState.BUSY)
        return SendResult(SendState.SENT, row)

    async def _post(self, key: SentKey, content: Content, lease: Lease) -> Sent:
        """:raises LeaseLost: another run has taken over"""
        try:
            posted = await self._api.post(key.destination, content.message, before=lease.confirm)
        except NoAnswer as error:
            raise NoAnswer(
                error.method, f"{error.reason}; if the message is there, do not send it again"
            ) from None
        return Sent(posted.channel, posted.ts)

    async def _note(self, row: Sent, lease: Lease) -> Sent:
        """:raises LeaseLost: another run has taken over"""
        if not await lease.renew(columns_of(row)):
            raise LeaseLost
        return row
