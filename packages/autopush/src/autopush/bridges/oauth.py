"""OAuth access tokens, which a provider issues for a limited time.

Rule: one request at a time fetches a token, ahead of expiry: while the old one is valid, no
notification waits for it or fails without it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from autopush.bridges.provider import Reply, timed_out
from autopush.clock import Clock
from autopush.delivery.bridge_contract import RouterError
from autopush.telemetry import logs

AHEAD: Final = 300.0
"""Seconds before expiry at which a token is replaced; less for lifetimes under 20 minutes."""
LEAST_VALIDITY: Final = 10.0
"""Seconds a token must still be valid to be handed out; less for lifetimes under 100 s."""
PAUSE: Final = 10.0
"""Seconds between attempts to replace a token that is still valid."""
FETCH_TIMEOUT: Final = 10.0

_log = logs.get(__name__)


class Grant(Struct, frozen=True):
    """A token as issued. `lifetime`: seconds."""

    token: str
    lifetime: float

    # Keeps the token out of logs.
    def __repr__(self) -> str:
        return f"Grant(lifetime={self.lifetime})"


class TokenCache:
    """The current token of one account. `account`: its name in logs; `fetch`: gets a new token."""

    def __init__(self, account: str, fetch: Callable[[], Awaitable[Grant]], clock: Clock) -> None:
        self._account = account
        self._fetch = fetch
        self._clock = clock
        self._token = ""
        self._replace_at = 0.0
        self._expires_at = 0.0
        self._replacement: asyncio.Task[str | RouterError] | None = None

    async def get(self, *, refused: str | None = None) -> str:
        """A valid token. `refused`: one that the provider no longer accepts.

        :raises RouterError: no token is valid, and none was issued
        """
        now = self._clock()
        if now < self._expires_at and self._token != refused:
            if now >= self._replace_at:
                self._replace()
            return self._token
        # Cancelling one waiter must not cancel the shared task.
        result = await asyncio.shield(self._replace())
        if isinstance(result, RouterError):
            # A new error for each waiter: a raised one belongs to one task.
            raise RouterError(
                result.errno,
                result.message,
                status=result.status,
                headers=result.headers,
                is_outage=result.is_outage,
            )
        return result

    async def use(
        self, send: Callable[[str], Awaitable[Reply]], is_refused: Callable[[Reply], bool]
    ) -> Reply:
        """Send with the current token, and again with a new one if the provider refuses it.

        :raises RouterError: as `get`, or as `send`
        """
        token = await self.get()
        reply = await send(token)
        return await send(await self.get(refused=token)) if is_refused(reply) else reply

    async def close(self) -> None:
        if self._replacement is not None:
            self._replacement.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._replacement

    def _replace(self) -> "asyncio.Task[str | RouterError]":
        if self._replacement is None:
            self._replacement = asyncio.create_task(self._run_replacement())
        return self._replacement

    async def _run_replacement(self) -> str | RouterError:
        """The new token, or the error, returned because perhaps nobody awaits the task."""
        try:
            async with asyncio.timeout(FETCH_TIMEOUT):
                grant = await self._fetch()
        except TimeoutError:
            return self._failed(timed_out())
        except RouterError as error:
            return self._failed(error)
        finally:
            self._replacement = None
        expires_at = self._clock() + grant.lifetime
        self._token = grant.token
        self._expires_at = expires_at - min(LEAST_VALIDITY, grant.lifetime / 10)
        self._replace_at = expires_at - min(AHEAD, grant.lifetime / 4)
        return grant.token

    def _failed(self, error: RouterError) -> RouterError:
        self._replace_at = self._clock() + PAUSE
        _log.warning("No access token was issued", account=self._account, errno=error.errno)
        return error
