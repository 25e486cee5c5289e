"""The verbs, asked over the control API of a service in a thread."""

import asyncio
import gc
import http.client
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from autopush.testing.client import PushService, Subscription, VapidKey
from autopush.testing.control import VERBS
from autopush.testing.user_agents import UnreadableBody
from autopush.webpush.encryption import SubscriptionKeys, encrypt
from support.cases import cases

HOUR = 3600.0


@pytest.fixture(scope="module")
def running() -> Iterator[PushService]:
    with PushService.running() as service:
        yield service


@pytest.fixture
def service(running: PushService) -> Iterator[PushService]:
    yield running
    running.reset()


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers, body = response.status, response.headers, response.read()
        self.errno = json.loads(body)["errno"] if self.status >= 400 else None


def push(
    subscription: Subscription, text: bytes | None = b"Hello", **headers: str | None
) -> Answer:
    """Unsigned and encrypted, with a TTL of a minute."""
    to = SubscriptionKeys(subscription.p256dh, subscription.auth)
    body = b"" if text is None else encrypt(text, to)
    return post(
        subscription.endpoint, body, {"TTL": "60", "Content-Encoding": "aes128gcm"}, **headers
    )


def post(url: str, body: bytes, defaults: dict[str, str | None], **changed: str | None) -> Answer:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    given = {name: text for name, text in (defaults | changed).items() if text is not None}
    try:
        connection.request("POST", parts.path, body, given)
        return Answer(connection.getresponse())
    finally:
        connection.close()


# ── what arrives ──────────────────────────────────────────────────────────────────────────────────


def test_a_message_arrives_decrypted_with_its_headers(service: PushService) -> None:
    subscription = service.subscribe()
    assert push(subscription, Topic="news", Urgency="high").status == 201
    message = subscription.next()
    assert (message.text, message.encoding, message.ttl) == ("Hello", "aes128gcm", "60")
    assert (message.topic, message.urgency) == ("news", "high")
    [received] = service.received
    assert message.push == received
    assert (received.status, received.text, received.size) == (201, "Hello", 108)


def test_bytes_and_empty_pushes_arrive(service: PushService) -> None:
    subscription = service.subscribe()
    push(subscription, b"\xff")
    push(subscription, None)
    assert [(m.data, m.text) for m in (subscription.next(), subscription.next())] == [
        (b"\xff", None),
        (None, None),
    ]


async def test_a_coroutine_can_wait_for_a_message(service: PushService) -> None:
    subscription = service.subscribe()
    waiting = asyncio.create_task(subscription.anext())
    await asyncio.to_thread(push, subscription)
    assert (await waiting).text == "Hello"


def test_who_waits_in_vain_learns_what_was_received_instead(service: PushService) -> None:
    subscription = service.subscribe()
    with pytest.raises(TimeoutError, match="nothing was sent"):
        subscription.next(timeout=0)
    push(subscription, TTL=None)
    with pytest.raises(TimeoutError, match=r"answered 400 \(errno 111\): Missing TTL"):
        subscription.next(timeout=0)


def test_what_a_browser_could_not_read_is_no_message(service: PushService) -> None:
    one, other = service.subscribe(), service.subscribe()
    other.p256dh = one.p256dh
    assert push(other).status == 201
    with pytest.raises(UnreadableBody, match="encrypted for other p256dh or auth"):
        other.next()
    assert any("cannot be decrypted" in each for each in service.received[0].mistakes)


# ── what is answered ──────────────────────────────────────────────────────────────────────────────


def test_the_next_pushes_are_answered_as_told(service: PushService) -> None:
    one, other = service.subscribe(), service.subscribe()
    service.answer(429, retry_after=7, times=2)
    service.answer(errno=104, only=other)
    refused = push(one)
    assert (refused.status, refused.errno, refused.headers["Retry-After"]) == (429, 203, "7")
    assert push(one).status == 429
    assert push(one).status == 201
    assert (push(other).status, push(other).status) == (413, 201)
    assert any("before the end of a Retry-After" in m for m in service.received[1].mistakes)


def test_a_subscription_expires_or_is_unsubscribed(service: PushService) -> None:
    one, other = service.subscribe(), service.subscribe()
    one.expire()
    other.unsubscribe()
    assert (push(one).status, push(one).errno, push(other).errno) == (410, 103, 106)
    assert any("delete it" in each for each in service.received[1].mistakes)


def test_connections_are_dropped_and_answers_delayed(service: PushService) -> None:
    subscription = service.subscribe()
    service.drop()
    with pytest.raises(ConnectionError):
        push(subscription)
    service.delay(0.2)
    began = time.monotonic()
    assert push(subscription).status == 201
    assert time.monotonic() - began >= 0.2
    assert [each.status for each in service.received] == [0, 201]


def test_pushes_are_held_until_they_are_released(service: PushService) -> None:
    subscription = service.subscribe()
    service.hold()
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(push(subscription)))
    thread.start()
    while not service.received:
        pass
    assert service.received[0].status is None
    service.release()
    thread.join()
    assert answers[0].status == 201


def test_a_full_disk_and_a_missing_key_are_refused_as_in_production(service: PushService) -> None:
    subscription = service.subscribe()
    service.refuse_to_store()
    assert push(subscription).errno == 205
    service.refuse_to_store(on=False)
    service.require_vapid()
    assert push(subscription).errno == 120
    service.reset()
    assert push(subscription).status == 201


# ── time and sockets ──────────────────────────────────────────────────────────────────────────────


def test_a_user_agent_that_was_away_gets_what_has_not_expired(service: PushService) -> None:
    subscription = service.subscribe()
    subscription.disconnect()
    assert push(subscription, b"short").status == 201
    assert push(subscription, b"long", TTL="7200").status == 201
    service.move_clock(HOUR)
    subscription.reconnect()
    assert subscription.next().text == "long"


def test_a_token_expires_by_the_clock_of_the_service(service: PushService) -> None:
    pywebpush = pytest.importorskip("pywebpush")
    key = VapidKey()
    subscription = service.subscribe(key.public)

    def send() -> int:
        sent = {"vapid_private_key": key.private, "ttl": 60}
        answer = pywebpush.webpush(
            subscription.info, "x", vapid_claims={"sub": "mailto:a@example.com"}, **sent
        )
        return int(answer.status_code)

    assert send() == 201
    assert service.received[0].mistakes == []
    service.move_clock(25 * HOUR)
    with pytest.raises(pywebpush.WebPushException, match="Auth expired"):
        send()


# ── the control API ───────────────────────────────────────────────────────────────────────────────


def control(service: PushService, path: str, body: bytes = b"", token: str = "") -> tuple[int, str]:
    parts = urlsplit(service.address.control)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    shown = {"Authorization": f"Bearer {token or service.address.token}"}
    try:
        connection.request("POST" if body else "GET", path, body, shown)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


@cases(
    ("path", "body", "token", "status", "said"),
    [
        ("/received", b"{}", "wrong", 401, "the token of this service"),
        ("/nothing", b"{}", "", 404, "expected one of subscribe, next"),
        ("/received", b"", "", 405, "expected POST"),
        ("/answer", b"{", "", 400, "expected a JSON object"),
        ("/answer", b'{"status":"x"}', "", 400, "$.status"),
        ("/answer", b'{"status":700}', "", 400, "expected 200 to 599"),
        ("/answer", b'{"errno":100}', "", 400, "there is no 100"),
        ("/next", b'{"endpoint":"x"}', "", 404, "a subscription to this service"),
        ("/expire", b'{"endpoint":"x"}', "", 404, "a subscription to this service"),
        ("/subscribe", b'{"vapid_key":"x"}', "", 400, "vapid_key"),
    ],
)
def test_a_wrong_request_is_answered_with_what_was_expected(
    service: PushService, path: str, body: bytes, token: str, status: int, said: str
) -> None:
    answered, text = control(service, path, body, token)
    assert answered == status
    assert said in json.loads(text)["error"]


def test_the_openapi_document_has_every_verb(service: PushService) -> None:
    status, text = control(service, "/openapi.json")
    document = json.loads(text)
    assert status == 200
    assert document["paths"].keys() == {f"/{name}" for name in VERBS}
    assert all(each["post"]["summary"] for each in document["paths"].values())
    schemas = document["components"]["schemas"]
    assert set(re.findall('#/components/schemas/([^"]+)', text)) <= schemas.keys()


def test_services_stand_beside_each_other() -> None:
    with PushService.running() as one, PushService.running() as other:
        assert push(one.subscribe()).status == 201
        assert other.received == []


def test_a_service_that_has_ended_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: warned.append(found.exc_value))
    with socket.socket() as client, PushService.running() as service:  # which ends first
        client.connect((urlsplit(service.url).hostname, urlsplit(service.url).port))
        head = "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        key = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        client.sendall((head + key).encode())
        assert client.recv(4096).startswith(b"HTTP/1.1 101 ")
        client.sendall(b"\xff" * 6)  # no frame: the service closes its half, and waits
        assert client.recv(4096)[0] == 0x88
    gc.collect()
    assert warned == []
