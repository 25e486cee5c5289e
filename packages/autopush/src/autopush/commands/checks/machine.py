"""What the machine offers the service: its data folder, keys, disk, and limits of the system."""

import os
import resource
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from autopush.commands.checks import Finding, Subject, fail, ok, warn
from autopush.keys import existing_keys, key_file
from autopush.service.listeners import BACKLOG
from autopush.settings import Settings, StartupError
from keytables.stores import SqliteUrl, parse_store

LITTLE_SPACE: Final = 1 << 30
"""Bytes free, below which a disk is a warning."""
NO_SPACE: Final = 100 << 20
"""Bytes free, below which it is a failure: SQLite's log alone may take that much."""
SPARE_FILES: Final = 256
"""Open files of a worker that are no WebSockets: the store, links to nodes, requests."""
FEW_FILES: Final = 10_000

NETWORK_FILE_SYSTEMS: Final = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs"),
        *("fuse.sshfs", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb3"),
        "smbfs",
    )
)
"""Where processes do not share the memory of SQLite's log."""
FLEETING_FILE_SYSTEMS: Final = {
    "tmpfs": "it is in memory and lost at a restart of the machine",
    "ramfs": "it is in memory and lost at a restart of the machine",
    "overlay": "it is the container's own layer and lost with the container; mount a volume",
}
MOUNTS: Final = Path("/proc/self/mountinfo")
SOMAXCONN: Final = Path("/proc/sys/net/core/somaxconn")
LOCAL_PORTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")

AS_USER: Final = "Run the doctor as the user that the service runs as"
_OTHERS: Final = 0o077


async def check_data_folder(subject: Subject) -> Sequence[Finding]:
    """It may be written by this user, and read by no other."""
    settings, folder = subject.settings, subject.settings.data
    if not settings.needs_data_folder:
        return [ok("not needed: the store and all keys are elsewhere")]
    if folder.is_symlink() and not folder.exists():
        found = f"{folder} is a link to {folder.readlink()}, which there is not"
        return [fail(found, "Make that folder, mount what has it, or name another with data")]
    if not folder.exists():
        parent = _existing(folder)
        if not os.access(parent, os.W_OK | os.X_OK):
            return [fail(f"{folder} cannot be created in {parent}", f"{AS_USER}, or set data")]
        return [ok(f"{folder} will be created at the first start")]
    if not folder.is_dir():
        return [fail(f"{folder} is not a folder", "Remove it, or name another folder with data")]
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return [fail(f"{folder} may not be written by this user", AS_USER)]
    mode = folder.stat().st_mode & 0o777
    if mode & _OTHERS:
        found = f"{folder} is open to other users (mode {mode:o})"
        return [warn(found, f"chmod 700 {folder}")]
    return [ok(f"{folder}, mode {mode:o}")]


async def check_logs(subject: Subject) -> Sequence[Finding]:
    """The file of the logs can be appended to."""
    output = subject.settings.log_output
    if output in ("stdout", "stderr", "none"):
        return [ok(f"log_output {output}")]
    return [_check_log_file(Path(output))]


def _check_log_file(path: Path) -> Finding:
    path = path.expanduser().absolute()
    if path.is_dir():
        return fail(f"{path} is a folder", "Name a file with log_output")
    # One that is missing is created, also at the end of a link.
    needed = path if path.exists() else path.resolve().parent
    if not os.access(needed, os.W_OK):
        reason = "may not be written by this user" if needed.exists() else "does not exist"
        return fail(f"cannot log to {path}: {needed} {reason}", f"{AS_USER}, or set log_output")
    return ok(str(path))


async def check_keys(subject: Subject) -> Sequence[Finding]:
    """Each key is configured, or in a file that can be read."""
    settings = subject.settings
    return [
        finding
        for name in ("crypto_key", *(["auth_key"] if settings.has_endpoint else []))
        for finding in _check_key(settings, name)
    ]


def _check_key(settings: Settings, name: str) -> Iterator[Finding]:
    configured: Sequence[str] = getattr(settings, name)
    path = key_file(settings.data, name)
    if configured:
        yield ok(f"{name}: {len(configured)} from {settings.sources[name].place}")
    elif not path.exists():
        if settings.is_embedded:
            yield ok(f"{name}: {path} will be created at the first start")
        else:
            advice = f"Give all nodes the same {name}, from autokey"
            yield warn(f"{name}: this node would create its own at the first start", advice)
    else:
        try:
            keys, warnings = existing_keys(settings.data, name)
        except StartupError as error:
            yield fail(f"{name}: {error}", "Put back what it held")
        else:
            for warning in warnings:
                yield warn(f"{name}: {warning}", "Then replace the key if others may have read it")
            if not warnings:
                yield ok(f"{name}: {len(keys)} in {path}")


async def check_disk(subject: Subject) -> Sequence[Finding]:
    """There is space, and what the service writes is kept."""
    settings = subject.settings
    if not (settings.needs_data_folder or settings.is_embedded):
        return [ok("nothing is kept on this machine")]
    folder = _existing(_store_folder(settings) or settings.data)
    free = shutil.disk_usage(folder).free
    shown = f"{free / (1 << 30):,.1f} GiB free for {folder}"
    if free < NO_SPACE:
        findings = [fail(shown, "Make space: messages cannot be stored on a full disk")]
    elif free < LITTLE_SPACE:
        findings = [warn(shown, "Make space before the disk is full")]
    else:
        findings = [ok(shown)]
    kind = file_system(folder, MOUNTS.read_text() if MOUNTS.exists() else "")
    if kind in NETWORK_FILE_SYSTEMS and settings.is_embedded:
        advice = "Put it on a local disk: SQLite's log does not work on network file systems"
        findings.append(fail(f"the store is on a network file system ({kind})", advice))
    elif (why := FLEETING_FILE_SYSTEMS.get(kind)) is not None:
        findings.append(warn(f"{folder} is on {kind}", f"Not for long: {why}"))
    elif kind:
        findings.append(ok(f"file system {kind}"))
    return findings


def file_system(folder: Path, mounts: str) -> str:
    """The type of the file system of a folder; `mounts`: the text of /proc/self/mountinfo."""
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


async def check_limits(subject: Subject) -> Sequence[Finding]:
    """The system allows as many connections as the settings do."""
    settings = subject.settings
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = settings.max_connections + SPARE_FILES if settings.has_sockets else 0
    shown = f"{files:,} open files for each worker"
    if files == resource.RLIM_INFINITY:
        findings = [ok("any number of open files")]
    elif files < needed:
        advice = f"Raise LimitNOFILE to {needed:,}, or lower max_connections"
        findings = [fail(f"{shown}, and max_connections needs {needed:,}", advice)]
    elif files < FEW_FILES and settings.has_sockets and not settings.max_connections:
        advice = "Raise LimitNOFILE, or set max_connections"
        findings = [warn(f"{shown}: so many WebSockets at most", advice)]
    else:
        findings = [ok(shown)]
    backlog = _number(SOMAXCONN)
    if backlog is not None and backlog < BACKLOG:
        advice = f"sysctl net.core.somaxconn={BACKLOG}"
        findings.append(warn(f"{backlog:,} connections may wait to be accepted", advice))
    elif backlog is not None:
        findings.append(ok(f"{BACKLOG:,} connections may wait to be accepted"))
    if settings.has_sockets and (ports := _local_ports()):
        shown = f"{ports:,} local ports, which bounds the connections of a proxy on this machine"
        if settings.max_connections * settings.workers > ports:
            advice = "Widen net.ipv4.ip_local_port_range, or give the proxy several addresses"
            findings.append(warn(f"{shown}; max_connections is more", advice))
        else:
            findings.append(ok(shown))
    return findings


def _local_ports() -> int:
    try:
        low, high = map(int, LOCAL_PORTS.read_text().split())
    except (OSError, ValueError):
        return 0
    return high - low + 1


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # not a Linux kernel
        return None


def _store_folder(settings: Settings) -> Path | None:
    place = parse_store(settings.store_url)
    return Path(place.path).parent if isinstance(place, SqliteUrl) else None


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that there is."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.exists())
