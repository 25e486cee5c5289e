"""Keeps router records true: only the node of a connection knows that it is open.

    why a record or a socket may be wrong           what puts it right
    another node took this one for gone             the sweep, or the client's next ping
    a stored message could not be announced here    the repeated call; the sweep, if its caller died
    this process stood still, or had no store       all stored messages are looked for
    the database lost commits in a failover         records and subscriptions are written again
    another service uses the embedded store         connections that were not recorded are

Rule: the record of each connection is checked within `interval` seconds. What was stored for a
connected user agent reaches it within that time, whatever went wrong.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import IntEnum
from functools import partial
from itertools import chain, islice
from typing import Final

from autopush.clock import Clock, until_next
from autopush.delivery.calls import Outcome
from autopush.delivery.connected import ConnectedUser, Registry
from autopush.delivery.peers import Nodes
from autopush.delivery.placement import Placement
from autopush.jobs import RateLimiter, Sleep, repeat
from autopush.protocol.effects import (
    GOING_AWAY,
    NORMAL_CLOSURE,
    RECORD_OUTDATED,
    REPLACED,
    USER_RESET,
)
from autopush.store import PushStore, UserRecord
from autopush.store.messages import Messages
from autopush.store.push_store import RESTORE_TIME
from autopush.store.versions import UserMessages
from autopush.telemetry import logs
from autopush.telemetry.metric_table import CONNECTIONS_UNRECORDED, UA_RECORD_RESTORED
from autopush.telemetry.metrics import Metrics
from autopush.webpush.urgency import HIGHEST
from keytables import KeytablesError, Throttled, Unavailable

PROBE_INTERVAL: Final = 1.0
"""Seconds."""
PROBE_TOLERANCE: Final = 1.0
"""Seconds; a probe later than this means that other nodes waited for this one too."""
QUIET_PERIOD: Final = 10.0
"""Seconds until every message that this node failed to take is stored."""
USERS_CHECKED_PER_SECOND: Final = 200
"""After an outage."""
BATCH: Final = 100
"""Records read together."""
CHECK_INTERVAL: Final = 300.0

_log: Final = logs.get(__name__)


async def notify_node(
    store: PushStore, nodes: Nodes, record: UserRecord, node_id: str, urgency: str = HIGHEST
) -> Outcome:
    """Have the node of a user (`Placement.node_of`) read a stored message. If it does not answer,
    the record says so, for the node to find: the call is repeated, but its caller may end before it
    succeeds.
    """
    outcome = await nodes.check_storage(node_id, record.uaid, urgency)
    if outcome.may_be_back and not record.unread:
        try:
            await store.users.note_unread(record)
        except KeytablesError as error:
            _log.warning("Record not marked as unread", error=type(error).__name__)
    return outcome


class Depth(IntEnum):
    """What is checked of a user; each includes those before it."""

    RECORD = 1
    MESSAGES = 2
    SUBSCRIPTIONS = 3


@dataclass(eq=False)
class Presence:
    """`interval`: seconds in which each record is checked, 0 for never. `probe` reads something
    from the store; None for a store that is always reachable. `now` and `sleep` are of one
    monotonic clock.
    """

    store: PushStore
    registry: Registry
    nodes: Nodes
    placement: Placement
    metrics: Metrics
    _: KW_ONLY
    interval: float = CHECK_INTERVAL
    probe: Callable[[], Awaitable[object]] | None = None
    now: Clock = time.monotonic
    sleep: Sleep = asyncio.sleep

    def __post_init__(self) -> None:
        self._unrecorded = self.metrics.gauge(CONNECTIONS_UNRECORDED)
        self._restored = self.metrics.counter(UA_RECORD_RESTORED)
        self._found = 0  # wrong records since the last sweep ended
        self._missed = 0  # users that had missed messages
        self._asked: dict[ConnectedUser, None] = {}  # at most the open sockets
        self._is_asked = asyncio.Event()
        self._failovers = self.store.engine.failovers
        self._outage_at: float | None = None  # when this node was last out of touch
        self._checking: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Until cancelled."""
        parts = [
            repeat(self._watch, lambda: 0.0, "Presence.watch"),
            repeat(self._check_asked, lambda: 0.0, "Presence.asked"),
        ]
        if self.interval:
            parts.append(repeat(self._sweep, lambda: 0.0, "Presence.sweep"))
        try:
            await asyncio.gather(*parts)
        finally:
            if self._checking is not None:
                self._checking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._checking

    # --- when -------------------------------------------------------------------------------------

    def check_soon(self, user: ConnectedUser) -> None:
        """Check the record of this user; those of many together."""
        self._asked[user] = None
        self._is_asked.set()

    async def _check_asked(self) -> None:
        await self._is_asked.wait()
        users = list(islice(self._asked, BATCH))
        for user in users:
            del self._asked[user]
        if not self._asked:
            self._is_asked.clear()
        # The store has reported the failure, and the sweep checks them too.
        with contextlib.suppress(KeytablesError):
            await self._check(users, Depth.RECORD)

    async def _sweep(self) -> None:
        """Check the record of every user, spread over the interval."""
        users = list(self.registry.sockets)
        limiter = RateLimiter(max(len(users), 1) / self.interval, clock=self.now, sleep=self.sleep)
        for start in range(0, len(users), BATCH):
            batch = users[start : start + BATCH]
            await limiter.acquire(len(batch))
            with contextlib.suppress(KeytablesError):  # as above
                await self._check(batch, Depth.RECORD)
            self._unrecorded.set(max(self._unrecorded.value, self._found))
        if not users:
            await limiter.acquire(1)
        await limiter.acquire(0)
        self._unrecorded.set(self._found)
        if self._found:
            _log.warning(
                "Router records of connected users did not name this node", users=self._found
            )
        self._found = 0

    async def _watch(self) -> None:
        began = self.now()
        answered = await self._store_answers()
        await self.sleep(until_next(PROBE_INTERVAL, self.now()))
        now, failovers = self.now(), self.store.engine.failovers
        if self.placement.look_for_others():
            self._outage_at = now - QUIET_PERIOD  # what is not on record comes on record now
        if not answered or now > began + PROBE_INTERVAL + PROBE_TOLERANCE:
            self._outage_at = now
        elif self._checking is not None and not self._checking.done():
            pass
        elif failovers != self._failovers:
            self._failovers = failovers
            self._checking = asyncio.ensure_future(self._check_all(Depth.SUBSCRIPTIONS))
        elif self._outage_at is not None and now >= self._outage_at + QUIET_PERIOD:
            self._outage_at = None
            self._checking = asyncio.ensure_future(self._check_all(Depth.MESSAGES))

    async def _store_answers(self) -> bool:
        if self.probe is not None:
            try:
                await self.probe()
            except KeytablesError:
                return False
        return True

    async def _check_all(self, depth: Depth) -> None:
        users = list(self.registry.sockets)
        _log.info("This node was out of touch: checking storage", users=len(users))
        rate: float = USERS_CHECKED_PER_SECOND
        if depth is Depth.SUBSCRIPTIONS:
            rate = max(rate, 2 * len(users) / RESTORE_TIME)
        limiter = RateLimiter(rate, clock=self.now, sleep=self.sleep)
        missed_before = self._missed
        # Those that are busy with a request come again at the end.
        for user in chain(users, filter(self._is_busy, users)):
            await limiter.acquire(1)
            try:
                await limiter.with_retries(partial(self._check, [user], depth))
            except (Throttled, Unavailable):
                self._outage_at = self.now()
                if depth is Depth.SUBSCRIPTIONS:
                    self._failovers = -1  # from the beginning
                return
            except KeytablesError:
                user.check_storage()  # the session decides whether to read
        _log.info("Checked storage after an outage", found=self._missed - missed_before)

    def _is_busy(self, user: ConnectedUser) -> bool:
        return user.is_connected and not user.is_active

    # --- what -------------------------------------------------------------------------------------

    async def _check(self, users: Sequence[ConnectedUser], depth: Depth) -> None:
        """:raises KeytablesError: the store failed; some may have been checked"""
        here = {user.uaid: user for user in users if user.uaid is not None and self._is_here(user)}
        if not here:
            return
        records = await self.store.users.get_all([*here])
        for uaid, user in here.items():
            if self._is_here(user) and await self._check_user(uaid, user, records.get(uaid), depth):
                self._missed += 1
                user.check_storage()

    def _is_here(self, user: ConnectedUser) -> bool:
        uaid = user.uaid
        is_recorded = uaid is not None and user.is_active and user.is_recorded
        return is_recorded and self.registry.find(uaid or "") is user

    async def _check_user(
        self, uaid: str, user: ConnectedUser, record: UserRecord | None, depth: Depth
    ) -> bool:
        """Returns whether the user may have missed messages."""
        messages, connected_at = user.messages, user.connected_at
        if depth is Depth.SUBSCRIPTIONS and isinstance(messages, Messages):
            stored = await messages.channels(uaid)
            lost = user.channels.difference(stored)
            if lost and user.is_active:  # else one may be about to be unsubscribed
                await messages.add_channels(uaid, lost)
        if record is None:
            if self.store.is_restoring:
                return await self._restore(uaid, user)
            # Deleted by an operator.
            user.disconnect(NORMAL_CLOSURE, USER_RESET)
            return False
        own = (self.nodes.own_id, connected_at)
        if record.router_type != messages.router_type or _is_newer(record, *own):
            user.disconnect(NORMAL_CLOSURE, REPLACED)
            return False
        if depth is Depth.SUBSCRIPTIONS and record.current_month != _table(messages):
            user.disconnect(GOING_AWAY, RECORD_OUTDATED)
            return False
        must_be_on_record = user.is_on_record or self.placement.needs_record(record)
        is_wrong = must_be_on_record and (record.node_id, record.connected_at) != own
        if is_wrong or record.unread:
            self._count_found(is_wrong and user.is_on_record)
            user.is_on_record = await self.store.users.confirm(record, *own)
            return user.is_on_record
        # Not left to the session, which has to end when the store is too busy.
        return depth >= Depth.MESSAGES and bool((await messages.read(uaid, None)).messages)

    async def _restore(self, uaid: str, user: ConnectedUser) -> bool:
        self._count_found(True)
        record = UserRecord(
            uaid,
            user.messages.router_type,
            user.connected_at,
            self.nodes.own_id,
            _table(user.messages),
            min_urgency=user.min_urgency,
            secret_hash=user.secret_hash,
            account=user.account,
        )
        return await self.store.users.restore(record)

    def _count_found(self, is_wrong: bool) -> None:
        self._found += is_wrong
        self._restored.add(is_wrong)


def _table(messages: UserMessages) -> str | None:
    return messages.name if isinstance(messages, Messages) else None


def _is_newer(record: UserRecord, node_id: str, connected_at: int) -> bool:
    """Whether the record is of a newer connection than this one, or of one since."""
    if record.connected_at == connected_at:
        return record.node_id not in (None, node_id)
    return record.connected_at > connected_at
