"""Client certificates: which requests need one, and what is logged of those without."""

import json
import ssl
from pathlib import Path

import pytest

from autopush.api.app import CommonHeaders
from autopush.api.client_certificates import (
    ClientCertificates,
    ListedClients,
    common_name,
    fingerprint,
)
from autopush.api.request_log import LINES_PER_SECOND, RequestLog
from autopush.api.responses import ErrorResponses
from autopush.net.http_messages import Request, Response
from autopush.telemetry import logs
from autopush.webpush.endpoint_token import EndpointTokens
from support.certificates import self_signed
from support.connection_harness import ERRORS, Harness
from support.endpoint_harness import headers_of
from support.log_lines import LogFile

LISTED = b"a certificate, as far as its fingerprint is concerned"


@pytest.fixture
def handler(harness: Harness) -> ClientCertificates:
    clients = ListedClients({"ours": (fingerprint(b"another"), fingerprint(LISTED))})
    requests = RequestLog(
        EndpointTokens(harness.ring, "https://push.example"),
        ErrorResponses(ERRORS),
        harness.store.uaid_hash,
        certificate_fields=clients.log_fields,
        monotonic=lambda: 1000.0,
    )
    headers = CommonHeaders(cors=True, hsts_max_age=60)
    errors = ErrorResponses(ERRORS)
    return ClientCertificates(lambda _: Response(200), clients, requests, errors, headers)


def status(
    handler: ClientCertificates, path: str, method: str = "GET", certificate: bytes = b""
) -> int:
    answer = handler(Request(method, path, "", {}, "::1", certificate=certificate))
    assert isinstance(answer, Response)
    if answer.status == 401:
        headers = headers_of(answer)
        assert headers["www-authenticate"] == 'Transport mode="tls-client-certificate"'
        assert headers["access-control-allow-origin"] == "*"
        assert "strict-transport-security" in headers
        document = json.loads(answer.body)
        assert (document["code"], document["errno"]) == (401, 109)
        assert "certificate of a listed client" in document["message"]
    return answer.status


@pytest.mark.parametrize("path", ["/", "/wpush/v1/abc", "/v1/fcm/app/registration", "/m/foo"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "HEAD"])
def test_a_request_needs_a_listed_certificate(
    handler: ClientCertificates, path: str, method: str
) -> None:
    assert status(handler, path, method, LISTED) == 200
    assert status(handler, path, method, b"unlisted") == 401
    assert status(handler, path, method) == 401


@pytest.mark.parametrize(
    "path",
    [
        "/status",
        "/health",
        "/__heartbeat__",
        "/__lbheartbeat__",
        "/__version__",
        "/__error__",
        "/v1/err",
        "/v1/err/crit",
        "/%73tatus",
    ],
)
def test_status_pages_and_the_log_check_need_none(handler: ClientCertificates, path: str) -> None:
    assert status(handler, path) == status(handler, path, "HEAD") == 200
    assert status(handler, path, "POST") == 401


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
def test_what_only_looks_like_such_a_page_needs_one(handler: ClientCertificates, path: str) -> None:
    assert status(handler, path) == 401


def test_a_preflight_needs_none(handler: ClientCertificates) -> None:
    assert status(handler, "/wpush/v1/abc", "OPTIONS") == 200


def test_requests_without_one_are_logged_so_many_times_a_second(
    handler: ClientCertificates, tmp_path: Path
) -> None:
    log = LogFile(tmp_path)
    for _ in range(LINES_PER_SECOND + 3):
        status(handler, "/wpush/v1/abc", "POST", b"unlisted")
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
