"""Log lines about HTTP requests, and the ids by which a client can quote them.

Rule: no line holds an endpoint, a message id, a UAID, or a header with a secret.
"""

import platform
import time
from collections.abc import Callable, Mapping
from typing import Final
from uuid import uuid4

from autopush.api.responses import ErrorResponses
from autopush.delivery.router import DeliveryResult
from autopush.net.http_messages import Request, Response
from autopush.telemetry import logs
from autopush.telemetry.logs import RepeatLimiter
from autopush.webpush import jwt
from autopush.webpush.errors import PushError
from autopush.webpush.tokens import EndpointTokens
from autopush.webpush.vapid import parse_credentials

REQUEST_ID: Final = "X-Request-Id"
LINES_PER_SECOND: Final = 5
"""Of refusals with one errno, and of failures with one type of error."""
FAILED_TLS_AUTH: Final = "Failed TLS auth"
MAX_TEXT: Final = 256
"""Characters of a value that the client chose."""
MASK: Final = "*"

EVENTS: Final = {
    DeliveryResult.DELIVERED: "Successful delivery",
    DeliveryResult.STORED: "Router miss, message stored",
    DeliveryResult.DISCARDED: "Router miss, message discarded",
}
"""What is logged of a message, in the words of the original."""

_WORDS: Final = (
    "wpush spush m v1 v2 err error crit errors status health push notif registration subscription "
    "webpush simplepush fcm gcm apns adm stub __error__ __heartbeat__ __lbheartbeat__ __version__"
)
_SHOWN: Final = frozenset(_WORDS.split())
"""Segments of paths that are logged; any other may be a secret, or a part of one."""
_MAX_SEGMENTS: Final = 10
_CLAIMS: Final = ("aud", "exp", "sub")
_PYTHON: Final = platform.python_version()

_log = logs.get("request")


class RequestLog:
    """Writes the lines of one worker, and makes the responses that carry an id. A line is built
    when it is written: a push that succeeds pays nothing for the lines it might have had.

    `hash_uaid`: what stands for a UAID in logs; `ami_id`: the image of this machine, or empty;
    `certificate_fields`: what is logged of a client's TLS certificate.
    """

    def __init__(
        self,
        tokens: EndpointTokens,
        errors: ErrorResponses,
        hash_uaid: Callable[[str], str],
        *,
        ami_id: str = "",
        certificate_fields: Callable[[bytes], Mapping[str, str]] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens = tokens
        self._errors = errors
        self._hash_uaid = hash_uaid
        self._certificate_fields = certificate_fields
        self._constant = {"python_version": _PYTHON, **({"ami_id": ami_id} if ami_id else {})}
        self._limiter = RepeatLimiter(LINES_PER_SECOND, monotonic=monotonic)
        self.is_verbose: Final = _log.is_verbose
        """Whether there is a line for each request. The level is that of the start."""

    def refused(self, request: Request, refusal: PushError) -> Response:
        """The response to a refused request. It is logged as a warning where the fault is with the
        service, else only when everything is logged.
        """
        response = self._errors.of(refusal)
        if refusal.status < 500:
            if self.is_verbose:
                _log.debug("Request refused", **self._refusal_fields(request, refusal))
            return response
        request_id = str(uuid4())
        count = self._limiter.admit(refusal.errno)
        if count is not None:
            fields = self._refusal_fields(request, refusal, request_id)
            _log.warning("Request refused", **fields, **count)
        return _with_id(response, request_id)

    def failed(self, error: Exception, request: Request) -> Response:
        """The response to a request that failed unexpectedly, which is logged with a traceback."""
        request_id = str(uuid4())
        count = self._limiter.admit(type(error).__qualname__)
        if count is not None:
            info = self.client_info(request, request_id)
            _log.exception("Request failed", error=error, client_info=info, **count)
        return _with_id(self._errors.of_protocol(500, "internal error"), request_id)

    def log_failed_tls_auth(self, request: Request) -> None:
        """Log a request without the certificate of a listed client."""
        count = self._limiter.admit(FAILED_TLS_AUTH)
        if count is not None:
            info = self.client_info(request)
            _log.warning(FAILED_TLS_AUTH, client_info=info, **count)

    def client_info(self, request: Request, request_id: str = "") -> dict[str, object]:
        """What is known of a client and its request. Without an id it gets one."""
        headers = request.headers
        info: dict[str, object] = {
            "request_id": request_id or str(uuid4()),
            "remote_ip": request.client_address,
            "user_agent": headers.get("user-agent", "")[:MAX_TEXT],
            "method": request.method,
            "uri": shown_path(request.path),
            **self._constant,
        }
        if self._certificate_fields is not None:
            info |= self._certificate_fields(request.certificate)
        if request.path.startswith(("/wpush/", "/spush/")):
            info["message_ttl"] = headers.get("ttl", "")[:MAX_TEXT]
            info["message_size"] = len(request.body)
            info["encoding"] = headers.get("content-encoding", "")[:MAX_TEXT]
            info |= self._subscription(request.path) | _claims(headers)
        return info

    def _refusal_fields(
        self, request: Request, refusal: PushError, request_id: str = ""
    ) -> dict[str, object]:
        info = self.client_info(request, request_id)
        if refusal.router_type:
            info["router_type"] = refusal.router_type
        fields: dict[str, object] = {
            "status_code": refusal.status,
            "errno": refusal.errno,
            "reason": refusal.message,
            "client_info": info,
        }
        if refusal.__cause__ is not None:
            fields["cause"] = type(refusal.__cause__).__name__
        return fields

    def _subscription(self, path: str) -> dict[str, object]:
        try:
            endpoint = self._tokens.open(path.rpartition("/")[2])
        except PushError:
            return {}
        return {"uaid_hash": self._hash_uaid(endpoint.uaid), "channel_id": endpoint.channel_id}


class PushLine:
    """The line about one message, for when everything is logged: what became of it, and how long
    that took.
    """

    def __init__(self, requests: RequestLog, request: Request) -> None:
        self._requests = requests
        self._request = request
        self._began = self._validated = time.perf_counter()

    def validated(self) -> None:
        """All checks are done."""
        self._validated = time.perf_counter()

    def write(self, result: DeliveryResult, router_type: str) -> None:
        """The message is where it is to be, and its sender is about to be answered."""
        began, validated, now = self._began, self._validated, time.perf_counter()
        timings = {
            "validation_time": validated - began,
            "route_time": now - validated,
            "request_time": now - began,
        }
        client_info = self._requests.client_info(self._request) | {"router_type": router_type}
        _log.debug(EVENTS[result], client_info=client_info, timings=timings)


def shown_path(path: str) -> str:
    """A path with all segments masked that are not known words."""
    segments = path.split("/")[:_MAX_SEGMENTS]
    return "/".join(part if part in _SHOWN or not part else MASK for part in segments)


def _claims(headers: Mapping[str, str]) -> dict[str, object]:
    """Those claims of the sender's token that say who it is; they need not be true."""
    authorization = headers.get("authorization")
    if authorization is None:
        return {}
    try:
        claims = jwt.parse(parse_credentials(authorization, {}).token).claims
    except (PushError, ValueError):
        return {}
    found = {f"jwt_{name}": claims.get(name) for name in _CLAIMS}
    return {
        name: value[:MAX_TEXT] if isinstance(value, str) else value
        for name, value in found.items()
        if isinstance(value, str | int | float)
    }


def _with_id(response: Response, request_id: str) -> Response:
    response.headers = (*response.headers, (REQUEST_ID, request_id))
    return response
