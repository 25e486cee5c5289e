"""A real Firefox is the user agent, pywebpush the application server; between them the service.

One browser and one service serve the whole module, so most tests cost a message each; what needs
the browser to be away happens once (fixture `absence`), and several tests check the result.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest
from pywebpush import WebPushException

from support.event_loops import LoopThread
from support.firefox import Firefox, Message, find_firefox
from support.marionette import Marionette
from support.megaphone_server import MONITOR, MegaphoneServer, megaphone_server
from support.pywebpush_sender import PywebpushSender
from support.service import Service

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

DELIVERED = 100  # the code of an ack
LARGEST = 3993  # bytes of text that make a body of 4096 bytes in aes128gcm
SHORT_TTL = 1


class Rig:
    """The service and the browser pointed at it; a test finds them connected."""

    def __init__(self, data: Path) -> None:
        self._loop = LoopThread()
        self.service = Service(data, [])
        self.sender = PywebpushSender()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._loop)
            stack.callback(lambda: self._loop.run(self.service.stop()))
            self._loop.run(self.service.start())
            self.firefox = stack.enter_context(Firefox(self.service.websocket))
            self.firefox.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def restart_service(self, *options: str, kill: bool = False, data: Path | None = None) -> None:
        """End the service, start it again on the same ports, with these options."""
        self._loop.run(self.service.kill() if kill else self.service.stop())
        self.service.options = list(options)
        self.service.data = data or self.service.data
        self._loop.run(self.service.start())

    def restart_service_under_firefox(
        self, *options: str, kill: bool = False, data: Path | None = None
    ) -> str:
        """The same while the browser is connected; returns the UAID it reconnects with."""
        hellos = len(self.firefox.uaids)
        self.restart_service(*options, kill=kill, data=data)
        return self.firefox.wait_for_hello(hellos + 1)

    @contextmanager
    def source_of_broadcasts(self, **versions: str) -> Iterator[MegaphoneServer]:
        running = megaphone_server()
        source = self._loop.run(running.__aenter__())
        try:
            source.versions |= versions
            yield source
        finally:
            self._loop.run(running.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def module_rig() -> Iterator[Rig]:
    find_firefox()
    with (
        tempfile.TemporaryDirectory(prefix="autopush-") as folder,
        Rig(Path(folder) / "data") as rig,
    ):
        yield rig
    assert rig.service.errors == []


@pytest.fixture
def rig(module_rig: Rig) -> Rig:
    """Connected, and the service as it is without options, whatever the test before has left."""
    if not module_rig.firefox.has_page:
        module_rig.firefox.kill()
        module_rig.firefox.start()
    if module_rig.service.options:
        module_rig.restart_service_under_firefox()
    return module_rig


# ── connected ────────────────────────────────────────────────────────────────────────────────────


def test_a_message_reaches_the_service_worker(rig: Rig) -> None:
    subscription = rig.firefox.subscribe(rig.sender.key)
    version = rig.sender.send(subscription, "Grüße 👋")
    assert rig.firefox.receive(subscription) == ["Grüße 👋".encode()]
    rig.firefox.wait(lambda: version in rig.firefox.acks, "the ack")
    assert rig.firefox.acks[version] == DELIVERED


def test_a_push_without_a_body_is_an_event_without_data(rig: Rig) -> None:
    subscription = rig.firefox.subscribe(rig.sender.key)
    rig.sender.send(subscription, None)
    assert rig.firefox.receive(subscription) == [None]


def test_the_largest_body_and_every_byte_come_through(rig: Rig) -> None:
    subscription = rig.firefox.subscribe(rig.sender.key)
    binary = (bytes(range(256)) * 16)[:LARGEST]
    rig.sender.send(subscription, binary)
    assert rig.firefox.receive(subscription) == [binary]


def test_declarative_web_push_and_its_content_type_come_through(rig: Rig) -> None:
    subscription = rig.firefox.subscribe(rig.sender.key)
    notification = {"title": "Grüße", "navigate": "https://example.com/", "silent": True}
    text = json.dumps({"web_push": 8030, "notification": notification})
    version = rig.sender.send(subscription, text, content_type="application/notification+json")
    assert rig.firefox.receive(subscription) == [text.encode()]
    rig.firefox.wait(lambda: version in rig.firefox.acks, "the ack")
    assert rig.firefox.acks[version] == DELIVERED


def test_the_encryption_of_old_senders_is_still_understood(rig: Rig) -> None:
    subscription = rig.firefox.subscribe(rig.sender.key)
    rig.sender.send(subscription, "in aesgcm", encoding="aesgcm")
    assert rig.firefox.receive(subscription) == [b"in aesgcm"]


def test_after_unsubscribing_senders_get_410(rig: Rig) -> None:
    gone, kept = rig.firefox.subscribe(rig.sender.key), rig.firefox.subscribe(rig.sender.key)
    before = rig.firefox.heard("unregister")
    assert rig.firefox.unsubscribe(gone)
    # The browser tells the service after it has answered the page.
    rig.firefox.wait(lambda: rig.firefox.heard("unregister") > before, "the unregister reply")
    with pytest.raises(WebPushException) as refusal:
        rig.sender.send(gone, "too late")
    assert refusal.value.status_code == 410
    rig.sender.send(kept, "still here")
    assert rig.firefox.receive(kept) == [b"still here"]


# ── the browser is away ──────────────────────────────────────────────────────────────────────────


@dataclass
class Absence:
    """What was sent while the browser was away, and what it received when it reconnected."""

    uaid: str
    uaid_back: str
    sent: dict[str, list[str]]
    """By purpose of the subscription, the versions in the order they were sent."""
    got: dict[str, list[bytes | None]]
    delivered: list[str]
    """The versions it was sent when it reconnected, in order."""
    delivered_later: list[str]
    """Those of the run after that, in which one message was sent: `marker`. (Without the last one
    before, whose ack may not have got through.)"""
    marker: str
    endpoints_kept: bool

    def of(self, purpose: str) -> list[str]:
        return [version for version in self.delivered if version in self.sent[purpose]]


def versions(messages: list[Message]) -> list[str]:
    return [message["version"] for message in messages]


@pytest.fixture(scope="module")
def absence(module_rig: Rig) -> Absence:
    """The browser is closed; messages are sent; the service is killed and starts again; the browser
    is started again, with no tab open. Then it is killed and started once more."""
    rig, firefox, send = module_rig, module_rig.firefox, module_rig.sender.send
    purposes = ("several", "topic", "expired", "never stored")
    subscriptions = {name: firefox.subscribe(rig.sender.key) for name in purposes}
    several, topic, expired, never = subscriptions.values()
    uaid = firefox.uaids[-1]
    firefox.stop()

    sent = {
        "expired": [send(expired, "expires", ttl=SHORT_TTL)],
        "several": [send(several, f"message {number}") for number in range(5)],
        "topic": [send(topic, f"weather {number}", topic="weather") for number in range(3)],
        "never stored": [send(never, "now or never", ttl=0)],
    }
    expiry = time.monotonic() + SHORT_TTL + 1  # times are whole seconds in the service
    rig.restart_service(kill=True)
    sent["several"].append(send(several, "message 5"))
    for name in ("expired", "never stored"):
        sent[name].append(send(subscriptions[name], "kept"))
    time.sleep(max(0, expiry - time.monotonic()))

    before = len(firefox.notifications)
    firefox.start(page=False)
    counts = {"several": 6, "topic": 1, "expired": 1, "never stored": 1}
    got = {name: firefox.receive(subscriptions[name], count) for name, count in counts.items()}
    delivered = versions(firefox.notifications[before:])
    firefox.wait(lambda: firefox.acks.keys() >= set(delivered), "all acks")
    # When this arrives, the earlier acks are on their way; its own may be lost with the browser.
    last = send(several, "before the end")
    assert firefox.receive(several) == [b"before the end"]
    firefox.kill()

    before = len(firefox.notifications)
    firefox.start()
    marker = send(several, "after all")
    assert firefox.receive(several) == [b"after all"]
    return Absence(
        uaid=uaid,
        uaid_back=firefox.uaids[-1],
        sent=sent,
        got=got,
        delivered=delivered,
        delivered_later=[v for v in versions(firefox.notifications[before:]) if v != last],
        marker=marker,
        endpoints_kept=all(
            firefox.endpoint_of(subscription) == subscription.endpoint
            for subscription in subscriptions.values()
        ),
    )


def test_a_browser_that_reconnects_is_the_same_user_agent(absence: Absence) -> None:
    assert absence.uaid_back == absence.uaid
    assert absence.endpoints_kept


def test_what_was_sent_meanwhile_arrives_in_order_though_the_service_was_killed(
    absence: Absence,
) -> None:
    assert absence.of("several") == absence.sent["several"]
    assert set(absence.got["several"]) == {b"message %d" % number for number in range(6)}


def test_of_a_topic_only_the_last_message_arrives(absence: Absence) -> None:
    assert absence.got["topic"] == [b"weather 2"]
    assert absence.of("topic") == absence.sent["topic"][-1:]


def test_a_message_whose_time_is_over_does_not_arrive(absence: Absence) -> None:
    assert absence.got["expired"] == [b"kept"]
    assert absence.of("expired") == absence.sent["expired"][-1:]


def test_a_message_with_ttl_0_does_not(absence: Absence) -> None:
    assert absence.got["never stored"] == [b"kept"]
    assert absence.of("never stored") == absence.sent["never stored"][-1:]


def test_nothing_is_sent_twice_and_nothing_again_once_it_is_acknowledged(absence: Absence) -> None:
    assert len(set(absence.delivered)) == len(absence.delivered)
    assert absence.delivered_later == [absence.marker]


# ── the service is away ──────────────────────────────────────────────────────────────────────────


def test_the_browser_reconnects_to_a_service_that_was_killed(rig: Rig) -> None:
    subscription = rig.firefox.subscribe(rig.sender.key)
    uaid = rig.firefox.uaids[-1]
    assert rig.restart_service_under_firefox(kill=True) == uaid
    rig.sender.send(subscription, "again")
    assert rig.firefox.receive(subscription) == [b"again"]
    assert rig.firefox.endpoint_of(subscription) == subscription.endpoint


def test_a_browser_of_a_service_that_lost_its_data_drops_its_subscriptions(rig: Rig) -> None:
    subscription = rig.firefox.subscribe(rig.sender.key)
    uaid = rig.firefox.uaids[-1]
    fresh = rig.service.data.with_name("fresh")
    assert rig.restart_service_under_firefox(data=fresh) != uaid
    rig.firefox.wait(lambda: rig.firefox.events(subscription), "the event")
    assert [event.kind for event in rig.firefox.events(subscription)] == ["lost"]
    renewed = rig.firefox.subscribe(rig.sender.key)
    rig.sender.send(renewed, "renewed")
    assert rig.firefox.receive(renewed) == [b"renewed"]


# ── broadcasts ───────────────────────────────────────────────────────────────────────────────────


def broadcasts_told(firefox: Firefox) -> list[str]:
    """The versions of the broadcast that Firefox subscribes to by itself, as it was sent them."""
    told = [each.get("broadcasts", {}) for each in firefox.received]
    return [versions[MONITOR] for versions in told if MONITOR in versions]


@pytest.fixture
def new_rig(tmp_path: Path) -> Iterator[Rig]:
    """With a browser of its own: one that is new subscribes some 20 seconds after its start."""
    find_firefox()
    with Rig(tmp_path / "data") as rig:
        yield rig
    assert rig.service.errors == []


@pytest.mark.slow
def test_a_new_browser_subscribes_to_a_broadcast_and_is_told_of_each_change(new_rig: Rig) -> None:
    rig = new_rig
    subscription = rig.firefox.subscribe(rig.sender.key)
    with rig.source_of_broadcasts(**{MONITOR: '"1"'}) as source:
        options = ("--megaphone-api-url", source.url, "--megaphone-poll-interval", "0.1")
        rig.restart_service_under_firefox(*options, "--auto-ping-interval", "1")
        rig.firefox.wait(lambda: broadcasts_told(rig.firefox), "the version that there is")
        source.versions[MONITOR] = '"2"'
        rig.firefox.wait(lambda: '"2"' in broadcasts_told(rig.firefox), "the next version")
        rig.sender.send(subscription, "still connected")
        assert rig.firefox.receive(subscription) == [b"still connected"]
        assert broadcasts_told(rig.firefox) == ['"1"', '"2"'], "each once"


# ── the start page ───────────────────────────────────────────────────────────────────────────────


def test_the_demo_of_the_start_page_works(rig: Rig, tmp_path: Path) -> None:
    firefox = rig.firefox
    firefox.stop()
    firefox.start(remote=True)
    with Marionette(firefox.profile) as tab:
        tab.goto(f"{rig.service.endpoint}/")
        try:
            tab.until("document.querySelector('#subscribe:enabled')")
            tab.click("#subscribe")
            tab.until(step("subscribe", "done"))
            tab.type("#message", "Grüße aus Firefox")
            tab.click("#send")
            tab.until(step("send", "done"))
            tab.until(step("arrive", "done"))
            tab.until("document.querySelector('#arrivals').textContent.includes(' · shown')")
        finally:
            tab.screenshot(tmp_path / "start-page.png")  # kept when the test fails
        arrived = "document.querySelector('#arrivals .text').textContent"
        assert tab.evaluate(arrived) == "Grüße aus Firefox"
        tab.click("#unsubscribe")
        tab.until(step("subscribe", "todo"))


def step(name: str, state: str) -> str:
    return f"document.querySelector('#step-{name}').dataset.state === '{state}'"
