"""The connection node: all user agents of one worker, and what their connections share."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from autopush.admission import AccountLimits
from autopush.clock import Clock
from autopush.delivery.background import BackgroundWrites
from autopush.delivery.connected import ConnectedUser, Registry
from autopush.delivery.peers import Nodes
from autopush.delivery.placement import Placement
from autopush.delivery.presence import CHECK_INTERVAL, Presence
from autopush.delivery.requests import StoreRequests
from autopush.delivery.session_log import Clients, SessionLog
from autopush.limits import UserAgentLimits
from autopush.net.client_limits import BufferedBytes, ConnectionLimits
from autopush.net.timers import TimerWheel
from autopush.protocol.broadcasts import NO_BROADCASTS, Broadcasts
from autopush.protocol.effects import (
    GOING_AWAY,
    NO_ACCOUNT,
    PROTOCOL_VIOLATION,
    REVOKED,
    STOPPING,
    TOO_MANY_CONNECTIONS,
    TRY_AGAIN_LATER,
    DropReason,
)
from autopush.protocol.session import SessionSettings
from autopush.protocol.session_state import SessionMetrics
from autopush.store import PushStore, UserRecord
from autopush.telemetry.metric_table import CONNECTIONS, UA_ALREADY_CONNECTED, UA_NOTIFICATION_CHECK
from autopush.telemetry.metrics import Metrics
from autopush.webpush.errors import PushError
from autopush.webpush.tokens import EndpointTokens

REFRESH_WITHIN: Final = 3600.0
"""Seconds over which refreshes of long connections are spread."""
USERS_PER_SLICE: Final = 250
CLOSES_PER_SLICE: Final = 50
CLOSE_PAUSE: Final = 0.005

CLOSES: Final = {
    401: (PROTOCOL_VIOLATION, NO_ACCOUNT),
    403: (PROTOCOL_VIOLATION, REVOKED),
    429: (PROTOCOL_VIOLATION, TOO_MANY_CONNECTIONS),
    503: (TRY_AGAIN_LATER, "try again"),
}
"""By the status with which `AccountLimits` refuses: code and reason."""


def _stay(_owner: int, _connection: object, _hello: bytes, stay: Callable[[], None]) -> None:
    """In place of `Movers.move_with_hello` where no other worker could take the connection."""
    stay()


@dataclass(eq=False, kw_only=True)
class ConnectionNode:
    """`nodes.own_id`: named in its users' router records. `max_connections`: 0 for no limit.
    `move_with_hello`: moves a connection to another worker, see `Movers`. `accounts`: None admits
    user agents without one. `record_check_interval`, `probe`: see `Presence`.
    """

    store: PushStore
    metrics: Metrics
    nodes: Nodes
    registry: Registry
    tokens: EndpointTokens
    session_settings: SessionSettings
    limits: UserAgentLimits
    wheel: TimerWheel
    clock: Clock
    connection_limits: ConnectionLimits
    buffered: BufferedBytes
    placement: Placement
    accounts: AccountLimits | None = None
    move_with_hello: Callable[[int, Any, bytes, Callable[[], None]], None] = _stay
    broadcasts: Broadcasts = NO_BROADCASTS
    max_connections: int = 0
    record_check_interval: float = CHECK_INTERVAL
    probe: Callable[[], Awaitable[object]] | None = None
    monotonic: Clock = time.monotonic
    uniform: Callable[[float, float], float] = random.uniform

    def __post_init__(self) -> None:
        if self.accounts is not None:
            self.accounts.end_sessions = self._end_sessions
        self.connections = self.metrics.gauge(CONNECTIONS)
        self.notification_checks = self.metrics.counter(UA_NOTIFICATION_CHECK)
        self.clients = Clients()
        self.session_metrics = SessionMetrics(self.metrics)
        self.log = SessionLog(self.store.uaid_hash, self.metrics)
        self.background = BackgroundWrites(
            self.store,
            self.nodes,
            self.wheel,
            self.registry.acked,
            self.tokens.ring,
            self.placement,
        )
        self.requests = StoreRequests(
            self.store,
            self.nodes,
            self.registry,
            self.tokens,
            self.background,
            self.placement,
            may_take=self.accounts.may_take if self.accounts is not None else None,
            on_dropped=self.log.dropped,
            already_connected=self.metrics.counter(UA_ALREADY_CONNECTED),
        )
        self.presence = Presence(
            self.store,
            self.registry,
            self.nodes,
            self.placement,
            self.metrics,
            interval=self.record_check_interval,
            probe=self.probe,
            now=self.monotonic,
        )
        self.is_stopping = self.is_handing_over = False
        self.store.on_month_change(self._on_month_change)
        self.store.users.on_incomplete(
            partial(self.log.dropped, reason=DropReason.INCOMPLETE_RECORD)
        )

    @property
    def is_accepting(self) -> bool:
        limit = self.max_connections
        return not self.is_stopping and (not limit or len(self.registry.sockets) < limit)

    async def _on_month_change(self) -> None:
        """Connections older than a month do now what others do at their hello: refresh the record
        or change tables, before the record or the table may be dropped.
        """
        for number, user in enumerate(list(self.registry.sockets), 1):
            if user.uaid is not None and user.is_recorded:
                if self.store.is_expiring(user.messages):
                    user.schedule_table_change()
                elif self.store.is_stale(user.connected_at):
                    self.wheel.after(self.uniform(0, REFRESH_WITHIN), self._refresh, user)
            if number % USERS_PER_SLICE == 0:
                await asyncio.sleep(0)

    def _refresh(self, user: ConnectedUser) -> None:
        if user.is_connected and user.uaid is not None:
            if user.is_on_record:
                self.background.refresh_last_connect(user.uaid, user.connected_at)
            else:
                self.background.start(partial(self.requests.put_on_record, user))

    def drop_user(self, user: ConnectedUser) -> None:
        """Delete the user, unless it has another connection; its next hello gets a new UAID."""
        record = UserRecord(
            user.uaid or "",
            user.messages.router_type,
            user.connected_at,
            current_month=user.messages.name,
        )

        async def drop() -> None:
            if await self.requests.put_on_record(user):
                await self.store.drop_user(record)

        self.background.start(drop)

    def open_account(self, account: str, address_key: str) -> PushError | None:
        """Count a socket that opens here, wherever it comes from; the refusal, if it may not."""
        return self._refusal(AccountLimits.open, account, address_key)

    def refuse_hello(self, account: str, address_key: str) -> PushError | None:
        """The refusal of a socket that has been open for a while, if it may not say hello."""
        return self._refusal(AccountLimits.admit, account, address_key)

    def _refusal(
        self, check: Callable[[AccountLimits, str, str], object], account: str, address_key: str
    ) -> PushError | None:
        if self.accounts is not None:
            try:
                check(self.accounts, account, address_key)
            except PushError as refusal:
                return refusal
        return None

    async def _end_sessions(self, accounts: Collection[str]) -> None:
        for number, user in enumerate(list(self.registry.sockets), 1):
            if user.account in accounts:
                user.disconnect(PROTOCOL_VIOLATION, REVOKED)
            if number % USERS_PER_SLICE == 0:
                await asyncio.sleep(0)

    async def drain(self, seconds: float, end: Callable[[ConnectedUser], Awaitable[None]]) -> None:
        """Call `end` for every socket, the oldest first, spread at random over so many seconds:
        what is disconnected together comes back together.
        """
        loop = asyncio.get_running_loop()
        began, users = loop.time(), [each for each in self.registry.sockets if each.is_connected]
        for number, user in enumerate(users):
            due = began + (number + self.uniform(0, 1)) * seconds / len(users)
            if (early := due - loop.time()) > 0:
                await asyncio.sleep(early)
            await end(user)

    async def shutdown(self, seconds: float) -> None:
        """Close every socket with 1001, a few at a time; wait up to `seconds` for the saves."""
        self.is_stopping = True
        deadline = asyncio.get_running_loop().time() + seconds
        for number, user in enumerate(list(self.registry.sockets), 1):
            user.disconnect(GOING_AWAY, STOPPING)
            if number % CLOSES_PER_SLICE == 0:
                await asyncio.sleep(CLOSE_PAUSE)
        await self.background.finished(deadline - asyncio.get_running_loop().time())
        for user in list(self.registry.sockets):
            user.abort()
