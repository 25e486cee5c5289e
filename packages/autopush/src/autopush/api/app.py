"""The public port: its routes, client certificates and the headers of all its responses."""

import hashlib
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from autopush.api import responses
from autopush.api.forwarding import Forwarding
from autopush.api.matrix import PATH as MATRIX_PATH
from autopush.api.matrix import MatrixGateway
from autopush.api.node_ports import UpgradeHandler
from autopush.api.pages import Pages
from autopush.api.push import PUSH_HEADERS, DeleteHandler, PushHandler, SimplePushHandler
from autopush.api.receipts import ReceiptHandler
from autopush.api.registration import METHODS, RegistrationHandler
from autopush.api.request_log import RequestLog
from autopush.api.status_pages import Dockerflow, LogCheck
from autopush.net.http_messages import Answer, HeaderBlock, Request, Response, header_block
from autopush.settings.value_types import NamedTexts
from autopush.webpush.errors import Errno, PushError

EXPOSED: Final = (
    "location,ttl,link,preference-applied,retry-after,www-authenticate,allow,etag,x-request-id"
)
"""The response headers that web pages may read, of all paths."""
MAX_AGE: Final = "3600"
CHALLENGE: Final = ("WWW-Authenticate", 'Transport mode="tls-client-certificate"')


class Route(NamedTuple):
    """What web pages may send to a path; the documentation lists it. Lists have commas."""

    path: str
    methods: str
    allowed_headers: str = ""


PUSH: Final = Route("/wpush/…", "POST", PUSH_HEADERS)
SIMPLEPUSH: Final = Route("/spush/…", "PUT")
MESSAGE: Final = Route("/m/…", "GET,DELETE")
RECEIPTS: Final = Route("/r/…", "GET", "prefer,if-none-match")
REGISTRATION: Final = tuple(
    Route("/v1/{type}/{app_id}/registration" + rest, methods.replace(" ", ""))
    for rest, methods in zip(
        ("", "/{uaid}", "/{uaid}/subscription", "/{uaid}/subscription/{channelID}"),
        METHODS,
        strict=True,
    )
)
"""By the number of path segments after `registration`."""
ROUTES: Final = (PUSH, SIMPLEPUSH, MESSAGE, RECEIPTS, *REGISTRATION)


class CommonHeaders:
    """CORS and HSTS headers by route, rendered once. `hsts_max_age`: seconds, 0 for no header."""

    def __init__(self, *, cors: bool, hsts_max_age: int) -> None:
        self._cors = cors
        self._hsts = hsts_max_age
        self.push = self._block(PUSH)
        self.simplepush = self._block(SIMPLEPUSH)
        self.delete = self._block(MESSAGE)
        self.receipts = self._block(RECEIPTS)
        self.receipt_stream = self._headers(RECEIPTS)
        self.registration = [self._block(route) for route in REGISTRATION]
        self.other = self._block(None)
        """Also of answers that no route makes, such as those to malformed requests."""

    def of(self, path: str) -> HeaderBlock:
        if path.startswith("/wpush/"):
            return self.push
        if path.startswith("/spush/"):
            return self.simplepush
        if path.startswith("/v1/"):
            rest = path.partition("/registration")[2].strip("/")
            parts = rest.count("/") + 1 if rest else 0
            if "/registration" in path and parts < len(self.registration):
                return self.registration[parts]
        return self.delete if path.startswith("/m/") else self.other

    def _block(self, route: Route | None) -> HeaderBlock:
        return header_block(self._headers(route))

    def _headers(self, route: Route | None) -> Sequence[tuple[str, str]]:
        headers: list[tuple[str, str]] = []
        if self._cors:
            headers.append(("Access-Control-Allow-Origin", "*"))
            headers.append(("Access-Control-Expose-Headers", EXPOSED))
            if route is not None:
                headers += [
                    ("Access-Control-Allow-Methods", route.methods),
                    ("Access-Control-Allow-Headers", route.allowed_headers),
                    ("Access-Control-Max-Age", MAX_AGE),
                ]
        if self._hsts:
            value = f"max-age={self._hsts};includeSubDomains"
            headers.append(("Strict-Transport-Security", value))
        return headers


@dataclass(eq=False, kw_only=True)
class EndpointApp:
    """Handler of the public port. `clients`: None admits all; `max_requests`: concurrent;
    `forwarding`: None for a single worker; `matrix`: None without a gateway; `websockets`: None if
    user agents connect elsewhere.
    """

    push: PushHandler
    simplepush: SimplePushHandler
    delete: DeleteHandler
    receipts: ReceiptHandler
    registration: RegistrationHandler
    dockerflow: Dockerflow
    log_check: LogCheck
    pages: Pages
    requests: RequestLog
    headers: CommonHeaders
    clients: "ListedClients | None"
    websocket_url: str
    forwarding: Forwarding | None = None
    max_requests: int = field(init=False)
    matrix: MatrixGateway | None = field(default=None, init=False)
    websockets: UpgradeHandler | None = None
    in_progress: int = field(default=0, init=False)

    def __call__(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        if "upgrade" in request.headers and self.websockets and self.websockets.takes(request):
            return self.websockets(request)
        if request.path.startswith("/r/"):
            return self._respond_with_receipts(request)
        return self.respond(request)

    async def _respond_with_receipts(self, request: Request) -> Answer:
        try:  # it may wait long, which has a limit of its own
            self._check_certificate(request, request.path)
            match request.method, request.path.removeprefix("/r/"):
                case "GET", token:
                    answer = await self.receipts(request, token)
                case (("OPTIONS" | "HEAD"), _):
                    answer = Response(200)
                case _:
                    raise responses.method_not_allowed("GET")
        except PushError as refusal:
            answer = self.requests.refused(request, refusal)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            answer = self.requests.failed(error, request)
        if isinstance(answer, Response):
            answer.block = self.headers.receipts
        else:
            answer.headers = (*answer.headers, *self.headers.receipt_stream)
        return answer

    def respond(self, request: Request) -> Coroutine[Any, Any, Response]:
        """Here, or in the worker that owns the user."""
        if self.forwarding is not None:
            owner = self.forwarding.owner(request)
            if owner is not None:
                return self._forward(owner, request)
        return self.respond_here(request)

    async def _forward(self, owner: int, request: Request) -> Response:
        assert self.forwarding is not None
        try:
            response = await self.forwarding.send(owner, request)
        except PushError as refusal:
            response = self.requests.refused(request, refusal)
            response.block = self.headers.of(request.path)
        return response or await self.respond_here(request)

    async def respond_here(self, request: Request) -> Response:
        if self.in_progress >= self.max_requests:
            busy = PushError(Errno.BACK_OFF, "Too many requests in progress")
            response = self.requests.refused(request, busy)
        else:
            self.in_progress += 1
            try:
                response = await self._respond(request)
            except PushError as refusal:
                response = self.requests.refused(request, refusal)
            except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
                response = self.requests.failed(error, request)
            finally:
                self.in_progress -= 1
        if not response.block:
            response.block = self.headers.of(request.path)
        return response

    async def _respond(self, request: Request) -> Response:
        path = request.path if "%" not in request.path else unquote(request.path)
        if self.clients is not None:
            self._check_certificate(request, path)
        segments = path.split("/")[1:]
        match request.method, *segments:
            case "POST", "wpush", version, token if token:
                return await self.push(request, version, token)
            case "POST", "wpush", token if token:
                return await self.push(request, None, token)
            case ("PUT", "spush", _, token) | ("PUT", "spush", token) if token:
                return await self.simplepush(request, token)
            case "DELETE", "m", message_id if message_id:
                return await self.delete(message_id)
            case "GET", "m", message_id if message_id:
                return await self.receipts.state_of(message_id)
            case "OPTIONS", *_:
                return Response(200)
            case "HEAD", *_:
                # Status pages keep their status; every other path is 200.
                return await self.dockerflow.respond(request) or Response(200)
            case "GET", *_ if "websocket" in request.headers.get("upgrade", "").lower():
                raise responses.no_websocket_here(self.websocket_url)
            case "GET", "ws", *_ if self.websockets is not None:
                raise responses.upgrade_required(self.websocket_url)
            case _, "v1", kind, app_id, "registration", *rest if kind and app_id:
                return await self.registration(request, kind, app_id, rest)
            case _, *names if self.matrix is not None and tuple(names) == MATRIX_PATH:
                return await self.matrix(request, self.respond)
            case (_, "wpush", _, token) | (_, "wpush", token) if token:
                raise responses.method_not_allowed("POST")
            case (_, "spush", _, token) | (_, "spush", token) if token:
                raise responses.method_not_allowed("PUT")
            case _, "m", message_id if message_id:
                raise responses.method_not_allowed("GET, DELETE")
        page = (
            await self.dockerflow.respond(request)
            or self.log_check.respond(request)
            or self.pages.respond(request)
        )
        if page is None:
            raise responses.not_found()
        return page

    def _check_certificate(self, request: Request, path: str) -> None:
        if self.clients is not None and request.certificate not in self.clients:
            self._check_exempt(request, path)

    def _check_exempt(self, request: Request, path: str) -> None:
        """Pass only status pages, the log check and CORS preflights, which have no certificate.

        :raises PushError: 401/109, for anything else
        """
        match request.method, *path.split("/")[1:]:
            case ("OPTIONS", *_) | ("GET" | "HEAD", "v1", "err") | ("GET" | "HEAD", "v1", "err", _):
                return
            case "GET" | "HEAD", page if page in _STATUS_PAGES:
                return
        self.requests.log_failed_tls_auth(request)
        raise PushError(
            Errno.INVALID_AUTHENTICATION,
            "This service requires the TLS certificate of a listed client",
            headers=(CHALLENGE,),
        )


_STATUS_PAGES: Final = frozenset(
    ("status", "health", "__heartbeat__", "__lbheartbeat__", "__version__", "__error__")
)


class ListedClients:
    """The clients of the option `client_certs`. Certificates are in DER, empty for none.

    `listed`: each client's SHA-256 fingerprints, in upper-case hex with colons.
    """

    def __init__(self, listed: NamedTexts) -> None:
        self.set(listed)

    def set(self, listed: NamedTexts) -> None:
        self._names = {each: name for name, prints in listed.items() for each in prints}

    def __contains__(self, certificate: bytes) -> bool:
        return fingerprint(certificate) in self._names

    def log_fields(self, certificate: bytes) -> Mapping[str, str]:
        """Fields for log lines; `tls_auth` is the client's name in the option."""
        if not certificate:
            return {}
        sha256, cn = fingerprint(certificate), common_name(certificate)
        name = self._names.get(sha256)
        if name is None:
            return {"tls_failed_sha256": sha256, "tls_failed_cn": cn}
        return {"tls_auth": name, "tls_auth_sha256": sha256, "tls_auth_cn": cn}


def fingerprint(certificate: bytes) -> str:
    """As `openssl x509 -fingerprint -sha256` prints it; empty without a certificate."""
    return hashlib.sha256(certificate).digest().hex(":").upper() if certificate else ""


def common_name(certificate: bytes) -> str:
    """The CN of the subject, at most 64 characters (the limit of X.509); empty if there is none."""
    from cryptography import x509  # noqa: PLC0415 - it is there, since the port has a certificate

    try:
        subject = x509.load_der_x509_certificate(certificate).subject
        names = subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    except (ValueError, x509.InvalidVersion):  # OpenSSL accepts more than this parser
        return ""
    return str(names[0].value)[:64] if names else ""
