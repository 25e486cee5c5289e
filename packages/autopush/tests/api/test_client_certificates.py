"""Client certificates: which requests need one, and what is logged of those without."""

import json
import ssl
from pathlib import Path

import pytest

from autopush.api.app import ListedClients, common_name, fingerprint
from autopush.api.request_log import LINES_PER_SECOND
from autopush.telemetry import logs
from support.cases import cases
from support.certificates import self_signed
from support.connection_harness import Harness
from support.endpoint_harness import Endpoint, headers_of
from support.log_lines import LogFile

LISTED = b"a certificate, as far as its fingerprint is concerned"
STATUS_PAGES = [
    "/status",
    "/health",
    "/__heartbeat__",
    "/__lbheartbeat__",
    "/__version__",
    "/__error__",
    "/v1/err",
    "/v1/err/crit",
    "/%73tatus",
]


@pytest.fixture
def endpoint(harness: Harness) -> Endpoint:
    ours = (fingerprint(b"another"), fingerprint(LISTED))
    return Endpoint(harness, client_certs={"ours": ours}, sts_max_age=60)


async def is_refused(
    endpoint: Endpoint, path: str, method: str = "GET", certificate: bytes = b""
) -> bool:
    """Whether the certificate is not enough; a refusal must have the documented shape."""
    answer = await endpoint.ask(method, path, certificate=certificate)
    challenge = 'Transport mode="tls-client-certificate"'
    headers = headers_of(answer)
    if headers.get("www-authenticate") != challenge:
        return False
    assert answer.status == 401
    assert headers["access-control-allow-origin"] == "*"
    assert "strict-transport-security" in headers
    document = json.loads(answer.body)
    assert (document["code"], document["errno"]) == (401, 109)
    assert "certificate of a listed client" in document["message"]
    return True


@cases("path", ["/", "/wpush/v1/abc", "/v1/fcm/app/registration", "/m/foo"])
@cases("method", ["GET", "POST", "PUT", "DELETE", "HEAD"])
async def test_a_request_needs_a_listed_certificate(
    endpoint: Endpoint, path: str, method: str
) -> None:
    assert not await is_refused(endpoint, path, method, LISTED)
    assert await is_refused(endpoint, path, method, b"unlisted")
    assert await is_refused(endpoint, path, method)


@pytest.mark.parametrize("path", STATUS_PAGES)
async def test_status_pages_and_the_log_check_need_none(endpoint: Endpoint, path: str) -> None:
    assert not await is_refused(endpoint, path)
    assert not await is_refused(endpoint, path, "HEAD")
    assert await is_refused(endpoint, path, "POST")


@pytest.mark.parametrize(
    "path",
    [
        "/status/",
        "/statuses",
        "/v1/errors",
        "/v1/err/a/registration",
        "/v1/err/a%2fregistration",
        "/v1/err%2Fa%2Fregistration",
        "/v1/err/../fcm/a/registration",
        "//status",
    ],
)
async def test_what_only_looks_like_such_a_page_needs_one(endpoint: Endpoint, path: str) -> None:
    assert await is_refused(endpoint, path)


async def test_a_preflight_needs_none(endpoint: Endpoint) -> None:
    assert not await is_refused(endpoint, "/wpush/v1/abc", "OPTIONS")


async def test_requests_without_one_are_logged_so_many_times_a_second(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    log = LogFile(tmp_path)
    for _ in range(LINES_PER_SECOND + 3):
        assert await is_refused(endpoint, "/wpush/v1/abc", "POST", b"unlisted")
    logs.shutdown()
    lines = [line for line in log.all_fields if line["message"] == "Failed TLS auth"]
    assert len(lines) == LINES_PER_SECOND
    assert lines[0]["remote_ip"] == "::1"
    assert lines[0]["tls_failed_sha256"] == fingerprint(b"unlisted")
    assert lines[0]["tls_failed_cn"] == ""


def test_a_certificate_is_described_by_its_cn_and_its_fingerprint(tmp_path: Path) -> None:
    pem = self_signed(tmp_path / "one.pem").read_text()
    der = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE") :])
    assert common_name(der).startswith("made by a test, ")
    clients = ListedClients({"ours": (fingerprint(der),)})
    assert clients.log_fields(der) == {
        "tls_auth": "ours",
        "tls_auth_sha256": fingerprint(der),
        "tls_auth_cn": common_name(der),
    }
    assert clients.log_fields(b"") == {}
    assert b"" not in clients


def test_of_a_certificate_that_openssl_accepts_and_nobody_else_the_fingerprint_is_logged(
    tmp_path: Path,
) -> None:
    pem = self_signed(tmp_path / "one.pem").read_text()
    der = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE") :])
    version_3, version_5 = b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x04"
    assert der.count(version_3) == 1
    unknown = der.replace(version_3, version_5)
    fields = {"tls_failed_sha256": fingerprint(unknown), "tls_failed_cn": ""}
    assert ListedClients({}).log_fields(unknown) == fields
