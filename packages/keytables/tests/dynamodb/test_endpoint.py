"""Regions and endpoints."""

import botocore.session
import pytest

from keytables.dynamodb.client import Client
from keytables.dynamodb.endpoint import Endpoint, endpoint_of, parse_endpoint
from keytables.errors import Unavailable


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", "dynamodb.us-east-1.amazonaws.com"),
        ("eu-central-2", "dynamodb.eu-central-2.amazonaws.com"),
        ("cn-north-1", "dynamodb.cn-north-1.amazonaws.com.cn"),
        ("us-gov-west-1", "dynamodb.us-gov-west-1.amazonaws.com"),
    ],
)
def test_a_region_of_any_partition_has_its_endpoint(region: str, host: str) -> None:
    assert endpoint_of(botocore.session.Session(), region) == Endpoint(host, 443, True)


def test_the_environment_may_name_another_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:8000")
    found = endpoint_of(botocore.session.Session(), "us-east-1")
    assert found == Endpoint("127.0.0.1", 8000, False)


@pytest.mark.parametrize(
    ("region", "near"),
    [("eu-west1", "eu-west-1"), ("us-esat-1", "us-east-1"), ("EU-CENTRAL-1", "eu-central-1")],
)
def test_an_unknown_region_is_refused_with_those_it_is_like(region: str, near: str) -> None:
    with pytest.raises(Unavailable, match=f"no region '{region}'; did you mean.* {near}"):
        endpoint_of(botocore.session.Session(), region)


def test_a_region_like_no_other_is_refused_with_an_example() -> None:
    with pytest.raises(Unavailable, match="for example us-east-1"):
        endpoint_of(botocore.session.Session(), "moon")


@pytest.mark.parametrize("region", ["eu west", "a/b", "%s", "x\r\ny: z", "é"])
async def test_what_cannot_be_a_region_is_refused_for_servers_of_ones_own_too(region: str) -> None:
    with pytest.raises(Unavailable, match="a region is named as in us-east-1"):
        await Client.open(region=region, endpoint="http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("url", "endpoint", "authority", "loopback"),
    [
        ("http://127.0.0.1:8000", Endpoint("127.0.0.1", 8000, False), "127.0.0.1:8000", True),
        ("http://LOCALHOST/", Endpoint("localhost", 80, False), "localhost", True),
        ("https://[::1]:4567", Endpoint("::1", 4567, True), "[::1]:4567", True),
        ("https://db.example", Endpoint("db.example", 443, True), "db.example", False),
        ("https://db.example:443/", Endpoint("db.example", 443, True), "db.example", False),
        ("http://db.example:443", Endpoint("db.example", 443, False), "db.example:443", False),
        ("http://10.0.0.7:8000", Endpoint("10.0.0.7", 8000, False), "10.0.0.7:8000", False),
    ],
)
def test_an_endpoint_is_read_from_its_url(
    url: str, endpoint: Endpoint, authority: str, loopback: bool
) -> None:
    found = parse_endpoint(url)
    assert found == endpoint
    assert (found.authority, found.loopback) == (authority, loopback)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "ftp://127.0.0.1:21",
        "http://",
        "http://:80",
        "http://h:99999",
        "http://h:0",
        "http://h:x",
        "http://h/path",
        "http://h?query",
        "http://h#part",
        "http://[::1",
        "http://a%b",
        "http://a b",
        "http://é",
    ],
)
def test_what_is_no_endpoint_is_refused_with_how_one_is_written(url: str) -> None:
    with pytest.raises(ValueError, match="http://HOST:PORT"):
        parse_endpoint(url)


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(ValueError) as raised:
        parse_endpoint("http://user:hunter2@127.0.0.1:8000")
    assert "hunter2" not in str(raised.value)
