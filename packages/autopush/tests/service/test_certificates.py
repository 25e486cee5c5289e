"""Which listener asks clients for a certificate, and what that needs; one by ACME."""

import asyncio
import time
from pathlib import Path

import pytest

from autopush.acme.files import AcmeState, CertificateFolder
from autopush.acme.renewal import Failure
from autopush.net.certificate_request import CertificateRequestContext
from autopush.service.certificates import Certificates
from autopush.settings import Settings
from autopush.telemetry.metric_table import CERTIFICATE_LEFT
from support.certificates import Authority
from support.recorded import new_metrics

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


async def test_one_by_acme_is_taken_when_it_is_there(tmp_path: Path) -> None:
    folder, now = CertificateFolder(tmp_path), time.time()
    folder.prepare(["push.example"], now)
    folder.write(AcmeState(failure=Failure("no answer", now, 1, now + 60, "")))
    settings = Settings(data=tmp_path, domain=("push.example",), http_port=0)
    certificates, metrics = Certificates(settings), new_metrics()
    placeholder = certificates.of("endpoint")
    assert certificates.health(now) == {
        "status": "NOT OK",
        "names": ["push.example"],
        "days_left": 0,
        "failure": "no answer",
    }
    watching = asyncio.create_task(certificates.watch(metrics, lambda: now, reports=True))
    files = Authority(tmp_path).issue(tmp_path, "push.example", days=(-1, 30))
    folder.write(AcmeState(certificate=files.key.read_text() + files.certificate.read_text()))
    try:
        async with asyncio.timeout(30):
            while not (left := metrics.gauge(CERTIFICATE_LEFT).value):  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # the file is looked at each second
    finally:
        watching.cancel()
    assert left == pytest.approx(30 * 86_400, abs=60)
    assert certificates.of("endpoint") is placeholder
    assert certificates.health(now) == {"status": "OK", "names": ["push.example"], "days_left": 29}
