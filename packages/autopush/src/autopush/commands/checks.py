"""Checks before a start, of this machine alone; daemons, `settings` and `doctor` run them.

Rule: a check changes nothing, shows no secret, and raises StartupError for what prevents the start.
Its findings are what else an operator should know.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from autopush.acme.failures import moment
from autopush.acme.files import CertificateFolder
from autopush.acme.renewal import listed
from autopush.bridges.discovery import configured_routers, load_routers
from autopush.bridges.udp_wake import load_waker
from autopush.clock import Clock
from autopush.keys import existing_keys, key_file
from autopush.net.tls import ServerTls
from autopush.service.certificates import Certificates
from autopush.service.data_folder import check_folder
from autopush.service.listeners import check_address
from autopush.settings import OPTIONS, Settings, StartupError
from autopush.version import VERSION, how_to_install
from keytables import Unavailable

DAY: Final = 86_400.0
FEW_DAYS: Final = 14
"""Days before its expiry from which a certificate is a warning."""
AS_USER: Final = "Run this as the user that the service runs as"
RENEW: Final = "Renew the certificate, then run `autopush reload`"
_OTHERS: Final = 0o077
_OWN_BRIDGES: Final = ("adm", "apns", "fcm", "gcm")


class Level(StrEnum):
    OK = "OK"
    WARN = "WARN"
    """Works, but may not under load, in a cluster or for long."""
    FAIL = "FAIL"


class Finding(NamedTuple):
    """`advice`: what to do; empty if all is well."""

    level: Level
    found: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.found}. {self.advice}" if self.advice else self.found


def ok(text: str) -> Finding:
    return Finding(Level.OK, text)


def warn(problem: str, advice: str) -> Finding:
    return Finding(Level.WARN, problem, advice)


def fail(problem: str, advice: str) -> Finding:
    return Finding(Level.FAIL, problem, advice)


class PortUse(StrEnum):
    """Who uses a port that the service needs."""

    FREE = "free"
    OURS = "in use by this service"
    OTHER_VERSION = "in use by another version of this service"
    OTHER = "in use, and does not answer as this service"
    FORBIDDEN = "not allowed for this user"
    NO_ADDRESS = "on an address that this machine does not have"


@dataclass(frozen=True, slots=True)
class Subject:
    """What the checks examine: the settings of a command, and findings made before."""

    settings: Settings
    clock: Clock
    warnings: Sequence[str] = ()
    """From loading the settings."""
    ports: Mapping[str, PortUse] = field(default_factory=dict)
    """By purpose: see `Settings.listeners`."""
    is_live: bool = False
    """Whether to ask providers of bridges if they accept the credentials."""

    @property
    def is_running(self) -> bool:
        """Whether the service runs on this machine, with these ports."""
        return not {PortUse.OURS, PortUse.OTHER_VERSION}.isdisjoint(self.ports.values())


Findings = Iterator[Finding] | AsyncIterator[Finding]


class Check(NamedTuple):
    """`advice`: what to do when it raises StartupError; `timeout`: seconds."""

    name: str
    run: Callable[[Subject], Findings]
    advice: str = ""
    timeout: float = 6.0


def check_settings(subject: Subject) -> Iterator[Finding]:
    """Passes on the warnings of loading the settings."""
    given = len(subject.settings.sources)
    yield ok(f"autopush {subject.settings.command}; options set: {given}")
    for warning in subject.warnings:
        yield warn(warning, "See `autopush settings`")


# ── Installation ──────────────────────────────────────────────────────────────────────────────────


def check_installation(subject: Subject) -> Iterator[Finding]:
    """SQLite is new enough, and every module that an option needs is installed."""
    yield ok(f"autopush {VERSION}")
    if subject.settings.is_embedded:
        from keytables.sqlite.database import check_sqlite  # noqa: PLC0415 - not on DynamoDB

        try:
            yield ok(f"SQLite {check_sqlite()}")
        except Unavailable as error:
            raise StartupError(str(error)) from None
    for extra, option, modules in needed_extras(subject.settings):
        missing = [module for module in modules if not is_installed(module)]
        if missing:
            library = missing[0].partition(".")[0]
            raise StartupError(f"{option} needs {library}: {how_to_install(extra)}")
        yield ok(f"extra {extra}")


def needed_extras(settings: Settings) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yields an extra of the distribution, the option that needs it, and its modules."""
    own = [row for row in OPTIONS if row.bridge in _OWN_BRIDGES and getattr(settings, row.name)]
    if settings.has_endpoint and (own or settings.wake_pem):
        option = own[0].name if own else "wake_pem"
        yield "bridges", option, ("google.auth", "h2")
    if settings.firehose_stream_name:
        yield "firehose", "firehose_stream_name", ("botocore",)
    if settings.store_url.startswith("postgres"):
        yield "postgresql", "store", ("asyncpg",)
    if settings.sentry_dsn:
        yield "sentry", "sentry_dsn", ("sentry_sdk",)
    if settings.domain:
        yield "acme", "domain", ("acme",)
    if settings.has_endpoint and settings.client_certs:
        yield "client-certificates", "client_certs", ("OpenSSL",)


def is_installed(module: str) -> bool:
    """Whether a module, also one inside a package, can be imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its package is missing
        return False


# ── Files ─────────────────────────────────────────────────────────────────────────────────────────


def check_data_folder(subject: Subject) -> Iterator[Finding]:
    """This user can write the data folder, and no other can read it."""
    settings, folder = subject.settings, subject.settings.data
    if not settings.needs_data_folder:
        yield ok("not needed: the store and all keys are elsewhere")
        return
    if not (folder.exists() or folder.is_symlink()):
        parent = existing_folder(folder)
        if not os.access(parent, os.W_OK | os.X_OK):
            raise StartupError(f"data: {folder} cannot be created in {parent} by this user")
        yield ok(f"{folder} will be created at the first start")
        return
    check_folder(folder)
    if (mode := folder.stat().st_mode & 0o777) & _OTHERS:
        yield warn(f"{folder} is open to other users (mode {mode:o})", f"chmod 700 {folder}")
    else:
        yield ok(f"{folder}, mode {mode:o}")


def existing_folder(folder: Path) -> Path:
    """The folder, or its nearest existing parent."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.exists())


def check_logs(subject: Subject) -> Iterator[Finding]:
    """The log file can be appended to."""
    output = subject.settings.log_output
    if output in ("stdout", "stderr", "none"):
        yield ok(f"log_output {output}")
        return
    path = Path(output).expanduser().absolute()
    # A missing file is created, also as the target of a symlink.
    needed = path if path.exists() else path.resolve().parent
    if path.is_dir():
        raise StartupError(f"log_output: cannot log to {output}: it is a folder")
    if not needed.exists():
        raise StartupError(f"log_output: cannot log to {output}: {needed} does not exist")
    if not os.access(needed, os.W_OK):
        reason = f"{needed} may not be written by this user"
        raise StartupError(f"log_output: cannot log to {output}: {reason}")
    yield ok(str(path))


def check_keys(subject: Subject) -> Iterator[Finding]:
    """Each key is configured, or its file can be read or created."""
    settings = subject.settings
    for name in ("crypto_key", *(["auth_key"] if settings.has_endpoint else [])):
        path = key_file(settings.data, name)
        if configured := getattr(settings, name):
            yield ok(f"{name}: {len(configured)} from {settings.sources[name].place}")
        elif path.exists():
            keys = existing_keys(settings.data, name)
            if (mode := path.stat().st_mode & 0o777) & _OTHERS:
                problem = f"{name}: {path} is open to other users (mode {mode:o}): chmod 600 {path}"
                yield warn(problem, "Then replace the key if others may have read it")
            else:
                yield ok(f"{name}: {len(keys)} in {path}")
        elif settings.is_embedded:  # its nodes are on one machine, and share the folder
            yield ok(f"{name}: {path} will be created at the first start")
        else:
            advice = f"Give all nodes the same {name}, from autokey"
            yield warn(f"{name}: this node would create its own at the first start", advice)


def check_tls(subject: Subject) -> Iterator[Finding]:
    """TLS files are readable and match; certificates are valid and for the host."""
    settings = subject.settings
    if settings.domain:
        yield from _check_own_certificate(settings, subject.clock())
        settings = replace(settings, domain=())
    certificates = Certificates(settings)
    options = (settings.ssl_cert, settings.router_ssl_cert, settings.router_ssl_ca)
    if not (any(options) or settings.console_ssl_cert or subject.settings.domain):
        yield ok("not configured: the ports do not speak TLS")
    url = settings.public_endpoint_url if settings.has_endpoint else settings.public_websocket_url
    public = certificates.of("endpoint" if settings.has_endpoint else "websocket")
    hosts = {"ssl_cert": (public, urlsplit(url).hostname or "")}
    if settings.has_sockets:
        hosts["router_ssl_cert"] = certificates.of("router"), settings.node_host.strip("[]")
    if settings.console:
        hosts["console_ssl_cert"] = certificates.of("console"), ""  # by any name of the certificate
    for option, (tls, host) in hosts.items():
        if tls is not None:
            yield from _check_certificate(option, tls, host, subject.clock())
    if settings.router_ssl_ca:
        yield ok("router_ssl_ca can be read")


def _check_own_certificate(settings: Settings, now: float) -> Iterator[Finding]:
    """That of `domain`, without making a file."""
    folder, names = CertificateFolder(settings.data), listed(settings.domain)
    if not folder.certificate.exists():
        yield ok(f"the first start orders a certificate for {names}")
        return
    served, failure = folder.served(), folder.read().failure
    if served is None:
        yield warn(f"{folder.certificate} is damaged", "The start replaces it")
    elif served.is_placeholder:
        yield fail(f"no certificate for {names} was issued yet", "Clients trust none until then")
    elif served.ends < now:
        yield fail(f"the certificate expired on {moment(served.ends)}", "It is renewed by itself")
    else:
        yield ok(f"domain: valid for {(served.ends - now) // DAY:.0f} days")
        if missing := [name for name in settings.domain if name not in served.names]:
            yield warn(f"the certificate is not for {listed(missing)}", "The start orders another")
    if failure is not None:
        advice = f"It is tried again at {moment(failure.retry_at)}, and by a restart sooner"
        yield fail(f"the last order failed: {failure.words}", advice)


def _check_certificate(option: str, tls: ServerTls, host: str, now: float) -> Iterator[Finding]:
    days = (tls.expires - datetime.fromtimestamp(now, UTC)).days
    warnings = tls.warnings(now)
    if days < 0:
        yield fail(f"{option}: {warnings.pop(0)}", RENEW)
    elif days < FEW_DAYS:
        yield warn(f"{option} is valid for {days} days", RENEW)
    else:
        yield ok(f"{option} is valid for {days} days")
    for warning in warnings:
        yield warn(warning, "The service starts, and logs this")
    if host and not any(is_for(name, host) for name in tls.names):
        advice = "Set endpoint_url, websocket_url or hostname to a name of the certificate"
        yield fail(f"{option} is not for {host}", advice)


def is_for(name: str, host: str) -> bool:
    """Whether a certificate's name matches the host (RFC 9525: `*` is one label)."""
    name, host = name.lower(), host.lower()
    return name in (host, "*." + host.partition(".")[2])


def check_bridges(subject: Subject) -> Iterator[Finding]:
    """The credentials of every configured bridge can be read; no provider is asked."""
    settings = subject.settings
    if not settings.has_endpoint:
        yield ok("only endpoint nodes have bridges")
        return
    for name, router in sorted(load_routers(settings, subject.clock).items()):
        if router.start_warning:
            yield warn(f"{name}: {router.start_warning}", "See the page of bridges")
        else:
            yield ok(f"{name}: its credentials can be read")
    if load_waker(settings) is not None:
        yield ok("wake: its certificate can be read")
    elif not configured_routers(settings):
        yield ok("none is configured")


def check_addresses(subject: Subject) -> Iterator[Finding]:
    """The addresses to listen on belong to this machine; nodes reach the internal port."""
    settings = subject.settings
    options = {"host": settings.tcp_host}
    if settings.has_sockets and settings.router_host:
        options["router_host"] = settings.router_host
    for option, host in options.items():
        check_address(host, option)
        yield ok(f"{option} {host} is an address of this machine")
    if not settings.has_sockets:
        return
    if settings.router_is_everywhere:
        problem = (
            f"the internal port listens on every interface: {settings.node_name} does not tell by "
            "which address other nodes reach this machine"
        )
        yield warn(problem, "Set router_host to that address")
    if settings.in_cluster and settings.node_is_local:
        url = settings.node_url(settings.router_port)
        advice = "Set router_hostname or hostname, and router_host to listen there"
        yield warn(f"nodes on other machines cannot reach {url}", advice)


START_CHECKS: Final = (
    Check("settings", check_settings),
    Check("installation", check_installation, "Install it where the service is installed"),
    Check("data folder", check_data_folder, f"{AS_USER}, or set data"),
    Check("logs", check_logs, f"{AS_USER}, or set log_output"),
    Check("keys", check_keys, "Put back what it held"),
    Check("TLS", check_tls, "Correct the file, or the option that names it"),
    Check("bridges", check_bridges, "Correct its option, or remove it"),
    Check("addresses", check_addresses, "Set it to an address of this machine"),
)


def examine_start(settings: Settings, clock: Clock) -> tuple[list[str], list[Finding]]:
    """What would prevent a daemon's start, a line each, with the place of the option at fault; and
    what else an operator should know of it.
    """
    problems: list[str] = []
    warnings: list[Finding] = []
    for check in START_CHECKS:
        try:
            findings = check.run(Subject(settings, clock))
            assert isinstance(findings, Iterator)
            warnings += (each for each in findings if each.level is not Level.OK)
        except StartupError as error:
            problems.append(settings.located(str(error)))
        except ModuleNotFoundError as error:  # `check_installation` says how to install it
            problems.append(f"{error.name} is not installed")
    return problems, warnings
