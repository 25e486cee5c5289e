"""Where the database is: a region of AWS, or a server named by its URL.

The rule: a name that cannot be right is refused at the start, with what would be.
"""

import contextlib
import difflib
import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

import botocore.session
import msgspec
from botocore.exceptions import BotoCoreError

from keytables.errors import Unavailable

__all__ = ["Endpoint", "check_region", "endpoint_of", "parse_endpoint"]

DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_REGION: Final = re.compile(r"[A-Za-z0-9-]+")
_HOST: Final = re.compile(r"[a-z0-9._:-]+")


class Endpoint(msgspec.Struct, frozen=True):
    """A server, and how it is spoken to."""

    host: str
    port: int
    tls: bool

    @property
    def authority(self) -> str:
        """As the Host header has it: without the port if that is the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (
            host
            if self.port == DEFAULT_PORTS["https" if self.tls else "http"]
            else f"{host}:{self.port}"
        )

    @property
    def loopback(self) -> bool:
        """Whether the server is on this machine, by its name."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")


def parse_endpoint(url: str) -> Endpoint:
    """Read ``http://HOST:PORT`` or ``https://HOST:PORT``; ValueError for anything else."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        port = DEFAULT_PORTS.get(parts.scheme, 0)
        if parts.port is not None and port:
            port = parts.port
        host = parts.hostname or ""
        alone = not (parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc)
        if port and alone and _HOST.fullmatch(host):
            return Endpoint(host, port, parts.scheme == "https")
    shown = "one with a user or password" if "@" in url else repr(url)
    raise ValueError(f"an endpoint is written http://HOST:PORT or https://HOST:PORT, not {shown}")


def check_region(region: str) -> str:
    """Return a word that can be the name of a region, of AWS or of a server of one's own.

    Raises Unavailable.
    """
    if not _REGION.fullmatch(region):
        raise Unavailable(
            f"a region is named as in us-east-1, by letters and digits, not {region!r}"
        )
    return region


def endpoint_of(session: botocore.session.Session, region: str) -> Endpoint:
    """The endpoint of a region, with what the environment and configuration of AWS say of it.

    Blocking. Raises Unavailable: no such region.
    """
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
