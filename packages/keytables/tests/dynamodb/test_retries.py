"""Which errors are retried, when, and how a call ends."""

import gc
import weakref
from collections.abc import Callable

import pytest

from keytables.dynamodb.connections import HttpResponse, NotSent, PoolExhausted, ResponseLost
from keytables.dynamodb.retries import (
    ErrorKind,
    ErrorResponse,
    RetryPolicy,
    RetryState,
    ServiceError,
    read_error,
)
from keytables.errors import AccessRefused, KeytablesError, Throttled, Unavailable
from keytables.retries import MIN_REMAINING, Backoff
from support.cases import cases

POLICY = RetryPolicy()


# --- error responses ------------------------------------------------------------------------------


def kind_of(body: bytes, status: int = 400) -> ErrorKind:
    return read_error(HttpResponse(status, body, b"")).kind


@cases(
    ("code", "expected"),
    [
        ("ProvisionedThroughputExceededException", ErrorKind.THROTTLED),
        ("ThrottlingException", ErrorKind.THROTTLED),
        ("RequestLimitExceeded", ErrorKind.THROTTLED),
        ("TransactionConflictException", ErrorKind.THROTTLED),
        ("InternalServerError", ErrorKind.AMBIGUOUS),
        ("AccessDeniedException", ErrorKind.FORBIDDEN),
        ("UnrecognizedClientException", ErrorKind.CREDENTIALS),
        ("ExpiredTokenException", ErrorKind.CREDENTIALS),
        ("InvalidSignatureException", ErrorKind.SIGNATURE),
        ("RequestTimeTooSkewed", ErrorKind.SIGNATURE),
        ("ConditionalCheckFailedException", ErrorKind.REJECTED),
        ("ValidationException", ErrorKind.REJECTED),
        ("ResourceNotFoundException", ErrorKind.REJECTED),
        ("LimitExceededException", ErrorKind.REJECTED),
        ("UnknownCode", ErrorKind.REJECTED),
    ],
)
def test_the_code_tells_the_kind_whatever_its_namespace(code: str, expected: ErrorKind) -> None:
    for prefix in ("com.amazonaws.dynamodb.v20120810#", "com.amazon.coral.service#", ""):
        assert kind_of(b'{"__type":"%s"}' % (prefix + code).encode()) is expected


@pytest.mark.parametrize("name", ["message", "Message"])
def test_code_message_and_body_are_kept_for_the_engine(name: str) -> None:
    body = b'{"__type":"a.b#ValidationException","%s":"too long","Item":{}}' % name.encode()
    error = read_error(HttpResponse(400, body, b""))
    assert (error.code, error.message, error.body) == ("ValidationException", "too long", body)


@cases(
    ("status", "expected"),
    [
        (200, ErrorKind.AMBIGUOUS),  # a success is an object
        (302, ErrorKind.AMBIGUOUS),
        (404, ErrorKind.AMBIGUOUS),
        (429, ErrorKind.THROTTLED),
        (500, ErrorKind.AMBIGUOUS),
        (503, ErrorKind.AMBIGUOUS),
    ],
)
@cases("body", [b"", b"<html>", b"[]", b'"x"', b"\xff", b'{"__type":1}', b"{}"])
def test_a_response_without_a_code_is_classified_by_its_status(
    status: int, expected: ErrorKind, body: bytes
) -> None:
    error = read_error(HttpResponse(status, body, b""))
    assert error.kind is expected
    assert error.code == f"HTTP {status}"


def test_a_failure_with_an_unknown_code_is_ambiguous() -> None:
    assert kind_of(b'{"__type":"x#Odd"}', 500) is ErrorKind.AMBIGUOUS
    assert kind_of(b'{"__type":"x#ThrottlingException"}', 503) is ErrorKind.THROTTLED


# --- one call -------------------------------------------------------------------------------------


def retry_state(
    time_limit: float = 4.0, random: Callable[[], float] = lambda: 1.0, table: str | None = "router"
) -> RetryState:
    """Of a call that begins at 0."""
    policy = RetryPolicy(backoff=Backoff(0.025, 1.0, random=random))
    return RetryState("PutItem", table, policy=policy, deadline=time_limit, time_limit=time_limit)


def error(kind: ErrorKind, code: str = "SomeException") -> ErrorResponse:
    return ErrorResponse(kind, code, "message of the server", b"{}")


def ended(call: Callable[[], float]) -> KeytablesError:
    with pytest.raises(KeytablesError) as raised:
        call()
    return raised.value


def test_a_longer_call_has_more_attempts_with_bounded_delays() -> None:
    state = retry_state(time_limit=30)
    delays = [state.on_not_sent(NotSent("no"), 0.0) for _ in range(29)]
    assert max(delays) == POLICY.backoff.longest
    assert isinstance(ended(lambda: state.on_not_sent(NotSent("no"), 0.0)), Unavailable)


def test_a_delay_leaves_time_for_a_response_before_the_deadline() -> None:
    assert (
        retry_state().on_not_sent(NotSent("no"), 4.0 - 2 * POLICY.backoff.first - MIN_REMAINING)
        == POLICY.backoff.first
    )
    for now in (4.0 - MIN_REMAINING, 4.0, 5.0):
        assert isinstance(
            ended(lambda now=now: retry_state().on_not_sent(NotSent("no"), now)),  # type: ignore[misc]
            Unavailable,
        )


def test_a_throttled_call_ends_throttled() -> None:
    state = retry_state(random=lambda: 0.0)
    for _ in range(POLICY.attempts - 1):
        assert state.on_error(error(ErrorKind.THROTTLED), 0.0, repaired=False) == 0.0
    raised = ended(lambda: state.on_error(error(ErrorKind.THROTTLED), 0.0, repaired=False))
    assert isinstance(raised, Throttled)
    assert not state.maybe_applied
    assert str(raised) == "PutItem on table 'router': SomeException"


def test_a_full_pool_throttles_at_once() -> None:
    assert isinstance(
        ended(lambda: retry_state().on_not_sent(PoolExhausted("full"), 0.0)), Throttled
    )


@pytest.mark.parametrize("last", ["throttled", "pool exhausted"])
def test_a_call_that_may_have_been_applied_never_ends_throttled(last: str) -> None:
    state = retry_state(random=lambda: 0.0)
    state.on_response_lost(ResponseLost("closed"), 0.0)
    if last == "throttled":
        for _ in range(POLICY.attempts - 2):
            state.on_error(error(ErrorKind.THROTTLED), 0.0, repaired=False)
        raised = ended(lambda: state.on_error(error(ErrorKind.THROTTLED), 0.0, repaired=False))
    else:
        raised = ended(lambda: state.on_not_sent(PoolExhausted("full"), 0.0))
    assert isinstance(raised, Unavailable)


@cases(
    ("failure", "maybe_applied"),
    [
        (lambda state: state.on_response_lost(ResponseLost("closed"), 0.0), True),
        (lambda state: state.on_response_lost(ResponseLost("closed", stale=True), 0.0), True),
        (lambda state: state.on_error(error(ErrorKind.AMBIGUOUS), 0.0, repaired=False), True),
        (lambda state: state.on_error(error(ErrorKind.THROTTLED), 0.0, repaired=False), False),
        (lambda state: state.on_error(error(ErrorKind.TRANSIENT), 0.0, repaired=False), False),
        (lambda state: state.on_error(error(ErrorKind.CREDENTIALS), 0.0, repaired=True), False),
        (lambda state: state.on_not_sent(NotSent("no"), 0.0), False),
    ],
)
def test_a_rejection_tells_whether_an_earlier_attempt_may_have_been_applied(
    failure: Callable[[RetryState], float], maybe_applied: bool
) -> None:
    state = retry_state()
    failure(state)
    with pytest.raises(ServiceError) as raised:
        state.on_error(
            error(ErrorKind.REJECTED, "ConditionalCheckFailedException"), 0.0, repaired=False
        )
    assert raised.value.maybe_applied is maybe_applied
    assert raised.value.code == "ConditionalCheckFailedException"
    assert raised.value.message == "message of the server"


def test_a_stale_connection_is_retried_without_delay_once() -> None:
    state = retry_state()
    assert state.on_response_lost(ResponseLost("closed", stale=True), 0.0) == 0.0
    assert state.on_response_lost(ResponseLost("closed", stale=True), 0.0) == POLICY.backoff.first


def test_a_missing_permission_is_named() -> None:
    raised = ended(lambda: retry_state().on_error(error(ErrorKind.FORBIDDEN), 0.0, repaired=False))
    assert isinstance(raised, AccessRefused)
    assert (raised.operation, raised.table) == ("PutItem", "router")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (ErrorKind.CREDENTIALS, "AWS_ACCESS_KEY_ID"),
        (ErrorKind.SIGNATURE, "secret key does not belong"),
    ],
)
def test_refused_credentials_end_with_help_and_without_the_server_s_message(
    kind: ErrorKind, says: str
) -> None:
    raised = ended(lambda: retry_state().on_error(error(kind), 0.0, repaired=False))
    assert isinstance(raised, Unavailable)
    assert says in str(raised)
    assert "message of the server" not in str(raised)
    assert retry_state().on_error(error(kind), 0.0, repaired=True) == 0.0


def test_each_remedy_is_used_once() -> None:
    state = retry_state()
    assert [state.first_use("clock"), state.first_use("clock"), state.first_use("credentials")] == [
        1,
        0,
        1,
    ]


def test_a_longer_call_gives_each_attempt_more_time() -> None:
    assert POLICY.seconds_per_attempt(4) == POLICY.seconds_per_attempt(0.1) == 1.5
    assert POLICY.seconds_per_attempt(40) == 10


def test_an_error_keeps_nothing_of_its_call_alive() -> None:
    def remains() -> "weakref.ref[KeytablesError] | None":
        try:
            retry_state().on_response_lost(ResponseLost("no response in time"), 4.0)
        except Unavailable as error:
            return weakref.ref(error)
        return None

    gc.disable()
    try:
        found = remains()
        assert found is not None
        assert found() is None
    finally:
        gc.enable()
