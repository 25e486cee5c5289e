"""What the two kinds of node have in common: the values both are made of, and how a worker runs
them.

Rule: everything is passed in, nothing is global.
"""

import asyncio
import socket
from typing import Final, Protocol

from autopush import responses
from autopush.clock import Clock
from autopush.dockerflow import Dockerflow
from autopush.keys import ServiceKeys
from autopush.net.http import HttpServer
from autopush.net.http_messages import Handler, Limits, Request
from autopush.net.timers import TimerWheel
from autopush.routing.connected import Registry
from autopush.routing.nodes import Nodes
from autopush.settings import Settings
from autopush.store import PushStore
from autopush.telemetry import logs
from autopush.webpush.endpoint_token import EndpointTokens
from autopush.webpush.keyring import KeyRing

REQUESTS_END: Final = 5.0
TOKENS_REMEMBERED: Final = 8192

_log = logs.get("worker")


class Shared:
    """What all parts of one worker use.

    `own_id`: this worker's internal URL; empty where it holds no user agents. Then the registry
    stays empty, and every node is another one.
    """

    def __init__(
        self, settings: Settings, keys: ServiceKeys, store: PushStore, clock: Clock, own_id: str
    ) -> None:
        self.settings = settings
        self.store = store
        self.clock = clock
        self.wheel = TimerWheel(asyncio.get_running_loop())
        self.registry = Registry()
        self.nodes = Nodes(own_id, self.registry, self.wheel, settings.connection_timeout)
        self.ring = KeyRing(keys.crypto)
        self.tokens = EndpointTokens(self.ring, settings.public_endpoint_url, TOKENS_REMEMBERED)
        self.dockerflow = Dockerflow(store, lambda: len(self.registry.sockets))

    def http(self, handler: Handler, limits: Limits) -> HttpServer:
        """A server for one port."""
        return HttpServer(
            handler,
            limits=limits,
            wheel=self.wheel,
            error_response=responses.protocol_error,
            on_crash=_crashed,
        )

    def close(self) -> None:
        """Close what is left when all parts have finished."""
        self.nodes.close()
        self.wheel.close()


class Part(Protocol):
    """A kind of node, as far as the worker has to know it."""

    @property
    def servers(self) -> list[tuple[HttpServer, socket.socket]]:
        """What is served on which listening socket."""

    async def finish(self) -> None:
        """Nothing new comes in: end what is in progress, and save what has to be."""


def _crashed(error: Exception, request: Request) -> None:
    # The path may hold an endpoint, which is a secret: only its first segment is told.
    where = "/".join(request.path.split("/")[:2])
    _log.exception("Request failed", error=error, method=request.method, path=where)
