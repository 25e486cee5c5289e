"""The connection node: all user agents of one worker, and what their connections share."""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Final

from autopush.clock import Clock
from autopush.delivery.background import BackgroundWrites
from autopush.delivery.clients import Clients
from autopush.delivery.connected import ConnectedUser, Registry
from autopush.delivery.peers import Nodes
from autopush.delivery.requests import StoreRequests
from autopush.delivery.session_log import SessionLog
from autopush.limits import UserAgentLimits
from autopush.net.client_limits import BufferedBytes, ConnectionLimits
from autopush.net.timers import TimerWheel
from autopush.protocol.broadcasts import NO_BROADCASTS, Broadcasts
from autopush.protocol.effects import DropReason
from autopush.protocol.rules import GOING_AWAY, STOPPING, Rules
from autopush.store import PushStore
from autopush.telemetry.metric_table import (
    CONNECTIONS,
    UA_ALREADY_CONNECTED,
    UA_NOTIFICATION_CHECK,
)
from autopush.telemetry.metrics import Metrics
from autopush.webpush.endpoint_token import EndpointTokens

REFRESH_WITHIN: Final = 3600.0
"""Seconds over which the records of long connections are refreshed."""
USERS_PER_SLICE: Final = 250
CLOSES_PER_SLICE: Final = 50
CLOSE_PAUSE: Final = 0.005


class ConnectionNode:
    """See the module. `nodes.own_id` is what the router records of its users name.

    Timeouts are seconds; `max_connections` of 0 is no limit.
    """

    def __init__(
        self,
        *,
        store: PushStore,
        metrics: Metrics,
        nodes: Nodes,
        registry: Registry,
        tokens: EndpointTokens,
        rules: Rules,
        limits: UserAgentLimits,
        wheel: TimerWheel,
        clock: Clock,
        hello_timeout: float,
        auto_ping_timeout: float,
        close_timeout: float,
        max_connections: int,
        connection_limits: ConnectionLimits,
        buffered: BufferedBytes,
        broadcasts: Broadcasts = NO_BROADCASTS,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.store = store
        self.registry = registry
        self.rules = rules
        self.limits = limits
        self.broadcasts = broadcasts
        self.wheel = wheel
        self.clock = clock
        self.hello_timeout = hello_timeout
        self.auto_ping_timeout = auto_ping_timeout
        self.close_timeout = close_timeout
        self.uniform = uniform
        self.connections = metrics.gauge(CONNECTIONS)
        self.notification_checks = metrics.counter(UA_NOTIFICATION_CHECK)
        self.clients = Clients(metrics)
        self.log = SessionLog(store.uaid_hash, metrics)
        self.background = BackgroundWrites(store, nodes, wheel, registry.acked)
        self.requests = StoreRequests(
            store,
            nodes,
            registry,
            tokens,
            self.background,
            on_dropped=self.log.dropped,
            already_connected=metrics.counter(UA_ALREADY_CONNECTED),
        )
        self.connection_limits = connection_limits
        self.buffered = buffered
        self._max_connections = max_connections
        self._stopping = False
        store.on_month_change(self._on_month_change)
        store.users.on_incomplete(partial(self.log.dropped, reason=DropReason.INCOMPLETE_RECORD))

    @property
    def is_accepting(self) -> bool:
        """Whether another connection may be opened."""
        limit = self._max_connections
        return not self._stopping and (not limit or len(self.registry.sockets) < limit)

    async def _on_month_change(self) -> None:
        """Records are refreshed, and users change tables, when they connect. One that has not done
        so for a whole month does it now, before it or its message table may be dropped.
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
            self.background.refresh_last_connect(user.uaid, user.connected_at)

    async def shutdown(self, seconds: float) -> None:
        """Close every socket with 1001, a few at a time, and wait until all messages are saved."""
        self._stopping = True
        deadline = asyncio.get_running_loop().time() + seconds
        for number, user in enumerate(list(self.registry.sockets), 1):
            user.disconnect(GOING_AWAY, STOPPING)
            if number % CLOSES_PER_SLICE == 0:
                await asyncio.sleep(CLOSE_PAUSE)
        await self.background.finished(deadline - asyncio.get_running_loop().time())
        for user in list(self.registry.sockets):
            user.abort()
