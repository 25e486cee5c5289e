"""A running service and its bridges, with the fakes of Google and Apple as their providers.

Devices register over HTTP, as on a phone; application servers send to their endpoints.
"""

import asyncio
import base64
import json
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from h2.errors import ErrorCodes

from support.apns_server import ApnsServer
from support.application_server import Answer, ApplicationServer, application_server
from support.certificates import self_signed
from support.fcm_server import FakeGoogleProcess, fake_google
from support.service import Service, running_service
from support.soak import slow
from support.user_agent import UserAgent

FCM_APP, APNS_CHANNEL = "org.example.app", "beta"
KEY_ID, TEAM = "ABC123DEFG", "TEAM456789"
DEVICES = 100
SENDERS = 50
"""Connections of application servers that send at the same time."""
HELD = 200
"""What one application may have under way."""

SENT_BY_FCM: Any = ""
FCM_PASSES: Sequence[Any] = (
    "QUOTA_EXCEEDED",
    "UNAVAILABLE",
    "INTERNAL",
    "RESET",
    "HTML_502",
    "UNAUTHENTICATED",
)
FCM_GONE = "UNREGISTERED"
SENT_BY_APNS: Mapping[str, Any] = {"status": 200}
APNS_PASSES: Sequence[Mapping[str, Any]] = (
    {"status": 429, "reason": "TooManyRequests"},
    {"status": 503, "reason": "ServiceUnavailable", "headers": {"retry-after": "9"}},
    {"status": 500, "reason": "InternalServerError"},
    {"do": "reset", "code": int(ErrorCodes.REFUSED_STREAM)},
    {"do": "reset", "code": int(ErrorCodes.INTERNAL_ERROR)},
)
APNS_GONE: Mapping[str, Any] = {"status": 410, "reason": "Unregistered"}
ERROR_SHARE = 0.06
GONE_SHARE = 0.2


class Outcome(Enum):
    """How a push ends for its sender; the value is what the provider has done with it then."""

    DELIVERED = "accepted, once"
    GONE = "said that the device is gone, for this push or an earlier one"
    RETRY = "not accepted"

    @classmethod
    def of(cls, answer: Answer) -> "Outcome":
        if answer.status == 201:
            assert answer.headers["Location"]
            assert answer.headers["TTL"] == "60"
            return cls.DELIVERED
        if answer.status == 410:
            assert answer.document["errno"] in (103, 106)
            return cls.GONE
        if answer.status == 503:
            assert int(answer.headers["Retry-After"]) >= 1
        else:
            assert (answer.status, answer.document["errno"]) in ((502, 901), (502, 902)), answer
        return cls.RETRY


@dataclass
class Providers:
    """The fakes, and the service that they are the providers of."""

    google: FakeGoogleProcess
    apple: ApnsServer
    service: Service


@pytest.fixture(scope="module")
def providers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Providers]:
    folder = tmp_path_factory.mktemp("bridges")
    apple_certificate = self_signed(folder / "apple.pem")
    p8 = ec.generate_private_key(ec.SECP256R1())
    private = p8.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    public = p8.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    (folder / "google").mkdir()
    with (
        fake_google(folder / "google") as google,
        ApnsServer(folder, apple_certificate, token_keys={KEY_ID: (TEAM, public)}) as apple,
    ):
        account = folder / "account.json"
        account.write_text(json.dumps(google.add_account("project-1")))
        trusted = folder / "trusted.pem"
        trusted.write_bytes(google.certificate.read_bytes() + apple_certificate.read_bytes())
        channel = {"key": private, "key_id": KEY_ID, "team_id": TEAM, "topic": "org.example.app"}
        channel["endpoint"] = apple.url
        applications = {FCM_APP: {"projectid": "project-1", "auth": str(account)}}
        with running_service(
            folder / "data",
            "--debug",
            f"--fcm-endpoint={google.url}",
            SSL_CERT_FILE=str(trusted),
            FCM_CREDS=json.dumps(applications),
            APNS_CREDS=json.dumps({APNS_CHANNEL: channel}),
        ) as running:
            yield Providers(google, apple, running)


@pytest.fixture
def running(providers: Providers) -> Service:
    return providers.service


@pytest.fixture
async def senders() -> AsyncIterator[Sequence[ApplicationServer]]:
    """As many as have room for all messages that are held; one has a hundred connections."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(application_server()) for _ in range(4)]


@dataclass
class Phone:
    """A registered device."""

    router_type: str
    token: str
    registration: str
    secret: str
    endpoint: str
    channel: str


async def register(
    sender: ApplicationServer, service: Service, router_type: str, token: str
) -> Phone:
    app_id = FCM_APP if router_type == "fcm" else APNS_CHANNEL
    base = f"{service.endpoint}/v1/{router_type}/{app_id}/registration"
    answer = await sender.request("POST", base, body=json.dumps({"token": token}).encode())
    assert answer.status == 200, answer
    reply = answer.document
    url = f"{base}/{reply['uaid']}"
    return Phone(router_type, token, url, reply["secret"], reply["endpoint"], reply["channelID"])


def body_text(body: bytes) -> str:
    """A body as a provider gets it."""
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()


async def test_a_message_reaches_an_android_device_through_fcm(
    providers: Providers, sender: ApplicationServer
) -> None:
    phone = await register(sender, providers.service, "fcm", "android-device-1")
    providers.google.requests()
    answer = await sender.push(phone.endpoint, b"encrypted", ttl=600, Urgency="low")
    assert (answer.status, answer.headers["TTL"]) == (201, "600")
    [sent] = providers.google.sent()
    assert sent["message"]["token"] == "android-device-1"
    android = sent["message"]["android"]
    assert (android["ttl"], android["priority"]) == ("600s", "NORMAL")
    assert android["data"] == {
        "chid": phone.channel,
        "body": body_text(b"encrypted"),
        "con": "aes128gcm",
    }


async def test_a_message_reaches_an_apple_device_through_apns(
    providers: Providers, sender: ApplicationServer
) -> None:
    token = "ab" * 32
    phone = await register(sender, providers.service, "apns", token)
    answer = await sender.push(phone.endpoint, b"encrypted", ttl=600, topic="news")
    assert answer.status == 201, answer
    assert answer.headers["TTL"] == "600"
    [sent] = [each for each in providers.apple.requests() if each["path"].endswith(token)]
    assert sent["payload"]["chid"] == phone.channel
    assert sent["payload"]["ver"] == answer.message_id
    assert sent["payload"]["body"] == body_text(b"encrypted")
    assert sent["headers"]["apns-topic"] == "org.example.app"
    assert sent["headers"]["apns-priority"] == "10"
    assert len(sent["headers"]["apns-collapse-id"]) <= 64


async def test_a_bridge_that_does_not_answer_holds_up_no_websocket_delivery(
    providers: Providers, senders: Sequence[ApplicationServer], agents: list[UserAgent]
) -> None:
    service, apple = providers.service, providers.apple
    token = "cd" * 32
    phone = await register(senders[0], service, "apns", token)
    apple.script(token, *[{"do": "hold"}] * HELD)
    before = len(apple.requests())
    held = [
        asyncio.create_task(senders[number % 3].push(phone.endpoint, b"held"))
        for number in range(HELD)
    ]
    await apple.wait_for(before + HELD)
    refused = await senders[3].push(phone.endpoint, b"one too many")
    assert (refused.status, refused.document["errno"]) == (503, 201)
    agents.append(await service.connect())
    _, endpoint = await agents[0].register()
    for _ in range(100):
        sent = (await senders[3].push(endpoint, b"not held")).message_id
        [notification] = await agents[0].receive(1, ack=True)
        assert notification["version"] == sent
    assert not any(push.done() for push in held)
    apple.release()
    assert {answer.status for answer in await asyncio.gather(*held)} == {201}


# ── many pushes, with errors of the providers ───────────────────────────────────────────────────


@dataclass
class Run:
    """Pushes to many devices, and what the providers were scripted to answer."""

    phones: list[Phone] = field(default_factory=list)
    outcomes: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    answers: dict[str, tuple[Phone, Answer]] = field(default_factory=dict)
    """By the body that the provider got."""


async def prepare(
    providers: Providers, sender: ApplicationServer, pushes: int, chance: random.Random
) -> Run:
    """Register the devices, and script what becomes of each message to them."""
    run = Run()
    for number in range(DEVICES):
        is_android = number % 2 == 0
        token = f"run-{pushes}-{number}" if is_android else f"{pushes:08x}{number:056x}"
        router_type = "fcm" if is_android else "apns"
        run.phones.append(await register(sender, providers.service, router_type, token))
        sent, passes, gone = (
            (SENT_BY_FCM, FCM_PASSES, FCM_GONE)
            if is_android
            else (SENT_BY_APNS, APNS_PASSES, APNS_GONE)
        )
        count = pushes // DEVICES
        script: list[Any] = [
            chance.choice(passes) if chance.random() < ERROR_SHARE else sent for _ in range(count)
        ]
        if chance.random() < GONE_SHARE:
            script = script[: chance.randrange(count)] + [gone] * count
        if is_android:
            providers.google.ask(do="script", target=token, answers=script)
        else:
            providers.apple.script(token, *script)
    return run


async def push_all(
    run: Run, providers: Providers, senders: Sequence[ApplicationServer], pushes: int
) -> None:
    """Push to all in turn. Meanwhile Apple tells the service to open other connections."""
    numbers = iter(range(pushes))

    async def push(sender: ApplicationServer) -> None:
        for number in numbers:
            if number % 100 == 50:
                providers.apple.go_away()
            phone = run.phones[number % len(run.phones)]
            body = f"message {number} of {pushes}".encode()
            answer = await sender.push(phone.endpoint, body)
            run.outcomes[phone.router_type, Outcome.of(answer)] += 1
            run.answers[body_text(body)] = phone, answer

    await asyncio.gather(*(push(senders[number % len(senders)]) for number in range(SENDERS)))


def accepted_and_gone(providers: Providers) -> tuple[Counter[str], Counter[str]]:
    """How often a provider accepted a message, and said that its device is gone, by body."""
    accepted: Counter[str] = Counter()
    gone: Counter[str] = Counter()
    for request in providers.google.requests(":send"):
        body = request["body"]["message"]["android"]["data"].get("body", "")
        accepted[body] += request["answer"] == SENT_BY_FCM
        gone[body] += request["answer"] == FCM_GONE
    for each in providers.apple.requests():
        body, answer = each["payload"].get("body", ""), each["answer"]
        accepted[body] += answer.get("status") == 200
        gone[body] += answer.get("status") == 410
    return accepted, gone


@pytest.mark.parametrize("pushes", [500, slow(5000)])
async def test_every_push_ends_as_delivered_gone_or_to_be_retried_and_the_provider_agrees(
    providers: Providers, senders: Sequence[ApplicationServer], pushes: int
) -> None:
    run = await prepare(providers, senders[0], pushes, random.Random(pushes))
    providers.google.requests()
    await push_all(run, providers, senders, pushes)
    accepted, gone = accepted_and_gone(providers)
    assert len(run.answers) == run.outcomes.total() == pushes
    lost_devices: defaultdict[str, int] = defaultdict(int)
    for body, (phone, answer) in run.answers.items():
        outcome = Outcome.of(answer)
        assert accepted[body] == (outcome is Outcome.DELIVERED), (phone, answer)
        if outcome is Outcome.GONE:
            lost_devices[phone.token] += gone[body]
        else:
            assert not gone[body], (phone, answer)
    assert all(lost_devices.values()), "a device is gone though its provider never said so"
    for phone in run.phones:
        headers = {"Authorization": f"Bearer {phone.secret}"}
        listed = await senders[0].request("GET", phone.registration, headers=headers)
        assert listed.status == (410 if phone.token in lost_devices else 200)
    await providers.service.logged("A bridge failed")
    shown = "".join(providers.service.output)
    secrets = [secret for phone in run.phones for secret in (phone.token, phone.secret)]
    assert not [secret for secret in (*secrets, "ya29.", "bearer") if secret in shown]
    for router_type in ("fcm", "apns"):
        for outcome in Outcome:
            assert run.outcomes[router_type, outcome], f"{router_type}: none was {outcome.name}"
