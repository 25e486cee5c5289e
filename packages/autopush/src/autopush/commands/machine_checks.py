"""Checks of the doctor: the disk, and what the system allows the service."""

import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from autopush.commands.checks import Finding, Subject, existing_folder, fail, ok, warn
from autopush.service.listeners import BACKLOG, client_files

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

PROCESS_BYTES: Final = 2560
"""Memory of a worker for an idle user agent: see `bench --only scale`."""
KERNEL_BYTES: Final = 5 << 10
"""The kernel's for its socket."""
WORKER_BYTES: Final = 40 << 20
"""A worker's own, with the caches of the store."""
MEMORY: Final = Path("/proc/meminfo")
FILES: Final = Path("/proc/sys/fs/file-nr")
"""Open, unused and allowed file descriptors of the whole system."""
TCP_MEMORY: Final = Path("/proc/sys/net/ipv4/tcp_mem")
"""Pages of all TCP buffers: no pressure below the first number, saving above the second."""
TRACKED: Final = Path("/proc/sys/net/netfilter/nf_conntrack_count")
MOST_TRACKED: Final = Path("/proc/sys/net/netfilter/nf_conntrack_max")


def check_disk(subject: Subject) -> Iterator[Finding]:
    """There is free space, on a file system that is local and persistent."""
    settings = subject.settings
    if not (settings.needs_data_folder or settings.is_embedded):
        yield ok("nothing is kept on this machine")
        return
    file = settings.store_file
    folder = existing_folder(settings.data if file is None else Path(file).parent)
    free = shutil.disk_usage(folder).free
    space = f"{free / (1 << 30):,.1f} GiB free for {folder}"
    if free < NO_SPACE:
        yield fail(space, "Make space: messages cannot be stored on a full disk")
    elif free < LITTLE_SPACE:
        yield warn(space, "Make space before the disk is full")
    else:
        yield ok(space)
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
    text = f"{files:,} open files for each worker"
    if files == resource.RLIM_INFINITY:
        yield ok("any number of open files")
    elif files < needed:
        advice = f"Raise LimitNOFILE to {needed:,}, or lower max_connections"
        yield fail(f"{text}, and max_connections needs {needed:,}", advice)
    elif files < FEW_FILES and settings.has_sockets and not settings.max_connections:
        advice = "Raise LimitNOFILE, or set max_connections"
        yield warn(f"{text}: so many WebSockets at most", advice)
    else:
        yield ok(text)
    backlog = _numbers(SOMAXCONN)
    if backlog:
        text = f"{min(backlog[0], BACKLOG):,} connections may wait to be accepted"
        advice = f"sysctl net.core.somaxconn={BACKLOG}"
        yield warn(text, advice) if backlog[0] < SHORT_BACKLOG else ok(text)
    local = _numbers(LOCAL_PORTS)
    if settings.has_sockets and len(local) == 2:
        ports = local[1] - local[0] + 1
        text = f"{ports:,} local ports, which bounds the connections of a proxy on this machine"
        if settings.max_connections * settings.workers > ports:
            advice = "Widen net.ipv4.ip_local_port_range, or give the proxy several addresses"
            yield warn(f"{text}; max_connections is more", advice)
        else:
            yield ok(text)


class CapacityLimit(NamedTuple):
    """`user_agents`: how many the resource suffices for."""

    user_agents: int
    resource_name: str
    advice: str


def check_capacity(subject: Subject) -> Iterator[Finding]:
    """How many user agents this machine can hold, and which limit comes first."""
    settings = subject.settings
    limits = sorted(capacity_limits(settings.workers)) if settings.has_sockets else []
    if not limits:
        yield ok("no WebSockets, or no limit is known")
        return
    text = "; ".join(f"{name} {number:,}" for number, name, _ in limits)
    wanted = settings.max_connections * settings.workers
    least, _, advice = limits[0]
    if least < wanted:
        problem = f"max_connections of all workers is {wanted:,}, and there is less room: {text}"
        yield warn(problem, advice)
    else:
        yield ok(f"room for {least:,} user agents: {text}")


def capacity_limits(workers: int) -> Iterator[CapacityLimit]:
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY:
        advice = "Raise LimitNOFILE, or have more workers"
        yield CapacityLimit(workers * client_files(files), "open files of the workers", advice)
    if (memory := _available_memory()) is not None:
        user_agents = max(0, memory - workers * WORKER_BYTES) // (PROCESS_BYTES + KERNEL_BYTES)
        yield CapacityLimit(user_agents, "memory", "Lower max_connections, or have more memory")
    if system := _numbers(FILES):
        yield CapacityLimit(
            system[2] - system[0], "open files of the system", "Raise sysctl fs.file-max"
        )
    if buffers := _numbers(TCP_MEMORY):
        advice = "Raise sysctl net.ipv4.tcp_mem"
        yield CapacityLimit(buffers[1], "a page of TCP buffers each", advice)
    if (tracked := _numbers(TRACKED)) and tracked[0] and (most := _numbers(MOST_TRACKED)):
        advice = "Raise sysctl net.netfilter.nf_conntrack_max, or do not track these ports"
        yield CapacityLimit(most[0] - tracked[0], "table of the firewall", advice)


def _available_memory() -> int | None:
    try:
        lines = MEMORY.read_text().splitlines()
    except OSError:  # not a Linux kernel
        return None
    kilobytes = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return next((int(each) << 10 for each in kilobytes), None)


def _numbers(path: Path) -> list[int]:
    try:
        return [int(word) for word in path.read_text().split()]
    except (OSError, ValueError):  # not a Linux kernel
        return []
