"""Pushes with a wrong token, header, body or signature: one of each kind, and what HTTP carries in
an odd form. All of them are in the tests of `autopush.webpush`.
"""

import time
from collections.abc import Awaitable, Callable, Mapping

import pytest

from autopush.webpush.tokens import KeyRing, new_key
from support.application_server import AES128GCM, ApplicationServer, claims, draft_1
from support.bad_input import delivers_only, path_of, refusal, request
from support.raw_client import RawClient
from support.senders import Sender
from support.service import Service
from support.user_agent import UserAgent

Connect = Callable[..., Awaitable[UserAgent]]
Headers = Mapping[str, str | None]

# ── the endpoint ─────────────────────────────────────────────────────────────────────────────────

TOKENS: dict[str, Callable[[str], str]] = {
    "cut": lambda token: token[:-4],
    "of another key": lambda _: KeyRing([new_key()]).encrypt(bytes(32)).rstrip("="),
    "long": lambda _: "A" * 8000,
    "percent-encoded garbage": lambda _: "%00%ff%C3%BC",
}


@pytest.mark.parametrize("broken", TOKENS.values(), ids=TOKENS)
async def test_a_broken_or_foreign_token_is_404(
    target: tuple[UserAgent, str], sender: ApplicationServer, broken: Callable[[str], str]
) -> None:
    agent, endpoint = target
    base, _, token = endpoint.rpartition("/")
    assert refusal(await sender.push(f"{base}/{broken(token)}")) == (404, 102)
    await delivers_only(agent, sender, endpoint)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "padding": lambda endpoint: endpoint + "=" * (-len(endpoint.rpartition("/")[2]) % 4),
    "without version": lambda endpoint: endpoint.replace("/v1/", "/"),
    "query": lambda endpoint: f"{endpoint}?query=1",
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
async def test_padding_an_absent_version_and_a_query_are_tolerated(
    target: tuple[UserAgent, str], sender: ApplicationServer, spelling: Callable[[str], str]
) -> None:
    agent, endpoint = target
    answer = await sender.push(spelling(endpoint))
    assert (await agent.notification())["version"] == answer.message_id


async def test_a_message_id_is_no_endpoint_and_an_endpoint_no_message_id(
    running: Service, target: tuple[UserAgent, str], sender: ApplicationServer
) -> None:
    agent, endpoint = target
    answer = await sender.push(endpoint)
    url = f"{running.endpoint}/wpush/v1/{answer.message_id}"
    assert refusal(await sender.push(url)) == (404, 102)
    token = endpoint.rpartition("/")[2]
    for text in (token, "garbage", "%00", "A" * 8000, answer.message_id[:-8], "%E4%B8%96"):
        assert refusal(await sender.delete(f"{running.endpoint}/m/{text}")) == (400, 102), text
    assert (await agent.notification())["version"] == answer.message_id


# ── headers and body ─────────────────────────────────────────────────────────────────────────────


ACCEPTED: dict[str, tuple[Headers, int]] = {
    "TTL 0": ({"TTL": "0"}, 0),
    "TTL above the largest": ({"TTL": "9999999999"}, 2_592_000),
    "TTL of 5000 digits": ({"TTL": "9" * 5000}, 2_592_000),
    "TTL with outer spaces": ({"TTL": "  60  "}, 60),
    "longest topic": ({"Topic": "a" * 32}, 60),
    "empty topic": ({"Topic": ""}, 60),
}
"""By what is sent: changed headers of a push without a body, and the TTL in the response."""

REFUSED: dict[str, tuple[Headers, bytes, tuple[int, int]]] = {
    "TTL empty": ({"TTL": ""}, b"", (400, 112)),
    "TTL a list": ({"TTL": "60, 60"}, b"", (400, 112)),
    "TTL in other digits": ({"TTL": "\u0663"}, b"", (400, 112)),
    "topic of 8000 characters": ({"Topic": "a" * 8000}, b"", (400, 113)),
    "topic beyond ASCII": ({"Topic": "inböx"}, b"", (400, 113)),
    **{
        f"body of {size} bytes": ({**AES128GCM}, bytes(size), (413, 104))
        for size in (4097, 65_536, 65_537, 200_000)
    },
    "no encoding": ({}, b"body", (400, 110)),
    "aesgcm alone": ({"Content-Encoding": "aesgcm"}, b"body", (400, 111)),
    "Encryption beyond ASCII": (
        {"Content-Encoding": "aesgcm", "Encryption": "salt=ä", "Crypto-Key": "dh=abc"},
        b"body",
        (400, 110),
    ),
    "Crypto-Key beyond ASCII": (
        {"Authorization": "Bearer a", "Crypto-Key": "ä=b"},
        b"body",
        (400, 110),
    ),
}
"""By what is sent: changed headers of a push, its body, and status and errno of the response."""


def push(endpoint: str, headers: Headers, body: bytes) -> bytes:
    always: dict[str, str | None] = {"Host": "h", "TTL": "60", "Content-Length": str(len(body))}
    return request(f"POST {path_of(endpoint)} HTTP/1.1", always | dict(headers), body)


@pytest.mark.parametrize(("headers", "applied"), ACCEPTED.values(), ids=ACCEPTED)
async def test_a_valid_push_is_delivered_with_its_ttl(
    http: RawClient, target: tuple[UserAgent, str], headers: Headers, applied: int
) -> None:
    agent, endpoint = target
    http.send(push(endpoint, headers, b""))
    answer = await http.answer()
    assert (answer.status, answer.headers["ttl"]) == (201, str(applied))
    assert (await agent.notification())["version"] == answer.message_id


@pytest.mark.parametrize(("headers", "body", "outcome"), REFUSED.values(), ids=REFUSED)
async def test_an_invalid_push_is_refused_and_delivers_nothing(
    http: RawClient,
    target: tuple[UserAgent, str],
    sender: ApplicationServer,
    headers: Headers,
    body: bytes,
    outcome: tuple[int, int],
) -> None:
    agent, endpoint = target
    http.send(push(endpoint, headers, body))
    assert refusal(await http.answer()) == outcome
    await delivers_only(agent, sender, endpoint)


# ── VAPID ────────────────────────────────────────────────────────────────────────────────────────

CLAIMS: dict[str, tuple[dict[str, object], bool]] = {
    "good": ({}, True),
    "more claims": ({"nbf": "x", "iat": {}, "jti": [1]}, True),
    "expired": ({"exp": -1}, False),
    "exp in 25 hours": ({"exp": 90_000}, False),
    "exp NaN": ({"exp": float("nan")}, False),
    "aud of another host": ({"aud": "https://push.example"}, False),
}
"""By what is signed: changed claims (a number in `exp` counts from now), and whether they pass."""


@pytest.mark.parametrize(("changes", "good"), CLAIMS.values(), ids=CLAIMS)
async def test_the_claims_of_a_token_are_checked(
    target: tuple[UserAgent, str],
    sender: ApplicationServer,
    changes: dict[str, object],
    good: bool,
) -> None:
    agent, endpoint = target
    exp = changes.get("exp")
    if isinstance(exp, int):
        changes = changes | {"exp": time.time() + exp}
    server = Sender()
    token = server.token(claims(endpoint, **changes))
    for crypto in (
        draft_1(server, token),
        AES128GCM | {"Authorization": f"vapid t={token},k={server.key_text}"},
    ):
        answer = await sender.push(endpoint, b"body", crypto=crypto)
        if good:
            assert (await agent.notification())["version"] == answer.message_id
        else:
            assert refusal(answer) == (401, 109)
            assert answer.headers["WWW-Authenticate"] == "vapid"


WRONG: dict[str, Callable[[Sender, dict[str, object]], str]] = {
    "Basic": lambda server, good: "Basic dXNlcjpwYXNz",
    "without k": lambda server, good: f"vapid t={server.token(good)}",
    "k of another": lambda server, good: f"vapid t={server.token(good)},k={Sender().key_text}",
    "k huge": lambda server, good: f"vapid t={server.token(good)},k={'A' * 8000}",
    "signed by another": lambda server, good: f"vapid t={Sender().token(good)},k={server.key_text}",
}
"""By what is wrong with it: an Authorization header for a sender and its claims."""


@pytest.mark.parametrize("restricted", [False, True], ids=["v1", "v2"])
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_what_is_no_token_of_this_key_is_401(
    connect: Connect,
    sender: ApplicationServer,
    wrong: Callable[[Sender, dict[str, object]], str],
    restricted: bool,
) -> None:
    server, agent = Sender(), await connect()
    _, endpoint = await agent.register(key=server.key_text if restricted else None)
    authorization = wrong(server, claims(endpoint))
    answer = await sender.push(endpoint, b"body", Authorization=authorization)
    assert refusal(answer) == (401, 109)
    good = await sender.push(endpoint, Authorization=server.vapid(claims(endpoint)))
    assert (await agent.notification())["version"] == good.message_id
