"""`autopush doctor`: checks of the system, the network and the store, after those of a start.

It writes only rows of its own to the store, which it deletes, and prints no secret.
"""

import argparse
import asyncio
import base64
import errno
import json
import os
import resource
import secrets
import shutil
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from autopush.bridges.discovery import load_routers
from autopush.commands import DAEMON_FILES
from autopush.commands.checks import (
    FEW_DAYS,
    START_CHECKS,
    Check,
    Finding,
    Findings,
    Level,
    PortUse,
    Subject,
    existing_folder,
    fail,
    ok,
    warn,
)
from autopush.commands.running import INCOMPLETE, opened_engine, run_until_signal
from autopush.delivery.bridge_contract import RouterError
from autopush.keys import existing_crypto_keys, key_file, key_fingerprints
from autopush.net.frames import accept_key
from autopush.net.http_client import ClientLimits, HttpClient, HttpError, HttpResponse, client_tls
from autopush.net.tcp import DialRefused, DialUnknown
from autopush.service.listeners import BACKLOG
from autopush.service.storage import lock_holding_pids, table_plan
from autopush.settings import Settings, StartupError
from autopush.settings.addresses import ALL_INTERFACES, LOOPBACK, is_loopback
from autopush.settings.sources import Loaded, load
from autopush.settings.value_types import join_url
from autopush.store.preflight import PreflightFailed, are_keys_lost, preflight
from autopush.store.tables import Month, TablePlan, live_tables
from autopush.telemetry import logs
from autopush.version import VERSION
from keytables import Engine, KeytablesError
from keytables.stores import DynamoUrl, SqliteUrl, parse_store

if TYPE_CHECKING:  # a node on DynamoDB may lack apsw
    from keytables.sqlite import StoreCheck

DAY: Final = 86_400.0

# ── One request ───────────────────────────────────────────────────────────────────────────────────

TIMEOUT: Final = 4.0
"""Seconds for the whole request."""


class ProbeFailed(Exception):  # noqa: N818 - named for what happened
    """No response; the text says why."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused
        """Nothing listens there."""


async def fetch(
    url: str, headers: Mapping[str, str] | None = None, *, verify: bool = True
) -> HttpResponse:
    """GET an http, https, ws or wss URL. `verify`: check the server's certificate.

    Raises:
        ProbeFailed: no HTTP response within `TIMEOUT`.
    """
    url = url.replace("ws", "http", 1) if url.startswith("ws") else url
    client = HttpClient(
        client_tls(verify=verify) if url.startswith("https:") else None,
        ClientLimits(connect_timeout=TIMEOUT),
    )
    sent = {"Accept": "application/json", "Connection": "close", **(headers or {})}
    try:
        async with asyncio.timeout(TIMEOUT):
            return await client.request("GET", url, [*sent.items()])
    except TimeoutError:
        raise ProbeFailed(f"no answer within {TIMEOUT:g} s") from None
    except HttpError as error:
        cause = error.__cause__
        refused = isinstance(cause, DialRefused) and not isinstance(cause, DialUnknown)
        raise ProbeFailed(str(error), refused=refused) from None
    finally:
        await client.close()


def certificate_expiry(response: HttpResponse) -> float | None:
    """Expiry of the server's certificate (epoch seconds); None unless one was verified."""
    ends = (response.certificate or {}).get("notAfter")
    return ssl.cert_time_to_seconds(ends) if isinstance(ends, str) else None


# ── The system ────────────────────────────────────────────────────────────────────────────────────

LITTLE_SPACE: Final = 1 << 30
"""Free bytes below which there is a warning."""
NO_SPACE: Final = 100 << 20
"""Free bytes below which the check fails: SQLite's log alone may need that much."""
SPARE_FILES: Final = 256
"""Descriptors of a worker beside its WebSockets: the store, links to nodes, requests."""
FEW_FILES: Final = 10_000

NETWORK_FILE_SYSTEMS: Final = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs"),
        *("fuse.sshfs", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb3"),
        "smbfs",
    )
)
"""Where processes cannot share the memory that SQLite's write-ahead log needs."""
FLEETING_FILE_SYSTEMS: Final = {
    "tmpfs": "it is in memory and lost at a restart of the machine",
    "ramfs": "it is in memory and lost at a restart of the machine",
    "overlay": "it is the container's own layer and lost with the container; mount a volume",
}
MOUNTS: Final = Path("/proc/self/mountinfo")
SOMAXCONN: Final = Path("/proc/sys/net/core/somaxconn")
SHORT_BACKLOG: Final = 4096
"""The default of Linux; older systems have 128."""
LOCAL_PORTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def check_disk(subject: Subject) -> Iterator[Finding]:
    """There is free space, on a file system that is local and persistent."""
    settings = subject.settings
    if not (settings.needs_data_folder or settings.is_embedded):
        yield ok("nothing is kept on this machine")
        return
    place = parse_store(settings.store_url)
    kept_in = Path(place.path).parent if isinstance(place, SqliteUrl) else settings.data
    folder = existing_folder(kept_in)
    free = shutil.disk_usage(folder).free
    shown = f"{free / (1 << 30):,.1f} GiB free for {folder}"
    if free < NO_SPACE:
        yield fail(shown, "Make space: messages cannot be stored on a full disk")
    elif free < LITTLE_SPACE:
        yield warn(shown, "Make space before the disk is full")
    else:
        yield ok(shown)
    kind = file_system(folder, MOUNTS.read_text() if MOUNTS.exists() else "")
    if kind in NETWORK_FILE_SYSTEMS and settings.is_embedded:
        advice = "Put it on a local disk: SQLite's log does not work on network file systems"
        yield fail(f"the store is on a network file system ({kind})", advice)
    elif (why := FLEETING_FILE_SYSTEMS.get(kind)) is not None:
        yield warn(f"{folder} is on {kind}", f"Not for long: {why}")
    elif kind:
        yield ok(f"file system {kind}")


def file_system(folder: Path, mounts: str) -> str:
    """A folder's file system type; `mounts`: the text of /proc/self/mountinfo."""
    best, kind = -1, ""
    path = folder.resolve()
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        point = fields[4].encode("latin-1", "replace").decode("unicode_escape")  # \040 is a space
        if path.is_relative_to(point) and len(point) >= best:
            best, kind = len(point), right.split()[0]
    return kind


def check_limits(subject: Subject) -> Iterator[Finding]:
    """The system's limits allow the configured number of connections."""
    settings = subject.settings
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.max_connections + SPARE_FILES if settings.has_sockets else 0
    shown = f"{files:,} open files for each worker"
    if files == resource.RLIM_INFINITY:
        yield ok("any number of open files")
    elif files < needed:
        advice = f"Raise LimitNOFILE to {needed:,}, or lower max_connections"
        yield fail(f"{shown}, and max_connections needs {needed:,}", advice)
    elif files < FEW_FILES and settings.has_sockets and not settings.max_connections:
        advice = "Raise LimitNOFILE, or set max_connections"
        yield warn(f"{shown}: so many WebSockets at most", advice)
    else:
        yield ok(shown)
    backlog = _numbers(SOMAXCONN)
    if backlog:
        shown = f"{min(backlog[0], BACKLOG):,} connections may wait to be accepted"
        advice = f"sysctl net.core.somaxconn={BACKLOG}"
        yield warn(shown, advice) if backlog[0] < SHORT_BACKLOG else ok(shown)
    local = _numbers(LOCAL_PORTS)
    if settings.has_sockets and len(local) == 2:
        ports = local[1] - local[0] + 1
        shown = f"{ports:,} local ports, which bounds the connections of a proxy on this machine"
        if settings.max_connections * settings.workers > ports:
            advice = "Widen net.ipv4.ip_local_port_range, or give the proxy several addresses"
            yield warn(f"{shown}; max_connections is more", advice)
        else:
            yield ok(shown)


def _numbers(path: Path) -> list[int]:
    try:
        return [int(word) for word in path.read_text().split()]
    except (OSError, ValueError):  # not a Linux kernel
        return []


# ── The ports ─────────────────────────────────────────────────────────────────────────────────────

_LOOPBACKS: Final = {"0.0.0.0": LOOPBACK, "::": "::1", "0:0:0:0:0:0:0:0": "::1"}  # noqa: S104
"""Where to reach a port that listens on every interface."""
_SILENT: Final = ("proxied", "memory")
"""Ports that cannot be asked for `/status`: one expects a PROXY header, one is for debugging."""
_REFUSALS: Final = {
    errno.EADDRINUSE: PortUse.OTHER,
    errno.EACCES: PortUse.FORBIDDEN,
    errno.EADDRNOTAVAIL: PortUse.NO_ADDRESS,
}
_ADVICE: Final = {
    PortUse.OTHER: "End the program that listens there, or choose another port with --{flag}",
    PortUse.FORBIDDEN: "Give the service CAP_NET_BIND_SERVICE, or choose a port above 1023",
    PortUse.NO_ADDRESS: "Set host to an address of this machine",
    PortUse.OTHER_VERSION: f"Restart the service: {VERSION} is installed",
}


async def look_at_ports(settings: Settings) -> dict[str, PortUse]:
    """Who listens on each port of the command, by purpose."""
    purposes = [name for name, option in settings.listeners.items() if getattr(settings, option)]
    uses = await asyncio.gather(*(_look_at(settings, purpose) for purpose in purposes))
    found = dict(zip(purposes, uses, strict=True))
    is_running = PortUse.OURS in uses or PortUse.OTHER_VERSION in uses
    for purpose in _SILENT:
        if is_running and found.get(purpose) is PortUse.OTHER:
            found[purpose] = PortUse.OURS
    return found


def check_ports(subject: Subject) -> Iterator[Finding]:
    """Ports are free or used by the service; nodes, but not the public, reach the internal port."""
    settings = subject.settings
    for purpose, option in settings.listeners.items():
        use = subject.ports.get(purpose)
        shown = f"{option} {getattr(settings, option)}: {use}"
        if use is None:
            yield ok(f"{option} 0: any free port")
        elif use in (PortUse.FREE, PortUse.OURS):
            yield ok(shown)
        else:
            advice = _ADVICE[use].format(flag=option.replace("_", "-"))
            level = warn if use is PortUse.OTHER_VERSION else fail
            yield level(shown, advice)
    if settings.has_sockets and subject.ports.get("router") is not PortUse.OURS:
        for port in filter(None, settings.worker_router_ports):
            use = _try_to_bind(settings.router_address, port)
            if use is not PortUse.FREE:
                advice = _ADVICE[use].format(flag="worker-router-port")
                yield fail(f"worker_router_port {port}: {use}", advice)
    if settings.has_sockets and settings.in_cluster and settings.node_is_local:
        found = f"nodes on other machines cannot reach {settings.node_url(settings.router_port)}"
        advice = "Set router_hostname or hostname, and router_host to listen there"
        yield warn(found, advice)
    if settings.has_sockets and settings.router_address in ALL_INTERFACES:
        found = f"router_port {settings.router_port} listens on every interface"
        yield warn(found, "Set router_host to the address that nodes call")


async def _look_at(settings: Settings, purpose: str) -> PortUse:
    port = getattr(settings, settings.listeners[purpose])
    host = {"memory": LOOPBACK, "router": settings.router_address}.get(purpose, settings.host)
    use = _try_to_bind(host, port)
    if use is not PortUse.OTHER or purpose in _SILENT:
        return use
    key = settings.router_ssl_key if purpose == "router" else settings.ssl_key
    scheme = "https" if key and purpose != "metrics" else "http"
    url = join_url(scheme, _LOOPBACKS.get(host, host), port, "/status")
    try:
        answer = await fetch(url, verify=False)
    except ProbeFailed:
        return PortUse.OTHER
    version = service_version(answer.body)
    if not version:
        return PortUse.OTHER
    return PortUse.OURS if version == VERSION else PortUse.OTHER_VERSION


def service_version(body: bytes) -> str:
    """The version in a `/status` response of this service or the original; else empty."""
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(document, Mapping) or document.get("status") != "OK":
        return ""
    version = document.get("version")
    return version if isinstance(version, str) else ""


def _try_to_bind(host: str, port: int) -> PortUse:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError):
        return PortUse.NO_ADDRESS
    with sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(address)
        except OSError as error:
            return _REFUSALS.get(error.errno or 0, PortUse.OTHER)
    return PortUse.FREE


# ── The store ─────────────────────────────────────────────────────────────────────────────────────

KEY_LOST: Final = (
    "Give the doctor the option crypto_key that the service has. If the key is lost, the service "
    "does not start: put it back, from a backup (keys/crypto_key in it) or another node"
)
CREATED: Final = "The next start of the service creates it"


async def check_store(subject: Subject) -> AsyncIterator[Finding]:
    """The store opens, has its tables, and allows every operation that the service needs."""
    settings = subject.settings
    place = parse_store(settings.store_url)
    if isinstance(place, SqliteUrl):
        exists = os.path.exists(place.path)  # noqa: ASYNC240
        state = await asyncio.to_thread(_file_state, place.path) if exists else None
        ports = [getattr(settings, option) for option in settings.listeners.values()]
        if subject.is_running and not is_used_by_listener(place.path, state, ports):
            found = f"the service on these ports does not use {place.path}"
            yield fail(found, "Give the doctor the options data and store of that service")
        if not exists:
            yield ok(f"{place.path} will be created at the first start")
            return
        if state is not None and state.is_unclean:
            advice = "`autopush check` says whether it is damaged"
            yield warn(f"{place.path} was not closed by its last user", advice)
    try:
        async with opened_engine(settings, subject.clock) as engine:
            async for finding in _check_tables(engine, settings, subject):
                yield finding
    except StartupError as error:
        yield fail(settings.located(str(error)), "Correct the option store, or what it names")
    except KeytablesError as error:
        found = f"the store {settings.store_place} failed: {error}"
        yield fail(found, "Look into the log of the database")


def _file_state(path: str) -> "StoreCheck | None":
    from keytables.sqlite import check_store as check_file  # noqa: PLC0415 - as in other checks

    try:
        return check_file(path, timeout=0)
    except KeytablesError:  # reported when it is opened
        return None


def is_used_by_listener(path: str, state: "StoreCheck | None", ports: Sequence[int]) -> bool:
    """Whether a process that listens on one of `ports` has the store open; True if unknown."""
    if state is None or not state.is_in_use:
        return False
    sockets = _listening_sockets(ports)
    for pid in lock_holding_pids(path):
        try:
            files = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:  # of another user, or it has ended
            return True
        if not sockets.isdisjoint(files):
            return True
    return not sockets


def _listening_sockets(ports: Sequence[int]) -> set[str]:
    """Sockets that listen on `ports`, as /proc/PID/fd names them."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:  # not Linux, or no IPv6
            continue
        for line in lines:
            # 0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 INODE
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) in ports:
                found.add(f"socket:[{fields[9]}]")
    return found


async def _check_tables(
    engine: Engine, settings: Settings, subject: Subject
) -> AsyncIterator[Finding]:
    plan = table_plan(settings)
    names = await engine.table_names()
    now = subject.clock()
    parts = f", {engine.parts} parts" if engine.parts > 1 else ""
    yield ok(f"{settings.store_place} opens, {len(names)} tables{parts}")
    missing = missing_tables(plan, names, now)
    if missing:
        advice = CREATED if not subject.is_running else "Restart the service: it creates them"
        yield warn(f"missing: {', '.join(missing)}", advice)
    if plan.router in names and await _is_key_lost(engine, plan, settings):
        found = "its subscriptions were made with another crypto_key than is found here"
        yield fail(found, KEY_LOST)
    soon = Month.at(now + DAY).table(plan.message)
    if plan.rotating and not missing and soon not in names:
        advice = "A running service creates it; without one, run `autopush maintain`"
        yield warn(f"{soon}, the message table of tomorrow, is missing", advice)
    if missing:
        return
    current = _current(plan, names, now)
    try:
        await preflight(
            engine, plan, current=current, key_hash=settings.key_hash, clock=subject.clock
        )
    except PreflightFailed as error:
        yield fail(str(error), "Give the service this right, or repair the table")
    else:
        tables = f"{plan.router}, {plan.storage} and {current}"
        yield ok(f"reading, conditional writing and deleting works on {tables}")


async def _is_key_lost(engine: Engine, plan: TablePlan, settings: Settings) -> bool:
    try:
        keys = existing_crypto_keys(settings.crypto_key, settings.data)
    except StartupError:
        if key_file(settings.data, "crypto_key").exists():
            return False  # reported by the check of keys
        keys = ()
    return await are_keys_lost(engine, plan, key_fingerprints(keys))


def missing_tables(plan: TablePlan, names: Sequence[str], now: float) -> list[str]:
    """Tables that the service needs now and that do not exist."""
    needed = [plan.router, plan.storage]
    if plan.rotating:
        needed.append(Month.at(now).table(plan.message))
    elif not live_tables(plan.message, names, None):
        needed.append(plan.message)
    return [name for name in needed if name not in names]


def _current(plan: TablePlan, names: Sequence[str], now: float) -> str:
    if plan.rotating:
        return Month.at(now).table(plan.message)
    return live_tables(plan.message, names, None)[0]


# ── The public URLs ───────────────────────────────────────────────────────────────────────────────

MAX_SKEW: Final = 30.0
"""Seconds a clock may be off: senders set the expiry of VAPID tokens by theirs."""
NOTED_SKEW: Final = 5.0
"""Seconds from which there is a warning, since nodes disagree about TTLs."""
STATUS: Final = "/status"

BEHIND_A_PROXY: Final = "Check the DNS name, the firewall and the proxy in front of the service"


async def check_endpoint_url(subject: Subject) -> AsyncIterator[Finding]:
    """This service answers at the public endpoint URL."""
    url = subject.settings.public_endpoint_url
    for finding in _check_host(url, "application servers", "endpoint_url"):
        yield finding
    try:
        answer = await fetch(url + STATUS)
    except ProbeFailed as failure:
        yield _unanswered(subject, url, failure)
        return
    version = service_version(answer.body)
    if answer.status != 200 or not version:
        found = f"{url}{STATUS} is answered {answer.status}, and not by this service"
        yield fail(found, BEHIND_A_PROXY)
    elif version != VERSION:
        found = f"{url} is version {version}, and {VERSION} is installed"
        yield warn(found, "Restart the service after an upgrade")
    else:
        yield ok(f"{url} is this service")
    for finding in _check_expiry(answer, subject):
        yield finding


async def check_websocket_url(subject: Subject) -> AsyncIterator[Finding]:
    """A WebSocket can be opened at the public URL."""
    settings = subject.settings
    if not settings.has_sockets and not settings.websocket_url:
        yield ok("not checked: connection nodes are elsewhere, and websocket_url is not given")
        return
    url = settings.public_websocket_url
    for finding in _check_host(url, "user agents", "websocket_url"):
        yield finding
    key = base64.b64encode(secrets.token_bytes(16)).decode("ascii")
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
    }
    try:
        answer = await fetch(url, headers)
    except ProbeFailed as failure:
        yield _unanswered(subject, url, failure)
        return
    if answer.status != 101 or answer.headers.get("sec-websocket-accept") != accept_key(key):
        found = f"{url} answers {answer.status}: no WebSocket is opened"
        yield fail(found, "Have the proxy pass on the headers Upgrade and Connection (HTTP/1.1)")
    else:
        yield ok(f"{url} opens a WebSocket")
    for finding in _check_expiry(answer, subject):
        yield finding


def _check_host(url: str, clients: str, option: str) -> Iterator[Finding]:
    parts = urlsplit(url)
    if is_loopback(parts.hostname or ""):
        yield warn(f"{url} reaches this machine only", f"Set {option} for {clients} elsewhere")
    elif parts.scheme in ("http", "ws"):
        advice = "Use TLS: a proxy in front of the service, or ssl_key and ssl_cert"
        yield warn(f"{url} is not encrypted, and browsers refuse it", advice)


def _unanswered(subject: Subject, url: str, failure: ProbeFailed) -> Finding:
    if failure.refused and not subject.is_running:
        return warn(f"{url}: {failure}", "Run the doctor again while the service runs")
    return fail(f"{url}: {failure}", BEHIND_A_PROXY)


def _check_expiry(answer: HttpResponse, subject: Subject) -> Iterator[Finding]:
    if (expires := certificate_expiry(answer)) is not None:
        days = int((expires - subject.clock()) // DAY)
        shown = f"its certificate is valid for {days} days"
        yield warn(shown, "Renew it") if days < FEW_DAYS else ok(shown)


async def check_clock(subject: Subject) -> AsyncIterator[Finding]:
    """The clock agrees with the Date headers of the public URL and the database."""
    compared = False
    for name, url in clock_urls(subject.settings).items():
        try:
            answer = await fetch(url)
            there = parsedate_to_datetime(answer.headers["date"]).timestamp()
        except (ProbeFailed, KeyError, ValueError):
            continue
        compared = True
        yield judge_clock(name, subject.clock() - there)
    if not compared:
        yield warn("not compared: no other clock answered", "See whether NTP is in use")


def clock_urls(settings: Settings) -> dict[str, str]:
    urls = {"the public URL": settings.public_endpoint_url + STATUS}
    place = parse_store(settings.store_url)
    if isinstance(place, DynamoUrl):
        region = place.region or "us-east-1"
        server = (place.endpoint or "").partition(",")[0]
        urls["the database"] = server or f"https://dynamodb.{region}.amazonaws.com/"
    return urls


def judge_clock(name: str, ahead: float) -> Finding:
    """`ahead`: seconds ahead of the other clock, which is known in whole seconds."""
    if abs(ahead) < NOTED_SKEW:
        return ok(f"within {NOTED_SKEW:g} s of that of {name}")
    way = "ahead of" if ahead > 0 else "behind"
    found = f"{abs(ahead):,.0f} s {way} that of {name}"
    if abs(ahead) <= MAX_SKEW:
        return warn(found, "Use NTP on all machines: nodes disagree about expired messages")
    return fail(found, "Use NTP: tokens of application servers are refused as expired or too new")


# ── Bridges ───────────────────────────────────────────────────────────────────────────────────────


async def check_credentials(subject: Subject) -> AsyncIterator[Finding]:
    """With `--live`, providers issue access tokens; nothing is sent to a device."""
    if not subject.is_live or not subject.settings.has_endpoint:
        yield ok("not asked whether they accept the credentials: --live does")
        return
    for name, router in sorted(load_routers(subject.settings, subject.clock).items()):
        try:
            accepted = await router.try_credentials()
        except RouterError as error:
            yield fail(f"{name}: {error.message}", "See the page of bridges")
        else:
            which = f"gave access tokens for {', '.join(accepted)}"
            yield ok(f"{name}: {which if accepted else 'can only be tried by sending a message'}")
        finally:
            await router.close()


# ── The command ───────────────────────────────────────────────────────────────────────────────────


CHECKS: Final = (
    *START_CHECKS,
    Check("disk", check_disk),
    Check("limits", check_limits),
    Check("ports", check_ports),
    Check("store", check_store, timeout=15.0),
    Check("providers", check_credentials, timeout=30.0),
    Check("endpoint URL", check_endpoint_url),
    Check("WebSocket URL", check_websocket_url),
    Check("clock", check_clock, timeout=12.0),
)
"""In the order in which they run and are printed."""


class Line(NamedTuple):
    check: str
    finding: Finding


def run(_: Settings, arguments: argparse.Namespace) -> int:
    """Print the findings; returns 1 if a check failed."""
    logs.configure(output="none")
    command = arguments.daemon or "serve"
    try:
        loaded = load(arguments, command=command, files=DAEMON_FILES[command])
    except StartupError as error:
        advice = f"`autopush {command}` does not start with it"
        lines = [Line(CHECKS[0].name, fail(str(error), advice))]
        return _report(lines, command, as_json=arguments.json)
    return run_until_signal(_run(loaded, arguments))


async def _run(loaded: Loaded, arguments: argparse.Namespace) -> int:
    ports = await look_at_ports(loaded.settings)
    subject = Subject(loaded.settings, time.time, loaded.warnings, ports, arguments.live)
    lines = []
    async for line in examine(subject, CHECKS):
        lines.append(line)
        if not arguments.json:
            _print(line)
    return _report(lines, loaded.settings.command, as_json=arguments.json, printed=True)


async def examine(subject: Subject, checks: Sequence[Check]) -> AsyncIterator[Line]:
    """Run the checks in turn; an error or a timeout becomes a finding."""
    for check in checks:
        findings: list[Finding] = []
        try:
            async with asyncio.timeout(check.timeout):
                await _collect(check.run(subject), findings)
        except StartupError as error:
            findings.append(fail(subject.settings.located(str(error)), check.advice))
        except TimeoutError:
            found = f"no result within {check.timeout:g} s"
            findings.append(fail(found, "See what of it does not answer"))
        except OSError as error:
            found = f"{error.filename or check.name}: {error.strerror}"
            findings.append(fail(found, "See its mode"))
        for finding in findings:
            yield Line(check.name, finding)


async def _collect(found: Findings, findings: list[Finding]) -> None:
    """Appends one by one: findings before a failure count too."""
    if isinstance(found, AsyncIterator):
        async for finding in found:
            findings.append(finding)  # noqa: PERF401 - see above
    else:
        findings.extend(found)


# ── Output ────────────────────────────────────────────────────────────────────────────────────────

_WIDTH: Final = max(len(check.name) for check in CHECKS)


def _print(line: Line) -> None:
    print(f"{line.finding.level:4}  {line.check:{_WIDTH}}  {line.finding}", flush=True)


def _report(lines: Sequence[Line], command: str, *, as_json: bool, printed: bool = False) -> int:
    """Print the remaining lines and the totals; returns the exit code."""
    counts = {level: sum(line.finding.level is level for line in lines) for level in Level}
    if as_json:
        print(json.dumps(to_document(lines, command), indent=2))
    else:
        for line in lines if not printed else ():
            _print(line)
        print(f"{counts[Level.FAIL]} failed, {counts[Level.WARN]} to look at")
    return INCOMPLETE if counts[Level.FAIL] else 0


def to_document(lines: Sequence[Line], command: str) -> dict[str, object]:
    """What `--json` prints."""
    return {
        "command": command,
        "ok": all(line.finding.level is not Level.FAIL for line in lines),
        "findings": [
            {
                "check": line.check,
                "level": line.finding.level,
                "found": line.finding.found,
                "advice": line.finding.advice,
            }
            for line in lines
        ],
    }
