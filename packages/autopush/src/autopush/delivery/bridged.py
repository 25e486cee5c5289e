"""Delivery to users behind a bridge: from the router record to the router of its type.

Rule: an outage of a bridge affects only its own users. Each application of each bridge has its own
concurrency limit, timeout and circuit breaker, which opens after `MAX_FAILURES` consecutive outages
and then refuses notifications at once. `MAX_UNDER_WAY` keeps room for other requests.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from autopush.delivery.bridge_contract import Router, RouterData, RouterError, RouterResponse
from autopush.store import PushStore, UserRecord
from autopush.telemetry import logs
from autopush.telemetry.metric_table import BRIDGE_ERROR, BRIDGE_SENT, DROP_USER
from autopush.telemetry.metrics import OTHER, Metrics
from autopush.webpush.errors import ERRORS, Errno, PushError
from autopush.webpush.notification import Notification
from keytables import KeytablesError
from keytables.retries import CircuitBreaker

MAX_UNDER_WAY: Final = 5000
"""Concurrent notifications of all bridges together."""
MAX_CIRCUITS: Final = 1000
MAX_FAILURES: Final = 5
CIRCUIT_RESET: Final = 30.0
"""Seconds until an open circuit lets one notification through as a probe."""
CLOSE_TIMEOUT: Final = 2.0
"""Seconds for each router to close its connections when the service stops."""
BUSY_RETRY: Final = 5
"""`Retry-After` in seconds when a bridge is busy."""

REASONS: Final[Mapping[int, str]] = {
    Errno.BACK_OFF: "busy",
    Errno.BRIDGE_MISCONFIGURED: "misconfigured",
    Errno.BRIDGE_REFUSED: "credentials",
    Errno.BRIDGE_TIMEOUT: "timeout",
    Errno.BRIDGE_UNREACHABLE: "unreachable",
    Errno.ENDPOINT_UNAVAILABLE: "critical",
    Errno.EXPIRED_ENDPOINT: "unregistered",
    Errno.INVALID_SUBSCRIPTION: "unregistered",
    Errno.PAYLOAD_TOO_LARGE: "too_large",
    Errno.UNKNOWN: "failed",
}
"""The metric label of a bridge error; `OTHER` for any other errno."""

_log = logs.get(__name__)


CircuitKey = tuple[str, str]
"""Router type and application."""


class BridgedUser(Struct, frozen=True):
    record: UserRecord
    router: Router


class CircuitState(Struct, frozen=True):
    """Of one application of a bridge in one worker. `failures`: outages in a row."""

    bridge: str
    application: str
    is_open: bool
    failures: int


class Bridges:
    """`routers`: by router type; others hold this mapping. `max_under_way`: of all together."""

    def __init__(
        self,
        routers: Mapping[str, Router],
        store: PushStore,
        metrics: Metrics,
        *,
        max_under_way: int = MAX_UNDER_WAY,
    ) -> None:
        self.routers = dict(routers)
        self._store = store
        self._sent = metrics.counters(BRIDGE_SENT)
        self._refused = metrics.counters(BRIDGE_ERROR)
        self._dropped = metrics.counter(DROP_USER, errno="100")
        self.max_under_way = max_under_way
        self._under_way = 0
        self._circuits: dict[CircuitKey, Circuit] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def replace(self, routers: Mapping[str, Router]) -> None:
        """Deliver by other routers from now on. The former ones are closed when what is under way
        there must have ended.
        """
        former = dict(self.routers)
        self.routers.clear()
        self.routers.update(routers)
        self._circuits = {}

        async def close_former() -> None:
            await asyncio.sleep(max((each.timeout for each in former.values()), default=0.0))
            await _close(former)

        task = asyncio.get_running_loop().create_task(close_former())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def find(self, record: UserRecord) -> BridgedUser:
        """:raises PushError: 410/105, failed for good; 400/108, no such router on this node"""
        if record.critical_failure is not None:
            raise _critical(record.critical_failure)
        router = self.routers.get(record.router_type)
        if router is None:  # the record stays as it is: another node may serve its type
            raise PushError(
                Errno.INVALID_ROUTER_TYPE, "The bridge of this device is not configured here"
            )
        return BridgedUser(record, router)

    async def route(self, user: BridgedUser, notification: Notification) -> RouterResponse:
        """Deliver, and update the user's record from the response.

        :raises PushError: not delivered
        """
        try:
            response = await self._route(user, notification)
        except PushError as refusal:
            reason = REASONS.get(refusal.errno, OTHER)
            if isinstance(refusal, RouterError) and refusal.router_data == {}:
                reason = "unregistered"
            self._refused[user.record.router_type, reason].add()
            raise
        self._sent[user.record.router_type].add()
        return response

    async def _route(self, user: BridgedUser, notification: Notification) -> RouterResponse:
        record, router = user.record, user.router
        with report_defects(router):
            key = record.router_type, router.application(record.router_data or {})
        circuit = self._circuits.get(key)
        if circuit is None:
            if len(self._circuits) >= MAX_CIRCUITS:  # only with unconfigured applications
                del self._circuits[next(iter(self._circuits))]
            circuit = self._circuits[key] = Circuit(key, router)
        if self._under_way >= self.max_under_way:
            raise _busy()
        self._under_way += 1
        try:
            response = await circuit.call(notification, record)
        except RouterError as error:
            refusal = await self._note_refusal(key, record, error)
            if refusal is error:
                raise
            raise refusal from error
        finally:
            self._under_way -= 1
        await self._apply(key, record, response.router_data)
        if not 200 <= response.status_code < 300:
            errno = Errno.UNKNOWN if response.errno is None else response.errno
            if errno not in ERRORS:
                errno = Errno.UNKNOWN
            message = response.response_body or "The bridge did not take the message"
            raise PushError(errno, message, status=response.status_code, headers=response.headers)
        return response

    def circuits(self) -> list[CircuitState]:
        """Of what was used since the start, or since the bridges were replaced."""
        return [each.state() for each in self._circuits.values()]

    async def close(self) -> None:
        for task in self._closing:
            task.cancel()
        await _close(self.routers)

    async def _apply(
        self, key: CircuitKey, record: UserRecord, router_data: RouterData | None
    ) -> None:
        if router_data:
            await self._change(key, self._store.users.set_router_data(record, router_data))
        elif router_data is not None and await self._change(key, self._store.drop_user(record)):
            self._dropped.add()

    async def _note_refusal(
        self, key: CircuitKey, record: UserRecord, error: RouterError
    ) -> PushError:
        """Update the record as the error asks; returns the error for the sender."""
        refusal: PushError = error
        if error.critical_failure is not None:
            _log.error("A bridge user failed for good", bridge=key[0], application=key[1])
            write = self._store.users.set_critical_failure(record, error.critical_failure)
            await self._change(key, write)
            refusal = _critical(error.critical_failure)
        else:
            await self._apply(key, record, error.router_data)
        if refusal.status == 410 and await self._has_changed(key, record):
            # The bridge refused the token of the earlier registration.
            return RouterError.retry_after(BUSY_RETRY, "The device has registered again")
        return refusal

    async def _has_changed(self, key: CircuitKey, record: UserRecord) -> bool:
        """Whether the user has registered again since that record was read."""
        try:
            now = await self._store.users.get(record.uaid)
        except KeytablesError as error:
            kind = type(error).__name__
            _log.warning("Bridge user not read", bridge=key[0], application=key[1], error=kind)
            return False
        return now is not None and now.connected_at != record.connected_at

    async def _change(self, key: CircuitKey, write: Awaitable[bool]) -> bool:
        """A failed write is only logged: the bridge will report the same for the next message."""
        try:
            return await write
        except KeytablesError as error:
            kind = type(error).__name__
            _log.warning("Bridge user not changed", bridge=key[0], application=key[1], error=kind)
            return False


async def _close(routers: Mapping[str, Router]) -> None:
    for name, router in routers.items():
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await router.close()
        except Exception as error:  # noqa: BLE001 - the others are closed all the same
            _log.error("A router was not closed", bridge=name, error=type(error).__name__)


class Circuit:
    """Concurrency limit, timeout and circuit breaker of one application of one bridge."""

    def __init__(self, key: CircuitKey, router: Router) -> None:
        self._key = key
        self._router = router
        self._under_way = 0
        self._breaker = CircuitBreaker(
            open_for=CIRCUIT_RESET, now=asyncio.get_running_loop().time, max_failures=MAX_FAILURES
        )

    def state(self) -> CircuitState:
        return CircuitState(*self._key, self._breaker.is_open, self._breaker.failures)

    async def call(self, notification: Notification, record: UserRecord) -> RouterResponse:
        """:raises RouterError: the router's; 503/201, the circuit is open or the limit reached"""
        if left := self._breaker.begin_call():
            raise RouterError.retry_after(
                int(left) + 1, "The bridge of this device does not work at the moment"
            )
        if self._under_way >= self._router.max_under_way:
            raise _busy()
        self._under_way += 1
        try:
            response = await self._call(notification, record)
        except RouterError as error:
            self._note(error.errno if error.is_outage else None)
            raise
        finally:
            self._under_way -= 1
        self._note(None)
        return response

    async def _call(self, notification: Notification, record: UserRecord) -> RouterResponse:
        """Any exception but RouterError becomes an outage."""
        try:
            async with asyncio.timeout(self._router.timeout):
                return await self._router.route_notification(notification, record)
        except RouterError:
            raise
        except TimeoutError:
            errno, message = Errno.BRIDGE_TIMEOUT, "The bridge did not answer in time"
        except OSError:
            errno, message = Errno.BRIDGE_UNREACHABLE, "The bridge cannot be reached"
        except Exception as error:  # noqa: BLE001 - routers of other packages may raise anything
            _log_defect(self._router, error)
            errno, message = Errno.UNKNOWN, "The router failed"
        raise RouterError(errno, message, is_outage=True)

    def _note(self, outage: int | None) -> None:
        """`outage`: its errno; None after a success."""
        bridge, application = self._key
        if outage is None:
            if self._breaker.is_open:
                _log.info("A bridge works again", bridge=bridge, application=application)
            self._breaker.on_success()
            return
        self._breaker.on_failure()
        if self._breaker.failures in (1, MAX_FAILURES):  # not each: there may be hundreds
            _log.warning(
                "A bridge failed",
                bridge=bridge,
                application=application,
                errno=outage,
                in_a_row=self._breaker.failures,
            )


@contextmanager
def report_defects(router: Router) -> Iterator[None]:
    """For synchronous calls of a router: any exception but PushError becomes 500/999."""
    try:
        yield
    except PushError:
        raise
    except Exception as error:  # noqa: BLE001 - routers of other packages may raise anything
        _log_defect(router, error)
        raise RouterError(Errno.UNKNOWN, "The router failed") from None


def _log_defect(router: Router, error: Exception) -> None:
    # Type and location only: the text may contain a token or a message.
    frames = traceback.extract_tb(error.__traceback__)
    _log.error(
        "A router has a defect",
        router=type(router).__qualname__,
        error=type(error).__name__,
        at=[f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames],
    )


def _busy() -> RouterError:
    return RouterError.retry_after(BUSY_RETRY, "The bridge of this device is busy")


def _critical(reason: str) -> PushError:
    return PushError(Errno.ENDPOINT_UNAVAILABLE, f"Critical Failure: {reason}")
