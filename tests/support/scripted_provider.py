"""A provider that a test tells what to answer: HTTP/1.1 on a free port.

A module of a provider has a function `judge` that finds, for each request, whom it is about and
what the provider answers by itself. The test gives scripts of answers for some it is about, which
come before the provider's own, and reads what was requested.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NotRequired, TypedDict

from support.provider_server import ProviderExchange, ProviderServer


class Answer(TypedDict):
    """What a request is answered: a status with a JSON document or a text, or raw bytes."""

    status: NotRequired[int]
    document: NotRequired[object]
    text: NotRequired[str]
    headers: NotRequired[dict[str, str]]
    raw: NotRequired[str]
    """All that is sent, before the connection is closed."""
    held: NotRequired[bool]
    """Sent only after `ScriptedProvider.release`."""


class Asked(TypedDict):
    """A request. `headers`: names in lower case."""

    path: str
    headers: dict[str, str]
    body: str


Judge = Callable[[Asked], tuple[str, Answer]]

HTML: Answer = {"text": "<html><body>Bad Gateway</body></html>"}
NOTHING: Answer = {"raw": ""}
HALF: Answer = {"raw": 'HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{"results": [{"mess'}
REDIRECT: Answer = {"status": 302, "headers": {"Location": "/elsewhere"}}
SILENCE: Answer = {"held": True}
TOO_LONG: Answer = {"text": "[" * 100_000}


class ScriptedProvider(ProviderServer):
    """Scripts and requests, by whom they are about."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self._judge = judge
        self._changed = asyncio.Condition()
        self._scripts: defaultdict[str, list[Answer]] = defaultdict(list)
        self._asked: defaultdict[str, list[Asked]] = defaultdict(list)
        self._released: set[str] = set()

    def script(self, whom: str, *answers: Answer) -> None:
        """The next answers to requests about that one."""
        self._scripts[whom] += answers

    def requests(self, whom: str) -> list[Asked]:
        """The requests about that one."""
        return [*self._asked[whom]]

    def message(self, whom: str) -> dict[str, Any]:
        """The JSON body of the only request about that one."""
        (asked,) = self.requests(whom)
        document: dict[str, Any] = json.loads(asked["body"])
        return document

    def release(self, whom: str) -> None:
        """Send the held answers about that one."""

        async def release() -> None:
            async with self._changed:
                self._released.add(whom)
                self._changed.notify_all()

        self.run(release())

    async def handle(self, exchange: ProviderExchange) -> None:
        request = exchange.request
        headers = dict(request.headers)
        asked: Asked = {"path": request.path, "headers": headers, "body": request.body.decode()}
        whom, answer = self._judge(asked)
        async with self._changed:
            self._asked[whom].append(asked)
            self._changed.notify_all()
            if self._scripts[whom]:
                scripted = self._scripts[whom].pop(0)
                if scripted.get("held"):
                    await self._changed.wait_for(lambda: whom in self._released)
                answer = answer if scripted.keys() == {"held"} else scripted
        if "raw" in answer:
            await exchange.raw(answer["raw"].encode())
            exchange.close()
            return
        document = json.dumps(answer["document"]) if "document" in answer else ""
        content = answer.get("text", document).encode()
        await exchange.respond(answer.get("status", 200), content, answer.get("headers"))
