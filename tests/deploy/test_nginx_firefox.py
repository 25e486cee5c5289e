"""A real Firefox behind nginx with TLS: wss for its connection, https for its endpoints."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.firefox import Firefox, find_firefox, trust_certificate
from support.proxies import Nginx, Site, prepare_site, running_site
from support.pywebpush_sender import PywebpushSender

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

DELIVERED = 100  # the code of an ack


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running_site(prepare_site(tmp_path, Nginx)) as site:
        yield site


@pytest.fixture
def firefox(site: Site) -> Iterator[Firefox]:
    find_firefox()
    with Firefox(f"{site.wss}/") as firefox:
        trust_certificate(firefox.profile, site.proxy.files.certificate, site.proxy.port)
        firefox.start()
        yield firefox


def test_firefox_receives_pushes_through_nginx(site: Site, firefox: Firefox) -> None:
    sender = PywebpushSender(site.authority.path)
    subscription = firefox.subscribe(sender.key)
    assert subscription.endpoint.startswith(f"{site.https}/wpush/v2/")
    version = sender.send(subscription, "Grüße über TLS")
    assert firefox.receive(subscription) == ["Grüße über TLS".encode()]
    firefox.wait(lambda: version in firefox.acks, "the ack")
    assert firefox.acks[version] == DELIVERED
