"""TLS client certificates: who may use the endpoint when the option `client_certs` is given.

Rule: whoever may use it is decided for each request, by the certificate of its connection alone;
the signature of a message is checked all the same.
"""

from collections.abc import Coroutine
from typing import Any, Final
from urllib.parse import unquote

from autopush.listed_clients import ListedClients
from autopush.net.http_messages import Answer, Handler, Request, Response
from autopush.request_log import RequestLog
from autopush.web.app import CommonHeaders

UNAUTHORIZED: Final = (("WWW-Authenticate", 'Transport mode="tls-client-certificate"'),)
EXEMPT: Final = frozenset(
    ("/status", "/health", "/__heartbeat__", "/__lbheartbeat__", "/__version__", "/__error__")
)
_LOG_CHECK: Final = ["", "v1", "err"]


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
        headers: CommonHeaders,
    ) -> None:
        self._handler = handler
        self._clients = clients
        self._requests = requests
        self._headers = headers

    def __call__(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        if request.certificate in self._clients or _is_exempt(request):
            return self._handler(request)
        self._requests.log_failed_tls_auth(request)
        return Response(401, headers=UNAUTHORIZED, block=self._headers.of(request.path))


def _is_exempt(request: Request) -> bool:
    if request.method not in ("GET", "HEAD"):
        return request.method == "OPTIONS"
    path = unquote(request.path)  # as for the routes
    parts = path.split("/")
    return path in EXEMPT or (parts[:3] == _LOG_CHECK and len(parts) <= 4)
