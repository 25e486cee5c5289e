"""TLS client certificates: who may use the endpoint when the option `client_certs` is given.

Rule: whoever may use it is decided for each request, by the certificate of its connection alone;
the signature of a message is checked all the same.
"""

import hashlib
from collections.abc import Coroutine, Mapping
from typing import Any, Final
from urllib.parse import unquote

from autopush.api.app import CommonHeaders
from autopush.api.request_log import RequestLog
from autopush.api.responses import ErrorResponses
from autopush.net.http_messages import Answer, Handler, Request
from autopush.settings.value_types import NamedTexts
from autopush.webpush.errors import Errno, PushError

CHALLENGE: Final = ("WWW-Authenticate", 'Transport mode="tls-client-certificate"')
EXEMPT: Final = frozenset(
    ("/status", "/health", "/__heartbeat__", "/__lbheartbeat__", "/__version__", "/__error__")
)
_LOG_CHECK: Final = ["", "v1", "err"]


class ListedClients:
    """The clients of the option, known by the SHA-256 of their certificates.

    `listed`: the fingerprints of each client, as upper-case hex with colons. The certificates that
    are asked for are in DER; empty for none.
    """

    def __init__(self, listed: NamedTexts) -> None:
        self._names = {each: name for name, prints in listed.items() for each in prints}

    def __contains__(self, certificate: bytes) -> bool:
        return fingerprint(certificate) in self._names

    def log_fields(self, certificate: bytes) -> Mapping[str, str]:
        """What logs say of a certificate: `tls_auth` is the client's name in the option."""
        if not certificate:
            return {}
        sha256, cn = fingerprint(certificate), common_name(certificate)
        name = self._names.get(sha256)
        if name is None:
            return {"tls_failed_sha256": sha256, "tls_failed_cn": cn}
        return {"tls_auth": name, "tls_auth_sha256": sha256, "tls_auth_cn": cn}


class ClientCertificates:
    """Handler of an endpoint port: passes on what listed clients send.

    The status pages and the log check need no certificate; nor does OPTIONS, as browsers send a
    preflight without one.
    """

    def __init__(
        self,
        handler: Handler,
        clients: ListedClients,
        requests: RequestLog,
        errors: ErrorResponses,
        headers: CommonHeaders,
    ) -> None:
        self._handler = handler
        self._clients = clients
        self._requests = requests
        self._errors = errors
        self._headers = headers

    def __call__(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        if request.certificate in self._clients or _is_exempt(request):
            return self._handler(request)
        self._requests.log_failed_tls_auth(request)
        refusal = PushError(
            Errno.INVALID_AUTHENTICATION,
            "This service requires the TLS certificate of a listed client",
            headers=(CHALLENGE,),
        )
        response = self._errors.of(refusal)
        response.block = self._headers.of(request.path)
        return response


def fingerprint(certificate: bytes) -> str:
    """As `openssl x509 -fingerprint -sha256` writes it; empty without a certificate."""
    return hashlib.sha256(certificate).digest().hex(":").upper() if certificate else ""


def common_name(certificate: bytes) -> str:
    """The CN of the subject, at most 64 characters as X.509 has it; empty where there is none."""
    from cryptography import x509  # noqa: PLC0415 - it is there, since the port has a certificate

    try:
        subject = x509.load_der_x509_certificate(certificate).subject
        names = subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    except (ValueError, x509.InvalidVersion):  # OpenSSL is content with less
        return ""
    return str(names[0].value)[:64] if names else ""


def _is_exempt(request: Request) -> bool:
    if request.method not in ("GET", "HEAD"):
        return request.method == "OPTIONS"
    path = unquote(request.path)  # as for the routes
    parts = path.split("/")
    return path in EXEMPT or (parts[:3] == _LOG_CHECK and len(parts) <= 4)
