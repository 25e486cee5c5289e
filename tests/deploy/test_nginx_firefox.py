"""A real Firefox behind nginx with TLS: wss for its connection, https for its endpoints."""

from collections.abc import Iterator

import pytest
import requests
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid02
from pywebpush import webpush

from autopush.webpush.syntax import encode_base64url
from support.firefox import Firefox, Subscription, find_firefox
from support.firefox_trust import trust_certificate
from support.nginx import Site

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

DELIVERED = 100  # the code of an ack


@pytest.fixture
def firefox(site: Site) -> Iterator[Firefox]:
    find_firefox()
    with Firefox(f"{site.wss}/") as firefox:
        trust_certificate(firefox.profile, site.files.certificate, site.nginx.port)
        firefox.start()
        yield firefox


def send(site: Site, subscription: Subscription, text: str, vapid: Vapid02) -> str:
    """Push over https, trusting the CA of the test alone; returns the message's id."""
    with requests.Session() as session:
        session.trust_env = False
        session.verify = str(site.authority.path)
        answer = webpush(
            subscription.info,
            text,
            vapid_private_key=vapid,
            vapid_claims={"sub": "mailto:tests@example.com"},
            ttl=600,
            timeout=30,
            requests_session=session,
        )
    return str(answer.headers["Location"]).rpartition("/")[2]


def test_firefox_receives_pushes_through_nginx_and_keeps_its_subscription(
    site: Site, firefox: Firefox
) -> None:
    vapid = Vapid02()
    vapid.generate_keys()
    public = vapid.public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    subscription = firefox.subscribe(encode_base64url(public))
    assert subscription.endpoint.startswith(f"{site.https}/wpush/v2/")
    version = send(site, subscription, "Grüße über TLS", vapid)
    assert firefox.receive(subscription) == ["Grüße über TLS".encode()]
    firefox.wait(lambda: version in firefox.acks, "the ack")
    assert firefox.acks[version] == DELIVERED
    # What is sent while it is away waits, and comes over a new connection.
    uaid = firefox.uaids[-1]
    firefox.stop()
    send(site, subscription, "meanwhile", vapid)
    firefox.start()
    assert firefox.uaids[-1] == uaid
    assert firefox.receive(subscription) == [b"meanwhile"]
    assert firefox.endpoint_of(subscription) == subscription.endpoint
