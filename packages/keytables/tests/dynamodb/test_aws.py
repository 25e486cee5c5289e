"""Regions, endpoints and credentials, as AWS's environment and files have them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from keytables.dynamodb.aws import find_credentials, region_endpoint
from keytables.dynamodb.client import Client
from keytables.dynamodb.hosts import Endpoint
from keytables.dynamodb.signing import Credentials
from keytables.errors import Unavailable

# --- regions --------------------------------------------------------------------------------------


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
    assert region_endpoint(region) == Endpoint(host, 443, True)


def test_the_environment_may_name_another_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:8000")
    found = region_endpoint("us-east-1")
    assert found == Endpoint("127.0.0.1", 8000, False)


@pytest.mark.parametrize(
    ("region", "near"),
    [("eu-west1", "eu-west-1"), ("us-esat-1", "us-east-1"), ("EU-CENTRAL-1", "eu-central-1")],
)
def test_an_unknown_region_is_refused_with_similar_names(region: str, near: str) -> None:
    with pytest.raises(Unavailable, match=f"no region '{region}'; did you mean.* {near}"):
        region_endpoint(region)


def test_a_region_without_similar_names_is_refused_with_an_example() -> None:
    with pytest.raises(Unavailable, match="for example us-east-1"):
        region_endpoint("moon")


@pytest.mark.parametrize("region", ["eu west", "a/b", "%s", "x\r\ny: z", "é"])
async def test_text_that_cannot_be_a_region_is_refused_for_any_server(region: str) -> None:
    with pytest.raises(Unavailable, match="a region is named as in us-east-1"):
        await Client.open(region=region, endpoint="http://127.0.0.1:1")


# --- credentials ----------------------------------------------------------------------------------


def set_variables(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def test_there_may_be_no_credentials() -> None:
    assert find_credentials("us-east-1", instance_role=False) is None
    assert find_credentials("us-east-1", instance_role=True) is None


def test_credentials_of_the_environment_never_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch, AWS_ACCESS_KEY_ID="A", AWS_SECRET_ACCESS_KEY="B")
    found = find_credentials("us-east-1", instance_role=False)
    assert found is not None
    assert found.credentials == Credentials("A", "B", None)
    assert not found.expires_within(1e9)
    set_variables(monkeypatch, AWS_SESSION_TOKEN="C")
    found = find_credentials("us-east-1", instance_role=False)
    assert found is not None
    assert found.credentials == Credentials("A", "B", "C")


def configure_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """A profile whose credentials a program prints."""
    (tmp_path / "program.py").write_text(program)
    config = tmp_path / "aws-config"
    config.write_text(
        f"[default]\ncredential_process = {sys.executable} {tmp_path / 'program.py'}\n"
    )
    set_variables(monkeypatch, AWS_CONFIG_FILE=str(config))


def test_temporary_credentials_tell_when_they_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = json.dumps(
        {
            "Version": 1,
            "AccessKeyId": "A",
            "SecretAccessKey": "B",
            "SessionToken": "C",
            "Expiration": "2099-01-01T00:00:00Z",
        }
    )
    configure_process(tmp_path, monkeypatch, f"print({document!r})")
    found = find_credentials("us-east-1", instance_role=False)
    assert found is not None
    assert found.credentials == Credentials("A", "B", "C")
    assert not found.expires_within(900)
    assert found.expires_within(1e10)


def test_a_provider_that_fails_shows_nothing_of_what_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_process(tmp_path, monkeypatch, "import sys; sys.exit('the secret is hunter2')")
    with pytest.raises(Unavailable, match="the AWS credentials cannot be loaded") as raised:
        find_credentials("us-east-1", instance_role=False)
    assert "hunter2" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_a_missing_secret_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch, AWS_ACCESS_KEY_ID="A")
    with pytest.raises(Unavailable, match="AWS_SECRET_ACCESS_KEY"):
        find_credentials("us-east-1", instance_role=False)


def test_a_key_that_cannot_be_in_a_header_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch, AWS_ACCESS_KEY_ID="A\r\nx: y", AWS_SECRET_ACCESS_KEY="B")
    with pytest.raises(Unavailable, match="characters that no key has"):
        find_credentials("us-east-1", instance_role=False)


def test_the_role_of_the_instance_is_used_only_if_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    fetcher = "botocore.utils.InstanceMetadataFetcher.retrieve_iam_role_credentials"
    monkeypatch.setattr(fetcher, lambda self: fetched.append("role"))
    find_credentials("us-east-1", instance_role=False)
    assert fetched == []
    find_credentials("us-east-1", instance_role=True)
    assert fetched == ["role"]


# --- without botocore -----------------------------------------------------------------------------

WITHOUT_BOTOCORE = """
import asyncio
import sys

sys.modules["botocore"] = None
from keytables.dynamodb.client import Client


async def open_and_close(**options):
    await (await Client.open(endpoint="http://127.0.0.1:1", **options)).close()


asyncio.run(open_and_close(region="any", credentials=lambda: None))
try:
    asyncio.run(open_and_close(region="any"))
except ModuleNotFoundError as error:
    print(error.name)
"""


def test_botocore_is_needed_only_where_something_is_to_be_found() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_BOTOCORE],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.startswith("botocore")
