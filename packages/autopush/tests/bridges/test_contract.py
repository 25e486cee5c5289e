"""What every bridge does alike: registration, what the device gets, and what failures become.

What only one of them does is in its own module.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from autopush.bridges import adm
from autopush.bridges.discovery import load_routers
from autopush.delivery.bridge_contract import RouterError
from autopush.settings import Settings
from autopush.telemetry import logs
from keytables import Value
from support import adm_server, gcm_server
from support.adm_server import refusal as adm_refusal
from support.adm_server import secret_of
from support.apns_server import ApnsServer
from support.bridged_device import BridgedDevice
from support.certificates import self_signed
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, ENDPOINT, UAID
from support.endpoint_harness import headers_of
from support.fcm_server import FakeGoogle
from support.gcm_server import result
from support.scripted_provider import HALF, HTML, NOTHING, SILENCE, Answer, ScriptedProvider
from support.sockets import unused_port

AESGCM = {
    "ttl": "60",
    "content-encoding": "aesgcm",
    "encryption": 'keyid="a1"; salt = c2FsdHNhbHRzYWx0c2FsdA==',
    "crypto-key": 'keyid="a1"; dh=BJGTv5Vv_WVh2YRMPrYcg',
}
MEMBERS = {
    "chid": CHANNEL,
    "con": "aesgcm",
    "enc": "keyid=a1;salt=c2FsdHNhbHRzYWx0c2FsdA",
    "cryptokey": "keyid=a1;dh=BJGTv5Vv_WVh2YRMPrYcg",
    "body": "__4gZW5jcnlwdGVk",
}
NAMES = ("gcm", "fcm-legacy", "adm", "fcm", "apns")
KEY = "AIza-a-key-of-google"
CLIENT_ID = "amzn1.application-oa2-client.contract"
ADM_TOKEN = "amzn1.adm-registration.v3." + "x" * 256
_numbers = count(1)


@dataclass
class Sent:
    """A message as its provider got it."""

    data: Mapping[str, Any]
    ttl: int


@dataclass
class Bridge:
    """A bridge under test. `url`: of its provider; `settings`: with that URL; `stored`: what is
    stored beside the token; `token`: a valid one begins so; `answers`: by what they mean, and how
    often they have to be given for one message; `outcomes`: what a sender gets, where it is not
    that of `OUTCOMES`.
    """

    router_type: str
    app_id: str
    url: str
    settings: Callable[[str], Settings]
    stored: Mapping[str, Value]
    script: Callable[[str, Sequence[Any]], object]
    sent: Callable[[str], list[Sent]]
    answers: Mapping[str, Sequence[Any]]
    token: str = "11-instance-id-"
    outcomes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    quote: Callable[[str], Any] = lambda secret: {"status": 400, "text": secret}
    """An answer that repeats what it got."""
    logged: str = "A bridge failed"
    """A line of the log about a message that was not taken."""

    def new_token(self) -> str:
        return f"{self.token}{next(_numbers):016x}"

    def outcome(self, name: str) -> tuple[int, int]:
        return self.outcomes.get(name, OUTCOMES[name])


OUTCOMES = {
    "no token": (401, 109),
    "unknown application": (410, 105),
    "not configured": (500, 900),
    "gone": (410, 106),
    "busy": (503, 201),
    "refused": (502, 901),
    "nothing": (502, 902),
    "half": (502, 902),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("providers")


@pytest.fixture(scope="module")
def bridges(folder: Path) -> Iterator[Mapping[str, Bridge]]:
    apple_certificate = self_signed(folder / "apple.pem")
    client = self_signed(folder / "client.pem", "client.example")
    (folder / "google").mkdir()
    with (
        ScriptedProvider(gcm_server.judge) as gcm,
        ScriptedProvider(adm_server.judge) as amazon,
        FakeGoogle(folder / "google") as google,
        ApnsServer(apple_certificate, client_ca=client) as apple,
    ):
        trusted = google.certificate.read_bytes() + apple_certificate.read_bytes()
        (folder / "trusted.pem").write_bytes(trusted)
        made = [
            gcm_bridge(gcm),
            legacy_bridge(gcm),
            adm_bridge(amazon),
            fcm_bridge(google),
            apns_bridge(apple, client),
        ]
        yield dict(zip(NAMES, made, strict=True))


def scripted(provider: ScriptedProvider) -> Callable[[str, Sequence[Answer]], object]:
    def script(token: str, answers: Sequence[Answer]) -> None:
        provider.script(token, *answers)

    return script


def sent_by_gcm(provider: ScriptedProvider) -> Callable[[str], list[Sent]]:
    def sent(token: str) -> list[Sent]:
        documents = [json.loads(each["body"]) for each in provider.requests(token)]
        return [Sent(each["data"], each["time_to_live"]) for each in documents]

    return sent


GCM_ANSWERS: Mapping[str, Sequence[Answer]] = {
    "gone": [result(error="NotRegistered")],
    "busy": [{"status": 503, "headers": {"Retry-After": "17"}}],
    "refused": [{"status": 401, **HTML}],
    "nothing": [NOTHING],
    "half": [HALF],
    "silent": [SILENCE],
}


def gcm_bridge(provider: ScriptedProvider) -> Bridge:
    return Bridge(
        "gcm",
        "sender-1",
        provider.url,
        lambda url: Settings(
            senderid_list={"sender-1": {"auth": KEY}}, gcm_endpoint=f"{url}/gcm/send"
        ),
        {"creds": {"senderID": "sender-1"}},
        scripted(provider),
        sent_by_gcm(provider),
        GCM_ANSWERS,
        outcomes={"refused": (500, 901)},
        quote=lambda secret: result(error=secret),
    )


def legacy_bridge(provider: ScriptedProvider) -> Bridge:
    return Bridge(
        "fcm",
        "sender-1",
        provider.url,
        lambda url: Settings(fcm_auth=KEY, fcm_senderid="sender-1", fcm_endpoint=url),
        {"app_id": "sender-1"},
        scripted(provider),
        sent_by_gcm(provider),
        GCM_ANSWERS,
        outcomes={"refused": (500, 901), "gone": (410, 103)},
        quote=lambda secret: result(error=secret),
    )


def adm_bridge(provider: ScriptedProvider) -> Bridge:
    def sent(token: str) -> list[Sent]:
        documents = [json.loads(each["body"]) for each in provider.requests(token)]
        return [Sent(each["data"], each["expiresAfter"]) for each in documents]

    profile = {"client_id": CLIENT_ID, "client_secret": secret_of(CLIENT_ID)}
    return Bridge(
        "adm",
        "firefox",
        provider.url,
        lambda url: Settings(adm_creds={"firefox": profile}, adm_endpoint=url),
        {"creds": {"profile": "firefox"}},
        scripted(provider),
        sent,
        {
            "gone": [adm_refusal(400, "Unregistered")],
            "busy": [{**adm_refusal(429, "MaxRateExceeded"), "headers": {"Retry-After": "17"}}],
            "refused": [adm_refusal(401, "AccessTokenExpired")] * 2,
            "nothing": [NOTHING],
            "half": [HALF],
            "silent": [SILENCE],
        },
        token=ADM_TOKEN,
        quote=lambda secret: adm_refusal(400, secret),
    )


def fcm_bridge(google: FakeGoogle) -> Bridge:
    def sent(token: str) -> list[Sent]:
        messages = [each["message"] for each in google.sent()]
        return [
            Sent(each["android"]["data"], int(each["android"]["ttl"].removesuffix("s")))
            for each in messages
            if each["token"] == token
        ]

    account = google.add_account("project-1")
    creds = {"app-1": {"projectid": "project-1", "auth": account}}
    return Bridge(
        "fcm",
        "app-1",
        google.url,
        lambda url: Settings(fcm_creds=creds, fcm_endpoint=url),
        {"app_id": "app-1"},
        lambda token, names: google.script(token, *names),
        sent,
        {
            "gone": ["UNREGISTERED"],
            "busy": ["QUOTA_EXCEEDED"],
            "refused": ["PERMISSION_DENIED"],
            "nothing": ["NOTHING"],
            "half": ["HALF"],
            "silent": ["STALLED"],
        },
        outcomes={"not configured": (400, 106)},
        quote=lambda secret: "HTML_404",  # its fake has fixed answers only
        logged="FCM did not take a message",
    )


def apns_bridge(apple: ApnsServer, client: Path) -> Bridge:
    def script(token: str, answers: Sequence[Mapping[str, object]]) -> None:
        apple.script(token, *answers)

    def sent(token: str) -> list[Sent]:
        found = [each for each in apple.requests() if each["path"].endswith(token)]
        own = ("aps", "ver")
        return [
            Sent(
                {name: value for name, value in each["payload"].items() if name not in own},
                max(0, int(each["headers"]["apns-expiration"]) - int(CLOCK.now)),
            )
            for each in found
        ]

    members = {"cert": str(client), "key": str(client)}
    return Bridge(
        "apns",
        "beta",
        apple.url,
        lambda url: Settings(apns_creds={"beta": {**members, "endpoint": url}}),
        {"rel_channel": "beta"},
        script,
        sent,
        {
            "gone": [{"status": 410, "reason": "Unregistered"}],
            "busy": [{"status": 503, "reason": "Shutdown", "headers": {"retry-after": "17"}}],
            "refused": [{"status": 403, "reason": "InvalidProviderToken"}],
            "nothing": [{"do": "abort"}] * 3,
            "half": [{"do": "partly"}] * 3,
            "silent": [{"do": "wait"}],
        },
        token="ab" * 24,
        quote=lambda secret: {"status": 400, "reason": secret},
        logged="APNs did not take a message",
        outcomes={"no token": (400, 108), "unknown application": (400, 108)},
    )


CLOCK = ManualClock(time.time())


@pytest.fixture(params=NAMES)
def bridge(
    request: pytest.FixtureRequest,
    bridges: Mapping[str, Bridge],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Bridge:
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "trusted.pem"))
    return bridges[request.param]


@pytest.fixture
async def device(bridge: Bridge) -> AsyncIterator[BridgedDevice]:
    device = await device_of(bridge, bridge.url)
    yield device
    await device.close()


async def device_of(bridge: Bridge, url: str) -> BridgedDevice:
    (router,) = load_routers(bridge.settings(url), CLOCK).values()
    return await BridgedDevice.open(bridge.router_type, router)


@pytest.fixture
async def token(bridge: Bridge, device: BridgedDevice) -> str:
    """Of the device, which is registered with it."""
    token = bridge.new_token()
    await device.register(bridge.app_id, token)
    return token


# ── Registration ────────────────────────────────────────────────────────────────────────────────


async def test_a_registration_stores_the_token_and_the_application_and_no_key(
    bridge: Bridge, device: BridgedDevice
) -> None:
    token = bridge.new_token()
    stored = await device.register(bridge.app_id, token)
    assert stored == {"token": token, **bridge.stored}
    assert device.router.application(stored) == bridge.app_id
    reply: dict[str, object] = {}
    device.router.amend_endpoint_response(reply, stored)
    has_sender = bridge.router_type in ("gcm", "fcm")
    assert reply == ({"senderid": bridge.app_id} if has_sender else {})


@pytest.mark.parametrize("token", [None, "", "short", "with a space", 12345678])
async def test_a_registration_without_a_valid_token_is_refused(
    bridge: Bridge, device: BridgedDevice, token: Value
) -> None:
    data: dict[str, Value] = {} if token is None else {"token": token}
    with pytest.raises(RouterError) as caught:
        device.router.register(UAID, data, bridge.app_id)
    expected = bridge.outcome("no token") if token is None else (400, 108)
    assert (caught.value.status, caught.value.errno) == expected


async def test_a_registration_for_an_unknown_application_is_refused(
    bridge: Bridge, device: BridgedDevice
) -> None:
    with pytest.raises(RouterError) as caught:
        device.router.register(UAID, {"token": bridge.new_token()}, "unknown")
    assert (caught.value.status, caught.value.errno) == bridge.outcome("unknown application")


async def test_a_registration_a_push_and_a_new_token_over_http(
    bridge: Bridge, device: BridgedDevice
) -> None:
    first, second = bridge.new_token(), bridge.new_token()
    registration = f"{bridge.app_id}/registration"
    status, reply = await device.call("POST", registration, {"token": first})
    assert status == 200
    assert await device.push_to(reply["endpoint"], b"encrypted") == 201
    (sent,) = bridge.sent(first)
    assert sent.data["chid"] == reply["channelID"]
    path = f"{registration}/{reply['uaid']}"
    assert await device.call("PUT", path, {"token": second}, reply["secret"]) == (200, {})
    record = await device.harness.record(reply["uaid"])
    assert record.router_data == {"token": second, **bridge.stored}
    assert await device.push_to(reply["endpoint"], b"encrypted") == 201
    assert len(bridge.sent(second)) == 1


# ── What is sent ────────────────────────────────────────────────────────────────────────────────


async def test_an_aesgcm_push_arrives_with_headers_as_the_library_on_phones_takes_them(
    bridge: Bridge, device: BridgedDevice, token: str
) -> None:
    response = await device.push(AESGCM, b"\xff\xfe encrypted")
    assert response.status == 201
    headers = headers_of(response)
    assert headers["ttl"] == "60"
    assert headers["location"].startswith(f"{ENDPOINT}/m/")
    assert bridge.sent(token) == [Sent(MEMBERS, 60)]


async def test_aes128gcm_needs_no_crypto_headers_and_no_payload_only_its_channel(
    bridge: Bridge, device: BridgedDevice, token: str
) -> None:
    assert await device.result(b"encrypted") == (201, None, "")
    assert await device.result(b"") == (201, None, "")
    sent = bridge.sent(token)
    body = {"chid": CHANNEL, "con": "aes128gcm", "body": "ZW5jcnlwdGVk"}
    assert [each.data for each in sent] == [body, {"chid": CHANNEL}]


async def test_the_ttl_is_at_most_28_days(
    bridge: Bridge, device: BridgedDevice, token: str
) -> None:
    response = await device.push({"ttl": "2592000"})
    assert (response.status, headers_of(response)["ttl"]) == (201, "2419200")
    assert bridge.sent(token)[0].ttl == 2_419_200


async def test_a_short_ttl_is_raised_to_a_minute_but_for_apns(
    bridge: Bridge, device: BridgedDevice, token: str
) -> None:
    expected = 0 if bridge.router_type == "apns" else 60
    response = await device.push({"ttl": "0"})
    assert (response.status, headers_of(response)["ttl"]) == (201, str(expected))
    assert bridge.sent(token)[0].ttl == expected


async def test_a_message_that_is_too_long_after_base64_is_413_104_and_not_sent(
    bridge: Bridge, device: BridgedDevice, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adm, "MAX_DATA", 4096)  # else more than a push may have
    assert (await device.result(b"x" * 3100))[:2] == (413, 104)
    assert not bridge.sent(token)


# ── Records that cannot be served ───────────────────────────────────────────────────────────────


async def test_a_record_without_a_token_is_dropped(bridge: Bridge, device: BridgedDevice) -> None:
    await device.store({**bridge.stored})
    assert (await device.result())[:2] == (410, 106)
    assert await device.router_data() is None


async def test_a_record_of_an_application_that_is_not_configured_stays(
    bridge: Bridge, device: BridgedDevice
) -> None:
    other = json.loads(json.dumps(bridge.stored).replace(bridge.app_id, "other"))
    await device.store({"token": bridge.new_token(), **other})
    assert (await device.result())[:2] == bridge.outcome("not configured")
    assert await device.router_data() is not None


# ── What the provider answers ───────────────────────────────────────────────────────────────────


async def test_a_device_that_is_gone_drops_its_user(
    bridge: Bridge, device: BridgedDevice, token: str
) -> None:
    bridge.script(token, bridge.answers["gone"])
    assert (await device.result())[:2] == bridge.outcome("gone")
    assert await device.router_data() is None
    assert (await device.result())[:2] == (410, 103)


@pytest.mark.parametrize("answer", ["busy", "refused", "nothing", "half"])
async def test_any_other_failure_leaves_the_user_and_says_when_to_try_again(
    bridge: Bridge, device: BridgedDevice, token: str, answer: str
) -> None:
    bridge.script(token, bridge.answers[answer])
    response = await device.push()
    document = json.loads(response.body)
    assert (response.status, document["errno"]) == bridge.outcome(answer)
    if response.status != 500:
        assert headers_of(response)["retry-after"] == ("17" if answer == "busy" else "30")
    assert await device.router_data() == {"token": token, **bridge.stored}
    assert await device.result() == (201, None, "")


async def test_an_answer_that_does_not_come_in_time_is_502_903(
    bridge: Bridge, device: BridgedDevice, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device.router, "timeout", 0.2)
    bridge.script(token, bridge.answers["silent"])
    assert (await device.result())[:2] == (502, 903)
    assert await device.router_data() is not None


async def test_no_connection_is_502_902(bridge: Bridge) -> None:
    device = await device_of(bridge, f"https://127.0.0.1:{unused_port()}")
    await device.register(bridge.app_id, bridge.new_token())
    assert (await device.result())[:2] == (502, 902)
    await device.close()


async def test_many_messages_at_once_all_arrive(
    bridge: Bridge, device: BridgedDevice, token: str
) -> None:
    results = await asyncio.gather(*(device.push() for _ in range(64)))
    assert {response.status for response in results} == {201}
    assert len(bridge.sent(token)) == 64


async def test_no_secret_reaches_the_log_or_the_sender(
    bridge: Bridge, device: BridgedDevice, token: str, tmp_path: Path
) -> None:
    logs.configure(output=str(tmp_path / "log"), level="debug")
    shown = ""
    answers = [bridge.answers[name] for name in ("busy", "refused", "nothing")]
    for given in (*answers, [bridge.quote(token)], bridge.answers["gone"]):
        bridge.script(token, given)
        shown += (await device.push(AESGCM, b"\xff\xfe encrypted")).body.decode()
    logs.shutdown()
    shown += (tmp_path / "log").read_text()
    assert "A bridge failed" in shown
    assert bridge.logged in shown
    names_provider = "No response of a provider" in shown
    assert names_provider is (bridge.logged != "A bridge failed")
    for secret in (token, KEY, secret_of(CLIENT_ID), "Atc|", "ya29.", UAID, MEMBERS["body"]):
        assert secret not in shown
