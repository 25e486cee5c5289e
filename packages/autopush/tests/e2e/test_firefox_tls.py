"""A real Firefox over wss and https, with certificates of a CA that its profile was told to trust.

How a private CA gets into Firefox: `support.marionette.Marionette.trust` adds it to the database of
the profile, as the settings page of Firefox does ("Authorities … Import"). The chain and the name
are then checked as for any server.
"""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.certificates import Authority
from support.event_loops import LoopThread
from support.firefox import Firefox, Subscription, find_firefox
from support.pywebpush_sender import PywebpushSender
from support.service import Service

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

DELIVERED = 100  # the code of an ack


@dataclass
class Rig:
    """The service, the browser connected to it, and what both trust."""

    folder: Path
    authority: Authority
    service: Service
    firefox: Firefox
    loop: LoopThread
    send: Callable[[Subscription, str], str]
    """As an application server that trusts the same CA; returns the message's id."""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    find_firefox()
    authority = Authority(tmp_path)
    files = authority.issue(tmp_path)
    service = Service(tmp_path / "data", files.options)
    with LoopThread() as loop:
        loop.run(service.start())
        try:
            with Firefox(service.websocket, authority.path) as firefox:
                firefox.start()
                send = PywebpushSender(authority.path).send
                yield Rig(tmp_path, authority, service, firefox, loop, send)
        finally:
            loop.run(service.stop())
    assert service.errors == []


def test_messages_come_over_tls_before_and_after_the_certificate_is_renewed(rig: Rig) -> None:
    firefox = rig.firefox
    assert rig.service.websocket.startswith("wss://")
    subscription = firefox.subscribe()
    assert subscription.endpoint.startswith("https://")
    version = rig.send(subscription, "over TLS")
    assert firefox.receive(subscription) == [b"over TLS"]
    firefox.wait(lambda: version in firefox.acks, "the ack")
    assert firefox.acks[version] == DELIVERED

    uaid, connections = firefox.uaids[-1], len(firefox.uaids)
    rig.authority.issue(rig.folder, "127.0.0.1", "renewed.example")
    os.kill(rig.service.pid, signal.SIGHUP)
    rig.loop.run(rig.service.logged("A certificate was read again"))
    rig.send(subscription, "after the renewal")
    assert firefox.receive(subscription) == [b"after the renewal"]
    assert len(firefox.uaids) == connections  # it was not disconnected

    rig.loop.run(rig.service.kill())
    rig.loop.run(rig.service.start())
    assert firefox.wait_for_hello(connections + 1) == uaid
    rig.send(subscription, "over the new certificate")
    assert firefox.receive(subscription) == [b"over the new certificate"]
