"""Pushes with a wrong token, header, body or signature."""

import base64
import json
import time
from collections.abc import Awaitable, Callable, Mapping

import pytest

from autopush.webpush.syntax import encode_base64url
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
    "garbage": lambda _: "garbage",
    "cut": lambda token: token[:-4],
    "one character": lambda _: "A",
    "changed in the middle": lambda token: (
        token[:60] + ("B" if token[60] == "A" else "A") + token[61:]
    ),
    "changed at the end": lambda token: token[:-2] + ("BB" if token[-2:] != "BB" else "AA"),
    "doubled": lambda token: token + token,
    "of another key": lambda _: KeyRing([new_key()]).encrypt(bytes(32)).rstrip("="),
    "long": lambda _: "A" * 8000,
    "percent-encoded garbage": lambda _: "%00%ff%C3%BC",
    "beyond ASCII": lambda _: "%E4%B8%96",
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


def aesgcm(**headers: str) -> dict[str, str]:
    """Headers of a body in the older encoding, `_` for `-`."""
    return {"Content-Encoding": "aesgcm"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }


ACCEPTED: dict[str, tuple[Headers, int]] = {
    "TTL 0": ({"TTL": "0"}, 0),
    "TTL 1": ({"TTL": "1"}, 1),
    "TTL with leading zeros": ({"TTL": "007"}, 7),
    "the largest TTL": ({"TTL": "2592000"}, 2_592_000),
    "TTL above the largest": ({"TTL": "9999999999"}, 2_592_000),
    **{f"TTL of {n} digits": ({"TTL": "9" * n}, 2_592_000) for n in (19, 20, 100, 5000)},
    "TTL with outer spaces": ({"TTL": "  60  "}, 60),
    "topic of one character": ({"Topic": "a"}, 60),
    "topic of all kinds of characters": ({"Topic": "A-Z_09"}, 60),
    "longest topic": ({"Topic": "a" * 32}, 60),
    "empty topic": ({"Topic": ""}, 60),
}
"""By what is sent: changed headers of a push without a body, and the TTL in the response."""

REFUSED: dict[str, tuple[Headers, bytes, tuple[int, int]]] = {
    **{
        f"TTL {name}": ({"TTL": text}, b"", (400, 112))
        for name, text in {
            "empty": "",
            "negative": "-1",
            "minus zero": "-0",
            "plus": "+60",
            "fraction": "1.5",
            "exponent": "1e3",
            "hexadecimal": "0x10",
            "underscore": "6_0",
            "words": "never",
            "null": "null",
            "inner space": "6 0",
            "list": "60, 60",
            "other digits": "\u0663",
            "superscript": "\xb2",
        }.items()
    },
    **{
        f"topic {name}": ({"Topic": text}, b"", (400, 113))
        for name, text in {
            "of 33 characters": "a" * 33,
            "of 8000 characters": "a" * 8000,
            "with padding": "inbox=",
            "with space": "in box",
            "with slash": "in/box",
            "with plus": "in+box",
            "with colon": "in:box",
            "beyond ASCII": "inböx",
            "list": "one, two",
        }.items()
    },
    **{
        f"body of {size} bytes": ({**AES128GCM}, bytes(size), (413, 104))
        for size in (4097, 65_536, 65_537, 200_000)
    },
    **{
        name: (headers, b"body", (400, errno))
        for name, headers, errno in (
            ("no encoding", {}, 110),
            ("unknown encoding", {"Content-Encoding": "gzip"}, 110),
            ("two encodings", {"Content-Encoding": "aes128gcm, aesgcm"}, 110),
            ("aes128gcm with salt", {**AES128GCM, "Encryption": "salt=abc"}, 110),
            ("aes128gcm with dh", {**AES128GCM, "Crypto-Key": "dh=abc"}, 110),
            ("aes128gcm, Crypto-Key in words", {**AES128GCM, "Crypto-Key": "nonsense"}, 110),
            ("aesgcm alone", aesgcm(), 111),
            ("aesgcm without Crypto-Key", aesgcm(Encryption="salt=abc"), 111),
            ("aesgcm without Encryption", aesgcm(Crypto_Key="dh=abc"), 111),
            ("aesgcm without salt", aesgcm(Encryption="rs=1", Crypto_Key="dh=abc"), 101),
            ("aesgcm without dh", aesgcm(Encryption="salt=abc", Crypto_Key="keyid=a"), 101),
            ("aesgcm, salt no base64", aesgcm(Encryption="salt=a!c", Crypto_Key="dh=abc"), 110),
            (
                "aesgcm, Encryption beyond ASCII",
                aesgcm(Encryption="salt=ä", Crypto_Key="dh=abc"),
                110,
            ),
            (
                "aesgcm with Encryption-Key",
                aesgcm(Encryption="salt=abc", Crypto_Key="dh=abc", Encryption_Key="dh=abc"),
                110,
            ),
        )
    },
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
    "exp with a fraction": ({"exp": 3600.5}, True),
    "exp in 24 hours less a minute": ({"exp": 86_340}, True),
    "without sub": ({"sub": None}, True),
    "sub of another type": ({"sub": ["a"]}, True),
    "more claims": ({"nbf": "x", "iat": {}, "jti": [1]}, True),
    "expired": ({"exp": -1}, False),
    "expired by a fraction": ({"exp": -0.1}, False),
    "exp in 25 hours": ({"exp": 90_000}, False),
    "exp in a thousand years": ({"exp": 10**11}, False),
    "exp beyond floats": ({"exp": 10**400}, False),
    "exp missing": ({"exp": None}, False),
    "exp digits in a string": ({"exp": "4102444800"}, False),
    "exp another string": ({"exp": "@"}, False),
    "exp an empty string": ({"exp": ""}, False),
    "exp a list": ({"exp": ["@"]}, False),
    "exp an empty list": ({"exp": []}, False),
    "exp an object": ({"exp": {}}, False),
    "exp true": ({"exp": True}, False),
    "exp false": ({"exp": False}, False),
    "exp a date": ({"exp": "2100-01-01"}, False),
    "exp NaN": ({"exp": float("nan")}, False),
    "aud missing": ({"aud": None}, False),
    "aud of another host": ({"aud": "https://push.example"}, False),
    "aud without scheme": ({"aud": "127.0.0.1"}, False),
    "aud empty": ({"aud": ""}, False),
    "aud a number": ({"aud": 1}, False),
    "aud an object": ({"aud": {"a": "b"}}, False),
    "aud an empty list": ({"aud": []}, False),
    "aud with impossible port": ({"aud": "http://127.0.0.1:99999999"}, False),
    "aud not a host": ({"aud": "http://[::1"}, False),
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
    if isinstance(exp, int | float) and not isinstance(exp, bool):
        changes = changes | {"exp": int(exp) if exp == 10**400 else time.time() + exp}
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


class Signed:
    """A valid token for one endpoint, whole and in parts, from which invalid ones are made."""

    def __init__(self, server: Sender, endpoint: str) -> None:
        self.server, self.other = server, Sender()
        self.claims = claims(endpoint)
        self.token, self.key = server.token(self.claims), server.key_text
        self.header, self.payload, self.signature = self.token.split(".")

    def with_key(self, key: str) -> str:
        return f"vapid t={self.token},k={key}"

    def with_token(self, token: str) -> str:
        return f"vapid t={token},k={self.key}"

    def with_header(self, header: object) -> str:
        return self.with_token(self.server.token(self.claims, header=header))


def part(value: object) -> str:
    return encode_base64url(json.dumps(value).encode())


UNSIGNED = part({"typ": "JWT", "alg": "none"})
WRONG: dict[str, Callable[[Signed], str]] = {
    "empty": lambda _: "",
    "scheme alone": lambda _: "vapid",
    "Basic": lambda _: "Basic dXNlcjpwYXNz",
    "Bearer alone": lambda _: "Bearer ",
    "Bearer without Crypto-Key": lambda s: f"Bearer {s.token}",
    "without k": lambda s: f"vapid t={s.token}",
    "without t": lambda s: f"vapid k={s.key}",
    "k empty": lambda s: s.with_key(""),
    "t empty": lambda s: s.with_token(""),
    "words": lambda _: "vapid t=one,k=two",
    "k no base64": lambda s: s.with_key("!!!"),
    "k of another": lambda s: s.with_key(s.other.key_text),
    "k compressed": lambda s: s.with_key(encode_base64url(bytes([2]) + s.server.point[1:33])),
    "k not on the curve": lambda s: s.with_key(
        encode_base64url(s.server.point[:-1] + bytes([s.server.point[-1] ^ 1]))
    ),
    "k huge": lambda s: s.with_key("A" * 8000),
    "signed by another": lambda s: s.with_token(s.other.token(s.claims)),
    "alg none": lambda s: s.with_token(f"{UNSIGNED}.{s.payload}."),
    "alg none, old signature": lambda s: s.with_token(f"{UNSIGNED}.{s.payload}.{s.signature}"),
    "alg HS256": lambda s: s.with_header({"alg": "HS256"}),
    "alg es256": lambda s: s.with_header({"alg": "es256"}),
    "alg a list": lambda s: s.with_header({"alg": ["ES256"]}),
    "no alg": lambda s: s.with_header({"typ": "JWT"}),
    "header a list": lambda s: s.with_header(["ES256"]),
    "claims a list": lambda s: s.with_token(s.server.token([s.claims])),
    "claims a string": lambda s: s.with_token(s.server.token("claims")),
    "claims null": lambda s: s.with_token(s.server.token(None)),
    "two parts": lambda s: s.with_token(f"{s.header}.{s.payload}"),
    "four parts": lambda s: s.with_token(f"{s.token}.{s.signature}"),
    "cut signature": lambda s: s.with_token(s.token[:-10]),
    "no signature": lambda s: s.with_token(f"{s.header}.{s.payload}."),
    "signature of zeros": lambda s: s.with_token(f"{s.header}.{s.payload}.{'A' * 86}"),
    "changed claims": lambda s: s.with_token(f"{s.header}.{s.payload[:-4]}AAAA.{s.signature}"),
    "deep header": lambda s: s.with_token(
        f"{encode_base64url(b'[' * 3000)}.{s.payload}.{s.signature}"
    ),
}
"""By what is wrong with it: an Authorization header."""


@pytest.mark.parametrize("restricted", [False, True], ids=["v1", "v2"])
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_what_is_no_token_of_this_key_is_401(
    connect: Connect, sender: ApplicationServer, wrong: Callable[[Signed], str], restricted: bool
) -> None:
    server, agent = Sender(), await connect()
    _, endpoint = await agent.register(key=server.key_text if restricted else None)
    authorization = wrong(Signed(server, endpoint))
    answer = await sender.push(endpoint, b"body", Authorization=authorization)
    assert refusal(answer) == (401, 109)
    good = await sender.push(endpoint, Authorization=server.vapid(claims(endpoint)))
    assert (await agent.notification())["version"] == good.message_id


@pytest.mark.parametrize("crypto_key", ["nonsense", "p256ecdsa", "ä=b", ";;;"])
async def test_a_crypto_key_that_cannot_be_parsed_is_400(
    target: tuple[UserAgent, str], sender: ApplicationServer, crypto_key: str
) -> None:
    agent, endpoint = target
    token = Sender().token(claims(endpoint))
    headers = {"Authorization": f"Bearer {token}", "Crypto-Key": crypto_key}
    assert refusal(await sender.push(endpoint, crypto=headers)) == (400, 110)
    await delivers_only(agent, sender, endpoint)


FORMS: dict[str, Callable[[Signed], str]] = {
    "DER signature": lambda s: s.with_token(s.server.token(s.claims, der_signature=True)),
    "point alone": lambda s: s.with_key(encode_base64url(s.server.point[1:])),
    "DER key": lambda s: s.with_key(encode_base64url(s.server.der)),
    "standard base64": lambda s: s.with_key(base64.b64encode(s.server.point).decode()),
    "other spelling": lambda s: f"VAPID  k={s.key} ,  t={s.token}",
    "another parameter": lambda s: f"{s.with_key(s.key)},x=y",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_other_forms_of_a_valid_key_and_signature_are_accepted(
    target: tuple[UserAgent, str], sender: ApplicationServer, form: Callable[[Signed], str]
) -> None:
    agent, endpoint = target
    answer = await sender.push(endpoint, Authorization=form(Signed(Sender(), endpoint)))
    assert (await agent.notification())["version"] == answer.message_id
