"""Calls of the Web API and its listings, by slack_sdk.

Rule: a call is repeated when Slack asks for it or the network fails, never when Slack refuses, and
never for ever. What must not be done twice is repeated only where Slack has surely not done it.

Rule: what slack_sdk raises or would log goes no further than here: it may hold what people wrote.

Its retry handlers are not used: they repeat what must not be done twice, sleep where no test can
watch the time, and let each call find out by itself that Slack holds a method. Nor is its iteration
over pages, which ends at a cursor that has expired, and never where one comes again.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import aiohttp
from slack_sdk.errors import SlackClientError, SlackRequestError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from channelstats.identifiers import is_token
from channelstats.slack.errors import (
    PASSING,
    RATE_LIMITED,
    InvalidCursor,
    NoAnswer,
    code_of,
    error_of,
)
from channelstats.slack.rate_limits import AppKind, Sleep, limits
from keytables import Clock
from keytables.retries import Backoff

BASE_URL: Final = "https://slack.com/api/"

RESTARTS: Final = 5
"""Times that a listing begins from the start."""
TRIES: Final = 6
"""Tries of a call that meets server errors or broken connections."""
HOLDS: Final = 30
"""Times that a call waits because Slack says so."""

_USUAL_HOLD, _REPORTED_HOLD, _LONGEST_HOLD = 30.0, 60.0, 3600.0
"""Seconds to wait where Slack does not say how long; that are reported; that are an error."""
_TIMEOUT: Final = aiohttp.ClientTimeout(total=60, connect=20)
_SERVER_ERROR, _TOO_MANY = 500, 429
_QUIET: Final = logging.Logger("slack_sdk", logging.CRITICAL)  # its own, on no tree

_TROUBLES: Final[dict[type[Exception], str]] = {
    aiohttp.ClientConnectorError: "no connection",
    TimeoutError: "no answer in time",
    aiohttp.ClientPayloadError: "the answer was cut",
    aiohttp.ClientError: "the connection was cut",
    OSError: "the connection was cut",
    SlackRequestError: "the file was not taken",
    SlackClientError: "an answer that is no JSON",
    ValueError: "an answer that is no JSON",
    AttributeError: "an answer that is no JSON",  # slack_sdk trips over plain text
    TypeError: "an answer without what was asked",  # and over a field that is missing
}
"""What slack_sdk raises where there is no answer of use, and what is reported of it."""
_UNDONE: Final = (aiohttp.ClientConnectorError, SlackRequestError)
"""Of those, where nothing has been done yet."""

Params: TypeAlias = Mapping[str, str | int | bool]
Body: TypeAlias = Mapping[str, object]
Check: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(kw_only=True, eq=False, repr=False)
class SlackClient:
    """Calls methods one by one, within ``async with``. ``clock`` counts seconds and never goes
    back; ``say`` is given a line where Slack has us wait long.

    :raises ValueError: the token is empty or holds what no token holds
    """

    token: str
    kind: AppKind
    clock: Clock
    sleep: Sleep
    base_url: str = BASE_URL
    say: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        if not is_token(self.token.strip()):
            raise ValueError("token: expected visible ASCII characters, as in xoxp-…")
        self._backoff = Backoff(1.0, 60.0, 0.5)
        self._limits = limits(self.kind)
        self._free_at = defaultdict[str, float](float)
        self._order = defaultdict[str, asyncio.Lock](asyncio.Lock)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=_TIMEOUT)
        self._web = AsyncWebClient(
            self.token.strip(),
            base_url=self.base_url,
            session=self._session,
            logger=_QUIET,
            retry_handlers=[],
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def call(
        self,
        method: str,
        params: Params | None = None,
        *,
        json: Body | None = None,
        once: bool = False,
        before: Check | None = None,
    ) -> AsyncSlackResponse:
        """Call a method that reads with ``params`` or changes something with ``json``; return the
        answer. ``once``: it is not repeated where it may have been done. ``before`` each request,
        this is awaited; an error of it ends the call.

        :raises SlackError: Slack refuses, or there is no answer in spite of repetition; after a
            `NoAnswer` it may have been done
        """
        verb, asked = "GET" if json is None else "POST", dict(params or {})
        body = None if json is None else dict(json)

        def send() -> Awaitable[AsyncSlackResponse]:
            return self._web.api_call(method, http_verb=verb, params=asked, json=body)

        return await self._request(method, send, once=once, before=before)

    async def upload(self, before: Check | None, **file: Any) -> None:
        """Put a file into a channel, once, as `AsyncWebClient.files_upload_v2` does."""
        method = "files.completeUploadExternal"
        await self._request(
            method, lambda: self._web.files_upload_v2(**file), once=True, before=before
        )

    async def pages(self, method: str, key: str, params: Params) -> AsyncIterator[dict[str, Any]]:
        """Every answer of a listing, with a list under ``key``, until Slack gives no further
        cursor; a short page is not the end. If a cursor has expired it begins from the start, so
        what it yields may come twice.

        :raises SlackError: as in `call`
        """
        asked, restarts, cursors = {**params, "limit": self._limits[method].items}, 0, set[str]()
        while True:
            try:
                body = (await self.call(method, asked)).data
            except InvalidCursor:
                restarts += 1
                if "cursor" not in asked or restarts > RESTARTS:
                    raise
                del asked["cursor"]
                cursors.clear()
                continue
            if not (isinstance(body, dict) and isinstance(body.get(key), list)):
                raise NoAnswer(method, f"an answer without a list {key!r}")
            yield body
            metadata = body.get("response_metadata")
            cursor = metadata.get("next_cursor") if isinstance(metadata, dict) else None
            if not (isinstance(cursor, str) and cursor):
                return
            if cursor in cursors:
                raise NoAnswer(method, "the same cursor came twice")
            cursors.add(cursor)
            asked["cursor"] = cursor

    async def _request(
        self,
        method: str,
        send: Callable[[], Awaitable[AsyncSlackResponse]],
        *,
        once: bool,
        before: Check | None,
    ) -> AsyncSlackResponse:
        """Send a request, as often as it takes; return the answer if it is ``ok``."""
        failures = holds = 0
        while True:
            await self._turn(method)
            if before is not None:
                await before()
            try:
                return await send()
            except tuple(_TROUBLES) as error:
                trouble = next(text for kind, text in _TROUBLES.items() if isinstance(error, kind))
                answer, is_undone = getattr(error, "response", None), isinstance(error, _UNDONE)
            if isinstance(answer, AsyncSlackResponse):
                body = answer.data if isinstance(answer.data, dict) else {}
                code, status = code_of(body), answer.status_code
                if status == _TOO_MANY or code in RATE_LIMITED:
                    holds += 1
                    self._hold(method, answer.headers.get("Retry-After", ""), holds)
                    continue
                if status < _SERVER_ERROR and "error" in body and code not in PASSING:
                    raise error_of(method, body)
                trouble = f"HTTP {status}"
            failures += 1
            if failures == TRIES or (once and not is_undone):
                times = f", {TRIES} times" if failures == TRIES else ""
                raise NoAnswer(method, f"{trouble}{times}")
            await self.sleep(self._backoff.delay(failures))

    async def _turn(self, method: str) -> None:
        """Wait until the method may be called; who asks first calls first."""
        async with self._order[method]:
            while (wait := self._free_at[method] - self.clock()) > 0:
                await self.sleep(wait)
            if method in self._limits:
                self._free_at[method] = self.clock() + self._limits[method].pause

    def _hold(self, method: str, retry_after: str, holds: int) -> None:
        """Have everybody who calls the method wait as long as Slack says."""
        try:
            seconds = float(retry_after)
        except ValueError:
            seconds = _USUAL_HOLD
        if not 0 <= seconds <= _LONGEST_HOLD:
            raise NoAnswer(method, f"rate limited for {retry_after[:20]} seconds")
        if holds > HOLDS:
            raise NoAnswer(method, f"rate limited {HOLDS} times in a row")
        now = self.clock()
        before = max(now, self._free_at[method])
        self._free_at[method] = max(before, now + seconds)
        if self._free_at[method] - before > _REPORTED_HOLD:  # one of several that wait is reported
            self.say(f"Slack asks to wait {seconds:,.0f} s before the next {method}")
