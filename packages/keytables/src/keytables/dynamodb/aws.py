"""Region, servers, credentials and TLS of a client, from the environment and files of AWS.

botocore reads them. It is an optional dependency: without it keys, region, endpoint and CA bundle
come from the environment, and what only botocore can do (profiles, roles, other partitions) is
refused with a text that says how to install it. All functions block.
"""

import difflib
import functools
import os
import re
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from keytables.dynamodb.connections import Endpoint, parse_endpoint
from keytables.dynamodb.signing import (
    CREDENTIALS_HELP,
    DUMMY_CREDENTIALS,
    Credentials,
    LoadedCredentials,
    never_expires,
)
from keytables.errors import Unavailable

if TYPE_CHECKING:
    from botocore.session import Session

DEFAULT_REGION: Final = "us-east-1"

BOTOCORE_HELP: Final = (
    "pip install 'keytables[dynamodb]' installs botocore, in a checkout: make extras"
)

_REGION: Final = re.compile(r"[A-Za-z0-9-]+")
_USUAL_REGION: Final = re.compile(r"[a-z]{2}(-gov)?-(north|south|east|west|central){1,2}-[0-9]")
"""Regions whose endpoint follows from their name."""

_FOR_BOTOCORE: Final = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_CONFIG_FILE",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_CREDENTIAL_EXPIRATION",
)
"""Variables that would be ignored without botocore."""

_VARIABLES: Final = {"region": "AWS_DEFAULT_REGION", "ca_bundle": "AWS_CA_BUNDLE"}
"""By botocore's name of the setting."""

LoadCredentials: TypeAlias = Callable[[], LoadedCredentials | None]
"""Blocks. Raises Unavailable; returns None where there are none."""


class Configuration(msgspec.Struct, frozen=True):
    """``load`` loads the credentials again."""

    region: str
    endpoints: Sequence[Endpoint]
    tls: ssl.SSLContext | None
    loaded: LoadedCredentials
    load: LoadCredentials


def resolve_configuration(
    region: str,
    endpoints: Sequence[Endpoint] | None,
    tls: ssl.SSLContext | None,
    load: LoadCredentials | None,
) -> Configuration:
    """Find what is not given (or empty, for the region).

    Raises Unavailable: no such region, no credentials (servers on this machine need none).
    """
    region = region or _configured("region") or DEFAULT_REGION
    if not _REGION.fullmatch(region):  # servers of one's own may use any name
        raise Unavailable(
            f"a region is named as in us-east-1, by letters and digits, not {region!r}"
        )
    endpoints = endpoints or [region_endpoint(region)]
    is_local = all(endpoint.is_loopback for endpoint in endpoints)
    if load is None:
        load = functools.partial(find_credentials, region, instance_role=not is_local)
    loaded = load()
    if loaded is None:
        if not is_local:
            raise Unavailable(f"no AWS credentials were found. {_credentials_help()}")
        loaded = DUMMY_CREDENTIALS
    if tls is None and any(endpoint.tls for endpoint in endpoints):
        bundle = _configured("ca_bundle")
        try:
            tls = ssl.create_default_context(cafile=bundle)
        except OSError as exc:
            raise Unavailable(f"the CA bundle {bundle} cannot be used: {exc}") from exc
    return Configuration(region, endpoints, tls, loaded, load)


def region_endpoint(region: str) -> Endpoint:
    """Return a region's endpoint, or the configured one. Raises Unavailable: no such region."""
    session = _botocore_session()
    if session is None:
        return _endpoint_of_environment(region)
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - optional, as above

    known = [
        name
        for partition in session.get_available_partitions()
        for name in session.get_available_regions("dynamodb", partition)
    ]
    if region not in known:
        near = difflib.get_close_matches(region.lower(), known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "for example us-east-1."
        raise Unavailable(
            f"DynamoDB has no region {region!r}; {hint} A server of your own, or a region newer "
            "than this program's list, is named by its endpoint."
        )
    try:
        client = session.create_client(
            "dynamodb",
            region,
            aws_access_key_id="none",  # else it would look for credentials
            aws_secret_access_key="none",  # noqa: S106
        )
        return parse_endpoint(client.meta.endpoint_url)
    except (BotoCoreError, ValueError) as exc:
        raise Unavailable(f"the endpoint of region {region!r} is not known: {exc}") from exc


def find_credentials(region: str, *, instance_role: bool) -> LoadedCredentials | None:
    """Return the credentials of botocore's provider chain; without botocore, of the environment.

    ``instance_role``: also those of this instance's role. Raises Unavailable: they cannot be
    loaded.
    """
    session = _botocore_session()
    if session is None:
        return _credentials_of_environment()
    from botocore.credentials import RefreshableCredentials  # noqa: PLC0415 - optional, as above
    from botocore.exceptions import PartialCredentialsError, ProfileNotFound  # noqa: PLC0415

    try:
        session.set_config_variable("region", region)
        if not instance_role:
            session.get_component("credential_provider").remove("iam-role")
        source = session.get_credentials()
        if source is None:
            return None
        frozen = source.get_frozen_credentials()
    except (PartialCredentialsError, ProfileNotFound) as exc:
        raise Unavailable(f"the AWS credentials are incomplete: {exc}. {CREDENTIALS_HELP}") from exc
    except Exception as exc:  # noqa: BLE001 - of any provider; its text may show secrets
        raise Unavailable(
            f"the AWS credentials cannot be loaded: {type(exc).__name__}. {CREDENTIALS_HELP}"
        ) from None
    credentials = _usable(frozen.access_key, frozen.secret_key, frozen.token)
    if isinstance(source, RefreshableCredentials):
        return LoadedCredentials(credentials, lambda seconds: source.refresh_needed(int(seconds)))
    return LoadedCredentials(credentials, never_expires)


def _configured(variable: str) -> str | None:
    """Return a setting of AWS's environment and files, by botocore's name."""
    session = _botocore_session()
    if session is None:
        return os.environ.get(_VARIABLES[variable])
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - optional, as above

    try:
        value: str | None = session.get_config_variable(variable)
    except BotoCoreError as exc:
        raise Unavailable(
            f"the configuration of AWS cannot be used: {exc}. {CREDENTIALS_HELP}"
        ) from exc
    return value


def _botocore_session() -> "Session | None":
    """Return a new session; None: botocore is not installed, and the environment suffices."""
    try:
        from botocore.session import Session  # noqa: PLC0415 - optional, as above
    except ModuleNotFoundError:
        for name in _FOR_BOTOCORE:
            if os.environ.get(name):
                raise Unavailable(f"{name} is set, and needs botocore: {BOTOCORE_HELP}") from None
        return None
    return Session()


def _endpoint_of_environment(region: str) -> Endpoint:
    variables = ("AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL")
    is_ignored = os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true"
    for name in () if is_ignored else variables:
        if url := os.environ.get(name):
            try:
                return parse_endpoint(url)
            except ValueError as exc:
                raise Unavailable(f"{name}: {exc}") from exc
    if not _USUAL_REGION.fullmatch(region):
        raise Unavailable(
            f"the endpoint of region {region!r} is not known without botocore; name it by its URL. "
            f"Regions are named as in us-east-1. {BOTOCORE_HELP}"
        )
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return Endpoint(f"dynamodb.{region}.{domain}", 443, True)


def _credentials_of_environment() -> LoadedCredentials | None:
    access_key = os.environ.get("AWS_ACCESS_KEY_ID")
    if not access_key:
        return None
    secret_key = os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not secret_key:
        raise Unavailable(
            f"the AWS credentials are incomplete: AWS_SECRET_ACCESS_KEY is missing. "
            f"{_credentials_help()}"
        )
    token = os.environ.get("AWS_SECURITY_TOKEN") or os.environ.get("AWS_SESSION_TOKEN")
    return LoadedCredentials(_usable(access_key, secret_key, token), never_expires)


def _usable(access_key: str | None, secret_key: str | None, token: str | None) -> Credentials:
    credentials = Credentials(access_key or "", secret_key or "", token or None)
    if not credentials.is_usable:
        raise Unavailable(
            f"the AWS credentials contain characters that no key has. {CREDENTIALS_HELP}"
        )
    return credentials


def _credentials_help() -> str:
    if _botocore_session() is not None:
        return CREDENTIALS_HELP
    return (
        "Without botocore they are read from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (with "
        "temporary ones also AWS_SESSION_TOKEN). Profiles, files and roles need it: "
        f"{BOTOCORE_HELP}"
    )
