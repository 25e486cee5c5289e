"""A bridge whose answers a test chooses."""

import asyncio

from autopush.delivery.bridge_contract import Router, RouterResponse
from autopush.store import UserRecord
from autopush.webpush.notification import Notification

Outcome = RouterResponse | Exception | None
TAKEN = RouterResponse()


class ScriptedRouter(Router):
    """Does with each message what `outcome` says; None waits until `release` is set."""

    timeout = 30.0

    def __init__(self, outcome: Outcome = TAKEN) -> None:
        self.outcome = outcome
        self.release = asyncio.Event()
        self.calls: list[tuple[Notification, UserRecord]] = []
        self.is_closed = False

    async def route_notification(
        self, notification: Notification, record: UserRecord
    ) -> RouterResponse:
        self.calls.append((notification, record))
        if self.outcome is None:
            await self.release.wait()
            return TAKEN
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    async def close(self) -> None:
        self.is_closed = True
