"""When a call is tried again, and how it ends."""

import gc
import weakref
from collections.abc import Callable

import pytest

from keytables.dynamodb.connection import Lost, NotSent
from keytables.dynamodb.faults import Fault, Kind
from keytables.dynamodb.pool import Crowded
from keytables.dynamodb.retries import BASE, CAP, LEAST, TRIES, Course, ServiceError, try_seconds
from keytables.errors import AccessRefused, KeytablesError, Throttled, Unavailable


def course(
    patience: float = 4.0, random: Callable[[], float] = lambda: 1.0, table: str | None = "router"
) -> Course:
    return Course("PutItem", table, deadline=patience, patience=patience, random=random)


def fault(kind: Kind, code: str = "SomeException") -> Fault:
    return Fault(kind, code, "words of the server", b"{}")


def ended(call: Callable[[], float]) -> KeytablesError:
    with pytest.raises(KeytablesError) as raised:
        call()
    return raised.value


def test_pauses_double_and_are_random_in_full() -> None:
    for random in (0.0, 0.25, 1.0):
        run = course(random=lambda random=random: random)  # type: ignore[misc]
        pauses = [run.not_sent(NotSent("no"), 0.0) for _ in range(TRIES - 1)]
        assert pauses == [random * BASE * 2**number for number in range(TRIES - 1)]


def test_a_patient_call_is_tried_more_often_with_bounded_pauses() -> None:
    run = course(patience=30)
    pauses = [run.not_sent(NotSent("no"), 0.0) for _ in range(29)]
    assert max(pauses) == CAP
    assert isinstance(ended(lambda: run.not_sent(NotSent("no"), 0.0)), Unavailable)


def test_a_pause_leaves_time_for_an_answer_before_the_deadline() -> None:
    assert course().not_sent(NotSent("no"), 4.0 - 2 * BASE - LEAST) == BASE
    for now in (4.0 - LEAST, 4.0, 5.0):
        assert isinstance(
            ended(lambda now=now: course().not_sent(NotSent("no"), now)),  # type: ignore[misc]
            Unavailable,
        )


def test_a_throttled_call_ends_throttled() -> None:
    run = course(random=lambda: 0.0)
    for _ in range(TRIES - 1):
        assert run.answered(fault(Kind.THROTTLED), 0.0, mended=False) == 0.0
    error = ended(lambda: run.answered(fault(Kind.THROTTLED), 0.0, mended=False))
    assert isinstance(error, Throttled)
    assert not run.repeated
    assert str(error) == "PutItem on table 'router': SomeException"


def test_a_full_pool_throttles_at_once() -> None:
    assert isinstance(ended(lambda: course().not_sent(Crowded("full"), 0.0)), Throttled)


@pytest.mark.parametrize("last", ["throttled", "crowded"])
def test_what_may_have_been_applied_is_never_said_not_to_have_been(last: str) -> None:
    run = course(random=lambda: 0.0)
    run.lost(Lost("gone"), 0.0)
    if last == "throttled":
        for _ in range(TRIES - 2):
            run.answered(fault(Kind.THROTTLED), 0.0, mended=False)
        error = ended(lambda: run.answered(fault(Kind.THROTTLED), 0.0, mended=False))
    else:
        error = ended(lambda: run.not_sent(Crowded("full"), 0.0))
    assert isinstance(error, Unavailable)


@pytest.mark.parametrize(
    ("failure", "repeated"),
    [
        (lambda run: run.lost(Lost("gone"), 0.0), True),
        (lambda run: run.lost(Lost("gone", stale=True), 0.0), True),
        (lambda run: run.answered(fault(Kind.BROKEN), 0.0, mended=False), True),
        (lambda run: run.answered(fault(Kind.THROTTLED), 0.0, mended=False), False),
        (lambda run: run.answered(fault(Kind.RETRY), 0.0, mended=False), False),
        (lambda run: run.answered(fault(Kind.CREDENTIALS), 0.0, mended=True), False),
        (lambda run: run.not_sent(NotSent("no"), 0.0), False),
    ],
)
def test_the_verdict_tells_whether_an_earlier_try_may_have_been_applied(
    failure: Callable[[Course], float], repeated: bool
) -> None:
    run = course()
    failure(run)
    with pytest.raises(ServiceError) as raised:
        run.answered(fault(Kind.JUDGED, "ConditionalCheckFailedException"), 0.0, mended=False)
    assert raised.value.repeated is repeated
    assert raised.value.code == "ConditionalCheckFailedException"
    assert raised.value.message == "words of the server"


def test_a_stale_connection_costs_no_pause_once() -> None:
    run = course()
    assert run.lost(Lost("gone", stale=True), 0.0) == 0.0
    assert run.lost(Lost("gone", stale=True), 0.0) == BASE


def test_a_missing_right_is_named() -> None:
    error = ended(lambda: course().answered(fault(Kind.FORBIDDEN), 0.0, mended=False))
    assert isinstance(error, AccessRefused)
    assert (error.operation, error.table) == ("PutItem", "router")


@pytest.mark.parametrize(
    ("kind", "says"),
    [(Kind.CREDENTIALS, "AWS_ACCESS_KEY_ID"), (Kind.SIGNATURE, "secret key does not belong")],
)
def test_refused_credentials_say_what_to_do_and_repeat_nothing(kind: Kind, says: str) -> None:
    error = ended(lambda: course().answered(fault(kind), 0.0, mended=False))
    assert isinstance(error, Unavailable)
    assert says in str(error)
    assert "words of the server" not in str(error)
    assert course().answered(fault(kind), 0.0, mended=True) == 0.0


def test_without_a_table_the_operation_is_named_alone() -> None:
    run = course(patience=0.0, table=None)
    assert str(ended(lambda: run.lost(Lost("no answer"), 0.0))) == "PutItem: no answer"


def test_each_remedy_is_tried_once() -> None:
    run = course()
    assert [run.first("clock"), run.first("clock"), run.first("credentials")] == [1, 0, 1]


def test_a_patient_call_gives_each_try_more_time() -> None:
    assert try_seconds(4) == try_seconds(0.1) == 1.5
    assert try_seconds(40) == 10


def test_an_error_that_is_gone_leaves_nothing_of_its_call() -> None:
    def remains() -> "weakref.ref[KeytablesError] | None":
        try:
            course().lost(Lost("no answer in time"), 4.0)
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
