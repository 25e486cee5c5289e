"""Port 80: answers challenges of ACME (RFC 8555 section 8.3), and redirects all else to https."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from autopush.net.http_messages import Request, Response

CHALLENGES: Final = "/.well-known/acme-challenge/"
TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")

FindAnswer = Callable[[str], Awaitable[str | None]]
"""From the token of a challenge to its key authorization."""


class Port80:
    """`names`: of the service; another host is redirected to the first. `https_port`: its own."""

    def __init__(self, names: Sequence[str], https_port: int, find_answer: FindAnswer) -> None:
        self._names = names
        self._port = "" if https_port == 443 else f":{https_port}"
        self._find_answer = find_answer

    async def __call__(self, request: Request) -> Response:
        if request.path.startswith(CHALLENGES):
            token = request.path.removeprefix(CHALLENGES)
            answer = await self._find_answer(token) if TOKEN.fullmatch(token) else None
            if answer is None:
                return plain(404, "no such challenge")
            return Response(200, answer.encode(), content_type="application/octet-stream")
        host = request.headers.get("host", "").rpartition("@")[2].partition(":")[0].lower()
        name = host if host in self._names else self._names[0]
        query = f"?{request.query}" if request.query else ""
        target = f"https://{name}{self._port}{request.path}{query}"
        status = 301 if request.method in ("GET", "HEAD") else 308
        return Response(status, headers=[("location", target), ("cache-control", "no-store")])


def plain(status: int, reason: str) -> Response:
    return Response(status, f"{reason}\n".encode(), content_type="text/plain; charset=utf-8")
