"""Log lines about HTTP requests, and the request ids that clients can quote.

Rule: no line holds an endpoint, a message id, a UAID, or a header with a secret.
"""

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Final
from uuid import uuid4

from autopush.api.responses import ErrorResponses
from autopush.delivery.calls import Outcome
from autopush.net.http_messages import Request, Response
from autopush.telemetry import logs
from autopush.telemetry.logs import RepeatLimiter
from autopush.telemetry.metric_table import REQUEST_REFUSED
from autopush.telemetry.metrics import Metrics
from autopush.webpush import jwt
from autopush.webpush.errors import PushError
from autopush.webpush.tokens import EndpointTokens
from autopush.webpush.vapid import parse_credentials

REQUEST_ID: Final = "X-Request-Id"
LINES_PER_SECOND: Final = 5
"""Per errno of refusals, and per exception type of failures."""
FAILED_TLS_AUTH: Final = "Failed TLS auth"
MAX_TEXT: Final = 256
"""Characters logged of a value that the client chose."""
MASK: Final = "*"

EVENTS: Final = {
    Outcome.DONE: "Successful delivery",
    Outcome.STORED: "Router miss, message stored",
    Outcome.DISCARDED: "Router miss, message discarded",
}
"""Log events of a message, worded like the original's."""

_WORDS: Final = (
    "wpush spush m v1 v2 err error crit errors status health push notif registration subscription "
    "webpush simplepush fcm gcm apns adm stub _matrix notify "
    "__error__ __heartbeat__ __lbheartbeat__ __version__"
)
_SHOWN: Final = frozenset(_WORDS.split())
"""Path segments that are logged; any other may be secret."""
_MAX_SEGMENTS: Final = 10
_CLAIMS: Final = ("aud", "exp", "sub")
_PYTHON: Final = platform.python_version()

_log = logs.get("request")


@dataclass(eq=False)
class RequestLog:
    """Writes the lines of one worker and makes error responses. A line is built only if it is
    written: it costs a successful push nothing.

    `hash_uaid`: replaces a UAID in logs; `ami_id`: the image of this machine, or empty;
    `certificate_fields`: log fields of a client's certificate.
    """

    tokens: EndpointTokens
    errors: ErrorResponses
    hash_uaid: Callable[[str], str]
    metrics: Metrics
    _: KW_ONLY
    ami_id: str = ""
    certificate_fields: Callable[[bytes], Mapping[str, str]] | None = None
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._constant = {
            "python_version": _PYTHON,
            **({"ami_id": self.ami_id} if self.ami_id else {}),
        }
        self._refused = self.metrics.counters(REQUEST_REFUSED)
        self._limiter = RepeatLimiter(LINES_PER_SECOND, monotonic=self.monotonic)
        self.is_verbose = _log.is_verbose
        """Whether each request gets a line; fixed at the start."""

    def refused(self, request: Request, refusal: PushError) -> Response:
        """The error response. 5xx are logged as warnings, others at level debug."""
        response = self.errors.of(refusal)
        self._refused[f"{refusal.errno:d}"].add()
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
        """The response to an unexpected exception, which is logged with its traceback."""
        request_id = str(uuid4())
        count = self._limiter.admit(type(error).__qualname__)
        if count is not None:
            info = self.client_info(request, request_id)
            _log.exception("Request failed", error=error, client_info=info, **count)
        return _with_id(self.errors.of_protocol(500, "internal error"), request_id)

    def log_failed_tls_auth(self, request: Request) -> None:
        count = self._limiter.admit(FAILED_TLS_AUTH)
        if count is not None:
            info = self.client_info(request)
            _log.warning(FAILED_TLS_AUTH, client_info=info, **count)

    def client_info(self, request: Request, request_id: str = "") -> dict[str, object]:
        """Log fields of a client and its request; a missing id is generated."""
        headers = request.headers
        info: dict[str, object] = {
            "request_id": request_id or str(uuid4()),
            "remote_ip": request.client_address,
            "user_agent": headers.get("user-agent", "")[:MAX_TEXT],
            "method": request.method,
            "uri": shown_path(request.path),
            **self._constant,
        }
        if self.certificate_fields is not None:
            info |= self.certificate_fields(request.certificate)
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
            endpoint = self.tokens.open(path.rpartition("/")[2])
        except PushError:
            return {}
        return {"uaid_hash": self.hash_uaid(endpoint.uaid), "channel_id": endpoint.channel_id}


class PushLine:
    """The debug line about one message: its outcome and timings."""

    def __init__(self, requests: RequestLog, request: Request) -> None:
        self._requests = requests
        self._request = request
        self._began = self._validated = time.perf_counter()

    def validated(self) -> None:
        self._validated = time.perf_counter()

    def write(self, result: Outcome, router_type: str) -> None:
        began, validated, now = self._began, self._validated, time.perf_counter()
        timings = {
            "validation_time": validated - began,
            "route_time": now - validated,
            "request_time": now - began,
        }
        client_info = self._requests.client_info(self._request) | {"router_type": router_type}
        _log.debug(EVENTS[result], client_info=client_info, timings=timings)


def shown_path(path: str) -> str:
    """The path with every segment masked that is not a known word."""
    segments = path.split("/")[:_MAX_SEGMENTS]
    return "/".join(part if part in _SHOWN or not part else MASK for part in segments)


def _claims(headers: Mapping[str, str]) -> dict[str, object]:
    """The identifying claims of the sender's token, unverified."""
    authorization = headers.get("authorization")
    if authorization is None:
        return {}
    try:
        claims = jwt.parse(parse_credentials(authorization, {}).token).claims
    except (PushError, ValueError):
        return {}
    fields = {f"jwt_{name}": claims.get(name) for name in _CLAIMS}
    return {
        name: value[:MAX_TEXT] if isinstance(value, str) else value
        for name, value in fields.items()
        if isinstance(value, str | int | float)
    }


def _with_id(response: Response, request_id: str) -> Response:
    response.headers = (*response.headers, (REQUEST_ID, request_id))
    return response
