"""The endpoint of SimplePush, `PUT /spush/{version}/{token}`: a channel has a new version.

Rule: a version that is answered was delivered or is in the store; it is kept until it is acked or a
higher one replaces it.
"""

from typing import Final
from urllib.parse import parse_qsl

from autopush.api import responses
from autopush.api.push_metrics import PushMetrics, router_type_of
from autopush.api.request_log import PushLine, RequestLog
from autopush.clock import Clock
from autopush.delivery.router import DeliveryResult, UserAgentRouter
from autopush.limits import PushLimits
from autopush.net.http_messages import HeaderBlock, Request, Response
from autopush.store.users import SIMPLEPUSH
from autopush.webpush.endpoint_token import Endpoint, EndpointTokens
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.version_update import MAX_VERSION, VersionUpdate
from keytables import KeytablesError

MAX_FIELDS: Final = 32


class SimplePushHandler:
    """Takes versions. `max_data`: bytes of the text that may come with one."""

    def __init__(
        self,
        *,
        tokens: EndpointTokens,
        limits: PushLimits,
        router: UserAgentRouter,
        clock: Clock,
        metrics: PushMetrics,
        requests: RequestLog,
        max_data: int,
        block: HeaderBlock,
    ) -> None:
        self._tokens = tokens
        self._limits = limits
        self._router = router
        self._clock = clock
        self._metrics = metrics
        self._requests = requests
        self._max_data = max_data
        self._block = block

    async def __call__(self, request: Request, token: str) -> Response:
        """Check, route, respond.

        :raises PushError: the version is refused
        """
        began = self._metrics.received()
        line = PushLine(self._requests, request) if self._requests.is_verbose else None
        recipient = None
        try:
            endpoint = self._open(token)
            self._limits.check_push(endpoint, None, began)
            recipient = await self._router.find_simplepush(endpoint.uaid)
            number, data = read_update(request.body or request.query.encode(), self._clock())
            if data is not None and len(data.encode()) > self._max_data:
                raise PushError(
                    Errno.PAYLOAD_TOO_LARGE, f"data is longer than {self._max_data} bytes"
                )
            update = VersionUpdate.of(endpoint.uaid, endpoint.channel_id, number, data)
            if line is not None:
                line.validated()
            result = await self._router.route(recipient, update)
        except PushError as refusal:
            refusal.router_type = router_type_of(recipient)
            self._metrics.refused(refusal, refusal.router_type)
            raise
        except KeytablesError as error:
            failure = responses.storage_refusal(error)
            failure.router_type = router_type_of(recipient)
            self._metrics.refused(failure, failure.router_type)
            raise failure from error
        self._metrics.accepted(began, SIMPLEPUSH, result, len((data or "").encode()))
        if line is not None:
            line.write(result, SIMPLEPUSH)
        if result is DeliveryResult.DELIVERED:
            response = responses.text(200, "Delivered")
        else:
            response = responses.text(202, "Notification Stored")
        response.block = self._block
        return response

    def _open(self, token: str) -> Endpoint:
        try:
            endpoint = self._tokens.open(token)
        except PushError:
            endpoint = None
        if endpoint is None or endpoint.key_hash is not None:
            raise PushError.invalid(Errno.INVALID_ENDPOINT, "invalid token", status=400)
        return endpoint


def read_update(form: bytes, now: float) -> tuple[int, str | None]:
    """Version and data of a form: without a version, or with one below 1, the time in seconds.

    :raises PushError: 400/108, not a form, or a version that is no number
    """
    try:
        fields = dict(
            parse_qsl(
                form.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
            )
        )
    except ValueError:  # UnicodeDecodeError too
        raise PushError(
            Errno.INVALID_ROUTER_TYPE, "Expected a form in UTF-8 with version and data"
        ) from None
    text, data = fields.get("version", ""), fields.get("data") or None
    # Compared as text, as the original does: 0 and negative numbers too are no version.
    if text < "1":
        return int(now), data
    is_number = text.isascii() and text.isdigit() and len(text) < 20
    if not is_number or int(text) > MAX_VERSION:
        raise PushError(
            Errno.INVALID_ROUTER_TYPE, f"Invalid version: expected a number up to {MAX_VERSION}"
        )
    return int(text), data
