"""The file descriptors of a worker, and how many of them connections of clients may take."""

import resource
from typing import Final

MIN_RESERVE: Final = 200
RESERVED_PART: Final = 10
"""One in so many descriptors is kept, at least `MIN_RESERVE`: for the store, logs, other nodes,
bridges, and the ports for pages. So clients never keep these from working."""
MAX_INTERNAL: Final = 4096
"""Connections to the internal ports of a worker. Each other worker has up to nine to it."""


def raise_limit() -> None:
    """Allow this process as many as the system does."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_allowed(wanted: int) -> int:
    """The connections of clients to hold at most, where the operator wants that many; 0 takes all
    that the limit of the system leaves. Returns 0 where nothing is limited.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return wanted
    left = files - _reserve(files)
    return min(wanted, left) if wanted else left


def internal_connections_allowed() -> int:
    """The connections of nodes and for pages to hold at most: half of what is kept from clients, so
    that whoever reaches an internal port does not take what the store and the logs need.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MAX_INTERNAL
    return min(MAX_INTERNAL, _reserve(files) // 2)


def _reserve(files: int) -> int:
    return min(max(MIN_RESERVE, files // RESERVED_PART), files // 2)
