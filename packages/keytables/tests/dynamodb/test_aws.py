"""Regions, endpoints and credentials, as AWS's environment and files have them."""

import json
import sys
from pathlib import Path

import pytest

from keytables.dynamodb.aws import (
    BOTOCORE_HELP,
    find_credentials,
    region_endpoint,
    resolve_configuration,
)
from keytables.dynamodb.client import Client
from keytables.dynamodb.connections import Endpoint
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


# --- without botocore -----------------------------------------------------------------------------


@pytest.fixture
def no_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)  # as if it was not installed
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    monkeypatch.delenv("AWS_CONFIG_FILE")


@pytest.mark.usefixtures("no_botocore")
def test_keys_in_the_environment_need_no_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch, AWS_ACCESS_KEY_ID="A", AWS_SECRET_ACCESS_KEY="B")
    found = resolve_configuration("eu-central-1", None, None, None)
    assert found.endpoints == [Endpoint("dynamodb.eu-central-1.amazonaws.com", 443, True)]
    assert found.loaded.credentials == Credentials("A", "B", None)
    assert not found.loaded.expires_within(1e9)
    set_variables(monkeypatch, AWS_SESSION_TOKEN="C", AWS_DEFAULT_REGION="cn-north-1")
    found = resolve_configuration("", None, None, None)
    assert found.endpoints == [Endpoint("dynamodb.cn-north-1.amazonaws.com.cn", 443, True)]
    assert found.loaded.credentials == Credentials("A", "B", "C")


@pytest.mark.usefixtures("no_botocore")
def test_the_environment_names_the_endpoint_without_botocore_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_variables(monkeypatch, AWS_ENDPOINT_URL="http://127.0.0.1:8000")
    assert region_endpoint("any") == Endpoint("127.0.0.1", 8000, False)
    set_variables(monkeypatch, AWS_IGNORE_CONFIGURED_ENDPOINT_URLS="true")
    assert region_endpoint("us-east-1").host == "dynamodb.us-east-1.amazonaws.com"


@pytest.mark.usefixtures("no_botocore")
@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "Profiles, files and roles need it"),
        ({"AWS_ACCESS_KEY_ID": "A"}, "AWS_SECRET_ACCESS_KEY is missing"),
        ({"AWS_PROFILE": "p"}, "AWS_PROFILE is set, and needs botocore"),
        ({"AWS_USE_FIPS_ENDPOINT": "true"}, "AWS_USE_FIPS_ENDPOINT is set"),
    ],
)
def test_what_only_botocore_can_do_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    set_variables(monkeypatch, **variables)
    with pytest.raises(Unavailable, match=said) as raised:
        resolve_configuration("eu-west-1", None, None, None)
    assert str(raised.value).endswith(BOTOCORE_HELP)


@pytest.mark.usefixtures("no_botocore")
@pytest.mark.parametrize("region", ["us-iso-east-1", "eu-west1"])
def test_an_unusual_region_needs_botocore_or_an_endpoint(region: str) -> None:
    with pytest.raises(Unavailable, match=f"endpoint of region '{region}' is not known"):
        region_endpoint(region)


@pytest.mark.usefixtures("no_botocore")
async def test_a_server_of_this_machine_needs_neither_keys_nor_botocore() -> None:
    await (await Client.open(endpoint="http://127.0.0.1:1", region="any")).close()
