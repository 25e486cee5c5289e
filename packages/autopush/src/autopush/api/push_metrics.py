"""What the endpoint records of pushes."""

from collections.abc import Mapping
from time import perf_counter
from typing import Final

from autopush.delivery.bridged import BridgedUser
from autopush.delivery.metrics import platform
from autopush.delivery.router import CachedUser, DeliveryResult, Recipient
from autopush.store.users import SIMPLEPUSH, WEBPUSH
from autopush.telemetry.metric_table import (
    ENCODING_AES128GCM,
    ENCODING_AESGCM,
    ENCODING_AESGCM128,
    NO_ROUTER,
    NOTIFICATION_AUTH,
    NOTIFICATION_DATA,
    NOTIFICATION_ERROR,
    NOTIFICATION_RECEIVED,
    NOTIFICATION_SUCCESS,
    NOTIFICATION_TIME,
    REFUSED_CODES,
    VAPID_DRAFT_1,
    VAPID_DRAFT_2,
)
from autopush.telemetry.metrics import OTHER, Counter, Metrics
from autopush.webpush.errors import PushError
from autopush.webpush.vapid import Credentials

_DELIVERED: Final = DeliveryResult.DELIVERED
_STORED: Final = DeliveryResult.STORED
_DRAFTS: Final = {
    "bearer": ("draft01", VAPID_DRAFT_1),
    "webpush": ("draft01", VAPID_DRAFT_1),
    "vapid": ("draft02", VAPID_DRAFT_2),
}
"""By the scheme of the credentials: the draft of VAPID, and the metric that counts it."""
_ENCODINGS: Final = {
    metric.name.rpartition(".")[2]: metric
    for metric in (ENCODING_AES128GCM, ENCODING_AESGCM, ENCODING_AESGCM128)
}


class AcceptedPushes:
    """Accepted pushes of one kind: of one router type, VAPID scheme and encoding, the latter two
    empty without. A push counts once here; `publish` adds to all series that its kind belongs to.
    """

    __slots__ = (
        "_bodies",
        "_pushes",
        "_series",
        "direct",
        "direct_data",
        "discarded",
        "stored",
        "stored_data",
    )

    def __init__(self, metrics: Metrics, router_type: str, scheme: str, encoding: str) -> None:
        self.direct = self.direct_data = self.stored = self.stored_data = self.discarded = 0
        of = {"router": router_type, "vapid": str(bool(scheme))}
        self._pushes = [
            metrics.counter(NOTIFICATION_SUCCESS, destination=name, **of)
            for name in ("Direct", "Stored", "Discarded")
        ]
        self._bodies = [
            metrics.counter(NOTIFICATION_DATA, destination=name, platform=router_type)
            for name in ("Direct", "Stored")
        ]
        self._series: list[Counter] = []
        if scheme:
            draft, of_draft = _DRAFTS[scheme]
            self._series.append(metrics.counter(NOTIFICATION_AUTH, vapid=draft, scheme=scheme))
            self._series.append(metrics.counter(of_draft))
        if encoding:
            self._series.append(metrics.counter(_ENCODINGS[encoding]))

    def publish(self) -> None:
        """Add what was counted since the last time."""
        pushes = (self.direct, self.stored, self.discarded)
        for counter, number in zip(self._pushes, pushes, strict=True):
            counter.value += number
        for counter, size in zip(self._bodies, (self.direct_data, self.stored_data), strict=True):
            counter.value += size
        for counter in self._series:
            counter.value += sum(pushes)
        self.direct = self.direct_data = self.stored = self.stored_data = self.discarded = 0


class PushMetrics:
    """Each push is `received`, then either `accepted` or `refused`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._received = metrics.counter(NOTIFICATION_RECEIVED)
        self._seconds = metrics.histogram(NOTIFICATION_TIME)
        self._accepted: dict[tuple[str, str, str], AcceptedPushes] = {}
        self._refused = metrics.counters(NOTIFICATION_ERROR)
        metrics.on_publish(self._publish)

    def received(self) -> float:
        """A push has begun; returns when, for `accepted`."""
        self._received.value += 1
        return perf_counter()

    def accepted(
        self,
        began: float,
        router_type: str,
        result: DeliveryResult,
        size: int,
        headers: Mapping[str, str] | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        """It was delivered, stored or discarded. `size`: bytes of its body; `headers`: those kept
        of it, None without a body.
        """
        kind = (
            router_type,
            "" if credentials is None else credentials.scheme,
            "" if headers is None else headers["encoding"],
        )
        pushes = self._accepted.get(kind)
        if pushes is None:
            pushes = self._accepted[kind] = AcceptedPushes(self._metrics, *kind)
        if result is _DELIVERED:
            pushes.direct += 1
            pushes.direct_data += size
        elif result is _STORED:
            pushes.stored += 1
            pushes.stored_data += size
        else:
            pushes.discarded += 1
        self._seconds.observe(perf_counter() - began)

    def _publish(self) -> None:
        for pushes in self._accepted.values():
            pushes.publish()

    def refused(
        self, refusal: PushError, router_type: str, credentials: Credentials | None = None
    ) -> None:
        """It was not accepted."""
        code = str(refusal.status)
        if code not in REFUSED_CODES:
            code = OTHER
        self._refused[code, router_type, str(credentials is not None)].add()


def router_type_of(recipient: Recipient | BridgedUser | None) -> str:
    """The label of the router that serves a recipient; without one it is not known yet."""
    if recipient is None:
        return NO_ROUTER
    if isinstance(recipient, BridgedUser):
        return platform(recipient.record.router_type)
    if isinstance(recipient, CachedUser):
        return WEBPUSH
    return SIMPLEPUSH if recipient.messages.router_type == SIMPLEPUSH else WEBPUSH
