"""One request to the Web API over HTTP, by the client of slack_sdk.

Rule: what the client raises or would log goes no further than here: it may hold what people wrote.
"""

import logging
import re
from collections.abc import Mapping
from typing import Final, Protocol, Self

import aiohttp
import msgspec
from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

Params = Mapping[str, str | int | bool]

BASE_URL: Final = "https://slack.com/api/"

_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,1000}")
_TIMEOUT: Final = aiohttp.ClientTimeout(total=60, connect=20)


class Answer(msgspec.Struct, frozen=True):
    """What was answered. ``body`` is empty where it was no JSON object."""

    status: int
    body: Mapping[str, object]
    retry_after: str = ""


class Cut(Exception):  # noqa: N818
    """There was no answer, or half of one. The message is the kind of trouble."""


class Transport(Protocol):
    """Calls methods of the Web API, without judging what is answered."""

    async def call(self, method: str, params: Params) -> Answer:
        """Call a method once.

        :raises Cut: there was no whole answer
        """
        ...

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

    async def call(self, method: str, params: Params) -> Answer:
        try:
            answer: object = await self._client.api_call(
                method, http_verb="GET", params=dict(params)
            )
        except SlackClientError as error:
            answer = getattr(error, "response", None)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, AttributeError) as error:
            # The client trips over an answer of plain text.
            raise Cut(type(error).__name__) from None
        if not isinstance(answer, AsyncSlackResponse):
            raise Cut("an answer that is no JSON")
        body = answer.data if isinstance(answer.data, dict) else {}
        headers = {name.lower(): str(value) for name, value in answer.headers.items()}
        return Answer(answer.status_code, body, headers.get("retry-after", ""))

    async def close(self) -> None:
        await self._session.close()
