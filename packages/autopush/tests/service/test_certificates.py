"""Which listener asks clients for a certificate, and what that needs."""

from pathlib import Path

import pytest

from autopush.net.certificate_request import CertificateRequestContext
from autopush.service.certificates import Certificates
from autopush.settings import Settings
from support.certificates import Authority

LISTED = {"ours": (":".join(["0A"] * 32),)}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    files = Authority(tmp_path).issue(tmp_path)
    return Settings(
        ssl_cert=str(files.certificate),
        ssl_key=str(files.key),
        client_certs=LISTED,
        endpoint_port=8082,
        proxy_protocol_port=8083,
    )


def test_the_endpoint_asks_clients_and_the_websocket_port_does_not(settings: Settings) -> None:
    certificates = Certificates(settings)
    asks = {
        purpose: isinstance(tls.context, CertificateRequestContext)
        for purpose in settings.listeners
        if (tls := certificates.of(purpose)) is not None
    }
    assert asks == {"websocket": False, "endpoint": True, "proxied": True}
    certificates.reload(0.0)
    endpoint = certificates.of("endpoint")
    assert endpoint is not None
    assert endpoint is certificates.of("proxied")
