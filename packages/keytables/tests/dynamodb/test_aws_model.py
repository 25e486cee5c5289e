"""The check of every request that the conformance suite sends finds what AWS's client would not."""

import pytest

from support.aws_model import check_request
from support.cases import cases


def test_a_request_that_the_client_of_aws_sends_too_is_right() -> None:
    check_request("GetItem", b'{"TableName":"abc","Key":{"a":{"B":"aGFsbG8="}}}')


@cases(
    ("operation", "body"),
    [
        ("PutItem", b'{"TableName":"abc"}'),
        ("PutItem", b'{"TableName":"abc","Item":{},"Condition":"x"}'),
        ("Query", b'{"TableName":"abc","Limit":"5"}'),
        ("GetItem", b'{"TableName":"abc","Key":{"a":{"N":5}}}'),
        ("GetItem", b'{"TableName":"abc","Key":{"a":{"T":"5"}}}'),
    ],
)
def test_a_request_that_it_would_not_send_is_found(operation: str, body: bytes) -> None:
    with pytest.raises(AssertionError, match=operation):
        check_request(operation, body)
