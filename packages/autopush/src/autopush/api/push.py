"""The API for application servers.

    POST /wpush/{version}/{token}    sends a message (RFC 8030)
    DELETE /m/{message_id}           deletes a stored message
    PUT /spush/{version}/{token}     sets the version of a SimplePush channel

Rule: checks run in the documented order, cheap ones before the store is read, the signature last. A
message or version gets 200 to 202 only if it was delivered or is stored, or if its TTL is 0 and the
user agent is not connected.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from time import perf_counter
from typing import Final
from urllib.parse import parse_qsl

from autopush.api import responses
from autopush.api.receipts import ReceiptHandler
from autopush.api.request_log import PushLine, RequestLog
from autopush.api.senders import SenderCounts
from autopush.clock import Clock
from autopush.delivery.bridge_contract import RouterResponse
from autopush.delivery.bridged import BridgedUser
from autopush.delivery.calls import Outcome
from autopush.delivery.router import CachedUser, Recipient, UserAgentRouter
from autopush.fair_queue import FairQueue
from autopush.limits import GoneLimits, PushLimits
from autopush.net.http_messages import HeaderBlock, Request, Response
from autopush.shown import shown
from autopush.store import PushStore
from autopush.store.messages import row_of_id
from autopush.store.users import SIMPLEPUSH, WEBPUSH
from autopush.telemetry.metric_table import (
    ENCODING_AES128GCM,
    ENCODING_AESGCM,
    ENCODING_AESGCM128,
    NO_ROUTER,
    NOTIFICATION_AUTH,
    NOTIFICATION_DATA,
    NOTIFICATION_ERROR,
    NOTIFICATION_RECEIVED,
    NOTIFICATION_SUCCESS,
    NOTIFICATION_TIME,
)
from autopush.telemetry.metrics import Metrics
from autopush.webpush.errors import Errno, Header, PushError
from autopush.webpush.headers import Content, check_content
from autopush.webpush.identifiers import IdFactory, microseconds_of
from autopush.webpush.notification import MAX_VERSION, Notification, VersionUpdate
from autopush.webpush.tokens import (
    Endpoint,
    EndpointTokens,
    KeyRing,
    ReceiptSubscription,
    invalid_message_id,
    new_message_id,
    parse_message_id,
)
from autopush.webpush.vapid import Claims, Credentials, Verifier, check_access
from keytables import KeytablesError

PUSH_HEADERS: Final = (
    "content-encoding,encryption,crypto-key,ttl,encryption-key,content-type,authorization,"
    "topic,urgency,prefer,link,push-receipt"
)
"""The request headers of a push, for `Access-Control-Allow-Headers`."""
TEST_TTL: Final = 60
"""Seconds for which a push of the operator is kept."""


class PushMetrics:
    """Metrics of messages and versions: each is received, then accepted or refused."""

    def __init__(self, metrics: Metrics) -> None:
        self.received = metrics.counter(NOTIFICATION_RECEIVED)
        self._accepted = metrics.counters(NOTIFICATION_SUCCESS)
        self.refused = metrics.counters(NOTIFICATION_ERROR)
        self._data = metrics.counters(NOTIFICATION_DATA)
        drafts = {"bearer": "draft01", "webpush": "draft01", "vapid": "draft02"}
        self._senders = {
            scheme: metrics.counter(NOTIFICATION_AUTH, vapid=draft, scheme=scheme)
            for scheme, draft in drafts.items()
        }
        self._encodings = {
            "aes128gcm": metrics.counter(ENCODING_AES128GCM),
            "aesgcm": metrics.counter(ENCODING_AESGCM),
            "aesgcm128": metrics.counter(ENCODING_AESGCM128),
        }
        self._seconds = metrics.histogram(NOTIFICATION_TIME)

    def accepted(
        self,
        began: float,
        router_type: str,
        outcome: Outcome,
        size: int,
        headers: Mapping[str, str] | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """`began`: by `perf_counter`; `size`: bytes of the body; `headers`: None without a body."""
        if outcome is Outcome.DISCARDED:
            destination = "Discarded"
        else:
            destination = "Direct" if outcome is Outcome.DONE else "Stored"
            self._data[destination, router_type].value += size
        vapid = "False"
        if credentials is not None:
            vapid = "True"
            self._senders[credentials.scheme].value += 1
        self._accepted[destination, router_type, vapid].value += 1
        if headers is not None:
            self._encodings[headers["encoding"]].value += 1
        self._seconds.observe(perf_counter() - began)


@dataclass(eq=False, kw_only=True)
class Intake:
    """What messages and SimplePush versions have in common: each is received, then accepted or
    refused. `max_data`: bytes.
    """

    tokens: EndpointTokens
    limits: PushLimits
    router: UserAgentRouter
    clock: Clock
    metrics: PushMetrics
    requests: RequestLog
    max_data: int

    def receive(self, request: Request) -> "Attempt":
        self.metrics.received.value += 1
        return Attempt(self, request)


class Attempt:
    """One message or version. `recipient`, `credentials`: as soon as they are known."""

    __slots__ = ("_intake", "_line", "began", "credentials", "recipient")

    def __init__(self, intake: Intake, request: Request) -> None:
        self._intake = intake
        self._line = PushLine(intake.requests, request) if intake.requests.is_verbose else None
        self.began = perf_counter()
        self.recipient: Recipient | BridgedUser | None = None
        self.credentials: Credentials | None = None

    async def route(
        self, recipient: Recipient | BridgedUser, notification: Notification
    ) -> tuple[Outcome, RouterResponse | None]:
        """What became of it, and how a bridge wants it answered."""
        if self._line is not None:
            self._line.validated()
        router = self._intake.router
        if isinstance(recipient, BridgedUser):
            return Outcome.DONE, await router.bridges.route(recipient, notification)
        return await router.route(recipient, notification), None

    def accepted(self, outcome: Outcome, size: int, headers: Mapping[str, str] | None) -> None:
        """`size`: bytes of the body; `headers`: of its encryption, None without a body."""
        router_type = router_type_of(self.recipient)
        self._intake.metrics.accepted(
            self.began, router_type, outcome, size, headers, self.credentials
        )
        if self._line is not None:
            self._line.write(outcome, router_type)

    def refused(self, error: PushError | KeytablesError) -> PushError:
        """The refusal, counted, with its router type for the log line."""
        # Not raised here: this frame, in the traceback, would keep the request and the refusal
        # alive until the garbage collector runs.
        refusal = error if isinstance(error, PushError) else responses.storage_refusal(error)
        refusal.router_type = router_type_of(self.recipient)
        has_credentials = str(self.credentials is not None)
        self._intake.metrics.refused[
            str(refusal.status), refusal.router_type, has_credentials
        ].add()
        return refusal


@dataclass(eq=False, kw_only=True)
class PushHandler:
    """Handles `POST /wpush`. `max_ttl`: seconds; `senders`: None where nobody asks for them."""

    intake: Intake
    verifier: Verifier
    gone: GoneLimits
    receipts: ReceiptHandler
    max_ttl: int = field(init=False)
    block: HeaderBlock
    senders: SenderCounts | None = None

    def __post_init__(self) -> None:
        self._signatures = SignatureQueue(self.verifier)
        self._ring, self._clock = self.intake.tokens.ring, self.intake.clock
        self.ids = IdFactory(self._clock)

    async def __call__(self, request: Request, version: str | None, token: str) -> Response:
        """:raises PushError: the message is refused"""
        attempt, intake, headers = self.intake.receive(request), self.intake, request.headers
        endpoint = None
        try:
            endpoint = intake.tokens.open(token)
            credentials = attempt.credentials = self.verifier.credentials(
                headers.get("authorization"), headers.get("crypto-key")
            )
            check_access(endpoint, version, credentials)
            intake.limits.check_push(endpoint, credentials, attempt.began)
            recipient = attempt.recipient = await intake.router.find(
                endpoint.uaid, endpoint.channel_id
            )
            content = check_content(
                headers, request.body, max_ttl=self.max_ttl, max_data=intake.max_data
            )
            if credentials is not None:
                # Last, as a new signature costs more than everything before.
                claims = credentials.claims or await self._signatures.verify(
                    credentials, endpoint.uaid
                )
                self.verifier.check(claims, self._clock())
                if intake.limits.has_sender_rate:
                    intake.limits.check_sender_rate(credentials, attempt.began)
            receipt = None
            if "prefer" in headers:
                receipt = await self.receipts.requested(headers, endpoint, credentials)
            order = self.ids.next()
            notification = self._notification(endpoint, content, order, receipt)
            outcome, routed = await attempt.route(recipient, notification)
        except PushError as refusal:
            attempt.refused(refusal)
            if refusal.status == 410 or refusal.errno == Errno.INVALID_ENDPOINT:
                await self._check_gone(headers, endpoint, token)
            raise
        except KeytablesError as error:
            raise attempt.refused(error) from error
        response = self._response(notification, routed)
        if receipt is not None:
            links = await self._begin_receipt(receipt, notification, order, outcome, routed)
            if links:
                response.status, response.headers = 202, (*response.headers, *links)
        attempt.accepted(outcome, len(request.body), content.headers)
        if self.senders is not None and credentials is not None:
            self.senders.add(credentials.point())
        return response

    async def send_test(self, endpoint: Endpoint) -> str:
        """Send an empty push of the operator, with a receipt; returns its message id.

        Of the checks, those of a sender are left out: it has no VAPID key, rate or certificate.

        :raises PushError: it is refused, as any other would be; 503, the store failed
        """
        intake = self.intake
        attempt = intake.receive(Request("POST", "/wpush/test", "", {}, ""))
        try:
            recipient = attempt.recipient = await intake.router.find(
                endpoint.uaid, endpoint.channel_id
            )
            receipt = ReceiptSubscription.new(endpoint.ids)
            order = self.ids.next()
            content = Content(min(TEST_TTL, self.max_ttl))
            notification = self._notification(endpoint, content, order, receipt)
            outcome, routed = await attempt.route(recipient, notification)
        except PushError as refusal:
            attempt.refused(refusal)
            raise
        except KeytablesError as error:
            raise attempt.refused(error) from error
        await self._begin_receipt(receipt, notification, order, outcome, routed)
        attempt.accepted(outcome, 0, None)
        return notification.version

    async def _begin_receipt(
        self,
        receipt: ReceiptSubscription,
        notification: Notification,
        order: int,
        outcome: Outcome,
        routed: RouterResponse | None,
    ) -> Sequence[Header]:
        """Returns the headers that lead to it."""
        return await self.receipts.accepted(
            receipt,
            parse_message_id(self._ring, notification.version),
            microseconds_of(order) // 1000,
            notification.ttl,
            outcome,
            is_bridged=routed is not None,
        )

    def _notification(
        self, endpoint: Endpoint, content: Content, order: int, receipt: ReceiptSubscription | None
    ) -> Notification:
        """The message of a push that has passed all checks. `order`: a time of its own, from
        `IdFactory`.
        """
        topic = content.topic
        version = new_message_id(
            self._ring,
            endpoint.uaid,
            endpoint.channel_id,
            topic,
            order,
            "" if receipt is None else receipt.id,
        )
        return Notification(
            uaid=endpoint.uaid,
            channel_id=endpoint.channel_id,
            version=version,
            ttl=content.ttl,
            timestamp=int(self._clock()),
            topic=topic,
            data=content.data,
            headers=content.headers,
            sort_time=order if topic is None else None,
            topic_order=0 if topic is None else microseconds_of(order),
            urgency=content.urgency,
            has_receipt=receipt is not None,
        )

    async def _check_gone(
        self, headers: Mapping[str, str], endpoint: Endpoint | None, token: str
    ) -> None:
        """Count a push to an endpoint that is gone; None: to a token that is not of this service.

        :raises PushError: 429/203, its sender ignores too many such answers
        """
        # What was sent in place of a token may be long: its hash is remembered.
        named = sha256(token.encode()).digest() if endpoint is None else endpoint.ids
        if self.gone.is_repeated(named):
            key = await self._key(headers, "" if endpoint is None else endpoint.uaid)
            await self.gone.check(key, named)

    async def _key(self, headers: Mapping[str, str], uaid: str) -> bytes:
        """The verified key of the sender; empty without one. `uaid`: as in `SignatureQueue`."""
        with suppress(PushError):
            credentials = self.verifier.credentials(
                headers.get("authorization"), headers.get("crypto-key")
            )
            if credentials is not None:
                claims = credentials.claims or await self._signatures.verify(credentials, uaid)
                self.verifier.check(claims, self._clock())
                return credentials.point()
        return b""

    def _response(self, notification: Notification, routed: RouterResponse | None) -> Response:
        """201 with the documented headers and body, unless a bridge sets others."""
        location = f"{self.intake.tokens.endpoint_url}/m/{notification.version}"
        headers: tuple[Header, ...] = (("Location", location), ("TTL", str(notification.ttl)))
        body = f'{{"message-id":"{notification.version}"}}'
        if routed is None:
            return Response(201, body.encode(), headers, "application/json", self.block)
        own = {name.lower() for name, _ in routed.headers}
        headers = (*routed.headers, *(header for header in headers if header[0].lower() not in own))
        if routed.response_body:
            return responses.text(routed.status_code, routed.response_body, headers)
        return Response(routed.status_code, body.encode(), headers, "application/json")


@dataclass(eq=False)
class DeleteHandler:
    """Handles `DELETE /m`. The id is the capability: any id of this service gets 204.

    Only that message is deleted, not one that has replaced it.
    """

    store: PushStore
    limits: PushLimits
    ring: KeyRing
    block: HeaderBlock

    async def __call__(self, text: str) -> Response:
        """:raises PushError: 400/102, not a message id of this service; 429/203, too many deletions
        for its endpoint; 503, the store failed
        """
        try:
            message = parse_message_id(self.ring, text)
        except ValueError:
            raise invalid_message_id(text) from None
        self.limits.check_deletion(message.uaid + message.channel_id)
        try:
            await self.store.remove(message.uaid, row_of_id(message))
        except KeytablesError as error:
            raise responses.storage_refusal(error) from error
        return Response(204, block=self.block)


# ── SimplePush ────────────────────────────────────────────────────────────────────────────────────

MAX_FIELDS: Final = 32
STORED: Final = "Notification Stored"
MAX_OTHER_FIELDS: Final = 4096
"""Bytes of a form beside the data."""


@dataclass(eq=False, kw_only=True)
class SimplePushHandler:
    """Handles `PUT /spush`."""

    intake: Intake
    block: HeaderBlock

    async def __call__(self, request: Request, token: str) -> Response:
        """:raises PushError: the version is refused"""
        attempt, intake = self.intake.receive(request), self.intake
        try:
            endpoint = self._open(token)
            intake.limits.check_push(endpoint, None, attempt.began)
            recipient = await intake.router.find_simplepush(endpoint.uaid)
            attempt.recipient = recipient
            number, data = self._read_update(request.body or request.query.encode())
            update = VersionUpdate.of(endpoint.uaid, endpoint.channel_id, number, data)
            outcome, _ = await attempt.route(recipient, update)
        except PushError as refusal:
            attempt.refused(refusal)
            raise
        except KeytablesError as error:
            raise attempt.refused(error) from error
        attempt.accepted(outcome, len((data or "").encode()), None)
        is_delivered = outcome is Outcome.DONE
        response = responses.text(*((200, "Delivered") if is_delivered else (202, STORED)))
        response.block = self.block
        return response

    def _read_update(self, form: bytes) -> tuple[int, str | None]:
        """Version and data; the text of the data may have `max_data` bytes.

        :raises PushError: as `read_update`; 413/104, it is longer
        """
        limit = self.intake.max_data
        # Each byte of the data may take three in a form.
        if len(form) > 3 * limit + MAX_OTHER_FIELDS:
            raise _longer_data(limit, f"a form of {len(form)}")
        number, data = read_update(form, self.intake.clock())
        if (size := len((data or "").encode())) > limit:
            raise _longer_data(limit, str(size))
        return number, data

    def _open(self, token: str) -> Endpoint:
        try:
            endpoint = self.intake.tokens.open(token)
        except PushError:
            endpoint = None
        if endpoint is None or endpoint.key_hash is not None:
            raise PushError.invalid(
                Errno.INVALID_ENDPOINT,
                f"invalid token: {len(token)} characters, not those of a SimplePush endpoint of "
                "this service",
                status=400,
            )
        return endpoint


def _longer_data(limit: int, got: str) -> PushError:
    return PushError(Errno.PAYLOAD_TOO_LARGE, f"data is longer than {limit} bytes, got {got}")


def read_update(form: bytes, now: float) -> tuple[int, str | None]:
    """Version and data of a form; a version that is missing or below 1 becomes the time in seconds.

    :raises PushError: 400/108, not a form, or an invalid version
    """
    try:
        fields = dict(
            parse_qsl(
                form.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
            )
        )
    except ValueError:  # UnicodeDecodeError too
        raise PushError(
            Errno.INVALID_ROUTER_TYPE,
            "Expected a form in UTF-8 with version and data, such as version=12, got "
            f"{len(form)} bytes that are none",
        ) from None
    text, data = fields.get("version", ""), fields.get("data") or None
    # Compared as text, like the original: 0 and negative numbers count as no version.
    if text < "1":
        return int(now), data
    is_number = text.isascii() and text.isdigit() and len(text) < 20
    if not is_number or int(text) > MAX_VERSION:
        raise PushError(
            Errno.INVALID_ROUTER_TYPE,
            f"Invalid version: expected a number up to {MAX_VERSION}, got {shown(text)}",
        )
    return int(text), data


# ── Shared ────────────────────────────────────────────────────────────────────────────────────────


def router_type_of(recipient: Recipient | BridgedUser | None) -> str:
    """The router type for metrics and logs; `NO_ROUTER` while the recipient is unknown."""
    if recipient is None:
        return NO_ROUTER
    if isinstance(recipient, BridgedUser):
        return recipient.record.router_type
    if isinstance(recipient, CachedUser):
        return WEBPUSH
    return SIMPLEPUSH if recipient.messages.router_type == SIMPLEPUSH else WEBPUSH


TIME_SLICE: Final = 0.0008
"""Seconds of verification before the event loop runs other work."""
MAX_WAITING: Final = 10_000
"""Queued signatures; further ones are refused."""
MAX_WAITING_OF_USER: Final = 500
"""The same for messages to one user."""


class SignatureQueue:
    """Verifies the signatures of new senders in slices of less than a millisecond (`TIME_SLICE`).

    A signature takes about 0.1 ms of CPU time, and twice that between other work, when its tables
    have left the processor's cache. Recipients take turns, one signature each, so that a flood of
    new tokens for one of them delays no message to another.
    """

    def __init__(
        self,
        verifier: Verifier,
        *,
        time_slice: float = TIME_SLICE,
        max_waiting: int = MAX_WAITING,
        max_waiting_of_user: int = MAX_WAITING_OF_USER,
    ) -> None:
        self._verifier = verifier
        self._time_slice = time_slice
        self._waiting = FairQueue[tuple[Credentials, asyncio.Future[Claims]]](
            max_waiting, max_waiting_of_user
        )

    async def verify(self, credentials: Credentials, uaid: str) -> Claims:
        """The verified claims. `uaid`: the recipient's.

        :raises PushError: 401/109, not signed by that key; 503/201, too many are waiting
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Claims] = loop.create_future()
        is_idle = not self._waiting
        if not self._waiting.add(uaid, (credentials, future)):
            raise PushError(Errno.BACK_OFF, "Too many signatures to verify")
        if is_idle:
            loop.call_soon(self._run_slice)
        return await future

    def _run_slice(self) -> None:
        end = perf_counter() + self._time_slice
        while self._waiting:
            credentials, future = self._waiting.take()
            try:
                # The first of several messages with the same new token verifies it for all.
                known = self._verifier.known(credentials)
                claims = self._verifier.verify(credentials) if known is None else known
                self._verifier.remember(credentials, claims)
            except Exception as error:  # noqa: BLE001 - raised to its sender; the others go on
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(claims)
            if perf_counter() >= end and self._waiting:
                asyncio.get_running_loop().call_soon(self._run_slice)
                return
