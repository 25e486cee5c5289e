"""Which process holds which connection, told by /proc (Linux)."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

ESTABLISHED = "01"


def accepted(server_port: int, pids: Iterable[int]) -> dict[int, int]:
    """For each IPv4 connection to a port of this machine, as client port: which of these processes
    accepted it."""
    clients: dict[str, int] = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_, inode = line.split()[:10]
        if state == ESTABLISHED and int(local.rpartition(":")[2], 16) == server_port:
            clients[f"socket:[{inode}]"] = int(remote.rpartition(":")[2], 16)
    owners: dict[int, int] = {}
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if (target := str(file.readlink())) in clients:
                    owners[clients[target]] = pid
    return owners
