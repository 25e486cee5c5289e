"""A running service and its bridges, with the fakes of Google and Apple as their providers.

Devices register over HTTP, as on a phone; application servers send to their endpoints.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.apns_server import ApnsServer
from support.application_server import ApplicationServer, application_server
from support.certificates import private_pem, self_signed
from support.fcm_server import FakeGoogle
from support.service import Service, running_service
from support.user_agent import UserAgent

FCM_APP, APNS_CHANNEL = "org.example.app", "beta"
KEY_ID, TEAM = "ABC123DEFG", "TEAM456789"
HELD = 200
"""What one application may have under way."""


@dataclass
class Providers:
    """The fakes, and the service that they are the providers of."""

    google: FakeGoogle
    apple: ApnsServer
    service: Service


@pytest.fixture(scope="module")
def providers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Providers]:
    folder = tmp_path_factory.mktemp("bridges")
    apple_certificate = self_signed(folder / "apple.pem")
    p8 = ec.generate_private_key(ec.SECP256R1())
    private = private_pem(p8).decode()
    public = p8.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    (folder / "google").mkdir()
    with (
        FakeGoogle(folder / "google") as google,
        ApnsServer(apple_certificate, token_keys={KEY_ID: (TEAM, public)}) as apple,
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
