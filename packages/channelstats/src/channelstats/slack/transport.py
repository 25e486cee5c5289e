"""Requests of the Web API over HTTP, by the client of slack_sdk.

Rule: what slack_sdk raises or would log goes no further than here: it may hold what people wrote.
Its own retry handlers and its iteration over pages are not used: they call Slack before its limit
allows it, sleep where nobody else can watch the time, and repeat what must not be done twice.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Self

import aiohttp
from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from channelstats.identifiers import is_token
from channelstats.slack.client import ApiResponse, SlackCall, TransportError

BASE_URL: Final = "https://slack.com/api/"
_TAKEN: Final = 200
_TIMEOUT: Final = aiohttp.ClientTimeout(total=60, connect=20)


class SdkTransport:
    """A `Transport` over `AsyncWebClient`, without repeating and waiting."""

    def __init__(self, client: AsyncWebClient, session: aiohttp.ClientSession) -> None:
        self._client, self._session = client, session

    @classmethod
    @asynccontextmanager
    async def open(cls, token: str, *, base_url: str = BASE_URL) -> AsyncIterator[Self]:
        """Prepare connections, which are closed in the end; none is made yet.

        :raises ValueError: the token is empty or holds what no token holds
        """
        if not is_token(token := token.strip()):
            raise ValueError("token: expected visible ASCII characters, as in xoxp-…")
        quiet = logging.Logger("slack_sdk", logging.CRITICAL)  # its own, on no tree
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            client = AsyncWebClient(
                token, base_url=base_url, session=session, logger=quiet, retry_handlers=[]
            )
            yield cls(client, session)

    async def send(self, call: SlackCall) -> ApiResponse:
        try:
            if call.url:
                return await self._upload(call)
            if call.body is None:
                params = dict(call.params)
                asked = self._client.api_call(call.method, http_verb="GET", params=params)
            else:
                asked = self._client.api_call(call.method, json=dict(call.body))
            answer: object = await asked
        except SlackClientError as error:
            answer = getattr(error, "response", None)
        except tuple(_TROUBLES) as error:
            trouble = next(text for kind, text in _TROUBLES.items() if isinstance(error, kind))
            unsent = isinstance(error, aiohttp.ClientConnectorError)
            raise TransportError(trouble or type(error).__name__, unsent=unsent) from None
        if not isinstance(answer, AsyncSlackResponse):
            raise TransportError("an answer that is no JSON")
        body = answer.data if isinstance(answer.data, dict) else {}
        headers = {name.lower(): str(value) for name, value in answer.headers.items()}
        retry_after, scopes = headers.get("retry-after", ""), headers.get("x-oauth-scopes", "")
        return ApiResponse(answer.status_code, body, retry_after, scopes)

    async def _upload(self, call: SlackCall) -> ApiResponse:
        # The address is a secret of its own: no token goes there, and no redirection is followed.
        async with self._session.post(call.url, data=call.data, allow_redirects=False) as answer:
            retry_after = answer.headers.get("Retry-After", "")
            return ApiResponse(answer.status, {"ok": answer.status == _TAKEN}, retry_after)


_TROUBLES: Final[dict[type[Exception], str]] = {
    aiohttp.ClientConnectorError: "no connection",
    TimeoutError: "no answer in time",
    aiohttp.ServerDisconnectedError: "the connection was cut",
    aiohttp.ClientPayloadError: "the answer was cut",
    ConnectionError: "the connection was cut",
    aiohttp.ClientError: "",
    OSError: "",
    ValueError: "",
    AttributeError: "",  # the client trips over an answer of plain text
}
"""What is reported of each error, the first match; "" for the name of its class."""
