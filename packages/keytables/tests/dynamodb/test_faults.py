"""What answers mean that are no success."""

import pytest

from keytables.dynamodb.connection import Answer
from keytables.dynamodb.faults import Kind, read_fault


def kind(body: bytes, status: int = 400) -> Kind:
    return read_fault(Answer(status, body, b"")).kind


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ProvisionedThroughputExceededException", Kind.THROTTLED),
        ("ThrottlingException", Kind.THROTTLED),
        ("RequestLimitExceeded", Kind.THROTTLED),
        ("TransactionConflictException", Kind.THROTTLED),
        ("InternalServerError", Kind.BROKEN),
        ("AccessDeniedException", Kind.FORBIDDEN),
        ("UnrecognizedClientException", Kind.CREDENTIALS),
        ("ExpiredTokenException", Kind.CREDENTIALS),
        ("InvalidSignatureException", Kind.SIGNATURE),
        ("RequestTimeTooSkewed", Kind.SIGNATURE),
        ("ConditionalCheckFailedException", Kind.JUDGED),
        ("ValidationException", Kind.JUDGED),
        ("ResourceNotFoundException", Kind.JUDGED),
        ("LimitExceededException", Kind.JUDGED),
        ("WordNobodyKnows", Kind.JUDGED),
    ],
)
def test_a_code_tells_the_kind_whatever_its_namespace(code: str, expected: Kind) -> None:
    for prefix in ("com.amazonaws.dynamodb.v20120810#", "com.amazon.coral.service#", ""):
        assert kind(b'{"__type":"%s"}' % (prefix + code).encode()) is expected


@pytest.mark.parametrize("name", ["message", "Message"])
def test_code_message_and_body_are_kept_for_the_engine(name: str) -> None:
    body = b'{"__type":"a.b#ValidationException","%s":"too long","Item":{}}' % name.encode()
    fault = read_fault(Answer(400, body, b""))
    assert (fault.code, fault.message, fault.body) == ("ValidationException", "too long", body)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, Kind.BROKEN),  # a success is an object
        (302, Kind.BROKEN),
        (404, Kind.BROKEN),
        (429, Kind.THROTTLED),
        (500, Kind.BROKEN),
        (503, Kind.BROKEN),
    ],
)
@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'"x"', b"\xff", b'{"__type":1}', b"{}"])
def test_what_no_such_database_says_is_judged_by_its_status(
    status: int, expected: Kind, body: bytes
) -> None:
    fault = read_fault(Answer(status, body, b""))
    assert fault.kind is expected
    assert fault.code == f"HTTP {status}"


def test_a_server_that_fails_with_a_code_of_its_own_is_broken() -> None:
    assert kind(b'{"__type":"x#Odd"}', 500) is Kind.BROKEN
    assert kind(b'{"__type":"x#ThrottlingException"}', 503) is Kind.THROTTLED
