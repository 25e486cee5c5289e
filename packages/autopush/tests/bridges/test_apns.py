"""The bridge to Apple, against a fake of its service.

The numbers of rows are those of the table of behaviours that the bridge has to show.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
)

from autopush.bridges import apns
from autopush.bridges.apns import ApnsRouter
from autopush.bridges.apns_credentials import (
    TOKEN_LIFETIME,
    TOKEN_SHORTEST,
    ProviderToken,
    ReleaseChannel,
    release_channels,
)
from autopush.delivery.bridge_contract import RouterError
from autopush.settings import StartupError
from keytables import Value
from support.apns_server import ApnsServer
from support.cases import cases
from support.certificates import private_pem, self_signed
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, UAID, Harness
from support.endpoint_harness import Endpoint, headers_of, refusal

DEVICE = "ab" * 32
KEY_ID, TEAM = "ABC123DEFG", "TEAM456789"
AESGCM = {
    "ttl": "60",
    "content-encoding": "aesgcm",
    "encryption": "salt=c2FsdHNhbHRzYWx0c2FsdA==",
    "crypto-key": "dh=BCUDHKQ3XJSvXKQ3XJSvXA==",
}


# ── What every test needs ────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def p8() -> ec.EllipticCurvePrivateKey:
    """The signing key of the team, as Apple hands it out once."""
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("apple")


@pytest.fixture(scope="module")
def client(folder: Path) -> Path:
    """A client certificate with its key in one file."""
    return self_signed(folder / "client.pem", "client.example")


@pytest.fixture(scope="module")
def shared(folder: Path, p8: ec.EllipticCurvePrivateKey, client: Path) -> Iterator[ApnsServer]:
    certificate = self_signed(folder / "server.pem")
    public = p8.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    keys = {KEY_ID: (TEAM, public.decode())}
    with ApnsServer(certificate, client_ca=client, token_keys=keys) as server:
        yield server


@pytest.fixture
def server(shared: ApnsServer, monkeypatch: pytest.MonkeyPatch) -> ApnsServer:
    """As it is at its start."""
    monkeypatch.setenv("SSL_CERT_FILE", str(shared.certificate))
    shared.reset()
    shared.now = ManualClock().now
    return shared


class Bridge:
    """An endpoint with the bridge, and one user behind it in its store."""

    def __init__(self, harness: Harness, server: ApnsServer, router: ApnsRouter) -> None:
        self.harness = harness
        self.server = server
        self.router = router
        self.endpoint = Endpoint(harness, routers={"apns": router})

    async def register(self, app_id: str = "beta", **members: Value) -> None:
        data: dict[str, Value] = {"token": DEVICE, **members}
        self.router.register(UAID, data, app_id)
        await self.harness.bridged_user("apns", data)

    async def push(self, headers: Mapping[str, str] | None = None, body: bytes = b"abc") -> int:
        """Status of a push."""
        self.response = await self.endpoint.push(headers, body)
        return self.response.status

    async def is_registered(self) -> bool:
        return await self.harness.store.users.get(UAID) is not None

    @property
    def sent(self) -> Mapping[str, Any]:
        """The only request that Apple got."""
        (request,) = self.server.requests()
        return request


def token_credentials(server: ApnsServer, key: ec.EllipticCurvePrivateKey) -> dict[str, object]:
    return {
        "key": private_pem(key).decode(),
        "key_id": KEY_ID,
        "team_id": TEAM,
        "endpoint": server.url,
        "topic": "org.example.app",
    }


def make_router(members: Mapping[str, object], clock: ManualClock) -> ApnsRouter:
    return ApnsRouter(release_channels({"beta": members}, clock), clock)


@pytest.fixture
async def bridge(
    harness: Harness, server: ApnsServer, p8: ec.EllipticCurvePrivateKey
) -> AsyncIterator[Bridge]:
    server.now = harness.clock.now
    router = make_router(token_credentials(server, p8), harness.clock)
    bridge = Bridge(harness, server, router)
    await bridge.register()
    yield bridge
    await router.close()


# ── Requests ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_message_reaches_apple_with_its_payload(bridge: Bridge) -> None:
    assert await bridge.push(AESGCM, b"encrypted") == 201
    payload = bridge.sent["payload"]
    version = headers_of(bridge.response)["location"].rpartition("/m/")[2]
    assert payload == {
        "chid": CHANNEL,
        "body": "ZW5jcnlwdGVk",
        "con": "aesgcm",
        "enc": "salt=c2FsdHNhbHRzYWx0c2FsdA",
        "cryptokey": "dh=BCUDHKQ3XJSvXKQ3XJSvXA",
        "ver": version,
        "aps": {
            "mutable-content": 1,
            "alert": {
                "title-loc-key": "SentTab.NoTabArrivingNotification.title",
                "loc-key": "SentTab.NoTabArrivingNotification.body",
            },
        },
    }


@pytest.mark.parametrize("form", ["object", "text"])
async def test_aps_of_the_registration_replaces_the_default(bridge: Bridge, form: str) -> None:
    aps: dict[str, Value] = {"alert": {"title": "Mail"}, "badge": 3.0, "sound": {"volume": 0.5}}
    await bridge.register(aps=json.dumps(aps) if form == "text" else aps)
    assert await bridge.push() == 201
    sent = bridge.sent["payload"]["aps"]
    assert sent == aps
    assert isinstance(sent["badge"], int)


async def test_a_message_without_a_body_has_the_default_aps_too(bridge: Bridge) -> None:
    assert await bridge.push({"ttl": "0"}, b"") == 201
    assert bridge.sent["payload"].keys() == {"chid", "ver", "aps"}


async def test_headers_are_those_that_apple_wants(bridge: Bridge) -> None:
    bridge.harness.clock.now = now = 1_800_000_123.7
    bridge.server.now = now
    assert await bridge.push({"ttl": "60", "content-encoding": "aes128gcm"}) == 201
    assert bridge.sent["path"] == f"/3/device/{DEVICE}"
    headers = bridge.sent["headers"]
    assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", headers.pop("apns-id"))
    assert headers.pop("authorization").startswith("bearer ")
    del headers["content-length"]
    assert headers == {
        "content-type": "application/json",
        "apns-topic": "org.example.app",
        "apns-push-type": "alert",
        "apns-priority": "10",
        "apns-expiration": "1800000183",
    }


@pytest.mark.parametrize(
    ("urgency", "priority"),
    [("very-low", "5"), ("low", "5"), ("normal", "10"), ("high", "10"), (None, "10")],
)
async def test_urgency_becomes_the_priority(
    bridge: Bridge, urgency: str | None, priority: str
) -> None:
    headers = {"ttl": "0", **({"urgency": urgency} if urgency else {})}
    assert await bridge.push(headers, b"") == 201
    assert bridge.sent["headers"]["apns-priority"] == priority


@pytest.mark.parametrize(
    ("aps", "push_type", "priority"),
    [
        ({"content-available": 1}, "background", "5"),
        ({"content-available": 1, "alert": "x"}, "alert", "10"),
        ({"content-available": 0, "mutable-content": 1}, "alert", "10"),
    ],
)
async def test_an_aps_that_shows_nothing_is_a_background_notification(
    bridge: Bridge, aps: dict[str, Value], push_type: str, priority: str
) -> None:
    await bridge.register(aps=aps)
    assert await bridge.push({"ttl": "0", "urgency": "high"}, b"") == 201
    headers = bridge.sent["headers"]
    assert (headers["apns-push-type"], headers["apns-priority"]) == (push_type, priority)


async def test_a_ttl_of_0_expires_at_once(bridge: Bridge) -> None:
    assert await bridge.push({"ttl": "0"}, b"") == 201
    assert bridge.sent["headers"]["apns-expiration"] == "0"
    assert headers_of(bridge.response)["ttl"] == "0"


async def test_a_topic_collapses_within_its_channel_only(bridge: Bridge) -> None:
    other = "99999999-2222-3333-4444-555555555555"
    await bridge.harness.store.current.add_channel(UAID, other)
    headers = {"ttl": "60", "topic": "t" * 32}
    for channel in (CHANNEL, CHANNEL, other):
        response = await bridge.endpoint.push(headers, channel=channel)
        assert response.status == 201
    first, second, third = (r["headers"]["apns-collapse-id"] for r in bridge.server.requests())
    assert first == second != third
    assert len(first) <= 64


async def test_a_token_cannot_leave_its_place_in_the_path(bridge: Bridge) -> None:
    await bridge.register(token="../../x?y#z\r\n\u00e9")
    assert await bridge.push() == 410  # BadDeviceToken: none of Apple's
    assert bridge.sent["path"] == "/3/device/..%2F..%2Fx%3Fy%23z%0D%0A%C3%A9"


# ── Registration ─────────────────────────────────────────────────────────────────────────────────


def registered(
    router: ApnsRouter, data: dict[str, Value], app_id: str = "beta"
) -> dict[str, Value]:
    router.register(UAID, data, app_id)
    return data


async def test_a_registration_keeps_token_channel_and_aps(bridge: Bridge) -> None:
    aps: Value = {"alert": "x"}
    assert registered(bridge.router, {"token": DEVICE, "aps": aps}) == {
        "token": DEVICE,
        "rel_channel": "beta",
        "aps": aps,
    }


@pytest.mark.parametrize(
    "data",
    [
        {"token": "x" * 401},
        {"token": DEVICE, "aps": "not json"},
        {"token": DEVICE, "aps": "[1]"},
        {"token": DEVICE, "aps": 5},
        {"token": DEVICE, "aps": {"alert": "x" * 4096}},
        {"token": DEVICE, "aps": {"number": 2**70}},
    ],
)
async def test_a_registration_with_a_long_token_or_bad_aps_is_400(
    bridge: Bridge, data: dict[str, Value]
) -> None:
    with pytest.raises(RouterError) as refused:
        registered(bridge.router, data)
    assert (refused.value.status, refused.value.errno) == (400, 108)


async def test_aps_that_is_nested_too_deep_is_400(bridge: Bridge) -> None:
    aps: Value = {}
    for _ in range(16):
        aps = {"a": [aps]}
    with pytest.raises(RouterError, match="within each other"):
        registered(bridge.router, {"token": DEVICE, "aps": aps})


async def test_an_update_replaces_the_token_and_keeps_the_channel(
    harness: Harness, server: ApnsServer, p8: ec.EllipticCurvePrivateKey
) -> None:
    clock = harness.clock
    both = {name: token_credentials(server, p8) for name in ("beta", "release")}
    router = ApnsRouter(release_channels(both, clock), clock)
    stored = registered(router, {"token": DEVICE}, "release")
    updated = registered(router, {**stored, "token": "cd" * 32})
    assert updated == {"token": "cd" * 32, "rel_channel": "release"}
    assert router.application(updated) == "release"
    await router.close()


async def test_a_channel_that_nobody_configured_cannot_be_registered_in_the_body(
    bridge: Bridge,
) -> None:
    data = registered(bridge.router, {"token": DEVICE, "rel_channel": "made up"})
    assert data["rel_channel"] == "beta"


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("age", "status", "is_kept"), [(-1000, 503, True), (0, 410, False), (1000, 410, False)]
)
async def test_a_registration_newer_than_apples_knowledge_is_kept(
    bridge: Bridge, age: int, status: int, is_kept: bool
) -> None:
    registered_at = int(bridge.harness.clock.now * 1000)
    bridge.server.script(
        DEVICE, {"status": 410, "reason": "Unregistered", "timestamp": registered_at + age}
    )
    assert await bridge.push() == status
    assert await bridge.is_registered() is is_kept


@pytest.mark.parametrize("reason", sorted(apns.GONE))
async def test_each_reason_that_means_gone_drops_the_user(bridge: Bridge, reason: str) -> None:
    bridge.server.script(DEVICE, {"status": 400, "reason": reason})
    assert await bridge.push() == 410
    assert not await bridge.is_registered()


ANSWERS = [
    *[({"status": 403, "reason": reason}, (502, 901)) for reason in sorted(apns.REFUSED)],
    *[({"status": 400, "reason": reason}, (502, 999)) for reason in sorted(apns.FAULTS)],
    ({"status": 400, "reason": "TopicDisallowed"}, (502, 901)),
    ({"status": 400, "reason": "never documented"}, (502, 999)),
    ({"status": 403}, (502, 901)),
    ({"status": 404, "reason": "BadPath"}, (502, 999)),
    ({"status": 405, "reason": "MethodNotAllowed"}, (502, 999)),
    ({"status": 413, "reason": "PayloadTooLarge"}, (413, 104)),
    ({"status": 429, "reason": "TooManyRequests"}, (503, 201)),
    ({"status": 429, "reason": "TooManyProviderTokenUpdates"}, (503, 201)),
    ({"status": 500, "reason": "InternalServerError"}, (503, 201)),
    ({"status": 503, "reason": "ServiceUnavailable"}, (503, 201)),
    ({"status": 503, "reason": "Shutdown"}, (503, 201)),
    ({"status": 503, "text": "<html>busy</html>"}, (503, 201)),
    ({"status": 400, "text": "<html>"}, (502, 999)),
    ({"status": 400, "text": "[1]"}, (502, 999)),
    ({"status": 400, "text": '{"reason":{}}'}, (502, 999)),
    ({"status": 301, "headers": {"location": "https://other.example/"}}, (502, 999)),
    ({"status": 204}, (502, 999)),
    ({"status": 502, "text": ""}, (502, 999)),
]


@pytest.mark.parametrize(("answer", "expected"), ANSWERS, ids=lambda value: str(value)[:60])
async def test_each_other_answer_keeps_the_user(
    harness: Harness,
    server: ApnsServer,
    client: Path,
    answer: dict[str, object],
    expected: tuple[int, int],
) -> None:
    members = {"cert": str(client), "key": str(client), "endpoint": server.url}
    bridge = Bridge(harness, server, make_router(members, harness.clock))
    await bridge.register()
    server.script(DEVICE, answer)
    response = await bridge.endpoint.push()
    document = json.loads(response.body)
    assert (response.status, document["errno"]) == expected
    assert await bridge.is_registered()
    assert len(server.requests()) == 1
    await bridge.router.close()


async def test_refusals_that_a_device_can_cause_do_not_open_the_circuit(bridge: Bridge) -> None:
    for status, reason in [(400, "MissingDeviceToken"), (404, "BadPath"), (429, "TooManyRequests")]:
        bridge.server.script(DEVICE, *[{"status": status, "reason": reason}] * 6)
        for _ in range(6):
            await bridge.push()
    assert await bridge.push() == 201


async def test_refused_credentials_open_the_circuit(bridge: Bridge) -> None:
    bridge.server.script(DEVICE, *[{"status": 403, "reason": "Forbidden"}] * 5)
    assert [await bridge.push() for _ in range(7)] == [502] * 5 + [503] * 2
    assert len(bridge.server.requests()) == 5


# ── Connections ──────────────────────────────────────────────────────────────────────────────────


async def test_a_push_survives_a_connection_that_ends_and_has_the_same_ids(bridge: Bridge) -> None:
    bridge.server.script(DEVICE, {"do": "abort"}, {"do": "goaway", "handled": False})
    assert await bridge.push() == 201
    requests = bridge.server.requests()
    assert len(requests) == 3
    assert len({request["headers"]["apns-id"] for request in requests}) == 1
    assert len({request["payload"]["ver"] for request in requests}) == 1
    bridge.server.script(DEVICE, *[{"do": "abort"}] * 9)
    assert await bridge.push() == 502
    assert len(bridge.server.requests()) == 3 + 3


async def test_all_connections_at_their_limit_is_503(
    harness: Harness, server: ApnsServer, p8: ec.EllipticCurvePrivateKey
) -> None:
    server.set_max_streams(1)
    server.now = harness.clock.now
    members = {**token_credentials(server, p8), "max_connections": 1}
    bridge = Bridge(harness, server, make_router(members, harness.clock))
    await bridge.register()
    server.script(DEVICE, {"do": "hold"})
    held = asyncio.create_task(bridge.endpoint.push())
    await server.wait_for(1)
    assert await bridge.push() == 503
    document = json.loads(bridge.response.body)
    assert (document["errno"], document["message"]) == (201, "APNS busy, please retry")
    server.release()
    assert (await held).status == 201
    await bridge.router.close()


# ── Provider tokens and certificates ─────────────────────────────────────────────────────────────


def authorizations(server: ApnsServer) -> list[str]:
    return [request["headers"]["authorization"] for request in server.requests()]


async def pass_time(bridge: Bridge, seconds: float) -> None:
    bridge.harness.clock.now += seconds
    bridge.server.now = bridge.harness.clock.now


async def test_a_provider_token_is_used_for_40_minutes(bridge: Bridge) -> None:
    now = bridge.harness.clock.now
    await pass_time(bridge, TOKEN_LIFETIME - now % TOKEN_LIFETIME)
    assert await bridge.push() == 201
    await pass_time(bridge, TOKEN_LIFETIME - 1)
    assert await bridge.push() == 201
    await pass_time(bridge, 1)
    assert await bridge.push() == 201
    first, second, third = authorizations(bridge.server)
    assert first == second != third


def test_workers_have_the_same_provider_token(p8: ec.EllipticCurvePrivateKey) -> None:
    clock = ManualClock(1_800_000_000.5)
    workers = [ProviderToken(p8, KEY_ID, TEAM, clock) for _ in range(2)]

    def current() -> str:
        first, second = (worker.current() for worker in workers)
        assert first == second
        return first

    seen = [current()]
    for _ in range(6):
        clock.advance(TOKEN_LIFETIME / 2)
        late = ProviderToken(p8, KEY_ID, TEAM, clock)
        assert late.current() == current()
        if current() != seen[-1]:
            seen.append(current())
    assert len(seen) == 4
    clock.advance(TOKEN_SHORTEST)
    refused = current()
    first, second = (worker.replacement(refused) for worker in workers)
    assert first == second != refused
    clock.advance(TOKEN_SHORTEST)
    assert current() not in (first, refused)


async def test_an_expired_provider_token_is_replaced_and_the_request_repeated_once(
    bridge: Bridge,
) -> None:
    assert await bridge.push() == 201
    await pass_time(bridge, TOKEN_SHORTEST)
    expired = {"status": 403, "reason": "ExpiredProviderToken"}
    bridge.server.script(DEVICE, expired)
    assert await bridge.push() == 201
    _, old, new = authorizations(bridge.server)
    assert old != new
    bridge.server.script(DEVICE, expired)
    assert await bridge.push() == 502  # replaced a moment ago: Apple would refuse another
    assert refusal(bridge.response) == (502, 901)
    assert len(authorizations(bridge.server)) == 4


async def test_a_clock_that_was_put_back_makes_a_new_token(
    server: ApnsServer, p8: ec.EllipticCurvePrivateKey
) -> None:
    clock = ManualClock()
    token = release_channels({"beta": token_credentials(server, p8)}, clock)["beta"].token
    assert token is not None
    old = token.current()
    clock.now -= 5000
    assert token.current() != old


async def test_a_client_certificate_needs_no_token(
    harness: Harness, server: ApnsServer, client: Path
) -> None:
    members = {"cert": str(client), "key": str(client), "endpoint": server.url}
    bridge = Bridge(harness, server, make_router(members, harness.clock))
    await bridge.register()
    assert await bridge.push() == 201
    assert "authorization" not in bridge.sent["headers"]
    assert bridge.sent["headers"]["apns-topic"] == "com.mozilla.org.beta"
    await bridge.router.close()


# ── Secrets ──────────────────────────────────────────────────────────────────────────────────────


# ── Configuration ────────────────────────────────────────────────────────────────────────────────


def read(members: Mapping[str, object]) -> ReleaseChannel:
    return release_channels({"beta": members}, ManualClock())["beta"]


def test_the_server_follows_from_sandbox_port_and_endpoint(client: Path) -> None:
    certificate = {"cert": str(client), "key": str(client)}
    servers: list[tuple[dict[str, object], str]] = [
        ({}, "https://api.push.apple.com"),
        ({"sandbox": True}, "https://api.development.push.apple.com"),
        ({"port": 2197}, "https://api.push.apple.com:2197"),
        ({"endpoint": "https://proxy.example:8443"}, "https://proxy.example:8443"),
    ]
    for members, expected in servers:
        channel = read({**certificate, **members})
        assert channel.url == expected
        assert (channel.limits.max_connections, channel.limits.max_retry) == (20, 2)
    limits = read({**certificate, "max_connections": 100, "max_retry": 0}).limits
    assert (limits.max_connections, limits.max_retry) == (100, 0)


def test_a_key_file_is_read_as_openssl_and_apple_write_it(
    tmp_path: Path, client: Path, p8: ec.EllipticCurvePrivateKey
) -> None:
    private, marker, public = client.read_text().partition("-----BEGIN CERTIFICATE")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_text(f"Bag Attributes\n    friendlyName: x\nsubject=CN = x\n{marker}{public}")
    key.write_text(
        f"Bag Attributes\n    localKeyID: 01\nKey Attributes: <No Attributes>\n{private}"
    )
    read({"cert": str(cert), "key": str(key)})
    file = tmp_path / "AuthKey.p8"
    file.write_text(private_pem(p8).decode())
    read({"key": str(file), "key_id": KEY_ID, "team_id": TEAM})


SECRET = "something_that_is_Secret"

BAD: dict[str, tuple[dict[str, object], str]] = {
    "unknown member": ({"certificate": SECRET}, "beta: unknown member: certificate"),
    "member that is a secret": ({f"{SECRET}=": 1}, "beta: unknown member: a name of"),
    "type": ({"sandbox": "yes"}, "beta: sandbox: expected true or false"),
    "empty text": ({"cert": ""}, "beta: cert: expected the path of a file"),
    "boolean as a number": ({"max_retry": True}, "beta: max_retry: expected a whole number"),
    "number too large": ({"max_connections": 1001}, "beta: max_connections: expected a whole"),
    "port": ({"port": 80}, "beta: port: expected 443 or 2197"),
    "endpoint": ({"endpoint": f"http://{SECRET}"}, "beta: endpoint: expected a URL that starts"),
    "topic": ({"topic": "a b"}, "beta: topic: expected a bundle ID"),
    "missing file": ({"cert": f"/nowhere/{SECRET}"}, "beta: cert: the file cannot be read: No su"),
    "key in the place of a path": ({"key": f"{SECRET}" * 99}, "beta: key: the file cannot be read"),
    "no key": ({"key": None}, "beta: key: expected the path of a file"),
    "encrypted key": ({"key": "ENCRYPTED"}, "beta: key: the key is protected by a password"),
    "key of another certificate": ({"key": "OTHER"}, "beta: key: does not belong to the cert"),
    "no PEM as a key": ({"key": "GARBAGE"}, "beta: key: expected a private key in PEM"),
    "no PEM as a certificate": ({"cert": "GARBAGE"}, "beta: cert: expected a file with a cert"),
    "half of a token": ({"key_id": KEY_ID}, "beta: team_id: needed with key_id and team_id"),
    "both": ({"key_id": KEY_ID, "team_id": TEAM}, "beta: cert: not allowed with key_id"),
    "key id": (
        {"cert": ..., "key": "OTHER", "key_id": SECRET, "team_id": TEAM},
        "beta: key_id: expected 10 letters and digits",
    ),
    "P-384": (
        {"cert": ..., "key": "P384", "key_id": KEY_ID, "team_id": TEAM},
        "beta: key: expected a key of the curve P-256",
    ),
    "nothing": ({"cert": ..., "key": ...}, "beta: cert: missing: cert and key, or key with"),
}


@cases("case", sorted(BAD))
async def test_bad_configuration_stops_the_start_and_names_channel_and_member(
    case: str, tmp_path: Path, client: Path
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    files = {
        "OTHER": private_pem(key),
        "P384": private_pem(ec.generate_private_key(ec.SECP384R1())),
        "GARBAGE": SECRET.encode(),
        "ENCRYPTED": key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password")
        ),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    changes, expected = BAD[case]
    members: dict[str, object] = {"cert": str(client), "key": str(client)}
    for name, value in changes.items():
        members[name] = str(tmp_path / str(value)) if value in files else value
    with pytest.raises(StartupError) as failure:
        read({name: value for name, value in members.items() if value is not ...})
    assert str(failure.value).startswith(f"apns_creds: {expected}")
    assert SECRET not in str(failure.value)
    assert str(tmp_path) not in str(failure.value)
    assert "\n" not in str(failure.value)


async def test_a_channel_whose_name_no_url_has_stops_the_start() -> None:
    with pytest.raises(StartupError, match="names of release channels") as failure:
        release_channels({f"{SECRET}/": {}}, ManualClock())
    assert SECRET not in str(failure.value)


async def test_one_token_replaces_the_one_that_several_requests_had(
    server: ApnsServer, p8: ec.EllipticCurvePrivateKey
) -> None:
    clock = ManualClock()
    token = release_channels({"beta": token_credentials(server, p8)}, clock)["beta"].token
    assert token is not None
    old = token.current()
    clock.advance(TOKEN_SHORTEST)
    new = token.replacement(old)
    assert new != old
    assert token.replacement(old) == new == token.current()
