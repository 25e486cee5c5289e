"""Whether other services use the same embedded store: daemons beside `autopush serve`, or another.

Each service holds a lock on a file beside the store while it runs, which excludes nobody: it only
tells the others. The workers of a service have that of their main process, and so has the next
version of an upgrade, which is the same service.
"""

import fcntl
import os
import struct
from contextlib import suppress
from typing import Final, Self

SUFFIX: Final = "-services"
"""Of the file, after the name of the store."""

_FLOCK: Final = "hhqqi4x"
"""`struct flock` of fcntl(2)."""
_SUPPORTED: Final = hasattr(fcntl, "F_OFD_GETLK")


def _lock(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)


class StoreSharing:
    """The mark of this service. `descriptor`: to be inherited by the next version."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def begin(cls, store_file: str) -> Self | None:
        """Tell others of this service; None where that is not possible."""
        if not _SUPPORTED:
            return None
        descriptor = -1
        try:
            descriptor = os.open(f"{store_file}{SUFFIX}", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock(fcntl.F_RDLCK))
        except OSError:
            with suppress(OSError):
                os.close(descriptor)
            return None
        return cls(descriptor)

    def is_alone(self) -> bool:
        """Whether no other service uses the store now."""
        flock = fcntl.fcntl(self.descriptor, fcntl.F_OFD_GETLK, _lock(fcntl.F_WRLCK))
        return bool(struct.unpack(_FLOCK, flock)[0] == fcntl.F_UNLCK)
