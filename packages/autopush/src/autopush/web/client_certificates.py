"""TLS client certificates: who may use the endpoint when the option `client_certs` is given.

Rule: whoever may use it is decided for each request, by the SHA-256 of the certificate of its
connection alone; VAPID is checked all the same.
"""

import hashlib
from collections.abc import Coroutine, Mapping
from typing import Any, Final
from urllib.parse import unquote

from cryptography.x509 import load_der_x509_certificate
from cryptography.x509.oid import NameOID

from autopush.net.http_messages import Answer, Handler, Request, Response
from autopush.telemetry import logs
from autopush.web.app import CommonHeaders

UNAUTHORIZED: Final = (("WWW-Authenticate", 'Transport mode="tls-client-certificate"'),)
EXEMPT: Final = frozenset(
    ("/status", "/health", "/__heartbeat__", "/__lbheartbeat__", "/__version__", "/__error__")
)
_LOG_CHECK: Final = "/v1/err"

_log = logs.get(__name__)


class ClientCertificates:
    """Handler of an endpoint port: passes on what a listed client sends.

    `listed`: the fingerprints of each client, as upper-case hex with colons. The status pages and
    the log check need no certificate, nor does OPTIONS, since browsers send it without one.
    """

    def __init__(
        self, handler: Handler, listed: Mapping[str, tuple[str, ...]], headers: CommonHeaders
    ) -> None:
        self._handler = handler
        self._headers = headers
        self._clients = {each: name for name, prints in listed.items() for each in prints}

    def __call__(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        if fingerprint(request.certificate) in self._clients or _is_exempt(request):
            return self._handler(request)
        _log.warning("Failed TLS auth", remote_ip=request.client_address, **_failed(request))
        block = self._headers.of(request.path)
        return Response(401, headers=UNAUTHORIZED, block=block)

    def tls_fields(self, request: Request) -> dict[str, str]:
        """What logs say of the client of a request: `tls_auth` is its name in the option."""
        sha256 = fingerprint(request.certificate)
        name = self._clients.get(sha256)
        if name is None:
            return {}
        cn = common_name(request.certificate)
        return {"tls_auth": name, "tls_auth_sha256": sha256, "tls_auth_cn": cn}


def fingerprint(certificate: bytes) -> str:
    """The SHA-256 of a certificate in DER, as `openssl x509 -fingerprint -sha256` writes it; empty
    without one.
    """
    return hashlib.sha256(certificate).digest().hex(":").upper() if certificate else ""


def common_name(certificate: bytes) -> str:
    """The CN of a certificate in DER, empty where there is none."""
    try:
        subject = load_der_x509_certificate(certificate).subject
        names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:
        return ""
    return str(names[0].value) if names else ""


def _failed(request: Request) -> dict[str, str]:
    if not request.certificate:
        return {}
    sha256, cn = fingerprint(request.certificate), common_name(request.certificate)
    return {"tls_failed_cn": cn, "tls_failed_sha256": sha256}


def _is_exempt(request: Request) -> bool:
    if request.method == "OPTIONS":
        return True
    # As the routes are found: by the decoded path.
    path = unquote(request.path)
    is_log_check = path == _LOG_CHECK or (
        path.startswith(_LOG_CHECK + "/") and path.count("/") == _LOG_CHECK.count("/") + 1
    )
    return request.method in ("GET", "HEAD") and (path in EXEMPT or is_log_check)
