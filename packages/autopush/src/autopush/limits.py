"""Limits on what user agents and application servers may do, and how often.

    user agents   new connections, messages, registrations,  connection_rate, message_rate,
                  new records                                registration_rate, new_user_agents_rate
                  hellos in progress                         HELLOS_IN_PROGRESS
    senders       pushes to an endpoint, with a key, and     endpoint_rate, sender_rate, gone_rate
                  to endpoints that are gone
                  whether they may send at all               vapid_required, allowed_senders
    both          what is stored for one user agent          max_stored_messages, max_stored_bytes

Open connections and buffered bytes are limited in :mod:`autopush.net.client_limits`, accounts in
:mod:`autopush.admission`. Each worker has its own limits. Refusals are counted, and logged at most
once a minute per limit.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from autopush.fair_queue import FairQueue
from autopush.protocol.effects import TooOften
from autopush.recently_used import RecentlyUsed
from autopush.settings.value_types import Rate
from autopush.store.messages import Stored, row_of, size_of
from autopush.store.versions import UserMessages
from autopush.telemetry import logs
from autopush.telemetry.logs import RepeatLimiter
from autopush.telemetry.metric_table import LIMIT_REFUSED
from autopush.telemetry.metrics import Metrics
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.notification import Notification
from autopush.webpush.stored import Row
from autopush.webpush.tokens import Endpoint
from autopush.webpush.vapid import AllowedSenders, Credentials
from keytables import KeytablesError

_log: Final = logs.get(__name__)

# ── how often ────────────────────────────────────────────────────────────────────────────────────


class TokenBuckets:
    """A token bucket for each key: `rate.count` tokens, refilled within `rate.seconds`.

    `rate`: None for no limit. The key "" is never limited (see `TrustedProxies.limit_key`).
    `max_keys`: how many are remembered; a forgotten key starts with a full bucket.
    """

    __slots__ = ("_full_at", "_interval", "_monotonic", "_seconds", "rate")

    def __init__(
        self,
        rate: Rate | None = None,
        *,
        max_keys: int = 100_000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._full_at = RecentlyUsed[float](max_keys)
        self.rate: Rate | None = None
        self.set_rate(rate)

    def set_rate(self, rate: Rate | None) -> None:
        """Take tokens at another rate. A bucket that is half full stays half full."""
        before, self.rate = self.rate, rate
        seconds, count = (rate.seconds, rate.count) if rate is not None else (0, 1)
        self._seconds = seconds + 1e-9  # what rounding may take from the last token
        self._interval = seconds / count
        if before is not None and before.seconds != seconds:
            now = self._monotonic()
            scale = seconds / before.seconds
            self._full_at.replace_each(lambda full_at: now + max(0.0, full_at - now) * scale)

    def wait_for_token(self, key: Hashable, now: float | None = None) -> float:
        """Take a token; returns 0.0, or the seconds until there is one. `now`: monotonic."""
        if not (self._interval and key):
            return 0.0
        if now is None:
            now = self._monotonic()
        known = self._full_at
        full_at = known.newest.get(key)
        if full_at is None:
            full_at = known.recall(key, 0.0)
        if full_at <= now:
            full_at = now
        elif (wait := full_at + self._interval - now - self._seconds) > 0.0:
            return wait
        known.newest[key] = full_at + self._interval
        return 0.0


REPORT_INTERVAL: Final = 60.0
"""Seconds between two log lines about one limit."""


class LimitRefusals:
    def __init__(
        self, metrics: Metrics, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._counters = metrics.counters(LIMIT_REFUSED)
        self._lines = RepeatLimiter(1, REPORT_INTERVAL, monotonic=monotonic)

    def add(self, limit: str, address: str = "") -> None:
        """`limit`: a label of LIMIT_REFUSED; `address`: of the client, if known."""
        self._counters[limit].add()
        count = self._lines.admit(limit)
        if count is not None:
            client = {"remote_ip": address} if address else {}
            _log.warning("Refused by a limit", limit=limit, **client, **count)


# ── user agents ──────────────────────────────────────────────────────────────────────────────────

PER_ADDRESS: Final = 10
"""The rate of one client address, as a multiple of that of one user agent."""
MAX_USER_AGENTS: Final = 1000
MAX_BATCH: Final = 100
"""Messages counted at once, at most: a connection's counter of so few costs no memory."""

TOO_MANY_REGISTRATIONS: Final = "too many registrations"
TOO_MANY_USER_AGENTS: Final = "too many new user agents"


class UserAgentLimits:
    """Rate limits of a connection node; a rate of None is no limit.

    User agents are counted by UAID and together by client address, so that neither reconnecting nor
    new UAIDs reset a limit. `new_user_agents` is shared with all that creates records.
    """

    def __init__(
        self,
        refusals: LimitRefusals,
        new_user_agents: TokenBuckets,
        *,
        message_rate: Rate | None = None,
        registration_rate: Rate | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.message_batch = sys.maxsize
        """Messages of one connection that one call of `admits_messages` covers."""
        self.hellos = HelloQueue()
        self._messages = _UserAgentRates(monotonic)
        self._registrations = _UserAgentRates(monotonic)
        self._new_user_agents = new_user_agents
        self._refusals = refusals
        self.set_rates(message_rate, registration_rate)

    def set_rates(self, message_rate: Rate | None, registration_rate: Rate | None) -> None:
        self.message_batch, batches = sys.maxsize, None
        if message_rate is not None:
            self.message_batch = max(1, min(MAX_BATCH, message_rate.count // 50))
            batches = Rate(message_rate.count // self.message_batch, message_rate.unit)
        self._messages.set_rate(batches)
        self._registrations.set_rate(registration_rate)

    def admits_messages(self, user_agent: str | int, address_key: str) -> bool:
        """`user_agent`: the UAID; before the hello a number that identifies the connection."""
        if not self._messages.wait_for_token(user_agent, address_key):
            return True
        self._refusals.add("message_rate", address_key)
        return False

    def refuse_registration(self, uaid: str, address_key: str, *, is_new: bool) -> TooOften | None:
        """The refusal of a register or unregister over a limit. `is_new`: it creates a record."""
        if wait := self._registrations.wait_for_token(uaid, address_key):
            self._refusals.add("registration_rate", address_key)
            return TooOften(TOO_MANY_REGISTRATIONS, wait)
        if is_new and (wait := self._new_user_agents.wait_for_token(address_key)):
            self._refusals.add("new_user_agents", address_key)
            return TooOften(TOO_MANY_USER_AGENTS, wait)
        return None

    def count_late_hello(self, address_key: str) -> None:
        """A hello that could not be carried out in time was answered with a close."""
        self._refusals.add("hellos", address_key)


HELLOS_IN_PROGRESS: Final = 128
"""A small share of the writes and calls that a store lets wait (20,000 and 10,000), and enough for
its group commits. The end of a commit resumes all of them in one turn of the loop.
"""
MAX_WAITING_HELLOS: Final = 50_000

StartHello = Callable[[], asyncio.Task[None] | None]
"""Returns the task that carries out a hello; None if its user agent has left."""


class HelloQueue:
    """Bounds the hellos in progress, so that pushes and registrations are answered while very many
    user agents come back at once. Further hellos wait, and client addresses take turns.
    """

    def __init__(
        self, *, most: int = HELLOS_IN_PROGRESS, max_waiting: int = MAX_WAITING_HELLOS
    ) -> None:
        self._most = most
        self._waiting = FairQueue[StartHello](max_waiting)
        self._in_progress = 0

    def add(self, address_key: str, start: StartHello) -> bool:
        """Call `start` now or later; False if too many are waiting."""
        if self._in_progress >= self._most:
            return self._waiting.add(address_key, start)
        self._start(start)
        return True

    def _start(self, start: StartHello) -> None:
        task = start()
        if task is not None:
            self._in_progress += 1
            task.add_done_callback(self._on_done)

    def _on_done(self, _task: asyncio.Task[None]) -> None:
        self._in_progress -= 1
        while self._waiting and self._in_progress < self._most:
            self._start(self._waiting.take())


class _UserAgentRates:
    __slots__ = ("_by_address", "_by_user_agent")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._by_user_agent = TokenBuckets(max_keys=MAX_USER_AGENTS, monotonic=monotonic)
        self._by_address = TokenBuckets(monotonic=monotonic)

    def set_rate(self, rate: Rate | None) -> None:
        together = None if rate is None else Rate(PER_ADDRESS * rate.count, rate.unit)
        self._by_user_agent.set_rate(rate)
        self._by_address.set_rate(together)

    def wait_for_token(self, user_agent: str | int, address_key: str) -> float:
        return self._by_user_agent.wait_for_token(user_agent) or self._by_address.wait_for_token(
            address_key
        )


# ── senders ──────────────────────────────────────────────────────────────────────────────────────

MAX_KNOWN: Final = 32_768
"""Endpoints, senders, and user agents with stored messages, remembered at once."""


class PushLimits:
    """Who may send, and how often; rates of None and an empty list of senders set no limit.

    Rule: refuse before anything expensive, that is before a store read and the verification of a
    signature. Only the sender rate counts verified pushes alone: otherwise anybody could use it up.
    """

    def __init__(
        self,
        refusals: LimitRefusals,
        *,
        endpoint_rate: Rate | None = None,
        sender_rate: Rate | None = None,
        vapid_required: bool = False,
        allowed_senders: Iterable[str] = (),
    ) -> None:
        self._refusals = refusals
        self._messages = TokenBuckets(max_keys=MAX_KNOWN)
        self._deletions = TokenBuckets(max_keys=MAX_KNOWN)
        self._signed = TokenBuckets(max_keys=MAX_KNOWN)
        self.set(endpoint_rate, sender_rate, vapid_required, allowed_senders)

    def set(
        self,
        endpoint_rate: Rate | None,
        sender_rate: Rate | None,
        vapid_required: bool,
        allowed_senders: Iterable[str],
    ) -> None:
        self._messages.set_rate(endpoint_rate)
        self._deletions.set_rate(endpoint_rate)
        self._signed.set_rate(sender_rate)
        self.has_sender_rate = sender_rate is not None
        listed = tuple(allowed_senders)
        self._allowed = AllowedSenders(listed) if listed else None
        self._is_vapid_required = vapid_required or self._allowed is not None

    def check_push(self, endpoint: Endpoint, credentials: Credentials | None, now: float) -> None:
        """Check a push whose endpoint and sender agree. `now`: monotonic seconds.

        :raises PushError: 401/120, it is anonymous; 403/121, the sender is not listed; 429/203, the
            endpoint gets too many
        """
        if self._is_vapid_required:
            self._check_sender(credentials)
        self._take(self._messages, endpoint.ids, "endpoint_rate", "messages to this endpoint", now)

    def check_sender_rate(self, credentials: Credentials, now: float) -> None:
        """Check a push after its signature is verified.

        :raises PushError: 429/203, its sender sends too many
        """
        what = "messages signed with this key"
        self._take(self._signed, credentials.point(), "sender_rate", what, now)

    def check_deletion(self, ids: str) -> None:
        """Check a deletion; as many are allowed as messages. `ids`: of user and channel.

        :raises PushError: 429/203, there are more
        """
        self._take(self._deletions, ids, "endpoint_rate", "deletions of this endpoint")

    def _check_sender(self, credentials: Credentials | None) -> None:
        if credentials is None:
            self._refusals.add("vapid_required")
            raise PushError(
                Errno.VAPID_REQUIRED, "missing authorization header: this service requires VAPID"
            )
        if self._allowed is not None and not self._allowed.has(credentials):
            self._refusals.add("allowed_senders")
            raise PushError(
                Errno.SENDER_NOT_ALLOWED, "Neither the key nor the sub of this sender is allowed"
            )

    def _take(
        self, buckets: TokenBuckets, key: Hashable, limit: str, what: str, now: float | None = None
    ) -> None:
        if wait := buckets.wait_for_token(key, now):
            self._refusals.add(limit)
            text = f"Too many {what}: the limit is {buckets.rate} ({limit})"
            raise PushError(Errno.RATE_EXCEEDED, text, retry_after=wait)


DELAY: Final = 1.0
"""Seconds by which the answer to a sender above the rate is delayed."""
MAX_DELAYED: Final = 256
"""Answers delayed at once; further ones are refused."""


MAX_LISTED: Final = 500
"""Senders whose messages are counted, those that sent last."""


class GoneCounts(Struct, kw_only=True):
    """A sender's messages since the start to endpoints for which it has had 410 or 404 before."""

    sent: int = 0
    delayed: int = 0
    refused: int = 0


class GoneLimits:
    """Limits senders that keep sending to endpoints for which they have had 410 (gone) or 404 (not
    of this service).

    The first such answer for an endpoint does not count, so a sender that then drops the
    subscription is never limited. Above the rate answers are delayed, above twice the rate they are
    429.

    `key` must be one whose signature was verified: otherwise anybody could have another sender
    limited. Messages without one are counted by endpoint.
    """

    def __init__(
        self,
        refusals: LimitRefusals,
        rate: Rate | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._refusals = refusals
        self._told = RecentlyUsed[bool](MAX_KNOWN)
        self._prompt = TokenBuckets(rate, max_keys=MAX_KNOWN, monotonic=monotonic)
        self._delayed = TokenBuckets(rate, max_keys=MAX_KNOWN, monotonic=monotonic)
        self._waiting = 0
        self._sleep = sleep
        self._counts = RecentlyUsed[GoneCounts](MAX_LISTED)

    def set_rate(self, rate: Rate | None) -> None:
        self._prompt.set_rate(rate)
        self._delayed.set_rate(rate)

    def is_repeated(self, endpoint: Hashable) -> bool:
        """Whether that endpoint was refused as gone or unknown before; it is from now on."""
        was_told = self._told.find(endpoint) is not None
        if not was_told:
            self._told.keep(endpoint, True)
        return was_told

    def senders(self) -> Iterator[tuple[bytes, GoneCounts]]:
        """By key, those that sent last; b"" for all without one."""
        for key, counts in self._counts.items():
            if isinstance(key, bytes):
                yield key, counts

    async def check(self, key: bytes, endpoint: Hashable) -> None:
        """Count a push that ignores an earlier answer; its answer may be delayed. `key`: b"" for
        none.

        :raises PushError: 429/203, the sender ignores too many
        """
        sender = key or endpoint
        counts = self._counts.find(key)
        if counts is None:
            counts = GoneCounts()
            self._counts.keep(key, counts)
        counts.sent += 1
        if not self._prompt.wait_for_token(sender):
            return
        wait = self._delayed.wait_for_token(sender)
        if wait or self._waiting >= MAX_DELAYED:
            self._refusals.add("gone_rate")
            counts.refused += 1
            what = "messages to endpoints that do not exist: drop these subscriptions (gone_rate)"
            raise PushError(Errno.RATE_EXCEEDED, f"Too many {what}", retry_after=wait or DELAY)
        counts.delayed += 1
        self._waiting += 1
        try:
            await self._sleep(DELAY)
        finally:
            self._waiting -= 1


# ── what is stored ───────────────────────────────────────────────────────────────────────────────

UNLIMITED: Final = 1 << 60
PAUSE: Final = 100.0
"""Pause between counts, as a multiple of a count's duration: counts take 1 % of the time at most.
"""
PAUSE_AFTER_CONNECT: Final = 20.0
"""The same if the user agent has connected since: it may have received messages."""
SHORTEST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 300.0

_COMMON_SIZE: Final = size_of(None, {"encoding": "aes128gcm"})


class Share:
    """What a worker may still store for one user agent before it counts again."""

    __slots__ = ("connected_at", "counted_at", "counting", "messages", "seconds", "size", "stored")

    def __init__(self, messages: int, size: int) -> None:
        self.messages = messages
        self.size = size
        self.stored: Stored | None = None
        """The last count, if this share is all that is left of the limit."""
        self.counted_at = 0.0
        self.seconds = 0.0
        """Duration of the last count."""
        self.connected_at = 0
        """The user agent's last connect (ms), as known at the last count."""
        self.counting: asyncio.Task[None] | None = None

    def charge(self, size: int) -> bool:
        if self.messages < 1 or self.size < size:
            return False
        self.messages -= 1
        self.size -= size
        return True

    def pause(self, connected_at: int) -> float:
        """Seconds from one count to the next."""
        factor = PAUSE if connected_at == self.connected_at else PAUSE_AFTER_CONNECT
        return min(max(self.seconds * factor, SHORTEST_PAUSE), LONGEST_PAUSE)


class StoredLimits:
    """Limits on what is stored for one user agent; 0 sets no limit.

    Each push that may be stored is charged to its user agent's share. When the share is used up,
    the stored rows are counted, and a new share is at most a quarter of the limit. Delivered
    messages are no longer stored, so a user agent that receives its messages costs one short query
    per quarter.

    A worker that has started, or forgotten the user agent, begins with a quarter. So the limit may
    be exceeded by a quarter for each worker, and by what is in flight.

    Accepted messages are never dropped, nor refused when saved or moved. A message that replaces
    one of its topic and is no larger is never refused.
    """

    def __init__(
        self,
        refusals: LimitRefusals,
        *,
        max_messages: int = 0,
        max_bytes: int = 0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._limit = self._quarter = Stored(0, 0)
        self.set(max_messages, max_bytes)
        self._one_count = asyncio.Lock()  # two at once would keep other work waiting twice as long
        self._refusals = refusals

    def set(self, max_messages: int, max_bytes: int) -> None:
        limit = Stored(max_messages or UNLIMITED, max_bytes or UNLIMITED)
        if limit == self._limit:
            return
        self._limit = limit
        self._quarter = Stored(max(1, self._limit.messages // 4), max(1, self._limit.size // 4))
        self._shares = RecentlyUsed[Share](MAX_KNOWN)  # each was given out by the former limit

    def charge(self, notification: Notification) -> bool:
        """Charge a message that may be stored; False if `charge_after_count` must do it."""
        share = self._shares.newest.get(notification.uaid) or self._recall(notification.uaid)
        data, headers = notification.data, notification.headers
        if data is None:
            size = 0
        elif headers is not None and len(headers) == 1:  # aes128gcm, as all others have more
            size = len(data) + _COMMON_SIZE
        else:
            size = size_of(data, headers)
        return share.charge(size)

    async def charge_after_count(
        self, notification: Notification, messages: UserMessages, connected_at: int
    ) -> None:
        """Charge a message after counting what is stored, unless the last count is too recent.

        `connected_at`: when the user agent connected last, in milliseconds.

        :raises PushError: 429/204, the limit is reached
        """
        uaid = notification.uaid
        share = self._shares.newest.get(uaid) or self._recall(uaid)
        size = size_of(notification.data, notification.headers)
        while not share.charge(size):
            if share.counting is not None:
                await asyncio.shield(share.counting)  # one count serves all waiting messages
                continue
            wait = 0.0
            if share.stored is not None:
                wait = share.counted_at + share.pause(connected_at) - self._monotonic()
            if wait > 0.0:
                if await self._replaces(notification, messages, share, size):
                    return
                raise self._refusal(share, wait)
            share.counting = asyncio.ensure_future(
                self._count(share, uaid, messages, connected_at, size)
            )

    def _recall(self, uaid: str) -> Share:
        return self._shares.recall(uaid, Share(*self._quarter))

    async def _count(
        self, share: Share, uaid: str, messages: UserMessages, connected_at: int, size: int
    ) -> None:
        try:
            async with self._one_count:
                began = self._monotonic()
                stored = await messages.measure(uaid, self._limit)
                share.counted_at = self._monotonic()
        except KeytablesError:
            # The message may not need the failing store; if it does, storing it fails.
            share.counted_at = self._monotonic()
            if share.stored is None:
                share.messages = max(share.messages, 1 + self._quarter.messages // 100)
                share.size = max(share.size, size, self._quarter.size // 100)
            return
        finally:
            share.counting = None
        share.seconds, share.connected_at = share.counted_at - began, connected_at
        left = Stored(self._limit.messages - stored.messages, self._limit.size - stored.size)
        share.messages = max(0, min(left.messages, self._quarter.messages))
        share.size = max(0, min(left.size, max(self._quarter.size, size)))
        is_rest = left.messages <= share.messages or left.size <= share.size
        share.stored = stored if is_rest else None

    async def _replaces(
        self, notification: Notification, messages: UserMessages, share: Share, size: int
    ) -> bool:
        """Whether the message replaces a stored one and fits in its place."""
        row = row_of(notification)
        if row.update_id is None:
            return False
        replaced = await messages.find(notification.uaid, Row(row.sort_key, None))
        if replaced is None:
            return False
        growth = max(0, size - size_of(replaced.data, replaced.headers))
        if growth > share.size:
            return False
        share.size -= growth
        return True

    def _refusal(self, share: Share, wait: float) -> PushError:
        if share.messages < 1:
            self._refusals.add("stored_messages")
            limit = f"{self._limit.messages} (max_stored_messages)"
        else:
            self._refusals.add("stored_bytes")
            limit = f"{self._limit.size} bytes (max_stored_bytes)"
        return PushError(
            Errno.TOO_MANY_STORED,
            f"The user agent does not take its messages: no more than {limit} are stored",
            retry_after=wait,
        )
