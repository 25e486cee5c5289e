"""What a client is opened with: region, servers, credentials and TLS, as AWS's environment and
files say where the caller does not.

botocore reads them. It is an optional dependency, so it is imported by the functions that need it:
none of them is called where region, endpoint and credentials are given. All of them block.
"""

import difflib
import functools
import re
import ssl
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from keytables.dynamodb.hosts import Endpoint, parse_endpoint
from keytables.dynamodb.signing import (
    CREDENTIALS_HELP,
    DUMMY_CREDENTIALS,
    Credentials,
    LoadedCredentials,
    never_expires,
)
from keytables.errors import Unavailable

__all__ = [
    "Configuration",
    "LoadCredentials",
    "find_credentials",
    "region_endpoint",
    "resolve_configuration",
]

DEFAULT_REGION: Final = "us-east-1"

_REGION: Final = re.compile(r"[A-Za-z0-9-]+")

LoadCredentials: TypeAlias = Callable[[], LoadedCredentials | None]
"""Blocks. Raises Unavailable; returns None where there are none."""


class Configuration(msgspec.Struct, frozen=True):
    """What a client is opened with. ``load`` loads the credentials again."""

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
    """Find what is not given (a region is not if it is empty).

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
            raise Unavailable(f"no AWS credentials were found. {CREDENTIALS_HELP}")
        loaded = DUMMY_CREDENTIALS
    if tls is None and any(endpoint.tls for endpoint in endpoints):
        bundle = _configured("ca_bundle")
        try:
            tls = ssl.create_default_context(cafile=bundle)
        except OSError as exc:
            raise Unavailable(f"the CA bundle {bundle} cannot be used: {exc}") from exc
    return Configuration(region, endpoints, tls, loaded, load)


def region_endpoint(region: str) -> Endpoint:
    """Return the endpoint of a region, or what the environment and files of AWS have instead.

    Raises Unavailable: no such region.
    """
    import botocore.session  # noqa: PLC0415 - optional, as above
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    session = botocore.session.Session()
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
    """Ask botocore's chain of providers, from its beginning.

    ``instance_role``: also ask the instance this runs on for the credentials of its role. Raises
    Unavailable: there are some, and they cannot be loaded.
    """
    import botocore.session  # noqa: PLC0415 - optional, as above
    from botocore.credentials import RefreshableCredentials  # noqa: PLC0415
    from botocore.exceptions import PartialCredentialsError, ProfileNotFound  # noqa: PLC0415

    try:
        session = botocore.session.Session()
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
    credentials = Credentials(
        frozen.access_key or "", frozen.secret_key or "", frozen.token or None
    )
    if not credentials.is_usable:
        raise Unavailable(
            f"the AWS credentials contain characters that no key has. {CREDENTIALS_HELP}"
        )
    if isinstance(source, RefreshableCredentials):
        return LoadedCredentials(credentials, lambda seconds: source.refresh_needed(int(seconds)))
    return LoadedCredentials(credentials, never_expires)


def _configured(variable: str) -> str | None:
    """Return a variable of AWS's environment and files, by botocore's name of it."""
    import botocore.session  # noqa: PLC0415 - optional, as above
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    try:
        value: str | None = botocore.session.Session().get_config_variable(variable)
    except BotoCoreError as exc:
        raise Unavailable(
            f"the configuration of AWS cannot be used: {exc}. {CREDENTIALS_HELP}"
        ) from exc
    return value
