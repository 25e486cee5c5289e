"""Signatures, against botocore's own."""

import datetime
from unittest import mock

import botocore.auth
import botocore.credentials
import pytest
from botocore.awsrequest import AWSRequest
from hypothesis import given
from hypothesis import strategies as st

from keytables.dynamodb.signature import Credentials, Signer

KEY = "AKIDEXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

hosts = st.sampled_from(
    ["dynamodb.eu-west-1.amazonaws.com", "127.0.0.1:8000", "[::1]:4567", "db.example", "a:1"]
)
tokens = st.none() | st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=400
)
seconds = st.integers(0, 4_000_000_000)


def split(request: bytes) -> tuple[dict[str, str], bytes]:
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first == "POST / HTTP/1.1"
    return dict(line.split(": ", 1) for line in lines), body


def as_botocore_signs(
    headers: dict[str, str], body: bytes, credentials: Credentials, region: str, now: float
) -> str:
    signed = ("host", "content-type", "x-amz-target")
    request = AWSRequest(
        "POST",
        f"http://{headers['host']}/",
        {name: headers[name] for name in signed},
        body,
    )
    theirs = botocore.credentials.Credentials(
        credentials.access_key, credentials.secret_key, credentials.token
    )
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    with mock.patch.object(botocore.auth, "get_current_datetime", return_value=moment):
        botocore.auth.SigV4Auth(theirs, "dynamodb", region).add_auth(request)
    text = request.headers["Authorization"]
    assert isinstance(text, str)
    return text


@given(
    body=st.binary(max_size=2000),
    host=hosts,
    token=tokens,
    now=seconds,
    operation=st.sampled_from(["GetItem", "BatchWriteItem", "UpdateTimeToLive"]),
    region=st.sampled_from(["us-east-1", "eu-central-2", "cn-north-1", "local"]),
)
def test_a_request_is_signed_as_botocore_signs_it(
    body: bytes, host: str, token: str | None, now: int, operation: str, region: str
) -> None:
    credentials = Credentials(KEY, SECRET, token)
    headers, sent = split(
        Signer(credentials, region=region, authority=host).request(operation, body, now)
    )
    assert sent == body
    assert headers["content-length"] == str(len(body))
    assert headers["x-amz-target"] == f"DynamoDB_20120810.{operation}"
    assert headers.get("x-amz-security-token") == token
    assert headers["authorization"] == as_botocore_signs(headers, body, credentials, region, now)


@given(times=st.lists(seconds, min_size=2, max_size=6), body=st.binary(max_size=20))
def test_what_a_signer_keeps_is_renewed_with_the_second_and_the_day(
    times: list[int], body: bytes
) -> None:
    credentials = Credentials(KEY, SECRET)
    signer = Signer(credentials, region="us-east-1", authority="db.example")
    for now in [*times, times[0] + 0.75, times[0] + 86_400]:
        headers, _ = split(signer.request("PutItem", body, now))
        expected = as_botocore_signs(headers, body, credentials, "us-east-1", now)
        assert headers["authorization"] == expected


def test_compression_is_not_asked_for() -> None:
    signer = Signer(Credentials(KEY, SECRET), region="us-east-1", authority="db.example")
    headers, _ = split(signer.request("GetItem", b"{}", 0))
    assert headers["accept-encoding"] == "identity"


def test_credentials_show_nothing_of_themselves() -> None:
    credentials = Credentials(KEY, SECRET, "TOKEN")
    for text in (repr(credentials), str(credentials), f"{[credentials]}"):
        assert not any(secret in text for secret in (KEY, SECRET, "TOKEN"))


@pytest.mark.parametrize(
    "texts", [("", SECRET), (KEY, ""), ("A B", SECRET), (KEY, SECRET, "a\r\nb: c"), (KEY, "é")]
)
def test_credentials_that_fit_no_header_are_not_usable(texts: tuple[str, ...]) -> None:
    assert not Credentials(*texts).usable
    assert Credentials(KEY, SECRET, "TOKEN").usable
