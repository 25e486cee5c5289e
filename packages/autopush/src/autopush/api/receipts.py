"""Receipts: the outcome of a message, for its sender (RFC 8030 sections 5.1, 6.2 and 6.3).

    POST /wpush/…   with `Prefer: respond-async`: 202, and a link to a receipt subscription
    GET /r/{token}  the receipts of a subscription; with `Prefer: wait=N` as soon as there is a new
                    one, with `Accept: text/event-stream` each as an event
    GET /m/{id}     the state of one message

Anyone who has the URL of a subscription or the id of a message may ask, as anyone may delete a
message by its id. The standard answers with HTTP/2 server push, which no client has any more.

An outcome is known at once in the process that wrote it, and after `POLL_INTERVAL` in others.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final, cast

from autopush.api import responses
from autopush.api.browsers import OwnOrigins
from autopush.api.event_stream import EventStream
from autopush.api.receipt_polls import POLL_INTERVAL, Document, Poll, Polls, Snapshot
from autopush.clock import Clock
from autopush.delivery.calls import Outcome
from autopush.limits import LimitRefusals, TokenBuckets
from autopush.net.client_limits import ConnectionLimits, ConnectionRefused
from autopush.net.http_messages import Answer, Request, Response, Upgrade
from autopush.settings.value_types import Rate
from autopush.store import PushStore
from autopush.store.receipts import GRACE, MAX_MESSAGES, Receipt, Receipts, ReceiptStatus
from autopush.telemetry import logs
from autopush.webpush.errors import Errno, Header, PushError
from autopush.webpush.identifiers import microseconds_of
from autopush.webpush.tokens import (
    Endpoint,
    EndpointTokens,
    MessageId,
    ReceiptSubscription,
    invalid_message_id,
    parse_message_id,
)
from autopush.webpush.vapid import Credentials
from keytables import KeytablesError

RELATION: Final = "urn:ietf:params:push:receipt"
LONGEST_WAIT: Final = 60.0
"""Seconds that a request may wait."""
LONGEST_STREAM: Final = 3600.0
"""Seconds after which a client of a stream has to connect again."""
KEEPALIVE_INTERVAL: Final = 15.0
MAX_WAITING: Final = 1000
"""Requests and streams that wait in one worker."""
MAX_WAITING_OF_ADDRESS: Final = 250
TOO_MANY_WAIT: Final = "Too many requests wait"
READ_RATE: Final = Rate(1200, "min")
"""Requests for a subscription from one client address: each reads up to `MAX_MESSAGES` messages."""

EVENT_STREAM: Final = "text/event-stream"
MAX_MEMBERS: Final = 32
"""Members of a header that are read: preferences, links."""

_log: Final = logs.get(__name__)


def preferences(text: str | None) -> dict[str, str]:
    """The first members of a Prefer header, RFC 7240; parameters are ignored."""
    values: dict[str, str] = {}
    for member in (text or "").split(",", MAX_MEMBERS)[:MAX_MEMBERS]:
        name, _, value = member.partition(";")[0].partition("=")
        values.setdefault(name.strip().lower(), value.strip().strip('"'))
    return values


@dataclass(eq=False)
class ReceiptHandler:
    """`is_offered`: whether application servers get receipts; the state of a message is known all
    the same, as far as it is stored. `senders`: limits the messages with a receipt.
    """

    store: PushStore
    tokens: EndpointTokens
    clock: Clock
    refusals: LimitRefusals
    connection_limits: ConnectionLimits
    _: KW_ONLY
    is_offered: bool = True
    max_waiting: int = MAX_WAITING
    poll_interval: float = POLL_INTERVAL

    def __post_init__(self) -> None:
        self._origins = OwnOrigins(self.tokens.endpoint_url)
        self._receipts = self.store.receipts
        self._polls: Polls | None = None
        if self._receipts is not None and self.is_offered:
            self._polls = Polls(self._receipts, self._documents, self.poll_interval)
        self._waiting = Counter[str]()
        """By client address."""
        self._readers = TokenBuckets(READ_RATE)
        self.senders = TokenBuckets()
        self._streams: set[EventStream] = set()

    # ── for a push ───────────────────────────────────────────────────────────────────────────────

    async def requested(
        self, headers: Mapping[str, str], endpoint: Endpoint, credentials: Credentials | None
    ) -> ReceiptSubscription | None:
        """The subscription for the receipt of a push: the one it names, if its sender may use it
        and it has room, else a new one. None if it gets no receipt.
        """
        if self._polls is None or "respond-async" not in preferences(headers.get("prefer")):
            return None
        # Who knows an anonymous sender's subscription adds to it only by its endpoint.
        sender = endpoint.ids if credentials is None else credentials.point()
        if self.senders.wait_for_token(sender):
            self.refusals.add("receipt_rate")
            return None
        named = _subscription_named(headers)
        with suppress(ValueError):
            known = ReceiptSubscription.of_token(self.tokens.ring, named)
            is_own = known.sender == ReceiptSubscription.sender_of(sender)
            if is_own and len(await self._polls.receipts.of_subscription(known.id)) < MAX_MESSAGES:
                return known
        return ReceiptSubscription.new(sender)

    async def accepted(
        self,
        subscription: ReceiptSubscription,
        message: MessageId,
        received: int,
        ttl: int,
        result: Outcome,
        *,
        is_bridged: bool,
    ) -> tuple[Header, ...]:
        """Note that a message was taken; returns the headers of its 202, none if that failed: the
        message is taken nevertheless. `received`: epoch milliseconds; `ttl`: seconds.
        """
        state = "stored" if ttl else ""
        if is_bridged:
            state = "accepted"
        elif result is Outcome.DISCARDED:
            state = "expired"
        try:
            await cast(Receipts, self._receipts).record_accepted(message, received, ttl, state)
        except KeytablesError as error:
            _log.warning("No receipt: it could not be stored", error=type(error).__name__)
            return ()
        url = f"{self.tokens.endpoint_url}/r/{subscription.token(self.tokens.ring)}"
        return (("Link", f'<{url}>; rel="{RELATION}"'), ("Preference-Applied", "respond-async"))

    # ── the state of one message ─────────────────────────────────────────────────────────────────

    async def state_of(self, text: str) -> Response:
        """:raises PushError: 400/102, not a message id of this service; 503, the store failed"""
        try:
            message = parse_message_id(self.tokens.ring, text)
        except ValueError:
            raise invalid_message_id(text) from None
        try:
            document = await self.state(message)
        except KeytablesError as error:
            raise responses.storage_refusal(error) from error
        return responses.json(200, document)

    async def state(self, message: MessageId) -> Document:
        if message.receipt and self._receipts is not None:
            receipt = await self._receipts.find(message)
            if receipt is not None:
                return await self._settled(receipt, set(), check=True)
        stored = await self.store.find(message)
        if stored is None:
            return {"state": "unknown"}
        is_expired = stored.expired(self.clock())
        received = stored.timestamp * 1000
        if message.sort_time is not None:
            received = microseconds_of(message.sort_time) // 1000
        return {"state": "expired" if is_expired else "stored", "times": {"received": received}}

    async def _settled(self, receipt: Receipt, gone: set[str], *, check: bool) -> Document:
        """`gone`: versions of messages that will not be delivered; with `check` it may grow."""
        now = self.clock()
        outcome = receipt.outcome(now)
        if outcome is ReceiptStatus.PENDING:
            # Later it has expired in its table, but may be on its way.
            is_kept = "stored" in receipt.times and now < receipt.deadline - GRACE
            if check and is_kept and receipt.version not in gone:
                message = parse_message_id(self.tokens.ring, receipt.version)
                if await self.store.is_deleted(message):
                    gone.add(receipt.version)
                    # It may have been acked and deleted since its receipt was read.
                    receipt = await cast(Receipts, self._receipts).find(message) or receipt
                    outcome = receipt.outcome(now)
                await asyncio.sleep(0)  # a store that does not suspend would hold the loop
            if outcome is ReceiptStatus.PENDING and receipt.version in gone:
                outcome = ReceiptStatus.GONE
        return self._document(receipt, outcome)

    def _document(self, receipt: Receipt, outcome: ReceiptStatus) -> Document:
        state = receipt.state
        if outcome is ReceiptStatus.DELIVERED and state != "errored":
            state = "delivered"
        elif outcome is ReceiptStatus.GONE:
            state = "expired"
        document: Document = {
            "message": f"{self.tokens.endpoint_url}/m/{receipt.version}",
            "status": int(outcome),
            "state": state,
            "times": dict(receipt.times),
        }
        if receipt.code is not None:
            document["code"] = receipt.code
        return document

    # ── the receipts of a subscription ───────────────────────────────────────────────────────────

    async def __call__(self, request: Request, token: str) -> Answer:
        """:raises PushError: 404/102, no such subscription; 429/203, too many requests, or too many
        that wait; 503, the store failed
        """
        polls = self._polls
        from_page = self._origins.is_foreign(request)
        key = self.connection_limits.key(request.client_address, from_page=from_page)
        try:
            if polls is None:
                raise ValueError("no receipts here")
            if wait := self._readers.wait_for_token(key):
                raise self._too_many("receipt_reads", key, "Too many requests", wait)
            subscription = ReceiptSubscription.of_token(self.tokens.ring, token)
            snapshot = await polls.read(subscription.id)
            if not snapshot.documents:
                raise ValueError("all have expired")
        except ValueError:
            raise PushError.invalid(
                Errno.INVALID_ENDPOINT,
                f"No such receipt subscription: {len(token)} characters, not those of a URL that "
                "this service gave, or all of its receipts have expired",
                status=404,
            ) from None
        except KeytablesError as error:
            raise responses.storage_refusal(error) from error
        if EVENT_STREAM in request.headers.get("accept", ""):
            self._check_waiting(key)
            joined = self._joined(key, polls, subscription.id, snapshot)
            return Upgrade(
                (("Content-Type", EVENT_STREAM), ("Cache-Control", "no-store")),
                partial(self._stream, joined),
                status=200,
            )
        preferred = preferences(request.headers.get("prefer")).get("wait", "")
        known = request.headers.get("if-none-match")
        is_number = preferred.isascii() and preferred.isdigit()
        seconds = min(float(preferred[:9]), LONGEST_WAIT) if is_number else 0.0
        if seconds and not snapshot.has_news(known):
            with self._joined(key, polls, subscription.id, snapshot) as poll:
                await self._wait(poll, known, seconds)
                snapshot = poll.snapshot
        if known == snapshot.etag:
            return Response(304, headers=(("ETag", snapshot.etag),))
        headers = (("ETag", snapshot.etag), ("Cache-Control", "no-store"))
        return Response(200, snapshot.body, headers, "application/json")

    async def _wait(self, poll: Poll, known: str | None, seconds: float) -> None:
        """Until there are outcomes that the client does not know."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while not poll.snapshot.has_news(known) and not self._is_ending:
            if (left := until - loop.time()) <= 0:
                return
            await poll.news(left)

    @property
    def _is_ending(self) -> bool:
        return self._receipts is None or self._receipts.is_closed

    @contextmanager
    def _joined(
        self, key: str, polls: Polls, identifier: str, snapshot: Snapshot
    ) -> Iterator[Poll]:
        """:raises PushError: 429/203, too many wait"""
        self._check_waiting(key)
        polls.receipts.waiting += 1
        self._waiting[key] += 1
        try:
            with polls.joined(identifier, snapshot) as poll:
                yield poll
        finally:
            polls.receipts.waiting -= 1
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]

    def _check_waiting(self, key: str) -> None:
        waiting = 0 if self._receipts is None else self._receipts.waiting
        of_address = self._waiting[key] if key else 0
        if waiting >= self.max_waiting or of_address >= MAX_WAITING_OF_ADDRESS:
            raise self._too_many("receipt_waits", key, TOO_MANY_WAIT, 10)

    def _too_many(self, limit: str, key: str, what: str, seconds: float) -> PushError:
        self.refusals.add(limit, key)
        return PushError(Errno.RATE_EXCEEDED, what, retry_after=seconds)

    async def _documents(self, identifier: str, gone: set[str], check: bool) -> list[Document]:
        receipts = await cast(Receipts, self._receipts).of_subscription(identifier)
        return [await self._settled(each, gone, check=check) for each in receipts]

    # ── streams ──────────────────────────────────────────────────────────────────────────────────

    def _stream(self, joined: AbstractContextManager[Poll], connection_key: str) -> EventStream:
        """:raises ConnectionRefused: too many wait, as others have come first"""
        waiting = ExitStack()
        try:
            poll = waiting.enter_context(joined)
        except PushError as refusal:
            raise ConnectionRefused(refusal.status, TOO_MANY_WAIT) from None
        waiting.callback(self.connection_limits.release, connection_key)
        return EventStream(partial(self.run_stream, poll), waiting.close)

    async def run_stream(self, poll: Poll, stream: EventStream) -> None:
        """Write each outcome once to a stream, until its client leaves. One that was disconnected
        gets all receipts again when it comes back.
        """
        self._streams.add(stream)
        loop = asyncio.get_running_loop()
        until, written = loop.time() + LONGEST_STREAM, 0
        try:
            while loop.time() < until and not self._is_ending:
                if written < len(poll.events):
                    stream.write(b"".join(poll.events[written:]))
                    written = len(poll.events)
                if not await poll.news(KEEPALIVE_INTERVAL):
                    stream.write(b":\n\n")
        finally:
            self._streams.discard(stream)
            stream.close()

    async def end_waits(self) -> None:
        """Answer the requests that wait, and end the streams."""
        if self._receipts is not None:
            self._receipts.end_waits()
        for stream in list(self._streams):
            stream.close()


def _subscription_named(headers: Mapping[str, str]) -> str:
    """The token of the subscription that a push names; empty for none. `Push-Receipt` is of the
    drafts of the standard, and in use.
    """
    url = _link(headers.get("link", "")) or headers.get("push-receipt", "").strip().strip('<>"')
    return url.partition("/r/")[2]


def _link(text: str) -> str:
    """The target of the first link with `RELATION` in a Link header (RFC 8288), "" without one."""
    for link in text.split("<", MAX_MEMBERS)[1:]:
        target, _, rest = link.partition(">")
        for parameter in rest.partition(",")[0].split(";", MAX_MEMBERS)[1:]:
            name, _, value = parameter.partition("=")
            is_relation = name.strip().lower() == "rel"
            if is_relation and RELATION in value.strip().strip('"').split(None, MAX_MEMBERS):
                return target
    return ""
