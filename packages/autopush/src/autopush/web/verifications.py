"""Verifying VAPID signatures never seen before, a few in a row.

Rule: a signature costs about a tenth of a millisecond of pure computation, so they are done in
stretches of less than a millisecond between turns of the loop. Done one after the other they find
their tables in the processor's cache; done one by one between other work, each costs twice as much.
"""

import asyncio
from collections import deque
from time import perf_counter
from typing import Final

from autopush.webpush.errors import Errno, PushError
from autopush.webpush.vapid import Credentials, Verified, Verifier

STRETCH: Final = 0.0008
"""Seconds."""
MAX_WAITING: Final = 10_000


class Verifications:
    """The queue of signatures to verify."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self._waiting: deque[tuple[Credentials, asyncio.Future[Verified]]] = deque()

    def verify(self, credentials: Credentials) -> "asyncio.Future[Verified]":
        """The sender behind the credentials.

        :raises PushError: 401/109, not signed so; 503/201, too many are waiting
        """
        if len(self._waiting) >= MAX_WAITING:
            raise PushError(Errno.BACK_OFF, "Too many signatures to verify")
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._stretch)
        future: asyncio.Future[Verified] = loop.create_future()
        self._waiting.append((credentials, future))
        return future

    def _stretch(self) -> None:
        end = perf_counter() + STRETCH
        while self._waiting:
            credentials, future = self._waiting.popleft()
            try:
                verified = self._verifier.verify(credentials)
            except Exception as error:  # noqa: BLE001 - its sender hears of it, the others go on
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(verified)
            if perf_counter() >= end and self._waiting:
                asyncio.get_running_loop().call_soon(self._stretch)
                return
