"""Shared by tests of bad input: values of every kind, requests as bytes, the shape of a refusal."""

import json
from collections.abc import Mapping

from support.application_server import Answer, ApplicationServer
from support.user_agent import UserAgent

CHANNEL = "2f1e3d4c-5b6a-4789-8abc-0123456789ab"
HUGE = "A" * 60_000
VALUES: dict[str, object] = {
    "null": None,
    "zero": 0,
    "number": -1.5,
    "big number": 10**30,
    "list": [1, [2], {"a": "b"}],
    "empty list": [],
    "object": {"a": {"b": [None]}},
    "empty object": {},
    "true": True,
    "false": False,
    "huge string": HUGE,
    "empty string": "",
    "wrong form": "af1883%&!@#*(",
    "control characters": "\0\r\n\x1b\x7f",
    "beyond ASCII": "ünïcödé-\U0001f510-\u202e",
    "deep list": json.loads("[" * 200 + "]" * 200),
}
"""One value of each kind that is no UUID, no key, no list of acks and no object of broadcasts."""


def path_of(endpoint: str) -> str:
    return "/" + endpoint.split("/", 3)[3]


def request(start: str, headers: Mapping[str, str | None], body: bytes = b"") -> bytes:
    """The bytes of a request; a header that is None is left out."""
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join((start, *lines, "", "")).encode() + body


def push_head(endpoint: str, *lines: str, version: str = "1.1", ttl: str = "60") -> str:
    """The head of a push, with further lines."""
    return "\r\n".join(
        (f"POST {path_of(endpoint)} HTTP/{version}", "Host: h", f"TTL: {ttl}", *lines, "", "")
    )


def refusal(answer: Answer) -> tuple[int, int]:
    """Status and errno of a response, which must have the documented JSON shape."""
    document = answer.document
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert headers["content-type"] == "application/json"
    assert {"code", "errno", "error", "message", "more_info"} <= document.keys()
    assert document["code"] == answer.status
    return answer.status, document["errno"]


async def delivers_only(agent: UserAgent, server: ApplicationServer, endpoint: str) -> None:
    """Nothing was delivered before this good push."""
    answer = await server.push(endpoint)
    assert (await agent.notification())["version"] == answer.message_id
