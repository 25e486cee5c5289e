"""Port 80: challenges are answered, and everything else leads to https."""

import pytest

from autopush.acme.port80 import Port80
from autopush.net.http_messages import Request

NAMES = ("push.example", "other.example")


async def find_answer(token: str) -> str | None:
    return {"TOKEN": "TOKEN.thumbprint"}.get(token)


async def answer(method: str, path: str, host: str, port: int = 443) -> tuple[int, str]:
    request = Request(method, path, "a=b", {"host": host}, "127.0.0.1")
    response = await Port80(NAMES, port, find_answer)(request)
    return response.status, dict(response.headers).get("location", response.body.decode())


async def test_a_challenge_is_answered_whatever_the_host() -> None:
    path = "/.well-known/acme-challenge/"
    assert await answer("GET", f"{path}TOKEN", "1.2.3.4") == (200, "TOKEN.thumbprint")
    for token in ("other", "", "x" * 1000):
        assert (await answer("GET", path + token, NAMES[0]))[0] == 404


@pytest.mark.parametrize(
    ("host", "port", "target"),
    [
        ("push.example", 443, "https://push.example/wpush/v2/x?a=b"),
        ("Other.Example:80", 443, "https://other.example/wpush/v2/x?a=b"),
        ("evil.example", 443, "https://push.example/wpush/v2/x?a=b"),
        ("", 8443, "https://push.example:8443/wpush/v2/x?a=b"),
    ],
)
async def test_the_rest_is_redirected_to_a_name_of_the_service(
    host: str, port: int, target: str
) -> None:
    assert await answer("GET", "/wpush/v2/x", host, port) == (301, target)
    assert await answer("POST", "/wpush/v2/x", host, port) == (308, target)
