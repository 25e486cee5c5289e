"""One request to the Web API over HTTP, by the client of slack_sdk.

Rule: what the client raises or would log goes no further than here: it may hold what people wrote.
"""

import logging
import re
from collections.abc import Awaitable, Mapping
from typing import Final, Protocol, Self

import aiohttp
import msgspec
from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

Params = Mapping[str, str | int | bool]

Body = Mapping[str, object]
"""What a method that writes is given: whatever JSON holds."""

BASE_URL: Final = "https://slack.com/api/"

_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,1000}")
_TAKEN: Final = 200
_TIMEOUT: Final = aiohttp.ClientTimeout(total=60, connect=20)


class ApiResponse(msgspec.Struct, frozen=True):
    """What was answered. ``body`` is empty where it was no JSON object; ``scopes`` are the token's,
    where Slack says them.
    """

    status: int
    body: Mapping[str, object]
    retry_after: str = ""
    scopes: str = ""


class TransportError(Exception):
    """There was no answer, or half of one. The message is the kind of trouble. ``unsent``: Slack
    has not even been reached, so it has done nothing.
    """

    def __init__(self, trouble: str, *, unsent: bool = False) -> None:
        super().__init__(trouble)
        self.unsent = unsent


class Transport(Protocol):
    """Calls a method that reads or one that writes, or brings a file to an address that Slack
    gave for it: once, and without judging what is answered. They raise `TransportError` where there
    was no whole answer; what was to be written may have been all the same.
    """

    async def call(self, method: str, params: Params) -> ApiResponse: ...
    async def write(self, method: str, body: Body) -> ApiResponse: ...
    async def upload(self, url: str, data: bytes) -> ApiResponse: ...
    async def close(self) -> None: ...


class SdkTransport:
    """A `Transport` over `AsyncWebClient`. Repeating and waiting are left to whoever calls."""

    def __init__(self, client: AsyncWebClient, session: aiohttp.ClientSession) -> None:
        self._client, self._session = client, session

    @classmethod
    async def open(cls, token: str, *, base_url: str = BASE_URL) -> Self:
        """Prepare connections; none is made yet.

        :raises ValueError: the token is empty or holds what no token holds
        """
        if not _TOKEN.fullmatch(token := token.strip()):
            raise ValueError("token: expected visible ASCII characters, as in xoxp-…")
        session = aiohttp.ClientSession(timeout=_TIMEOUT)
        quiet = logging.Logger("slack_sdk", logging.CRITICAL)  # its own, on no tree
        client = AsyncWebClient(
            token, base_url=base_url, session=session, logger=quiet, retry_handlers=[]
        )
        return cls(client, session)

    async def call(self, method: str, params: Params) -> ApiResponse:
        return await _answer(self._client.api_call(method, http_verb="GET", params=dict(params)))

    async def write(self, method: str, body: Body) -> ApiResponse:
        return await _answer(self._client.api_call(method, json=dict(body)))

    async def upload(self, url: str, data: bytes) -> ApiResponse:
        # The address is a secret of its own: no token goes there, and no redirection is followed.
        try:
            async with self._session.post(url, data=data, allow_redirects=False) as answer:
                return ApiResponse(answer.status, {"ok": answer.status == _TAKEN})
        except tuple(_TROUBLES) as error:
            raise _transport_error(error) from None

    async def close(self) -> None:
        await self._session.close()


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
"""What is told of them: the first that fits; "" for the name of the error."""


async def _answer(asked: Awaitable[AsyncSlackResponse]) -> ApiResponse:
    """What the client was answered, whether or not it likes it."""
    try:
        answer: object = await asked
    except SlackClientError as error:
        answer = getattr(error, "response", None)
    except tuple(_TROUBLES) as error:
        raise _transport_error(error) from None
    if not isinstance(answer, AsyncSlackResponse):
        raise TransportError("an answer that is no JSON")
    body = answer.data if isinstance(answer.data, dict) else {}
    headers = {name.lower(): str(value) for name, value in answer.headers.items()}
    retry_after, scopes = headers.get("retry-after", ""), headers.get("x-oauth-scopes", "")
    return ApiResponse(answer.status_code, body, retry_after, scopes)


def _transport_error(error: Exception) -> TransportError:
    trouble = next(text for kind, text in _TROUBLES.items() if isinstance(error, kind))
    unsent = isinstance(error, aiohttp.ClientConnectorError)
    return TransportError(trouble or type(error).__name__, unsent=unsent)
