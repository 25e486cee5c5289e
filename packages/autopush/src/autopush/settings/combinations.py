"""Options that exclude, require or override each other."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from autopush.settings.addresses import is_loopback
from autopush.settings.declaration import DAEMONS, ORIGINAL_DAEMONS, StartupError
from autopush.settings.options import NO_FOLDER, OPTIONS, Settings

NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("gcm_ttl", "gcm_dryrun", "gcm_collapsekey"), ("senderid_list",)),
    **dict.fromkeys(("fcm_ttl", "fcm_dryrun"), ("fcm_creds", "fcm_auth")),
    "fcm_priority": ("fcm_creds",),
    "fcm_collapsekey": ("fcm_auth",),
    "wake_pem": ("wake_timeout",),
    "wake_server": ("wake_pem",),
    "datadog_app_key": ("datadog_api_key",),
    "datadog_flush_interval": ("datadog_api_key",),
    "megaphone_api_token": ("megaphone_api_url",),
    "megaphone_poll_interval": ("megaphone_api_url",),
    **dict.fromkeys(("acme_email", "acme_directory", "acme_ca", "http_port"), ("domain",)),
    "acme_eab_kid": ("acme_eab_key",),
    "acme_eab_key": ("acme_eab_kid",),
    "ssl_dh_param": ("domain", "ssl_key"),
    "console_client_ca": ("console_ssl_key",),
    **dict.fromkeys(("console_port", "console_host", "console_ssl_key"), ("console",)),
}
"""Option → others, one of which must be given for it to have an effect."""

MAX_PORT: Final = 65_535

BOTO_FILES: Final = ("/etc/boto.cfg", "~/.boto")
"""Where the original finds the address of its database."""
_BOTO_PROXY: Final = re.compile(r"^\s*proxy\s*[=:]", re.MULTILINE)


def check_together(settings: Settings) -> None:
    """Raise StartupError for settings that cannot work, such as two listeners on one port."""
    if settings.data is NO_FOLDER and settings.needs_data_folder:
        raise StartupError("no home folder to keep data in; name a folder with --data")
    if settings.domain:
        _check_domain(settings)
    listeners = [(name, getattr(settings, name)) for name in settings.listeners.values()]
    if settings.has_sockets:
        listeners += [("worker_router_port", number) for number in settings.worker_router_ports]
    ports: dict[int, str] = {}
    for name, number in listeners:
        if number > MAX_PORT:
            raise StartupError(f"{name}: {settings.workers} workers need a port above {MAX_PORT}")
        if number and number in ports:
            raise StartupError(f"{name} and {ports[number]} are both {number}; each needs its own")
        ports[number] = name
    names_no_port = settings.endpoint_port == 0 and not settings.endpoint_url
    if settings.command == "connection" and names_no_port:
        raise StartupError("endpoint_port: a connection node must know the port of the endpoints")
    if settings.unix_socket:
        if settings.endpoint_port is not None and settings.command == "serve":
            raise StartupError("host: a Unix socket takes everything; leave endpoint_port out")
        if settings.has_tls:
            option = "domain" if settings.domain else "ssl_key"
            raise StartupError(
                f"host: behind a Unix socket the proxy speaks TLS; leave {option} out"
            )
        if settings.command in DAEMONS and not settings.endpoint_url:
            raise StartupError("host: behind a Unix socket endpoint_url must name the public URL")
    if settings.has_endpoint and settings.client_certs and not settings.has_tls:
        place = settings.sources["client_certs"].of("client_certs")
        raise StartupError(f"{place}: client certificates need TLS: ssl_key and ssl_cert")
    if settings.resolve_hostname and settings.command in DAEMONS:
        _ = settings.reachable_host


def _check_domain(settings: Settings) -> None:
    problem = ""
    if settings.command in ORIGINAL_DAEMONS:
        problem = "only `autopush serve` gets a certificate; others use ssl_cert and ssl_key"
    if settings.ssl_cert or settings.ssl_key:
        problem = (
            "with it the service gets its own certificate: leave out ssl_cert and ssl_key, or "
            "domain to use those files"
        )
    if problem:
        raise StartupError(settings.located(f"domain: {problem}"))


def warnings_together(settings: Settings) -> Iterator[str]:
    """Options that have no effect, or that keep nodes from reaching each other."""
    given = {
        option.name
        for option in OPTIONS
        if option.name in settings.sources
        and settings.command in option.commands
        and getattr(settings, option.name) != option.default
    }
    for name in sorted(given & NEEDED.keys()):
        if not any(getattr(settings, other) for other in NEEDED[name]):
            yield f"{settings.sources[name].of(name)}: does nothing without {_or(NEEDED[name])}"
    if "fcm_auth" in given and settings.fcm_creds and settings.fcm_version:
        place = settings.sources["fcm_auth"].of("fcm_auth")
        yield f"{place}: does nothing with fcm_creds, unless fcm_version is 0"
    # Behind a proxy that terminates TLS (router_scheme), loopback is correct.
    listens_locally = settings.has_sockets and settings.in_cluster and not settings.router_scheme
    if "router_host" in given and listens_locally and is_loopback(settings.router_host):
        place, name = settings.sources["router_host"].of("router_host"), settings.node_name
        if not settings.node_is_local:
            yield f"{place}: nodes that call {name} do not reach {settings.router_host}"
    if not settings.is_on_dynamodb and settings.command in DAEMONS:
        kind = "the embedded store" if settings.is_embedded else "PostgreSQL"
        for name in sorted(name for name in given if name.endswith("_throughput")):
            place = settings.sources[name].of(name)
            yield f"{place}: does nothing with {kind}"


def store_warnings(
    settings: Settings, files: Sequence[str], environ: Mapping[str, str]
) -> Iterator[str]:
    """Warn if the original, which knows only DynamoDB, would have kept its tables elsewhere.

    `files`: its ini files that were read.
    """
    named = not {"store", "aws_ddb_endpoint", "data"}.isdisjoint(settings.sources)
    if files and not named:
        yield (
            f"{files[0]} is a file of the original, which keeps its tables in DynamoDB, but no "
            f"store is named: they are in {settings.store_place}. For DynamoDB set store = "
            "dynamodb://REGION"
        )
    if "aws_ddb_endpoint" in settings.sources or (named and settings.is_embedded):
        return
    for path in filter(None, (environ.get("BOTO_CONFIG"), *BOTO_FILES)):
        path = os.path.expanduser(path)
        try:
            text = Path(path).read_text("utf-8", "replace")
        except OSError:  # optional: it may be missing or unreadable
            continue
        if _BOTO_PROXY.search(text):
            yield (
                f"{path}: the address of a local DynamoDB is not read there: set aws_ddb_endpoint "
                "= http://HOST:PORT"
            )


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(names)
