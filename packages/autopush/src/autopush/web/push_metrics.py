"""What the endpoint records of pushes."""

from collections.abc import Mapping
from time import perf_counter
from typing import Final

from autopush.routing.bridged import BridgedUser
from autopush.routing.metrics import platform
from autopush.routing.user_agents import DeliveryResult, Recipient
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
    PLATFORMS,
    REFUSED_CODES,
    VAPID_DRAFT_1,
    VAPID_DRAFT_2,
)
from autopush.telemetry.metrics import OTHER, Metrics
from autopush.webpush.errors import PushError
from autopush.webpush.vapid import Credentials

_DELIVERED: Final = DeliveryResult.DELIVERED
_STORED: Final = DeliveryResult.STORED


class AcceptedPushes:
    """The series of accepted pushes of one router type, of identified senders or of others."""

    __slots__ = ("direct", "direct_data", "discarded", "stored", "stored_data")

    def __init__(self, metrics: Metrics, router_type: str, *, identified: bool) -> None:
        of = {"router": router_type, "vapid": str(identified)}
        self.direct = metrics.counter(NOTIFICATION_SUCCESS, destination="Direct", **of)
        self.stored = metrics.counter(NOTIFICATION_SUCCESS, destination="Stored", **of)
        self.discarded = metrics.counter(NOTIFICATION_SUCCESS, destination="Discarded", **of)
        of = {"platform": router_type}
        self.direct_data = metrics.counter(NOTIFICATION_DATA, destination="Direct", **of)
        self.stored_data = metrics.counter(NOTIFICATION_DATA, destination="Stored", **of)


class PushMetrics:
    """Each push is `received`, then either `accepted` or `refused`."""

    def __init__(self, metrics: Metrics) -> None:
        self._received = metrics.counter(NOTIFICATION_RECEIVED)
        self._seconds = metrics.histogram(NOTIFICATION_TIME)
        self._anonymous = {
            name: AcceptedPushes(metrics, name, identified=False) for name in PLATFORMS
        }
        self._identified = {
            name: AcceptedPushes(metrics, name, identified=True) for name in PLATFORMS
        }
        self._refused = metrics.counters(NOTIFICATION_ERROR)
        draft1, draft2 = metrics.counter(VAPID_DRAFT_1), metrics.counter(VAPID_DRAFT_2)
        self._schemes = {
            scheme: (metrics.counter(NOTIFICATION_AUTH, vapid=vapid, scheme=scheme), draft)
            for scheme, vapid, draft in (
                ("bearer", "draft01", draft1),
                ("webpush", "draft01", draft1),
                ("vapid", "draft02", draft2),
            )
        }
        self._encodings = {
            metric.name.rpartition(".")[2]: metrics.counter(metric)
            for metric in (ENCODING_AES128GCM, ENCODING_AESGCM, ENCODING_AESGCM128)
        }

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
        if credentials is None:
            series = self._anonymous[router_type]
        else:
            series = self._identified[router_type]
            scheme, draft = self._schemes[credentials.scheme]
            scheme.value += 1
            draft.value += 1
        if headers is not None:
            self._encodings[headers["encoding"]].value += 1
        if result is _DELIVERED:
            series.direct.value += 1
            series.direct_data.value += size
        elif result is _STORED:
            series.stored.value += 1
            series.stored_data.value += size
        else:
            series.discarded.value += 1
        self._seconds.observe(perf_counter() - began)

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
    return SIMPLEPUSH if recipient.messages.router_type == SIMPLEPUSH else WEBPUSH
