"""Signatures of senders not seen before, verified several in a row.

A signature costs about a tenth of a millisecond of pure computation. Verified one after the other
they find their tables in the processor's cache; one by one between other work each costs twice as
much. So they are verified in slices of less than a millisecond (`TIME_SLICE`).

Rule: the users that messages are for take turns, one signature each: whoever sends many to one of
them, with ever new tokens, delays no message to another.
"""

import asyncio
from collections import OrderedDict, deque
from time import perf_counter
from typing import Final

from autopush.webpush.errors import Errno, PushError
from autopush.webpush.vapid import Claims, Credentials, Verifier

TIME_SLICE: Final = 0.0008
"""Seconds of verifying until other work gets its turn."""
MAX_WAITING: Final = 10_000
"""Signatures that wait; further ones are refused."""
MAX_WAITING_OF_USER: Final = 500
"""Of them those of messages to one user."""

Waiting = deque[tuple[Credentials, asyncio.Future[Claims]]]


class SignatureQueue:
    """See the module."""

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
        self._max_waiting = max_waiting
        self._max_waiting_of_user = max_waiting_of_user
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()  # the next one to serve is first
        self._count = 0

    async def verify(self, credentials: Credentials, uaid: str) -> Claims:
        """The claims of these credentials, which have none yet. `uaid`: of the user that the
        message is for.

        :raises PushError: 401/109, not signed by that key; 503/201, too many are waiting
        """
        of_user = self._waiting.get(uaid)
        if self._count >= self._max_waiting or (
            of_user is not None and len(of_user) >= self._max_waiting_of_user
        ):
            raise PushError(Errno.BACK_OFF, "Too many signatures to verify")
        loop = asyncio.get_running_loop()
        if not self._count:
            loop.call_soon(self._run_slice)
        if of_user is None:
            of_user = self._waiting[uaid] = deque()
        future: asyncio.Future[Claims] = loop.create_future()
        of_user.append((credentials, future))
        self._count += 1
        return await future

    def _run_slice(self) -> None:
        end = perf_counter() + self._time_slice
        while self._count:
            credentials, future = self._next()
            try:
                # Of many messages with the same new token, the first one has it verified.
                known = self._verifier.known(credentials)
                claims = self._verifier.verify(credentials) if known is None else known
                self._verifier.remember(credentials, claims)
            except Exception as error:  # noqa: BLE001 - raised to its sender; the others go on
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(claims)
            if perf_counter() >= end and self._count:
                asyncio.get_running_loop().call_soon(self._run_slice)
                return

    def _next(self) -> tuple[Credentials, asyncio.Future[Claims]]:
        uaid, of_user = self._waiting.popitem(last=False)
        self._count -= 1
        waiting = of_user.popleft()
        if of_user:
            self._waiting[uaid] = of_user
        return waiting
