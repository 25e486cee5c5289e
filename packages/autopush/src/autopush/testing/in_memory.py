"""The service in one event loop, its store in memory."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from autopush.clock import ServiceClock
from autopush.keys import ServiceKeys
from autopush.net.http_messages import Handler, Limits
from autopush.net.http_server import HttpServer
from autopush.net.timers import TimerWheel
from autopush.protocol.effects import NORMAL_CLOSURE, USER_RESET
from autopush.service.compose import IO, compose
from autopush.settings import Settings
from autopush.store import PushStore
from autopush.telemetry.metric_table import METRICS
from autopush.telemetry.metrics import unshared_metrics
from autopush.testing.memory_engine import MemoryEngine
from autopush.testing.steering import Steering
from autopush.testing.user_agents import SimulatedUserAgent, UserAgentKeys
from autopush.webpush.tokens import new_key

MAX_BODY: Final = 1 << 20
SHUTDOWN_TIMEOUT: Final = 0.25
"""Seconds until what is still open is cut off."""

_UNLIMITED: Final[Mapping[str, Any]] = {
    "new_user_agents_rate": None,
    "message_rate": None,
    "registration_rate": None,
    "endpoint_rate": None,
    "gone_rate": None,
    "receipt_rate": None,
    "max_stored_messages": 0,
    "max_stored_bytes": 0,
    "max_connections_per_address": 0,
}
"""A test sends as much as it likes; whoever tests limits has `answer`."""


class InMemoryService:
    """The parts of the service, and what steers them. `url`: of its public port.
    `trusted`: by its user agents, with TLS.
    """

    def __init__(
        self,
        url: str,
        store: PushStore,
        engine: MemoryEngine,
        clock: ServiceClock,
        trusted: ssl.SSLContext | None,
    ) -> None:
        self.engine, self.clock, self._store, self._trusted = engine, clock, store, trusted
        self.wheel = TimerWheel(asyncio.get_running_loop())
        self.agents: dict[str, SimulatedUserAgent] = {}
        """By endpoint."""
        settings = Settings(command="serve", endpoint_url=url, **_UNLIMITED)
        self._parts = compose(
            settings,
            IO(
                store=store,
                metrics=unshared_metrics(METRICS),
                keys=ServiceKeys((new_key(),), (new_key(),)),
                wheel=self.wheel,
                clock=clock,
                node_url=url,
                make_routers=lambda *_: {},
            ),
        )
        assert self._parts.endpoint is not None
        self.websocket_url = settings.public_websocket_url
        self.steering = Steering(
            self._parts.endpoint.app,
            self._parts.requests.refused,
            self._parts.tokens,
            clock,
            self._keys_of,
        )

    async def new_user_agent(self) -> SimulatedUserAgent:
        agent = SimulatedUserAgent(self.websocket_url, self._trusted)
        await agent.connect()
        return agent

    def _keys_of(self, endpoint: str) -> UserAgentKeys | None:
        agent = self.agents.get(endpoint)
        return None if agent is None else agent.keys

    async def expire(self, endpoint: str) -> None:
        """:raises PushError: it is no endpoint of this service"""
        uaid = self._parts.tokens.open(endpoint.rpartition("/")[2]).uaid
        record = await self._store.users.get(uaid)
        if record is not None:
            await self._store.drop_user(record)
        if (user := self._parts.registry.find(uaid)) is not None:
            user.disconnect(NORMAL_CLOSURE, USER_RESET)
        if (agent := self.agents.get(endpoint)) is not None:
            await agent.disconnect()

    def require_vapid(self, *, on: bool) -> None:
        self._parts.apply(replace(self._parts.settings, vapid_required=on))

    def reset(self) -> None:
        self.steering.reset()
        self.clock.ahead, self.engine.nearly_full = 0.0, False
        self.require_vapid(on=False)

    def server(self, handler: Handler) -> HttpServer:
        """That of one port."""
        return HttpServer(
            handler,
            limits=Limits(max_body=MAX_BODY),
            wheel=self.wheel,
            error_response=self._parts.errors.of_protocol,
            on_crash=self._parts.requests.failed,
            connection_limits=self._parts.connection_limits,
        )

    async def close(self, servers: Sequence[HttpServer]) -> None:
        """`servers`: of this service, which accept nothing any more."""
        self.steering.release()
        for agent in self.agents.values():
            await agent.disconnect()
        assert self._parts.websockets is not None
        await self._parts.websockets.node.shutdown(SHUTDOWN_TIMEOUT)
        for server in servers:
            await server.shutdown(SHUTDOWN_TIMEOUT)
        await self._parts.nodes.finish(SHUTDOWN_TIMEOUT)
        self._parts.nodes.close()
        self.wheel.close()
        await self._store.close()
