"""Receipts: the outcome of a message, for its sender (RFC 8030 sections 5.1, 6.2 and 6.3).

    POST /wpush/…   with `Prefer: respond-async`: 202, and a link to a receipt subscription
    GET /r/{token}  the receipts of a subscription; with `Prefer: wait=N` as soon as there is a new
                    one, with `Accept: text/event-stream` each as an event
    GET /m/{id}     the state of one message

Anyone who has the URL of a subscription or the id of a message may ask, as anyone may delete a
message by its id. The standard answers with HTTP/2 server push, which no client has any more.

Rule: an outcome is known at once in the process that wrote it, and after `POLL_INTERVAL` in others:
every waiting request reads the store. So the number of them is bounded, and that is their cost.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Final, cast

import orjson

from autopush.api import responses
from autopush.clock import Clock
from autopush.delivery.router import DeliveryResult
from autopush.limits import LimitRefusals, TokenBuckets
from autopush.net.client_limits import ConnectionLimits
from autopush.net.http_messages import Answer, Request, Response, Upgrade
from autopush.settings.value_types import Rate
from autopush.store import PushStore
from autopush.store.receipts import GRACE, MAX_MESSAGES, Outcome, Receipt, Receipts
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
POLL_INTERVAL: Final = 1.0
GONE_INTERVAL: Final = 10.0
"""Seconds between two checks whether a message without an outcome is still stored."""
KEEPALIVE_INTERVAL: Final = 15.0
MAX_WAITING: Final = 1000
"""Requests and streams that wait in one worker."""
MAX_UNREAD: Final = 65_536
"""Bytes; a client that leaves more unread is disconnected."""

EVENT_STREAM: Final = "text/event-stream"
_LINK: Final = re.compile(rf'<([^<>]*)>\s*;[^,]*\brel="?{re.escape(RELATION)}"?')

_log: Final = logs.get(__name__)


def preferences(text: str | None) -> dict[str, str]:
    """The members of a Prefer header, RFC 7240; parameters are ignored."""
    found: dict[str, str] = {}
    for member in (text or "").split(","):
        name, _, value = member.partition(";")[0].partition("=")
        found.setdefault(name.strip().lower(), value.strip().strip('"'))
    return found


@dataclass(eq=False)
class ReceiptHandler:
    """`receipts`: None where the service gives none; the state of a message is known all the same,
    as far as it is stored. `rate`: of messages with a receipt, for one sender.
    """

    store: PushStore
    tokens: EndpointTokens
    clock: Clock
    refusals: LimitRefusals
    connection_limits: ConnectionLimits
    _: KW_ONLY
    rate: Rate | None = None
    max_waiting: int = MAX_WAITING
    poll_interval: float = POLL_INTERVAL

    def __post_init__(self) -> None:
        self._receipts = self.store.receipts
        self._senders = TokenBuckets(self.rate)
        self._streams: set[EventStream] = set()

    # ── for a push ───────────────────────────────────────────────────────────────────────────────

    async def requested(
        self, headers: Mapping[str, str], endpoint: Endpoint, credentials: Credentials | None
    ) -> ReceiptSubscription | None:
        """The subscription for the receipt of a push: the one it names, if its sender may use it
        and it has room, else a new one. None if it gets no receipt.
        """
        if self._receipts is None or "respond-async" not in preferences(headers.get("prefer")):
            return None
        point = None if credentials is None else credentials.point()
        if self._senders.take(endpoint.ids if point is None else point):
            self.refusals.add("receipt_rate")
            return None
        named = _subscription_named(headers)
        with suppress(ValueError):
            known = ReceiptSubscription.of_token(self.tokens.ring, named)
            is_own = known.sender == ReceiptSubscription.sender_of(point)
            if is_own and len(await self._receipts.of_subscription(known.id)) < MAX_MESSAGES:
                return known
        return ReceiptSubscription.new(point)

    async def accepted(
        self,
        subscription: ReceiptSubscription,
        message: MessageId,
        received: int,
        ttl: int,
        result: DeliveryResult,
        *,
        is_bridged: bool,
    ) -> tuple[Header, ...]:
        """Note that a message was taken; returns the headers of its 202, none if that failed: the
        message is taken nevertheless. `received`: epoch milliseconds; `ttl`: seconds.
        """
        state = "stored" if ttl else ""
        if is_bridged:
            state = "accepted"
        elif result is DeliveryResult.DISCARDED:
            state = "expired"
        try:
            await cast(Receipts, self._receipts).taken(message, received, ttl, state)
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
            document = await self._state(message)
        except KeytablesError as error:
            raise responses.storage_refusal(error) from error
        return responses.json(200, document)

    async def _state(self, message: MessageId) -> dict[str, object]:
        if message.receipt and self._receipts is not None:
            receipt = await self._receipts.find(message)
            if receipt is not None:
                return await self._settled(receipt, check_message=True)
        stored = await self.store.find(message)
        if stored is None:
            return {"state": "unknown"}
        is_expired = stored.expired(self.clock())
        received = stored.timestamp * 1000
        if message.sort_time is not None:
            received = microseconds_of(message.sort_time) // 1000
        return {"state": "expired" if is_expired else "stored", "times": {"received": received}}

    async def _settled(self, receipt: Receipt, *, check_message: bool) -> dict[str, object]:
        now = self.clock()
        outcome = receipt.outcome(now)
        # Later it has expired in its table, but may be on its way.
        is_kept = "stored" in receipt.times and now < receipt.deadline - GRACE
        if outcome is Outcome.PENDING and check_message and is_kept:
            message = parse_message_id(self.tokens.ring, receipt.version)
            if await self.store.is_deleted(message):
                # It may have been acked and deleted since its receipt was read.
                receipt = await cast(Receipts, self._receipts).find(message) or receipt
                outcome = receipt.outcome(now)
                if outcome is Outcome.PENDING:
                    outcome = Outcome.GONE
        return self._document(receipt, outcome)

    def _document(self, receipt: Receipt, outcome: Outcome) -> dict[str, object]:
        state = receipt.state
        if outcome is Outcome.DELIVERED and state != "errored":
            state = "delivered"
        elif outcome is Outcome.GONE:
            state = "expired"
        document: dict[str, object] = {
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
        """:raises PushError: 404/102, no such subscription; 429/203, too many requests wait; 503,
        the store failed
        """
        receipts = self._receipts
        try:
            if receipts is None:
                raise ValueError("no receipts here")
            subscription = ReceiptSubscription.of_token(self.tokens.ring, token)
            documents = await self._documents(subscription.id, check_messages=True)
            if not documents:
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
            self._check_waiting(receipts)
            return Upgrade(
                (("Content-Type", EVENT_STREAM), ("Cache-Control", "no-store")),
                lambda key: EventStream(self, receipts, subscription.id, key),
                status=200,
            )
        wait = preferences(request.headers.get("prefer")).get("wait", "")
        known = request.headers.get("if-none-match")
        if wait.isascii() and wait.isdigit() and not _has_news(documents, known):
            self._check_waiting(receipts)
            seconds = min(float(wait[:9]), LONGEST_WAIT)
            documents = await self._news(receipts, subscription.id, documents, known, seconds)
        etag = _etag(documents)
        if known == etag:
            return Response(304, headers=(("ETag", etag),))
        headers = (("ETag", etag), ("Cache-Control", "no-store"))
        return responses.json(200, {"receipts": documents}, headers)

    def _check_waiting(self, receipts: Receipts) -> None:
        if receipts.waiting >= self.max_waiting:
            self.refusals.add("receipt_waits")
            raise PushError(Errno.RATE_EXCEEDED, "Too many requests wait", retry_after=10)

    async def _news(
        self,
        receipts: Receipts,
        identifier: str,
        documents: "Documents",
        known: str | None,
        seconds: float,
    ) -> "Documents":
        """The receipts, as soon as some are not those that the client knows."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        check_at = loop.time() + GONE_INTERVAL
        while (left := until - loop.time()) > 0 and not receipts.is_closed:
            await receipts.changed(identifier, min(left, self.poll_interval))
            is_due = loop.time() >= check_at
            if is_due:
                check_at += GONE_INTERVAL
            with suppress(KeytablesError):  # the next read may succeed
                documents = await self._documents(identifier, check_messages=is_due)
            if _has_news(documents, known):
                break
        return documents

    async def _documents(self, identifier: str, *, check_messages: bool) -> "Documents":
        """Of a subscription. With `check_messages` a message that is gone is no longer pending."""
        found = await cast(Receipts, self._receipts).of_subscription(identifier)
        return [await self._settled(each, check_message=check_messages) for each in found]

    # ── streams ──────────────────────────────────────────────────────────────────────────────────

    async def run_stream(self, stream: "EventStream", receipts: Receipts, identifier: str) -> None:
        """Write each outcome once to a stream, until its client leaves."""
        self._streams.add(stream)
        loop = asyncio.get_running_loop()
        until, check_at = loop.time() + LONGEST_STREAM, 0.0
        alive_until = loop.time() + KEEPALIVE_INTERVAL
        sent: set[object] = set()
        try:
            while loop.time() < until and not receipts.is_closed:
                now = loop.time()
                is_due = now >= check_at
                if is_due:
                    check_at = now + GONE_INTERVAL
                with suppress(KeytablesError):  # the next read may succeed
                    for document in await self._documents(identifier, check_messages=is_due):
                        if _is_final(document) and document["message"] not in sent:
                            sent.add(document["message"])
                            stream.write(b"data: " + orjson.dumps(document) + b"\n\n")
                            alive_until = now + KEEPALIVE_INTERVAL
                if now >= alive_until:
                    stream.write(b":\n\n")
                    alive_until = now + KEEPALIVE_INTERVAL
                await receipts.changed(identifier, self.poll_interval)
        finally:
            self._streams.discard(stream)
            stream.close()

    def release(self, connection_key: str) -> None:
        self.connection_limits.release(connection_key)

    async def end_waits(self) -> None:
        """Answer the requests that wait, and end the streams."""
        if self._receipts is not None:
            self._receipts.end_waits()
        for stream in list(self._streams):
            stream.close()


Documents = list[dict[str, object]]


class EventStream(asyncio.Protocol):
    """Server-sent events to one client, which sends nothing more. One that does not read is
    disconnected: it gets all receipts again when it comes back.
    """

    def __init__(
        self, handler: ReceiptHandler, receipts: Receipts, identifier: str, connection_key: str
    ) -> None:
        self._handler = handler
        self._receipts = receipts
        self._identifier = identifier
        self._connection_key = connection_key
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(MAX_UNREAD)
        running = self._handler.run_stream(self, self._receipts, self._identifier)
        self._task = asyncio.get_running_loop().create_task(running)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._handler.release(self._connection_key)
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _subscription_named(headers: Mapping[str, str]) -> str:
    """The token of the subscription that a push names; empty for none. `Push-Receipt` is of the
    drafts of the standard, and in use.
    """
    link = _LINK.search(headers.get("link", ""))
    url = link[1] if link else headers.get("push-receipt", "").strip().strip('<>"')
    return url.partition("/r/")[2]


def _is_final(document: Mapping[str, object]) -> bool:
    return document["status"] != Outcome.PENDING


def _etag(documents: Documents) -> str:
    """Changes with each outcome."""
    final = [f"{each['message']} {each['status']}" for each in documents if _is_final(each)]
    return f'"{hashlib.sha256(" ".join(final).encode()).hexdigest()[:16]}"'


def _has_news(documents: Documents, known: str | None) -> bool:
    """Whether there are outcomes other than those of the ETag `known`."""
    return any(map(_is_final, documents)) and _etag(documents) != known
